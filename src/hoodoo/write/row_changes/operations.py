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

from hoodoo.errors import InputError
from hoodoo.format.schema import META_FIELDS
from hoodoo.model.progress import OnProgress
from hoodoo.rows.arrays import to_flags
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
from hoodoo.runtime.engine import Engine
from hoodoo.table.ref import TableRef
from hoodoo.write.commit.publish import CommitResult
from hoodoo.write.execute import PhaseTimer
from hoodoo.write.index.matches import Positions
from hoodoo.write.planning.assignment import WriteTarget
from hoodoo.write.planning.prepare import check_table
from hoodoo.write.row_changes.find_rows import (
    StoredRowFinder,
    are_known,
    columns_to_merge,
    columns_to_update,
    match_values,
    read_condition,
)
from hoodoo.write.row_changes.requests import (
    Change,
    Clause,
    DeleteWhere,
    MergeRequest,
    UpdateWhere,
    Values,
    adds_new_keys,
    ambiguous,
    check_columns,
    check_on,
    check_update,
)
from hoodoo.write.row_changes.write_changes import ChangedRows, StoredRows, write_changed

SOURCE, TARGET = "source.", "target."
_SIDES = {"source": SOURCE, "s": SOURCE, "target": TARGET, "t": TARGET}


def change(
    ref: TableRef, request: Change, engine: Engine, on_progress: OnProgress | None = None
) -> CommitResult | None:
    """Carry a change out; None if there is nothing to change.

    Needs: `ref` was reopened for this write (`write.retry`).
    """
    phases = PhaseTimer(ref.env, on_progress)
    with phases.timed("read"):
        target = WriteTarget.load(ref)
        finder = StoredRowFinder(target, engine, phases)
        match request:
            case DeleteWhere():
                condition = read_condition(request.where, target.snapshot.schema)
                changed_rows = delete_rows(target, finder.find_all(condition, ()))
            case UpdateWhere():
                changed_rows = _update(finder, request)
            case MergeRequest():
                merge_result = merge_rows(finder, request)
                assert merge_result is not None  # there is no limit
                changed_rows = merge_result
    return None if changed_rows.is_nothing else write_changed(target, changed_rows, engine, phases)


def delete_rows(target: WriteTarget, stored_rows: StoredRows) -> ChangedRows:
    """The change that takes these rows out."""
    nothing = target.schema.empty_table()
    return ChangedRows(stored_rows, np.ones(stored_rows.rows.num_rows, bool), nothing, nothing)


def _update(finder: StoredRowFinder, request: UpdateWhere) -> ChangedRows:
    target, schema = finder.target, finder.target.snapshot.schema
    check_update(request.values, schema, target.ref.properties.keys)
    resolve = columns_by_name(schema)
    _compute(schema.empty_table(), request.values, target.schema, resolve)  # errors before reads
    columns_to_read = columns_to_update(request.values, schema)
    stored_rows = finder.find_all(read_condition(request.where, schema), columns_to_read)
    columns = _compute(stored_rows.rows, request.values, target.schema, resolve)
    updated_rows = _replace(stored_rows.rows, columns, target.schema)
    nothing = target.schema.empty_table()
    return ChangedRows(
        stored_rows, np.zeros(stored_rows.rows.num_rows, bool), updated_rows, nothing
    )


def _compute(
    rows: pa.Table, values: Values, schema: pa.Schema, resolve: Resolve
) -> dict[str, pa.ChunkedArray]:
    """New values of columns, in the types of the table."""
    expressions = {
        name: parse_expression(value, resolve) if isinstance(value, str) else value
        for name, value in values.items()
        if isinstance(value, str | pc.Expression)
    }
    values_table = evaluate(rows, expressions)
    return {
        name: cast_values(values_table.column(name), schema.field(name))
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


def merge_rows(finder: StoredRowFinder, request: MergeRequest) -> ChangedRows | None:
    """Rows that match are deleted or updated; rows of the source that match none are added.

    Of a row for which both conditions are true, the delete counts. None if too many match.
    """
    target, source = finder.target, check_table(request.source)
    schema = target.schema
    check_on(request.on, schema.names, source.column_names)
    keys = _cast_keys(source, request, schema)
    columns_to_read = columns_to_merge(request, schema, source.column_names)
    stored_rows = finder.find(match_values(keys), columns_to_read)
    if stored_rows is None:
        return None
    stored_at, source_at = _match(stored_rows.rows, keys, request)
    both = _side_by_side(stored_rows.rows, stored_at, source, source_at)
    resolve = _columns_of_sides(schema, source.schema)

    deletes = _holds(request.delete, both, resolve)
    updates = ~deletes & _holds(request.update, both, resolve)
    match_places = np.flatnonzero(deletes | updates)
    _refuse_ambiguous(stored_rows.rows, stored_at[match_places], request)
    stored_rows = stored_rows.take(stored_at[match_places])
    updated_rows = schema.empty_table()
    if request.update is not None:
        updating = both.take(pa.array(np.flatnonzero(updates)))
        values = _values_of(request.update, schema, source.schema)
        columns = _compute(updating, values, schema, resolve)
        updated_rows = _replace(
            stored_rows.rows.filter(pa.array(~deletes[match_places])), columns, schema
        )
    new_rows, has_nulls = _added(request, schema, source, keys, source_at)
    is_new = adds_new_keys(request, target.ref.properties.keys, is_global=target.index.is_global)
    return ChangedRows(
        stored_rows, deletes[match_places], updated_rows, new_rows, are_new=is_new and not has_nulls
    )


def _cast_keys(source: pa.Table, request: MergeRequest, schema: pa.Schema) -> pa.Table:
    """The columns to merge on in the table's types."""
    fields = [schema.field(name) for name in request.on]
    for field in fields:
        if pa.types.is_nested(field.type):
            raise InputError(f"merge on {field.name}: a column of {field.type} cannot be compared")
    return pa.table({field.name: cast_values(source.column(field.name), field) for field in fields})


def _match(
    stored_rows: pa.Table, keys: pa.Table, request: MergeRequest
) -> tuple[Positions, Positions]:
    """Positions of stored rows and of the source's that match them, in the order of the former."""
    names = [f"k{number}" for number in range(len(request.on))]
    numbered_stored, numbered_source = (
        pa.table([*table.select(request.on).columns, np.arange(len(table))], [*names, at])
        for table, at in ((stored_rows, "stored"), (keys, "source"))
    )
    pairs = numbered_stored.join(numbered_source, keys=names, join_type="inner").sort_by("stored")
    stored_at, source_at = (pairs.column(at).to_numpy() for at in ("stored", "source"))
    return stored_at, source_at


def _refuse_ambiguous(stored_rows: pa.Table, stored_at: Positions, request: MergeRequest) -> None:
    """Fail if several rows of the source want to change one row: `stored_at` ascends."""
    repetitions = np.flatnonzero(stored_at[1:] == stored_at[:-1])
    if len(repetitions):
        row = stored_rows.select(request.on).slice(int(stored_at[repetitions[0]]), 1)
        raise ambiguous(request.on, row.to_pylist()[0])


def _side_by_side(
    stored_rows: pa.Table, stored_at: Positions, source: pa.Table, source_at: Positions
) -> pa.Table:
    """Rows that match, with columns `target.x` and `source.x`."""
    target_part, source_part = (
        stored_rows.take(pa.array(stored_at)),
        source.take(pa.array(source_at)),
    )
    names = [TARGET + n for n in target_part.column_names] + [
        SOURCE + n for n in source_part.column_names
    ]
    return pa.table([*target_part.columns, *source_part.columns], names)


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
    request: MergeRequest, schema: pa.Schema, source: pa.Table, keys: pa.Table, source_at: Positions
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
    has_nulls = not all(are_known(keys.filter(pa.array(is_new))).to_pylist())
    return conform(pa.Table.from_arrays(every, schema=nullable), schema), has_nulls
