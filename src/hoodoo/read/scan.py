"""Scanning a table: what a user asks for -> slices -> rows.

`read_slice` reads one file slice, and is what executors run. `scan` and `select_slices` choose the
slices. Rows come as a whole table, batch by batch, as the first few, or only as their number,
without all of them in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.errors import InputError
from hoodoo.format.schema import RECORD_KEY, without_meta_fields
from hoodoo.model.files import FileSlice, PartitionPredicate, Visibility, all_partitions
from hoodoo.model.predicate import Predicate
from hoodoo.read.base_files import (
    ReadRule,
    SliceReadTask,
    build_read_rule,
    matching_groups,
    open_base,
    read_base_pieces,
)
from hoodoo.read.file_listing import FileFinder
from hoodoo.read.log_files import read_merged_pieces
from hoodoo.read.snapshot import Snapshot, partition_pruner, take_snapshot
from hoodoo.rows.filter import expression, to_predicate
from hoodoo.runtime.engine import Engine, LocalEngine
from hoodoo.table.ref import TableRef

# -- reading slices -----------------------------------------------------------------------------


@dataclass(frozen=True)
class ScanSelection:
    """What a read is about: a view of the table, how to read it, and which of its slices."""

    snapshot: Snapshot
    rule: ReadRule
    slices: tuple[FileSlice, ...]

    @property
    def schema(self) -> pa.Schema:
        """The columns asked for."""
        return _empty_result(self.rule).schema

    def read(self, engine: Engine) -> pa.Table:
        """The rows."""
        return read_rows_of(self.snapshot, self.rule, engine, self.slices)


def build_scan_rule(
    snapshot: Snapshot,
    *,
    columns: Sequence[str] | None = None,
    filter: Predicate | pc.Expression | None = None,
) -> ReadRule:
    """How to read these columns of a snapshot; unknown columns are an `InputError`."""
    schema = snapshot.schema
    if columns is not None and not columns:
        raise InputError("columns names no column")
    for name in columns or ():
        if name not in schema.names:
            raise InputError(f"unknown column {name!r}; there are {schema.names}")
    names = tuple(schema.names if columns is None else columns)
    return build_read_rule(snapshot.ref.properties, schema, names, filter)


def read_rows_of(
    snapshot: Snapshot, rule: ReadRule, engine: Engine, slices: Sequence[FileSlice]
) -> pa.Table:
    """The rows of these slices, filtered, in the columns asked for."""
    tables = engine.map(read_slice, slice_reads(snapshot, rule, slices))
    return pa.concat_tables([*tables, _empty_result(rule)]) if tables else _empty_result(rule)


def slice_reads(
    snapshot: Snapshot, rule: ReadRule, slices: Sequence[FileSlice]
) -> list[SliceReadTask]:
    """Tasks to read these slices by a rule."""
    return [SliceReadTask(snapshot.ref.env, s, rule, _relevant(snapshot, s)) for s in slices]


def _relevant(snapshot: Snapshot, slice_: FileSlice) -> Visibility:
    """What a task must know of the timeline: only its own log files, if one commit wrote each."""
    if snapshot.ref.properties.has_appended_logs:
        return snapshot.visibility
    times = {log.name.instant_time for log in slice_.logs}
    return Visibility({time: time for time in times})


def read_slice(task: SliceReadTask) -> pa.Table:
    """Rows of one slice: base file merged with logs, filtered, in the columns asked for."""
    pieces = list(read_slice_pieces(task, whole=True))
    return pieces[0] if len(pieces) == 1 else pa.concat_tables([*pieces, _empty_result(task.rule)])


def read_slice_pieces(task: SliceReadTask, *, whole: bool = False) -> Iterator[pa.Table]:
    """As `read_slice`, piece by piece: a base file is not in memory as a whole."""
    rule, columns = task.rule, task.rule.columns_to_read(merging=False)
    condition = None if rule.filter is None else to_expression(rule.filter, rule.schema)
    for rows in read_unfiltered_pieces(task, columns, whole=whole):
        matches = rows if condition is None else apply_filter(rows, condition)
        if matches.num_rows:
            yield matches.select(rule.columns)


def read_unfiltered_pieces(
    task: SliceReadTask, columns: pa.Schema, *, whole: bool
) -> Iterator[pa.Table]:
    """Rows of these columns; row groups that cannot match the filter are left out, no rows are."""
    base = task.slice.base
    if task.slice.logs:
        yield from read_merged_pieces(task, columns, whole=whole)
        return
    assert base is not None
    with open_base(task.env, base) as file:
        groups = matching_groups(file, task.rule, columns)
        for _, rows in read_base_pieces(file, base, columns, groups=groups, whole=whole):
            yield rows


def to_expression(filter_: Predicate | pc.Expression, schema: pa.Schema) -> pc.Expression:
    """A filter as Arrow applies it."""
    return filter_ if isinstance(filter_, pc.Expression) else expression(filter_, schema)


def _empty_result(rule: ReadRule) -> pa.Table:
    """No rows, in the columns asked for."""
    return pa.schema([rule.schema.field(name) for name in rule.columns]).empty_table()


def apply_filter(rows: pa.Table, condition: pc.Expression) -> pa.Table:
    """The rows for which a condition is true; `InputError` if it cannot be applied."""
    try:
        return rows.filter(condition)
    except (pa.ArrowException, TypeError) as error:
        raise InputError(f"the filter cannot be applied: {error}") from None


# -- choosing slices ----------------------------------------------------------------------------


MODES = ("snapshot", "read_optimized")


def scan(
    ref: TableRef,
    engine: Engine,
    *,
    columns: Sequence[str] | None = None,
    filter: Any = None,
    as_of: str | None = None,
    mode: str = "snapshot",
) -> pa.Table:
    """The rows of a table; partitions and row groups that cannot match are not read."""
    selection = select_slices(
        ref, columns=columns, filter=filter, as_of=as_of, mode=mode, engine=engine
    )
    return selection.read(engine)


def select_slices(
    ref: TableRef,
    *,
    columns: Sequence[str] | None = None,
    filter: Any = None,
    as_of: str | None = None,
    mode: str = "snapshot",
    meta: bool = True,
    engine: Engine | None = None,
) -> ScanSelection:
    """What a user asks for, found in the table; files that cannot match are left out.

    Without `columns` that is all columns, of which meta columns only with `meta`. The metadata
    table is read on the engine, if there is one.
    """
    if mode not in MODES:
        raise InputError(f"mode is one of {', '.join(MODES)}, not {mode!r}")
    if isinstance(columns, str):
        raise InputError("columns is a list of names, not a text")

    def prune(schema: pa.Schema) -> PartitionPredicate:
        condition = None if filter is None else to_predicate(filter, schema)
        if condition is None or isinstance(condition, pc.Expression):
            return all_partitions
        return partition_pruner(condition, ref.properties.keys, schema)

    timeline = ref.load_timeline()
    index = FileFinder(ref, timeline, engine)
    snapshot = take_snapshot(ref, timeline=timeline, as_of=as_of, prune=prune, lister=index)
    slices = snapshot.slices()
    if mode == "read_optimized":
        slices = [base for slice_ in slices if (base := _without_logs(slice_))]
    condition = None if filter is None else to_predicate(filter, snapshot.schema)
    if columns is None and not meta:
        columns = without_meta_fields(snapshot.schema).names or None
    rule = build_scan_rule(snapshot, columns=columns, filter=condition)
    if condition is not None and not isinstance(condition, pc.Expression):
        slices = index.prune(slices, condition, snapshot.schema, snapshot.timeline)
    return ScanSelection(snapshot, rule, tuple(slices))


def select_slices_in(
    snapshot: Snapshot, filter: Any = None, engine: Engine | None = None
) -> ScanSelection:
    """The same in a snapshot that was taken before, for those who write what they have read."""
    ref, schema, slices = snapshot.ref, snapshot.schema, snapshot.slices()
    condition = None if filter is None else to_predicate(filter, schema)
    rule = build_scan_rule(snapshot, filter=condition)
    if condition is not None and not isinstance(condition, pc.Expression):
        keep = partition_pruner(condition, ref.properties.keys, schema)
        slices = [slice_ for slice_ in slices if keep(slice_.group.partition, whole=True)]
        index = FileFinder(ref, snapshot.timeline, engine)
        slices = index.prune(slices, condition, schema, snapshot.timeline)
    return ScanSelection(snapshot, rule, tuple(slices))


def _without_logs(slice_: FileSlice) -> FileSlice | None:
    return FileSlice(slice_.group, slice_.base_time, slice_.base) if slice_.base else None


# -- rows in batches ----------------------------------------------------------------------------


def open_batches(selection: ScanSelection) -> pa.RecordBatchReader:
    """The rows as a stream: one slice after the other, each piece by piece."""
    return pa.RecordBatchReader.from_batches(selection.schema, _batches(selection))


def first_rows(selection: ScanSelection, limit: int) -> pa.Table:
    """At most `limit` rows, in no particular order; no more is read than they need."""
    batches, rows_to_go = [], limit
    for batch in _batches(selection) if limit else ():
        batches.append(batch.slice(0, rows_to_go))
        rows_to_go -= len(batches[-1])
        if rows_to_go == 0:
            break
    return pa.Table.from_batches(batches, selection.schema)


def key_columns(ref: TableRef) -> list[str] | None:
    """The columns to read where rows are only counted: merging needs them anyway."""
    if ref.properties.populates_meta_fields:
        return [RECORD_KEY]
    return [field.split(".")[0] for field in ref.properties.keys.record_fields[:1]] or None


def count_rows(selection: ScanSelection, engine: Engine) -> int:
    """How many rows there are: footers tell, but for slices with logs and for filters."""
    tasks = slice_reads(selection.snapshot, selection.rule, selection.slices)
    return sum(engine.map(_count_slice, tasks))


def _batches(selection: ScanSelection) -> Iterator[pa.RecordBatch]:
    for task in slice_reads(selection.snapshot, selection.rule, selection.slices):
        for rows in read_slice_pieces(task):
            yield from rows.to_batches()


def _count_slice(task: SliceReadTask) -> int:
    base = task.slice.base
    if task.rule.filter is None and not task.slice.logs and base is not None:
        with open_base(task.env, base) as file:
            return int(file.metadata.num_rows)
    return sum(rows.num_rows for rows in read_slice_pieces(task))


# -- first rows and counts ----------------------------------------------------------------------


def read_first_rows(
    ref: TableRef,
    *,
    limit: int | None,
    columns: Sequence[str] | None = None,
    filter: Any = None,
    as_of: str | None = None,
    mode: str = "snapshot",
) -> pa.Table:
    """At most `limit` rows, in no particular order; None reads them all."""
    if limit is None:
        return scan(ref, LocalEngine(), columns=columns, filter=filter, as_of=as_of, mode=mode)
    selection = select_slices(ref, columns=columns, filter=filter, as_of=as_of, mode=mode)
    return first_rows(selection, limit)


def count_all_rows(ref: TableRef) -> int:
    """Rows of the latest snapshot: footers tell, except where logs must be merged first."""
    engine = LocalEngine()
    return count_rows(select_slices(ref, columns=key_columns(ref), engine=engine), engine)
