"""Entries of `column_stats` and `partition_stats` -> ranges of values that a filter can ask.

A bound is used only where it surely holds for the column as it is read now. Statistics tell less
than they seem to: a bound that is missing may mean that nobody knew it, so it stands for anything;
a NaN makes both bounds worthless; a column may have had another type when they were made.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from hoodoo.format.metadata.column_stats import bounds_in
from hoodoo.format.metadata.schema import Wrapper
from hoodoo.format.metadata.value_types import ValueType as V
from hoodoo.model.predicate import All, AnyOf, Compare, In, Like, Predicate, ValueRange

_NUMBERS = {V.INT, V.LONG}
_FLOATS = {V.FLOAT, V.DOUBLE}
_INSTANTS = {V.TIMESTAMP_MILLIS: "ms", V.TIMESTAMP_MICROS: "us"}
_LOCAL = {V.LOCAL_TIMESTAMP_MILLIS: "ms", V.LOCAL_TIMESTAMP_MICROS: "us"}
# What old entries, which do not tell the type, say by their wrapper.
_BY_WRAPPER = {
    Wrapper.BOOLEAN: V.BOOLEAN,
    Wrapper.INT: V.INT,
    Wrapper.LONG: V.LONG,
    Wrapper.FLOAT: V.FLOAT,
    Wrapper.DOUBLE: V.DOUBLE,
    Wrapper.STRING: V.STRING,
    Wrapper.DATE: V.DATE,
    Wrapper.LOCAL_DATE: V.DATE,
    Wrapper.TIMESTAMP_MICROS: V.TIMESTAMP_MICROS,
}
_WRAPPERS = {
    V.BOOLEAN: {Wrapper.BOOLEAN},
    V.INT: {Wrapper.INT, Wrapper.LONG},
    V.LONG: {Wrapper.INT, Wrapper.LONG},
    V.FLOAT: {Wrapper.FLOAT, Wrapper.DOUBLE},
    V.DOUBLE: {Wrapper.FLOAT, Wrapper.DOUBLE},
    V.STRING: {Wrapper.STRING},
    V.DECIMAL: {Wrapper.BYTES},
    V.DATE: {Wrapper.INT, Wrapper.DATE, Wrapper.LOCAL_DATE},
    **{kind: {Wrapper.LONG, Wrapper.TIMESTAMP_MICROS} for kind in (*_INSTANTS, *_LOCAL)},
}
_FIRST_SURROGATE = "\ud800"


def has_ranges(kind: pa.DataType) -> bool:
    """Whether bounds of a column of this type can be compared with a filter's values."""
    plain = (pt.is_integer, pt.is_boolean, pt.is_date32, pt.is_decimal, pt.is_timestamp)
    return any(fits(kind) for fits in (*plain, pt.is_floating, pt.is_string, pt.is_large_string))


def always_has_bounds(kind: pa.DataType) -> bool:
    """Whether every file with values of this type has bounds for them.

    Long texts, NaN and timestamps of old Parquet files have none. The bounds of a partition pass
    over such files, and so say nothing of them.
    """
    return any(fits(kind) for fits in (pt.is_integer, pt.is_boolean, pt.is_date32, pt.is_decimal))


def is_comparable(predicate: Predicate, column: str) -> bool:
    """Whether texts that a predicate compares a column with sort alike in UTF-8 and in UTF-16.

    Java's bounds are those of the latter order. It differs above the surrogates only.
    """
    texts = (value for value in _values(predicate, column) if isinstance(value, str))
    return all(char < _FIRST_SURROGATE for text in texts for char in text)


def _values(predicate: Predicate, column: str) -> Iterator[Any]:
    match predicate:
        case All(terms) | AnyOf(terms):
            for term in terms:
                yield from _values(term, column)
        case Compare(name, _, value) if name == column:
            yield value
        case In(name, values, _) if name == column:
            yield from values
        case Like(name, pattern, _) if name == column:
            yield pattern


def to_ranges(entries: pa.Table, kind: pa.DataType) -> list[ValueRange | None]:
    """The range of each entry, of a column that has this type now; None for a deleted entry."""
    entries = entries.combine_chunks()
    lows = _to_values(entries, "min_value", kind)
    highs = _to_values(entries, "max_value", kind)
    columns = (entries[name].to_pylist() for name in ("value_count", "null_count", "is_deleted"))
    ranges: list[ValueRange | None] = []
    for low, high, values, nulls, deleted in zip(lows, highs, *columns, strict=True):
        if deleted:
            ranges.append(None)
            continue
        if _is_nan(low) or _is_nan(high):
            low = high = None
        # A count below zero means that it is not known.
        is_empty = values == 0 and nulls == 0 and low is None and high is None
        may_be_null = nulls != 0 or not values
        ranges.append(
            ValueRange(
                low, high, may_be_null=may_be_null and not is_empty, may_have_values=not is_empty
            )
        )
    return ranges


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _to_values(entries: pa.Table, name: str, kind: pa.DataType) -> list[Any]:
    """A bound of each entry as a filter's literals are; None where it is not known."""
    made: list[Any] = [None] * entries.num_rows
    if not made:
        return made
    bounds = entries[name].chunk(0)
    types = entries["value_type"].fill_null(int(V.V1)).to_numpy()
    infos = entries["value_type_info"].chunk(0)
    for wrapper in Wrapper:
        rows, inside = bounds_in(bounds, wrapper)
        if wrapper in (Wrapper.NULL, Wrapper.ARRAY) or not rows.size:
            continue
        for code in np.unique(types[rows]).tolist():
            at = (types[rows] == code).nonzero()[0]
            own = inside.take(pa.array(at))
            told = infos.take(pa.array(rows[at])).to_pylist()
            values = _read(own, _value_type(code, wrapper), told, wrapper, kind)
            for row, value in zip(rows[at].tolist(), values, strict=True):
                made[row] = value
    return made


def _value_type(code: int, wrapper: Wrapper) -> V | None:
    if code == V.V1:
        return _BY_WRAPPER.get(wrapper)
    try:
        return V(code)
    except ValueError:  # of a later version
        return None


def _read(
    values: pa.Array, type_: V | None, infos: list[str | None], wrapper: Wrapper, kind: pa.DataType
) -> list[Any]:
    unknown: list[Any] = [None] * len(values)
    if type_ is None or wrapper not in _WRAPPERS.get(type_, ()):
        return unknown
    target = _target(type_, kind)
    try:
        if type_ is V.DECIMAL and pt.is_decimal(kind):
            pairs = zip(values.to_pylist(), infos, strict=True)
            return [_decimal(data, info) for data, info in pairs]
        if target is None:
            return unknown
        made: list[Any] = values.cast(target).to_pylist()
        return [float(value) for value in made] if pt.is_floating(kind) else made
    except (pa.ArrowException, ValueError, OverflowError):  # beyond what Python's types have
        return unknown


def _target(type_: V, kind: pa.DataType) -> pa.DataType | None:
    """The type in which bounds of `type_` compare with literals of a column; None: they do not."""
    if pt.is_boolean(kind) and type_ is V.BOOLEAN:
        return kind
    if type_ in _NUMBERS and (pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind)):
        return pa.int64()
    if type_ in _FLOATS and pt.is_floating(kind):
        return pa.float64()
    if type_ is V.STRING and (pt.is_string(kind) or pt.is_large_string(kind)):
        return pa.string()
    if type_ is V.DATE and pt.is_date32(kind):
        return kind
    if pt.is_timestamp(kind):
        units = _LOCAL if kind.tz is None else _INSTANTS
        return pa.timestamp(units[type_], kind.tz) if type_ in units else None
    return None


def _decimal(data: bytes, info: str | None) -> Decimal | None:
    _, comma, scale = (info or "").partition(",")
    if not comma or not scale.strip().isdigit():
        return None
    number = int.from_bytes(data, "big", signed=True)
    sign, digits = int(number < 0), tuple(map(int, str(abs(number))))
    return Decimal((sign, digits, -int(scale)))
