"""Committing a write: one transaction that checks, then publishes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hoodoo.concurrency.transaction import transaction
from hoodoo.errors import WriteConflict
from hoodoo.model.commit import SCHEMA_KEY, CommitMetadata, ReplaceCommitMetadata
from hoodoo.model.instant import Instant, InstantTime
from hoodoo.model.names import FileId
from hoodoo.model.paths import PartitionPath
from hoodoo.model.stats import WriteStat
from hoodoo.table.ref import TableRef
from hoodoo.timeline import transitions
from hoodoo.timeline.txn import Txn
from hoodoo.write.begin import Begun

Replaced = Mapping[PartitionPath, tuple[FileId, ...]]


@dataclass(frozen=True, slots=True)
class WriteTotals:
    """What a write did, in numbers."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    files: int = 0
    bytes: int = 0

    @classmethod
    def of(cls, stats: Sequence[WriteStat]) -> WriteTotals:
        return cls(
            inserted=sum(stat.num_inserts for stat in stats),
            updated=sum(stat.num_update_writes for stat in stats),
            deleted=sum(stat.num_deletes for stat in stats),
            files=len(stats),
            bytes=sum(stat.total_write_bytes for stat in stats),
        )


@dataclass(frozen=True, slots=True)
class CommitResult:
    """A write that is committed."""

    instant: InstantTime
    completion_time: InstantTime
    stats: WriteTotals
    timings: Mapping[str, float]


def start(ref: TableRef, begun: Begun, profile: Sequence[WriteStat]) -> Instant:
    """Requested -> inflight, with the workload profile, so that others see what is coming.

    Order: inflight file.
    Crash: an inflight instant without files.
    """
    metadata = CommitMetadata(
        partition_to_write_stats=by_partition(profile), operation_type=begun.operation
    )
    with transaction(ref.env, ref.properties.timeline) as txn:
        return transitions.start(txn, begun.instant, metadata)


def commit(
    ref: TableRef,
    begun: Begun,
    inflight: Instant,
    stats: Sequence[WriteStat],
    *,
    schema_json: str,
    replaced: Replaced | None = None,
) -> Instant:
    """Publish a write.

    Order: fresh timeline; conflict check; completed file.
    Crash: before the completed file nothing is visible; after it the write is committed.
    """
    written = by_partition(stats)
    extra = {SCHEMA_KEY: schema_json}
    metadata: CommitMetadata
    if begun.replaces:
        metadata = ReplaceCommitMetadata(
            partition_to_write_stats=written,
            extra_metadata=extra,
            operation_type=begun.operation,
            partition_to_replace_file_ids=replaced or {},
        )
    else:
        metadata = CommitMetadata(
            partition_to_write_stats=written,
            extra_metadata=extra,
            operation_type=begun.operation,
        )
    with transaction(ref.env, ref.properties.timeline) as txn:
        _refuse_overtaken(txn, begun)
        return transitions.complete(txn, inflight, metadata)


def _refuse_overtaken(txn: Txn, begun: Begun) -> None:
    """One writer at a time: whoever completed since this write was planned may have changed it."""
    known = {i.requested_time for i in begun.timeline.commits}
    for instant in txn.timeline.commits:
        if instant.requested_time not in known:
            raise WriteConflict(
                f"{instant.action.value} {instant.requested_time} completed while this write "
                f"({begun.instant.requested_time}) was running; nothing of it is visible: try again"
            )


def by_partition(
    stats: Sequence[WriteStat],
) -> dict[PartitionPath, tuple[WriteStat, ...]]:
    """Stats as commit metadata groups them."""
    grouped: dict[PartitionPath, list[WriteStat]] = {}
    for stat in stats:
        assert stat.partition_path is not None
        grouped.setdefault(stat.partition_path, []).append(stat)
    return {partition: tuple(found) for partition, found in grouped.items()}
