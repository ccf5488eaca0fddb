#!/usr/bin/env python3
"""Writes the pages under docs/reference from the code itself (`make docs`)."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

from hoodoo.config import AREAS
from hoodoo.config.hudi_keys import FAMILIES, RULES
from hoodoo.config.key import Key
from hoodoo.config.rule import Kind

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "config.md"

INTRODUCTION = """\
# Configuration keys

The keys that hoodoo honours, and below them
[those of Apache Hudi that it does not](#keys-of-apache-hudi-that-hoodoo-does-not-honour). Give them
to `create_table` and `open_table` as `options={"hoodie....": ...}`; texts and typed values are both
fine. A bad value is a `ConfigError` that names key and value. [Options](../options.md) tells what
becomes of keys that are not honoured, or not known.

Options that begin neither with `hoodie.` nor with `hoodoo.` go to the storage (region, endpoint).

This page is generated from `hoodoo.config` by `make docs`: change the code, not the page.
"""

UNHONOURED = """\
## Keys of Apache Hudi that hoodoo does not honour

All keys of Apache Hudi 1.2. Reads mind none of them.
"""
TITLES = {
    Kind.TABLE: ("Said by the table or the call", "Another value than theirs fails the write."),
    Kind.ONLY: ("One way only", "Values other than these fail the write."),
    Kind.NOT_BUILT: ("Not there yet", "Values other than these fail the write."),
    Kind.NOTED: ("No effect, with a warning", "Values other than these are warned of once."),
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


def unhonoured(kind: Kind) -> Iterator[str]:
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
    names = [name for name, rule in RULES.items() if rule.kind is Kind.TUNING]
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


def main() -> int:
    """Write the page; with --check only say whether it is up to date."""
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    if "--check" in sys.argv:
        is_current = PAGE.is_file() and PAGE.read_text() == page()
        if not is_current:
            print(f"{PAGE.name} is out of date: run `make docs`", file=sys.stderr)
        return 0 if is_current else 1
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
