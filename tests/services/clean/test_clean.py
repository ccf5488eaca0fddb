"""Clean: what is deleted is never missed, and what is cut off is finished by the next one."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from support.dead_writes import dead_upsert, die_over
from support.old_tables import NO_SMALL_FILES, Story, long_story, new_story, rows
from support.wheel import wheel_rows

from hoodoo.api.table import Table
from hoodoo.errors import PlanInProgress, TimelineError
from hoodoo.model import paths
from hoodoo.model.commit import CleanMetadata
from hoodoo.model.instant import Action
from hoodoo.runtime.engine import LocalEngine
from hoodoo.runtime.env import Env
from hoodoo.services.clean.clean import run_clean, schedule_clean
from hoodoo.services.clean.facts import load_protected_files
from hoodoo.services.compaction.compaction import schedule_compaction
from hoodoo.services.plans.pending import own_plan
from hoodoo.storage import open_storage
from hoodoo.storage.traced import TracedStorage
from hoodoo.table.ref import open_ref
from hoodoo.table.timeline import read_metadata

pytestmark = pytest.mark.slow

TABLE_TYPES = pytest.mark.parametrize("table_type", ["cow", "mor"])


def states(story: Story, action: str) -> list[str]:
    return [report.state for report in story.table.timeline() if report.action == action]


def last_clean(story: Story) -> CleanMetadata:
    ref = open_ref(str(story.place))
    clean = [i for i in ref.load_timeline().completed if i.action is Action.CLEAN][-1]
    metadata = read_metadata(ref.env, ref.properties.timeline_paths, clean)
    assert isinstance(metadata, CleanMetadata)
    return metadata


@TABLE_TYPES
def test_kept_commits_stay_readable_and_older_ones_are_refused(
    tmp_path: Path, table_type: str
) -> None:
    story = long_story(tmp_path, table_type)
    before = story.data_files()
    since = {time: story.table.changes(since=time).num_rows for time in story.times[-3:]}
    (done,) = story.table.clean()
    assert len(done.files) > 0
    assert before - story.data_files() == {path.rpartition("/")[2] for path in done.files}
    assert done.earliest_retained_commit == story.times[-2]
    story.check(kept=2)
    with pytest.raises(TimelineError, match="kept only what is needed"):
        story.table.to_arrow(as_of=story.times[-3])
    assert {t: story.table.changes(since=t).num_rows for t in since} == since
    assert story.table.clean() == []
    assert states(story, "clean") == ["completed"]


def test_a_table_with_few_commits_has_nothing_to_clean(tmp_path: Path) -> None:
    story = long_story(tmp_path, commits=2)
    assert story.table.clean() == []
    assert states(story, "clean") == []


def test_by_versions_the_newest_of_each_file_group_stay(tmp_path: Path) -> None:
    story = long_story(tmp_path)
    table = story.open(
        **{
            "hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS",
            "hoodie.clean.fileversions.retained": 1,
        }
    )
    (done,) = table.clean()
    assert done.earliest_retained_commit is None
    assert len(story.data_files()) == 1
    story.check()


def test_by_hours_commits_of_the_last_hours_stay(tmp_path: Path) -> None:
    story = long_story(tmp_path)
    table = story.open(**{"hoodie.cleaner.policy": "KEEP_LATEST_BY_HOURS"})
    assert table.clean() == []
    story.check(kept=7)


def test_replaced_file_groups_and_dropped_partitions_go(tmp_path: Path) -> None:
    story = new_story(tmp_path)
    story.upsert(1, "x", part="q")
    story.upsert(2, "a")
    story.drop("q", "x")
    (empty,) = story.table.clean()  # as of the second commit, the partition is there
    assert not empty.files
    story.upsert(3, "a")
    story.upsert(4, "a")
    (done,) = story.table.clean()
    assert [path for path in done.files if path.startswith("part=q/")]
    assert not (story.place / "part=q/.hoodie_partition_metadata").exists()
    assert last_clean(story).partition_metadata["part=q"].is_partition_deleted
    story.check(kept=2)
    story.upsert(5, "x", part="q")
    assert (story.place / "part=q/.hoodie_partition_metadata").exists()
    story.check()


def test_what_a_savepoint_needs_stays_until_it_is_deleted(tmp_path: Path) -> None:
    story = long_story(tmp_path, commits=3)
    saved = story.times[1]
    story.table.savepoint(saved)
    for v in range(10, 15):
        story.upsert(v, "a")
    story.table.clean()
    name = {path for path in story.data_files() if saved in path}
    assert len(name) == 1
    assert wheel_rows(story.place, as_of=saved)
    assert story.table.clean() == []
    story.table.delete_savepoint(saved)
    (done,) = story.table.clean()
    assert {path.rpartition("/")[2] for path in done.files} == name
    story.check(kept=2)


def test_what_a_pending_plan_reads_stays(tmp_path: Path) -> None:
    options = {**NO_SMALL_FILES, "hoodie.compact.inline": "false"}
    story = new_story(tmp_path, "mor", **options)
    for v in range(4):
        story.upsert(v, "a", "b")
    ref = open_ref(str(story.place), {"hoodie.compact.inline.max.delta.commits": 1})
    plan = schedule_compaction(ref)
    assert plan is not None
    for v in range(4, 8):
        story.upsert(v, "a")
    spared = load_protected_files(ref, ref.load_timeline())
    assert {name for name in story.data_files() if name in spared}
    assert not any(done.files for done in story.table.clean())
    assert spared <= story.data_files()
    story.check()


def test_dead_writes_are_rolled_back_first(tmp_path: Path) -> None:
    story = long_story(tmp_path)
    dead = dead_upsert(story.place, rows(99, "a", "z"))
    table = story.open(**{"hoodie.clean.failed.writes.policy": "lazy"})
    table.clean()
    assert table._ref.load_timeline().find(dead) is None
    assert states(story, "rollback") == ["completed"]
    story.check(kept=2)


def test_a_clean_that_was_cut_off_is_finished_by_the_next_one(tmp_path: Path) -> None:
    story = long_story(tmp_path)

    def work(table: Table) -> None:
        Table(open_ref(str(story.place), SETTINGS, table._ref.env), LocalEngine(1)).clean()

    cut_off = die_over(story.place, work, at=r"\.parquet$")
    story.check(kept=2)
    assert story.table.clean() == []  # its heartbeat is young: it may be alive
    story.age()
    done = story.table.clean()
    assert [each.instant for each in done] == [cut_off]
    assert done[0].is_resumed
    story.check(kept=2)


SETTINGS = {"hoodie.clean.commits.retained": 2, "hoodie.write.lock.provider": "in_process"}


def test_only_one_carries_a_clean_out(tmp_path: Path) -> None:
    story = long_story(tmp_path)
    ref = open_ref(str(story.place), SETTINGS)
    instant = schedule_clean(ref, LocalEngine())
    assert instant is not None
    owned = own_plan(ref, instant.requested_time)
    with pytest.raises(PlanInProgress):
        own_plan(ref, instant.requested_time)
    assert run_clean(ref, LocalEngine(), instant) is None
    owned.attempt.heartbeat.release()  # type: ignore[union-attr] # it was pending
    assert run_clean(ref, LocalEngine(), instant) is not None
    story.check(kept=2)


def test_the_second_clean_lists_only_partitions_that_were_written_to(tmp_path: Path) -> None:
    story = new_story(tmp_path)
    for part in ("p", "q", "r"):
        story.upsert(0, f"in {part}", part=part)
        story.upsert(1, f"in {part}", part=part)
    assert story.table.clean()
    for v in range(3):
        story.upsert(10 + v, "in q", part="q")
    listed = []
    storage = TracedStorage(
        open_storage(str(story.place)),
        before=lambda verb, path: listed.append(path) if verb == "list" else None,
    )
    ref = open_ref(str(story.place), SETTINGS, Env(storage))
    assert Table(ref).clean()
    assert {path for path in listed if path.startswith("part=")} == {"part=q", "part=r"}
    story.check(kept=2)


def test_appends_leave_a_clean_without_files_once_in_a_while(tmp_path: Path) -> None:
    """So that nobody has to list the whole table after each commit."""
    story = new_story(tmp_path)
    for v in range(16):
        done = story.table.bulk_insert(rows(v, f"key {v}", part=f"p{v}"))
        story.rows[f"key {v}"] = v
        story.note(done.instant)
        story.table.clean()
    assert states(story, "clean") == ["completed", "completed"]
    story.check(kept=16)


def test_a_clean_changes_no_row_whatever_the_engine_says(tmp_path: Path) -> None:
    """The plan and the result are what Apache Hudi expects to find: names, versions, policy."""
    story = long_story(tmp_path)
    (done,) = story.table.clean()
    metadata = last_clean(story)
    assert metadata.total_files_deleted == len(done.files)
    assert metadata.earliest_commit_to_retain == story.times[-2]
    assert metadata.last_completed_commit_timestamp == story.times[-1]
    (told,) = metadata.partition_metadata.values()
    assert set(told.success_delete_files) == {path.rpartition("/")[2] for path in done.files}
    assert not (story.place / paths.heartbeat(done.instant)).exists()
    assert isinstance(story.table.to_arrow(), pa.Table)
