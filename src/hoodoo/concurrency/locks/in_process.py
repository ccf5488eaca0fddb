"""A lock between the threads of one process. Other processes do not see it."""

from __future__ import annotations

from hoodoo.concurrency.locks.lock import Holder, Owner, parse_holder
from hoodoo.errors import LockLost, UnsupportedFeature
from hoodoo.runtime.env import Env

_BUDGET_S = 10.0

# Who is inside, for the messages of those who wait; written only by the one who is.
_inside: dict[str, str] = {}


class InProcessLock:
    """The line of this process before a table."""

    keeps_queue = False

    def __init__(self, env: Env, phase: str, *, name: str = "") -> None:
        """`name` tells locks of one table apart; that of the table itself has none."""
        self._name = f"in_process {env.storage.uri} {name}".rstrip()
        self._line = env.clock.line(self._name)
        self._env = env
        self._phase = phase
        self._is_held = False

    def try_acquire(self) -> Holder | None:
        if not self._line.enter(0):
            return self.holder() or Holder("another thread")
        self._is_held = True
        _inside[self._name] = str(Owner.new(self._env, self._phase))
        return None

    def confirm_with_lock(self) -> None:
        self.check_last_confirmation()

    def check_last_confirmation(self) -> None:
        if not self._is_held:
            raise LockLost("the in_process lock is not held")

    def ensure_publish_window(self) -> None:
        self.check_last_confirmation()

    def budget_s(self) -> float:
        return _BUDGET_S

    def is_unbroken(self) -> bool:
        return self._is_held

    def release(self) -> None:
        if self._is_held:
            self._is_held = False
            _inside.pop(self._name, None)
            self._line.leave()

    def holder(self) -> Holder | None:
        text = _inside.get(self._name)
        return None if text is None else parse_holder(text)

    def take_away(self) -> Holder | None:
        if self.holder() is not None:
            raise UnsupportedFeature(
                "a thread of this process holds the lock; it cannot be taken away"
            )
        return None
