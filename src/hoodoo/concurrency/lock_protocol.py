"""What every table lock does, whoever keeps it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from hoodoo.timeline.txn import Fence


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a lock, as far as it tells."""

    owner: str
    """The text that the lock itself keeps."""
    app: str | None = None
    host: str | None = None
    pid: int | None = None
    phase: str | None = None
    expires_in_ms: int | None = None
    """Until others may take the lock; negative once they may; None where it never expires."""


class Lock(Fence, Protocol):
    """A table's lock as one contender sees it, for one acquisition."""

    @property
    def keeps_queue(self) -> bool:
        """Whether a server keeps those who wait in order, so that to look again is free."""

    def try_acquire(self) -> Holder | None:
        """Take the lock now; if someone else has it, tell who, and change nothing."""

    def release(self) -> None:
        """Give the lock up, if it is still ours; never take it from another."""

    def holder(self) -> Holder | None:
        """Who has the lock now."""

    def take_away(self) -> Holder | None:
        """Free the lock, whoever holds it; tells who held it."""
