"""A bulk insert in pieces: each part in a process of its own, one heartbeat for all."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from support.wheel import wheel_rows
from support.writer_machines import COMPLETED, EXPIRY_S, INTERVAL_MS, SCHEMA, Fleet, Machine, rows

import hoodoo
from hoodoo.errors import (
    CommitFailed,
    CommitUnknown,
    ConfigError,
    HeartbeatLost,
    InputError,
    SchemaMismatch,
    TaskStopped,
    UnsupportedFeature,
    WriteConflict,
)
from hoodoo.model import paths
from hoodoo.model.commit import WriteStat
from hoodoo.runtime.engine import LocalEngine
from hoodoo.table.ref import open_ref
from hoodoo.write.detached import (
    DetachedWrite,
    abandon_detached,
    begin_detached,
    commit_detached,
    write_rows,
)

INTERVAL_S = INTERVAL_MS / 1000
ENGINE = LocalEngine(threads=1)


def at(machine: Machine, write: DetachedWrite) -> DetachedWrite:
    """The write as it arrives at another machine."""
    return replace(write, context=replace(write.context, ref=machine.ref))


def part(
    machine: Machine, write: DetachedWrite, given: pa.Table, *, number: int = 0, attempt: int = 0
) -> tuple[WriteStat, ...]:
    return write_rows(at(machine, write), given.to_batches(), number=number, attempt=attempt)


def own_files(fleet: Fleet) -> list[str]:
    """Heartbeats and begin markers."""
    own = (paths.HEARTBEATS, ".hoodie/.temp")
    return [entry.path for place in own for entry in fleet.store.list(place, recursive=True)]


def begin_here() -> tuple[Fleet, DetachedWrite]:
    fleet = Fleet()
    return fleet, begin_detached(fleet.machine("planner").ref, SCHEMA)


def test_parts_of_many_processes_make_one_commit() -> None:
    fleet, write = begin_here()
    stats = part(fleet.machine("task 1"), write, rows(k1=1, k2=2))
    stats += part(fleet.machine("task 2"), write, rows("b", k3=3), number=1)
    judge = fleet.machine("judge")
    assert judge.rows() == {}
    done = commit_detached(at(fleet.machine("committer"), write), stats, ENGINE)
    assert done.requested_time == write.instant.requested_time
    assert judge.rows() == {"k1": 1, "k2": 2, "k3": 3}
    assert own_files(fleet) == []
    assert not list(fleet.store.list(paths.completion_directory(done.requested_time, 1)))
    assert not judge.table.recover().rolled_back
    abandon_detached(at(fleet.machine("committer"), write))
    assert judge.rows() == {"k1": 1, "k2": 2, "k3": 3}


def test_a_part_that_takes_long_keeps_the_write_alive() -> None:
    fleet, write = begin_here()
    judge = fleet.machine("judge")

    def slow(given: pa.Table):  # type: ignore[no-untyped-def] # batches, in their own time
        for batch in given.to_batches():
            fleet.world.pass_time(3 * EXPIRY_S)
            assert not judge.table.recover().rolled_back
            yield batch

    stats = write_rows(at(fleet.machine("task"), write), slow(rows(k1=1)), number=0, attempt=0)
    fleet.world.pass_time(EXPIRY_S - 1)
    commit_detached(at(fleet.machine("committer"), write), stats, ENGINE)
    assert judge.rows() == {"k1": 1}


def test_attempt_is_lost_after_pause_longer_than_expiry() -> None:
    fleet, write = begin_here()
    stats = part(fleet.machine("task"), write, rows(k1=1))
    fleet.world.pass_time(EXPIRY_S + 1)
    with pytest.raises(HeartbeatLost, match="silent for longer"):
        part(fleet.machine("late task"), write, rows(k2=2), number=1)
    with pytest.raises(HeartbeatLost, match="silent for longer"):
        commit_detached(at(fleet.machine("committer"), write), stats, ENGINE)
    assert fleet.machine("judge").rows() == {}
    assert fleet.data_files() == []


def test_what_others_rolled_back_is_not_committed() -> None:
    fleet, write = begin_here()
    stats = part(fleet.machine("task"), write, rows(k1=1))
    fleet.world.pass_time(EXPIRY_S + 1)
    judge = fleet.machine("judge")
    assert judge.table.recover().rolled_back
    with pytest.raises(HeartbeatLost, match="gone"):
        commit_detached(at(fleet.machine("committer"), write), stats, ENGINE)
    with pytest.raises(HeartbeatLost, match="gone"):
        part(fleet.machine("stray"), write, rows(k1=1))
    judge.table.insert(rows(k2=2))
    assert judge.rows() == {"k2": 2}


def test_giving_up_leaves_nothing() -> None:
    fleet, write = begin_here()
    part(fleet.machine("task"), write, rows(k1=1))
    assert fleet.data_files()
    abandon_detached(at(fleet.machine("committer"), write))
    assert fleet.data_files() == []
    assert own_files(fleet) == []
    assert fleet.machine("judge").ref.load_timeline().find(write.instant.requested_time) is None


def test_a_part_that_runs_twice_is_written_once() -> None:
    fleet, write = begin_here()
    first = part(fleet.machine("task"), write, rows(k1=1, k2=2))
    again = part(fleet.machine("again"), write, rows(k2=2, k1=1), attempt=1)
    assert first == again
    with pytest.raises(CommitFailed, match="not deterministic"):
        part(fleet.machine("other rows"), write, rows(k1=1, k3=3), attempt=2)
    commit_detached(at(fleet.machine("committer"), write), first, ENGINE)
    assert fleet.machine("judge").rows() == {"k1": 1, "k2": 2}
    assert len(fleet.data_files()) == 1


@pytest.mark.parametrize("landed", [True, False])
def test_a_commit_whose_outcome_is_unknown_stands_if_it_was_decided(landed: bool) -> None:
    fleet, write = begin_here()
    stats = part(fleet.machine("task"), write, rows(k1=1))
    committer = fleet.machine("committer")
    committer.storage.lose("create", paths.HEAD, landed=landed)
    committer.storage.lose("create", paths.HEAD, landed=False, times=10)
    committer.storage.lose("create", COMPLETED, landed=False, times=10)
    with pytest.raises(CommitUnknown):
        commit_detached(at(committer, write), stats, ENGINE)
    abandon_detached(at(fleet.machine("aborter"), write))  # as Spark does after any failure
    judge = fleet.machine("judge")
    assert judge.rows() == ({"k1": 1} if landed else {})
    assert bool(fleet.data_files()) is landed
    fleet.world.pass_time(2 * EXPIRY_S + 1)
    assert not judge.table.recover().rolled_back
    assert judge.rows() == ({"k1": 1} if landed else {})


def test_a_conflict_is_rolled_back() -> None:
    fleet = Fleet()
    south = fleet.machine("south")
    south.table.insert(rows(k0=0))
    write = begin_detached(fleet.machine("planner").ref, SCHEMA.append(pa.field("w", pa.int64())))
    widened = rows(k1=1).append_column("w", pa.array([1]))
    stats = part(fleet.machine("task"), write, widened)
    south.table.upsert(rows(k2=2).append_column("w", pa.array(["text"])))
    with pytest.raises(WriteConflict):
        commit_detached(at(fleet.machine("committer"), write), stats, ENGINE)
    assert south.rows() == {"k0": 0, "k2": 2}
    assert own_files(fleet) == []


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (SCHEMA.remove(0), InputError, "no column 'id'"),
        (SCHEMA.append(pa.field("ID", pa.string())), InputError, "duplicate column name"),
        (SCHEMA.set(2, pa.field("v", pa.string())), SchemaMismatch, "v"),
    ],
)
def test_bad_columns_are_refused_before_anything_is_begun(
    given: pa.Schema, error: type[Exception], message: str
) -> None:
    fleet = Fleet()
    with pytest.raises(error, match=message):
        begin_detached(fleet.machine("planner").ref, given)
    assert not fleet.machine("judge").ref.load_timeline().instants
    assert own_files(fleet) == []


@pytest.mark.parametrize(
    "setting",
    [
        {"hoodie.index.type": "BUCKET"},
        {"hoodie.combine.before.insert": True},
        {"hoodie.bulkinsert.sort.mode": "GLOBAL_SORT"},
    ],
)
def test_what_moves_rows_is_refused(setting: dict[str, object]) -> None:
    fleet = Fleet()
    with pytest.raises(UnsupportedFeature, match=r"use table\.bulk_insert"):
        begin_detached(fleet.machine("planner", **setting).ref, SCHEMA)


def test_a_table_with_buckets_is_known_by_its_files() -> None:
    fleet = Fleet()
    buckets = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": 4}
    fleet.machine("north", **buckets).table.insert(rows(k1=1))
    with pytest.raises(ConfigError, match="bucket index"):
        begin_detached(fleet.machine("planner").ref, SCHEMA)


def test_a_row_without_a_key_is_no_row() -> None:
    fleet, write = begin_here()
    bad = pa.table([["k1", None], ["a", "a"], [1, 2]], schema=SCHEMA)
    with pytest.raises(InputError, match="record key id is null"):
        part(fleet.machine("task"), write, bad)
    assert fleet.data_files() == []


def test_detached_write_survives_pickling(tmp_path: Path) -> None:
    place = str(tmp_path / "t")
    hoodoo.create_table(place, schema=SCHEMA, record_key="id")
    hoodoo.open_table(place).insert(rows(k0=0))
    sent = pickle.dumps(begin_detached(open_ref(place), SCHEMA))
    stats = write_rows(pickle.loads(sent), rows(k1=1).to_batches(), number=0, attempt=0)
    commit_detached(pickle.loads(sent), pickle.loads(pickle.dumps(stats)), ENGINE)
    read = hoodoo.open_table(place).to_arrow(columns=["id", "v"])
    assert sorted(read["id"].to_pylist()) == ["k0", "k1"]
    assert sorted(row["id"] for row in wheel_rows(tmp_path / "t")) == ["k0", "k1"]


def test_a_part_that_fails_stops_the_others_at_their_next_file() -> None:
    """No process spans the write: a note tells them, and goes with the write."""
    fleet, write = begin_here()
    bad = pa.table([[None], ["a"], [1]], schema=SCHEMA)
    with pytest.raises(InputError, match="id"):
        part(fleet.machine("task 1"), write, bad)
    assert [entry.path for entry in fleet.store.list(paths.STOPS)]
    with pytest.raises(TaskStopped, match=r"another task of instant .* failed: .*id"):
        part(fleet.machine("task 2"), write, rows("b", k3=3), number=1)
    abandon_detached(at(fleet.machine("committer"), write))
    assert not list(fleet.store.list(paths.STOPS))
    assert fleet.machine("judge").rows() == {}
    assert not fleet.data_files()


def test_the_note_of_a_write_that_nobody_ends_is_swept() -> None:
    fleet, write = begin_here()
    bad = pa.table([[None], ["a"], [1]], schema=SCHEMA)
    with pytest.raises(InputError):
        part(fleet.machine("task"), write, bad)
    fleet.world.pass_time(3 * EXPIRY_S)
    medic = fleet.machine("medic")
    medic.table.recover()
    fleet.world.pass_time(3 * EXPIRY_S)
    medic.table.recover()
    assert not list(fleet.store.list(paths.STOPS))
    assert not medic.ref.load_timeline().pending
