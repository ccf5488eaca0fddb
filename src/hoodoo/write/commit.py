"""Committing a write: one transaction that checks, then publishes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hoodoo.concurrency.conflict import Other, find_cancels
from hoodoo.concurrency.gate import publish
from hoodoo.concurrency.others import WRITER_KEY
from hoodoo.concurrency.rebase import rebase_schema
from hoodoo.concurrency.transaction import transaction
from hoodoo.engine.engine import Engine
from hoodoo.errors import LeaseLost, NoSuchTable, TableChanged, Unsupported
from hoodoo.format.schema import avro_from_arrow, with_meta_fields, without_meta_fields
from hoodoo.metadata.recorder import PrepareOutside, Recorder
from hoodoo.model.commit import SCHEMA_KEY, CommitMetadata, ReplaceCommitMetadata
from hoodoo.model.instant import Instant, InstantTime
from hoodoo.model.stats import WriteStat, by_partition
from hoodoo.table.ref import TableRef
from hoodoo.table.writable import reopen_for_writing
from hoodoo.write.assignment import Assignment
from hoodoo.write.batch_guard import BatchGuard
from hoodoo.write.begin import BegunWrite, check_conflicts, conflict_strategy
from hoodoo.write.index_keys import read_commit_keys
from hoodoo.write.key_guard import KeyGuard, LookOutside

_LOCKS = 3
"""How often the lock may be lost in the gate before a write gives up."""


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
    """A write that is committed; one that is skipped tells of the commit that has its batch."""

    instant: InstantTime
    completion_time: InstantTime
    stats: WriteTotals
    timings: Mapping[str, float]
    is_skipped: bool = False
    """Whether nothing was written, as the batch was committed already."""


def commit(
    ref: TableRef,
    begun: BegunWrite,
    engine: Engine,
    stats: Sequence[WriteStat],
    *,
    schema_json: str,
) -> Instant:
    """Publish a write through the gate.

    Keys that others may have inserted meanwhile are looked for outside the lock, and inside it
    only if others do not stop to come. So is what an index needs that came meanwhile. Raises
    `BatchCommitted` for a batch that is committed already.

    Order: what the metadata table needs to know of the files; that of `gate.publish`; inside it,
    properties, batch, conflicts, schema and new keys are checked, then the metadata table is
    written.
    Crash: before the head is taken nothing is visible; after it the write is committed.
    """
    assignment, mine = begun.assignment, begun.assignment.describe_result(begun.time, stats)
    # What needs no lock is done before it is taken.
    planned_schema = _planned_schema_json(ref, assignment)
    guard = KeyGuard(ref, assignment, begun.time, stats, engine)
    epoch = begun.attempt.heartbeat.body.epoch
    recorder = Recorder(
        *(ref.env, ref.config, engine, lambda: with_meta_fields(assignment.schema), stats, epoch),
        read_keys=lambda: read_commit_keys(
            *(assignment.snapshot, engine, assignment.schema, begun.time),
            *(assignment.operation, stats, assignment.replaced),
        ),
    )
    recorder.prepare(ref.properties, begun.time)
    batches = BatchGuard(ref)

    others: list[Other] = []

    def prepare_metadata() -> CommitMetadata:
        present = _refuse_changed(ref)
        batch = batches.refuse_committed(txn)  # first: who lost to its own batch has no conflict
        others[:] = check_conflicts(txn, ref, mine, planned_on=assignment.snapshot.timeline)
        schema = rebase_schema(mine, schema_json, others, planned_on=planned_schema)
        guard.refuse_collisions(others)
        metadata = _metadata(ref, begun, stats, schema, batch)
        recorder.record_commit(txn, present.properties, begun.time, metadata)
        return metadata

    locks_left = _LOCKS
    unseen: Sequence[Other] = ()
    while True:
        guard.look(unseen)
        unseen = ()
        try:
            with transaction(ref, "commit") as txn:
                return publish(
                    txn,
                    begun.attempt,
                    prepare_metadata,
                    lambda: find_cancels(conflict_strategy(ref), mine, others),
                )
        except LookOutside as search:
            unseen = search.others
        except PrepareOutside as need:
            recorder.prepare(need.properties, begun.time)
        except LeaseLost as error:  # nothing was decided: all is asked again under a new lock
            locks_left -= 1
            if error.is_taken_back or not locks_left:
                raise


def _refuse_changed(ref: TableRef) -> TableRef:
    """The table as it is now, if this write fits it still. Raises `TableChanged`."""
    try:
        return reopen_for_writing(ref)
    except (NoSuchTable, Unsupported) as error:
        raise TableChanged(f"the table was changed while it was written to: {error}") from error


def _planned_schema_json(ref: TableRef, assignment: Assignment) -> str | None:
    """The table's schema when the write was planned; None for a table that had none yet."""
    schema = without_meta_fields(assignment.snapshot.schema)
    return avro_from_arrow(schema, ref.properties.name) if schema.names else None


def _metadata(
    ref: TableRef,
    begun: BegunWrite,
    stats: Sequence[WriteStat],
    schema_json: str,
    batch: Mapping[str, str],
) -> CommitMetadata:
    write_stats = by_partition(stats)
    extra = {
        **ref.notes.metadata,
        SCHEMA_KEY: schema_json,
        WRITER_KEY: str(ref.env.ids.process()),
        **batch,
    }
    operation = begun.assignment.operation
    if begun.replaces:
        return ReplaceCommitMetadata(
            partition_to_write_stats=write_stats,
            extra_metadata=extra,
            operation_type=operation,
            partition_to_replace_file_ids=begun.assignment.replaced,
        )
    return CommitMetadata(
        partition_to_write_stats=write_stats, extra_metadata=extra, operation_type=operation
    )
