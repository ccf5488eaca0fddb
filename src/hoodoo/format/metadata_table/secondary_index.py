"""Partitions `bloom_filters` (one filter per base file) and `secondary_index_*` (keys alone)."""

from __future__ import annotations

import pyarrow as pa

from hoodoo.format.metadata_table.bloom_filters import KEY_FIELD
from hoodoo.format.metadata_table.schema import SECONDARY_INDEX, RecordKind
from hoodoo.format.metadata_table.values import decode_entries, encode_entries

SECONDARY_KEYS = pa.schema([KEY_FIELD, pa.field("is_deleted", pa.bool_(), nullable=False)])
"""One row per pair of a value and a record key, which are both in the key."""


def decode_secondary_keys(
    keys: pa.Array | pa.ChunkedArray,
    values: pa.Array | pa.ChunkedArray,
    schema_json: str | None = None,
) -> pa.Table:
    """Entries as a table of `SECONDARY_KEYS`."""
    return decode_entries(RecordKind.SECONDARY_INDEX, SECONDARY_KEYS, keys, values, schema_json)


def encode_secondary_keys(entries: pa.Table, *, base_file: str | None = None) -> pa.Array:
    """The values of a table of `SECONDARY_KEYS`, by row."""
    return encode_entries(RecordKind.SECONDARY_INDEX, SECONDARY_INDEX, entries, base_file)
