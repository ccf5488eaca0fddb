"""Tests of many combinations of parameters: CI runs a share of them, nights run them all.

`@pytest.mark.thin(2)` leaves to the night each second combination, like the fields of one colour on
a chessboard: with three parameters, every pair of values still meets in CI. With two, `thin(n)`
keeps every value, if one of the two has at least n.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import pytest


def is_in_ci(positions: Iterable[int], step: int) -> bool:
    """Whether CI runs the combination of the values at these positions of their lists."""
    return sum(positions) % step == 0


def mark_nights(items: Iterable[pytest.Item]) -> None:
    """Mark what CI leaves out of thin tests as `nightly`."""
    lists: dict[tuple[str, str], list[object]] = {}
    for item in items:
        if thin := item.get_closest_marker("thin"):
            test = item.nodeid.partition("[")[0]
            positions = [
                _position(value, lists.setdefault((test, name), []))
                for name, value in cast(Any, item).callspec.params.items()
            ]
            if not is_in_ci(positions, *thin.args):
                item.add_marker(pytest.mark.nightly)


def _position(value: object, values: list[object]) -> int:
    """Where a value of a parameter stands, in the order in which tests come to have it."""
    for position, known in enumerate(values):
        if known is value:
            return position
    values.append(value)
    return len(values) - 1
