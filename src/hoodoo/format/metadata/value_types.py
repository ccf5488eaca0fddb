"""The types of columns as statistics tell them: an ordinal, more for decimals, and a wrapper."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

import pyarrow as pa
import pyarrow.types as pt

from hoodoo.format.metadata.schema import Wrapper


class ValueType(IntEnum):
    """The type of a column; the value is the ordinal on disk. `V1` leaves it to the wrapper."""

    V1 = 0
    NULL = 1
    BOOLEAN = 2
    INT = 3
    LONG = 4
    FLOAT = 5
    DOUBLE = 6
    STRING = 7
    BYTES = 8
    FIXED = 9
    DECIMAL = 10
    UUID = 11
    DATE = 12
    TIME_MILLIS = 13
    TIME_MICROS = 14
    TIMESTAMP_MILLIS = 15
    TIMESTAMP_MICROS = 16
    TIMESTAMP_NANOS = 17
    LOCAL_TIMESTAMP_MILLIS = 18
    LOCAL_TIMESTAMP_MICROS = 19
    LOCAL_TIMESTAMP_NANOS = 20


@dataclass(frozen=True, slots=True)
class ColumnType:
    """How bounds of a column are written: in which wrapper, and as which type inside."""

    value_type: ValueType
    wrapper: Wrapper
    arrow: pa.DataType
    info: str | None = None  # of a decimal: precision, comma, scale


V = ValueType
W = Wrapper
_INT = pa.int32()
_LONG = pa.int64()

_FIXED_TYPES: tuple[tuple[Callable[[pa.DataType], bool], ColumnType], ...] = (
    (pt.is_boolean, ColumnType(V.BOOLEAN, W.BOOLEAN, pa.bool_())),
    (pt.is_int32, ColumnType(V.INT, W.INT, _INT)),
    (pt.is_int16, ColumnType(V.INT, W.INT, _INT)),
    (pt.is_int8, ColumnType(V.INT, W.INT, _INT)),
    (pt.is_int64, ColumnType(V.LONG, W.LONG, _LONG)),
    (pt.is_float32, ColumnType(V.FLOAT, W.FLOAT, pa.float32())),
    (pt.is_float64, ColumnType(V.DOUBLE, W.DOUBLE, pa.float64())),
    (pt.is_string, ColumnType(V.STRING, W.STRING, pa.string())),
    (pt.is_large_string, ColumnType(V.STRING, W.STRING, pa.string())),
    (pt.is_date32, ColumnType(V.DATE, W.INT, _INT)),
    (pt.is_time32, ColumnType(V.TIME_MILLIS, W.INT, _INT)),
    (pt.is_time64, ColumnType(V.TIME_MICROS, W.LONG, _LONG)),
)
_TIMESTAMPS = {
    ("ms", True): V.TIMESTAMP_MILLIS,
    ("us", True): V.TIMESTAMP_MICROS,
    ("ns", True): V.TIMESTAMP_NANOS,
    ("ms", False): V.LOCAL_TIMESTAMP_MILLIS,
    ("us", False): V.LOCAL_TIMESTAMP_MICROS,
    ("ns", False): V.LOCAL_TIMESTAMP_NANOS,
}
# The decimal wrapper of old statistics has 30 digits, 15 of them behind the point: what would not
# fit there is not indexed, although decimals are bytes by now.
_PRECISION, _SCALE = 30, 15

META_COLUMNS = ("_hoodie_commit_time", "_hoodie_record_key", "_hoodie_partition_path")
"""Meta columns that are always indexed, where a table has them."""
_DEFAULT_COLUMNS = 32


def column_type(arrow: pa.DataType) -> ColumnType | None:
    """How bounds of a column of this type are written; None for types without statistics.

    Bytes have none: Apache Hudi's Spark writer leaves them out.
    """
    if pt.is_decimal(arrow):
        if arrow.scale > _SCALE or arrow.precision + (_SCALE - arrow.scale) > _PRECISION:
            return None
        info = f"{arrow.precision},{arrow.scale}"
        return ColumnType(V.DECIMAL, W.BYTES, pa.binary(), info)
    if pt.is_timestamp(arrow):
        known = _TIMESTAMPS.get((arrow.unit, arrow.tz is not None))
        return None if known is None else ColumnType(known, W.LONG, _LONG)
    return next((type_ for fits, type_ in _FIXED_TYPES if fits(arrow)), None)


def indexed_columns(
    schema: pa.Schema, *, configured: tuple[str, ...] = (), limit: int = _DEFAULT_COLUMNS
) -> dict[str, ColumnType]:
    """The columns with statistics: meta columns, and the configured or else the first ones."""
    types = {field.name: column_type(field.type) for field in schema}
    metas = [name for name in META_COLUMNS if name in types]
    own = [name for name in schema.names if not name.startswith("_hoodie_")]
    if configured:
        chosen = [name for name in configured if types.get(name) is not None]
    else:
        chosen = [name for name in own if types[name] is not None][:limit]
    picked = {name: types[name] for name in dict.fromkeys((*metas, *chosen))}
    return {name: type_ for name, type_ in picked.items() if type_ is not None}
