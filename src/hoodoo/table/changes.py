"""Incremental reads: the rows that changed between two points of completion time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

import pyarrow as pa

from hoodoo.engine.engine import Engine
from hoodoo.errors import InputError, Unsupported
from hoodoo.format import timeline as codec
from hoodoo.format.lsm import ArchivedInstant
from hoodoo.format.schema import COMMIT_TIME
from hoodoo.model.commit import CommitMetadata
from hoodoo.model.files import FileGroupId
from hoodoo.model.instant import InstantTime, State
from hoodoo.model.predicate import In
from hoodoo.table.read import Selection, read_rule
from hoodoo.table.ref import TableRef
from hoodoo.table.snapshot import take_snapshot
from hoodoo.timeline.history import load_history
from hoodoo.timeline.load import read_commit
from hoodoo.timeline.timeline import Timeline
from hoodoo.timeline.zone import parse_moment

History = Callable[[], list[ArchivedInstant]]  # reads the archived timeline when first called


@dataclass(frozen=True, slots=True)
class Window:
    """The commits completed after `since` and no later than `until`, and what they wrote to."""

    times: frozenset[InstantTime]
    groups: frozenset[FileGroupId]


def read_changes(
    ref: TableRef,
    engine: Engine,
    *,
    since: str,
    until: str | None = None,
    columns: list[str] | None = None,
) -> pa.Table:
    """Rows inserted or updated in a window, each in its version at the window's end."""
    return select_changes(ref, since=since, until=until, columns=columns).read(engine)


def select_changes(
    ref: TableRef,
    *,
    since: str,
    until: str | None = None,
    columns: list[str] | None = None,
) -> Selection:
    """The rows inserted or updated in the window, to be read.

    Bounds are instants (then: when they completed) or moments on the axis of completion times;
    `since` is excluded, `until` included. Deleted rows are not told.
    """
    if not ref.properties.populates_meta_fields:
        raise Unsupported("a table without meta fields does not tell which rows changed")
    timeline = _load_gapless_timeline(ref)
    history = cache(partial(load_history, ref.env, ref.properties.timeline))
    begin = _parse_moment(ref, since)
    after = _completion_moment(timeline, history, begin)
    last = (
        _completion_moment(timeline, history, _parse_moment(ref, until))
        if until is not None
        else None
    )
    if last is not None and last < after:
        raise InputError(f"the window ends ({until}) before it begins ({since})")
    archived = history() if _may_be_archived(timeline, begin) else []
    window = _collect_window(ref, timeline, archived, after, last)
    snapshot = take_snapshot(ref, timeline=timeline, ended_until=last)
    time_filter = In(COMMIT_TIME, tuple(sorted(window.times)))
    rule = read_rule(snapshot, columns=columns, filter=time_filter)
    slices = tuple(s for s in snapshot.slices() if s.group in window.groups)
    return Selection(snapshot, rule, slices)


def _load_gapless_timeline(ref: TableRef) -> Timeline:
    """The timeline up to a completed instant below which nothing can appear any more.

    Commits appear in the order of their completion times, but a listing takes its time: it may
    miss one that appears while it is under way, and have the next one. A second listing has all
    that were there when the first one ended.
    """
    first = ref.load_timeline()
    newest = max((instant.ended_at for instant in first.completed), default=None)
    again = ref.load_timeline()
    if newest is None:
        return again.where(lambda instant: not instant.is_completed)
    return again.where(lambda instant: not instant.is_completed or instant.ended_at <= newest)


def _parse_moment(ref: TableRef, text: str) -> InstantTime:
    return parse_moment(ref.env.clock, ref.properties.timeline_zone, text)


def _completion_moment(timeline: Timeline, history: History, moment: InstantTime) -> InstantTime:
    """When the instant of this time completed; the time itself if there is no such instant."""
    instant = timeline.completed.find(moment)
    if instant is not None:
        return instant.ended_at
    if not _may_be_archived(timeline, moment):
        return moment
    ends = (archived.completion_time for archived in history() if archived.requested_time == moment)
    return next((end for end in ends if end is not None), moment)


def _may_be_archived(timeline: Timeline, moment: InstantTime) -> bool:
    return timeline.start is None or moment < timeline.start


def _collect_window(
    ref: TableRef,
    timeline: Timeline,
    history: list[ArchivedInstant],
    after: InstantTime,
    last: InstantTime | None,
) -> Window:
    times: set[InstantTime] = set()
    groups: set[FileGroupId] = set()

    def add(requested: InstantTime, metadata: CommitMetadata) -> None:
        times.add(requested)
        groups.update(metadata.file_groups())

    for archived in history:
        completion_time = archived.completion_time or archived.requested_time
        if (
            archived.action.writes_data
            and after < completion_time
            and (last is None or completion_time <= last)
        ):
            metadata = codec.decode(archived.metadata or b"", archived.action, State.COMPLETED)
            if isinstance(metadata, CommitMetadata):
                add(archived.requested_time, metadata)
    for instant in timeline.commits:
        if after < instant.ended_at and (last is None or instant.ended_at <= last):
            add(instant.requested_time, read_commit(ref.env, ref.properties.timeline, instant))
    return Window(frozenset(times), frozenset(groups))
