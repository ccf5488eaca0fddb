"""Instant times that only ever grow, even when a clock jumps back."""

from __future__ import annotations

from hoodoo.errors import TimelineError
from hoodoo.model.instant import InstantTime, next_time, to_epoch_ms
from hoodoo.timeline.txn import Txn

MAX_CLOCK_LAG_MS = 24 * 3_600_000


def new_time(txn: Txn, *, after: InstantTime | None = None) -> InstantTime:
    """A time later than every time on the timeline, and than `after`.

    Needs: a Txn, so that nobody else draws a time meanwhile.
    """
    newest = max(filter(None, (txn.newest_time, after)), default=None)
    now_ms = txn.env.clock.now_ms()
    if newest is not None and to_epoch_ms(newest) - now_ms > MAX_CLOCK_LAG_MS:
        raise TimelineError(
            f"the newest instant {newest} is more than a day ahead of this machine's clock; "
            "correct the clock before writing"
        )
    return next_time(now_ms, after=newest)
