"""Leases, move by move: machines with clocks of their own on one store, time moved by hand."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from support.hand_clock import HandIds, World
from support.lock_machines import (
    FILE,
    NAME,
    PUBLISH_S,
    STORAGE,
    VALIDITY_S,
    Machines,
    clock_of,
    lossy_storage_of,
    seconds_until_taken,
    take_lock,
)

from hoodoo.concurrency.locks.lease import DRIFT_MS
from hoodoo.concurrency.locks.lock import Holder, Owner, parse_holder
from hoodoo.concurrency.locks.table_lock import break_lock, hold_lock, make_lock
from hoodoo.errors import ConfigError, FormatError, LockLost, LockTimeout, StorageError
from hoodoo.format.json_files import Lease, decode_lock_file, encode_lock_file
from hoodoo.model import paths
from hoodoo.runtime.env import Env
from hoodoo.storage.memory import MemoryStorage


@pytest.fixture(params=[STORAGE, FILE])
def machines(request: pytest.FixtureRequest) -> Iterator[Machines]:
    yield Machines(request.param)
    MemoryStorage.forget(NAME)


@pytest.fixture
def storage_machines() -> Iterator[Machines]:
    yield Machines(STORAGE)
    MemoryStorage.forget(NAME)


@pytest.fixture
def file_machines() -> Iterator[Machines]:
    yield Machines(FILE)
    MemoryStorage.forget(NAME)


# One after the other


def test_second_contender_gets_the_lock_after_release(machines: Machines) -> None:
    a, b = machines.open("a"), machines.open("b")
    first, second = take_lock(a, "begin"), make_lock(b, "commit")
    holder = second.try_acquire()
    assert holder is not None
    assert (holder.app, holder.host, holder.pid, holder.phase) == ("test app", "a", 7, "begin")
    assert holder.expires_in_ms == VALIDITY_S * 1000 + DRIFT_MS
    assert second.holder() == holder
    first.confirm_with_lock()
    first.check_last_confirmation()
    first.release()
    assert second.holder() is None
    assert second.try_acquire() is None
    second.confirm_with_lock()
    with pytest.raises(LockLost):
        first.check_last_confirmation()
    with pytest.raises(LockLost):
        first.confirm_with_lock()


def test_release_leaves_an_expired_lease_or_no_file(machines: Machines) -> None:
    lock = take_lock(machines.open("a"))
    held_lease = machines.body()
    lock.release()
    if machines.path == paths.LOCK:
        assert machines.body() == Lease(held_lease.owner, held_lease.valid_until_ms, expired=True)
    else:
        assert not machines.store.exists(machines.path)


def test_count_of_store_operations_without_contention(storage_machines: Machines) -> None:
    ref = storage_machines.open("a")
    traced = lossy_storage_of(ref)

    def verbs() -> list[str]:
        traced.clear()
        with hold_lock(ref, "commit"):
            pass
        return [operation.verb for operation in traced.operations]

    assert verbs() == ["read", "create", "replace"]
    assert verbs() == ["read", "replace", "replace"]


def test_waiting_costs_one_stat_per_try(machines: Machines) -> None:
    take_lock(machines.open("a"))
    ref = machines.open("b")
    lossy_storage_of(ref).clear()
    waiting = make_lock(ref, "commit")
    for _ in range(5):
        assert waiting.try_acquire() is not None
    assert lossy_storage_of(ref).counts() == {"stat": 4, "read": 1}


def test_waiting_reads_only_new_versions(machines: Machines) -> None:
    holder = take_lock(machines.open("a"))
    ref = machines.open("b")
    waiting = make_lock(ref, "commit")
    assert waiting.try_acquire() is not None
    holder.confirm_with_lock()
    lossy_storage_of(ref).clear()
    for _ in range(2):
        assert waiting.try_acquire() is not None
    assert [op.verb for op in lossy_storage_of(ref).operations] == ["stat", "read", "stat"]


def test_silence_counts_from_the_answer_of_the_first_look(machines: Machines) -> None:
    """However long the answer takes: what it shows may have been written just before it."""
    a, b = machines.open("a"), machines.open("b")
    holder = take_lock(a)
    clock_of(a).is_stopped = True
    waiting = make_lock(b, "commit")
    lossy_storage_of(b).before = lambda verb, path: machines.world.pass_time(VALIDITY_S - 1)
    assert waiting.try_acquire() is not None
    lossy_storage_of(b).before = lambda verb, path: None
    assert seconds_until_taken(machines, waiting) > 2 * PUBLISH_S
    with pytest.raises(LockLost):
        holder.check_last_confirmation()


def test_ensure_renews_only_after_half_the_budget(machines: Machines) -> None:
    ref = machines.open("a")
    lock = take_lock(ref)
    clock_of(ref).is_stopped = True  # nothing renews it beside us
    lossy_storage_of(ref).clear()
    machines.world.pass_time(PUBLISH_S / 2 - 0.25)
    lock.ensure_publish_window()
    assert lossy_storage_of(ref).operations == []
    for _ in range(2):
        machines.world.pass_time(PUBLISH_S / 2)
        lock.ensure_publish_window()
        lock.ensure_publish_window()
    assert [op.verb for op in lossy_storage_of(ref).operations] == ["replace", "replace"]
    lock.check_last_confirmation()


def test_ensure_notices_a_loss(machines: Machines) -> None:
    ref = machines.open("a")
    lock = make_lock(ref, "commit")
    with pytest.raises(LockLost, match="not held"):
        lock.ensure_publish_window()
    assert lock.try_acquire() is None
    clock_of(ref).is_stopped = True
    seconds_until_taken(machines, make_lock(machines.open("b"), "commit"))
    for _ in range(2):
        with pytest.raises(LockLost):
            lock.ensure_publish_window()


def test_each_renewal_writes_different_bytes(machines: Machines) -> None:
    ref = machines.open("a")
    lock = take_lock(ref)
    versions = [machines.store.read(machines.path)]
    for wall_ms in (0, 0, -3_600_000, -3_600_000, 5_000, 0):
        clock_of(ref).wall_ms = wall_ms
        lock.confirm_with_lock()
        versions.append(machines.store.read(machines.path))
    assert len(set(versions)) == len(versions)


# Dead, silent and sleeping holders


def test_lock_of_a_dead_holder_is_taken_over(machines: Machines) -> None:
    a, b = machines.open("a"), machines.open("b")
    lock = take_lock(a)
    clock_of(a).is_stopped = True
    assert VALIDITY_S < seconds_until_taken(machines, make_lock(b, "commit")) < VALIDITY_S + 2
    for call in (
        lock.check_last_confirmation,
        lock.confirm_with_lock,
        lock.check_last_confirmation,
    ):
        with pytest.raises(LockLost):
            call()
    lock.release()
    assert parse_holder(machines.body().owner).host == "b"
    assert not machines.body().expired


def test_lock_of_a_living_holder_is_not_taken_over(machines: Machines) -> None:
    lock, waiting = take_lock(machines.open("a")), make_lock(machines.open("b"), "commit")
    for _ in range(400):
        machines.world.pass_time(1)
        assert waiting.try_acquire() is not None
    lock.confirm_with_lock()
    lock.check_last_confirmation()


def test_lease_that_ended_is_not_renewed(machines: Machines) -> None:
    ref = machines.open("a")
    lock = take_lock(ref)
    clock_of(ref).is_stopped = True
    machines.world.pass_time(VALIDITY_S)
    before = machines.store.read(machines.path)
    with pytest.raises(LockLost, match="ended"):
        lock.confirm_with_lock()
    lock.release()
    assert machines.store.read(machines.path) == before


def test_check_fails_after_the_publish_budget_until_confirmed(machines: Machines) -> None:
    ref = machines.open("a")
    lock = take_lock(ref)
    clock_of(ref).is_stopped = True
    machines.world.pass_time(PUBLISH_S - 0.1)
    lock.check_last_confirmation()
    machines.world.pass_time(0.2)
    with pytest.raises(LockLost, match="in time"):
        lock.check_last_confirmation()
    lock.confirm_with_lock()
    lock.check_last_confirmation()


def test_renewals_extend_the_publish_budget(machines: Machines) -> None:
    lock = take_lock(machines.open("a"))
    for _ in range(100):
        machines.world.pass_time(1.7)
        lock.check_last_confirmation()


def test_next_renewal_notices_a_takeover(
    machines: Machines, caplog: pytest.LogCaptureFixture
) -> None:
    lock = take_lock(machines.open("a"))
    machines.store.put(machines.path, encode_lock_file(Lease("someone", 2**60)))
    with caplog.at_level(logging.WARNING, "hoodoo"):
        machines.world.pass_time(7)
    assert "someone has it now" in caplog.text
    with pytest.raises(LockLost):
        lock.check_last_confirmation()
    lock.release()
    assert machines.body().owner == "someone"


def test_lease_is_lost_when_someone_marks_it_expired(machines: Machines) -> None:
    lock = take_lock(machines.open("a"))
    body = machines.body()
    machines.store.put(machines.path, encode_lock_file(replace(body, expired=True)))
    with pytest.raises(LockLost, match="nobody has it now"):
        lock.confirm_with_lock()
    with pytest.raises(LockLost):
        lock.check_last_confirmation()
    lock.release()
    assert machines.body().expired


def test_owner_tells_time_of_acquisition_not_of_first_try(machines: Machines) -> None:
    first, waiting = take_lock(machines.open("a")), make_lock(machines.open("b"), "commit")
    machines.world.pass_time(50)
    assert waiting.try_acquire() is not None
    first.release()
    machines.world.pass_time(5)
    assert waiting.try_acquire() is None
    owner = Owner.parse(machines.body().owner)
    assert owner is not None
    assert owner.since_ms == machines.world.clocks[0].now_ms()
    machines.world.pass_time(20)
    assert Owner.parse(machines.body().owner) == owner


# Clocks that are wrong


@pytest.mark.parametrize("ahead_s", [3600, 10**7])
def test_no_early_takeover_when_contender_clock_is_ahead(machines: Machines, ahead_s: int) -> None:
    a, b = machines.open("a"), machines.open("b", wall_ms=ahead_s * 1000)
    lock, waiting = take_lock(a), make_lock(b, "commit")
    for _ in range(100):
        machines.world.pass_time(1)
        assert waiting.try_acquire() is not None
    # The holder falls silent: it may publish for one budget, and is followed after two.
    lock.confirm_with_lock()
    clock_of(a).is_stopped = True
    silent = machines.world.seconds
    while waiting.try_acquire() is not None:
        machines.world.pass_time(0.05)
    assert 2 * PUBLISH_S < machines.world.seconds - silent < 2 * PUBLISH_S + 1
    with pytest.raises(LockLost):
        lock.check_last_confirmation()


def test_no_takeover_while_holder_may_publish(machines: Machines) -> None:
    a, b = machines.open("a"), machines.open("b", wall_ms=10**10)
    clock_of(a).is_stopped = True  # nothing but `confirm_with_lock` renews
    lock, waiting = take_lock(a), make_lock(b, "commit")
    for pause_s in (3, 9.9, 19, 9.9, 0.1, 19.9):
        began = machines.world.seconds
        while machines.world.seconds < began + pause_s:
            assert waiting.try_acquire() is not None
            machines.world.pass_time(0.1)
        lock.confirm_with_lock()
        lock.check_last_confirmation()
    seconds_until_taken(machines, waiting)
    with pytest.raises(LockLost):
        lock.check_last_confirmation()


@pytest.mark.parametrize("behind_s", [3600, 10**7])
def test_takeover_in_time_when_contender_clock_is_behind(machines: Machines, behind_s: int) -> None:
    a, b = machines.open("a"), machines.open("b", wall_ms=-behind_s * 1000)
    take_lock(a)
    clock_of(a).is_stopped = True
    assert seconds_until_taken(machines, make_lock(b, "commit")) < VALIDITY_S + 2


@pytest.mark.parametrize("off_s", [10**7, -(10**7)])
def test_holder_with_wrong_clock_keeps_the_lock_while_alive(machines: Machines, off_s: int) -> None:
    a, b = machines.open("a", wall_ms=off_s * 1000), machines.open("b")
    lock, waiting = take_lock(a), make_lock(b, "commit")
    for _ in range(200):
        machines.world.pass_time(1)
        assert waiting.try_acquire() is not None
        lock.check_last_confirmation()
    clock_of(a).is_stopped = True
    assert 2 * PUBLISH_S - 6 < seconds_until_taken(machines, waiting) < VALIDITY_S + 2


def test_lock_is_kept_when_the_wall_clock_jumps(machines: Machines) -> None:
    ref = machines.open("a")
    lock = take_lock(ref)
    for wall_ms in (10**9, -(10**9), 0):
        clock_of(ref).wall_ms = wall_ms
        machines.world.pass_time(30)
        lock.check_last_confirmation()
    lock.release()
    assert take_lock(machines.open("b"))


def test_contender_with_short_lease_waits_for_budget_of_holder(machines: Machines) -> None:
    """A contender honours the holder's budget, not its own shorter one."""
    short = {"storage__validity__timeout__secs": 4, "storage__renew__interval__secs": 1}
    a, b = machines.open("a"), machines.open("b", wall_ms=10**10, **short)
    lock, waiting = take_lock(a), make_lock(b, "commit")
    clock_of(a).is_stopped = True
    assert seconds_until_taken(machines, waiting) > 2 * PUBLISH_S
    with pytest.raises(LockLost):
        lock.check_last_confirmation()


# Several who follow


def test_one_of_many_contenders_takes_over(machines: Machines) -> None:
    a = machines.open("a")
    take_lock(a)
    clock_of(a).is_stopped = True
    locks = [make_lock(machines.open(f"b{number}"), "commit") for number in range(5)]
    for _ in range(70):
        assert all(lock.try_acquire() for lock in locks)
        machines.world.pass_time(0.86)
    machines.world.pass_time(1)
    outcomes = [lock.try_acquire() for lock in locks]
    assert outcomes.count(None) == 1
    winner = next(holder for holder in outcomes if holder is not None)
    assert winner.host == f"b{outcomes.index(None)}"


def test_one_of_two_wins_a_race_to_take_over(machines: Machines) -> None:
    a, b, c = (machines.open(host) for host in "abc")
    take_lock(a)
    clock_of(a).is_stopped = True
    first, second = make_lock(b, "commit"), make_lock(c, "commit")
    assert first.try_acquire()
    assert second.try_acquire()
    machines.world.pass_time(VALIDITY_S + 1)
    outcomes: list[Holder | None] = []

    def overtake(verb: str, path: str) -> None:
        if verb == "replace" and not outcomes:
            outcomes.append(second.try_acquire())

    lossy_storage_of(b).before = overtake
    late = first.try_acquire()
    assert outcomes == [None]
    assert late is not None
    assert late.host == "c"
    second.confirm_with_lock()
    with pytest.raises(LockLost):
        first.check_last_confirmation()


def test_one_of_two_wins_a_race_to_create(machines: Machines) -> None:
    b, c = machines.open("b"), machines.open("c")
    first, second = make_lock(b, "commit"), make_lock(c, "commit")
    outcomes: list[Holder | None] = []

    def overtake(verb: str, path: str) -> None:
        if verb == "create" and not outcomes:
            outcomes.append(second.try_acquire())

    lossy_storage_of(b).before = overtake
    late = first.try_acquire()
    assert outcomes == [None]
    assert late is not None
    assert late.host == "c"


# Foreign owners


def test_lease_of_apache_hudi_is_taken_over_after_its_end(storage_machines: Machines) -> None:
    ref = storage_machines.open("a")
    until_ms = ref.env.clock.now_ms() + 300_000
    body = b'{"expired":false,"validUntil":%d,"owner":"8f54e12e"}' % until_ms
    storage_machines.store.create(paths.LOCK, body)
    lock = make_lock(ref, "commit")
    holder = lock.try_acquire()
    assert holder is not None
    assert (holder.owner, holder.app, holder.expires_in_ms) == ("8f54e12e", None, 300_500)
    assert 300 < seconds_until_taken(storage_machines, lock) < 302


def test_lease_released_by_apache_hudi_is_free(storage_machines: Machines) -> None:
    body = b'{"expired":true,"validUntil":9000000000000,"owner":"8f54e12e"}'
    storage_machines.store.create(paths.LOCK, body)
    take_lock(storage_machines.open("a"))


def test_damaged_lease_is_an_error_until_broken(storage_machines: Machines) -> None:
    ref = storage_machines.open("a")
    storage_machines.store.create(paths.LOCK, b"oops")
    with pytest.raises(FormatError, match=r"table_lock\.json"):
        make_lock(ref, "commit").try_acquire()
    assert break_lock(ref) is not None
    take_lock(ref)


JAVA_LOCK = b'{\n  "lockCreateTime" : "2026-01-05 10:00:00.000",\n  "lockThreadName" : "main"\n}'


@pytest.mark.parametrize("body", [JAVA_LOCK, b""])
def test_lock_file_of_apache_hudi_is_not_taken_over_by_default(
    file_machines: Machines, body: bytes
) -> None:
    file_machines.store.create(".hoodie/lock", body)
    lock = make_lock(file_machines.open("a"), "commit")
    for _ in range(100):
        file_machines.world.pass_time(100)
        holder = lock.try_acquire()
        assert holder is not None
        assert holder.expires_in_ms is None
    assert file_machines.store.read(".hoodie/lock") == body


def test_lock_file_of_apache_hudi_is_taken_over_after_set_expiry(file_machines: Machines) -> None:
    file_machines.store.create(".hoodie/lock", JAVA_LOCK)
    lock = make_lock(file_machines.open("a", filesystem__expire=2), "commit")
    assert 120 < seconds_until_taken(file_machines, lock) < 121


# Breaking


def test_break_waits_until_holder_may_not_publish(machines: Machines) -> None:
    a, b = machines.open("a"), machines.open("b")
    lock = take_lock(a)
    gone = break_lock(b)
    assert gone is not None
    assert gone.host == "a"
    # Nobody was let in as long as the holder could still publish.
    assert clock_of(b).slept == [2 * PUBLISH_S]
    with pytest.raises(LockLost):
        lock.check_last_confirmation()
    lock.release()
    assert break_lock(b) is None
    take_lock(machines.open("c"))


def test_a_breaker_with_short_leases_keeps_the_lock(machines: Machines) -> None:
    short = {"storage__validity__timeout__secs": 4, "storage__renew__interval__secs": 1}
    take_lock(machines.open("a"))
    breaker, contender = machines.open("b", **short), make_lock(machines.open("c"), "commit")
    seen: list[bool] = []
    machines.world.machine().every(500, lambda: seen.append(contender.try_acquire() is None))
    break_lock(breaker)
    assert len(seen) >= 38
    assert not any(seen)


# Settings


def test_lease_shorter_than_three_renewals_is_refused(machines: Machines) -> None:
    ref = machines.open("a", storage__validity__timeout__secs=17)
    with pytest.raises(ConfigError, match=r"3 times .*renew\.interval"):
        make_lock(ref, "commit")


@pytest.mark.parametrize(
    ("given", "place"),
    [
        (".hoodie", ".hoodie/lock"),
        ("", ".hoodie/lock"),
        ("locks/here/", "locks/here/lock"),
        (f"memory://{NAME}/.hoodie", ".hoodie/lock"),
    ],
)
def test_lock_file_lies_in_the_set_directory(
    file_machines: Machines, given: str, place: str
) -> None:
    take_lock(file_machines.open("a", filesystem__path=given))
    assert file_machines.store.exists(place)


@pytest.mark.parametrize("given", ["/elsewhere", "s3://bucket/x", "../x", f"memory://{NAME}x/y"])
def test_lock_directory_outside_the_table_is_refused(file_machines: Machines, given: str) -> None:
    with pytest.raises(ConfigError, match="below the table"):
        make_lock(file_machines.open("a", filesystem__path=given), "commit")


# Owners


@pytest.mark.parametrize(
    ("app", "host", "phase", "told"),
    [
        ("load", "node", "begin", ("load", "node", "begin")),
        ("my app = x, y", "a b", "roll back", ("my app = x, y", "a_b", "roll_back")),
        ("a\nb\ud800\x00", "", "", ("a b", "-", "-")),
        ("日本 " * 200, "h", "p", (("日本 " * 200)[:200].strip(), "h", "p")),
    ],
)
def test_owner_text_round_trips(app: str, host: str, phase: str, told: tuple[str, ...]) -> None:
    env: Any = Env(MemoryStorage("owners"), World().machine(), HandIds(host, app))
    owner = Owner.new(env, phase, lease_ms=5)
    text = str(owner)
    assert Owner.parse(text) == owner
    holder = parse_holder(text, expires_in_ms=9)
    assert (holder.app, holder.host, holder.phase, holder.pid) == (*told, 7)
    assert holder.owner == text
    assert decode_lock_file(encode_lock_file(Lease(text, 1))).owner == text
    assert Owner.parse(str(Owner.new(env, phase))) != owner


@pytest.mark.parametrize("text", ["", "8f54e12e-4762-4bad-887c-94221263d9ff", "x phase=y pid=z"])
def test_foreign_owner_text_is_shown_in_one_line(text: str) -> None:
    holder = parse_holder(text)
    assert (holder.app, holder.host, holder.pid, holder.phase) == (None,) * 4


# Waiting


def test_the_timeout_names_the_holder(machines: Machines) -> None:
    take_lock(machines.open("node7"), "commit")
    machines.world.pass_time(30)
    ref = machines.open("b", wait_time_ms=5000)
    with pytest.raises(LockTimeout) as raised, hold_lock(ref, "begin"):
        raise AssertionError("not to be reached")
    message = str(raised.value)
    for part in (
        "for begin within 5 s",
        "test app on node7, process 7 (commit) since 2026-01-01T00:16:40+00:00",
        "its lease ends in ",
        f"hoodoo lock status {ref.uri}",
    ):
        assert part in message, message
    assert sum(clock_of(ref).slept) == pytest.approx(5, abs=0.3)


def test_pauses_get_shorter_the_longer_one_waits(machines: Machines) -> None:
    take_lock(machines.open("a"))
    ref = machines.open("b", wait_time_ms=20_000)
    with pytest.raises(LockTimeout), hold_lock(ref, "begin"):
        pass
    pauses = clock_of(ref).slept[:-1]
    assert pauses[0] == pytest.approx(0.05)
    assert pauses == sorted(pauses, reverse=True)
    assert pauses[-1] == pytest.approx(0.05 / 8)


def test_wait_time_zero_fails_without_a_pause(machines: Machines) -> None:
    take_lock(machines.open("a"))
    ref = machines.open("b", wait_time_ms=0)
    with pytest.raises(LockTimeout), hold_lock(ref, "begin"):
        pass
    assert clock_of(ref).slept == []


def test_threads_of_one_process_queue_before_the_store(machines: Machines) -> None:
    ref = machines.open("a")
    with hold_lock(ref, "begin"):
        before = len(lossy_storage_of(ref).operations)
        with pytest.raises(LockTimeout, match=r"process 7 \(begin\)"), hold_lock(ref, "commit"):
            pass
        assert [op.verb for op in lossy_storage_of(ref).operations[before:]] == ["read"]
    with hold_lock(ref, "commit"):
        pass


class PowerCut(BaseException):
    """What no `except Exception` sees."""


@pytest.mark.parametrize("error", [ValueError, PowerCut, LockLost])
def test_lock_is_released_when_the_work_fails(
    machines: Machines, error: type[BaseException]
) -> None:
    ref = machines.open("a")
    with pytest.raises(error, match="work"), hold_lock(ref, "commit"):
        raise error("work")
    with (
        hold_lock(ref, "commit"),
        pytest.raises(LockTimeout),
        hold_lock(machines.open("b"), "commit"),
    ):
        pass
    assert all(timer.is_stopped for timer in clock_of(ref).timers)


@pytest.mark.parametrize("verb", ["replace", "delete"])
def test_failed_release_does_not_fail_the_work(
    machines: Machines, caplog: pytest.LogCaptureFixture, verb: str, monkeypatch: Any
) -> None:
    ref = machines.open("a")

    def refuse(*_: object, **__: object) -> None:
        raise StorageError("lock", "no permission")

    with caplog.at_level(logging.WARNING, "hoodoo"), hold_lock(ref, "commit"):
        monkeypatch.setattr(machines.store, verb, refuse)
    monkeypatch.undo()
    is_hit = verb == ("replace" if machines.path == paths.LOCK else "delete")
    assert ("no permission" in caplog.text) == is_hit
    with pytest.raises(ValueError, match="work"), hold_lock(ref, "commit"):
        raise ValueError("work")
