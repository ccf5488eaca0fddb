"""What others did since an instant was planned: the facts for the rules in `conflict`.

Completed since = completed now and not in the timeline that the plan was made on: a difference of
two sets of requested times, so that no clock is compared with another. An instant may be completed
*and* archived meanwhile; then the archived timeline tells what it did. A commit of that old
timeline that is neither completed nor archived now was taken back.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from hoodoo.concurrency.conflicts.rules import (
    ConcurrentInstant,
    GroupEffect,
    InstantKind,
    PublishingInstant,
    classify_commit,
    collect_group_effects,
    could_conflict,
    find_conflicts,
    make_conflict_error,
)
from hoodoo.config.concurrency import ConflictStrategy
from hoodoo.errors import FormatError, add_error_source
from hoodoo.format.timeline import instant_files as codec
from hoodoo.model.commit import WRITER_KEY, CommitMetadata
from hoodoo.model.files import DataFile, FileGroupId, parse_data_file
from hoodoo.model.instant import Action, Instant, InstantTime, State
from hoodoo.model.names import FileId
from hoodoo.model.paths import PartitionPath, TimelinePaths
from hoodoo.model.plans import CompactionPlan, RequestedReplaceMetadata, read_terms
from hoodoo.runtime.env import Env
from hoodoo.table.timeline import Timeline, read_commit, read_metadata, read_plan

if TYPE_CHECKING:
    from hoodoo.format.timeline.history import ArchivedInstant


REPLACES_KEY = "hoodoo.replaces"
"""The key of a workload profile's extra metadata that names the file groups to be taken out."""

PENDING_KINDS = {
    Action.COMMIT: InstantKind.INGESTION,
    Action.DELTA_COMMIT: InstantKind.INGESTION,
    Action.REPLACE_COMMIT: InstantKind.INGESTION,
    Action.COMPACTION: InstantKind.COMPACTION,
    Action.LOG_COMPACTION: InstantKind.LOG_COMPACTION,
    Action.CLUSTERING: InstantKind.CLUSTERING,
}

_PLAN_KINDS = (InstantKind.COMPACTION, InstantKind.LOG_COMPACTION, InstantKind.CLUSTERING)


class TimelineView(Protocol):
    """The timeline at one moment, and where to read what its instants say.

    A `Txn` is one that does not change meanwhile.
    """

    @property
    def env(self) -> Env: ...

    @property
    def timeline_paths(self) -> TimelinePaths: ...

    @property
    def timeline(self) -> Timeline: ...


@dataclass(frozen=True, slots=True)
class UnlockedTimelineView:
    """The timeline as it was when it was loaded; its instants move on."""

    env: Env
    timeline_paths: TimelinePaths
    timeline: Timeline


def refuse_conflicts(
    txn: TimelineView,
    strategy: ConflictStrategy,
    publishing: PublishingInstant,
    planned_on: Timeline,
    owner_of: Callable[[InstantTime], str | None],
) -> list[ConcurrentInstant]:
    """What others did since `planned_on`, if nothing of it is in the way of mine.

    Needs: a Txn. Raises `WriteConflict`. `owner_of` is asked only about instants in conflict.
    Order: reads alone, see `load_concurrent_instants`.
    """
    concurrent_instants = load_concurrent_instants(txn, strategy, publishing, planned_on)
    conflicts = find_conflicts(strategy, publishing, concurrent_instants)
    if conflicts:
        times = sorted({conflict.concurrent.time for conflict in conflicts})
        owners = {time: owner for time in times if (owner := owner_of(time))}
        raise make_conflict_error(publishing, conflicts, owners)
    return concurrent_instants


def load_concurrent_instants(
    txn: TimelineView,
    strategy: ConflictStrategy,
    publishing: PublishingInstant,
    planned_on: Timeline,
) -> list[ConcurrentInstant]:
    """What others did since `planned_on`: completed ones by completion time, then pending ones.

    Needs: a Txn, so that nobody completes or archives an instant meanwhile. Who only wants to know
    early may ask without one; then an instant that moves on meanwhile is `ObjectNotFound`.
    Order: archived timeline, only if commits have left the active one; metadata of each commit
    completed since; plans of pending instants that a rule looks at.
    A table service that was planned by someone else passes `timeline.ended_until(its time)`.
    """
    history = _load_history(txn, planned_on)
    concurrent_instants = [*_find_undone(txn.timeline, planned_on, history)]
    times_planned_on = {
        publishing.time,
        *(instant.requested_time for instant in planned_on.commits),
    }
    completed_instants = [
        _describe_archived(txn, each)
        for each in history
        if each.requested_time not in times_planned_on
    ]
    for instant in txn.timeline.commits:
        if instant.requested_time not in times_planned_on:
            completed_instants.append(
                _describe_commit(instant, read_commit(txn.env, txn.timeline_paths, instant))
            )
    concurrent_instants += sorted(
        completed_instants, key=lambda concurrent: concurrent.instant.completion_or_requested_time
    )
    for instant in txn.timeline.pending:
        kind = PENDING_KINDS.get(instant.action)
        if kind is None or instant.requested_time == publishing.time:
            continue
        if could_conflict(strategy, publishing, instant, kind):
            concurrent_instants.append(
                _describe_pending(txn.env, txn.timeline_paths, instant, kind)
            )
    return concurrent_instants


def load_concurrent_instant(
    env: Env, timeline_paths: TimelinePaths, instant: Instant
) -> ConcurrentInstant | None:
    """What an instant of the active timeline does to the table; None if it does not write data."""
    kind = PENDING_KINDS.get(instant.action)
    if instant.is_completed and instant.action.writes_data:
        return _describe_commit(instant, read_commit(env, timeline_paths, instant))
    if instant.is_pending and kind is not None:
        return _describe_pending(env, timeline_paths, instant, kind)
    return None


def _find_undone(
    now: Timeline, planned_on: Timeline, history: list[ArchivedInstant]
) -> Iterator[ConcurrentInstant]:
    """Commits of the old timeline that are gone; restores pending, or completed since."""
    present = {i.requested_time for i in now.commits} | {i.requested_time for i in history}
    for instant in planned_on.commits:
        if instant.requested_time not in present:
            yield ConcurrentInstant(instant, InstantKind.UNDO, "rolled back")
    restores_planned_on = {
        i.requested_time for i in planned_on.completed if i.action is Action.RESTORE
    }
    for instant in now:
        if instant.action is Action.RESTORE and instant.requested_time not in restores_planned_on:
            yield ConcurrentInstant(instant, InstantKind.UNDO, "restore")


def _describe_commit(instant: Instant, metadata: CommitMetadata) -> ConcurrentInstant:
    kind = classify_commit(instant.action, metadata)
    return ConcurrentInstant(
        instant,
        kind,
        metadata.operation_type or "unknown operation",
        collect_group_effects(metadata),
        owner=metadata.extra_metadata.get(WRITER_KEY),
        schema=metadata.schema_json if kind is InstantKind.INGESTION else None,
        data_files=tuple(_list_files(metadata)),
    )


def _list_files(metadata: CommitMetadata) -> Iterator[DataFile]:
    for partition, stat in metadata.stats():
        if stat.file_name:
            file = parse_data_file(partition, stat.file_name, stat.file_size_in_bytes)
            if file is not None:
                yield file


def _describe_pending(
    env: Env, timeline_paths: TimelinePaths, instant: Instant, kind: InstantKind
) -> ConcurrentInstant:
    """What a pending instant will do: a service's plan, or the workload profile of a write.

    The profile names the groups that will be updated, not how; one that is only requested has
    none yet.
    """
    read = read_metadata if kind is InstantKind.INGESTION else read_plan
    plan = read(env, timeline_paths, instant)
    operation = kind.value
    match plan:
        case RequestedReplaceMetadata(clustering_plan=clustering) if clustering is not None:
            touches = dict.fromkeys(clustering.file_groups(), GroupEffect.REPLACE)
        case CompactionPlan():
            touches = dict.fromkeys(plan.file_groups(), GroupEffect.REWRITE)
        case CommitMetadata():
            touches = dict.fromkeys(plan.file_groups(), GroupEffect.REWRITE)
            replaced_groups = {*plan.replaced_file_groups(), *_decode_replaces(plan)}
            touches.update(dict.fromkeys(replaced_groups, GroupEffect.REPLACE))
            operation = plan.operation_type or operation
        case _:
            touches = {}
    is_cancellable = kind in _PLAN_KINDS and read_terms(plan).is_cancellable
    return ConcurrentInstant(instant, kind, operation, touches, is_cancellable=is_cancellable)


def encode_replaces(replaced_files: Mapping[PartitionPath, tuple[FileId, ...]]) -> dict[str, str]:
    """What the workload profile of an overwrite says of the file groups that it takes out."""
    return {REPLACES_KEY: json.dumps(replaced_files, sort_keys=True)} if replaced_files else {}


def _decode_replaces(profile: CommitMetadata) -> Iterator[FileGroupId]:
    text = profile.extra_metadata.get(REPLACES_KEY)
    if text is None:
        return
    try:
        for partition, file_ids in json.loads(text).items():
            yield from (FileGroupId(PartitionPath(partition), FileId(each)) for each in file_ids)
    except (ValueError, AttributeError, TypeError):
        raise FormatError(f"{REPLACES_KEY} in its extra metadata names no file groups") from None


# -- the archived timeline ----------------------------------------------------------------------


def _load_history(txn: TimelineView, planned_on: Timeline) -> list[ArchivedInstant]:
    """Commits of the old timeline, and those completed since, that are archived now."""
    if not _may_have_archived(txn.timeline, planned_on):
        return []
    from hoodoo.table.history import load_history  # imports Arrow, and is rarely needed

    before = {instant.requested_time for instant in planned_on}
    here = {instant.requested_time for instant in txn.timeline.commits}
    newest = planned_on.newest_time or ""
    first = next((i.requested_time for i in planned_on if i.action.writes_data), None)
    return [
        past_instant
        for past_instant in load_history(txn.env, txn.timeline_paths, since=first)
        if past_instant.action.writes_data
        and past_instant.requested_time not in here  # archiving copies first, then deletes
        and (past_instant.requested_time in before or (past_instant.completion_time or "") > newest)
    ]


def _describe_archived(txn: TimelineView, past_instant: ArchivedInstant) -> ConcurrentInstant:
    time, action = past_instant.requested_time, past_instant.action
    instant = Instant(time, action, State.COMPLETED, past_instant.completion_time)
    with add_error_source(f"{txn.timeline_paths.history}, {instant}"):
        metadata = codec.decode(past_instant.metadata or b"", action, State.COMPLETED)
        if not isinstance(metadata, CommitMetadata):
            raise FormatError("no commit metadata in it")
    return _describe_commit(instant, metadata)


def _may_have_archived(now: Timeline, planned_on: Timeline) -> bool:
    """Whether commits may have left the active timeline since the plan was made.

    Archiving goes by requested time, and passes over savepoints at most. So as long as each
    write of the old timeline is still there, and one of them is a commit without a savepoint,
    nothing newer can be gone.
    """
    present = {instant.requested_time for instant in now if instant.action.writes_data}
    if any(i.action.writes_data and i.requested_time not in present for i in planned_on):
        return True
    savepoint_times = {
        instant.requested_time for instant in now if instant.action is Action.SAVEPOINT
    }
    return bool(now.commits.instants) and all(
        i.requested_time in savepoint_times for i in planned_on.commits
    )
