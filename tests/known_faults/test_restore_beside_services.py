"""Services that come by while a restore is decided and not done yet."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from support.laboratory import (
    LOCK_FILE,
    MINUTE_S,
    Laboratory,
    Row,
    find_pending,
    read_rows,
    rows,
    try_to,
)

import hoodoo

LOCK_CHANGES_BEFORE = 3
"""A restore takes the lock and gives it back to be decided, takes it to start, gives it back."""
TABLES = pytest.mark.parametrize(
    ("table_type", "has_metadata"),
    [("cow", False), ("cow", True), ("mor", False), ("mor", True)],
)
TABLE_TYPES = pytest.mark.parametrize("table_type", ["cow", "mor"])

Work = Callable[[hoodoo.Table], object]


def write_commits(laboratory: Laboratory, *, has_new_keys: bool = True) -> list[str]:
    """More commits than a clean retains by default, all of them minutes old."""
    table = laboratory.open()
    instants: list[str] = []
    for v in range(14):
        new: list[Row] = [(f"new {v}", "p", v)] if has_new_keys else []
        instants.append(table.upsert(rows(("a", "p", v), *new)).instant)
        laboratory.world.pass_time(MINUTE_S)
    return instants


def restore_beside(laboratory: Laboratory, target: str, work: Work) -> None:
    """Restore; somebody else works, or is refused, when it has started and took nothing back."""
    restorer = laboratory.machine("restorer")
    restorer.let_others_work_after(
        "replace",
        LOCK_FILE,
        lambda: try_to(lambda: work(laboratory.open())),
        skip=LOCK_CHANGES_BEFORE,
    )
    restorer.table.restore(target)
    restorer.check_events()


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="25.1: a clean planned while a restore is pending deletes what the restore goes back to",
)
@TABLES
def test_a_clean_while_a_restore_is_pending_keeps_the_rows_of_its_target(
    table_type: str, has_metadata: bool
) -> None:
    laboratory = Laboratory(table_type, has_metadata=has_metadata)
    target = write_commits(laboratory)[2]
    expected = read_rows(laboratory.open(), as_of=target)
    restore_beside(laboratory, target, lambda table: table.clean())
    assert read_rows(laboratory.open()) == expected


@pytest.mark.xfail(
    strict=True,
    raises=hoodoo.WriteConflict,
    reason="25.14: a plan scheduled while a restore is pending can never be executed afterwards, "
    "and blocks its file groups for good",
)
@TABLE_TYPES
def test_a_clustering_scheduled_while_a_restore_is_pending_does_not_block_later_writes(
    table_type: str,
) -> None:
    laboratory = Laboratory(table_type)
    target = write_commits(laboratory)[2]
    restore_beside(laboratory, target, lambda table: table.schedule_clustering(order_by=["id"]))
    laboratory.settle()
    table = laboratory.open()
    for plan in table.plans():
        try_to(partial(table.run_clustering, plan.instant))
    table.upsert(rows(("a", "p", 77)))
    assert ("a", "p", 77) in read_rows(table)


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="25.14: a plan scheduled while a restore is pending can never be executed afterwards, "
    "and stays for good",
)
def test_a_compaction_scheduled_while_a_restore_is_pending_can_be_executed_or_is_refused() -> None:
    laboratory = Laboratory("mor")
    target = write_commits(laboratory, has_new_keys=False)[2]
    restore_beside(laboratory, target, lambda table: table.schedule_compaction())
    laboratory.settle()
    table = laboratory.open()
    for plan in table.plans():
        try_to(partial(table.run_compaction, plan.instant))
    assert find_pending(table) == []


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="25.1: a savepoint asked for while a restore is pending is not refused at once, and "
    "leaves an inflight savepoint of a commit that is gone",
)
@TABLE_TYPES
def test_a_savepoint_while_a_restore_is_pending_leaves_nothing_behind(table_type: str) -> None:
    laboratory = Laboratory(table_type)
    target = write_commits(laboratory)[2]
    restore_beside(laboratory, target, lambda table: table.savepoint())
    laboratory.settle()
    assert find_pending(laboratory.open()) == []


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="25.16: a restore waits for two expiries of heartbeats until commits are old enough",
)
@pytest.mark.parametrize("verb", ["restore", "undo"])
def test_young_commits_are_taken_back_in_seconds(verb: str) -> None:
    laboratory = Laboratory()
    table = laboratory.open()
    first, second = (table.upsert(rows(("a", "p", v))).instant for v in range(2))
    began = laboratory.world.seconds
    if verb == "restore":
        table.restore(first)
    else:
        table.undo(second)
    assert laboratory.world.seconds - began < 10
