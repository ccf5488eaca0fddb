"""Reading rows: one file slice at a time, anywhere; `read_slice` is what executors run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.engine.engine import Engine
from hoodoo.errors import InputError
from hoodoo.model.files import FileSlice
from hoodoo.model.predicate import Predicate
from hoodoo.model.slices import Visibility
from hoodoo.rows.filter import expression
from hoodoo.table.merged import read_merged_pieces
from hoodoo.table.read_rule import (
    ReadRule,
    SliceRead,
    build_read_rule,
    matching_groups,
    open_base,
    read_base_pieces,
)
from hoodoo.table.snapshot import Snapshot


@dataclass(frozen=True)
class Selection:
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


def read_rule(
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


def slice_reads(snapshot: Snapshot, rule: ReadRule, slices: Sequence[FileSlice]) -> list[SliceRead]:
    """Tasks to read these slices by a rule."""
    return [SliceRead(snapshot.ref.env, s, rule, _relevant(snapshot, s)) for s in slices]


def _relevant(snapshot: Snapshot, slice_: FileSlice) -> Visibility:
    """What a task must know of the timeline: only its own log files, if one commit wrote each."""
    if snapshot.ref.properties.has_appended_logs:
        return snapshot.visibility
    times = {log.name.instant_time for log in slice_.logs}
    return Visibility({time: time for time in times})


def read_slice(task: SliceRead) -> pa.Table:
    """Rows of one slice: base file merged with logs, filtered, in the columns asked for."""
    pieces = list(read_slice_pieces(task, whole=True))
    return pieces[0] if len(pieces) == 1 else pa.concat_tables([*pieces, _empty_result(task.rule)])


def read_slice_pieces(task: SliceRead, *, whole: bool = False) -> Iterator[pa.Table]:
    """As `read_slice`, piece by piece: a base file is not in memory as a whole."""
    rule, columns = task.rule, task.rule.columns_to_read(merging=False)
    condition = None if rule.filter is None else to_expression(rule.filter, rule.schema)
    for rows in read_unfiltered_pieces(task, columns, whole=whole):
        matches = rows if condition is None else apply_filter(rows, condition)
        if matches.num_rows:
            yield matches.select(rule.columns)


def read_unfiltered_pieces(
    task: SliceRead, columns: pa.Schema, *, whole: bool
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
