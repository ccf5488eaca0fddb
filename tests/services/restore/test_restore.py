"""Savepoints and restores: the table is what it was, for every reader."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from support.dead_writes import dead_upsert, die_over, upsert_and_die
from support.old_tables import NO_SMALL_FILES, SMALL, Story, long_story, new_story, rows

from hoodoo.api.table import Table
from hoodoo.errors import (
    InputError,
    PlanInProgress,
    TimelineError,
    UnsupportedFeature,
    WriteConflict,
    WriterAlive,
)
from hoodoo.model import paths
from hoodoo.model.commit import RestoreMetadata
from hoodoo.model.instant import Action, InstantTime
from hoodoo.runtime.engine import LocalEngine
from hoodoo.services.compaction.compaction import run_compaction, schedule_compaction
from hoodoo.services.restore.plan import EMPTY_TABLE
from hoodoo.table.ref import open_ref
from hoodoo.table.timeline import read_metadata

pytestmark = pytest.mark.slow

TABLE_TYPES = pytest.mark.parametrize("table_type", ["cow", "mor"])
ALONE = {**SMALL, "hoodie.write.lock.provider": "in_process"}


def restored(story: Story) -> RestoreMetadata:
    ref = open_ref(str(story.place))
    (instant,) = (i for i in ref.load_timeline().completed if i.action is Action.RESTORE)
    metadata = read_metadata(ref.env, ref.properties.timeline_paths, instant)
    assert isinstance(metadata, RestoreMetadata)
    return metadata


# -- savepoints -----------------------------------------------------------------------------------


def test_a_savepoint_is_listed_until_it_is_deleted(tmp_path: Path) -> None:
    story = long_story(tmp_path, commits=3)
    made = story.table.savepoint(user="me", comment="before the load")
    assert made.instant == story.times[-1]
    assert story.table.savepoints() == [made]
    with pytest.raises(InputError, match="already"):
        story.table.savepoint(made.instant)
    story.check(kept=3)
    story.table.delete_savepoint(made.instant)
    assert story.table.savepoints() == []
    with pytest.raises(InputError, match="no savepoint"):
        story.table.delete_savepoint(made.instant)
    story.table.savepoint(made.instant)
    story.upsert(9, "a")
    story.check(kept=4)


def test_a_savepoint_needs_a_commit_whose_files_are_all_there(tmp_path: Path) -> None:
    story = long_story(tmp_path)
    with pytest.raises(InputError, match="not a completed commit"):
        story.table.savepoint("20200101000000000")
    story.table.clean()
    with pytest.raises(TimelineError, match="cannot be kept"):
        story.table.savepoint(story.times[0])


def test_a_savepoint_that_was_cut_off_is_made_again(tmp_path: Path) -> None:
    story = long_story(tmp_path, commits=3)

    def work(table: Table) -> None:
        Table(open_ref(str(story.place), ALONE, table._ref.env)).savepoint()

    with pytest.raises(ValueError, match="not enough values"):  # no instant of its own
        die_over(story.place, work, at=rf"{paths.HEAD}$")
    assert story.table.savepoints() == []
    story.check()
    story.table.savepoint()
    assert len(story.table.savepoints()) == 1
    story.check()


# -- restores -------------------------------------------------------------------------------------


@TABLE_TYPES
def test_the_table_goes_back_to_a_savepoint_that_cleaning_has_passed(
    tmp_path: Path, table_type: str
) -> None:
    story = long_story(tmp_path, table_type, commits=3)
    saved = story.times[-1]
    files = story.data_files()
    story.table.savepoint(saved)
    for v in range(10, 15):
        story.upsert(v, "a", f"gone {v}")
    story.drop("p", *story.rows)
    story.upsert(20, "a")
    story.table.clean()
    story.settle()
    undone = story.times[:2:-1]
    done = story.table.restore(saved)
    assert done.instants == tuple(undone)
    story.go_back(saved)
    story.check()
    assert story.data_files() <= files
    assert restored(story).instants_to_rollback == tuple(undone)
    story.upsert(30, "a", "after")
    story.check(kept=1)


def test_the_table_goes_back_to_a_commit_without_a_savepoint(tmp_path: Path) -> None:
    story = long_story(tmp_path, "mor", **NO_SMALL_FILES)
    story.settle()
    story.table.restore(story.times[2])
    story.go_back(story.times[2])
    story.check(kept=3)


def test_a_compaction_is_taken_back_with_the_plan_that_came_later(tmp_path: Path) -> None:
    story = new_story(tmp_path, "mor", **NO_SMALL_FILES)
    for v in range(4):
        story.upsert(v, "a", "b")
    options = {**ALONE, "hoodie.compact.inline.max.delta.commits": 1}
    ref = open_ref(str(story.place), options)
    plan = schedule_compaction(ref)
    assert plan is not None
    run_compaction(ref, plan.requested_time, LocalEngine())
    story.upsert(10, "a")
    later = schedule_compaction(ref)
    assert later is not None
    story.settle()
    done = story.table.restore(story.times[2])
    assert {later.requested_time, plan.requested_time} < set(done.instants)
    story.go_back(story.times[2])
    story.check(kept=3)


def test_what_cleaning_or_archival_took_away_cannot_be_restored(tmp_path: Path) -> None:
    story = long_story(tmp_path)
    story.table.clean()
    story.settle()
    with pytest.raises(TimelineError, match="kept by cleaning"):
        story.table.restore(story.times[1])
    story.table.archive()
    with pytest.raises(InputError, match="not a completed commit of the active timeline"):
        story.table.restore(story.times[1])
    story.check(kept=2)


def test_later_savepoints_are_in_the_way(tmp_path: Path) -> None:
    story = long_story(tmp_path, commits=4)
    story.table.savepoint(story.times[2])
    story.settle()
    with pytest.raises(TimelineError, match=f"in the way: {story.times[2]}"):
        story.table.restore(story.times[1])
    story.check(kept=4)


def test_a_writer_that_is_alive_is_in_the_way_and_a_dead_one_is_rolled_back(
    tmp_path: Path,
) -> None:
    story = long_story(tmp_path, commits=3)
    story.settle()
    alive = upsert_and_die(story.place, rows(99, "a"))  # its heartbeat is young
    with pytest.raises(WriterAlive, match=f"others are at work: {alive}"):
        story.table.restore(story.times[0])
    story.age()
    story.table.restore(story.times[0])
    story.go_back(story.times[0])
    story.check()


def test_a_restore_that_was_cut_off_keeps_writers_out_and_goes_on(tmp_path: Path) -> None:
    story = long_story(tmp_path, commits=4)
    story.settle()

    def work(table: Table) -> None:
        ref = open_ref(str(story.place), ALONE, table._ref.env)
        Table(ref, LocalEngine(1)).restore(story.times[1])

    cut_off = die_over(story.place, work, at=r"\.parquet$")
    with pytest.raises(WriteConflict, match="restore"):
        story.table.upsert(rows(99, "a"))
    with pytest.raises(PlanInProgress):
        story.table.restore(story.times[1])
    story.age()
    recovered = story.table.recover()
    assert [v.instant.requested_time for v in recovered.left_pending if "restore" in v.reason] == [
        cut_off
    ]
    with pytest.raises(UnsupportedFeature, match="run it again"):
        story.table.rollback(story.times[3], force=True)
    assert story.table.restore(story.times[1]).restore == cut_off
    story.go_back(story.times[1])
    story.settle()
    story.check(kept=2)
    story.upsert(5, "a")
    story.check(kept=3)


def test_commits_that_are_too_young_are_refused_unless_they_may_be_waited_for(
    tmp_path: Path,
) -> None:
    story = long_story(tmp_path, commits=3)
    with pytest.raises(TimelineError, match="is too young"):
        story.table.restore(story.times[0], wait=False)
    assert "restore" not in {report.action for report in story.table.timeline()}
    quick = {
        "hoodie.client.heartbeat.interval_in_ms": 1000,
        "hoodie.client.heartbeat.tolerable.misses": 1,
    }
    story.upsert(9, "a")
    began = time.monotonic()
    story.open(**quick).restore(story.times[0])
    assert time.monotonic() - began > 1
    story.go_back(story.times[0])
    story.check()


# -- the latest commit ----------------------------------------------------------------------------


@TABLE_TYPES
def test_the_latest_commit_is_taken_back(tmp_path: Path, table_type: str) -> None:
    story = long_story(tmp_path, table_type, commits=3)
    story.settle()
    with pytest.raises(InputError, match="is not the latest commit"):
        story.table.undo(story.times[1])
    with pytest.raises(InputError, match="not a completed commit"):
        story.table.undo("20200101000000000")
    done = story.table.undo(story.times[2])
    assert (done.instants, done.target) == ((story.times[2],), story.times[1])
    story.go_back(story.times[1])
    story.check(kept=2)


def test_the_only_commit_is_taken_back(tmp_path: Path) -> None:
    story = long_story(tmp_path, commits=1)
    story.settle()
    assert story.table.undo(story.times[0]).target == EMPTY_TABLE
    assert story.table.to_arrow().num_rows == 0
    assert story.data_files() == set()
    story.rows.clear()
    story.upsert(1, "a")
    story.check()


def test_times_keep_growing_after_the_latest_commit_was_taken_back(tmp_path: Path) -> None:
    story = long_story(tmp_path, commits=2)
    story.settle()
    done = story.table.undo(story.times[1])
    story.go_back(story.times[0])
    assert story.upsert(3, "a") > InstantTime(done.restore)


def test_a_dead_write_is_no_reason_to_refuse(tmp_path: Path) -> None:
    story = long_story(tmp_path, commits=2)
    dead_upsert(story.place, rows(99, "a", "z"))
    story.age()
    story.table.undo(story.times[1])
    story.go_back(story.times[0])
    story.check()
