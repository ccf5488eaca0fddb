"""Counters behind locks, some of which are none: the simulator's own test pieces.

Two actors add to a number, each under a lock that is an object of the store. What is acknowledged
must be in the number, and what may have landed may be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hoodoo.errors import LockTimeout, ObjectExists, ObjectNotFound, OutcomeUnknown
from hoodoo.runtime.env import Env
from hoodoo_testing.simulator.scenario import RunOutcome, Scenario
from hoodoo_testing.simulator.world.faults import FaultKind
from hoodoo_testing.simulator.world.schedule import Chances
from hoodoo_testing.simulator.world.stage import Violation
from hoodoo_testing.simulator.world.world import ActorAction, World

LOCK, COUNTER = "lock", "counter"
_TRIES = 50


class Counting(Scenario):
    """Actors `a` and `b` count to six together; subclasses say under which lock."""

    rounds = 3

    def setup(self, world: World) -> None:
        world.storage.create(COUNTER, b"0")

    def actors(self) -> Mapping[str, ActorAction]:
        return {"a": self.count, "b": self.count}

    def count(self, env: Env) -> int:
        """Add one, several times; tells how many of them got no answer."""
        unknown = 0
        for _ in range(self.rounds):
            owner = env.ids.uuid().encode()
            self._acquire(env, owner)
            value = int(env.storage.read(COUNTER))
            try:
                env.storage.put(COUNTER, b"%d" % (value + 1))
            except OutcomeUnknown:
                unknown += 1
            self._release(env, owner)
        return unknown

    def _acquire(self, env: Env, owner: bytes) -> None:
        """Wait for the lock. Raises `LockTimeout`."""
        raise NotImplementedError

    def _release(self, env: Env, owner: bytes) -> None:
        """Give it up."""
        raise NotImplementedError

    def check(self, world: World, outcome: RunOutcome) -> None:
        if outcome.errors:  # someone crashed, or waited in vain for someone who had
            return
        unknown = sum(int(str(result)) for result in outcome.results.values())
        most = 2 * self.rounds
        counter = int(world.storage.read(COUNTER))
        if not most - unknown <= counter <= most:
            raise Violation(f"counted {counter} instead of {most - unknown} to {most}")


class NaiveLock(Counting):
    """Looks whether the lock is free, then takes it: two may look before one takes it."""

    name = "toy-naive-lock"

    def _acquire(self, env: Env, owner: bytes) -> None:
        _until(env, lambda: not env.storage.exists(LOCK))
        env.storage.put(LOCK, owner)

    def _release(self, env: Env, owner: bytes) -> None:
        env.storage.delete(LOCK)


class CreatedLock(Counting):
    """Takes the lock by put-if-absent, and looks whose it is when an answer got lost."""

    name = "toy-lock"
    chances = Chances(
        {FaultKind.CRASH_BEFORE: 0.01, FaultKind.LOST_REQUEST: 0.02, FaultKind.LOST_RESPONSE: 0.02}
    )

    def _acquire(self, env: Env, owner: bytes) -> None:
        _until(env, lambda: _take(env, owner))

    def _release(self, env: Env, owner: bytes) -> None:
        _until(env, lambda: _give_back(env, owner))


class LeasedLock(CreatedLock):
    """Takes over a lock that is old, although its holder may only have paused."""

    name = "toy-leased-lock"
    lease_ms = 10_000
    chances = Chances({FaultKind.PAUSE: 0.05})

    def _acquire(self, env: Env, owner: bytes) -> None:
        since: dict[bytes, float] = {}

        def take() -> bool:
            if _take(env, owner):
                return True
            holder = _holder(env)
            first = since.setdefault(holder, env.clock.monotonic())
            if holder and env.clock.monotonic() - first > self.lease_ms / 1000:
                _give_back(env, holder)
            return False

        _until(env, take)


def _until(env: Env, is_done: Callable[[], bool]) -> None:
    for _ in range(_TRIES):
        if is_done():
            return
        env.clock.sleep(1 + env.ids.jitter())
    raise LockTimeout("waited in vain")


def _take(env: Env, owner: bytes) -> bool:
    try:
        env.storage.create(LOCK, owner)
    except ObjectExists:
        return _holder(env) == owner  # an earlier try may have landed
    except OutcomeUnknown:
        return False
    return True


def _give_back(env: Env, owner: bytes) -> bool:
    if _holder(env) != owner:
        return True
    try:
        env.storage.delete(LOCK)
    except OutcomeUnknown:
        return False
    return True


def _holder(env: Env) -> bytes:
    try:
        return env.storage.read(LOCK)
    except ObjectNotFound:
        return b""


SCENARIOS = (NaiveLock, CreatedLock, LeasedLock)
