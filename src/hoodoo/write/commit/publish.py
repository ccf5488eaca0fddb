"""Committing a write: one transaction that checks, then publishes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hoodoo.concurrency.conflicts.rules import ConcurrentInstant, find_plans_to_cancel
from hoodoo.concurrency.conflicts.schema_rebase import rebase_schema
from hoodoo.concurrency.transactions.gate import publish
from hoodoo.concurrency.transactions.transaction import transaction
from hoodoo.errors import LockLost, NoSuchTable, TableChanged, UnsupportedFeature
from hoodoo.format.schema import avro_from_arrow, with_meta_fields, without_meta_fields
from hoodoo.metadata_table.recorder import MetadataTableRecorder, PrepareOutsideLock
from hoodoo.model.commit import (
    SCHEMA_KEY,
    WRITER_KEY,
    CommitMetadata,
    ReplaceCommitMetadata,
    WriteStat,
    by_partition,
)
from hoodoo.model.instant import Instant, InstantTime
from hoodoo.runtime.engine import Engine
from hoodoo.table.ref import TableRef
from hoodoo.table.writable import reopen_for_writing
from hoodoo.write.commit.batches import BatchGuard
from hoodoo.write.commit.begin import StartedWrite, check_conflicts, conflict_strategy
from hoodoo.write.commit.key_guard import KeyGuard, SearchOutsideLock
from hoodoo.write.commit.record_index_changes import read_commit_keys
from hoodoo.write.planning.assignment import Assignment

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
    started_write: StartedWrite,
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
    assignment, mine = (
        started_write.assignment,
        started_write.assignment.describe_result(started_write.time, stats),
    )
    # What needs no lock is done before it is taken.
    planned_schema = _planned_schema_json(ref, assignment)
    guard = KeyGuard(ref, assignment, started_write.time, stats, engine)
    recorder = _make_recorder(ref, started_write, stats, engine)
    recorder.prepare(ref.properties, started_write.time)
    batches = BatchGuard(ref)

    others: list[ConcurrentInstant] = []

    def prepare_metadata() -> CommitMetadata:
        present = _refuse_changed(ref)
        batch = batches.refuse_committed(txn)  # first: who lost to its own batch has no conflict
        others[:] = check_conflicts(txn, ref, mine, planned_on=assignment.snapshot.timeline)
        schema = rebase_schema(mine, schema_json, others, planned_on=planned_schema)
        guard.refuse_collisions(others)
        metadata = _metadata(ref, started_write, stats, schema, batch)
        recorder.record_commit(txn, present.properties, started_write.time, metadata)
        return metadata

    locks_left = _LOCKS
    unseen: Sequence[ConcurrentInstant] = ()
    while True:
        guard.search_keys(unseen)
        unseen = ()
        try:
            with transaction(ref, "commit") as txn:
                return publish(
                    txn,
                    started_write.attempt,
                    prepare_metadata,
                    lambda: find_plans_to_cancel(conflict_strategy(ref), mine, others),
                )
        except SearchOutsideLock as search:
            unseen = search.others
        except PrepareOutsideLock as need:
            recorder.prepare(need.properties, started_write.time)
        except LockLost as error:  # nothing was decided: all is asked again under a new lock
            locks_left -= 1
            if error.was_withdrawn or not locks_left:
                raise


def _make_recorder(
    ref: TableRef, started_write: StartedWrite, stats: Sequence[WriteStat], engine: Engine
) -> MetadataTableRecorder:
    assignment = started_write.assignment
    return MetadataTableRecorder(
        env=ref.env,
        config=ref.config,
        engine=engine,
        schema=lambda: with_meta_fields(assignment.schema),
        stats=stats,
        epoch=started_write.attempt.heartbeat.body.epoch,
        read_keys=lambda: read_commit_keys(
            snapshot=assignment.snapshot,
            engine=engine,
            schema=assignment.schema,
            time=started_write.time,
            operation=assignment.operation,
            stats=stats,
            replaced_files=assignment.replaced_files,
        ),
    )


def _refuse_changed(ref: TableRef) -> TableRef:
    """The table as it is now, if this write fits it still. Raises `TableChanged`."""
    try:
        return reopen_for_writing(ref)
    except (NoSuchTable, UnsupportedFeature) as error:
        raise TableChanged(f"the table was changed while it was written to: {error}") from error


def _planned_schema_json(ref: TableRef, assignment: Assignment) -> str | None:
    """The table's schema when the write was planned; None for a table that had none yet."""
    schema = without_meta_fields(assignment.snapshot.schema)
    return avro_from_arrow(schema, ref.properties.name) if schema.names else None


def _metadata(
    ref: TableRef,
    started_write: StartedWrite,
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
    operation = started_write.assignment.operation
    if started_write.replaces:
        return ReplaceCommitMetadata(
            partition_to_write_stats=write_stats,
            extra_metadata=extra,
            operation_type=operation,
            partition_to_replace_file_ids=started_write.assignment.replaced_files,
        )
    return CommitMetadata(
        partition_to_write_stats=write_stats, extra_metadata=extra, operation_type=operation
    )
