"""Beginning a write: it gets an instant, and announces which file groups it will change.

`begin` refuses a plan that conflicts already, and creates the heartbeat before the instant, so that
a crash leaves an instant that `recovery` finds dead. While the write runs, `detect_conflicts` looks
for conflicts with other writes, and stops the write when it finds one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from hoodoo.concurrency.conflicts.announced_files import write_group_bloom
from hoodoo.concurrency.conflicts.changes_since import encode_replaces, refuse_conflicts
from hoodoo.concurrency.conflicts.early_detection import (
    DetectionSettings,
    EarlyConflictDetector,
    TaskConflictCheck,
    make_task_check,
    refuse_early_conflicts,
    watch,
)
from hoodoo.concurrency.conflicts.rules import ConcurrentInstant, PublishingInstant
from hoodoo.concurrency.conflicts.writes_in_progress import (
    find_live_writes,
    find_pending_writes,
    load_live_writes,
)
from hoodoo.concurrency.heartbeats import read_heartbeat
from hoodoo.concurrency.transactions import instants
from hoodoo.concurrency.transactions.gate import Attempt
from hoodoo.concurrency.transactions.instants import open_instant
from hoodoo.concurrency.transactions.transaction import Txn, new_time, transaction
from hoodoo.config.concurrency import CONFLICT_STRATEGY, ConflictStrategy
from hoodoo.errors import ObjectNotFound
from hoodoo.model import paths
from hoodoo.model.commit import NO_COMMIT, CommitMetadata, OperationType, WriteStat, by_partition
from hoodoo.model.instant import Action, InstantTime
from hoodoo.model.names import FileId
from hoodoo.model.plans import RequestedReplaceMetadata
from hoodoo.model.table import TableType
from hoodoo.runtime.engine import StopSignal
from hoodoo.runtime.lost_answers import delete_surely
from hoodoo.table.ref import TableRef
from hoodoo.table.timeline import Timeline
from hoodoo.write.index import index_of
from hoodoo.write.index.destinations import FileGroupWrite, WriteKind
from hoodoo.write.planning.assignment import Assignment

# -- beginning ----------------------------------------------------------------------------------


_REPLACING = frozenset(
    {
        OperationType.INSERT_OVERWRITE,
        OperationType.INSERT_OVERWRITE_TABLE,
        OperationType.DELETE_PARTITION,
    }
)


@dataclass(frozen=True)
class StartedWrite:
    """A write that has its instant."""

    attempt: Attempt
    assignment: Assignment
    peers: tuple[InstantTime, ...] = ()
    """Older writes that were in progress when this one began."""

    @property
    def time(self) -> InstantTime:
        return self.attempt.instant.requested_time

    @property
    def replaces(self) -> bool:
        return self.assignment.operation in _REPLACING


def begin(ref: TableRef, assignment: Assignment) -> StartedWrite:
    """Take an instant for a planned write.

    A conflict that is there already is found here, before any file is written; so is one that is
    about to be, with an older write in progress. Raises `WriteConflict`, `EarlyConflict`.

    Order: conflict check; older writes in progress, if there are any; heartbeat; requested file;
    inflight file with the workload profile.
    Crash: a heartbeat without an instant, or a pending instant without files.
    """
    operation = assignment.operation
    action = _action(ref, operation)
    plan = _plan(operation) if action is Action.REPLACE_COMMIT else None
    profile = CommitMetadata(
        partition_to_write_stats=by_partition(map(_planned_stat, assignment.writes)),
        operation_type=operation,
        extra_metadata=encode_replaces(assignment.replaced_files),
    )
    with ExitStack() as undo:
        with transaction(ref, "begin") as txn:
            mine = assignment.describe_plan(new_time(txn))
            check_conflicts(txn, ref, mine, planned_on=assignment.snapshot.timeline)
            peers = _find_peers(txn, ref, mine)
            time, heartbeat = open_instant(txn, ref, kind=operation.value.lower())
            undo.callback(heartbeat.stop)
            requested_instant = instants.create_requested_file(txn, time, action, plan)
            inflight = instants.create_inflight_file(txn, requested_instant, profile)
        undo.pop_all()
    return StartedWrite(Attempt(inflight, heartbeat), assignment, peers)


def _find_peers(txn: Txn, ref: TableRef, publishing: PublishingInstant) -> tuple[InstantTime, ...]:
    """The writes in progress, all older than mine. Raises `EarlyConflict`.

    Needs: a Txn. Whoever begins under the lock has its profile there for the next one: of two
    writes of hoodoo's that plan to touch the same file group, the second never begins.
    """
    detection = DetectionSettings.of(ref)
    if detection is None:
        return ()
    writes = find_pending_writes(txn.timeline)
    if not writes:
        return ()
    if detection.delay_ms:
        return tuple(sorted(find_live_writes(ref, txn.timeline, writes)))
    peers = load_live_writes(ref, txn.timeline, before=publishing.time)
    refuse_early_conflicts(ref, txn.timeline, conflict_strategy(ref), publishing, (), peers)
    return tuple(peer.time for peer in peers)


def check_conflicts(
    txn: Txn,
    ref: TableRef,
    publishing: PublishingInstant,
    *,
    planned_on: Timeline,
    strategy: ConflictStrategy | None = None,
) -> list[ConcurrentInstant]:
    """What others did since the write was planned. Raises `WriteConflict` if it is in the way.

    Needs: a Txn. `strategy` is by the settings unless a plan's terms ask for another.
    """

    def owner_of(other: InstantTime) -> str | None:
        try:
            beat = read_heartbeat(ref.env, other)
        except ObjectNotFound:
            return None
        return str(beat) if beat else None

    return refuse_conflicts(
        txn, strategy or conflict_strategy(ref), publishing, planned_on, owner_of
    )


def conflict_strategy(ref: TableRef) -> ConflictStrategy:
    """By the settings; but a bucket is one file group, whoever makes it."""
    if index_of(ref).buckets is not None:
        return ConflictStrategy.BUCKET
    return ref.config.get(CONFLICT_STRATEGY)


def _planned_stat(write: FileGroupWrite) -> WriteStat:
    """A line of the workload profile: which group will be updated; new groups have no id yet."""
    return WriteStat(
        file_id=FileId("") if write.kind is WriteKind.CREATE else write.group.file_id,
        prev_commit=write.previous.base_time if write.previous else NO_COMMIT,
        partition_path=write.group.partition,
        num_inserts=write.inserts,
        num_update_writes=write.updates,
    )


def _plan(operation: OperationType) -> RequestedReplaceMetadata:
    """Apache Hudi names the operation only where it drops partitions."""
    is_drop = operation is OperationType.DELETE_PARTITION
    return RequestedReplaceMetadata(operation_type=operation if is_drop else None)


def _action(ref: TableRef, operation: OperationType) -> Action:
    if operation in _REPLACING:
        return Action.REPLACE_COMMIT
    if ref.properties.type is TableType.MERGE_ON_READ:
        return Action.DELTA_COMMIT
    return Action.COMMIT


# -- early conflict detection -------------------------------------------------------------------


@contextmanager
def detect_conflicts(
    ref: TableRef, started_write: StartedWrite, stop: StopSignal
) -> Iterator[TaskConflictCheck | None]:
    """Look for conflicts while the block runs; gives what tasks have to look for themselves.

    The first look is part of the begin, as far as profiles tell; what markers tell beside them is
    looked at here, if there are older writes at all. Raises `EarlyConflict`.
    Order: bloom, if the strategy has them; first look; then one each period.
    """
    detection = DetectionSettings.of(ref)
    if detection is None:
        yield None
        return
    strategy, mine = (
        conflict_strategy(ref),
        started_write.assignment.describe_plan(started_write.time),
    )
    if detection.strategy.uses_blooms:
        write_group_bloom(ref.env, started_write.time, mine.group_effects)
    detector = EarlyConflictDetector(
        ref, mine, strategy, detection, planned_on=started_write.assignment.snapshot.timeline
    )
    if started_write.peers and not detection.delay_ms:
        detector.look()
    with watch(ref, detector, detection, stop):
        yield make_task_check(ref, mine, strategy, detection, started_write.peers)
    stop.check()  # a conflict that was found when the last task had just ended


def delete_bloom(ref: TableRef, started_write: StartedWrite) -> None:
    """Remove the filter of a write that has ended."""
    detection = DetectionSettings.of(ref)
    if detection is not None and detection.strategy.uses_blooms:
        delete_surely(ref.env, paths.group_bloom(started_write.time))
