"""Are two Arrow tables the same rows? Strict about values, names, order of columns and types.

Allowed differences, none of which changes a value: unit of a timestamp and the name of its zone
(both count as microseconds), large against plain strings and lists, names of list elements and
nullability, order of the entries of a map, order of rows.
"""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa

KEYS = ("_hoodie_record_key", "_hoodie_partition_path", "_hoodie_commit_time", "_hoodie_file_name")


def assert_same_rows(ours: pa.Table, theirs: pa.Table, *, besides: tuple[str, ...] = ()) -> None:
    """Fails with the first few differences; `besides` names columns that are not compared."""
    ours, theirs = (
        ours.drop_columns(_have(ours, besides)),
        theirs.drop_columns(_have(theirs, besides)),
    )
    assert ours.column_names == theirs.column_names
    for name in theirs.column_names:
        here, there = ours.schema.field(name).type, theirs.schema.field(name).type
        assert plain_type(here) == plain_type(there), f"type of {name}: {here} against {there}"
    here, there = rows_of(ours), rows_of(theirs)
    names = [str(name) for name in theirs.column_names]
    assert len(here) == len(there), _difference(here, there, names)
    assert here == there, _difference(here, there, names)


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    """The rows as plain values, in an order that depends on nothing but them."""
    columns = [
        [plain(value, field.type) for value in column.to_pylist()]
        for field, column in zip(table.schema, micros(table).columns, strict=True)
    ]
    rows = list(zip(*columns, strict=True)) if columns else []
    first = [table.column_names.index(name) for name in KEYS if name in table.column_names]
    return sorted(rows, key=lambda row: ([repr(row[i]) for i in first], repr(row)))


def micros(table: pa.Table) -> pa.Table:
    """The table with its timestamps in microseconds, at any depth."""
    schema = pa.schema([pa.field(f.name, _micros_type(f.type)) for f in table.schema])
    return pa.table(
        [c.cast(f.type) for c, f in zip(table.columns, schema, strict=True)], schema=schema
    )


def plain(value: Any, kind: pa.DataType) -> Any:
    """A value that compares by `==` with its counterpart."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        pairs = [(plain(k, kind.key_type), plain(v, kind.item_type)) for k, v in value]
        return ("map", sorted(pairs, key=repr))
    if pa.types.is_struct(kind):
        return {f.name: plain(value[f.name], f.type) for f in kind}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [plain(item, kind.value_type) for item in value]
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    return value


def plain_type(kind: pa.DataType) -> Any:
    """A type without the differences that this module allows."""
    if pa.types.is_timestamp(kind):
        return ("timestamp", kind.tz is not None)
    if pa.types.is_map(kind):
        return ("map", plain_type(kind.key_type), plain_type(kind.item_type))
    if pa.types.is_struct(kind):
        return ("struct", [(f.name, plain_type(f.type)) for f in kind])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return ("list", plain_type(kind.value_type))
    if pa.types.is_large_string(kind):
        return pa.string()
    return pa.binary() if pa.types.is_large_binary(kind) else kind


def _micros_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", "UTC" if kind.tz else None)
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, _micros_type(f.type)) for f in kind])
    if pa.types.is_map(kind):
        return pa.map_(_micros_type(kind.key_type), _micros_type(kind.item_type))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(pa.field(kind.value_field.name, _micros_type(kind.value_type)))
    return kind


def _have(table: pa.Table, names: tuple[str, ...]) -> list[str]:
    return [name for name in names if name in table.column_names]


def _difference(here: list[Any], there: list[Any], names: list[str]) -> str:
    lines = [f"{len(here)} rows against {len(there)}, columns {names}"]
    lines += [f"only ours:   {row}" for row in here if row not in there][:5]
    lines += [f"only theirs: {row}" for row in there if row not in here][:5]
    return "\n".join(lines)
