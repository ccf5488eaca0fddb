"""Incremental reads: the rows that changed between two points of completion time."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from hoodoo.engine.base import Engine
from hoodoo.errors import InputError, Unsupported
from hoodoo.format import timeline as codec
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
    timeline = ref.load_timeline()
    after = _completion_moment(ref, timeline, since)
    last = _completion_moment(ref, timeline, until) if until is not None else None
    if last is not None and last < after:
        raise InputError(f"the window ends ({until}) before it begins ({since})")
    window = _window(ref, timeline, after, last)
    snapshot = take_snapshot(ref, timeline=timeline, ended_until=last)
    chosen = In(COMMIT_TIME, tuple(sorted(window.times)))
    rule = read_rule(snapshot, columns=columns, filter=chosen)
    slices = tuple(s for s in snapshot.slices() if s.group in window.groups)
    return Selection(snapshot, rule, slices)


def _completion_moment(ref: TableRef, timeline: Timeline, text: str) -> InstantTime:
    """The point on the axis of completion times that a user means by an instant or a time."""
    moment = parse_moment(ref.env.clock, ref.properties.timeline_zone, text)
    instant = timeline.completed.find(moment)
    return instant.ended_at if instant is not None else moment


def _window(
    ref: TableRef, timeline: Timeline, after: InstantTime, last: InstantTime | None
) -> Window:
    times: set[InstantTime] = set()
    groups: set[FileGroupId] = set()

    def add(requested: InstantTime, metadata: CommitMetadata) -> None:
        times.add(requested)
        groups.update(metadata.file_groups())

    if timeline.start is None or after < timeline.start:
        for archived in load_history(ref.env, ref.properties.timeline):
            ended = archived.completion_time or archived.requested_time
            if archived.action.writes_data and after < ended and (last is None or ended <= last):
                metadata = codec.decode(archived.metadata or b"", archived.action, State.COMPLETED)
                if isinstance(metadata, CommitMetadata):
                    add(archived.requested_time, metadata)
    for instant in timeline.commits:
        if after < instant.ended_at and (last is None or instant.ended_at <= last):
            add(instant.requested_time, read_commit(ref.env, ref.properties.timeline, instant))
    return Window(frozenset(times), frozenset(groups))
