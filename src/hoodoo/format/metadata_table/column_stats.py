"""Partitions `column_stats` and `partition_stats`: bounds and counts of one column.

The entry is about one file, or about all files of a partition; `file_name` is then the path of
the partition. A bound is wrapped: a record with one field, one of 13 kinds (`schema.Wrapper`).
`ColumnType` says by an ordinal, with precision and scale for decimals, how a column's bounds are
read back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from hoodoo.format.arrow_types import Codes, dense_union, values_of_code
from hoodoo.format.metadata_table.keys import key_texts
from hoodoo.format.metadata_table.schema import BOUND, COLUMN_STATS, RECORD, RecordKind, Wrapper
from hoodoo.format.metadata_table.values import decode_values, encode_payload, payload_of

# -- bounds and counts <-> values ------------------------------------------------------------------


Ints = npt.NDArray[np.int64]

_PLAIN = {
    "file_name": "fileName",
    "column_name": "columnName",
    "min_value": "minValue",
    "max_value": "maxValue",
    "value_count": "valueCount",
    "null_count": "nullCount",
    "size_bytes": "totalSize",
    "uncompressed_bytes": "totalUncompressedSize",
    "is_deleted": "isDeleted",
    "is_tight_bound": "isTightBound",
}
_STATS = RECORD.arrow.field(COLUMN_STATS).type
_VALUE_TYPE = _STATS.field("valueType").type

COLUMN_STATS_SCHEMA = pa.schema(
    [
        pa.field("key", pa.string(), nullable=False),
        pa.field("kind", pa.int32(), nullable=False),
        *(_STATS.field(field).with_name(name) for name, field in _PLAIN.items()),
        pa.field("value_type", pa.int32()),
        pa.field("value_type_info", pa.string()),
    ]
)
"""One row per entry. `kind` is a `RecordKind`; `value_type` is null in old entries: an ordinal
that tells the column's type, with precision and scale of a decimal in `value_type_info`."""


def decode_column_stats(
    keys: pa.Array | pa.ChunkedArray,
    values: pa.Array | pa.ChunkedArray,
    schema_json: str | None = None,
) -> pa.Table:
    """Entries as a table of `COLUMN_STATS_SCHEMA`."""
    records = decode_values(values, schema_json)
    payload = payload_of(records, RecordKind.COLUMN_STATS, RecordKind.PARTITION_STATS)
    plain = [payload.field(field) for field in _PLAIN.values()]
    value_types = payload.field("valueType")
    ordinals, infos = value_types.flatten()  # unlike `field`, nulls of the struct reach them
    columns = [key_texts(keys), records.field("type"), *plain, ordinals, infos]
    return pa.table(columns, COLUMN_STATS_SCHEMA)


def encode_column_stats(stats: pa.Table, *, base_file: str | None = None) -> pa.Array:
    """The values of a table of `COLUMN_STATS_SCHEMA`, by row."""
    (batch,) = stats.combine_chunks().to_batches() or [None]
    if batch is None:
        return pa.array([], pa.binary())
    ordinals = batch.column("value_type")
    value_types = pa.StructArray.from_arrays(
        [ordinals.fill_null(0), batch.column("value_type_info")],
        fields=list(_VALUE_TYPE),
        mask=ordinals.is_null(),
    )
    plain = [batch.column(name) for name in _PLAIN]
    payload = pa.StructArray.from_arrays([*plain, value_types], fields=list(_STATS))
    return encode_payload(batch.column("kind"), COLUMN_STATS, payload, base_file=base_file)


def make_bounds(wrappers: Codes, values: dict[Wrapper, pa.Array]) -> pa.Array:
    """Bounds in these wrappers; what is inside, in order of rows, is in `values` by wrapper."""
    children = []
    for wrapper in Wrapper:
        field = BOUND[int(wrapper)].type
        if wrapper is Wrapper.NULL:
            children.append(pa.nulls(int(np.count_nonzero(wrappers == wrapper))))
        elif wrapper in values:
            children.append(pa.StructArray.from_arrays([values[wrapper]], fields=[field[0]]))
        else:
            children.append(pa.nulls(0, field))
    return dense_union(BOUND, wrappers, children)


def bounds_in(bounds: pa.Array, wrapper: Wrapper) -> tuple[Ints, pa.Array]:
    """The rows whose bound is in this wrapper, and what is inside."""
    rows, wrappers = values_of_code(bounds, wrapper)
    return rows, wrappers if wrapper is Wrapper.NULL else wrappers.field(0)


# -- which columns have statistics, and in which wrapper -------------------------------------------


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
        value_type = _TIMESTAMPS.get((arrow.unit, arrow.tz is not None))
        return None if value_type is None else ColumnType(value_type, W.LONG, _LONG)
    return next((type_ for fits, type_ in _FIXED_TYPES if fits(arrow)), None)


def indexed_columns(
    schema: pa.Schema, *, configured: tuple[str, ...] = (), limit: int = _DEFAULT_COLUMNS
) -> dict[str, ColumnType]:
    """The columns with statistics: meta columns, and the configured or else the first ones."""
    types = {field.name: column_type(field.type) for field in schema}
    metas = [name for name in META_COLUMNS if name in types]
    own = [name for name in schema.names if not name.startswith("_hoodie_")]
    if configured:
        names = [name for name in configured if types.get(name) is not None]
    else:
        names = [name for name in own if types[name] is not None][:limit]
    column_types = {name: types[name] for name in dict.fromkeys((*metas, *names))}
    return {name: type_ for name, type_ in column_types.items() if type_ is not None}
