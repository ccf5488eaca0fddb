"""Leases on a store whose answers to writes get lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import product

import pytest
from support.lock_machines import (
    NAME,
    Machines,
    clock_of,
    lossy_storage_of,
    seconds_until_taken,
    take_lock,
)
from support.lossy_storage import Loss

from hoodoo.concurrency.locks.table_lock import hold_lock, make_lock
from hoodoo.errors import LockLost
from hoodoo.storage.memory import MemoryStorage


@pytest.fixture(params=["storage", "filesystem"])
def machines(request: pytest.FixtureRequest) -> Iterator[Machines]:
    yield Machines(request.param)
    MemoryStorage.forget(NAME)


def is_free(machines: Machines) -> bool:
    return make_lock(machines.open("looker"), "look").holder() is None


@pytest.mark.parametrize("loss", [Loss.LANDED, Loss.NEVER])
@pytest.mark.parametrize("is_new", [True, False])
def test_acquire_succeeds_when_an_answer_is_lost(
    machines: Machines, loss: Loss, is_new: bool
) -> None:
    ref = machines.open("a")
    if not is_new:
        take_lock(machines.open("before")).release()
    lossy_storage_of(ref).losses = [loss]
    lock = take_lock(ref)
    lock.check_last_confirmation()
    lock.confirm_with_lock()
    assert make_lock(machines.open("b"), "commit").try_acquire() is not None
    lock.release()
    assert is_free(machines)


def test_acquire_that_lands_late_does_not_overwrite_the_lock(machines: Machines) -> None:
    """Its second try takes the lock, and the first one meets a condition that fails."""
    ref = machines.open("a")
    lossy_storage_of(ref).losses = [Loss.LATE]
    lock = take_lock(ref)
    lossy_storage_of(ref).land()
    lock.confirm_with_lock()
    lock.release()
    assert is_free(machines)


def test_acquire_that_lands_between_tries_is_recognised(machines: Machines) -> None:
    ref = machines.open("a")
    lossy_storage_of(ref).losses = [Loss.LATE]
    lossy_storage_of(ref).before = lambda verb, path: (
        lossy_storage_of(ref).land()
        if verb in ("create", "replace") and not lossy_storage_of(ref).losses
        else None
    )
    lock = make_lock(ref, "commit")
    assert lock.try_acquire() is None
    lossy_storage_of(ref).before = lambda verb, path: None
    lock.confirm_with_lock()
    lock.release()
    assert is_free(machines)


def test_acquire_without_any_answer_is_released(machines: Machines) -> None:
    """All tries get lost, the last one lands, and the one who waits goes away."""
    ref = machines.open("a")
    lossy_storage_of(ref).losses = [Loss.NEVER, Loss.NEVER, Loss.NEVER, Loss.LATE]
    lock = make_lock(ref, "commit")
    assert lock.try_acquire() is not None
    lossy_storage_of(ref).land()
    assert not is_free(machines)
    lock.release()
    assert is_free(machines)


def test_interrupted_acquire_leaves_the_lock_free(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Someone presses Ctrl-C after the write has landed, before anybody knows."""
    ref = machines.open("a")

    def create(path: str, data: bytes, *, within_s: float | None = None) -> None:
        machines.store.create(path, data, within_s=within_s)
        raise KeyboardInterrupt

    monkeypatch.setattr(lossy_storage_of(ref), "create", create)
    with pytest.raises(KeyboardInterrupt), hold_lock(ref, "commit"):
        pass
    assert is_free(machines)


@pytest.mark.parametrize("loss", list(Loss))
def test_renewal_succeeds_when_an_answer_is_lost(machines: Machines, loss: Loss) -> None:
    ref = machines.open("a")
    lock = take_lock(ref)
    lossy_storage_of(ref).losses = [loss]
    lock.confirm_with_lock()
    lock.check_last_confirmation()
    lossy_storage_of(ref).land()
    lock.confirm_with_lock()
    lock.check_last_confirmation()
    lock.release()
    assert is_free(machines)


def test_late_renewal_is_recognised_by_the_next_confirm(machines: Machines) -> None:
    """The beat gives up; its last request lands, and the next confirmation finds its own text."""
    ref = machines.open("a")
    lock = take_lock(ref)
    lossy_storage_of(ref).losses = [Loss.NEVER, Loss.NEVER, Loss.NEVER, Loss.LATE]
    with pytest.raises(LockLost, match="does not answer"):
        lock.confirm_with_lock()
    lossy_storage_of(ref).land()
    lock.confirm_with_lock()
    lock.check_last_confirmation()
    lock.release()
    assert is_free(machines)


def test_a_renewal_without_answer_does_not_extend_the_budget(machines: Machines) -> None:
    ref = machines.open("a")
    lock = take_lock(ref)
    clock_of(ref).is_stopped = True
    machines.world.pass_time(9)
    lossy_storage_of(ref).losses = [Loss.NEVER] * 4
    with pytest.raises(LockLost):
        lock.confirm_with_lock()
    lock.check_last_confirmation()  # what was confirmed before still counts
    machines.world.pass_time(2)
    with pytest.raises(LockLost):
        lock.check_last_confirmation()


def test_the_budget_counts_from_before_the_write_was_sent(machines: Machines) -> None:
    ref = machines.open("a")
    lock = take_lock(ref)
    clock_of(ref).is_stopped = True
    slow_s = 8.0
    lossy_storage_of(ref).before = lambda verb, path: (
        machines.world.pass_time(slow_s) if verb == "replace" else None
    )
    lock.confirm_with_lock()
    machines.world.pass_time(1.5)
    lock.check_last_confirmation()
    machines.world.pass_time(1)
    with pytest.raises(LockLost):
        lock.check_last_confirmation()


def test_renewal_with_lost_answer_does_not_undo_a_takeover(machines: Machines) -> None:
    ref = machines.open("a")
    lock = take_lock(ref)
    clock_of(ref).is_stopped = True
    thief = make_lock(machines.open("b"), "commit")
    assert thief.try_acquire() is not None
    outcomes: list[object] = []

    def steal(verb: str, path: str) -> None:
        if verb == "stat" and not outcomes:
            machines.world.pass_time(61)
            outcomes.append(thief.try_acquire())
            lossy_storage_of(ref).land()

    lossy_storage_of(ref).losses = [Loss.LATE]
    lossy_storage_of(ref).before = steal
    with pytest.raises(LockLost):
        lock.confirm_with_lock()
    assert outcomes == [None]
    thief.confirm_with_lock()
    thief.check_last_confirmation()
    lock.release()
    thief.confirm_with_lock()


@pytest.mark.parametrize("loss", list(Loss))
def test_release_succeeds_when_an_answer_is_lost(machines: Machines, loss: Loss) -> None:
    ref = machines.open("a")
    with hold_lock(ref, "commit"):
        lossy_storage_of(ref).losses = [loss]
    assert is_free(machines)


def test_lock_ends_by_itself_when_release_gets_no_answer(machines: Machines) -> None:
    ref = machines.open("a")
    with hold_lock(ref, "commit"):
        lossy_storage_of(ref).losses = [Loss.NEVER] * 20
    assert not is_free(machines)
    assert seconds_until_taken(machines, make_lock(machines.open("b"), "commit")) < 62


def test_a_late_renewal_does_not_outlive_the_release(machines: Machines) -> None:
    ref = machines.open("a")
    lock = take_lock(ref)
    lossy_storage_of(ref).losses = [Loss.LATE, Loss.NEVER, Loss.NEVER, Loss.NEVER]
    with pytest.raises(LockLost):
        lock.confirm_with_lock()
    lock.release()
    lossy_storage_of(ref).land()
    assert is_free(machines)


def test_late_lock_file_is_deleted_only_if_it_is_ours() -> None:
    machines = Machines("filesystem")
    ref = machines.open("a")
    lock = take_lock(ref)
    clock_of(ref).is_stopped = True
    contender = make_lock(machines.open("b", wall_ms=10**10), "commit")
    contender.try_acquire()
    machines.world.pass_time(21)  # two budgets: the contender may take it now
    assert contender.try_acquire() is None
    lock_text = machines.store.read(machines.path)
    with pytest.raises(LockLost):
        lock.release()
    assert machines.store.read(machines.path) == lock_text
    MemoryStorage.forget(NAME)


def test_lock_excludes_others_and_ends_whatever_answers_are_lost() -> None:
    """Whatever is lost: what was told to be held is held, and what was given up ends."""
    at_once = 0
    for provider, losses in product(["storage", "filesystem"], product([None, *Loss], repeat=4)):
        machines = Machines(provider)
        ref = machines.open("a")
        lossy_storage_of(ref).losses = list(losses)
        lock = make_lock(ref, "commit")
        if lock.try_acquire() is None:
            other = make_lock(machines.open("b"), "commit").try_acquire()
            assert other is not None, losses
            assert other.host == "a", losses
            with suppress(LockLost):
                lock.confirm_with_lock()
            lock.check_last_confirmation()
        lossy_storage_of(ref).land()
        lock.release()
        lossy_storage_of(ref).losses = []
        lossy_storage_of(ref).land()
        waited = seconds_until_taken(machines, make_lock(machines.open("c"), "commit"))
        assert waited < 62, losses
        at_once += waited == 0
        MemoryStorage.forget(NAME)
    assert at_once > 400  # of 512: most are cleared up, not waited out
