"""Delete, update and merge on Arrow tables: read what matches, compute, and write it as one commit.

    snapshot -> rows that match -> changed rows -> plan on the same snapshot -> commit

Nothing matches: nothing is committed. A retry after a conflict reads again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.engine.engine import Engine
from hoodoo.errors import InputError
from hoodoo.format.schema import META_FIELDS
from hoodoo.index.matches import Positions
from hoodoo.model.predicate import All, Compare, Predicate
from hoodoo.rows.conform import conform
from hoodoo.rows.expressions import (
    Resolve,
    are_true,
    cast_values,
    column_of,
    columns_by_name,
    evaluate,
    parse_expression,
    repeat_value,
)
from hoodoo.rows.filter import to_predicate
from hoodoo.rows.merge import one_array, to_flags
from hoodoo.table.read import Selection, read_rule, read_slice, slice_reads
from hoodoo.table.ref import TableRef
from hoodoo.table.scan import select_in
from hoodoo.write.assignment import Target
from hoodoo.write.change_requests import (
    Change,
    Clause,
    DeleteWhere,
    Merge,
    UpdateWhere,
    Values,
    adds_new_keys,
    ambiguous,
    check_columns,
    check_on,
    check_update,
)
from hoodoo.write.changed_rows import ChangedRows, StoredRows, write_changed
from hoodoo.write.commit import CommitResult
from hoodoo.write.execute import Phases
from hoodoo.write.prepare import check_table

SOURCE, TARGET = "source.", "target."
_SIDES = {"source": SOURCE, "s": SOURCE, "target": TARGET, "t": TARGET}
_NONE: Positions = np.zeros(0, np.int64)


def change(ref: TableRef, request: Change, engine: Engine) -> CommitResult | None:
    """Carry a change out; None if there is nothing to change.

    Needs: `ref` was reopened for this write (`write.retry`).
    """
    phases = Phases(ref.env)
    with phases.timed("read"):
        target = Target.load(ref)
        match request:
            case DeleteWhere():
                changed = _delete(target, request, engine)
            case UpdateWhere():
                changed = _update(target, request, engine)
            case Merge():
                changed = _merge(target, request, engine)
    return None if changed.is_nothing else write_changed(target, changed, engine, phases)


def filter_of(where: Any, schema: pa.Schema) -> Any:
    """A condition as reads take it: one that prunes files if it can be, else an expression."""
    if not isinstance(where, str):
        return where
    try:
        to_predicate(where, schema)
    except InputError:
        condition = parse_expression(where, columns_by_name(schema))
        are_true(schema.empty_table(), condition)
        return condition
    return where


def _delete(target: Target, request: DeleteWhere, engine: Engine) -> ChangedRows:
    schema = target.snapshot.schema
    selection = select_in(target.snapshot, filter_of(request.where, schema), engine)
    stored, nothing = _read(selection, engine), target.schema.empty_table()
    return ChangedRows(stored, np.ones(stored.rows.num_rows, bool), nothing, nothing)


def _update(target: Target, request: UpdateWhere, engine: Engine) -> ChangedRows:
    schema = target.snapshot.schema
    check_update(request.values, schema, target.ref.properties.keys)
    resolve = columns_by_name(schema)
    _compute(schema.empty_table(), request.values, target.schema, resolve)  # errors before reads
    selection = select_in(target.snapshot, filter_of(request.where, schema), engine)
    stored = _read(selection, engine)
    columns = _compute(stored.rows, request.values, target.schema, resolve)
    updated = _replace(stored.rows, columns, target.schema)
    nothing = target.schema.empty_table()
    return ChangedRows(stored, np.zeros(stored.rows.num_rows, bool), updated, nothing)


def _read(selection: Selection, engine: Engine) -> StoredRows:
    """The rows, and the slice of each."""
    reads = slice_reads(selection.snapshot, selection.rule, selection.slices)
    tables = list(engine.map(read_slice, reads))
    places = np.repeat(np.arange(len(tables)), [table.num_rows for table in tables])
    rows = pa.concat_tables([selection.schema.empty_table(), *tables])
    return StoredRows(rows, selection.slices, places)


def _compute(
    rows: pa.Table, values: Values, schema: pa.Schema, resolve: Resolve
) -> dict[str, pa.ChunkedArray]:
    """New values of columns, in the types of the table."""
    expressions = {
        name: parse_expression(value, resolve) if isinstance(value, str) else value
        for name, value in values.items()
        if isinstance(value, str | pc.Expression)
    }
    computed = evaluate(rows, expressions)
    return {
        name: cast_values(computed.column(name), schema.field(name))
        if name in expressions
        else repeat_value(value, schema.field(name), rows.num_rows)
        for name, value in values.items()
    }


def _replace(rows: pa.Table, columns: Mapping[str, pa.ChunkedArray], schema: pa.Schema) -> pa.Table:
    """Rows with other values in some columns; null where a column must not be is refused."""
    nullable = pa.schema([field.with_nullable(True) for field in schema])
    every = [columns[n] if n in columns else rows.column(n) for n in schema.names]
    return conform(pa.Table.from_arrays(every, schema=nullable), schema)


# -- merge --------------------------------------------------------------------------------------


def _merge(target: Target, request: Merge, engine: Engine) -> ChangedRows:
    """Rows that match are deleted or updated; rows of the source that match none are added.

    Of a row for which both conditions are true, the delete counts.
    """
    source, schema = check_table(request.source), target.schema
    check_on(request.on, schema.names, source.column_names)
    keys = _cast_keys(source, request, schema)
    stored = _read_matching(target, keys, engine)
    stored_at, source_at = _match(stored.rows, keys, request)
    both = _side_by_side(stored.rows.select(schema.names), stored_at, source, source_at)
    resolve = _columns_of_sides(schema, source.schema)

    deletes = _holds(request.delete, both, resolve)
    updates = ~deletes & _holds(request.update, both, resolve)
    touched = np.flatnonzero(deletes | updates)
    _refuse_ambiguous(stored.rows, stored_at[touched], request)
    stored = stored.take(stored_at[touched])
    updating = both.take(pa.array(np.flatnonzero(updates)))
    values = _values_of(request.update, schema, source.schema) if request.update else {}
    columns = _compute(updating, values, schema, resolve)
    old = stored.rows.filter(pa.array(~deletes[touched]))
    updated = _replace(old, columns, schema)
    added, has_nulls = _added(request, schema, source, keys, source_at)
    is_new = adds_new_keys(request, target.ref.properties.keys, is_global=target.index.is_global)
    return ChangedRows(stored, deletes[touched], updated, added, are_new=is_new and not has_nulls)


def _cast_keys(source: pa.Table, request: Merge, schema: pa.Schema) -> pa.Table:
    """The columns to merge on in the table's types."""
    fields = [schema.field(name) for name in request.on]
    for field in fields:
        if pa.types.is_nested(field.type):
            raise InputError(f"merge on {field.name}: a column of {field.type} cannot be compared")
    return pa.table({field.name: cast_values(source.column(field.name), field) for field in fields})


def _read_matching(target: Target, keys: pa.Table, engine: Engine) -> StoredRows:
    """Rows that may match: files are left out by the ranges of the source's values."""
    known = keys.filter(_are_known(keys))
    if not known.num_rows:
        return StoredRows(target.snapshot.schema.empty_table(), (), _NONE)
    ranges: list[Predicate] = []
    equal = pc.scalar(True)
    for name in known.column_names:
        column = known.column(name)
        equal = equal & pc.field(name).isin(one_array(column).unique())
        if not pa.types.is_floating(column.type):
            bounds = pc.min_max(column).as_py()
            ranges += [Compare(name, ">=", bounds["min"]), Compare(name, "<=", bounds["max"])]
    selection = select_in(target.snapshot, All(tuple(ranges)), engine)
    rule = read_rule(target.snapshot, filter=equal)
    return _read(Selection(target.snapshot, rule, selection.slices), engine)


def _are_known(keys: pa.Table) -> pa.Array:
    flags = np.ones(keys.num_rows, bool)
    for column in keys.columns:
        flags &= to_flags(pc.is_valid(column))
    return pa.array(flags)


def _match(stored: pa.Table, keys: pa.Table, request: Merge) -> tuple[Positions, Positions]:
    """Positions of stored rows and of the source's that match them, in the order of the former."""
    names = [f"k{number}" for number in range(len(request.on))]
    left, right = (
        pa.table([*table.select(request.on).columns, np.arange(len(table))], [*names, at])
        for table, at in ((stored, "stored"), (keys, "source"))
    )
    joined = left.join(right, keys=names, join_type="inner").sort_by("stored")
    stored_at, source_at = (joined.column(at).to_numpy() for at in ("stored", "source"))
    return stored_at, source_at


def _refuse_ambiguous(stored: pa.Table, stored_at: Positions, request: Merge) -> None:
    """Fail if several rows of the source want to change one row: `stored_at` ascends."""
    repeated = np.flatnonzero(stored_at[1:] == stored_at[:-1])
    if len(repeated):
        row = stored.select(request.on).slice(int(stored_at[repeated[0]]), 1)
        raise ambiguous(request.on, row.to_pylist()[0])


def _side_by_side(
    stored: pa.Table, stored_at: Positions, source: pa.Table, source_at: Positions
) -> pa.Table:
    """Rows that match, with columns `target.x` and `source.x`."""
    left, right = stored.take(pa.array(stored_at)), source.take(pa.array(source_at))
    names = [TARGET + n for n in left.column_names] + [SOURCE + n for n in right.column_names]
    return pa.table([*left.columns, *right.columns], names)


def _columns_of_sides(table: pa.Schema | None, source: pa.Schema) -> Resolve:
    """Names mean `source.x` or `target.x`; rows that match nothing have no `target`."""

    def resolve(name: str) -> tuple[pc.Expression, pa.DataType]:
        side, _, column = name.partition(".")
        prefix = _SIDES.get(side)
        if prefix == SOURCE and column:
            return column_of(source, column, prefix=SOURCE)
        if prefix == TARGET and column and table is not None:
            return column_of(table, column, prefix=TARGET)
        if prefix == TARGET:
            raise InputError(f"{name!r}: a row that is inserted has columns of the source only")
        raise InputError(f"{name!r} in a merge: say source.{name} or target.{name}")

    return resolve


def _holds(clause: Clause | None, rows: pa.Table, resolve: Resolve) -> Any:
    """For which rows a clause is to be done."""
    if clause is None:
        return np.zeros(rows.num_rows, bool)
    condition = clause.condition
    if isinstance(condition, str):
        condition = parse_expression(condition, resolve)
    if condition is not None and not isinstance(condition, pc.Expression):
        raise InputError(f"a {type(condition).__name__} cannot be a condition")
    return to_flags(are_true(rows, condition))


def _values_of(clause: Clause, table: pa.Schema, source: pa.Schema) -> Values:
    """New values: as the clause says, or the columns of the source that the table has."""
    if clause.values is not None:
        check_columns(clause.values, table)
        return clause.values
    names = [name for name in source.names if name in table.names and name not in META_FIELDS]
    return {name: pc.field(SOURCE + name) for name in names}


def _added(
    request: Merge, schema: pa.Schema, source: pa.Table, keys: pa.Table, source_at: Positions
) -> tuple[pa.Table, bool]:
    """Rows of the source that match nothing, as rows of the table; and if one has a null key."""
    if request.insert is None:
        return schema.empty_table(), False
    is_new = np.ones(source.num_rows, bool)
    is_new[source_at] = False
    new = source.rename_columns([SOURCE + name for name in source.column_names])
    resolve = _columns_of_sides(None, source.schema)
    is_new &= _holds(request.insert, new, resolve)
    rows = new.filter(pa.array(is_new))
    values = _values_of(request.insert, schema, source.schema)
    columns = _compute(rows, values, schema, resolve)
    nullable = pa.schema([field.with_nullable(True) for field in schema])
    every = [columns.get(f.name, pa.nulls(rows.num_rows, f.type)) for f in schema]
    has_nulls = not all(_are_known(keys.filter(pa.array(is_new))).to_pylist())
    return conform(pa.Table.from_arrays(every, schema=nullable), schema), has_nulls
