"""How far a write or a service is, as told to whoever watches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """A moment of a piece of work: its phase, and the files done in it, of how many.

    Writes go through prepare, locate, assign, begin, write, finalize and commit; `done` is 1 of 1
    in the last one when the commit is there. A service's phase is its name. `total` is None where
    nothing is counted.
    """

    phase: str
    done: int = 0
    total: int | None = None


OnProgress = Callable[[Progress], None]
"""Is told of each step, from any thread. What it raises fails the work, until that is committed."""


def count_items(phase: str, on_progress: OnProgress | None) -> Callable[[int, int], None] | None:
    """What a service tells, as a number of items done and of all; None if nobody looks."""
    if on_progress is None:
        return None
    return lambda count, total: on_progress(Progress(phase, count, total))
