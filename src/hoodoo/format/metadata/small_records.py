"""Partitions `bloom_filters` (one filter per base file) and `secondary_index_*` (keys alone)."""

from __future__ import annotations

import pyarrow as pa

from hoodoo.format.metadata.keys import key_texts
from hoodoo.format.metadata.schema import BLOOM_FILTER, RECORD, SECONDARY_INDEX, RecordKind
from hoodoo.format.metadata.values import decode_values, encode_payload, payload_of

_KEY = pa.field("key", pa.string(), nullable=False)

BLOOM_FILTERS = pa.schema(
    [
        _KEY,
        pa.field("filter_type", pa.string(), nullable=False),
        pa.field("instant_time", pa.string(), nullable=False),
        pa.field("bloom_filter", pa.binary(), nullable=False),
        pa.field("is_deleted", pa.bool_(), nullable=False),
    ]
)
"""One row per base file; the filter is the base 64 text of the file's footer."""

SECONDARY_KEYS = pa.schema([_KEY, pa.field("is_deleted", pa.bool_(), nullable=False)])
"""One row per pair of a value and a record key, which are both in the key."""


def decode_bloom_filters(
    keys: pa.Array | pa.ChunkedArray,
    values: pa.Array | pa.ChunkedArray,
    schema_json: str | None = None,
) -> pa.Table:
    """Entries as a table of `BLOOM_FILTERS`."""
    return _decode(RecordKind.BLOOM_FILTER, BLOOM_FILTERS, keys, values, schema_json)


def encode_bloom_filters(filters: pa.Table, *, base_file: str | None = None) -> pa.Array:
    """The values of a table of `BLOOM_FILTERS`, by row."""
    return _encode(RecordKind.BLOOM_FILTER, BLOOM_FILTER, filters, base_file)


def decode_secondary_keys(
    keys: pa.Array | pa.ChunkedArray,
    values: pa.Array | pa.ChunkedArray,
    schema_json: str | None = None,
) -> pa.Table:
    """Entries as a table of `SECONDARY_KEYS`."""
    return _decode(RecordKind.SECONDARY_INDEX, SECONDARY_KEYS, keys, values, schema_json)


def encode_secondary_keys(entries: pa.Table, *, base_file: str | None = None) -> pa.Array:
    """The values of a table of `SECONDARY_KEYS`, by row."""
    return _encode(RecordKind.SECONDARY_INDEX, SECONDARY_INDEX, entries, base_file)


def _decode(
    kind: RecordKind,
    schema: pa.Schema,
    keys: pa.Array | pa.ChunkedArray,
    values: pa.Array | pa.ChunkedArray,
    schema_json: str | None,
) -> pa.Table:
    payload = payload_of(decode_values(values, schema_json), kind)
    return pa.table([key_texts(keys), *payload.flatten()], schema)


def _encode(kind: RecordKind, field: str, rows: pa.Table, base_file: str | None) -> pa.Array:
    if not rows.num_rows:
        return pa.array([], pa.binary())
    columns = [column.combine_chunks() for column in rows.columns[1:]]
    payload = pa.StructArray.from_arrays(columns, fields=list(RECORD.arrow.field(field).type))
    kinds = pa.repeat(pa.scalar(int(kind), pa.int32()), len(payload))
    return encode_payload(kinds, field, payload, base_file=base_file)
