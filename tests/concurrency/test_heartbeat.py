"""Heartbeats: what is in the file, who may beat, and how an attempt learns that it has lost."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from support.writer_machines import EXPIRY_S, INTERVAL_MS, MISSES, Fleet, Machine

from hoodoo.concurrency.heartbeats import Heartbeat, load_writer_statuses, take_over
from hoodoo.concurrency.transactions.instants import open_instant
from hoodoo.concurrency.transactions.transaction import transaction
from hoodoo.errors import HeartbeatLost, StorageError
from hoodoo.model import paths
from hoodoo.model.instant import Action, Instant, InstantTime, State
from hoodoo.storage.traced import TracedStorage


def begin(machine: Machine) -> Heartbeat:
    with transaction(machine.ref, "test") as txn:
        _, heartbeat = open_instant(txn, machine.ref, kind="upsert")
    return heartbeat


def body(fleet: Fleet, instant_time: InstantTime) -> dict[str, object]:
    found = json.loads(fleet.store.read(paths.heartbeat(instant_time)))
    assert isinstance(found, dict)
    return found


def pulse_of(machine: Machine, instant_time: InstantTime):  # type: ignore[no-untyped-def] # a pulse
    pending = Instant(instant_time, Action.COMMIT, State.INFLIGHT)
    return load_writer_statuses(machine.ref, [pending])[instant_time]


def test_body_names_owner_and_counts_beats() -> None:
    fleet = Fleet()
    heartbeat = begin(fleet.machine("north"))
    first = body(fleet, heartbeat.instant)
    assert first == {
        "owner": first["owner"],
        "epoch": 1,
        "host": "north",
        "pid": 7,
        "app_id": "test app",
        "kind": "upsert",
        "phase": "begin",
        "interval_ms": INTERVAL_MS,
        "misses": MISSES,
        "seq": 1,
    }
    heartbeat.phase = "write"
    fleet.world.pass_time(INTERVAL_MS / 1000)
    later = body(fleet, heartbeat.instant)
    assert later["seq"] == 2
    assert later["phase"] == "write"
    heartbeat.check()
    heartbeat.end()
    assert not fleet.store.exists(paths.heartbeat(heartbeat.instant))


def test_at_least_four_beats_per_expiry_with_one_allowed_miss() -> None:
    fleet = Fleet(**{"hoodie.client.heartbeat.tolerable.misses": 1})
    heartbeat = begin(fleet.machine("north"))
    for _ in range(20):
        fleet.world.pass_time(INTERVAL_MS / 1000 / 4)
        heartbeat.check()
    assert body(fleet, heartbeat.instant)["seq"] == 21


def test_attempt_that_was_taken_over_stops_at_its_next_beat() -> None:
    fleet = Fleet()
    north, south = fleet.machine("north"), fleet.machine("south")
    heartbeat = begin(north)
    with transaction(south.ref, "test"):
        taken = take_over(south.ref, heartbeat.instant, kind="rollback")
    assert body(fleet, heartbeat.instant)["epoch"] == 2
    heartbeat.check()  # it cannot know yet
    before = body(fleet, heartbeat.instant)["seq"]
    heartbeat.beat()
    with pytest.raises(HeartbeatLost, match="taken over by test app on south"):
        heartbeat.check()
    heartbeat.beat()
    assert body(fleet, heartbeat.instant)["seq"] == before
    heartbeat.end()  # another's file is not ours to remove
    assert fleet.store.exists(paths.heartbeat(heartbeat.instant))
    taken.check()


def test_takeover_costs_one_look_and_one_write() -> None:
    fleet = Fleet()
    heartbeat = begin(fleet.machine("north"))
    ref = fleet.machine("south").ref
    traced = TracedStorage(ref.env.storage)
    take_over(replace(ref, env=replace(ref.env, storage=traced)), heartbeat.instant, kind="test")
    assert [operation.verb for operation in traced.operations] == ["read", "replace"]


def test_takeover_fails_if_the_owner_beats_after_the_look() -> None:
    fleet = Fleet()
    heartbeat = begin(fleet.machine("north"))
    ref = fleet.machine("south").ref

    def meanwhile(verb: str, path: str) -> None:
        if verb == "replace":
            heartbeat.beat()

    traced = TracedStorage(ref.env.storage, before=meanwhile)
    with pytest.raises(HeartbeatLost, match="its heartbeat changed"):
        take_over(
            replace(ref, env=replace(ref.env, storage=traced)), heartbeat.instant, kind="test"
        )
    heartbeat.beat()
    heartbeat.check()


@pytest.mark.parametrize("landed", [True, False])
def test_heartbeat_goes_on_after_a_beat_without_answer(landed: bool) -> None:
    fleet = Fleet()
    north = fleet.machine("north")
    heartbeat = begin(north)
    north.storage.lose("replace", ".heartbeat", landed=landed)
    fleet.world.pass_time(INTERVAL_MS / 1000)
    assert body(fleet, heartbeat.instant)["seq"] == (2 if landed else 1)
    fleet.world.pass_time(INTERVAL_MS / 1000)
    assert body(fleet, heartbeat.instant)["seq"] == (3 if landed else 2)
    heartbeat.check()


def test_instant_is_lost_when_its_heartbeat_file_is_removed() -> None:
    fleet = Fleet()
    heartbeat = begin(fleet.machine("north"))
    fleet.store.delete(paths.heartbeat(heartbeat.instant))
    heartbeat.beat()
    with pytest.raises(HeartbeatLost, match="gone"):
        heartbeat.check()
    assert not fleet.store.exists(paths.heartbeat(heartbeat.instant))


def test_no_publish_after_half_the_expiry_without_a_beat() -> None:
    fleet = Fleet()
    north = fleet.machine("north")
    heartbeat = begin(north)
    heartbeat.stop()
    fleet.world.pass_time(EXPIRY_S / 2 - 1)
    heartbeat.check()
    fleet.world.pass_time(1)
    with pytest.raises(HeartbeatLost):
        heartbeat.check()
    assert not pulse_of(fleet.machine("south"), heartbeat.instant).is_dead


def test_no_beat_after_a_silence_of_the_expiry() -> None:
    fleet = Fleet()
    north = fleet.machine("north")
    heartbeat = begin(north)
    north.clock.is_stopped = True
    fleet.world.pass_time(EXPIRY_S)
    north.clock.is_stopped = False
    heartbeat.beat()
    assert body(fleet, heartbeat.instant)["seq"] == 1


def test_no_two_writers_get_one_instant_time_even_without_a_lock() -> None:
    fleet = Fleet()
    north, south = fleet.machine("north"), fleet.machine("south")
    with transaction(north.ref, "test") as held:
        first, _ = open_instant(held, north.ref, kind="insert")
        # South believes that it holds the lock, with the timeline as it was before.
        second, _ = open_instant(held, south.ref, kind="insert")
    assert first < second


DAYS_MS = 400 * 24 * 3_600_000


@pytest.mark.parametrize("store_ms", [0, -DAYS_MS, DAYS_MS])
@pytest.mark.parametrize("wall_ms", [0, -DAYS_MS, DAYS_MS])
def test_age_is_judged_by_the_clock_of_the_store(store_ms: int, wall_ms: int) -> None:
    fleet = Fleet(store_ms=store_ms)
    heartbeat = begin(fleet.machine("north"))
    judge = fleet.machine("south", wall_ms=wall_ms)
    fleet.world.pass_time(5 * EXPIRY_S)
    assert not pulse_of(judge, heartbeat.instant).is_dead
    heartbeat.stop()
    fleet.world.pass_time(EXPIRY_S)
    assert not pulse_of(judge, heartbeat.instant).is_dead
    fleet.world.pass_time(INTERVAL_MS / 1000)
    assert pulse_of(judge, heartbeat.instant).is_dead


def test_foreign_heartbeat_expires_by_settings_of_this_table() -> None:
    fleet = Fleet()
    south = fleet.machine("south")
    instant = InstantTime("20260101000000000")
    fleet.store.put(paths.heartbeat(instant), b"")
    fleet.world.pass_time(EXPIRY_S)
    pulse = pulse_of(south, instant)
    assert (pulse.body, pulse.is_dead) == (None, False)
    fleet.world.pass_time(1)
    assert pulse_of(south, instant).is_dead
    fleet.store.put(paths.heartbeat(instant), b"")
    assert not pulse_of(south, instant).is_dead


def test_age_counts_from_last_timeline_file_without_a_heartbeat() -> None:
    fleet = Fleet()
    south = fleet.machine("south")
    instant = InstantTime("20260101000000000")
    fleet.store.create(f"{south.ref.properties.timeline_paths.active}/{instant}.inflight", b"{}")
    fleet.world.pass_time(EXPIRY_S)
    assert not pulse_of(south, instant).is_dead
    fleet.world.pass_time(1)
    pulse = pulse_of(south, instant)
    assert pulse.is_dead
    assert "it has no heartbeat" in str(pulse)


def test_probe_objects_are_deleted() -> None:
    fleet = Fleet()
    pulse_of(fleet.machine("south"), InstantTime("20260101000000000"))
    assert not list(fleet.store.list(paths.PROBES))


def test_failed_beat_is_sent_again() -> None:
    fleet = Fleet()
    north = fleet.machine("north")
    heartbeat = begin(north)

    def refuse(verb: str, path: str) -> None:
        if verb == "replace":
            raise StorageError(path, "slow down")

    north.storage.before(refuse)
    fleet.world.pass_time(INTERVAL_MS / 1000)
    north.storage.leave_alone()
    fleet.world.pass_time(INTERVAL_MS / 1000)
    heartbeat.check()
    assert body(fleet, heartbeat.instant)["seq"] == 2
