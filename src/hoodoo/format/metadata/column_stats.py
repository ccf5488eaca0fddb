"""Partitions `column_stats` and `partition_stats`: bounds and counts of one column.

The entry is about one file, or about all files of a partition; `file_name` is then the path of
the partition. A bound is wrapped: a record with one field, one of 13 kinds (`schema.Wrapper`).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodoo.format.metadata.keys import key_texts
from hoodoo.format.metadata.schema import BOUND, COLUMN_STATS, RECORD, RecordKind, Wrapper
from hoodoo.format.metadata.values import decode_values, encode_payload, payload_of
from hoodoo.format.unions import Codes, dense_union, values_of_code

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
    rows, wrapped = values_of_code(bounds, wrapper)
    return rows, wrapped if wrapper is Wrapper.NULL else wrapped.field(0)
