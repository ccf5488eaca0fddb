"""The reference of the Python interface, made of signatures, docstrings and classes.

Four pages under reference/api: functions, the table, what calls return, errors. All of it comes
from the code; only the groups of calls, and what to do about errors, are put into words here.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import api_types
from api_text import as_markdown, field_docs, first_sentence, signature

import hoodoo
from hoodoo import errors

FOLDER = "reference/api"
FUNCTIONS, TABLE, RESULTS, ERRORS = (
    f"{FOLDER}/{name}.md" for name in ("functions", "table", "results", "errors")
)
PLAIN = (
    *("create_table", "open_table", "upgrade_table", "configure", "register", "stream_to"),
    "show_progress",
)
GROUPS: dict[str, tuple[str, ...]] = {
    "Read": ("to_arrow", "to_pandas", "to_batches", "head", "count", "read", "changes"),
    "Write": (
        *("insert", "bulk_insert", "upsert", "insert_overwrite", "insert_overwrite_table"),
        "delete_partitions",
    ),
    "Change rows": ("delete", "update", "merge"),
    "Look into it": (
        *("uri", "name", "schema", "properties", "history", "timeline", "files", "plans"),
        *("conflicts", "lock_status", "doctor"),
    ),
    "Table services": (
        *("schedule_compaction", "run_compaction", "schedule_log_compaction"),
        *("run_log_compaction", "schedule_clustering", "run_clustering"),
        *("request_cancel", "execute_cancel"),
    ),
    "Indexes": ("create_index", "schedule_index", "run_index", "drop_index"),
    "What the table keeps": (
        *("clean", "archive", "savepoint", "savepoints", "delete_savepoint", "restore", "undo"),
    ),
    "Repair": ("recover", "rollback", "upgrade"),
    "Groups of the same calls": ("services", "indexes", "retention", "inspect"),
}
FAMILIES: dict[type, str] = {
    errors.ConfigError: "Change the setting.",
    errors.InputError: "Change the rows or the arguments. Nothing was written.",
    errors.NoSuchTable: "Check the path, or create the table.",
    errors.TableExists: "Open the table, or take another path.",
    errors.UnsupportedFeature: "Use another way: hoodoo does not do this.",
    errors.FormatError: "Look at the file that the message names. It is damaged, or newer.",
    errors.StorageError: "Look at the store: permissions, network, options. Then try again.",
    errors.TimelineError: "Look at `hoodoo timeline` and `hoodoo plans`, then decide anew.",
    errors.EngineFailed: "Look at the error of Spark that is the cause of this one.",
    errors.LockTimeout: "Try again; `hoodoo lock status` says who holds the lock.",
    errors.CommitFailed: "The write is not in the table. Run it again.",
    errors.CommitUnknown: "**The write may be in the table.** Look before you run it again, or "
    "send it again with the same `transaction`.",
}


def pages() -> dict[str, str]:
    """The pages, by their place on the site."""
    return {
        FUNCTIONS: "\n".join(_functions_page()),
        TABLE: "\n".join(_table_page()),
        RESULTS: "\n".join(_results_page()),
        ERRORS: "\n".join(_errors_page()),
    }


def methods() -> dict[str, Any]:
    """The public calls and properties of a table, by name."""
    listed = inspect.getmembers_static(hoodoo.Table)
    return {name: member for name, member in listed if not name.startswith("_")}


def functions() -> dict[str, Any]:
    """The functions of the package, by name."""
    return {name: getattr(hoodoo, name) for name in PLAIN}


def _functions_page() -> Iterator[str]:
    yield from ("# Functions", "", "What `import hoodoo` gives, beside [Table](table.md).", "")
    yield from _overview(functions())
    for name, function in functions().items():
        yield from _call(name, function, "hoodoo.", "##")


def _table_page() -> Iterator[str]:
    present = methods()
    yield from ("# Table", "", "`hoodoo.create_table` and `hoodoo.open_table` give one.", "")
    for group, names in GROUPS.items():
        yield from (f"**[{group}](#{_slug(group)})**", "")
        yield from _overview({name: present[name] for name in names})
    for group, names in GROUPS.items():
        yield from (f"## {group}", "")
        for name in names:
            yield from _call(name, present[name], "table.", "###")


def _overview(calls: dict[str, Any]) -> Iterator[str]:
    yield from ("| | |", "|---|---|")
    for name, call in calls.items():
        yield f"| [`{name}`](#{_slug(name)}) | {first_sentence(_docstring(call))} |"
    yield ""


def _call(name: str, call: Any, prefix: str, level: str) -> Iterator[str]:
    if inspect.isfunction(call):
        shown = signature(f"{prefix}{name}", call)
    else:
        shown = f"{prefix}{name}: {inspect.signature(_function(call)).return_annotation}"
    yield from (
        f"{level} {name}",
        "",
        "```python",
        shown,
        "```",
        "",
        as_markdown(_docstring(call)),
        "",
    )
    kinds = (kind.__name__ for kind in api_types.results_of(call))
    links = ", ".join(f"[`{kind}`](results.md#{_slug(kind)})" for kind in kinds)
    if links:
        yield from (f"Returns: {links}", "")


def _function(call: Any) -> Any:
    """The function behind a property."""
    if isinstance(call, property):
        return call.fget
    return getattr(call, "func", call)


def _docstring(call: Any) -> str:
    return inspect.getdoc(_function(call)) or ""


@cache
def _result_kinds() -> tuple[type, ...]:
    calls = [methods()[name] for names in GROUPS.values() for name in names]
    calls += functions().values()
    kinds = [kind for call in calls for kind in api_types.results_of(call)]
    return api_types.reachable([*kinds, hoodoo.Progress])


@cache
def _result_names() -> frozenset[str]:
    return frozenset(kind.__name__ for kind in _result_kinds())


def _results_page() -> Iterator[str]:
    yield from (
        *("# What calls return", ""),
        "Values that calls of a table return, or hand to `progress`: frozen dataclasses.",
        "Instants and completion times are texts of 17 digits, such as `20261118094500123`.",
        "",
    )
    for kind in _result_kinds():
        yield from (f"## {kind.__name__}", "", as_markdown(inspect.getdoc(kind) or ""), "")
        told = field_docs(kind)
        yield from ("| field | type | |", "|---|---|---|")
        for field, annotation in api_types.fields(kind):
            yield f"| `{field}` | {_linked_type(annotation)} | {told.get(field, '')} |"
        yield ""


def _linked_type(annotation: str) -> str:
    """A type as code, with a link to the class that it names."""
    shown = annotation.replace("|", "\\|")
    named = [name for name in re.findall(r"\b[A-Z]\w+", annotation) if name in _result_names()]
    return f"[`{shown}`](#{_slug(named[0])})" if named else f"`{shown}`"


def _errors_page() -> Iterator[str]:
    yield from (
        *("# Errors", ""),
        "All errors of hoodoo are a `hoodoo.HoodooError`, and each is in `hoodoo` itself:",
        "`except hoodoo.WriteConflict`. They are split by what the caller must do.",
        *("", "| error | what to do |", "|---|---|"),
    )
    for family, advice in FAMILIES.items():
        yield f"| [`{family.__name__}`](#{_slug(family.__name__)}) | {advice} |"
    yield ""
    for family, advice in FAMILIES.items():
        yield from (f"## {family.__name__}", "", as_markdown(inspect.getdoc(family) or ""), "")
        yield from (f"*What to do*: {advice}", "")
        yield from _fields_of_error(family)
        kinds = list(_below(family))
        if kinds:
            yield from ("| more exactly | |", "|---|---|")
            for kind in kinds:
                base = kind.__bases__[0]
                under = "" if base is family else f" (a `{base.__name__}`)"
                text = " ".join((inspect.getdoc(kind) or "").split())
                anchor = f'<span id="{_slug(kind.__name__)}"></span>'
                yield f"| {anchor}`{kind.__name__}`{under} | {text} |"
            yield ""


def _fields_of_error(kind: type) -> Iterator[str]:
    source = inspect.getsource(kind)
    names = dict.fromkeys(re.findall(r"self\.([a-z]\w*) = ", source))
    if names:
        yield from ("Fields: " + ", ".join(f"`{name}`" for name in names), "")


def _below(kind: type) -> Iterator[type]:
    for each in sorted(kind.__subclasses__(), key=lambda each: each.__name__):
        if each.__module__ == errors.__name__:
            yield each
            yield from _below(each)


def _slug(heading: str) -> str:
    return heading.lower().replace(" ", "-")


@cache
def _places() -> dict[str, str]:
    """Where each name of the interface is explained: page and anchor."""
    table = {name: f"{TABLE}#{name}" for name in methods()}
    plain = {f"hoodoo.{name}": f"{FUNCTIONS}#{name}" for name in functions()}
    failures = {
        name: f"{ERRORS}#{_slug(name)}"
        for name, kind in vars(errors).items()
        if inspect.isclass(kind) and issubclass(kind, errors.HoodooError)
        if kind is not errors.HoodooError
    }
    prefixed = {
        f"{owner}.{name}": place for name, place in table.items() for owner in ("table", "Table")
    }
    results = {kind.__name__: f"{RESULTS}#{_slug(kind.__name__)}" for kind in _result_kinds()}
    prefixed |= {f"hoodoo.{name}": place for name, place in failures.items()}
    return {
        **results,
        **prefixed,
        **plain,
        **failures,
        "Table": TABLE,
        "stream_to": f"{FUNCTIONS}#stream_to",
    }


def link_names(html: str, uri: str, link_to: Callable[[str], str]) -> str:
    """The HTML of a page, with code such as `table.upsert(df)` linked to the reference.

    The page of the table itself says `upsert`.
    """
    owner = "table." if uri == TABLE else ""

    def link(match: re.Match[str]) -> str:
        place = _places().get(match[2]) or _places().get(owner + match[2])
        if match[1] or place is None:
            return match[0]
        page, _, anchor = place.partition("#")
        return (
            f'<a class="api" href="{link_to(page)}{"#" if anchor else ""}{anchor}">{match[0]}</a>'
        )

    return re.sub(r"(<a [^>]*>)?<code>([A-Za-z_.]+)(\([^<]*\))?</code>", link, html)
