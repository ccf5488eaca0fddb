"""Batches of a writer that sends them again: each one counts once, also if it changed nothing."""

from __future__ import annotations

from typing import Any

import pytest
from support.laboratory import Laboratory, Row, read_rows, rows

import hoodoo

BATCH = ("job", 7)


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="25.8: a batch that found nothing to change is not remembered, and changes rows that "
    "came since when it is sent again",
)
@pytest.mark.parametrize("verb", ["delete", "update"])
def test_a_batch_that_changed_nothing_changes_nothing_when_sent_again(verb: str) -> None:
    table = Laboratory().open()
    table.insert(rows(("a", "p", 1)))
    send_batch(table, verb)
    table.insert(rows(("b", "p", 50)))
    send_batch(table, verb)
    expected: list[Row] = [("a", "p", 1), ("b", "p", 50)]
    assert read_rows(table) == expected


def send_batch(table: hoodoo.Table, verb: str) -> None:
    if verb == "delete":
        table.delete(where="v = 50", transaction=BATCH)
    else:
        table.update({"v": "v + 1"}, where="v = 50", transaction=BATCH)


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="25.8: a write that found nothing to change has no result",
)
def test_a_write_that_changes_nothing_has_a_result_without_an_instant() -> None:
    table = Laboratory().open()
    table.insert(rows(("a", "p", 1)))
    result: Any = table.delete(where="v = 50")
    assert result is not None
    assert result.instant is None
    assert result.stats.deleted == 0
