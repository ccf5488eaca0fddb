#!/usr/bin/env python3
"""Writes the pages under docs/reference, and a table of the README, from the code (`make
generate-docs`).
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from enum import Enum
from itertools import product
from pathlib import Path
from typing import Any

from hoodoo.config import AREAS
from hoodoo.config.hudi_keys import FAMILIES, RULES, OptionRuleKind
from hoodoo.config.key import Key

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "config.md"
README = ROOT / "README.md"
BEGIN, END = "<!-- matrix: made by `make generate-docs` -->\n", "<!-- end of matrix -->\n"

INTRODUCTION = """\
# Configuration keys

The keys that hoodoo honours, and below them
[those of Apache Hudi that it does not](#keys-of-apache-hudi-that-hoodoo-does-not-honour). Give them
to `create_table` and `open_table` as `options={"hoodie....": ...}`; texts and typed values are both
fine. A bad value is a `ConfigError` that names key and value. [Options](../options.md) tells what
becomes of keys that are not honoured, or not known.

Options that begin neither with `hoodie.` nor with `hoodoo.` go to the storage (region, endpoint).

This page is generated from `hoodoo.config` by `make generate-docs`: change the code, not the page.
"""

UNHONOURED = """\
## Keys of Apache Hudi that hoodoo does not honour

All keys of Apache Hudi 1.2. Reads mind none of them.
"""
TITLES = {
    OptionRuleKind.TABLE: (
        "Said by the table or the call",
        "Another value than theirs fails the write.",
    ),
    OptionRuleKind.ONLY: ("One way only", "Values other than these fail the write."),
    OptionRuleKind.NOT_BUILT: ("Not there yet", "Values other than these fail the write."),
    OptionRuleKind.NOTED: (
        "No effect, with a warning",
        "Values other than these are warned of once.",
    ),
}
TUNING = """\
### No effect on what is written

Taken without a word: they tune Apache Hudi, or a feature that is off, or have no bearing on hoodoo.
"""


def page() -> str:
    """The whole page."""
    honoured = (line for area in AREAS for line in section(area))
    refused = (line for kind in TITLES for line in unhonoured(kind))
    return "\n".join([INTRODUCTION, *honoured, UNHONOURED, *refused, TUNING, *silent(), ""])


def unhonoured(kind: OptionRuleKind) -> Iterator[str]:
    """One table: keys that are met in one way, with what is fine and why the rest is not."""
    title, rule_line = TITLES[kind]
    yield from (f"### {title}", "", rule_line, "", "| key | fine | |", "|---|---|---|")
    for name, rule in sorted(RULES.items()):
        if rule.kind is kind:
            fine = ", ".join(f"`{value}`" if value else "empty" for value in rule.accepts)
            yield f"| `{name}` | {fine} | {rule.reason} |"
    yield ""


def silent() -> Iterator[str]:
    """The other keys, and whole families of them."""
    names = [name for name, rule in RULES.items() if rule.kind is OptionRuleKind.TUNING]
    families = [f"{prefix}*" for prefix in FAMILIES]
    words = ", ".join(f"`{name}`" for name in sorted([*names, *families]))
    yield textwrap.fill(words, 120, break_long_words=False, break_on_hyphens=False)


def section(area: str) -> Iterator[str]:
    """One table: the keys of an area by name."""
    yield from (f"## {area}", "", "| key | type | default | |", "|---|---|---|---|")
    for key in sorted(AREAS[area], key=lambda key: key.name):
        yield "| " + " | ".join((f"`{key.name}`", kind(key), default(key), meaning(key))) + " |"
    yield ""


def kind(key: Key[Any]) -> str:
    """The type of a key's value, as its default shows it, or else what its parser makes of 1."""
    sample = key.default
    if sample is None:
        try:
            sample = key.parse("1")
        except ValueError as error:
            return str(error).removeprefix("expected one of ")
    match sample:
        case bool():
            return "true, false"
        case int():
            return "whole number"
        case float():
            return "number"
        case tuple():
            return "list"
        case Enum() as member:
            return ", ".join(str(each.value) for each in type(member))
        case _:
            return "text"


def default(key: Key[Any]) -> str:
    """A key's default as one would write it."""
    match key.default:
        case None | "" | ():
            return ""
        case bool() as flag:
            return "`true`" if flag else "`false`"
        case Enum() as member:
            return f"`{member.value}`"
        case tuple() as values:
            return f"`{','.join(values)}`"
        case float() as number:
            return f"`{number:g}`"
        case value:
            return f"`{value}`"


def meaning(key: Key[Any]) -> str:
    """A key's line of doc, and the other names that are read."""
    also = ", ".join(f"`{alias}`" for alias in key.aliases)
    told = key.doc.replace("|", "\\|")
    return f"{told} Also read: {also}." if also else told


def matrix() -> str:
    """Which index each operation is tested with, on each engine and table type.

    Made of the parameters of two tests, so that the table says what they run: the Arrow engine in
    all cells, Spark with some of its carriers in each.
    """
    sys.path.insert(0, str(ROOT / "tests"))
    from spark.test_spark_model import TABLE_TYPES
    from support.carriers import CARRIERS
    from support.pairwise_in_ci import is_in_ci
    from support.spark_model import INDEX_NAMES, INDEXES, OPERATIONS

    for cell in product(range(len(TABLE_TYPES)), range(len(INDEXES))):
        assert any(is_in_ci((*cell, carrier), 4) for carrier in range(len(CARRIERS)))
    columns = [f"{engine}, {kind.upper()}" for engine in ("Arrow", "Spark") for kind in TABLE_TYPES]
    lines = [f"| index | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    cell = f"{len(OPERATIONS)} of {len(OPERATIONS)} writes"
    lines += [f"| {each} | {' | '.join([cell] * len(columns))} |" for each in INDEX_NAMES.values()]
    return "\n".join([*lines, ""])


def readme() -> str:
    """The README with its table as it should be."""
    text = README.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + matrix() + END + after


def main() -> int:
    """Write both; with --check only say whether they are up to date."""
    pages = {PAGE: page(), README: readme()}
    if "--check" not in sys.argv:
        for path, text in pages.items():
            path.write_text(text)
        return 0
    old = [path.name for path, text in pages.items() if path.read_text() != text]
    if old:
        print(f"{' and '.join(old)}: out of date, run `make generate-docs`", file=sys.stderr)
    return 1 if old else 0


if __name__ == "__main__":
    sys.exit(main())
