"""Instants: what happened to a table, when, and how far it got.

Times are strings of 17 digits (`yyyyMMddHHmmssSSS`; old tables also 14) and compare as strings.
They are what a wall clock in the table's zone shows. `wall_ms` is such a reading as a number: the
milliseconds since 1970 that a clock in UTC has when it shows the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import NewType

from hoodoo.errors import InputError

InstantTime = NewType("InstantTime", str)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class TimelineZone(Enum):
    """The time zone of a table's instants; `LOCAL` is that of the process that writes."""

    UTC = "UTC"
    LOCAL = "LOCAL"


class Action(Enum):
    """What an instant does; the value is the word used in file names."""

    COMMIT = "commit"
    DELTA_COMMIT = "deltacommit"
    COMPACTION = "compaction"
    LOG_COMPACTION = "logcompaction"
    REPLACE_COMMIT = "replacecommit"
    CLUSTERING = "clustering"
    CLEAN = "clean"
    ROLLBACK = "rollback"
    RESTORE = "restore"
    SAVEPOINT = "savepoint"
    INDEXING = "indexing"
    SCHEMA_COMMIT = "schemacommit"

    __hash__ = object.__hash__  # there is one of each; that of `Enum` costs a call

    @property
    def completed_as(self) -> Action:
        """The action under which this one appears once it is completed."""
        return _COMPLETED_AS.get(self, self)

    @property
    def writes_data(self) -> bool:
        """Whether a completed instant of this action adds or replaces data files."""
        return self.completed_as in _DATA_ACTIONS


_COMPLETED_AS = {
    Action.COMPACTION: Action.COMMIT,
    Action.LOG_COMPACTION: Action.DELTA_COMMIT,
    Action.CLUSTERING: Action.REPLACE_COMMIT,
}
_DATA_ACTIONS = frozenset({Action.COMMIT, Action.DELTA_COMMIT, Action.REPLACE_COMMIT})

REWRITE_ACTIONS = frozenset({Action.COMPACTION, Action.LOG_COMPACTION, Action.CLUSTERING})
"""Plans that rewrite data files: only these are cancelled."""
ACTIONS_WITH_PLANS = REWRITE_ACTIONS | {Action.REPLACE_COMMIT}
"""Actions whose requested file may hold such a plan: older writers cluster by replace commits."""
SERVICE_ACTIONS = REWRITE_ACTIONS | {Action.CLEAN, Action.INDEXING}
"""Plans of all table services: each waits for an executor, and another one may take it over."""


class State(Enum):
    """How far an instant got. `ABORTED` is hoodoo's tombstone; other readers ignore it."""

    REQUESTED = "requested"
    INFLIGHT = "inflight"
    COMPLETED = "completed"
    ABORTED = "aborted"

    __hash__ = object.__hash__

    @property
    def rank(self) -> int:
        """Of several files of one instant, the one with the highest rank tells its state."""
        return _RANK[self]

    @property
    def is_pending(self) -> bool:
        return self in (State.REQUESTED, State.INFLIGHT)


_RANK = {State.REQUESTED: 0, State.INFLIGHT: 1, State.ABORTED: 2, State.COMPLETED: 3}

LEGAL_TRANSITIONS: frozenset[tuple[State | None, State]] = frozenset(
    {
        (None, State.REQUESTED),
        (None, State.INFLIGHT),  # savepoints have no requested file
        (State.REQUESTED, State.INFLIGHT),
        (State.INFLIGHT, State.COMPLETED),
        (State.INFLIGHT, State.REQUESTED),  # a failed attempt of a persistent plan
        (State.REQUESTED, State.ABORTED),
        (State.INFLIGHT, State.ABORTED),
    }
)


@dataclass(frozen=True, slots=True, order=False)
class Instant:
    """One action on the timeline in one state."""

    requested_time: InstantTime
    action: Action
    state: State
    completion_time: InstantTime | None = None

    @property
    def is_completed(self) -> bool:
        return self.state is State.COMPLETED

    @property
    def is_pending(self) -> bool:
        return self.state.is_pending

    @property
    def completion_or_requested_time(self) -> InstantTime:
        """Completion time; layout 1 does not record one, so the requested time stands in."""
        return self.completion_time or self.requested_time

    def __str__(self) -> str:
        return f"{self.requested_time}.{self.action.value}.{self.state.value}"


def is_instant_time(text: str) -> bool:
    """Whether this is a well-formed instant time (any digits; 14 or 17 of them)."""
    return len(text) in (14, 17) and text.isascii() and text.isdigit()


def from_wall_ms(wall_ms: int) -> InstantTime:
    """The instant time of what a wall clock shows."""
    try:
        reading = _EPOCH + timedelta(milliseconds=wall_ms)
    except OverflowError:
        raise InputError(f"{wall_ms} ms since 1970 is beyond the calendar") from None
    # strftime does not pad years before 1000.
    return InstantTime(f"{reading.year:04d}{reading:%m%d%H%M%S}{wall_ms % 1000:03d}")


def to_wall_ms(time: InstantTime) -> int:
    """What a wall clock showed at an instant time; 14 digits mean the end of that second."""
    if not is_instant_time(time):
        raise InputError(f"{time!r} is not an instant time (14 or 17 digits)")
    digits = time if len(time) == 17 else time + "999"
    try:
        reading = datetime.strptime(digits[:14], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        raise InputError(f"{time!r} is not a calendar time") from None
    return int((reading - _EPOCH).total_seconds()) * 1000 + int(digits[14:])


def next_time(now_wall_ms: int, *, after: InstantTime | None) -> InstantTime:
    """A time later than `after`, and not earlier than now."""
    now = from_wall_ms(now_wall_ms)
    if after is None or now > after:
        return now
    return from_wall_ms(to_wall_ms(after) + 1)


def parse_moment(text: str, *, wall_ms: Callable[[int], int]) -> InstantTime:
    """Read what a user may type for a point in time: an instant time, or an ISO date or time.

    `wall_ms` tells what clocks in the table's zone show at a moment (in ms since 1970). An ISO
    time without an offset is such a reading already.
    """
    text = text.strip()
    if is_instant_time(text):
        return InstantTime(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(
            f"{text!r} is neither an instant time (17 digits) nor an ISO date or time"
        ) from None
    if moment.tzinfo is None:
        return from_wall_ms(_ms_since_epoch(moment.replace(tzinfo=UTC)))
    return from_wall_ms(wall_ms(_ms_since_epoch(moment)))


def _ms_since_epoch(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(milliseconds=1)
