#!/usr/bin/env python3
"""Writes the pages under docs/reference from the code itself (`make docs`)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

from hoodoo.config import AREAS
from hoodoo.config.key import Key

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "config.md"

INTRODUCTION = """\
# Configuration keys

The `hoodie.*` keys that hoodoo honours. Give them to `create_table` and `open_table` as
`options={"hoodie....": ...}`; texts and typed values are both fine. A bad value is a `ConfigError`
that names key and value. Keys that are not on this page are kept as they are, and warned of once.

Options without the prefix `hoodie.` go to the storage (region, endpoint, ...).

This page is generated from `hoodoo.config` by `make docs`: change the code, not the page.
"""


def page() -> str:
    """The whole page."""
    return "\n".join([INTRODUCTION, *(line for area in AREAS for line in section(area))])


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
