"""The rules of the house that no linter knows, as functions from source text to complaints.

`docs/architecture.md` says why; `test_tidy.py` applies them to the tree, and to small sources that
break each of them. Imports inside functions count like those at the top of a module.
"""

from __future__ import annotations

import ast
import builtins
import io
import keyword
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import TypeGuard

# A folder imports itself and the lines above its own; neighbours on a line leave each other alone.
Order = tuple[tuple[str, ...], ...]
LAYERS: Order = (
    ("deprecated",),
    ("errors",),
    ("model",),
    ("config",),
    ("format",),
    ("rows",),
    ("storage",),
    ("runtime",),
    ("table",),
    ("concurrency",),
    ("metadata_table",),
    ("read",),
    ("recovery",),
    ("write",),
    ("services",),
    ("inspect", "spark"),
    ("api",),
    ("cli", "console", "sql"),
)
# The same inside a package: rooms and modules that lie directly in it.
INSIDE: dict[str, Order] = {
    "format": (
        ("xxhash", "json_files", "arrow_types", "properties"),
        ("avro",),
        ("schema",),
        ("parquet", "hfile"),
        ("log",),
        ("metadata_table", "timeline"),
        ("markers",),
    ),
    "table": (
        ("history",),
        ("timeline",),
        ("properties",),
        ("ref",),
        ("schema", "options"),
        ("writable",),
        ("create",),
    ),
    "concurrency": (
        ("locks",),
        ("heartbeats",),
        ("markers",),
        ("conflicts",),
        ("transactions",),
    ),
    "metadata_table": (
        ("table",),
        ("entries",),
        ("indexes",),
        ("changes",),
        ("delta_commits",),
        ("recorder",),
        ("build",),
    ),
    "read": (
        ("file_listing",),
        ("snapshot",),
        ("base_files",),
        ("log_files",),
        ("scan",),
        ("change_feed",),
    ),
    "write": (
        ("index",),
        ("planning",),
        ("files",),
        ("commit",),
        ("execute",),
        ("retry",),
        ("operations", "detached"),
        ("row_changes",),
    ),
    "services": (
        ("plans",),
        ("indexing",),
        ("clean",),
        ("savepoints", "archive"),
        ("compaction", "clustering", "restore", "upgrade"),
        ("registry",),
        ("upkeep",),
        ("repairs",),
    ),
    "spark": (
        ("session",),
        ("schema",),
        ("placement",),
        ("engine",),
        ("marker_server",),
        ("datasource",),
        ("read",),
        ("write",),
        ("row_changes",),
        ("worker_daemon",),
    ),
    "cli": (
        ("output",),
        ("options",),
        ("java",),
        ("input", "spark"),
        ("demo",),
        ("commands",),
        ("main",),
    ),
}
# Every folder: a new one is a decision, which docs/architecture.md tells.
ROOMS = {
    "hoodoo": {
        *("api", "cli", "concurrency", "config", "format", "inspect", "metadata_table", "model"),
        *("read", "recovery", "rows", "runtime", "services", "spark", "storage", "table", "write"),
        *("cli.commands", "cli.demo", "cli.input", "cli.output"),
        *("concurrency.conflicts", "concurrency.locks", "concurrency.transactions"),
        *("format.avro", "format.hfile", "format.log", "format.metadata_table", "format.parquet"),
        *("format.timeline", "metadata_table.entries", "metadata_table.indexes"),
        *("read.change_feed", "services.archive", "services.clean", "services.clustering"),
        *(
            "services.compaction",
            "services.indexing",
            "services.plans",
            "services.restore",
            "services.upgrade",
        ),
        *("write.index", "write.planning", "write.row_changes"),
    },
    "hoodoo_testing": {
        *("servers", "simulator", "simulator.actors", "simulator.checks", "simulator.scenarios"),
        *("simulator.search", "simulator.world", "tables"),
    },
    "pyspark_hoodoo": set[str](),
}
ROOM_ENTRIES = 14


def rank_names(order: Order) -> dict[str, int]:
    """The position of each name in an order of layers."""
    return {name: rank for rank, names in enumerate(order) for name in names}


RANK = rank_names(LAYERS)

# What touches the world, and who may: all others are handed an `Env`.
WORLDLY_MODULES = {
    *("os", "time", "random", "uuid", "threading", "concurrent", "multiprocessing", "asyncio"),
    *("pathlib", "shutil", "tempfile", "glob", "subprocess", "socket", "secrets", "signal"),
}
WORLDLY_CALLS = {"open", "print", "input"}
CLOCKS = {"now", "utcnow", "today"}
WORLDLY_FOLDERS = {"storage", "runtime", "spark", "cli", "console", "testing"}
READS_ENVIRONMENT = {"cli", "testing", "hoodoo.spark.session.configure"}

STDLIB_ONLY = {"errors", "model", "config"}
HOMES = {
    "obstore": {"storage"},
    "fastavro": {"format"},
    "pyspark": {"spark", "api", "testing"},
    "kazoo": {"concurrency"},
    "typer": {"cli"},
    "rich": {"cli"},
    "pytest": {"testing"},
    "hudi": {"cli"},  # the tour shows what it reads
}

# What few modules may call: how the head is taken, which decides, and how a transaction is made.
SOLE_CALLERS = {
    "hoodoo.concurrency.transactions.head.replace_head": {"hoodoo.concurrency.transactions.gate"},
    "hoodoo.concurrency.transactions.transaction.Txn": {
        "hoodoo.concurrency.transactions.transaction"
    },
}

# Class names that several modules have. The list shrinks: an entry that is not needed fails.
SAME_NAMES: set[str] = set()

MODULE_LINES = 600
FUNCTION_LINES = 70

BAD_CLASS_NAME = re.compile(r"^_?Hoodie|(Manager|Utils?|Helpers?|Factory|Base|Impl)$")
BAD_MODULE_NAME = re.compile(r"^(utils?|helpers?|common|misc|managers?|factory|factories)$")
SUPPRESSION = re.compile(r"#\s*(noqa|type:\s*ignore|pragma:|ruff:|mypy:|pyright:|pylint:)")
EXPLAINED = re.compile(
    r"#\s*(noqa: [A-Z]+\d+(, [A-Z]+\d+)*|type: ignore\[[\w-]+(, ?[\w-]+)*\])"
    r"\s+([-#]\s*)?\w\S* \w\S*"
)
BACKTICKED = re.compile(r"(?<!`)`([a-z][a-z0-9_]{2,})`(?!`)")
PROMISE = re.compile(
    r"\bonce (hoodoo|there is (one|such))\b|\b(is|are) to come\b|\bnot yet\b", re.I
)
PARTICIPLES = frozenset(
    {
        *("told", "kept", "given", "found", "placed", "led", "asked", "chosen", "met", "known"),
        *("held", "gone", "made", "done", "left", "taken", "written", "sent", "seen", "begun"),
        *("built", "drawn", "lost", "shown"),
    }
)
NO_PARTICIPLES = frozenset({"feed", "seed", "need", "embed", "speed"})
PRONOUNS = frozenset(
    {
        *("mine", "ours", "theirs", "other", "others", "own", "each", "one", "ones", "both"),
        *("another", "it", "its", "they", "them", "who", "whoever", "what", "someone", "somebody"),
        *("nobody", "anybody", "everybody"),
    }
)
# Of all bindings of variables and parameters in the package, how many may be bare participles.
MOST_PARTICIPLES = 1.5  # percent
# Names of more than local scope that are participles or pronouns all the same, and why.
VAGUE_NAMES: dict[str, str] = {
    "BufferedWrite.closed": "as in Python's io",
    "CommitMetadata.compacted": "a name in JSON files",
    "CommitReport.deleted": "counts rows, in the API's results",
    "CommitReport.inserted": "counts rows, in the API's results",
    "CommitReport.updated": "counts rows, in the API's results",
    "Decision.staged": "a name in JSON files",
    "IndexReport.built": "a field of the API's results",
    "IndexResult.built": "a field of the API's results",
    "IndexResult.dropped": "a field of the API's results",
    "InstantReport.cancelled": "a field of the API's results",
    "Lease.expired": "a name in JSON files",
    "LocalWrite.closed": "as in Python's io",
    "Progress.done": "what callbacks of the API get, beside `total`",
    "RangeReader.closed": "as in Python's io",
    "SpooledWrite.closed": "as in Python's io",
    "StoredTable.completed": "a state of the format, beside `pending`",
    "TaskProgress.done": "as `Progress.done`",
    "Timeline.completed": "a state of the format, beside `pending`",
    "UnsupportedVersion.what": "an attribute of a public error",
    "UpgradeResult.dropped": "a field of the API's results",
    "WriteStream.closed": "as in Python's io",
    "WriteTotals.deleted": "counts rows, in the API's results",
    "WriteTotals.inserted": "counts rows, in the API's results",
    "WriteTotals.updated": "counts rows, in the API's results",
    "_ONE": "the number",
    "_TracedWrite.closed": "as in Python's io",
}
# Names that are to get better ones: the list only shrinks.
NAMES_LEFT = {
    "MetadataTable._written",
    "PhaseTimer.timed",
    "SearchOutsideLock.others",
    "Window.replaced",
    "Window.written",
    "_Matched",
    "_Overlap.mine",
    "_Overlap.theirs",
    "_added",
    "_moved",
    "_named",
    "_one",
    "_outdated",
}
MACHINE_PATH = re.compile(r"(?<![\w.])/(root|home|work|Users)/\w+")
REGISTRY = re.compile(r"\b(pypi|pythonhosted|npmjs|anaconda|maven(\.apache)?)\.(org|com)\b")


@dataclass(frozen=True)
class Source:
    """A Python file: its path in the repository and its text."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.path)

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """Names from the package down: `src/hoodoo/format/schema.py` is hoodoo, format, schema."""
        path = PurePosixPath(self.path).with_suffix("")
        names = tuple(part for part in path.parts if part != "src")
        return names[:-1] if names[-1] == "__init__" else names

    @property
    def module(self) -> str:
        return ".".join(self.parts)

    @property
    def folder(self) -> str:
        """The name below the package, which decides the layer; "" is the package itself."""
        if self.parts[0] == "hoodoo_testing":
            return "testing"
        return self.parts[1] if len(self.parts) > 1 else ""

    def complain(self, node: ast.AST, text: str) -> str:
        return f"{self.path}:{getattr(node, 'lineno', 1)}: {text}"


def imports(source: Source) -> Iterator[tuple[ast.stmt, str]]:
    """Each import with the module that it names; of `from a import b`, both `a` and `a.b`."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node, node.module or "." * node.level
            yield from ((node, f"{node.module}.{alias.name}") for alias in node.names)


# -- rules for one module of the package ------------------------------------------------------


def layers(source: Source) -> Iterator[str]:
    """Imports go down, between the folders of the package and inside each of them."""
    own = source.folder
    if own and own not in RANK and own != "testing":
        yield source.complain(source.tree, f"`{own}` is in no layer")
        return
    for node, name in imports(source):
        if name.startswith("."):
            yield source.complain(node, "relative import")
        if name.partition(".")[0] == "hoodoo_testing" and own != "testing":
            yield source.complain(node, "only tests import hoodoo_testing")
        words = name.split(".")
        if words[0] != "hoodoo" or len(words) < 2 or own in ("", "testing"):
            continue
        if words[1] in RANK and words[1] != own and RANK[words[1]] >= RANK[own]:
            yield source.complain(node, f"`{own}` may not import `{words[1]}`")
        if words[1] == own and own in INSIDE and len(source.parts) > 2 and len(words) > 2:
            yield from _check_inside(source, node, words[2])


def _check_inside(source: Source, node: ast.AST, other: str) -> Iterator[str]:
    """Check an import within one folder of the package against the order inside it."""
    rank = rank_names(INSIDE[source.folder])
    own = source.parts[2]
    if own not in rank:
        yield source.complain(node, f"`{source.folder}/{own}` has no place in INSIDE")
    elif own != other and rank.get(other, -1) >= rank[own]:
        yield source.complain(
            node, f"`{source.folder}/{own}` may not import `{source.folder}/{other}`"
        )


def libraries(source: Source) -> Iterator[str]:
    """The lowest layers need nothing but Python; some libraries have one home."""
    for node, name in imports(source):
        top = name.partition(".")[0]
        if top in ("hoodoo", ""):
            continue
        if source.folder in STDLIB_ONLY and top not in sys.stdlib_module_names:
            yield source.complain(node, f"`{source.folder}` is standard library only: {top}")
        elif source.folder not in HOMES.get(top, {source.folder}):
            yield source.complain(node, f"{top} does not belong into `{source.folder}`")


def world(source: Source) -> Iterator[str]:
    """Nothing but the seam touches files, clocks, chance, threads or the environment."""
    for node in ast.walk(source.tree):
        is_environ = isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv")
        if is_environ and not READS_ENVIRONMENT & {source.folder, source.module}:
            yield source.complain(node, "only the command line reads the environment")
    if source.folder in WORLDLY_FOLDERS:
        return
    for statement, name in imports(source):
        if name.partition(".")[0] in WORLDLY_MODULES:
            yield source.complain(statement, f"{name} belongs behind the seam")
    for node in ast.walk(source.tree):
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in WORLDLY_CALLS:
                yield source.complain(node, f"{name}() belongs behind the seam")
            case ast.Attribute(
                value=ast.Name(id="datetime" | "date") | ast.Attribute(attr="datetime" | "date"),
                attr=name,
            ) if name in CLOCKS:
                yield source.complain(node, f"{name}() belongs behind the seam")


def callers(source: Source) -> Iterator[str]:
    """The gate is the only way to publish."""
    for callee, allowed in SOLE_CALLERS.items():
        if source.module not in allowed:
            for call in _calls(source, callee):
                yield source.complain(call, f"only {' and '.join(sorted(allowed))} call {callee}")
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ImportFrom):
            renamed = {f"{node.module}.{each.name}" for each in node.names if each.asname}
            if renamed & SOLE_CALLERS.keys():
                yield source.complain(node, "import it by its name, so that its calls are found")


def _calls(source: Source, callee: str) -> Iterator[ast.Call]:
    """Calls of a function by its name, alone or as an attribute of its module."""
    module, _, name = callee.rpartition(".")
    spellings = {name, f"{module.rpartition('.')[2]}.{name}", callee}
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in spellings:
            yield node


def sizes(source: Source) -> Iterator[str]:
    """Modules and functions that fit into a head."""
    lines = len(source.text.splitlines())
    if lines > MODULE_LINES:
        yield source.complain(source.tree, f"{lines} lines (at most {MODULE_LINES})")
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES:
                told = f"{node.name} has {lines} lines (at most {FUNCTION_LINES})"
                yield source.complain(node, told)


def packing(source: Source) -> Iterator[str]:
    """Arguments are named, or stand for themselves: no `f(*(a, b))` to please a formatter."""
    for node in ast.walk(source.tree):
        for each in node.args if isinstance(node, ast.Call) else ():
            if isinstance(each, ast.Starred) and isinstance(each.value, ast.Tuple | ast.List):
                yield source.complain(each, "arguments packed into a literal")


def names(source: Source) -> Iterator[str]:
    """The format's own words: no prefixes, no managers."""
    if BAD_MODULE_NAME.search(source.parts[-1]):
        yield source.complain(source.tree, f"{source.parts[-1]} says nothing about its content")
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ClassDef) and BAD_CLASS_NAME.search(node.name):
            yield source.complain(node, f"class {node.name} is not named for what it is")


# -- rules for the whole package --------------------------------------------------------------


def docstrings(sources: Iterable[Source]) -> Iterator[str]:
    """A sentence on every public name.

    Methods may do without if they are one statement, or if a protocol of ours tells of them.
    """
    sources = list(sources)
    told = {name for source in sources for name in _protocol_methods(source)}
    for source in sources:
        if source.text.strip() and not ast.get_docstring(source.tree):
            yield source.complain(source.tree, "the module has no docstring")
        for node in source.tree.body:
            if not _is_public(node):
                continue
            if not ast.get_docstring(node):
                yield source.complain(node, f"{node.name} has no docstring")
            for method in node.body if isinstance(node, ast.ClassDef) else ():
                is_told = isinstance(method, ast.FunctionDef) and (
                    len(method.body) == 1
                    or method.name in told
                    or method.name.startswith("test_")
                    or ast.get_docstring(method)
                )
                if _is_public(method) and not is_told:
                    yield source.complain(method, f"{node.name}.{method.name} has no docstring")


def _is_public(node: ast.AST) -> TypeGuard[ast.FunctionDef | ast.ClassDef]:
    if not isinstance(node, ast.FunctionDef | ast.ClassDef) or node.name.startswith("_"):
        return False
    return "overload" not in (ast.unparse(each) for each in node.decorator_list)


def _protocol_methods(source: Source) -> Iterator[str]:
    for node in source.tree.body:
        if not isinstance(node, ast.ClassDef):
            continue
        if any(ast.unparse(base).startswith("Protocol") for base in node.bases):
            yield from (item.name for item in node.body if isinstance(item, ast.FunctionDef))


def rooms(sources: Iterable[Source]) -> Iterator[str]:
    """A folder is a room of the list, is not wide, and opens with what is in it."""
    sources = list(sources)
    entries: dict[tuple[str, ...], set[str]] = {}
    for source in sources:
        top, *inner = source.parts
        folder = source.parts if source.path.endswith("__init__.py") else source.parts[:-1]
        room = ".".join(folder[1:])
        if room and room not in ROOMS.get(top, set()):
            yield source.complain(source.tree, f"`{room}` is no room of `{top}`")
        for depth in range(1, len(inner) + 1):
            entries.setdefault(source.parts[:depth], set()).add(source.parts[depth])
        if source.path.endswith("__init__.py") and room:
            lines = (ast.get_docstring(source.tree) or "").splitlines()
            if len(lines) < 4:
                yield source.complain(source.tree, "a room opens with what is in it (4 lines)")
    for parts, names in entries.items():
        if len(parts) > 1 and len(names) > ROOM_ENTRIES:
            yield f"{'/'.join(parts)}: {len(names)} entries (at most {ROOM_ENTRIES})"


def cycles(sources: Iterable[Source]) -> Iterator[str]:
    """No module imports itself by way of others; imports for types alone do not count."""
    graph = {source.module: set[str]() for source in sources}
    for source in sources:
        hidden = {id(node) for block in _typing_blocks(source) for node in ast.walk(block)}
        for node, name in imports(source):
            is_name_of = f"{name}." in {f"{other}." for other in graph}
            if is_name_of and name != source.module and id(node) not in hidden:
                graph[source.module].add(name)
    done: set[str] = set()

    def visit(module: str, trail: tuple[str, ...]) -> Iterator[str]:
        if module in trail:
            yield "cycle: " + " -> ".join((*trail[trail.index(module) :], module))
        elif module not in done:
            for other in sorted(graph[module]):
                yield from visit(other, (*trail, module))
            done.add(module)

    for module in sorted(graph):
        yield from visit(module, ())


def _typing_blocks(source: Source) -> Iterator[ast.If]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            yield node


def known_callers(sources: Iterable[Source]) -> Iterator[str]:
    """What `SOLE_CALLERS` names is there: functions that exist, and modules that call them."""
    by_module = {source.module: source for source in sources}
    for callee, allowed in SOLE_CALLERS.items():
        module, _, name = callee.rpartition(".")
        body = by_module[module].tree.body if module in by_module else []
        if name not in {getattr(node, "name", None) for node in body}:
            yield f"SOLE_CALLERS: there is no {callee}"
        for caller in sorted(allowed):
            if caller not in by_module or not any(_calls(by_module[caller], callee)):
                yield f"SOLE_CALLERS: {caller} does not call {callee}"


def parameters(sources: Iterable[Source]) -> Iterator[str]:
    """Names in backticks in the docstring of a function are its parameters, or stand in the code.

    Else a rename has forgotten the docstring. Literals count as names, such as those of columns.
    """
    sources = list(sources)
    known = {*dir(builtins), *keyword.kwlist, *keyword.softkwlist}
    for source in sources:
        known.update(_defined_names(source))
    fields = {source.module: set(_fields(source)) for source in sources}
    for source in sources:
        near = {source.module, *(name for _, name in imports(source))}
        seen = known.union(*(fields.get(module, ()) for module in near))
        yield from _unknown_names(source, source.tree, seen)


def _unknown_names(source: Source, node: ast.AST, known: set[str]) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        inner = known
        if isinstance(child, ast.FunctionDef):
            inner = known.union(_parameters(child.args))
            for name in BACKTICKED.findall(ast.get_docstring(child) or ""):
                if name not in inner:
                    yield source.complain(child, f"{child.name} has no parameter `{name}`")
        yield from _unknown_names(source, child, inner)


def _defined_names(source: Source) -> Iterator[str]:
    """Modules, functions, classes and constants, what is imported, and whole literals."""
    yield from source.parts
    for _, name in imports(source):
        yield from name.split(".")
    for node in ast.walk(source.tree):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Constant(value=str(text)):
                yield text
    yield from _assigned_names(source.tree.body)


def _parameters(arguments: ast.arguments) -> Iterator[str]:
    return (each.arg for each in ast.walk(arguments) if isinstance(each, ast.arg))


def _fields(source: Source) -> Iterator[str]:
    """Those of its classes: a module knows its own, and those of modules that it imports."""
    for node in ast.walk(source.tree):
        match node:
            case ast.ClassDef(body=body):
                yield from _assigned_names(body)
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                yield name
            case ast.FunctionDef(name="__init__", args=arguments):
                yield from _parameters(arguments)


def _assigned_names(body: Iterable[ast.stmt]) -> Iterator[str]:
    for node in body:
        match node:
            case ast.Assign(targets=targets):
                yield from (each.id for each in targets if isinstance(each, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name


def class_names(sources: Iterable[Source]) -> Iterator[str]:
    """A public class has a name of its own; `SAME_NAMES` lists those that are to get one."""
    modules: dict[str, list[str]] = {}
    for source in sources:
        for node in ast.walk(source.tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                modules.setdefault(node.name, []).append(source.module)
    for name, where in sorted(modules.items()):
        if len(where) > 1 and name not in SAME_NAMES:
            yield f"class {name} is defined in {', '.join(sorted(where))}"
    for name in sorted(SAME_NAMES):
        if len(modules.get(name, ())) < 2:
            yield f"SAME_NAMES: there is one class {name} at most by now"


def is_participle(name: str) -> bool:
    """Whether a name is one word, and that a participle: it hides what the value is."""
    word = name.strip("_").lower()
    if "_" in word or word in NO_PARTICIPLES:
        return False
    return word in PARTICIPLES or word.endswith("ed")


def participles(sources: Iterable[Source]) -> Iterator[str]:
    """Variables and parameters are nouns: few bindings in the package are bare participles."""
    count, total = 0, 0
    for source in sources:
        for node in ast.walk(source.tree) if source.parts[0] == "hoodoo" else ():
            match node:
                case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                    total += 1
                    count += is_participle(name)
    share = 100 * count / max(total, 1)
    if share > MOST_PARTICIPLES:
        yield f"{share:.2f} % of all bindings are participles (at most {MOST_PARTICIPLES} %)"


def vague_names(sources: Iterable[Source]) -> Iterator[str]:
    """No participle and no pronoun is a name of more than local scope; enum members are states."""
    needed = set()
    for source in sources:
        for node, owner, name in _wide_names(source.tree, ""):
            word = name.strip("_").lower()
            is_one_word = name.strip("_")[1:].islower() or name.isupper()
            if is_one_word and (is_participle(name) or word in PRONOUNS):
                qualified = f"{owner}{name}"
                needed.add(qualified)
                if qualified not in VAGUE_NAMES and qualified not in NAMES_LEFT:
                    yield source.complain(node, f"{qualified} does not say what it is")
    for qualified in sorted((VAGUE_NAMES.keys() | NAMES_LEFT) - needed):
        yield f"VAGUE_NAMES, NAMES_LEFT: there is no {qualified} any more"


def _wide_names(node: ast.AST, owner: str) -> Iterator[tuple[ast.AST, str, str]]:
    """Functions, classes, their public attributes and the names of modules, each with its class."""
    for each in getattr(node, "body", ()):
        match each:
            case ast.ClassDef(name=name):
                yield each, owner, name
                is_enum = any(ast.unparse(base).endswith("Enum") for base in each.bases)
                if not is_enum:
                    yield from _wide_names(each, f"{name}.")
            case ast.FunctionDef(name=name):
                yield each, owner, name
                yield from ((each, owner, attribute) for attribute in _own_attributes(each))
            case ast.Assign() | ast.AnnAssign():
                yield from ((each, owner, name) for name in _assigned_names([each]))
            case ast.If() | ast.Try() | ast.With():
                yield from _wide_names(each, owner)


def _own_attributes(function: ast.FunctionDef) -> Iterator[str]:
    for node in ast.walk(function):
        match node:
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                if not name.startswith("_"):
                    yield name


# -- rules for every file ---------------------------------------------------------------------


def suppressions(source: Source) -> Iterator[str]:
    """Who silences a tool says which rule, and why."""
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        text = token.string if token.type == tokenize.COMMENT else ""
        if SUPPRESSION.search(text) and not EXPLAINED.search(text):
            told = "a suppression needs a code and a reason"
            yield f"{source.path}:{token.start[0]}: {told}: {text}"


def honest_tests(source: Source) -> Iterator[str]:
    """Tests run the real code, and find what they share whichever of them run together."""
    for node, name in imports(source):
        if name in ("mock", "unittest.mock"):
            yield source.complain(node, "no mocks")
        elif name == "conftest":  # there are several, and the last one loaded has the name
            yield source.complain(node, "import from tests/support, not from conftest")


def places(path: str, text: str) -> Iterator[str]:
    """Files hold on every machine: no paths of one of them, no hosts of package registries."""
    for number, line in enumerate(text.splitlines(), 1):
        for pattern, what in ((MACHINE_PATH, "a machine's path"), (REGISTRY, "a registry's host")):
            if found := pattern.search(line):
                yield f"{path}:{number}: {what}: {found.group()}"


def promises(path: str, text: str) -> Iterator[str]:
    """Pages say what is: what is planned stands in issues, and a promise is forgotten once kept."""
    for number, line in enumerate(text.splitlines(), 1):
        if found := PROMISE.search(line):
            yield f"{path}:{number}: a promise: {found.group()}"
