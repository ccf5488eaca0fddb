"""The gate: each way to lose the right to publish is found, and an unknown outcome is settled."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest
from support.interruptions import act_once_at
from support.writer_machines import (
    COMPLETED,
    EXPIRY_S,
    Fleet,
    Machine,
    PowerCut,
    begin_commit,
    cut_power_at,
    rows,
)

from hoodoo.concurrency.locks.table_lock import break_lock
from hoodoo.concurrency.transactions import instants
from hoodoo.concurrency.transactions.gate import Attempt, publish
from hoodoo.concurrency.transactions.head import read_content
from hoodoo.concurrency.transactions.instants import open_instant
from hoodoo.concurrency.transactions.transaction import transaction
from hoodoo.errors import (
    AlreadyCommitted,
    CommitUnknown,
    HeartbeatLost,
    LockLost,
    PlanCancelled,
    StorageError,
    WriteConflict,
)
from hoodoo.format import json_files
from hoodoo.format.timeline.instant_files import encode
from hoodoo.model import paths
from hoodoo.model.commit import CommitMetadata, InstantInfo
from hoodoo.model.coordination import Decision, DecisionKind
from hoodoo.model.instant import Action, Instant
from hoodoo.model.plans import RequestedReplaceMetadata, RollbackPlan
from hoodoo.table.timeline import read_commit


def finish(machine: Machine, attempt: Attempt) -> Instant:
    with transaction(machine.ref, "commit") as txn:
        return publish(txn, attempt, CommitMetadata)


def state_of(fleet: Fleet, attempt: Attempt) -> str:
    found = fleet.machine("looker").ref.load_timeline().find(attempt.instant.requested_time)
    return found.state.value if found else "gone"


def head(fleet: Fleet) -> Decision:
    return json_files.decode(fleet.store.read(paths.HEAD), Decision)


def test_a_commit_takes_the_head_and_completes_once() -> None:
    fleet = Fleet()
    north = fleet.machine("north")
    attempt = begin_commit(north)
    completed = finish(north, attempt)
    found, beat = head(fleet), attempt.heartbeat.body
    assert (found.number, found.kind, found.instant, found.owner) == (
        1,
        DecisionKind.COMPLETE,
        completed.requested_time,
        f"{beat.owner}.1",
    )
    name = f"{completed.requested_time}_{completed.completion_time}.commit"
    assert found.path == f"{north.ref.properties.timeline_paths.active}/{name}"
    assert read_content(fleet.store, found) == fleet.store.read(found.path)
    with pytest.raises(AlreadyCommitted):
        finish(north, attempt)


def test_large_metadata_is_staged_and_removed_after_the_commit() -> None:
    fleet = Fleet()
    north = fleet.machine("north")
    attempt = begin_commit(north)
    metadata = CommitMetadata(extra_metadata={"notes": random.Random(1).randbytes(80_000).hex()})
    with transaction(north.ref, "commit") as txn:
        completed = publish(txn, attempt, lambda: metadata)
    assert head(fleet).content is None
    assert head(fleet).staged is not None
    assert not list(fleet.store.list(paths.STAGING))
    found = read_commit(north.ref.env, north.ref.properties.timeline_paths, completed)
    assert found == metadata


@pytest.mark.parametrize("size", [10, 80_000])
def test_next_transaction_finishes_an_unfinished_decision(size: int) -> None:
    """The machine dies between the head and the completed file."""
    fleet = Fleet()
    north, south = fleet.machine("north"), fleet.machine("south")
    attempt = begin_commit(north)
    notes = random.Random(1).randbytes(size).hex()
    cut_power_at(north, "create", COMPLETED)
    with pytest.raises(PowerCut), transaction(north.ref, "commit") as txn:
        publish(txn, attempt, lambda: CommitMetadata(extra_metadata={"notes": notes}))
    assert state_of(fleet, attempt) == "inflight"
    fleet.die(north)
    assert not south.table.recover().rolled_back
    assert state_of(fleet, attempt) == "completed"
    completed = south.ref.load_timeline().find(attempt.instant.requested_time)
    assert completed is not None
    found = read_commit(south.ref.env, south.ref.properties.timeline_paths, completed)
    assert found.extra_metadata == {"notes": notes}


def test_commit_fails_if_its_instant_was_removed() -> None:
    fleet = Fleet()
    north = fleet.machine("north")
    attempt = begin_commit(north)
    with transaction(north.ref, "test") as txn:
        instants.delete_pending_files(txn, attempt.instant)
    with pytest.raises(HeartbeatLost, match="gone, not inflight: it was rolled back"):
        finish(north, attempt)


def test_commit_succeeds_with_old_heartbeat_if_nobody_took_over() -> None:
    fleet = Fleet()
    north = fleet.machine("north")
    attempt = begin_commit(north)
    attempt.heartbeat.stop()
    fleet.world.pass_time(10 * EXPIRY_S)
    assert finish(north, attempt).is_completed


def test_commit_fails_while_a_rollback_by_apache_hudi_is_pending() -> None:
    """It knows no head, but its plan is on the timeline."""
    fleet = Fleet()
    north = fleet.machine("north")
    attempt = begin_commit(north)
    time = attempt.instant.requested_time
    plan = RollbackPlan(instant_to_rollback=InstantInfo(commit_time=time, action="commit"))
    later = str(int(time) + 1)
    active = north.ref.properties.timeline_paths.active
    fleet.store.create(f"{active}/{later}.rollback.requested", encode(plan))
    fleet.store.create(f"{active}/{later}.rollback.inflight", b"")
    with pytest.raises(HeartbeatLost, match=f"being rolled back by {later}"):
        finish(north, attempt)


def test_a_cancel_request_stops_a_table_service() -> None:
    fleet = Fleet()
    north = fleet.machine("north")
    with transaction(north.ref, "begin") as txn:
        time, heartbeat = open_instant(txn, north.ref, kind="cluster")
        requested = instants.create_requested_file(
            txn, time, Action.CLUSTERING, RequestedReplaceMetadata()
        )
        attempt = Attempt(instants.create_inflight_file(txn, requested), heartbeat)
    fleet.store.create(paths.cancel_path(time), b"")
    with pytest.raises(PlanCancelled):
        finish(north, attempt)


def test_commit_fails_if_the_lock_was_broken() -> None:
    fleet = Fleet()
    north = fleet.machine("north")
    attempt = begin_commit(north)

    def prepare_metadata() -> CommitMetadata:
        break_lock(fleet.machine("south").ref)
        return CommitMetadata()

    with pytest.raises(LockLost), transaction(north.ref, "commit") as txn:
        publish(txn, attempt, prepare_metadata)
    assert state_of(fleet, attempt) == "inflight"
    assert not fleet.store.exists(paths.HEAD)


@pytest.mark.parametrize("part", [".heartbeat", "commit.requested", "inflight", "head", COMPLETED])
@pytest.mark.parametrize("landed", [True, False])
@pytest.mark.parametrize("times", [1, 3])
def test_commit_succeeds_once_when_answers_are_lost_for_a_while(
    part: str, landed: bool, times: int
) -> None:
    fleet = Fleet()
    north = fleet.machine("north")
    north.storage.lose("create", part, landed=landed, times=1)
    if times > 1:
        north.storage.lose("create", part, landed=False, times=times - 1)
    completed = finish(north, begin_commit(north))
    assert completed.is_completed
    assert len(fleet.machine("south").ref.load_timeline().completed) == 1


@pytest.mark.parametrize("part", ["head", COMPLETED])
@pytest.mark.parametrize("landed", [True, False])
def test_commit_is_unknown_when_the_decision_gets_no_answer(part: str, landed: bool) -> None:
    fleet = Fleet()
    north, south = fleet.machine("north"), fleet.machine("south")
    attempt = begin_commit(north)
    north.storage.lose("create", part, landed=landed)
    north.storage.lose("create", part, landed=False, times=10)

    def prepare_metadata() -> CommitMetadata:
        north.storage.lose("read", part, landed=False, times=10)
        return CommitMetadata()

    with (
        pytest.raises(CommitUnknown, match="run `hoodoo recover`") as caught,
        transaction(north.ref, "commit") as txn,
    ):
        publish(txn, attempt, prepare_metadata)
    assert caught.value.instant == attempt.instant.requested_time
    is_decided = part == COMPLETED or landed
    fleet.die(north)
    south.table.recover()
    assert state_of(fleet, attempt) == ("completed" if is_decided else "gone")


def test_commit_is_checked_again_when_another_decision_came_first() -> None:
    """Nothing but the head tells it: the lock was lost, and the timeline was read before."""
    fleet = Fleet()
    north, south = fleet.machine("north"), fleet.machine("south")
    south.table.insert(rows("a", k1=1))

    def overtake() -> None:
        break_lock(south.ref)
        south.table.insert(rows("b", k2=2))
        south.table.upsert(rows("a", k1=3))

    act_once_at(north, "replace", f"^{paths.HEAD}$", overtake)
    with pytest.raises((WriteConflict, LockLost)):
        north.table.upsert(rows("a", k1=10))
    assert south.rows() == {"k1": 3, "k2": 2}


def test_no_decision_lands_after_the_publish_budget() -> None:
    """North sleeps for a day with its request on the way: everything was decided without it."""
    fleet = Fleet()
    north, south = fleet.machine("north"), fleet.machine("south")
    south.table.insert(rows("a", k1=1))
    attempt = begin_commit(north)

    def sleep() -> None:
        fleet.die(north)
        fleet.world.pass_time(86_400)
        south.table.recover()
        south.table.upsert(rows("a", k1=3))
        north.clock.is_stopped = False

    act_once_at(north, "replace", f"^{paths.HEAD}$", sleep)
    with pytest.raises(HeartbeatLost, match="rolled back"):
        finish(north, attempt)
    assert state_of(fleet, attempt) == "gone"
    assert south.rows() == {"k1": 3}


def test_write_with_unknown_outcome_is_not_rolled_back() -> None:
    fleet = Fleet()
    north, south = fleet.machine("north"), fleet.machine("south")
    north.table.insert(rows(k1=1))
    north.storage.lose("create", COMPLETED, landed=True)
    north.storage.lose("create", COMPLETED, landed=False, times=10)
    with pytest.raises(CommitUnknown):
        north.table.insert(rows(k2=2))
    assert south.rows() == {"k1": 1, "k2": 2}


class Away:
    """A store that takes one request and loses its answer; then nobody can be reached any more."""

    def __init__(self, storage: Any, part: str, error: BaseException, *, landed: bool) -> None:
        self._storage, self._part, self._error = storage, part, error
        storage.lose("create", part, landed=landed, times=1)
        storage.lose("replace", part, landed=landed, times=1)
        self._is_asked = False
        storage.before(self._before)

    def _before(self, verb: str, path: str) -> None:
        if self._is_asked:
            if isinstance(self._error, KeyboardInterrupt):  # comes once
                self._storage.leave_alone()
            raise self._error
        self._is_asked = verb in ("create", "replace") and re.search(self._part, path) is not None


@pytest.mark.parametrize("part", ["head", COMPLETED])
@pytest.mark.parametrize("landed", [True, False])
@pytest.mark.parametrize(
    "error",
    [
        StorageError("x", "connection refused"),
        StorageError("x", "status code: 403"),
        KeyboardInterrupt(),
    ],
    ids=str,
)
def test_lost_answer_and_then_outage_is_unknown_without_rollback(
    part: str, landed: bool, error: BaseException
) -> None:
    """Hole 1 of the review: it was told as failed, and rolled back."""
    fleet = Fleet()
    north, south = fleet.machine("north"), fleet.machine("south")
    north.table.insert(rows(k1=1))
    Away(north.storage, part, error, landed=landed)
    with pytest.raises(CommitUnknown):
        north.table.insert(rows(k2=2))
    fleet.die(north)
    south.table.recover()
    is_committed = landed or part == COMPLETED
    assert south.rows() == ({"k1": 1, "k2": 2} if is_committed else {"k1": 1})


def test_staged_metadata_that_cannot_be_removed_is_swept_later() -> None:
    fleet = Fleet()
    north, south = fleet.machine("north"), fleet.machine("south")
    attempt = begin_commit(north)
    metadata = CommitMetadata(extra_metadata={"notes": random.Random(1).randbytes(80_000).hex()})

    def refuse(verb: str, path: str) -> None:
        if verb == "delete" and path.startswith(paths.STAGING):
            raise StorageError(path, "no permission")

    north.storage.before(refuse)
    with transaction(north.ref, "commit") as txn:
        assert publish(txn, attempt, lambda: metadata).is_completed
    attempt.heartbeat.end()
    assert list(fleet.store.list(paths.STAGING))
    south.table.insert(rows(k1=1))  # another decision, which does not name it any more
    fleet.world.pass_time(2 * EXPIRY_S + 1)
    south.table.recover()
    assert not list(fleet.store.list(paths.STAGING))
