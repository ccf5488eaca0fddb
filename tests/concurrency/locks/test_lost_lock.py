"""Beside an engine that knows no head, a writer that lost the lock looks before it acknowledges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from support.interruptions import act_once_at
from support.writer_machines import COMPLETED, Fleet, Machine, rows

from hoodoo.concurrency.locks.table_lock import break_lock, hold_lock
from hoodoo.errors import LockLost
from hoodoo.format.timeline.instant_files import encode
from hoodoo.model import paths
from hoodoo.model.commit import InstantInfo, by_partition
from hoodoo.model.instant import Action, Instant, InstantTime, State
from hoodoo.model.plans import CompactionOperation, CompactionPlan, RollbackPlan
from hoodoo.table.timeline import instant_path, read_commit

Meddle = Callable[[Machine, Instant], None]


def put(machine: Machine, instant: Instant, data: bytes = b"") -> None:
    machine.storage.create(instant_path(machine.ref.properties.timeline_paths, instant), data)


def later(instant: Instant, by_ms: int = 1) -> InstantTime:
    return InstantTime(str(int(instant.requested_time) + by_ms))


def plan_of(instant: Instant) -> RollbackPlan:
    info = InstantInfo(commit_time=instant.requested_time, action=instant.action.value)
    return RollbackPlan(instant_to_rollback=info)


def roll_back(south: Machine, instant: Instant) -> None:
    """As Apache Hudi: the data file, then the instant; nothing but a completed rollback is left."""
    timeline = south.ref.properties.timeline_paths
    rollback = Instant(later(instant), Action.ROLLBACK, State.REQUESTED)
    put(south, rollback, encode(plan_of(instant)))
    for path in [e.path for e in south.storage.list("part=a")]:
        if instant.requested_time in path:
            south.storage.delete(path)
    south.storage.delete(instant_path(timeline, instant))
    requested = replace(instant, state=State.REQUESTED)
    south.storage.delete(instant_path(timeline, requested))


def request_rollback(south: Machine, instant: Instant) -> None:
    rollback = Instant(later(instant), Action.ROLLBACK, State.REQUESTED)
    put(south, rollback, encode(plan_of(instant)))


def rewrite_the_group(south: Machine, instant: Instant) -> None:
    """A commit of another engine to the same file group, which sees the other one only pending."""
    (first,) = south.ref.load_timeline().commits
    metadata = read_commit(south.ref.env, south.ref.properties.timeline_paths, first)
    ((_, stat),) = metadata.stats()
    time = later(instant, 2)
    assert stat.file_name is not None
    name = stat.file_name.replace(first.requested_time, time)
    south.storage.create(f"part=a/{name}", south.storage.read(stat.path))
    mine = replace(stat, path=f"part=a/{name}", prev_commit=first.requested_time)
    data = encode(
        replace(metadata, partition_to_write_stats=by_partition([mine]), extra_metadata={})
    )
    for state in (State.REQUESTED, State.INFLIGHT):
        put(south, Instant(time, Action.COMMIT, state))
    completion = later(instant, 86_400_000)
    put(south, Instant(time, Action.COMMIT, State.COMPLETED, completion), data)


def plan_compaction(south: Machine, instant: Instant) -> None:
    """A compaction that hides whatever is completed before it and is not part of it."""
    (first,) = south.ref.load_timeline().commits
    ((_, stat),) = read_commit(south.ref.env, south.ref.properties.timeline_paths, first).stats()
    assert stat.file_id is not None
    operation = CompactionOperation(
        partition_path="part=a",
        file_id=stat.file_id,
        base_instant_time=first.requested_time,
        data_file_path=stat.file_name,
        delta_file_paths=(),
        metrics={},
    )
    plan = CompactionPlan(operations=(operation,))
    put(south, Instant(later(instant, 3_600_000), Action.COMPACTION, State.REQUESTED), encode(plan))


def delete_its_file(south: Machine, instant: Instant) -> None:
    for path in [e.path for e in south.storage.list("part=a")]:
        if instant.requested_time in path:
            south.storage.delete(path)


def stall_without_lock(fleet: Fleet, meddle: Meddle, verb: str, part: str) -> Machine:
    """North stops at this operation of its gate; another engine takes the lock and meddles."""
    north, south = fleet.machine("north"), fleet.machine("south")

    def meanwhile() -> None:
        break_lock(south.ref)
        meddle(south, south.ref.load_timeline().instants[-1])

    act_once_at(north, verb, part, meanwhile)
    return north


MEDDLERS = [roll_back, request_rollback, rewrite_the_group, delete_its_file]


@pytest.mark.parametrize("meddle", MEDDLERS)
@pytest.mark.parametrize("at", [("replace", f"{paths.HEAD}$"), ("create", COMPLETED)])
def test_commit_is_taken_back_if_another_engine_overtook_it(
    meddle: Meddle, at: tuple[str, str]
) -> None:
    """Hole 3: it was acknowledged, although its files were gone, or its rows were hidden."""
    fleet = Fleet()
    fleet.machine("first").table.insert(rows(k1=1))
    north = stall_without_lock(fleet, meddle, *at)
    with pytest.raises(LockLost, match="taken back"):
        north.table.upsert(rows(k1=10))
    south = fleet.machine("south")
    commits = south.ref.load_timeline().commits
    assert all(
        north.storage.exists(stat.path)
        for commit in commits
        for _, stat in read_commit(
            south.ref.env, south.ref.properties.timeline_paths, commit
        ).stats()
    )
    assert south.rows() == {"k1": 1}


@pytest.mark.parametrize("at", [("replace", f"{paths.HEAD}$"), ("create", COMPLETED)])
def test_log_that_a_foreign_compaction_would_hide_is_taken_back(at: tuple[str, str]) -> None:
    fleet = Fleet("mor", **{"hoodie.parquet.small.file.limit": 0})
    fleet.machine("first").table.insert(rows(k1=1))
    north = stall_without_lock(fleet, plan_compaction, *at)
    with pytest.raises(LockLost, match=r"taken back: .* touches the same file groups"):
        north.table.upsert(rows(k1=10))


def test_commit_stays_if_nobody_overtook_it_after_the_lock_was_lost() -> None:
    fleet = Fleet()
    fleet.machine("first").table.insert(rows(k1=1))
    north = stall_without_lock(fleet, lambda south, instant: None, "create", COMPLETED)
    assert north.table.upsert(rows(k1=10)).instant
    assert fleet.machine("south").rows() == {"k1": 10}


def test_commit_stays_if_only_hoodoo_writers_came_after_the_lock_was_lost() -> None:
    """They saw the commit, or were refused by it."""
    fleet = Fleet(**{"hoodie.write.num.retries.on.conflict.failures": 2})
    fleet.machine("first").table.insert(rows(k1=1))
    done = []

    def write_on_top(south: Machine, instant: Instant) -> None:
        """It finishes the other's decision, is refused by it, and is then planned on top of it."""
        done.append(south.table.upsert(rows(k1=20)))

    north = stall_without_lock(fleet, write_on_top, "create", COMPLETED)
    north.table.upsert(rows(k1=10))
    assert done
    assert fleet.machine("south").rows() == {"k1": 20}


def test_release_does_not_delete_lock_file_of_another() -> None:
    """Apache Hudi removes our lock when it gives up waiting, and the next one takes it."""
    fleet = Fleet(**{"hoodie.write.lock.provider": "filesystem"})
    north = fleet.machine("north")
    with hold_lock(north.ref, "commit"):
        fleet.store.delete(".hoodie/lock")
        fleet.store.create(".hoodie/lock", b"of someone else")
    assert fleet.store.read(".hoodie/lock") == b"of someone else"
