"""An attempt at work in several processes: whoever carries it on, one file tells that it lives."""

from __future__ import annotations

import json

import pytest
from support.writer_machines import EXPIRY_S, INTERVAL_MS, Fleet, Machine, begin_commit

from hoodoo.concurrency.heartbeats import Heartbeat, resume_heartbeat, take_over
from hoodoo.concurrency.transactions.gate import Attempt, publish
from hoodoo.concurrency.transactions.transaction import transaction
from hoodoo.errors import HeartbeatLost
from hoodoo.model import paths
from hoodoo.model.commit import CommitMetadata
from hoodoo.recovery.recover import roll_back_dead_writes

INTERVAL_S = INTERVAL_MS / 1000


def begin(machine: Machine) -> Attempt:
    """An attempt whose process has gone on to other things."""
    attempt = begin_commit(machine)
    attempt.heartbeat.stop()
    return attempt


def carry_on(machine: Machine, attempt: Attempt) -> Heartbeat:
    beat = attempt.heartbeat.body
    return resume_heartbeat(machine.ref, attempt.instant.requested_time, beat, phase="write")


def body(fleet: Fleet, attempt: Attempt) -> dict[str, object]:
    found = json.loads(fleet.store.read(paths.heartbeat(attempt.instant.requested_time)))
    assert isinstance(found, dict)
    return found


def is_dead(machine: Machine) -> bool:
    return bool(roll_back_dead_writes(machine.ref, machine.ref.load_timeline()).rolled_back)


def publish_by(machine: Machine, attempt: Attempt, heartbeat: Heartbeat) -> None:
    with transaction(machine.ref, "commit") as txn:
        publish(txn, Attempt(attempt.instant, heartbeat), CommitMetadata)


def test_resumed_attempt_beats_and_publishes() -> None:
    fleet = Fleet()
    attempt = begin(fleet.machine("north"))
    fleet.world.pass_time(EXPIRY_S - 1)
    south = fleet.machine("south")
    heartbeat = carry_on(south, attempt)
    told = body(fleet, attempt)
    assert (told["host"], told["phase"], told["seq"], told["epoch"]) == ("south", "write", 2, 1)
    assert told["owner"] == attempt.heartbeat.body.owner
    fleet.world.pass_time(3 * EXPIRY_S)
    assert not is_dead(fleet.machine("judge"))
    publish_by(south, attempt, heartbeat)
    heartbeat.end()
    assert not fleet.store.exists(paths.heartbeat(attempt.instant.requested_time))


def test_many_beat_at_once_and_each_may_stop_or_publish() -> None:
    fleet = Fleet()
    attempt = begin(fleet.machine("north"))
    tasks = [fleet.machine(f"task {n}") for n in range(3)]
    beats = []
    for task in tasks:
        beats.append(carry_on(task, attempt))
        fleet.world.pass_time(INTERVAL_S / 5)
    fleet.world.pass_time(4 * EXPIRY_S)
    for heartbeat in beats:
        heartbeat.check()  # each knows that the attempt lives, whoever's beat landed
    beats[0].stop()
    beats[2].stop()
    fleet.world.pass_time(2 * EXPIRY_S)
    assert not is_dead(fleet.machine("judge"))
    committer = carry_on(fleet.machine("committer"), attempt)
    fleet.world.pass_time(INTERVAL_S)  # a straggler still beats
    publish_by(fleet.machine("committer"), attempt, committer)
    committer.end()
    fleet.world.pass_time(EXPIRY_S)
    assert not fleet.store.exists(paths.heartbeat(attempt.instant.requested_time))
    with pytest.raises(HeartbeatLost, match="gone"):
        beats[1].check()


def test_beat_of_another_process_counts_from_the_last_look() -> None:
    """A beat of another process landed at some time after the last look, and no earlier."""
    fleet = Fleet()
    attempt = begin(fleet.machine("north"))
    first = carry_on(fleet.machine("task 1"), attempt)
    first.stop()
    other = carry_on(fleet.machine("task 2"), attempt)
    other.stop()
    fleet.world.pass_time(EXPIRY_S / 2 - 1)
    first.beat()  # fails, as the other one has beaten long ago
    first.check()
    fleet.world.pass_time(1)
    with pytest.raises(HeartbeatLost):
        first.check()


def test_attempt_silent_for_the_expiry_is_not_resumed() -> None:
    fleet = Fleet()
    attempt = begin(fleet.machine("north"))
    fleet.world.pass_time(EXPIRY_S)
    before = body(fleet, attempt)
    with pytest.raises(HeartbeatLost, match="silent for longer than its expiry"):
        carry_on(fleet.machine("south", wall_ms=-86_400_000), attempt)
    assert body(fleet, attempt) == before
    assert not list(fleet.store.list(paths.PROBES))


def test_resume_fails_if_attempt_was_taken_over_or_ended() -> None:
    fleet = Fleet()
    attempt, south = begin(fleet.machine("north")), fleet.machine("south")
    time = attempt.instant.requested_time
    with transaction(south.ref, "test"):
        taken = take_over(south.ref, time, kind="rollback")
    with pytest.raises(HeartbeatLost, match="taken over by test app on south"):
        carry_on(fleet.machine("east"), attempt)
    taken.check()
    taken.end()
    with pytest.raises(HeartbeatLost, match="gone"):
        carry_on(fleet.machine("east"), attempt)
    assert not fleet.store.exists(paths.heartbeat(time))


def test_beat_that_loses_a_race_to_its_own_attempt_counts() -> None:
    fleet = Fleet()
    attempt = begin(fleet.machine("north"))
    fleet.world.pass_time(EXPIRY_S - 1)
    late, early = fleet.machine("late"), fleet.machine("early")
    met: list[Heartbeat] = []

    def meet(verb: str, path: str) -> None:
        if verb == "replace" and not met:
            met.append(carry_on(early, attempt))

    late.storage.before(meet)
    heartbeat = carry_on(late, attempt)
    assert met
    heartbeat.check()
    assert body(fleet, attempt)["host"] == "early"
    fleet.world.pass_time(INTERVAL_S)
    assert body(fleet, attempt)["seq"] == 3
