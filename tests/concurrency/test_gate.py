"""The gate: each way to lose the right to publish is found, and an unknown outcome is settled."""

from __future__ import annotations

import json
import re

import pytest
from support.fleet import COMPLETED, EXPIRY_S, Fleet, Machine, begin_commit, rows

from hoodoo.concurrency.gate import Attempt, publish
from hoodoo.concurrency.heartbeat import take_over
from hoodoo.concurrency.locks import break_lock
from hoodoo.concurrency.transaction import transaction
from hoodoo.errors import (
    AlreadyCommitted,
    Cancelled,
    CommitFailed,
    CommitUnknown,
    HeartbeatLost,
    LeaseLost,
    WriteConflict,
)
from hoodoo.format.timeline import encode
from hoodoo.model import paths
from hoodoo.model.commit import CommitMetadata, InstantInfo
from hoodoo.model.instant import Instant
from hoodoo.model.plan import RollbackPlan
from hoodoo.timeline import transitions


def finish(machine: Machine, attempt: Attempt) -> Instant:
    with transaction(machine.ref, "commit") as txn:
        return publish(txn, attempt, CommitMetadata)


def state_of(fleet: Fleet, attempt: Attempt) -> str:
    found = fleet.machine("looker").ref.load_timeline().find(attempt.instant.requested_time)
    return found.state.value if found else "gone"


def test_a_commit_claims_its_instant_and_completes_once() -> None:
    fleet = Fleet()
    north = fleet.machine("north")
    attempt = begin_commit(north)
    completed = finish(north, attempt)
    claim = json.loads(fleet.store.read(paths.claim(completed.requested_time)))
    assert claim == {
        "owner": attempt.heartbeat.attempt.owner,
        "epoch": 1,
        "ending": "commit",
        "by": f"{completed.requested_time}_{completed.completion_time}.commit",
    }
    with pytest.raises(AlreadyCommitted):
        finish(north, attempt)


def test_an_instant_that_is_gone() -> None:
    fleet = Fleet()
    north = fleet.machine("north")
    attempt = begin_commit(north)
    with transaction(north.ref, "test") as txn:
        transitions.remove(txn, attempt.instant)
    with pytest.raises(HeartbeatLost, match="gone, not inflight: it was rolled back"):
        finish(north, attempt)


def test_a_heartbeat_that_another_has() -> None:
    fleet = Fleet()
    north, south = fleet.machine("north"), fleet.machine("south")
    attempt = begin_commit(north)
    with transaction(south.ref, "test"):
        take_over(south.ref, attempt.heartbeat.instant, kind="rollback")
    with pytest.raises(HeartbeatLost, match="south"):
        finish(north, attempt)
    assert state_of(fleet, attempt) == "inflight"


def test_a_heartbeat_that_is_too_old() -> None:
    fleet = Fleet()
    north = fleet.machine("north")
    attempt = begin_commit(north)
    attempt.heartbeat.stop()
    fleet.world.pass_time(EXPIRY_S / 2)
    with pytest.raises(HeartbeatLost, match="last beat was 15 s ago"):
        finish(north, attempt)


def test_a_rollback_that_apache_hudi_began() -> None:
    """It knows no claims, but its plan is on the timeline."""
    fleet = Fleet()
    north = fleet.machine("north")
    attempt = begin_commit(north)
    time = attempt.instant.requested_time
    plan = RollbackPlan(instant_to_rollback=InstantInfo(commit_time=time, action="commit"))
    later = str(int(time) + 1)
    active = north.ref.properties.timeline.active
    fleet.store.create(f"{active}/{later}.rollback.requested", encode(plan))
    fleet.store.create(f"{active}/{later}.rollback.inflight", b"")
    with pytest.raises(HeartbeatLost, match=f"being rolled back by {later}"):
        finish(north, attempt)


def test_a_cancel_request() -> None:
    fleet = Fleet()
    north = fleet.machine("north")
    attempt = begin_commit(north)
    fleet.store.create(paths.cancel(attempt.instant.requested_time), b"")
    with pytest.raises(Cancelled):
        finish(north, attempt)


def test_a_claim_of_another() -> None:
    fleet = Fleet()
    north = fleet.machine("north")
    attempt = begin_commit(north)
    claim = {"owner": "x", "epoch": 1, "ending": "rollback", "by": "20270101000000000"}
    fleet.store.create(paths.claim(attempt.instant.requested_time), json.dumps(claim).encode())
    with pytest.raises(HeartbeatLost, match="claimed: rollback 20270101000000000"):
        finish(north, attempt)
    assert state_of(fleet, attempt) == "inflight"


def test_a_lock_that_was_broken() -> None:
    fleet = Fleet()
    north = fleet.machine("north")
    attempt = begin_commit(north)

    def settle() -> CommitMetadata:
        break_lock(fleet.machine("south").ref)
        return CommitMetadata()

    with pytest.raises(LeaseLost), transaction(north.ref, "commit") as txn:
        publish(txn, attempt, settle)
    assert state_of(fleet, attempt) == "inflight"
    assert not fleet.store.exists(paths.claim(attempt.instant.requested_time))


@pytest.mark.parametrize(
    "part", [".heartbeat", "commit.requested", "inflight", "claims", COMPLETED]
)
@pytest.mark.parametrize("landed", [True, False])
@pytest.mark.parametrize("times", [1, 3])
def test_answers_that_are_lost_for_a_while(part: str, landed: bool, times: int) -> None:
    fleet = Fleet()
    north = fleet.machine("north")
    north.storage.lose("create", part, landed=landed, times=1)
    if times > 1:
        north.storage.lose("create", part, landed=False, times=times - 1)
    completed = finish(north, begin_commit(north))
    assert completed.is_completed
    assert len(fleet.machine("south").ref.load_timeline().completed) == 1


@pytest.mark.parametrize("landed", [True, False])
def test_a_completion_without_any_answer_is_unknown(landed: bool) -> None:
    fleet = Fleet()
    north = fleet.machine("north")
    attempt = begin_commit(north)
    north.storage.lose("create", COMPLETED, landed=landed)
    north.storage.lose("create", COMPLETED, landed=False, times=10)
    with pytest.raises(CommitUnknown, match="look at the timeline"):
        finish(north, attempt)
    assert state_of(fleet, attempt) == ("completed" if landed else "inflight")


def test_a_claim_without_any_answer_publishes_nothing() -> None:
    fleet = Fleet()
    north = fleet.machine("north")
    attempt = begin_commit(north)
    north.storage.lose("create", "claims", landed=True, times=1)
    north.storage.lose("create", "claims", landed=False, times=10)
    with pytest.raises(CommitFailed, match="could not be claimed"):
        finish(north, attempt)
    assert state_of(fleet, attempt) == "inflight"


def test_a_claim_holds_even_when_the_lock_is_lost() -> None:
    """Nothing but time stops a request that is under way, so others keep out of its way."""
    fleet = Fleet()
    north, south = fleet.machine("north"), fleet.machine("south")
    south.table.insert(rows("a", k1=1))
    refused = None

    def overtake(verb: str, path: str) -> None:
        nonlocal refused
        if verb == "create" and re.search(COMPLETED, path):
            north.storage._before = lambda verb, path: None
            break_lock(south.ref)
            south.table.insert(rows("b", k2=2))
            with pytest.raises(WriteConflict, match="may still land") as caught:
                south.table.upsert(rows("a", k1=3))
            refused = caught.value

    north.storage._before = overtake
    done = north.table.upsert(rows("a", k1=10))
    assert refused is not None
    assert refused.others == (done.instant,)
    assert south.rows() == {"k1": 10, "k2": 2}


def test_who_landed_in_time_stays_even_if_it_hears_of_it_late() -> None:
    fleet = Fleet()
    north, south = fleet.machine("north"), fleet.machine("south")
    attempt = begin_commit(north)

    def meanwhile(verb: str, path: str) -> None:
        if verb == "stat" and "table_lock" in path and state_of(fleet, attempt) == "completed":
            north.storage._before = lambda verb, path: None
            break_lock(south.ref)
            south.table.insert(rows(k1=1))

    north.storage._before = meanwhile
    assert finish(north, attempt).is_completed
    assert state_of(fleet, attempt) == "completed"
    assert south.rows() == {"k1": 1}


def test_unknown_outcomes_of_a_whole_write_are_left_to_those_who_look() -> None:
    fleet = Fleet()
    north = fleet.machine("north")
    north.table.insert(rows(k1=1))
    north.storage.lose("create", COMPLETED, landed=True)
    north.storage.lose("create", COMPLETED, landed=False, times=10)
    with pytest.raises(CommitUnknown):
        north.table.insert(rows(k2=2))
    assert fleet.machine("south").rows() == {"k1": 1, "k2": 2}
