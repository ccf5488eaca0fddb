"""`Txn`: proof that the caller holds the table's lock.

Whatever must run under the lock takes a `Txn` as its first argument, so the type shows that it
is held. Only `hoodoo.concurrency.transaction` makes one.
"""

from __future__ import annotations

from dataclasses import dataclass

from hoodoo.env import Env
from hoodoo.model.paths import TimelinePaths
from hoodoo.timeline.timeline import Timeline


@dataclass(frozen=True)
class Txn:
    """A transaction in progress: the world, where the timeline is, and the timeline re-read."""

    env: Env
    paths: TimelinePaths
    timeline: Timeline
