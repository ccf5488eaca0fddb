"""Requests that land late: of a machine that stood still, or held up on their way."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from support.laboratory import (
    HEAD_FILE,
    MINUTE_S,
    STAGED_FILES,
    Laboratory,
    NeverHappened,
    Row,
    find_pending,
    read_rows,
    rows,
    try_to,
)

import hoodoo
from hoodoo.model.paths import PARTITION_METADATA
from hoodoo.runtime.engine import LocalEngine
from hoodoo.services.compaction.metadata_table import compact_metadata_table
from hoodoo.services.indexing.create import add_metadata_partitions

LONG = "p" * 70_000
"""A partition of this name makes plans and commits too large to stand in the head."""
SHORT_TIMELINE = {
    "hoodie.keep.min.commits": 3,
    "hoodie.keep.max.commits": 4,
    "hoodie.clean.commits.retained": 2,
    "hoodie.clean.trigger.max.commits": 1,
}
COMPLETED_COMMIT = r"^\.hoodie/timeline/\d+_\d+\.commit$"
RECORD_INDEX = {
    "hoodie.metadata.record.index.enable": True,
    "hoodie.index.type": "RECORD_INDEX",
}


# -- staged contents ------------------------------------------------------------------------------


def ends_in_recursion(work: Callable[[], object]) -> bool:
    """Whether it does; printing such an error would take minutes, so it goes no further."""
    try:
        work()
    except RecursionError:
        return True
    return False


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="25.10: staged content has one name for request and completion of an attempt, so a late "
    "delete of the first takes the second, and every later transaction fails by recursion",
)
def test_a_late_delete_of_staged_content_leaves_the_table_writable() -> None:
    laboratory = Laboratory("mor", options={"hoodie.parquet.small.file.limit": 0})
    table = laboratory.open()
    table.insert(rows(("k", LONG, 1)))
    table.upsert(rows(("k", LONG, 2)))
    plan = table.schedule_compaction()
    if plan is None:
        raise NeverHappened("a compaction was to be planned")
    first = laboratory.machine("first executor")
    first.die_before("create", r"^part=")
    first.die_over(lambda: first.table.run_compaction(plan))
    laboratory.world.pass_time(11 * MINUTE_S)
    second = laboratory.machine("second executor")
    second.delay("delete", STAGED_FILES)
    second.let_others_work_after("replace", HEAD_FILE, laboratory.land, skip=1)
    try_to(lambda: second.table.run_compaction(plan))
    second.check_events()
    table = laboratory.open()
    assert not ends_in_recursion(lambda: table.upsert(rows(("new", "q", 3))))
    assert read_rows(table) == [("k", LONG, 2), ("new", "q", 3)]


# -- files of the metadata table ------------------------------------------------------------------


@pytest.mark.xfail(
    strict=True,
    raises=hoodoo.FormatError,
    reason="25.11: a gate that starts over writes files of the same names again, and a late delete "
    "of the first ones damages the metadata table for good",
)
@pytest.mark.parametrize(
    ("files", "options"),
    [
        (r"/metadata/files/\.files", {}),
        (r"/metadata/column_stats/", {}),
        (r"/metadata/record_index/", RECORD_INDEX),
    ],
    ids=["files", "column statistics", "record index"],
)
def test_a_late_delete_after_a_gate_started_over_leaves_the_metadata_table_whole(
    files: str, options: dict[str, object]
) -> None:
    laboratory = Laboratory(has_metadata=True, options=options)
    laboratory.open().insert(rows(("k", "p", 1), ("m", "q", 1)))

    def take_the_lease_and_commit() -> None:
        laboratory.world.pass_time(2 * MINUTE_S)
        laboratory.open().upsert(rows(("m", "q", 5)))

    writer = laboratory.machine("writer")
    writer.stand_still_before("replace", HEAD_FILE, take_the_lease_and_commit)
    writer.delay("delete", files)
    writer.table.upsert(rows(("k", "p", 2), ("n", "p", 2)))
    writer.check_events()
    laboratory.land()
    compact_metadata_table(laboratory.machine("keeper").ref, at_least=1)
    assert read_rows(laboratory.open()) == [("k", "p", 2), ("m", "q", 5), ("n", "p", 2)]


@pytest.mark.xfail(
    strict=True,
    raises=hoodoo.FormatError,
    reason="25.11: whoever makes a metadata table after another one died over it writes files of "
    "the same names, and a late delete of the first ones damages it",
)
def test_a_late_delete_in_the_second_making_of_a_metadata_table_leaves_it_whole() -> None:
    laboratory = Laboratory()
    with_metadata = {"hoodie.metadata.enable": True}
    laboratory.open().insert(rows(("k", "p", 1)))
    first = laboratory.machine("first maker", **with_metadata)
    first.die_before("replace", HEAD_FILE)
    first.die_over(lambda: add_metadata_partitions(first.ref, LocalEngine(threads=1), "files"))
    laboratory.world.pass_time(30 * MINUTE_S)
    second = laboratory.machine("second maker", **with_metadata)
    second.delay("delete", r"/metadata/files/files-.*\.hfile$")
    add_metadata_partitions(second.ref, LocalEngine(threads=1), "files")
    second.check_events()
    laboratory.land()
    keeper = laboratory.machine("keeper", **with_metadata)
    keeper.table.upsert(rows(("n", "p", 2)))
    compact_metadata_table(keeper.ref, at_least=1)
    assert read_rows(keeper.table) == [("k", "p", 1), ("n", "p", 2)]


# -- marks of partitions --------------------------------------------------------------------------


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="25.11: a late delete by a clean takes the metadata file of a partition that was filled "
    "again, and doctor says that all is well",
)
@pytest.mark.parametrize("has_metadata", [False, True])
def test_a_late_delete_of_the_mark_of_a_partition_filled_again_is_mended_or_told(
    has_metadata: bool,
) -> None:
    laboratory = Laboratory(
        has_metadata=has_metadata,
        options={"hoodie.clean.commits.retained": 1, "hoodie.clean.trigger.max.commits": 1},
    )
    table = laboratory.open()
    table.insert(rows(("a", "p", 1), ("x", "q", 1)))
    table.delete_partitions(["part=p"])
    for v in range(2, 5):
        table.upsert(rows(("x", "q", v)))
    cleaner = laboratory.machine("cleaner")
    cleaner.delay("delete", PARTITION_METADATA)
    cleaner.table.clean()
    cleaner.check_events()
    laboratory.open().insert(rows(("new", "p", 99)))
    laboratory.land()
    is_there = laboratory.store.exists(f"part=p/{PARTITION_METADATA}")
    findings = [f"{each.problem} {each.cause}" for each in laboratory.open().doctor()]
    assert is_there or any("part=p" in text for text in findings)


# -- files of archived instants -------------------------------------------------------------------


def write_until_archived(laboratory: Laboratory) -> list[Row]:
    """Commits over some hours, cleaned and archived."""
    added: list[Row] = []
    for v in range(8):
        table = laboratory.open()
        added.append((f"new {v}", f"n{v}", v))
        table.insert(rows(added[-1]))
        laboratory.world.pass_time(25 * MINUTE_S)
        table.clean()
        table.archive()
    return added


def write_old_rows(laboratory: Laboratory) -> list[Row]:
    old: list[Row] = [(f"old {v}", f"p{v}", v) for v in range(3)]
    for row in old:
        laboratory.open().insert(rows(row))
    return old


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="25.12: the completed file of an archived commit that a paused helper creates again "
    "makes the rows of all archived commits above it vanish",
)
def test_a_completed_file_created_again_by_a_paused_helper_hides_no_rows() -> None:
    laboratory = Laboratory(options=SHORT_TIMELINE)
    expected = write_old_rows(laboratory)
    writer = laboratory.machine("writer")
    writer.die_after("replace", HEAD_FILE)
    writer.die_over(lambda: writer.table.insert(rows(("decided", "pd", 7))))
    expected.append(("decided", "pd", 7))
    laboratory.world.pass_time(4 * MINUTE_S)
    helper = laboratory.machine("helper")
    helper.stand_still_before(
        "create",
        COMPLETED_COMMIT,
        lambda: expected.extend(write_until_archived(laboratory)),
        dies_after=True,
    )
    helper.die_over(lambda: helper.table.insert(rows(("helper", "p", 1))))
    assert read_rows(laboratory.open()) == sorted(expected)


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="25.12: the completed file of an archived commit that lands once more makes the rows of "
    "all archived commits above it vanish",
)
def test_a_completed_file_that_lands_again_after_its_archival_hides_no_rows() -> None:
    laboratory = Laboratory(options=SHORT_TIMELINE)
    expected = write_old_rows(laboratory)
    writer = laboratory.machine("writer")
    writer.repeat("create", COMPLETED_COMMIT)
    writer.table.insert(rows(("repeated", "pr", 7)))
    writer.check_events()
    expected += [("repeated", "pr", 7), *write_until_archived(laboratory)]
    laboratory.land()
    assert read_rows(laboratory.open()) == sorted(expected)


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="25.12: a write that was paused in its begin while later commits were archived makes "
    "the rows of archived commits vanish",
)
def test_a_write_paused_in_its_begin_until_later_ones_are_archived_hides_no_rows() -> None:
    laboratory = Laboratory(options=SHORT_TIMELINE)
    expected = write_old_rows(laboratory)
    writer = laboratory.machine("writer")
    writer.stand_still_before(
        "create",
        r"^\.hoodie/timeline/\d+\.commit\.requested$",
        lambda: expected.extend(write_until_archived(laboratory)),
    )
    if try_to(lambda: writer.table.insert(rows(("paused", "pp", 7)))) is None:
        expected.append(("paused", "pp", 7))
    writer.check_events()
    assert read_rows(laboratory.open()) == sorted(expected)


# -- plans that were taken back -------------------------------------------------------------------


@pytest.mark.xfail(
    strict=True,
    raises=hoodoo.WriteConflict,
    reason="25.14: a plan that a restore took back comes back by a late create of its requested "
    "file, can never be executed, and blocks its file groups for good",
)
@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_a_plan_taken_back_by_a_restore_that_lands_again_blocks_no_writes(table_type: str) -> None:
    laboratory = Laboratory(table_type)
    table = laboratory.open()
    instants = [table.upsert(rows(("a", "p", v), (f"new {v}", "p", v))).instant for v in range(3)]
    planner = laboratory.machine("planner")
    planner.repeat("create", r"\.clustering\.requested$")
    planner.table.schedule_clustering(order_by=["id"])
    planner.check_events()
    laboratory.world.pass_time(30 * MINUTE_S)
    table.restore(instants[0])
    assert find_pending(table) == []
    laboratory.land()
    laboratory.settle()
    for plan in table.plans():
        try_to(partial(table.run_clustering, plan.instant))
    table.upsert(rows(("a", "p", 77)))
    assert read_rows(table) == [("a", "p", 77), ("new 0", "p", 0)]
