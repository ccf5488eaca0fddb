"""The executor side of a write: Arrow batches in, what was written out.

A task gets the rows of its file groups, one as a rule, and runs the same handle that the local
engine runs. What it returns is one row per file group; an error that trying again cannot mend is
returned rather than raised, so that Spark does not try again.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from hoodoo.errors import HoodooError, InputError
from hoodoo.format.markers import Digest
from hoodoo.model.commit import WriteStat
from hoodoo.read.base_files import SliceReadTask
from hoodoo.rows import arrays, merge
from hoodoo.rows.conform import conform
from hoodoo.rows.incoming import refuse_invalid_text
from hoodoo.rows.keys import record_keys
from hoodoo.rows.merge import Changes
from hoodoo.spark.schema import HOODOO_COLUMNS, IS_DELETED, WRITE
from hoodoo.spark.session.workers import return_permanent_errors
from hoodoo.write.files.bulk_insert import HASH, StreamTask, write_stream
from hoodoo.write.files.context import WriteContext
from hoodoo.write.files.handle import HandleTask, run_handle
from hoodoo.write.index.destinations import FileGroupWrite
from hoodoo.write.planning.locate import deletes_of, upserts_of

RESULTS = StructType([StructField("number", IntegerType()), StructField("result", BinaryType())])

_COMBINE_AT = 500_000
"""Rows that come together before those of the same key are combined: memory stays bounded."""


@dataclass(frozen=True)
class HandleResult:
    """What a handle wrote, and how many rows it was given; or why it could not."""

    stats: tuple[WriteStat, ...] = ()
    rows: int = 0
    error: HoodooError | None = None


@dataclass(frozen=True)
class StageTasks:
    """What every task of a write knows: the file groups of each task, and how to read them."""

    context: WriteContext
    writes: Mapping[int, Sequence[tuple[FileGroupWrite, SliceReadTask | None]]]
    deletes: bool
    combine: bool


@dataclass
class _FileGroupRows:
    """The rows of one file group, as they come."""

    stage: StageTasks
    parts: list[Changes] = field(default_factory=list)
    pending: int = 0
    digest: Digest = field(default_factory=Digest)

    def add(self, rows: pa.Table) -> None:
        self.digest += Digest.of(rows.column(HASH))
        self.parts.append(_changes(self.stage, rows))
        self.pending += rows.num_rows
        if self.stage.combine and self.pending >= _COMBINE_AT:
            self.parts, self.pending = [merge.collapse(self.parts)], 0

    def changes(self) -> Changes:
        if self.stage.combine:
            return merge.collapse(self.parts)
        return merge.concatenate(self.parts)


Report = Callable[[HoodooError], None]
"""Tells the driver of an error at the end of the task, before those of the others."""


def write_file_groups(stage: StageTasks, batches: Iterable[Any], report: Report) -> Iterator[Any]:
    """Run the handles of this task's file groups on the rows that came, until one fails."""
    task = TaskContext.get()
    assert task is not None
    rows_by_write = return_permanent_errors(lambda: _group_by_write(stage, batches))
    if isinstance(rows_by_write, HoodooError):
        report(rows_by_write)
        yield _encode_result(-1, HandleResult(error=rows_by_write))
        return
    for write, previous in stage.writes[task.partitionId()]:
        rows_of_write = rows_by_write.pop(write.index, None)
        if rows_of_write is not None:
            handle = HandleTask(
                stage.context,
                write,
                rows_of_write.changes(),
                previous,
                attempt=task.taskAttemptId(),
                digest=rows_of_write.digest,
            )
            stats = return_permanent_errors(partial(run_handle, handle))
            yield _encode_result(write.index, _build_result(stats, rows_of_write.digest.rows))
            if isinstance(stats, HoodooError):
                report(stats)
                return


def write_bulk(context: WriteContext, batches: Iterable[Any], report: Report) -> Iterator[Any]:
    """Write the rows of this task to new file groups, as they come."""
    task = TaskContext.get()
    assert task is not None
    stream = StreamTask(context, task.partitionId(), attempt=task.taskAttemptId())
    counter = _RowCounter(batches)
    stats = return_permanent_errors(lambda: write_stream(stream, counter))
    if isinstance(stats, HoodooError):
        report(stats)
    yield _encode_result(stream.number, _build_result(stats, counter.rows))


class _RowCounter:
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


def _group_by_write(stage: StageTasks, batches: Iterable[Any]) -> dict[int, _FileGroupRows]:
    arriving: dict[int, _FileGroupRows] = {}
    for number, rows in _split_by_write(batches):
        if number not in arriving:
            arriving[number] = _FileGroupRows(stage)
        arriving[number].add(rows)
    return arriving


def _split_by_write(batches: Iterable[Any]) -> Iterator[tuple[int, pa.Table]]:
    for batch in batches:
        if not batch.num_rows:
            continue
        rows = pa.Table.from_batches([batch])
        numbers = rows.column(WRITE)
        for number in pc.unique(numbers).to_pylist():
            if number is None:
                raise InputError("the rows changed after the write was planned: some rows are new")
            mine = pc.equal(numbers, number)
            yield number, rows if pc.all(mine).as_py() else rows.filter(mine)


def _changes(stage: StageTasks, rows: pa.Table) -> Changes:
    context, properties = stage.context, stage.context.ref.properties
    data = rows.drop_columns([name for name in rows.column_names if name in HOODOO_COLUMNS])
    refuse_invalid_text(data)
    schema = context.schema
    if stage.deletes:
        names = [name for name in data.column_names if name in schema.names]
        schema = pa.schema([schema.field(name) for name in names])
        data = data.select(names)
    data = conform(data, schema)
    keys = record_keys(data, properties.keys)  # cheaper than to send them along
    if stage.deletes:
        return deletes_of(data, keys, context.schema, properties.merge)
    changes = upserts_of(data, keys, properties.merge)
    if IS_DELETED not in rows.column_names:
        return changes
    is_moved = arrays.one_array(rows.column(IS_DELETED)).to_numpy(zero_copy_only=False).astype(bool)
    return replace(
        changes, is_delete=changes.is_delete | is_moved, absolute=changes.absolute | is_moved
    )


def _build_result(stats: tuple[WriteStat, ...] | HoodooError, rows: int) -> HandleResult:
    return (
        HandleResult(error=stats) if isinstance(stats, HoodooError) else HandleResult(stats, rows)
    )


def _encode_result(number: int, result: HandleResult) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.array([number], pa.int32()), pa.array([pickle.dumps(result)], pa.binary())],
        names=["number", "result"],
    )
