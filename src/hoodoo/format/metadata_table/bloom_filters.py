"""Partitions `bloom_filters` (one filter per base file) and `secondary_index_*` (keys alone)."""

from __future__ import annotations

import pyarrow as pa

from hoodoo.format.metadata_table.schema import BLOOM_FILTER, RecordKind
from hoodoo.format.metadata_table.values import decode_entries, encode_entries

KEY_FIELD = pa.field("key", pa.string(), nullable=False)

BLOOM_FILTERS = pa.schema(
    [
        KEY_FIELD,
        pa.field("filter_type", pa.string(), nullable=False),
        pa.field("instant_time", pa.string(), nullable=False),
        pa.field("bloom_filter", pa.binary(), nullable=False),
        pa.field("is_deleted", pa.bool_(), nullable=False),
    ]
)
"""One row per base file; the filter is the base 64 text of the file's footer."""


def decode_bloom_filters(
    keys: pa.Array | pa.ChunkedArray,
    values: pa.Array | pa.ChunkedArray,
    schema_json: str | None = None,
) -> pa.Table:
    """Entries as a table of `BLOOM_FILTERS`."""
    return decode_entries(RecordKind.BLOOM_FILTER, BLOOM_FILTERS, keys, values, schema_json)


def encode_bloom_filters(filters: pa.Table, *, base_file: str | None = None) -> pa.Array:
    """The values of a table of `BLOOM_FILTERS`, by row."""
    return encode_entries(RecordKind.BLOOM_FILTER, BLOOM_FILTER, filters, base_file)
