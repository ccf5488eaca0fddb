"""How scenes of the first hour speak, and how they fail."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

SHOWN_DIFFERENCES = 5


class Wrong(Exception):
    """Something is not as a user may expect; the text says what."""


def say(text: str) -> None:
    """One line for the reader."""
    print(f"  {text}", flush=True)


def check(is_so: bool, what: str) -> None:
    """Fail with a clear line if something is not so."""
    if not is_so:
        raise Wrong(what)


def check_equal(what: str, got: Any, want: Any) -> None:
    """Fail with the first differences if two values are not equal."""
    if got == want:
        return
    if isinstance(got, Mapping) and isinstance(want, Mapping):
        keys = [key for key in {**want, **got} if got.get(key) != want.get(key)]
        told = [
            f"{key!r}: got {got.get(key)!r}, expected {want.get(key)!r}"
            for key in keys[:SHOWN_DIFFERENCES]
        ]
        raise Wrong(f"{what}: {len(keys)} differences; " + "; ".join(told))
    raise Wrong(f"{what}: got {got!r}, expected {want!r}")


def rows_by_key(rows: Any, key: str) -> dict[Any, dict[str, Any]]:
    """Rows (dicts) by their key; a key that is there twice is wrong."""
    found: dict[Any, dict[str, Any]] = {}
    for row in rows:
        if row[key] in found:
            raise Wrong(f"{key} {row[key]!r} is there twice")
        found[row[key]] = row
    return found


def complain(text: str) -> None:
    """One line on stderr."""
    print(f"WRONG: {text}", file=sys.stderr, flush=True)
