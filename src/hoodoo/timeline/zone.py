"""Moments and instant times: the one place that translates between them, by the table's zone.

A moment is in milliseconds since 1970; an instant time is what a wall clock showed in the zone of
the table. In a zone with summer time, an hour comes twice in autumn and one is missing in spring.
"""

from __future__ import annotations

from functools import partial

from hoodoo.env import Clock
from hoodoo.model import instant
from hoodoo.model.instant import InstantTime, TimelineZone, to_wall_ms

_DAY_MS = 24 * 3_600_000


def wall_ms(clock: Clock, zone: TimelineZone, epoch_ms: int) -> int:
    """What a wall clock in the zone shows at a moment."""
    return clock.local_ms(epoch_ms) if zone is TimelineZone.LOCAL else epoch_ms


def now_wall_ms(clock: Clock, zone: TimelineZone) -> int:
    """What a wall clock in the zone shows now."""
    return wall_ms(clock, zone, clock.now_ms())


def moment_of(clock: Clock, zone: TimelineZone, time: InstantTime) -> int:
    """The moment of an instant time; of two, the first; `InputError` if it is no calendar time.

    Where `LOCAL` was another process's zone, this is off by the difference.
    """
    reading = to_wall_ms(time)
    # The offset is the one before or the one after the nearest change of clocks.
    around = (reading - _DAY_MS, reading + _DAY_MS)
    moments = sorted({reading - (wall_ms(clock, zone, at) - at) for at in around})
    for moment in moments:
        if wall_ms(clock, zone, moment) == reading:
            return moment
    return moments[-1]  # in the missing hour: as if clocks had not changed yet


def time_of(clock: Clock, zone: TimelineZone, epoch_ms: int) -> InstantTime:
    """The instant time of a moment; an hour that comes twice has the same times both times."""
    return instant.from_wall_ms(wall_ms(clock, zone, epoch_ms))


def parse_moment(clock: Clock, zone: TimelineZone, text: str) -> InstantTime:
    """The instant time of what a user typed; ISO times without an offset are in the zone."""
    return instant.parse_moment(text, wall_ms=partial(wall_ms, clock, zone))
