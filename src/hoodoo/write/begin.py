"""Beginning a write: taking an instant, and telling others what is coming."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

from hoodoo.concurrency.conflict import Mine, Other
from hoodoo.concurrency.early import Detection, refuse_early
from hoodoo.concurrency.gate import Attempt
from hoodoo.concurrency.heartbeat import open_instant, read_heartbeat
from hoodoo.concurrency.others import encode_replaces, refuse_conflicts
from hoodoo.concurrency.peers import find_live_writes, find_writes, load_peers
from hoodoo.concurrency.transaction import transaction
from hoodoo.config.concurrency import CONFLICT_STRATEGY, ConflictStrategy
from hoodoo.errors import NotFound
from hoodoo.index import index_of
from hoodoo.model.commit import CommitMetadata, OperationType
from hoodoo.model.file_group_write import FileGroupWrite, WriteKind
from hoodoo.model.instant import Action, InstantTime
from hoodoo.model.names import FileId
from hoodoo.model.plan import RequestedReplaceMetadata
from hoodoo.model.stats import NO_COMMIT, WriteStat, by_partition
from hoodoo.model.table import TableType
from hoodoo.table.ref import TableRef
from hoodoo.timeline import transitions
from hoodoo.timeline.timeline import Timeline
from hoodoo.timeline.txn import Txn, new_time
from hoodoo.write.assignment import Assignment

_REPLACING = frozenset(
    {
        OperationType.INSERT_OVERWRITE,
        OperationType.INSERT_OVERWRITE_TABLE,
        OperationType.DELETE_PARTITION,
    }
)


@dataclass(frozen=True)
class BegunWrite:
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


def begin(ref: TableRef, assignment: Assignment) -> BegunWrite:
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
        extra_metadata=encode_replaces(assignment.replaced),
    )
    with ExitStack() as undo:
        with transaction(ref, "begin") as txn:
            mine = assignment.describe_plan(new_time(txn))
            check_conflicts(txn, ref, mine, planned_on=assignment.snapshot.timeline)
            peers = _find_peers(txn, ref, mine)
            time, heartbeat = open_instant(txn, ref, kind=operation.value.lower())
            undo.callback(heartbeat.stop)
            requested = transitions.request(txn, time, action, plan)
            inflight = transitions.start(txn, requested, profile)
        undo.pop_all()
    return BegunWrite(Attempt(inflight, heartbeat), assignment, peers)


def _find_peers(txn: Txn, ref: TableRef, mine: Mine) -> tuple[InstantTime, ...]:
    """The writes in progress, all older than mine. Raises `EarlyConflict`.

    Needs: a Txn. Whoever begins under the lock has its profile there for the next one: of two
    writes of hoodoo's that plan to touch the same file group, the second never begins.
    """
    detection = Detection.of(ref)
    if detection is None:
        return ()
    writes = find_writes(txn.timeline)
    if not writes:
        return ()
    if detection.delay_ms:
        return tuple(sorted(find_live_writes(ref, txn.timeline, writes)))
    peers = load_peers(ref, txn.timeline, before=mine.time)
    refuse_early(ref, txn.timeline, conflict_strategy(ref), mine, (), peers)
    return tuple(peer.time for peer in peers)


def check_conflicts(
    txn: Txn,
    ref: TableRef,
    mine: Mine,
    *,
    planned_on: Timeline,
    strategy: ConflictStrategy | None = None,
) -> list[Other]:
    """What others did since the write was planned. Raises `WriteConflict` if it is in the way.

    Needs: a Txn. `strategy` is by the settings unless a plan's terms ask for another.
    """

    def owner_of(other: InstantTime) -> str | None:
        try:
            beat = read_heartbeat(ref.env, other)
        except NotFound:
            return None
        return str(beat) if beat else None

    return refuse_conflicts(txn, strategy or conflict_strategy(ref), mine, planned_on, owner_of)


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
