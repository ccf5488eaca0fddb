"""What happened in a run, one line each, for people."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from hoodoo_testing.simulator.world.faults import StorageOperation


@lru_cache(maxsize=1 << 10)
def process_of(actor: str) -> str:
    """The process of an actor: `a` of `a`, of `a/one` and of the timer `a~1`."""
    return re.split("[/~]", actor, maxsplit=1)[0]


class TraceStep(NamedTuple):
    """One move of one actor, or something that befell it (which has no number)."""

    number: int | None
    at_ms: int
    """Virtual time since the start of the world."""
    actor: str
    operation: int
    """Which storage operation of the actor; 0 for other moves."""
    verb: str
    path: str
    outcome: str

    def __str__(self) -> str:
        number = "" if self.number is None else self.number
        who = f"{self.actor}#{self.operation}" if self.operation else self.actor
        at_s = self.at_ms / 1000
        line = f"{number:>5} {at_s:>10.3f}  {who:<14} {self.verb:<9} {self.path:<40} {self.outcome}"
        return line.rstrip()

    def as_operation(self) -> StorageOperation:
        """The storage operation of this step."""
        return StorageOperation(
            process_of(self.actor), self.actor, self.operation, self.verb, self.path
        )
