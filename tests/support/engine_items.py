"""Items for engines, which tell where they were run; workers of Spark can import them."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark import TaskContext

from hoodoo.errors import InputError


@dataclass(frozen=True)
class Item:
    """Tells its size, and remembers the attempt."""

    number: int
    size_bytes: int = 10
    attempt: int | None = None

    def at_attempt(self, number: int) -> Item:
        """The item for an attempt."""
        return replace(self, attempt=number)


@dataclass(frozen=True)
class Plain:
    """Tells no size."""

    number: int


def where(item: Item) -> tuple[int, int, int | None]:
    """The number of an item, the process that ran it, and the task."""
    task = TaskContext.get()
    assert item.attempt == (task.taskAttemptId() if task else 0)
    return item.number, os.getpid(), task.partitionId() if task else None


def process(item: Plain) -> tuple[int, int]:
    """The number of an item, and the process that ran it."""
    return item.number, os.getpid()


def refuse_four(item: Item) -> int:
    """Refuses an item."""
    if item.number == 4:
        raise InputError("number 4")
    return item.number


@dataclass(frozen=True)
class Slow:
    """Takes its time to be sent, and then to be worked on, unless there is a file at `mark`."""

    number: int
    sent_s: float
    mark: str

    def __reduce__(self) -> tuple[object, ...]:
        time.sleep(self.sent_s)
        return Slow, (self.number, 0.0, self.mark)


def linger(item: Slow) -> int:
    """Waits for a file that comes only when the test has ended; then leaves another."""
    while not os.path.exists(item.mark):
        time.sleep(0.05)
    Path(f"{item.mark}-{item.number}").touch()
    return item.number


def refuse_or_linger(item: Slow) -> int:
    """Refuses the first item, and lingers over the others."""
    if item.number == 0:
        raise InputError("number 0")
    return linger(item)
