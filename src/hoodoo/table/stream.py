"""Rows without all of them in memory: batch by batch, the first few, or only their number."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from hoodoo.engine.engine import Engine
from hoodoo.format.schema import RECORD_KEY
from hoodoo.table.read import Selection, read_slice_pieces, slice_reads
from hoodoo.table.read_rule import SliceRead, open_base
from hoodoo.table.ref import TableRef


def open_batches(selection: Selection) -> pa.RecordBatchReader:
    """The rows as a stream: one slice after the other, each piece by piece."""
    return pa.RecordBatchReader.from_batches(selection.schema, _batches(selection))


def first_rows(selection: Selection, limit: int) -> pa.Table:
    """At most `limit` rows, in no particular order; no more is read than they need."""
    batches, left = [], limit
    for batch in _batches(selection) if limit else ():
        batches.append(batch.slice(0, left))
        left -= len(batches[-1])
        if left == 0:
            break
    return pa.Table.from_batches(batches, selection.schema)


def key_columns(ref: TableRef) -> list[str] | None:
    """The columns to read where rows are only counted: merging needs them anyway."""
    if ref.properties.populates_meta_fields:
        return [RECORD_KEY]
    return [field.split(".")[0] for field in ref.properties.keys.record_fields[:1]] or None


def count_rows(selection: Selection, engine: Engine) -> int:
    """How many rows there are: footers tell, but for slices with logs and for filters."""
    tasks = slice_reads(selection.snapshot, selection.rule, selection.slices)
    return sum(engine.map(_count_slice, tasks))


def _batches(selection: Selection) -> Iterator[pa.RecordBatch]:
    for task in slice_reads(selection.snapshot, selection.rule, selection.slices):
        for rows in read_slice_pieces(task):
            yield from rows.to_batches()


def _count_slice(task: SliceRead) -> int:
    base = task.slice.base
    if task.rule.filter is None and not task.slice.logs and base is not None:
        with open_base(task.env, base) as file:
            return int(file.metadata.num_rows)
    return sum(rows.num_rows for rows in read_slice_pieces(task))
