"""Items for engines, which tell where they were run; workers of Spark can import them."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

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
