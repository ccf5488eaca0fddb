"""Beginning a write: taking an instant, and telling others what is coming."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hoodoo.concurrency.gate import Attempt
from hoodoo.concurrency.heartbeat import open_instant
from hoodoo.concurrency.transaction import transaction
from hoodoo.model.commit import CommitMetadata, OperationType
from hoodoo.model.instant import Action, InstantTime
from hoodoo.model.plan import RequestedReplaceMetadata
from hoodoo.model.stats import WriteStat, by_partition
from hoodoo.model.table import TableType
from hoodoo.table.ref import TableRef
from hoodoo.timeline import transitions
from hoodoo.timeline.timeline import Timeline

_REPLACING = frozenset(
    {
        OperationType.INSERT_OVERWRITE,
        OperationType.INSERT_OVERWRITE_TABLE,
        OperationType.DELETE_PARTITION,
    }
)


@dataclass(frozen=True)
class Begun:
    """A write that has its instant; `timeline` is what it was planned on."""

    attempt: Attempt
    operation: OperationType
    timeline: Timeline

    @property
    def time(self) -> InstantTime:
        return self.attempt.instant.requested_time

    @property
    def replaces(self) -> bool:
        return self.operation in _REPLACING


def begin(
    ref: TableRef, operation: OperationType, timeline: Timeline, profile: Sequence[WriteStat]
) -> Begun:
    """Take an instant for a write planned on `timeline`; its profile tells which groups it means.

    Order: heartbeat; requested file; inflight file with the profile.
    Crash: a heartbeat without an instant, or a pending instant without files.
    """
    action = _action(ref, operation)
    plan = _plan(operation) if action is Action.REPLACE_COMMIT else None
    metadata = CommitMetadata(
        partition_to_write_stats=by_partition(profile), operation_type=operation
    )
    with transaction(ref, "begin") as txn:
        time, heartbeat = open_instant(txn, ref, kind=operation.value.lower())
        try:
            requested = transitions.request(txn, time, action, plan)
            inflight = transitions.start(txn, requested, metadata)
        except BaseException:
            heartbeat.stop()
            raise
    return Begun(Attempt(inflight, heartbeat), operation, timeline)


def _plan(operation: OperationType) -> RequestedReplaceMetadata:
    """Apache Hudi names the operation only where it drops partitions."""
    named = operation is OperationType.DELETE_PARTITION
    return RequestedReplaceMetadata(operation_type=operation if named else None)


def _action(ref: TableRef, operation: OperationType) -> Action:
    if operation in _REPLACING:
        return Action.REPLACE_COMMIT
    if ref.properties.type is TableType.MERGE_ON_READ:
        return Action.DELTA_COMMIT
    return Action.COMMIT
