"""Batches of applications: each is committed once, whoever sends it how often."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from threading import Barrier, Thread
from typing import Any

import pyarrow as pa
import pytest
from support.writer_machines import Fleet, Machine, PowerCut, cut_power_at, rows

import hoodoo
from hoodoo.errors import CommitUnknown, InputError, WriteConflict
from hoodoo.model.commit import BATCHES_KEY, CommitMetadata, CommitNotes, check_notes
from hoodoo.table.timeline import read_commit
from hoodoo.write.commit.batches import BatchGuard, decode_batches, load_batches

EARLY = "hoodie.write.concurrency.early.conflict.detection.enable"


def commits(machine: Machine) -> list[CommitMetadata]:
    """What the completed commits say, oldest first."""
    ref = machine.ref
    ordered = sorted(
        ref.load_timeline().commits, key=lambda instant: instant.completion_or_requested_time
    )
    return [read_commit(ref.env, ref.properties.timeline_paths, instant) for instant in ordered]


def batches(machine: Machine) -> list[dict[str, str] | None]:
    """The batches that each commit tells of."""
    texts = [commit.extra_metadata.get(BATCHES_KEY) for commit in commits(machine)]
    return [json.loads(text) if text else None for text in texts]


WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "insert": lambda table, notes: table.insert(rows(k2=2), **notes),
    "bulk_insert": lambda table, notes: table.bulk_insert(rows(k2=2), **notes),
    "upsert": lambda table, notes: table.upsert(rows(k1=2), **notes),
    "delete": lambda table, notes: table.delete(["k1"], **notes),
    "insert_overwrite": lambda table, notes: table.insert_overwrite(rows(k2=2), **notes),
    "insert_overwrite_table": lambda table, notes: table.insert_overwrite_table(
        rows(k2=2), **notes
    ),
    "delete_partitions": lambda table, notes: table.delete_partitions(["part=a"], **notes),
}


@pytest.mark.parametrize("operation", WRITES)
@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_a_committed_batch_is_skipped_whatever_the_operation(
    operation: str, table_type: str
) -> None:
    north = Fleet(table_type).machine("north")
    north.table.insert(rows(k1=1))
    notes = {"metadata": {"source": "kafka"}, "transaction": ("app", 4)}
    first = WRITES[operation](north.table, notes)
    assert not first.is_skipped
    said = commits(north)[-1].extra_metadata
    assert said["source"] == "kafka"
    assert json.loads(said[BATCHES_KEY]) == {"app": "4"}
    before = sorted(entry.path for entry in north.storage.list("", recursive=True))
    for number in (4, 3):
        again = WRITES[operation](north.table, notes | {"transaction": ("app", number)})
        assert again.is_skipped
        assert (again.instant, again.completion_time) == (first.instant, first.completion_time)
        assert again.stats == first.stats
    assert sorted(entry.path for entry in north.storage.list("", recursive=True)) == before


def test_the_next_batch_and_other_applications_are_written() -> None:
    north = Fleet().machine("north")
    assert not north.table.upsert(rows(k1=1), transaction=("one", 0)).is_skipped
    first = north.table.upsert(rows(k1=2), transaction=("one", 1))
    assert not north.table.upsert(rows(k1=3), transaction=("two", 0)).is_skipped
    north.table.upsert(rows(k1=4))
    skipped = north.table.upsert(rows(k1=5), transaction=("one", 1))
    assert skipped.is_skipped
    assert skipped.instant == first.instant  # not the one of "two", which repeats the batch
    assert north.rows() == {"k1": 4}
    assert batches(north) == [{"one": "0"}, {"one": "1"}, {"one": "1", "two": "0"}, None]


def test_a_lost_answer_is_no_second_write() -> None:
    fleet = Fleet()
    north = fleet.machine("north")
    north.storage.lose("create", r"_\d+\.commit$", landed=True)
    north.storage.lose("create", r"_\d+\.commit$", landed=False, times=100)
    with pytest.raises(CommitUnknown) as lost:
        north.table.insert(rows(k1=1), transaction=("app", 1))
    again = fleet.machine("north").table.insert(rows(k1=1), transaction=("app", 1))
    assert again.is_skipped
    assert again.instant == lost.value.instant
    south = fleet.machine("south")
    assert south.table.to_arrow()["id"].to_pylist() == ["k1"]


def test_an_unfinished_decision_counts() -> None:
    fleet = Fleet()
    north, south = fleet.machine("north"), fleet.machine("south")
    north.storage.lose("create", r"_\d+\.commit$", landed=False, times=100)
    with pytest.raises(CommitUnknown) as lost:
        north.table.insert(rows(k1=1), transaction=("app", 1))
    assert not south.ref.load_timeline().commits  # decided, and not yet to be seen
    again = south.table.insert(rows(k1=1), transaction=("app", 1))
    assert again.is_skipped
    assert again.instant == lost.value.instant
    assert south.table.to_arrow()["id"].to_pylist() == ["k1"]


def overtake(north: Machine, write: Callable[[], object], path_part: str) -> None:
    """Have something written once, when north comes to a path."""
    left = 1

    def before(verb: str, path: str) -> None:
        nonlocal left
        if left and verb == "create" and path_part in path:
            left = 0
            write()

    north.storage.before(before)


@pytest.mark.parametrize("operation", ["insert", "upsert"])
def test_of_two_writers_of_a_batch_the_second_is_skipped_in_the_gate(operation: str) -> None:
    fleet = Fleet()
    north, south = fleet.machine("north"), fleet.machine("south")
    south.table.insert(rows(k1=1))
    overtake(
        north,
        lambda: getattr(south.table, operation)(rows(k1=2, k2=2), transaction=("app", 1)),
        ".marker.",
    )
    done = getattr(north.table, operation)(rows(k1=2, k2=2), transaction=("app", 1))
    assert done.is_skipped
    assert batches(south) == [None, {"app": "1"}]
    assert not south.ref.load_timeline().pending
    assert len(fleet.data_files()) == 2  # what north wrote is rolled back
    assert south.rows() == {"k1": 2, "k2": 2}


def test_a_conflict_with_another_batch_is_a_conflict() -> None:
    fleet = Fleet()
    north, south = fleet.machine("north"), fleet.machine("south")
    south.table.insert(rows(k1=1))
    overtake(north, lambda: south.table.upsert(rows(k1=2), transaction=("b", 1)), ".marker.")
    with pytest.raises(WriteConflict):
        north.table.upsert(rows(k1=3), transaction=("a", 1))
    assert not north.table.upsert(rows(k1=3), transaction=("a", 1)).is_skipped
    assert batches(south)[-1] == {"a": "1", "b": "1"}


def test_a_writer_that_is_stopped_early_waits_for_its_own_batch() -> None:
    fleet = Fleet(**{EARLY: True})
    north, south = fleet.machine("north"), fleet.machine("south")
    south.table.insert(rows(k1=1))
    younger: list[object] = []

    def write_beside() -> None:
        thread = Thread(
            target=lambda: younger.append(south.table.upsert(rows(k1=2), transaction=("app", 1)))
        )
        thread.start()
        threads.append(thread)

    threads: list[Thread] = []
    overtake(north, write_beside, ".marker.MERGE")
    done = north.table.upsert(rows(k1=2), transaction=("app", 1))
    threads[0].join(30)
    assert sorted([done.is_skipped, younger[0].is_skipped]) == [False, True]  # type: ignore[attr-defined]  # a CommitResult
    assert batches(south) == [None, {"app": "1"}]


def test_a_batch_whose_writer_died_is_written_by_the_one_that_waited(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fleet = Fleet(**{EARLY: True})
    north, south = fleet.machine("north"), fleet.machine("south")
    south.table.insert(rows(k1=1))
    cut_power_at(north, "create", ".marker.MERGE")
    with pytest.raises(PowerCut):
        north.table.upsert(rows(k1=2), transaction=("app", 1))
    north.clock.is_stopped = True
    done = south.table.upsert(rows(k1=2), transaction=("app", 1))
    assert not done.is_skipped
    assert batches(south) == [None, {"app": "1"}]
    assert south.rows() == {"k1": 2}
    assert re.search(r"waiting_for_writes_that_went_first .* on north.* dead after", caplog.text)


def test_batches_survive_archival_services_and_other_writes() -> None:
    options = {
        "hoodie.keep.min.commits": 3,
        "hoodie.keep.max.commits": 4,
        "hoodie.clean.commits.retained": 2,
    }
    fleet = Fleet("mor", **options)
    north = fleet.machine("north")
    north.table.upsert(rows(k1=0), transaction=("app", 7))
    for value in range(1, 8):
        north.table.upsert(rows(k1=value))
    north.table.schedule_compaction()
    north.table.run_compaction()
    north.table.clean()
    fleet.world.pass_time(3600)
    assert north.table.archive().instants
    told = batches(north)
    assert told == [None] * len(told)  # the commit of the batch is archived
    assert north.table.upsert(rows(k1=99), transaction=("app", 7)).is_skipped
    assert north.rows() == {"k1": 7}
    north.table.upsert(rows(k1=8), transaction=("app", 8))
    assert batches(north)[-1] == {"app": "8"}


def test_a_batch_that_was_taken_back_is_written_again() -> None:
    fleet = Fleet()
    north = fleet.machine("north")
    north.table.upsert(rows(k1=1), transaction=("app", 1))
    second = north.table.upsert(rows(k1=2), transaction=("app", 2))
    fleet.world.pass_time(200)
    north.table.undo(second.instant)
    assert north.table.upsert(rows(k1=3), transaction=("app", 1)).is_skipped
    assert not north.table.upsert(rows(k1=3), transaction=("app", 2)).is_skipped
    assert north.rows() == {"k1": 3}


def test_commits_of_hudis_sink_tell_of_one_application_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    north = Fleet().machine("north")

    def commit_as_hudi(app: str, number: int) -> None:
        text = json.dumps({app: str(number)})
        with monkeypatch.context() as patch:
            patch.setattr(BatchGuard, "refuse_committed", lambda *_: {BATCHES_KEY: text})
            north.table.upsert(rows(k1=number))

    north.table.upsert(rows(k1=0), transaction=("ours", 3))
    commit_as_hudi("theirs", 5)
    commit_as_hudi("others", 6)
    assert north.table.upsert(rows(k1=9), transaction=("theirs", 5)).is_skipped
    assert north.table.upsert(rows(k1=9), transaction=("ours", 3)).is_skipped
    north.table.upsert(rows(k1=9), transaction=("ours", 4))
    assert batches(north)[-1] == {"others": "6", "ours": "4", "theirs": "5"}


def test_the_newest_commit_counts_if_hudis_batches_begin_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    north = Fleet().machine("north")
    for number in (8, 2):
        text = json.dumps({"app": str(number)})
        with monkeypatch.context() as patch:
            patch.setattr(BatchGuard, "refuse_committed", lambda *_, text=text: {BATCHES_KEY: text})
            north.table.upsert(rows(k1=number))
    assert north.table.upsert(rows(k1=9), transaction=("app", 2)).is_skipped
    assert not north.table.upsert(rows(k1=3), transaction=("app", 3)).is_skipped
    assert batches(north)[-1] == {"app": "3"}


def test_what_old_versions_of_hudi_stored_is_no_batch() -> None:
    assert decode_batches({BATCHES_KEY: '{"12":"application_1-query"}'}) == {}


def test_writes_that_are_no_batch_read_nothing_for_it() -> None:
    north = Fleet().machine("north")
    north.table.insert(rows(k1=1), transaction=("app", 1))
    assert check_notes({}) == CommitNotes()
    north.table.insert(rows(k2=1))
    assert BATCHES_KEY not in commits(north)[-1].extra_metadata
    ref = north.ref
    known = load_batches(ref.env, ref.properties.timeline_paths, ref.load_timeline())
    assert known == {"app": 1}


@pytest.mark.parametrize(
    ("notes", "message"),
    [
        ({"metadata": {"schema": "x"}}, "'schema' is reserved"),
        ({"metadata": {BATCHES_KEY: "{}"}}, "is reserved"),
        ({"metadata": {"hoodoo.writer": "x"}}, "is reserved"),
        ({"metadata": {"a": 1}}, "not 'a': 1"),
        ({"metadata": {"": "b"}}, "not '': 'b'"),
        ({"metadata": "text"}, "not str"),
        ({"transaction": "app"}, "not 'app'"),
        ({"transaction": ("app", "1")}, "not '1'"),
        ({"transaction": ("app", True)}, "not True"),
        ({"transaction": ("app", -1)}, "not -1"),
        ({"transaction": ("", 1)}, "not ''"),
    ],
)
def test_bad_notes_are_refused_before_anything_is_written(
    notes: dict[str, Any], message: str
) -> None:
    north = Fleet().machine("north")
    with pytest.raises(InputError, match=message):
        north.table.insert(rows(k1=1), **notes)
    assert not north.ref.load_timeline().instants


def test_threads_that_send_a_batch_at_once_commit_it_once(tmp_path: Any) -> None:
    table = hoodoo.create_table(
        tmp_path / "t", schema=pa.schema([("id", pa.string())]), record_key="id"
    )
    start, results = Barrier(4), []

    def send() -> None:
        mine = hoodoo.open_table(tmp_path / "t")
        start.wait()
        results.append(mine.insert(pa.table({"id": ["a", "b"]}), transaction=("app", 1)))

    threads = [Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(result.is_skipped for result in results) == [False, True, True, True]
    assert len({result.instant for result in results}) == 1
    assert sorted(table.to_arrow()["id"].to_pylist()) == ["a", "b"]
