"""Record keys and partition paths of whole Arrow columns; the text rules are in `model.keys`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.errors import ConfigError, InputError
from hoodoo.model.dates import TimestampRule
from hoodoo.model.keys import EMPTY_KEY, NULL_KEY, KeyRule, text_of


def record_keys(rows: pa.Table, rule: KeyRule) -> pa.ChunkedArray:
    """The record key of every row; null or empty keys are an `InputError`."""
    fields = rule.record_fields
    if not fields:
        raise InputError("the table has no record key fields (hoodie.table.recordkey.fields)")
    texts = [_as_text(field_values(rows, field), field) for field in fields]
    if not rule.has_composite_keys:
        keys = texts[0]
        bad = pc.or_kleene(pc.is_null(keys), pc.equal(keys, ""))
        _refuse(rows, bad, f"record key {fields[0]} is null or empty")
        return keys
    absent = None
    parts = []
    for field, text in zip(fields, texts, strict=True):
        is_null, is_empty = pc.is_null(text), pc.equal(text, "")
        missing = pc.or_(is_null, pc.fill_null(is_empty, False))
        absent = missing if absent is None else pc.and_(absent, missing)
        text = pc.if_else(pc.fill_null(is_empty, False), EMPTY_KEY, pc.fill_null(text, NULL_KEY))
        parts.append(pc.binary_join_element_wise(f"{field}:", text, ""))
    _refuse(rows, absent, f"all parts of the record key {','.join(fields)} are null or empty")
    return pc.binary_join_element_wise(*parts, ",")


def partition_paths(rows: pa.Table, rule: KeyRule) -> pa.ChunkedArray:
    """The partition path of every row."""
    if not rule.is_partitioned:
        return pa.chunked_array([pa.repeat("", rows.num_rows)])
    refuse_unfit_times(rows.schema, rule)
    plain = _plain_values if rule.timestamp is None else _numbers_or_texts
    segments = []
    for field in rule.partition_fields:
        dictionary_array = field_values(rows, field).combine_chunks().dictionary_encode("encode")
        values = plain(dictionary_array.dictionary)
        texts = pa.array([rule.segment(field, value) for value in values], pa.string())
        segments.append(texts.take(dictionary_array.indices))
    if len(segments) == 1:
        return pa.chunked_array(segments)
    return pa.chunked_array([pc.binary_join_element_wise(*segments, "/")])


def field_values(rows: pa.Table, field: str) -> pa.ChunkedArray:
    """The column of a field; a dotted name reaches into structs."""
    name, *inner = [field] if field in rows.column_names else field.split(".")
    if name not in rows.column_names:
        raise InputError(f"no column {field!r} in the rows; there are {rows.column_names}")
    column = rows.column(name)
    for step in inner:
        if not pa.types.is_struct(column.type) or column.type.get_field_index(step) < 0:
            raise InputError(f"no column {field!r} in the rows: {name!r} has no field {step!r}")
        column = pc.struct_field(column, step)
    return column


def field_type(schema: pa.Schema, field: str) -> pa.DataType | None:
    """The type of a field, by the same names as `field_values`; None if there is no such one."""
    name, *inner = [field] if field in schema.names else field.split(".")
    if name not in schema.names:
        return None
    kind = schema.field(name).type
    for step in inner:
        if not pa.types.is_struct(kind) or kind.get_field_index(step) < 0:
            return None
        kind = kind.field(step).type
    return kind


def has_fields(schema: pa.Schema, fields: Iterable[str]) -> bool:
    """Whether a schema has all of these fields."""
    return all(field_type(schema, field) is not None for field in fields)


def require_fields(schema: pa.Schema, fields: Iterable[str]) -> None:
    """Fail if rows of a schema lack one of these fields."""
    for field in fields:
        if field_type(schema, field) is None:
            raise InputError(f"no column {field!r} in the rows; there are {schema.names}")


def refuse_unfit_times(schema: pa.Schema, rule: KeyRule) -> None:
    """Fail if Apache Hudi finds no point in time in a column of this type, or more than one."""
    times = rule.timestamp
    if times is None:
        return
    times.check()
    for field in rule.partition_fields:
        kind = field_type(schema, field)
        if kind is not None:
            reason = _unfit(kind, times)
            if reason:
                raise ConfigError(
                    key="hoodie.keygen.timebased.timestamp.type",
                    value=times.type.value,
                    reason=f"column {field} is of type {kind}: {reason}",
                )


_UNITS = {"s": "SECONDS", "ms": "MILLISECONDS", "us": "MICROSECONDS", "ns": "NANOSECONDS"}


def _unfit(kind: pa.DataType, times: TimestampRule) -> str | None:
    """Why a column of this type is no such point in time, and which type would be."""
    types = pa.types
    if types.is_string(kind) or types.is_large_string(kind):
        return "texts take DATE_STRING or MIXED" if times.unit is not None else None
    if types.is_timestamp(kind) and kind.tz is not None:
        # Hudi takes the column's number for a number of this unit or, where the option
        # `consistent.logical.timestamp.enabled` is set, for the point in time that it is.
        unit = _UNITS[kind.unit]
        if times.unit == unit:
            return None
        safe = f"SCALAR with {unit}" if unit in ("SECONDS", "NANOSECONDS") else f"EPOCH{unit}"
        return (
            "Apache Hudi's writers put such rows into different partitions, depending on their "
            f"options, unless the type is {safe}"
        )
    if types.is_boolean(kind) or not (types.is_primitive(kind) or types.is_decimal(kind)):
        return "it takes a number, a date, a timestamp or a text"
    return "numbers, dates and timestamps take another type" if times.unit is None else None


def _numbers_or_texts(values: pa.Array) -> list[Any]:
    """Distinct values as the numbers or texts that Apache Hudi makes points in time of."""
    kind = values.type
    if pa.types.is_timestamp(kind):
        values = values.cast(pa.int64())  # in the column's own unit
    elif pa.types.is_date32(kind):
        values = values.cast(pa.int32())  # days
    return list(values.to_pylist())


def _plain_values(values: pa.Array) -> list[Any]:
    """Distinct values as Python objects whose text is the one that Apache Hudi writes."""
    kind = values.type
    if pa.types.is_timestamp(kind):
        values = values.cast(pa.int64())  # a timestamp stands for its number, in its own unit
    if pa.types.is_float32(kind):
        # The shortest digits that tell a float apart, not those of the double next to it.
        return [None if v is None else float(str(np.float32(v))) for v in values.to_pylist()]
    return list(values.to_pylist())


def _as_text(column: pa.ChunkedArray, field: str) -> pa.ChunkedArray:
    kind = column.type
    if pa.types.is_string(kind):
        return column
    if pa.types.is_large_string(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return column.cast(pa.string())
    if pa.types.is_date32(kind):
        return column.cast(pa.string())
    if pa.types.is_timestamp(kind):
        return column.cast(pa.int64()).cast(pa.string())
    if pa.types.is_decimal(kind) or pa.types.is_floating(kind):
        # Java's text differs from Arrow's for exponents and zeros; keys like these are rare.
        dictionary_array = column.combine_chunks().dictionary_encode()
        texts = pa.array(map(text_of, _plain_values(dictionary_array.dictionary)), pa.string())
        return pa.chunked_array([texts.take(dictionary_array.indices)])
    raise InputError(f"column {field} of type {kind} cannot be a record key")


def _refuse(rows: pa.Table, bad: pa.ChunkedArray | None, reason: str) -> None:
    count = pc.sum(bad).as_py() if bad is not None else 0
    if count:
        first = pc.index(bad, True).as_py()
        row = rows.slice(first, 1).to_pylist()[0]
        raise InputError(f"{reason} in {count} of {rows.num_rows} rows, first in {row!r}")
