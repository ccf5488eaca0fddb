"""The executor side of a write: Arrow batches in, what was written out.

A task gets the rows of its buckets, one bucket as a rule, and runs the same handle that the local
engine runs. What it returns is one row per bucket; an error that trying again cannot mend is
returned rather than raised, so that Spark does not try again.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from hoodoo.errors import HoodooError, InputError
from hoodoo.format.completion import Digest
from hoodoo.format.schema import RECORD_KEY
from hoodoo.model.stats import WriteStat
from hoodoo.rows import merge
from hoodoo.rows.conform import conform
from hoodoo.rows.keys import record_keys
from hoodoo.rows.merge import Changes
from hoodoo.rows.text import refuse_invalid_text
from hoodoo.spark.columns import BUCKET, DELETED, HASH, OWN
from hoodoo.spark.worker import attempt
from hoodoo.table.base import SliceRead
from hoodoo.write.assign import Bucket
from hoodoo.write.bulk import StreamTask, write_stream
from hoodoo.write.context import WriteContext
from hoodoo.write.handle import HandleTask, run_handle

RESULTS = StructType([StructField("bucket", IntegerType()), StructField("result", BinaryType())])

_COMBINE_AT = 500_000
"""Rows that come together before those of the same key are combined: memory stays bounded."""


@dataclass(frozen=True)
class Result:
    """What a bucket's handle wrote, and how many rows it was given; or why it could not."""

    stats: tuple[WriteStat, ...] = ()
    rows: int = 0
    error: HoodooError | None = None


@dataclass(frozen=True)
class BucketPlan:
    """What every task of a write knows: the buckets of each task, and how to read their groups."""

    context: WriteContext
    buckets: Mapping[int, Sequence[tuple[Bucket, SliceRead | None]]]
    deletes: bool
    combine: bool


@dataclass
class _Arriving:
    """The rows of one bucket, as they come."""

    plan: BucketPlan
    parts: list[Changes] = field(default_factory=list)
    pending: int = 0
    digest: Digest = field(default_factory=Digest)

    def add(self, rows: pa.Table) -> None:
        self.digest += Digest.of(rows.column(HASH))
        self.parts.append(_changes(self.plan, rows))
        self.pending += rows.num_rows
        if self.plan.combine and self.pending >= _COMBINE_AT:
            self.parts, self.pending = [merge.collapse(self.parts)], 0

    def changes(self) -> Changes:
        if self.plan.combine:
            return merge.collapse(self.parts)
        return merge.concatenate(self.parts)


def write_buckets(plan: BucketPlan, batches: Iterable[Any]) -> Iterator[Any]:
    """Run the handles of this task's buckets on the rows that came."""
    task = TaskContext.get()
    assert task is not None
    arrived = attempt(lambda: _arrived(plan, batches))
    if isinstance(arrived, HoodooError):
        yield _row(-1, Result(error=arrived))
        return
    for bucket, previous in plan.buckets[task.partitionId()]:
        came = arrived.pop(bucket.index, None)
        if came is not None:
            handle = HandleTask(
                plan.context,
                bucket,
                came.changes(),
                previous,
                attempt=task.taskAttemptId(),
                digest=came.digest,
            )
            stats = attempt(partial(run_handle, handle))
            yield _row(bucket.index, _told(stats, came.digest.rows))


def write_bulk(context: WriteContext, batches: Iterable[Any]) -> Iterator[Any]:
    """Write the rows of this task to new file groups, as they come."""
    task = TaskContext.get()
    assert task is not None
    stream = StreamTask(context, task.partitionId(), attempt=task.taskAttemptId())
    counted = _Counted(batches)
    stats = attempt(lambda: write_stream(stream, counted))
    yield _row(stream.number, _told(stats, counted.rows))


class _Counted:
    """Batches as tables, their rows counted."""

    def __init__(self, batches: Iterable[Any]) -> None:
        self._batches = batches
        self.rows = 0

    def __iter__(self) -> Iterator[pa.Table]:
        for batch in self._batches:
            self.rows += batch.num_rows
            rows = pa.Table.from_batches([batch])
            refuse_invalid_text(rows)
            yield rows


def _arrived(plan: BucketPlan, batches: Iterable[Any]) -> dict[int, _Arriving]:
    arriving: dict[int, _Arriving] = {}
    for number, rows in _by_bucket(batches):
        if number not in arriving:
            arriving[number] = _Arriving(plan)
        arriving[number].add(rows)
    return arriving


def _by_bucket(batches: Iterable[Any]) -> Iterator[tuple[int, pa.Table]]:
    for batch in batches:
        if not batch.num_rows:
            continue
        rows = pa.Table.from_batches([batch])
        numbers = rows.column(BUCKET)
        for number in pc.unique(numbers).to_pylist():
            if number is None:
                raise InputError("rows that were not there when the write was planned")
            mine = pc.equal(numbers, number)
            yield number, rows if pc.all(mine).as_py() else rows.filter(mine)


def _changes(plan: BucketPlan, rows: pa.Table) -> Changes:
    context, rule = plan.context, plan.context.ref.properties.merge
    data = rows.drop_columns([name for name in rows.column_names if name in OWN])
    refuse_invalid_text(data)
    stored = context.schema.append(pa.field(RECORD_KEY, pa.string()))
    if plan.deletes:
        known = [name for name in data.column_names if name in context.schema.names]
        data = conform(data.select(known), pa.schema([context.schema.field(n) for n in known]))
        keys = record_keys(data, context.ref.properties.keys)
        has_ordering = all(name in known for name in rule.ordering_fields)
        ordering = merge.ordering_columns(data, rule) if has_ordering else ()
        return merge.deletes(keys, stored, rule, ordering)
    data = conform(data, context.schema)
    keys = record_keys(data, context.ref.properties.keys)  # cheaper than to send them along
    full = data.append_column(stored.field(RECORD_KEY), keys)
    changes = merge.upserts(full, keys, rule)
    if DELETED not in rows.column_names:
        return changes
    moved = merge.one_array(rows.column(DELETED)).to_numpy(zero_copy_only=False).astype(bool)
    return replace(changes, deleted=changes.deleted | moved, absolute=changes.absolute | moved)


def _told(stats: tuple[WriteStat, ...] | HoodooError, rows: int) -> Result:
    return Result(error=stats) if isinstance(stats, HoodooError) else Result(stats, rows)


def _row(bucket: int, result: Result) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.array([bucket], pa.int32()), pa.array([pickle.dumps(result)], pa.binary())],
        names=["bucket", "result"],
    )
