"""Rows as text: JSON lines, and cells of a table.

dates, times, timestamps   ISO 8601 text, `Z` at the end where the zone is UTC
decimals                   text, all digits kept
binary                     base64
NaN, infinities            "NaN", "Infinity", "-Infinity"
maps                       objects
"""

from __future__ import annotations

import json
import math
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.types as kinds

from hoodoo.errors import FormatError
from hoodoo.format.schema import META_FIELDS

_BATCH = 1024

Change = Callable[[Any], Any]


def without_meta_columns(rows: pa.Table) -> pa.Table:
    """The same rows without `_hoodie_*` columns."""
    return rows.select([name for name in rows.column_names if name not in META_FIELDS])


def json_lines(rows: pa.Table) -> Iterator[str]:
    """Each row as a JSON object on one line."""
    for row in _rows(rows):
        yield json.dumps(dict(zip(rows.column_names, row, strict=True)), ensure_ascii=False)


def text_rows(rows: pa.Table) -> Iterator[Sequence[str]]:
    """Each row as cells; nested values are JSON."""
    for row in _rows(rows):
        yield [_text(value) for value in row]


def numbers(rows: pa.Table) -> set[str]:
    """The columns of numbers."""
    return {
        field.name
        for field in rows.schema
        if kinds.is_integer(field.type)
        or kinds.is_floating(field.type)
        or kinds.is_decimal(field.type)
    }


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _rows(rows: pa.Table) -> Iterator[tuple[Any, ...]]:
    changes = [_change(field.type) for field in rows.schema]
    for batch in rows.to_batches(max_chunksize=_BATCH):
        columns = []
        for column, change in zip(batch.columns, changes, strict=True):
            try:
                values = column.cast(_as_text(column.type)).to_pylist()
            except UnicodeDecodeError as error:
                raise FormatError(f"a text that is not UTF-8: {error}") from None
            columns.append(values if change is None else [change(value) for value in values])
        yield from zip(*columns, strict=True)


def _as_text(kind: pa.DataType) -> pa.DataType:
    """The type with text for what Python may have no value for: a year 10000, say."""
    if kinds.is_temporal(kind) or kinds.is_decimal(kind):
        return pa.string()
    if kinds.is_struct(kind):
        return pa.struct([field.with_type(_as_text(field.type)) for field in kind])
    if kinds.is_list(kind):
        return pa.list_(kind.value_field.with_type(_as_text(kind.value_type)))
    if kinds.is_map(kind):
        return pa.map_(kind.key_type, kind.item_field.with_type(_as_text(kind.item_type)))
    return kind


def _change(kind: pa.DataType) -> Change | None:
    """What makes values of a type (as read from the cast column) fit for JSON; None: nothing."""
    if kinds.is_floating(kind):
        return _float
    if kinds.is_timestamp(kind):
        return lambda text: text and text.replace(" ", "T", 1)
    if kinds.is_binary(kind) or kinds.is_fixed_size_binary(kind) or kinds.is_large_binary(kind):
        return lambda data: None if data is None else b64encode(data).decode()
    if kinds.is_struct(kind):
        return _struct({field.name: _change(field.type) for field in kind})
    if kinds.is_list(kind):
        return _list(_change(kind.value_type))
    if kinds.is_map(kind):
        return _map(_change(kind.item_type))
    return None


def _float(value: float | None) -> float | str | None:
    if value is None or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")


def _struct(changes: dict[str, Change | None]) -> Change:
    pairs = [(name, change) for name, change in changes.items() if change is not None]

    def change_struct(value: dict[str, Any] | None) -> dict[str, Any] | None:
        if value is None:
            return None
        return {**value, **{name: change(value[name]) for name, change in pairs}}

    return change_struct


def _list(change: Change | None) -> Change | None:
    if change is None:
        return None
    return lambda items: None if items is None else [change(item) for item in items]


def _map(change: Change | None) -> Change:
    def change_map(pairs: list[tuple[str, Any]] | None) -> dict[str, Any] | None:
        if pairs is None:
            return None
        return {key: value if change is None else change(value) for key, value in pairs}

    return change_map
