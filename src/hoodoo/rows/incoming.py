"""Rows as people have them -> an Arrow table: frames, streams, batches, lists of dicts.

Frames of pandas, polars and others are not imported but asked: whatever has `__arrow_c_stream__`
(or `__arrow_c_array__`) hands its rows over. Of a pandas frame an index that has a name is a
column, and one without a name is not. Times in nanoseconds become microseconds if nothing is lost.

Text must be UTF-8: Arrow takes any bytes for text until someone reads them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from hoodoo.errors import InputError, SchemaMismatch
from hoodoo.format.schema import META_FIELDS, OPERATION

# -- rows -> an Arrow table ------------------------------------------------------------------------


KINDS = (
    "a pyarrow.Table, RecordBatch or RecordBatchReader, a pandas, polars or Spark frame, "
    "an object with __arrow_c_stream__, or a list of dicts"
)
_UNNAMED_INDEX = re.compile(r"__index_level_\d+__")
_DATA_LOSS = re.compile(r"would lose data: (-?\d+)")
_META = frozenset({*META_FIELDS, OPERATION})
_REFUSALS = (pa.ArrowException, ValueError, TypeError, OverflowError)


def rows_to_arrow(rows: object, table_schema: pa.Schema | None) -> pa.Table:
    """The rows as an Arrow table; dicts are read in the types of `table_schema`."""
    if is_dicts(rows):
        return dicts_to_arrow(rows, table_schema)
    if isinstance(rows, list) and not rows and table_schema is not None:
        return table_schema.empty_table()
    return round_times(_read_frame(rows))


def keys_to_arrow(rows_or_keys: object, table_schema: pa.Schema | None) -> object:
    """Keys to delete: rows become an Arrow table, a column or a list of keys stays what it is."""
    if isinstance(rows_or_keys, pa.Array | pa.ChunkedArray):
        return rows_or_keys
    if isinstance(rows_or_keys, Sequence) and not is_dicts(rows_or_keys):
        return rows_or_keys
    if is_dicts(rows_or_keys):
        _refuse_ragged(rows_or_keys)
        return dicts_to_arrow(rows_or_keys, table_schema)
    try:
        rows = _read_frame(rows_or_keys)
    except InputError as refusal:
        column = _read_series(rows_or_keys)
        if column is None:
            raise refusal from None
        return column
    return round_times(rows)


def schema_to_arrow(schema: object) -> object:
    """The schema that a table of such rows gets: of a frame, or of an Arrow or polars schema.

    What is none of these is given back as it is.
    """
    if isinstance(schema, pa.Table | pa.RecordBatch | pa.RecordBatchReader):
        arrow_schema = schema.schema
    elif isinstance(schema, pa.Schema):
        arrow_schema = schema
    elif hasattr(schema, "__arrow_c_stream__"):
        arrow_schema = _fit_index(_open_stream(schema).schema.empty_table()).schema
    elif hasattr(schema, "__arrow_c_schema__"):
        arrow_schema = pa.schema(schema)
    else:
        return schema
    return pa.schema([field.with_type(_in_microseconds(field.type)) for field in arrow_schema])


def is_dicts(rows: object) -> bool:
    """Whether these are rows as mappings of column names to values."""
    return (
        isinstance(rows, Sequence)
        and not isinstance(rows, str | bytes)
        and len(rows) > 0
        and isinstance(rows[0], Mapping)
    )


def dicts_to_arrow(rows: Any, schema: pa.Schema | None) -> pa.Table:
    """Rows given as dicts, in the types of the table; a key that a dict lacks is null.

    Columns that no dict has are left out, and so are meta columns. Raises `InputError` for keys
    that the table lacks.
    """
    for at, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise InputError(f"row {at} is no dict, but {type(row).__name__}")
    if schema is None or not schema.names:
        every_name = dict.fromkeys(name for row in rows for name in row)
        try:
            return pa.table({name: [row.get(name) for row in rows] for name in every_name})
        except _REFUSALS as error:
            raise InputError(f"these rows cannot be read: {error}") from None
    unknown = sorted(set(_unknown_names(rows, pa.struct(list(schema)), "")) - _META)
    if unknown:
        names = ", ".join(map(repr, unknown))
        raise InputError(f"the table has no column {names}; it has {schema.names}")
    names_there = set[str]().union(*rows)
    fields = [field for field in schema if field.name in names_there - _META]
    columns = [_dicts_column(rows, field) for field in fields]
    return pa.Table.from_arrays(columns, names=[field.name for field in fields])


def round_times(table: pa.Table) -> pa.Table:
    """The table with times in nanoseconds as microseconds; fails if that would lose digits."""
    for at, field in enumerate(table.schema):
        type_ = _in_microseconds(field.type)
        if type_ != field.type:
            column = _cast_times(table.column(at), field, type_)
            table = table.set_column(at, field.with_type(type_), column)
    return table


def _cast_times(column: pa.ChunkedArray, field: pa.Field, type_: pa.DataType) -> pa.ChunkedArray:
    try:
        return column.cast(type_)
    except pa.ArrowInvalid as error:
        match = _DATA_LOSS.search(str(error))
        value = str(error) if match is None else _time_text(int(match[1]), field.type)
        raise SchemaMismatch(
            f"column {field.name}: {value} has nanoseconds, and a table holds microseconds; "
            "round the column first"
        ) from None


def _time_text(value: int, type_: pa.DataType) -> str:
    kind = type_ if pt.is_temporal(type_) else pa.timestamp("ns")
    return str(pa.scalar(value, kind).cast(pa.string()))


def _in_microseconds(type_: pa.DataType) -> pa.DataType:
    """The type with nanoseconds replaced, also deep inside."""
    if pt.is_timestamp(type_) and type_.unit == "ns":
        return pa.timestamp("us", type_.tz)
    if type_ == pa.time64("ns"):
        return pa.time64("us")
    if pt.is_struct(type_):
        return pa.struct([field.with_type(_in_microseconds(field.type)) for field in type_])
    if pt.is_list(type_):
        return pa.list_(type_.value_field.with_type(_in_microseconds(type_.value_type)))
    if pt.is_large_list(type_):
        return pa.large_list(type_.value_field.with_type(_in_microseconds(type_.value_type)))
    if pt.is_map(type_):
        value = type_.item_field.with_type(_in_microseconds(type_.item_type))
        return pa.map_(type_.key_field, value)
    return type_


def _read_frame(rows: object) -> pa.Table:
    if isinstance(rows, pa.Table):
        return rows
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])
    if isinstance(rows, pa.RecordBatchReader) or hasattr(rows, "__arrow_c_stream__"):
        reader = rows if isinstance(rows, pa.RecordBatchReader) else _open_stream(rows)
        try:
            return _fit_index(reader.read_all())
        except _REFUSALS as error:
            raise _refuse(rows, error) from None
    if hasattr(rows, "__arrow_c_array__"):
        try:
            return pa.Table.from_batches([pa.record_batch(rows)])
        except _REFUSALS as error:
            raise _refuse(rows, error) from None
    if hasattr(rows, "collect"):
        raise InputError(f"rows are {type(rows).__name__}, which is lazy: collect() them first")
    raise InputError(f"rows must be {KINDS}, not {type(rows).__name__}")


def _read_series(keys: object) -> pa.ChunkedArray | None:
    """A series of keys; None if it is no such thing."""
    if not hasattr(keys, "__arrow_c_stream__"):
        return None
    try:
        column = pa.chunked_array(keys)
    except _REFUSALS:
        return None
    return None if pt.is_struct(column.type) else column


def _open_stream(rows: object) -> pa.RecordBatchReader:
    try:
        return pa.RecordBatchReader.from_stream(rows)
    except _REFUSALS as error:
        raise _refuse(rows, error) from None


def _refuse(rows: object, error: Exception) -> InputError:
    reason = "; ".join(str(part) for part in reversed(error.args)) or type(error).__name__
    return InputError(f"these rows ({type(rows).__name__}) cannot be read: {reason}")


def _fit_index(table: pa.Table) -> pa.Table:
    """Of a pandas frame, the index as a column if it has a name, else not."""
    text = (table.schema.metadata or {}).get(b"pandas")
    for index in json.loads(text).get("index_columns", []) if text else ():
        if isinstance(index, str):
            if _UNNAMED_INDEX.fullmatch(index) and index in table.column_names:
                table = table.drop_columns([index])
        elif index.get("name") is not None and str(index["name"]) not in table.column_names:
            steps = np.arange(index["start"], index["stop"], index["step"], dtype=np.int64)
            column = pa.array(steps[: table.num_rows])  # an empty table of its schema has none
            table = table.append_column(str(index["name"]), column)
    return table


def _dicts_column(rows: Sequence[Mapping[str, Any]], field: pa.Field) -> pa.Array:
    values = [row.get(field.name) for row in rows]
    try:
        return pa.array(values, field.type)
    except _REFUSALS as error:
        at = _first_unfit(values, field.type)
        where = "" if at is None else f" in row {at}"
        raise SchemaMismatch(
            f"column {field.name}{where}: the value does not fit {field.type}: {error}"
        ) from None


def _first_unfit(values: list[Any], type_: pa.DataType) -> int | None:
    for at, value in enumerate(values):
        try:
            pa.array([value], type_)
        except _REFUSALS:
            return at
    return None


def _unknown_names(values: Sequence[Any], type_: pa.DataType, path: str) -> Iterator[str]:
    """Keys of dicts that a type has no field for, however deep; Arrow would drop them."""
    if pt.is_struct(type_):
        dicts = [value for value in values if isinstance(value, Mapping)]
        type_by_name = {field.name: field.type for field in type_}
        for name in set[str]().union(*dicts):
            if name not in type_by_name:
                yield f"{path}{name}"
            elif pt.is_nested(type_by_name[name]):
                inner = [each.get(name) for each in dicts]
                yield from _unknown_names(inner, type_by_name[name], f"{path}{name}.")
    elif pt.is_list(type_) and pt.is_nested(type_.value_type):
        items = [item for value in values if isinstance(value, Sequence) for item in value]
        yield from _unknown_names(items, type_.value_type, path)


def _refuse_ragged(rows: Any) -> None:
    """A key without its partition would be looked for in the wrong one."""
    names = set(rows[0])
    for at, row in enumerate(rows):
        if set(row) != names:
            raise InputError(f"keys to delete must have the same columns, and row {at} has others")


# -- text that is not UTF-8 ------------------------------------------------------------------------


def refuse_invalid_text(rows: pa.Table) -> None:
    """Fail if a text column, or text inside a column, is not UTF-8."""
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        if not _has_text(column.type):
            continue
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as error:
            reason = " ".join(str(error).split())
            raise InputError(
                f"column {name!r} has text that is not UTF-8 ({reason}); "
                "repair it, or write a binary column"
            ) from None


def _has_text(kind: pa.DataType) -> bool:
    if pt.is_dictionary(kind):
        return _has_text(kind.value_type)
    if pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind):
        return True
    return any(_has_text(kind.field(number).type) for number in range(kind.num_fields))
