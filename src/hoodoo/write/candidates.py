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

from hoodoo.engine.engine import Engine
from hoodoo.engine.local import request_threads
from hoodoo.errors import InputError
from hoodoo.format.schema import META_FIELDS, PARTITION_PATH, RECORD_KEY
from hoodoo.model.predicate import All, Compare, Predicate, columns_of
from hoodoo.model.spark_values import is_of_spark
from hoodoo.rows.expressions import are_true, column_names, columns_by_name, parse_expression
from hoodoo.rows.filter import expression, to_predicate
from hoodoo.rows.merge import one_array, to_flags
from hoodoo.rows.pieces import combine_pieces
from hoodoo.table.read import apply_filter, read_unfiltered_pieces, slice_reads
from hoodoo.table.read_rule import SliceRead
from hoodoo.table.scan import select_in
from hoodoo.write.assignment import Target
from hoodoo.write.change_requests import Merge, Values
from hoodoo.write.changed_rows import StoredRows
from hoodoo.write.execute import Phases
from hoodoo.write.locate import ordering_roots

SOURCE_NAMES = ("source", "s")
_BYTES_AT_ONCE = 64 << 20


@dataclass(frozen=True)
class Condition:
    """Which rows are wanted: what leaves out files, what Arrow computes, and of which columns."""

    prunes: Predicate | None = None
    computes: pc.Expression | None = None
    columns: tuple[str, ...] = ()


def read_condition(where: Any, schema: pa.Schema) -> Condition:
    """A condition that a user gave: SQL text, tuples, an Arrow expression; None is all rows."""
    if where is None:
        return Condition()
    try:
        found = to_predicate(where, schema)
    except InputError:
        if not isinstance(where, str):
            raise
        computed = parse_expression(where, columns_by_name(schema))
        are_true(schema.empty_table(), computed)
        columns = _add_names([], column_names(where), schema)
        return Condition(None, computed, tuple(columns))
    return to_condition(found, schema)


def to_condition(found: Predicate | pc.Expression, schema: pa.Schema) -> Condition:
    """A filter of reads as a condition."""
    if isinstance(found, pc.Expression):
        return Condition(None, found, tuple(schema.names))
    return Condition(found, expression(found, schema), tuple(sorted(columns_of(found))))


def match_values(values: pa.Table) -> Condition | None:
    """Rows that have one of these values in each of the columns; None if all have a null."""
    known = values.filter(are_known(values))
    if not known.num_rows:
        return None
    ranges: list[Predicate] = []
    equal = pc.scalar(True)
    for name in known.column_names:
        column = known.column(name)
        equal = equal & pc.field(name).isin(one_array(column).unique())
        if not pa.types.is_floating(column.type):
            bounds = pc.min_max(column).as_py()
            ranges += [Compare(name, ">=", bounds["min"]), Compare(name, "<=", bounds["max"])]
    return Condition(All(tuple(ranges)), equal, tuple(known.column_names))


def are_known(values: pa.Table) -> pa.Array:
    """Which rows have no null."""
    flags = np.ones(values.num_rows, bool)
    for column in values.columns:
        flags &= to_flags(pc.is_valid(column))
    return pa.array(flags)


@dataclass(frozen=True)
class Finder:
    """Looks for rows in the slices of a table; at most so many bytes of them may come."""

    target: Target
    engine: Engine
    phases: Phases
    most_bytes: int | None = None

    def find(self, condition: Condition | None, columns: Iterable[str]) -> StoredRows | None:
        """The rows for which a condition is true, in these columns; None if they are too many.

        Without a condition there are none. Keys, and the columns of partitions and ordering, come
        in any case.
        """
        snapshot, wanted = self.target.snapshot, {*columns, *_deciding_columns(self.target)}
        names = [name for name in snapshot.schema.names if name in wanted]
        empty = pa.schema([snapshot.schema.field(name) for name in names]).empty_table()
        if condition is None:
            return StoredRows(empty, (), np.zeros(0, np.int64))
        selection = select_in(snapshot, condition.prunes, request_threads(self.engine))
        needed = [name for name in snapshot.schema.names if name in wanted.union(condition.columns)]
        rule = replace(selection.rule, columns=tuple(needed))
        reads = slice_reads(snapshot, rule, selection.slices)
        share = None if self.most_bytes is None else self.most_bytes // max(len(reads), 1)
        search = partial(_search, computes=condition.computes, names=names, most_bytes=share)
        done = self.phases.count_files("read", len(reads))
        tables: list[pa.Table] = []
        for found in self.engine.map(search, reads, done=done):
            if found is None:
                return None
            tables.append(found)
        places = np.repeat(np.arange(len(tables)), [table.num_rows for table in tables])
        return StoredRows(pa.concat_tables([empty, *tables]), selection.slices, places)

    def find_all(self, condition: Condition | None, columns: Iterable[str]) -> StoredRows:
        """The same, for those who set no limit."""
        stored = self.find(condition, columns)
        assert stored is not None
        return stored


def _deciding_columns(target: Target) -> list[str]:
    """The columns that tell which row it is, where it is, and what it may be replaced by."""
    schema, properties = target.snapshot.schema, target.ref.properties
    fields = properties.keys.partition_fields
    roots = [f if f in schema.names else f.split(".")[0] for f in fields]
    return [RECORD_KEY, PARTITION_PATH, *roots, *ordering_roots(schema, properties.merge)]


def _search(
    read: SliceRead,
    *,
    computes: pc.Expression | None,
    names: Sequence[str],
    most_bytes: int | None,
) -> pa.Table | None:
    """The rows of one slice; None as soon as they are more than so many bytes."""
    rule, size = read.rule, 0
    columns = pa.schema([rule.schema.field(name) for name in rule.columns])
    found = [columns.empty_table().select(names)]
    small = read_unfiltered_pieces(read, columns, whole=False)
    for pieces in combine_pieces(small, _BYTES_AT_ONCE):
        rows = (pieces if computes is None else apply_filter(pieces, computes)).select(names)
        size += rows.nbytes
        if most_bytes is not None and size > most_bytes:
            return None
        if rows.num_rows:
            found.append(rows)
    return pa.concat_tables(found)


def columns_to_update(values: Values, schema: pa.Schema) -> list[str]:
    """What an update reads: columns that keep their values, and those that new ones come from."""
    kept = [name for name in schema.names if name not in values and name not in META_FIELDS]
    return _add_names(kept, names_in(values.values()), schema)


def columns_to_merge(merge: Merge, schema: pa.Schema, source: Sequence[str]) -> list[str]:
    """What a merge reads of rows that match, in the same way."""
    needed, given = list(merge.on), list[Any]()
    for clause in (merge.delete, merge.update):
        if clause is not None:
            given += [clause.condition, *(clause.values or {}).values()]
    if merge.update is not None:
        new = source if merge.update.values is None else merge.update.values
        needed += [name for name in schema.names if name not in new]
    names = names_in(given)
    if names is not None:
        sides = [name.partition(".") for name in names]
        names = frozenset(name for side, _, name in sides if side.lower() not in SOURCE_NAMES)
    return _add_names(needed, names, schema)


def _add_names(needed: list[str], names: frozenset[str] | None, schema: pa.Schema) -> list[str]:
    """Columns of a schema, and those that names of expressions mean; else all."""
    if names is None:
        return list(schema.names)
    for name in names:
        root = name if name in schema.names else name.split(".")[0]
        if root not in schema.names:  # an error, which is for those to tell who compute it
            return list(schema.names)
        needed.append(root)
    return needed


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
