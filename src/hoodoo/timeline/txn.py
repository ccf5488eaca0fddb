"""`Txn`: proof that the caller holds the table's lock.

Whatever must run under the lock takes a `Txn` as its first argument, so the type shows that it
is held. Only `hoodoo.concurrency.transaction` makes one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from hoodoo.env import Env
from hoodoo.model.decision import Head
from hoodoo.model.instant import InstantTime
from hoodoo.model.paths import TimelinePaths
from hoodoo.timeline.timeline import Timeline


class Fence(Protocol):
    """The lock that a transaction holds, as far as the transaction needs it."""

    def confirm(self) -> None:
        """Make sure, by asking, that the lock is ours and lasts long enough to publish.

        Raises `LeaseLost`.
        """

    def check(self) -> None:
        """Make sure, without asking, that the last confirmation still covers us.

        Raises `LeaseLost`.
        """

    def ensure(self) -> None:
        """Make sure that the lock covers a publish that is sent now.

        Without asking while the last confirmation is young, else by asking. Raises `LeaseLost`.
        """

    def budget_s(self) -> float:
        """For how many seconds from now the last confirmation covers what is sent."""

    def is_unbroken(self) -> bool:
        """Ask whether nobody else can have had the lock since it was taken."""


@dataclass
class Txn:
    """A transaction in progress: the world, the lock, and what is decided about the table.

    The head was read before the timeline: who decides by this timeline takes the place of this
    head, or of none.
    """

    env: Env
    paths: TimelinePaths
    fence: Fence
    head: Head
    timeline: Timeline
    look: Callable[[], tuple[Head, Timeline]]
    """Loads head and timeline, with everything that is decided."""

    def reload(self) -> None:
        """Look at head and timeline again: someone else has decided."""
        self.head, self.timeline = self.look()

    @property
    def newest_time(self) -> InstantTime | None:
        """The latest time that any instant of the table is known to have, archived ones too."""
        times = filter(None, (self.timeline.newest_time, self.head.latest))
        return max(times, default=None)
