"""How long a table's lock is waited for and held, seen from outside: production has no hooks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from hoodoo.concurrency.locks import table_lock
from hoodoo.concurrency.locks.lock import Holder, Lock
from hoodoo.model.files import FileGroupId
from hoodoo.table.ref import TableRef


@dataclass(slots=True)
class Hold:
    """One transaction's time with the lock: asked for, tried in vain, taken, given back."""

    purpose: str
    asked: float
    tried: float = 0.0
    """When the try began that took it."""
    taken: float = 0.0
    ended: float = 0.0
    marks: tuple[int, int] = (0, 0)
    """What the caller's counter said when it was taken and given back."""

    @property
    def waited_s(self) -> float:
        return self.tried - self.asked

    @property
    def held_s(self) -> float:
        """What others have to wait for: from the try that succeeded to the end."""
        return self.ended - self.tried

    @property
    def inside_s(self) -> float:
        """The transaction itself, and giving the lock back."""
        return self.ended - self.taken


@contextmanager
def watched(
    mark: Callable[[], int] = lambda: 0, *, before: Callable[[str], None] = lambda purpose: None
) -> Iterator[list[Hold]]:
    """A list to which every transaction of this process adds itself when it ends.

    `before` is called with the purpose of each transaction ahead of it, and may wait.
    """
    holds: list[Hold] = []
    make_lock = table_lock.make_lock

    def watched_lock(ref: TableRef, purpose: str, group: FileGroupId | None = None) -> Any:
        if group is not None:  # no transaction
            return make_lock(ref, purpose, group)
        before(purpose)
        hold = Hold(purpose, asked=time.perf_counter())
        return _WatchedLock(make_lock(ref, purpose), hold, holds, mark)

    table_lock.make_lock = watched_lock
    try:
        yield holds
    finally:
        table_lock.make_lock = make_lock


class _WatchedLock:
    def __init__(self, lock: Lock, hold: Hold, holds: list[Hold], mark: Callable[[], int]) -> None:
        self._lock = lock
        self._hold = hold
        self._holds = holds
        self._mark = mark

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lock, name)

    def try_acquire(self) -> Holder | None:
        self._hold.tried = time.perf_counter()
        other = self._lock.try_acquire()
        if other is None:
            self._hold.taken = time.perf_counter()
            self._hold.marks = (self._mark(), 0)
        return other

    def release(self) -> None:
        self._lock.release()
        if self._hold.taken:
            self._hold.ended = time.perf_counter()
            self._hold.marks = (self._hold.marks[0], self._mark())
            self._holds.append(self._hold)
