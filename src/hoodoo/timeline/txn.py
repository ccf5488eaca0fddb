"""`Txn`: proof that the caller holds the table's lock.

Whatever must run under the lock takes a `Txn` as its first argument, so the type shows that it
is held. Only `hoodoo.concurrency.transaction` makes one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from hoodoo.env import Env
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

        Without asking while the last confirmation is young enough, else by asking.
        Raises `LeaseLost`.
        """

    def is_unbroken(self) -> bool:
        """Ask whether nobody else can have had the lock since it was taken."""


@dataclass(frozen=True)
class Txn:
    """A transaction in progress: the world, where the timeline is, and the timeline re-read."""

    env: Env
    paths: TimelinePaths
    timeline: Timeline
    fence: Fence
