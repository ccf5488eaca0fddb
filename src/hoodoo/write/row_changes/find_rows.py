"""Rows that a change may concern: the engine looks for them slice by slice, and brings them here.

Each slice sends back what fits its share of the bytes that may come. If one has more than that, the
rows are too many to be planned here, and none come.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.errors import InputError
from hoodoo.format.schema import META_FIELDS, PARTITION_PATH, RECORD_KEY
from hoodoo.model.predicate import All, Compare, Predicate, columns_of
from hoodoo.read.base_files import SliceReadTask
from hoodoo.read.scan import apply_filter, read_unfiltered_pieces, select_slices_in, slice_reads
from hoodoo.rows.arrays import combine_pieces, one_array, to_flags
from hoodoo.rows.expressions import are_true, column_names, columns_by_name, parse_expression
from hoodoo.rows.filter import expression, to_predicate
from hoodoo.runtime.engine import Engine, is_of_spark, request_threads
from hoodoo.write.execute import PhaseTimer
from hoodoo.write.planning.assignment import WriteTarget
from hoodoo.write.planning.locate import ordering_roots
from hoodoo.write.row_changes.requests import MergeRequest, Values
from hoodoo.write.row_changes.write_changes import StoredRows

SOURCE_NAMES = ("source", "s")
_BYTES_AT_ONCE = 64 << 20


@dataclass(frozen=True)
class Condition:
    """Which rows are wanted: what leaves out files, what Arrow computes, and of which columns."""

    prune_predicate: Predicate | None = None
    arrow_expression: pc.Expression | None = None
    columns: tuple[str, ...] = ()


def read_condition(where: Any, schema: pa.Schema) -> Condition:
    """A condition that a user gave: SQL text, tuples, an Arrow expression; None is all rows."""
    if where is None:
        return Condition()
    try:
        predicate = to_predicate(where, schema)
    except InputError:
        if not isinstance(where, str):
            raise
        condition = parse_expression(where, columns_by_name(schema))
        are_true(schema.empty_table(), condition)
        columns = _add_names([], column_names(where), schema)
        return Condition(None, condition, tuple(columns))
    return to_condition(predicate, schema)


def to_condition(condition: Predicate | pc.Expression, schema: pa.Schema) -> Condition:
    """A filter of reads as a condition."""
    if isinstance(condition, pc.Expression):
        return Condition(None, condition, tuple(schema.names))
    return Condition(condition, expression(condition, schema), tuple(sorted(columns_of(condition))))


def match_values(values: pa.Table) -> Condition | None:
    """Rows that have one of these values in each of the columns; None if all have a null."""
    known_values = values.filter(are_known(values))
    if not known_values.num_rows:
        return None
    ranges: list[Predicate] = []
    equal = pc.scalar(True)
    for name in known_values.column_names:
        column = known_values.column(name)
        equal = equal & pc.field(name).isin(one_array(column).unique())
        if not pa.types.is_floating(column.type):
            bounds = pc.min_max(column).as_py()
            ranges += [Compare(name, ">=", bounds["min"]), Compare(name, "<=", bounds["max"])]
    return Condition(All(tuple(ranges)), equal, tuple(known_values.column_names))


def are_known(values: pa.Table) -> pa.Array:
    """Which rows have no null."""
    flags = np.ones(values.num_rows, bool)
    for column in values.columns:
        flags &= to_flags(pc.is_valid(column))
    return pa.array(flags)


@dataclass(frozen=True)
class StoredRowFinder:
    """Looks for rows in the slices of a table; at most so many bytes of them may come."""

    target: WriteTarget
    engine: Engine
    phases: PhaseTimer
    most_bytes: int | None = None

    def find(self, condition: Condition | None, columns: Iterable[str]) -> StoredRows | None:
        """The rows for which a condition is true, in these columns; None if they are too many.

        Without a condition there are none. Keys, and the columns of partitions and ordering, come
        in any case.
        """
        snapshot, result_columns = self.target.snapshot, {*columns, *_deciding_columns(self.target)}
        names = [name for name in snapshot.schema.names if name in result_columns]
        empty = pa.schema([snapshot.schema.field(name) for name in names]).empty_table()
        if condition is None:
            return StoredRows(empty, (), np.zeros(0, np.int64))
        selection = select_slices_in(
            snapshot, condition.prune_predicate, request_threads(self.engine)
        )
        columns_to_read = [
            name
            for name in snapshot.schema.names
            if name in result_columns.union(condition.columns)
        ]
        rule = replace(selection.rule, columns=tuple(columns_to_read))
        reads = slice_reads(snapshot, rule, selection.slices)
        share = None if self.most_bytes is None else self.most_bytes // max(len(reads), 1)
        search = partial(
            _search, computes=condition.arrow_expression, names=names, most_bytes=share
        )
        count_file = self.phases.count_files("read", len(reads))
        tables: list[pa.Table] = []
        for rows in self.engine.map(search, reads, report_count=count_file):
            if rows is None:
                return None
            tables.append(rows)
        places = np.repeat(np.arange(len(tables)), [table.num_rows for table in tables])
        return StoredRows(pa.concat_tables([empty, *tables]), selection.slices, places)

    def find_all(self, condition: Condition | None, columns: Iterable[str]) -> StoredRows:
        """The same, for those who set no limit."""
        stored_rows = self.find(condition, columns)
        assert stored_rows is not None
        return stored_rows


def _deciding_columns(target: WriteTarget) -> list[str]:
    """The columns that tell which row it is, where it is, and what it may be replaced by."""
    schema, properties = target.snapshot.schema, target.ref.properties
    fields = properties.keys.partition_fields
    roots = [f if f in schema.names else f.split(".")[0] for f in fields]
    return [RECORD_KEY, PARTITION_PATH, *roots, *ordering_roots(schema, properties.merge)]


def _search(
    read: SliceReadTask,
    *,
    computes: pc.Expression | None,
    names: Sequence[str],
    most_bytes: int | None,
) -> pa.Table | None:
    """The rows of one slice; None as soon as they are more than so many bytes."""
    rule, size = read.rule, 0
    columns = pa.schema([rule.schema.field(name) for name in rule.columns])
    row_tables = [columns.empty_table().select(names)]
    small = read_unfiltered_pieces(read, columns, whole=False)
    for pieces in combine_pieces(small, _BYTES_AT_ONCE):
        rows = (pieces if computes is None else apply_filter(pieces, computes)).select(names)
        size += rows.nbytes
        if most_bytes is not None and size > most_bytes:
            return None
        if rows.num_rows:
            row_tables.append(rows)
    return pa.concat_tables(row_tables)


def columns_to_update(values: Values, schema: pa.Schema) -> list[str]:
    """What an update reads: columns that keep their values, and those that new ones come from."""
    unchanged_columns = [
        name for name in schema.names if name not in values and name not in META_FIELDS
    ]
    return _add_names(unchanged_columns, names_in(values.values()), schema)


def columns_to_merge(merge: MergeRequest, schema: pa.Schema, source: Sequence[str]) -> list[str]:
    """What a merge reads of rows that match, in the same way."""
    columns_to_read, expressions = list(merge.on), list[Any]()
    for clause in (merge.delete, merge.update):
        if clause is not None:
            expressions += [clause.condition, *(clause.values or {}).values()]
    if merge.update is not None:
        new = source if merge.update.values is None else merge.update.values
        columns_to_read += [name for name in schema.names if name not in new]
    names = names_in(expressions)
    if names is not None:
        sides = [name.partition(".") for name in names]
        names = frozenset(name for side, _, name in sides if side.lower() not in SOURCE_NAMES)
    return _add_names(columns_to_read, names, schema)


def _add_names(columns: list[str], names: frozenset[str] | None, schema: pa.Schema) -> list[str]:
    """Columns of a schema, and those that names of expressions mean; else all."""
    if names is None:
        return list(schema.names)
    for name in names:
        root = name if name in schema.names else name.split(".")[0]
        if root not in schema.names:  # an error, which is for those to tell who compute it
            return list(schema.names)
        columns.append(root)
    return columns


def names_in(expressions: Iterable[Any]) -> frozenset[str] | None:
    """The names of columns in SQL texts; None if one is not known, or an expression is no text."""
    names: set[str] = set()
    for each in expressions:
        if isinstance(each, pc.Expression) or is_of_spark(each):
            return None
        if isinstance(each, str):
            try:
                names |= column_names(each)
            except InputError:
                return None
    return frozenset(names)
