"""`Txn`: proof that the caller holds the table's lock.

Whatever must run under the lock takes a `Txn` as its first argument, so the type shows that it
is held. Only `hoodoo.concurrency.transaction` makes one. `new_time` draws instant times that only
ever grow, even when a clock jumps back or an hour comes twice.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from hoodoo.env import Env
from hoodoo.model.decision import Head
from hoodoo.model.instant import InstantTime, TimelineZone, from_wall_ms, next_time, to_wall_ms
from hoodoo.model.paths import TimelinePaths
from hoodoo.timeline.timeline import Timeline
from hoodoo.timeline.zone import now_wall_ms

log = logging.getLogger("hoodoo.timeline")

MAX_AHEAD_MS = 10 * 60_000
REMIND_S = 3600.0

_CAUSES = {
    TimelineZone.UTC: "check the clock and the time zone of this machine and of other writers",
    TimelineZone.LOCAL: "check the clock and the time zone (TZ) of this process and of other "
    "writers: instants of this table are in local time (hoodie.table.timeline.timezone=LOCAL), so "
    "all its writers must run in one time zone; harmless only in the hour that the end of summer "
    "time repeats",
}
_warned_at: dict[str, float] = {}


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


def new_time(txn: Txn, *, after: InstantTime | None = None) -> InstantTime:
    """A time later than every time on the timeline, and than `after`.

    Needs: a Txn, so that nobody else draws a time meanwhile.
    """
    newest = max(filter(None, (txn.newest_time, after)), default=None)
    now_ms = now_wall_ms(txn.env.clock, txn.paths.zone)
    if newest is not None and newest > from_wall_ms(now_ms + MAX_AHEAD_MS):
        _warn(txn, newest, ahead_ms=to_wall_ms(newest) - now_ms)
    return next_time(now_ms, after=newest)


def _warn(txn: Txn, newest: InstantTime, *, ahead_ms: int) -> None:
    """Tell that someone's clock is wrong; of one table at most once an hour."""
    table, now_s = txn.env.storage.uri, txn.env.clock.monotonic()
    if now_s - _warned_at.get(table, float("-inf")) < REMIND_S:
        return
    _warned_at[table] = now_s
    log.warning(
        "newest_instant_ahead_of_clock table=%s newest=%s ahead_minutes=%d: new times follow it; "
        "ages and retention by hours are off until the clock catches up; %s",
        table,
        newest,
        ahead_ms // 60_000,
        _CAUSES[txn.paths.zone],
    )
