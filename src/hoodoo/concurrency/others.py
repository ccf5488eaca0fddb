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

from hoodoo.concurrency.conflict import (
    Kind,
    Mine,
    Other,
    Touch,
    classify_commit,
    collect_touches,
    find_conflicts,
    may_matter,
)
from hoodoo.concurrency.conflict_error import make_conflict_error
from hoodoo.config.concurrency import ConflictStrategy
from hoodoo.env import Env
from hoodoo.errors import FormatError, naming
from hoodoo.format import timeline as codec
from hoodoo.model.commit import CommitMetadata
from hoodoo.model.files import DataFile, FileGroupId, parse_data_file
from hoodoo.model.instant import Action, Instant, InstantTime, State
from hoodoo.model.names import FileId
from hoodoo.model.paths import PartitionPath, TimelinePaths
from hoodoo.model.plan import CompactionPlan, RequestedReplaceMetadata
from hoodoo.model.plan_terms import read_terms
from hoodoo.timeline.load import read_commit, read_metadata, read_plan
from hoodoo.timeline.timeline import Timeline
from hoodoo.timeline.txn import Txn

if TYPE_CHECKING:
    from hoodoo.format.lsm import ArchivedInstant

WRITER_KEY = "hoodoo.writer"
"""The key of a commit's extra metadata that says who made it, for people to read."""

REPLACES_KEY = "hoodoo.replaces"
"""The key of a workload profile's extra metadata that names the file groups to be taken out."""

PENDING_KINDS = {
    Action.COMMIT: Kind.INGESTION,
    Action.DELTA_COMMIT: Kind.INGESTION,
    Action.REPLACE_COMMIT: Kind.INGESTION,
    Action.COMPACTION: Kind.COMPACTION,
    Action.LOG_COMPACTION: Kind.LOG_COMPACTION,
    Action.CLUSTERING: Kind.CLUSTERING,
}

_PLAN_KINDS = (Kind.COMPACTION, Kind.LOG_COMPACTION, Kind.CLUSTERING)


class View(Protocol):
    """The timeline at one moment, and where to read what its instants say.

    A `Txn` is one that does not change meanwhile.
    """

    @property
    def env(self) -> Env: ...

    @property
    def paths(self) -> TimelinePaths: ...

    @property
    def timeline(self) -> Timeline: ...


@dataclass(frozen=True, slots=True)
class UnlockedView:
    """The timeline as it was when it was loaded; its instants move on."""

    env: Env
    paths: TimelinePaths
    timeline: Timeline


def refuse_conflicts(
    txn: Txn,
    strategy: ConflictStrategy,
    mine: Mine,
    planned_on: Timeline,
    owner_of: Callable[[InstantTime], str | None],
) -> list[Other]:
    """What others did since `planned_on`, if nothing of it is in the way of mine.

    Needs: a Txn. Raises `WriteConflict`. `owner_of` is asked only about instants in conflict.
    Order: reads alone, see `load_others`.
    """
    others = load_others(txn, strategy, mine, planned_on)
    conflicts = find_conflicts(strategy, mine, others)
    if conflicts:
        times = sorted({conflict.other.time for conflict in conflicts})
        owners = {time: owner for time in times if (owner := owner_of(time))}
        raise make_conflict_error(mine, conflicts, owners)
    return others


def load_others(
    txn: View, strategy: ConflictStrategy, mine: Mine, planned_on: Timeline
) -> list[Other]:
    """What others did since `planned_on`: completed ones by completion time, then pending ones.

    Needs: a Txn, so that nobody completes or archives an instant meanwhile. Who only wants to know
    early may ask without one; then an instant that moves on meanwhile is `NotFound`.
    Order: archived timeline, only if commits have left the active one; metadata of each commit
    completed since; plans of pending instants that a rule looks at.
    A table service that was planned by someone else passes `timeline.ended_until(its time)`.
    """
    history = _load_history(txn, planned_on)
    others = [*_find_undone(txn.timeline, planned_on, history)]
    known = {mine.time, *(instant.requested_time for instant in planned_on.commits)}
    done = [_describe_archived(txn, each) for each in history if each.requested_time not in known]
    for instant in txn.timeline.commits:
        if instant.requested_time not in known:
            done.append(_describe_commit(instant, read_commit(txn.env, txn.paths, instant)))
    others += sorted(done, key=lambda other: other.instant.ended_at)
    for instant in txn.timeline.pending:
        kind = PENDING_KINDS.get(instant.action)
        if kind is None or instant.requested_time == mine.time:
            continue
        if may_matter(strategy, mine, instant, kind):
            others.append(_describe_pending(txn.env, txn.paths, instant, kind))
    return others


def load_other(env: Env, where: TimelinePaths, instant: Instant) -> Other | None:
    """What an instant of the active timeline does to the table; None if it does not write data."""
    kind = PENDING_KINDS.get(instant.action)
    if instant.is_completed and instant.action.writes_data:
        return _describe_commit(instant, read_commit(env, where, instant))
    if instant.is_pending and kind is not None:
        return _describe_pending(env, where, instant, kind)
    return None


def _find_undone(
    now: Timeline, planned_on: Timeline, history: list[ArchivedInstant]
) -> Iterator[Other]:
    """Commits of the old timeline that are gone; restores pending, or completed since."""
    present = {i.requested_time for i in now.commits} | {i.requested_time for i in history}
    for instant in planned_on.commits:
        if instant.requested_time not in present:
            yield Other(instant, Kind.UNDO, "rolled back")
    known = {i.requested_time for i in planned_on.completed if i.action is Action.RESTORE}
    for instant in now:
        if instant.action is Action.RESTORE and instant.requested_time not in known:
            yield Other(instant, Kind.UNDO, "restore")


def _describe_commit(instant: Instant, metadata: CommitMetadata) -> Other:
    kind = classify_commit(instant.action, metadata)
    return Other(
        instant,
        kind,
        metadata.operation_type or "unknown operation",
        collect_touches(metadata),
        owner=metadata.extra_metadata.get(WRITER_KEY),
        schema=metadata.schema_json if kind is Kind.INGESTION else None,
        added=tuple(_list_files(metadata)),
    )


def _list_files(metadata: CommitMetadata) -> Iterator[DataFile]:
    for partition, stat in metadata.stats():
        if stat.file_name:
            file = parse_data_file(partition, stat.file_name, stat.file_size_in_bytes)
            if file is not None:
                yield file


def _describe_pending(env: Env, where: TimelinePaths, instant: Instant, kind: Kind) -> Other:
    """What a pending instant will do: a service's plan, or the workload profile of a write.

    The profile names the groups that will be updated, not how; one that is only requested has
    none yet.
    """
    read = read_metadata if kind is Kind.INGESTION else read_plan
    plan = read(env, where, instant)
    operation = kind.value
    match plan:
        case RequestedReplaceMetadata(clustering_plan=clustering) if clustering is not None:
            touches = dict.fromkeys(clustering.file_groups(), Touch.REPLACE)
        case CompactionPlan():
            touches = dict.fromkeys(plan.file_groups(), Touch.REWRITE)
        case CommitMetadata():
            touches = dict.fromkeys(plan.file_groups(), Touch.REWRITE)
            replaced = {*plan.replaced_file_groups(), *_decode_replaces(plan)}
            touches.update(dict.fromkeys(replaced, Touch.REPLACE))
            operation = plan.operation_type or operation
        case _:
            touches = {}
    is_cancellable = kind in _PLAN_KINDS and read_terms(plan).is_cancellable
    return Other(instant, kind, operation, touches, is_cancellable=is_cancellable)


def encode_replaces(replaced: Mapping[PartitionPath, tuple[FileId, ...]]) -> dict[str, str]:
    """What the workload profile of an overwrite says of the file groups that it takes out."""
    return {REPLACES_KEY: json.dumps(replaced, sort_keys=True)} if replaced else {}


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


def _load_history(txn: View, planned_on: Timeline) -> list[ArchivedInstant]:
    """Commits of the old timeline, and those completed since, that are archived now."""
    if not _may_have_archived(txn.timeline, planned_on):
        return []
    from hoodoo.timeline.history import load_history  # imports Arrow, and is rarely needed

    before = {instant.requested_time for instant in planned_on}
    here = {instant.requested_time for instant in txn.timeline.commits}
    newest = planned_on.newest_time or ""
    first = next((i.requested_time for i in planned_on if i.action.writes_data), None)
    return [
        archived
        for archived in load_history(txn.env, txn.paths, since=first)
        if archived.action.writes_data
        and archived.requested_time not in here  # archiving copies first, then deletes
        and (archived.requested_time in before or (archived.completion_time or "") > newest)
    ]


def _describe_archived(txn: View, archived: ArchivedInstant) -> Other:
    time, action = archived.requested_time, archived.action
    instant = Instant(time, action, State.COMPLETED, archived.completion_time)
    with naming(f"{txn.paths.history}, {instant}"):
        metadata = codec.decode(archived.metadata or b"", action, State.COMPLETED)
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
    saved = {instant.requested_time for instant in now if instant.action is Action.SAVEPOINT}
    return bool(now.commits.instants) and all(i.requested_time in saved for i in planned_on.commits)
