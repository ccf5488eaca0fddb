"""Savepoints: the files of the table as of a commit are kept until the savepoint is deleted."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace

from hoodoo.concurrency.transactions import instants
from hoodoo.concurrency.transactions.gate import complete_instant, remove_completed_file
from hoodoo.concurrency.transactions.transaction import transaction
from hoodoo.errors import InputError, TimelineError
from hoodoo.model.commit import SavepointMetadata, SavepointPartitionMetadata
from hoodoo.model.files import FileGroup
from hoodoo.model.instant import Action, Instant, InstantTime, State
from hoodoo.model.paths import PartitionPath
from hoodoo.model.plans import CleanerPlan
from hoodoo.read.file_listing import visible_groups
from hoodoo.runtime.lost_answers import delete_surely
from hoodoo.services.clean.facts import load_last_clean
from hoodoo.services.clean.plan import file_name
from hoodoo.table.ref import TableRef
from hoodoo.table.timeline import Timeline, instant_path, read_metadata, read_plan
from hoodoo.table.writable import reopen_for_writing

log = logging.getLogger("hoodoo.services")


@dataclass(frozen=True, slots=True)
class Savepoint:
    """A savepoint that stands."""

    instant: InstantTime
    """The commit that it is about."""
    user: str
    comment: str
    made_ms: int
    files: int


def list_savepoints(ref: TableRef) -> list[Savepoint]:
    """The savepoints of a table, oldest first."""
    savepoints = []
    for instant in ref.load_timeline().savepoints.completed:
        metadata = read_metadata(ref.env, ref.properties.timeline_paths, instant)
        if isinstance(metadata, SavepointMetadata):
            savepoints.append(_describe(instant.requested_time, metadata))
    return savepoints


def create_savepoint(
    ref: TableRef, instant: str | None = None, *, user: str = "", comment: str = ""
) -> Savepoint:
    """Keep the table as of a commit, the latest one unless told.

    Order: files as of the commit listed; in a transaction: no clean has them in its plan; inflight
    file; through the gate: completed savepoint.
    Crash: an inflight savepoint, which protects nothing; making it again goes on.
    """
    ref = reopen_for_writing(ref)
    timeline = ref.load_timeline()
    commit = _find_commit(timeline, instant)
    time = commit.requested_time
    _refuse_cleaned(ref, timeline, time)
    metadata = SavepointMetadata(
        savepointed_by=user,
        savepointed_at=ref.env.clock.now_ms(),
        comments=comment,
        partition_metadata=_list_files(ref, timeline, commit),
    )
    by_partition = metadata.partition_metadata.values()
    files = {name for each in by_partition for name in each.savepoint_data_file}
    with transaction(ref, "savepoint") as txn:
        inflight = txn.timeline.find(time, Action.SAVEPOINT)
        if inflight is not None and inflight.is_completed:
            raise InputError(f"there is a savepoint at {time} already")
        if inflight is None:
            inflight = instants.start_savepoint(txn, time)
            txn.reload()

        def prepare_metadata() -> SavepointMetadata:
            if txn.timeline.commits.find(time) is None:
                raise TimelineError(f"commit {time} was taken back, or archived, meanwhile")
            _refuse_planned(ref, timeline, txn.timeline, files)
            return metadata

        complete_instant(txn, inflight, ref.env.ids.uuid(), prepare_metadata)
    log.info("savepoint time=%s files=%d", time, len(files))
    return _describe(time, metadata)


def delete_savepoint(ref: TableRef, instant: str) -> None:
    """Let go of what a savepoint keeps.

    Order: inflight file deleted; head; completed file deleted.
    Crash: the savepoint stands, or is gone.
    """
    ref = reopen_for_writing(ref)
    with transaction(ref, "savepoint") as txn:
        savepoint = txn.timeline.find(instant, Action.SAVEPOINT)
        if savepoint is None:
            raise InputError(f"there is no savepoint at {instant}")
        inflight = replace(savepoint, state=State.INFLIGHT, completion_time=None)
        delete_surely(ref.env, instant_path(txn.timeline_paths, inflight))
        if savepoint.is_completed:
            remove_completed_file(txn, savepoint, ref.env.ids.uuid(), lambda: None)
    log.info("savepoint_deleted time=%s", instant)


def _find_commit(timeline: Timeline, instant: str | None) -> Instant:
    commit = timeline.commits.find(instant) if instant else timeline.latest_commit
    if commit is None:
        what = f"{instant} is not a completed commit of" if instant else "no commit is on"
        raise InputError(f"{what} the active timeline")
    return commit


def _refuse_cleaned(ref: TableRef, timeline: Timeline, time: InstantTime) -> None:
    last = load_last_clean(ref, timeline)
    if last is not None and last.floor is not None and time < last.floor:
        raise TimelineError(
            f"commit {time} cannot be kept: the last clean kept only what is needed from "
            f"{last.floor} on"
        )


def _refuse_planned(
    ref: TableRef, timeline_before: Timeline, now: Timeline, files: Iterable[str]
) -> None:
    """Fail if a clean that is pending, or was completed since, is about one of these files."""
    names_to_keep = set(files)
    completed_times = {instant.requested_time for instant in timeline_before.completed}
    for instant in now:
        if instant.action is not Action.CLEAN or instant.requested_time in completed_times:
            continue
        plan = read_plan(ref.env, ref.properties.timeline_paths, instant)
        if not isinstance(plan, CleanerPlan):
            continue
        delete_lists = (plan.file_paths_to_be_deleted_per_partition or {}).values()
        if any(file_name(info) in names_to_keep for infos in delete_lists for info in infos):
            raise TimelineError(
                f"clean {instant.requested_time} deletes files that the savepoint would need"
            )


def _list_files(
    ref: TableRef, timeline: Timeline, commit: Instant
) -> dict[PartitionPath, SavepointPartitionMetadata]:
    """The files that a reader as of this commit needs, and those of the table when it completed.

    They differ if another commit was requested before it and completed after it; a restore takes
    the table back to what was completed.
    """
    time, completion_time = commit.requested_time, commit.completion_or_requested_time
    by_partition: dict[PartitionPath, set[str]] = {}
    for view, until in (
        (timeline.as_of(time), time),
        (timeline.completed_by(completion_time), completion_time),
    ):
        visibility = view.visibility(start=timeline.oldest_active_write, until=until)
        for group in visible_groups(ref, view, visibility):
            by_partition.setdefault(group.id.partition, set()).update(_names(group))
    return {
        partition: SavepointPartitionMetadata(
            partition_path=partition, savepoint_data_file=tuple(sorted(names))
        )
        for partition, names in by_partition.items()
    }


def _names(group: FileGroup) -> list[str]:
    latest = group.latest
    base = [str(latest.base.name)] if latest.base is not None else []
    return [*base, *(str(log.name) for log in latest.logs)]


def _describe(time: InstantTime, metadata: SavepointMetadata) -> Savepoint:
    return Savepoint(
        time,
        metadata.savepointed_by,
        metadata.comments,
        metadata.savepointed_at,
        sum(len(each.savepoint_data_file) for each in metadata.partition_metadata.values()),
    )
