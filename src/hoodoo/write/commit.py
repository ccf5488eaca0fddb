"""Committing a write: one transaction that checks, then publishes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hoodoo.concurrency.gate import publish
from hoodoo.concurrency.transaction import transaction
from hoodoo.errors import WriteConflict
from hoodoo.model.commit import SCHEMA_KEY, CommitMetadata, ReplaceCommitMetadata
from hoodoo.model.instant import Instant, InstantTime
from hoodoo.model.stats import WriteStat, by_partition
from hoodoo.table.ref import TableRef
from hoodoo.timeline.txn import Txn
from hoodoo.write.begin import Begun
from hoodoo.write.plan import Work


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


def commit(
    ref: TableRef, work: Work, begun: Begun, stats: Sequence[WriteStat], *, schema_json: str
) -> Instant:
    """Publish a write through the gate; what it depends on is checked inside.

    Order: that of `gate.publish`.
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
            partition_to_replace_file_ids=work.replaced,
        )
    else:
        metadata = CommitMetadata(
            partition_to_write_stats=written,
            extra_metadata=extra,
            operation_type=begun.operation,
        )

    def settle() -> CommitMetadata:
        _refuse_overtaken(txn, begun)
        return metadata

    with transaction(ref, "commit") as txn:
        return publish(txn, begun.attempt, settle)


def _refuse_overtaken(txn: Txn, begun: Begun) -> None:
    """One writer at a time: whoever completed since this write was planned may have changed it."""
    known = {i.requested_time for i in begun.timeline.commits}
    for instant in txn.timeline.commits:
        if instant.requested_time not in known:
            raise WriteConflict(
                f"{instant.action.value} {instant.requested_time} completed while this write "
                f"({begun.time}) was running; nothing of it is visible: try again"
            )
