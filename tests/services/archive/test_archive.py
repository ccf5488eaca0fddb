"""Archive: the active timeline stays short, and nobody misses what left it."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.dead_writes import die_over
from support.old_tables import SMALL, Story, long_story, new_story, rows

from hoodoo.api.table import Table
from hoodoo.errors import ConfigError, ObjectNotFound
from hoodoo.format.timeline import history
from hoodoo.model.instant import Action, Instant, InstantTime, State
from hoodoo.model.names import parse_manifest
from hoodoo.read.snapshot import take_snapshot
from hoodoo.runtime.engine import LocalEngine
from hoodoo.table.history import load_history
from hoodoo.table.ref import open_ref
from hoodoo.table.timeline import read_commit

pytestmark = pytest.mark.slow

TABLE_TYPES = pytest.mark.parametrize("table_type", ["cow", "mor"])
HISTORY = ".hoodie/timeline/history"
WITHOUT_HISTORY = (rf"{HISTORY}/manifest_\d+$",)


def history_files(story: Story) -> list[str]:
    """The files that the newest manifest names."""
    folder = story.place / HISTORY
    number = history.decode_version((folder / "_version_").read_bytes())
    manifest = history.decode_manifest((folder / f"manifest_{number}").read_bytes())
    for entry in manifest:
        assert (folder / entry.file_name).stat().st_size == entry.size_bytes
    return [entry.file_name for entry in manifest]


@TABLE_TYPES
def test_instants_move_into_the_history_as_they_were(tmp_path: Path, table_type: str) -> None:
    story = long_story(tmp_path, table_type)
    ref = story.table._ref
    known = {
        instant.requested_time: read_commit(ref.env, ref.properties.timeline_paths, instant)
        for instant in ref.load_timeline().commits
    }
    since = {time: story.table.changes(since=time).num_rows for time in story.times}
    story.table.clean()
    story.settle()
    done = story.table.archive()
    assert done.instants == tuple(story.times[:4])
    assert [i.requested_time for i in ref.load_timeline().commits] == story.times[4:]
    archived = load_history(ref.env, ref.properties.timeline_paths)
    assert [each.requested_time for each in archived] == story.times[:4]
    for instant in archived:
        found = read_commit(ref.env, ref.properties.timeline_paths, _as_instant(instant))
        assert found == known[instant.requested_time]
    story.check(kept=2)
    assert {time: story.table.changes(since=time).num_rows for time in story.times} == since
    assert story.table.archive().instants == ()
    story.upsert(100, "a", "z")
    story.check(kept=2)


def _as_instant(archived: history.ArchivedInstant) -> Instant:
    return Instant(
        archived.requested_time, archived.action, State.COMPLETED, archived.completion_time
    )


def test_archival_without_cleaning_keeps_every_commit_readable(tmp_path: Path) -> None:
    story = long_story(tmp_path)
    story.settle()
    assert story.table.archive().instants
    story.check(kept=7)


def test_what_is_younger_than_two_expiries_stays(tmp_path: Path) -> None:
    story = long_story(tmp_path)
    assert story.table.archive().instants == ()
    story.settle()
    story.upsert(100, "a")
    assert len(story.table.archive().instants) == 5


def test_a_replace_commit_stays_until_its_files_are_cleaned(tmp_path: Path) -> None:
    story = new_story(tmp_path)
    story.upsert(0, "x", part="q")
    dropped = story.drop("q", "x")
    for v in range(6):
        story.upsert(v, "a")
    story.settle()
    assert story.table.archive().instants == (story.times[0],)
    story.check()
    story.table.clean()
    story.settle()
    assert dropped in story.table.archive().instants
    story.check(kept=2)


def test_a_savepoint_stops_archival_unless_it_may_pass(tmp_path: Path) -> None:
    story = long_story(tmp_path)
    saved = story.times[1]
    story.table.savepoint(saved)
    story.settle()
    assert story.table.archive().instants == (story.times[0],)
    table = story.open(**{"hoodie.archive.beyond.savepoint": True})
    assert table.archive().instants == tuple(story.times[2:5])
    story.check()
    story.table.delete_savepoint(saved)
    story.check()


def test_cleans_leave_with_the_commits_around_them_and_the_last_one_stays(tmp_path: Path) -> None:
    story = new_story(tmp_path)
    for v in range(8):
        story.upsert(v, "a")
        story.table.clean()
    story.settle()
    story.table.archive()
    ref = story.table._ref
    archived = load_history(ref.env, ref.properties.timeline_paths)
    cleans = [each for each in archived if each.action is Action.CLEAN]
    assert cleans
    assert all(each.plan and each.metadata for each in cleans)
    assert all(each.plan is None for each in archived if each.action is Action.COMMIT)
    story.check(kept=2)


def test_files_of_the_history_are_merged_layer_by_layer(tmp_path: Path) -> None:
    story = new_story(
        tmp_path,
        **{"hoodie.timeline.compaction.batch.size": 2, "hoodie.keep.max.commits": 4},
    )
    for v in range(5):
        story.upsert(v, "a")
    story.table.clean()
    for v in range(5, 13):
        story.upsert(v, "a")
        story.upsert(v, "b")
        story.settle()
        assert story.table.archive().instants
        story.check(kept=1)
    ref = story.table._ref
    archived = [
        each.requested_time for each in load_history(ref.env, ref.properties.timeline_paths)
    ]
    assert archived == story.times[: len(archived)]
    layers = {int(name.removesuffix(".parquet")[-1]) for name in history_files(story)}
    assert max(layers) >= 2
    names = [path.name for path in (story.place / HISTORY).iterdir()]
    assert 3 <= len([name for name in names if parse_manifest(name)]) <= 7
    kept = len([name for name in names if name.endswith(".parquet")])
    assert kept <= 4 * len(history_files(story)) + 4


@pytest.mark.parametrize(
    "at",
    [
        *WITHOUT_HISTORY,
        rf"{HISTORY}/_version_$",
        r"timeline/\d+\.commit\.requested$",
        r"timeline/\d+_\d+\.commit$",
    ],
)
def test_an_archival_that_was_cut_off_is_finished_by_the_next_one(tmp_path: Path, at: str) -> None:
    story = long_story(tmp_path)
    story.settle()
    settings = {**SMALL, "hoodie.write.lock.provider": "in_process"}

    def work(table: Table) -> None:
        ref = open_ref(str(story.place), settings, table._ref.env)
        Table(ref, LocalEngine(1)).archive()

    with pytest.raises(ValueError, match="not enough values"):  # no instant of its own
        die_over(story.place, work, at=at)
    story.check(kept=2)
    done = story.table.archive()
    ref = story.table._ref
    assert sorted({*done.instants, *done.finished_earlier}) == story.times[:4]
    assert bool(done.finished_earlier) == (at not in WITHOUT_HISTORY)
    assert [i.requested_time for i in ref.load_timeline().commits] == story.times[4:]
    archived = [
        each.requested_time for each in load_history(ref.env, ref.properties.timeline_paths)
    ]
    assert archived == story.times[:4]
    story.check(kept=2)


def test_writers_that_planned_before_an_archival_commit_after_it(tmp_path: Path) -> None:
    story = long_story(tmp_path)
    story.settle()
    old = take_snapshot(story.table._ref)
    story.table.archive()
    first = old.timeline.commits.instants[0]
    assert read_commit(old.ref.env, old.ref.properties.timeline_paths, first).stats()
    gone = Instant(InstantTime("20200101000000000"), Action.COMMIT, State.COMPLETED)
    with pytest.raises(ObjectNotFound):
        read_commit(old.ref.env, old.ref.properties.timeline_paths, gone)
    story.table.insert(rows(1, "later"))


def test_bounds_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    story = long_story(tmp_path, commits=1)
    table = story.open(**{"hoodie.keep.min.commits": 9, "hoodie.keep.max.commits": 9})
    with pytest.raises(ConfigError, match="expected more than"):
        table.archive()
