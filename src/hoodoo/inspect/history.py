"""The commits of a table for people: what each did to its rows, and what its writer noted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hoodoo.errors import FormatError, ObjectNotFound
from hoodoo.format.timeline import instant_files as codec
from hoodoo.format.timeline.history import ArchivedInstant
from hoodoo.model.commit import SCHEMA_KEY, WRITER_KEY, CommitMetadata
from hoodoo.model.instant import Instant, InstantTime, State
from hoodoo.table.history import load_history
from hoodoo.table.ref import TableRef
from hoodoo.table.timeline import read_metadata


@dataclass(frozen=True, slots=True)
class CommitReport:
    """A completed commit, in rows."""

    instant: InstantTime
    completion_time: InstantTime | None
    operation: str | None
    inserted: int
    updated: int
    deleted: int
    metadata: Mapping[str, str]
    """What the writer noted: the extra metadata, without the schema and the owner."""
    owner: str | None
    is_archived: bool = False


def report_history(
    ref: TableRef, *, include_archived: bool = False, last: int | None = None
) -> list[CommitReport]:
    """Completed commits, newest first; `last` leaves only so many.

    One file is read for each commit reported. Archived ones are read only if they are asked for.
    """
    reports = []
    commits = ref.load_timeline().commits.instants
    for instant in sorted(commits, key=_end_time, reverse=True)[:last]:
        report = _report_active(ref, instant)
        if report is not None:
            reports.append(report)
    if include_archived and (last is None or len(reports) < last):
        active_times = {instant.requested_time for instant in commits}
        history = load_history(ref.env, ref.properties.timeline_paths)
        for entry in sorted(history, key=_end_time, reverse=True):
            if entry.requested_time in active_times or not entry.action.writes_data:
                continue
            report = _report_archived(entry)
            if report is not None:
                reports.append(report)
    return reports[:last]


def _end_time(one: Instant | ArchivedInstant) -> str:
    return one.completion_time or one.requested_time


def _report_active(ref: TableRef, instant: Instant) -> CommitReport | None:
    try:
        metadata = read_metadata(ref.env, ref.properties.timeline_paths, instant)
    except ObjectNotFound:  # archived meanwhile
        return None
    return _report(instant.requested_time, instant.completion_time, metadata, is_archived=False)


def _report_archived(old: ArchivedInstant) -> CommitReport | None:
    try:
        metadata = codec.decode(old.metadata or b"", old.action, State.COMPLETED)
    except FormatError:
        return None  # it has no metadata that can be read
    return _report(old.requested_time, old.completion_time, metadata, is_archived=True)


def _report(
    instant_time: InstantTime,
    completion_time: InstantTime | None,
    metadata: object,
    *,
    is_archived: bool,
) -> CommitReport | None:
    if not isinstance(metadata, CommitMetadata):
        return None
    stats = [stat for _, stat in metadata.stats()]
    if metadata.operation.is_table_service or metadata.compacted:
        stats = []  # rows were moved, and none was changed
    extra = dict(metadata.extra_metadata)
    extra.pop(SCHEMA_KEY, None)
    return CommitReport(
        instant=instant_time,
        completion_time=completion_time,
        operation=metadata.operation_type,
        inserted=sum(stat.num_inserts for stat in stats),
        updated=sum(stat.num_update_writes for stat in stats),
        deleted=sum(stat.num_deletes for stat in stats),
        owner=extra.pop(WRITER_KEY, None),
        metadata=extra,
        is_archived=is_archived,
    )
