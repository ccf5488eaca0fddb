"""Instant times that only ever grow, even when a clock jumps back or an hour comes twice."""

from __future__ import annotations

import logging

from hoodoo.model.instant import InstantTime, TimelineZone, from_wall_ms, next_time, to_wall_ms
from hoodoo.timeline.txn import Txn
from hoodoo.timeline.zone import now_wall_ms

MAX_AHEAD_MS = 10 * 60_000
REMIND_S = 3600.0

log = logging.getLogger("hoodoo.timeline")

_CAUSES = {
    TimelineZone.UTC: "check the clock and the time zone of this machine and of other writers",
    TimelineZone.LOCAL: "check the clock and the time zone (TZ) of this process and of other "
    "writers: instants of this table are in local time (hoodie.table.timeline.timezone=LOCAL), so "
    "all its writers must run in one time zone; harmless only in the hour that the end of summer "
    "time repeats",
}
_warned_at: dict[str, float] = {}


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
