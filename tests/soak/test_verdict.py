"""The soak's verdict: right tables pass, and each thing that can be wrong is found."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from soak.keys import KEYS_PER_WRITE, draw_keys, frontier_at, key_text, rows_of
from soak.verdict import check_at_end, check_meanwhile, check_windows
from soak.writes import HUDI, Outcome, Write, writes_in

Rows = list[dict[str, Any]]

KEYS = {0: (1, 2), 1: (2, 3), 2: (3, 4), 3: (4, 5), 4: (5, 6)}
OUTCOMES = ("ack", "ack", "refused", "unknown", "unknown")
COMPLETIONS = {"10": "21", "11": "20", "13": "22"}
"""The second write was completed first; the fourth is there, the last one is not."""


def entries() -> list[dict[str, Any]]:
    noted: list[dict[str, Any]] = []
    for number, outcome in enumerate(OUTCOMES):
        noted.append({"word": "intent", "writer": 1, "number": number, "keys": KEYS[number]})
        noted.append({"word": outcome, **({"instant": f"1{number}"} if outcome == "ack" else {})})
    return noted[:-1]  # the last one was killed


WRITES = list(writes_in(entries()))


def right_rows() -> Rows:
    """What the table holds if all is well; key 2 is of the first write, completed last of two."""
    owners = {1: 0, 2: 0, 3: 1, 4: 3, 5: 3}
    rows: Rows = []
    for number in sorted(set(owners.values())):
        for row in rows_of(1, number, KEYS[number]).to_pylist():
            is_mine = not row["id"].startswith("k") or owners[int(row["id"][1:])] == number
            if is_mine:
                rows.append({**row, "_hoodie_commit_time": f"1{number}"})
    return rows


def test_outcomes() -> None:
    assert [write.outcome.value for write in WRITES] == list(OUTCOMES)


def test_right_table_passes() -> None:
    rows = right_rows()
    assert not check_at_end(rows, WRITES, COMPLETIONS)
    assert not check_meanwhile(rows, WRITES, WRITES)
    windows = [{"witnesses": ["w-1-1"]}, {"witnesses": ["w-1-0", "w-1-3"]}]
    assert not check_windows(windows, rows, WRITES)


def without(row_id: str) -> Callable[[Rows], Rows]:
    return lambda rows: [row for row in rows if row["id"] != row_id]


def with_value(row_id: str, number: int) -> Callable[[Rows], Rows]:
    (v,) = {write.v for write in WRITES if write.number == number}
    return lambda rows: [{**row, "v": v} if row["id"] == row_id else row for row in rows]


def with_row_of(number: int, position: int) -> Callable[[Rows], Rows]:
    added = rows_of(1, number, KEYS[number]).to_pylist()[position]
    return lambda rows: [*rows, {**added, "_hoodie_commit_time": "99"}]


BROKEN = [
    ("duplicates", key_text(1), lambda rows: [*rows, dict(rows[1])]),
    ("lost", "w-1-0", without("w-1-0")),
    ("stale", key_text(3), without(key_text(3))),
    ("stale", key_text(2), with_value(key_text(2), 1)),
    ("visible refused", "w-1-2", with_row_of(2, 0)),
    ("visible refused", "w-1-2", with_value(key_text(3), 2)),
    ("torn", "w-1-4", with_row_of(4, 2)),
    ("unwritten", key_text(1), with_value(key_text(1), 3)),
]


@pytest.mark.parametrize(("kind", "what", "break_rows"), BROKEN)
def test_violation_is_found_at_end(
    kind: str, what: str, break_rows: Callable[[Rows], Rows]
) -> None:
    found = check_at_end(break_rows(right_rows()), WRITES, COMPLETIONS)
    assert what in found.by_kind[kind]


def test_acknowledged_instant_that_is_not_on_timeline_is_lost() -> None:
    without_first = {time: end for time, end in COMPLETIONS.items() if time != "10"}
    found = check_at_end(right_rows(), WRITES, without_first)
    assert "w-1-0" in found.by_kind["lost"]


@pytest.mark.parametrize(
    ("kind", "what", "break_rows"),
    [each for each in BROKEN if each[0] in ("duplicates", "lost", "visible refused")],
)
def test_violation_is_found_meanwhile(
    kind: str, what: str, break_rows: Callable[[Rows], Rows]
) -> None:
    assert what in check_meanwhile(break_rows(right_rows()), WRITES, WRITES).by_kind[kind]


@pytest.mark.parametrize(
    ("kind", "what", "witnesses"),
    [
        ("missed", "w-1-3", ["w-1-0", "w-1-1"]),
        ("repeated", "w-1-0", ["w-1-0", "w-1-1", "w-1-3", "w-1-0"]),
        ("repeated", "w-1-2", ["w-1-0", "w-1-1", "w-1-3", "w-1-2"]),
    ],
)
def test_violation_is_found_in_windows(kind: str, what: str, witnesses: list[str]) -> None:
    found = check_windows([{"witnesses": witnesses}], right_rows(), WRITES)
    assert found.as_lists().keys() == {kind}
    assert what in found.by_kind[kind]


def test_only_commits_after_the_victim_are_excused() -> None:
    """A write that hides an earlier one is excused; what is hidden by an earlier one is not."""
    hudi = Write(HUDI, 0, frozenset({key_text(2)}), Outcome.ACKNOWLEDGED, "12")
    writes, rows = [*WRITES, hudi], without(key_text(3))(right_rows())
    rows.append({"id": hudi.witness, "part": "x", "v": hudi.v, "_hoodie_commit_time": "12"})

    def is_by_hudi(first: Write, second: Write) -> bool:
        return second.is_by_hudi

    for ended, is_found in (("19", True), ("23", False)):
        times = COMPLETIONS | {"12": ended}
        found = check_at_end(rows, writes, times, is_excused=is_by_hudi)
        assert (key_text(3) in found.by_kind["stale"]) is is_found


def test_writers_draw_the_same_new_keys() -> None:

    draws = [draw_keys(random.Random(seed), frontier_at(7)) for seed in range(50)]
    assert {sort for sort, _ in draws} == {"new", "mixed", "recent"}
    assert all(len(set(keys)) == KEYS_PER_WRITE for _, keys in draws)
    new = [set(keys) for sort, keys in draws if sort == "new"]
    assert all(one & other for one in new for other in new)
