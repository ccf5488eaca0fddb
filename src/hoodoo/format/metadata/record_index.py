"""Partition `record_index`: for each record key, the file group that has the record.

The value says the partition, the file id and the instant that put the record there. Records that
were written together share their value, so distinct values are decoded and encoded once.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.errors import FormatError
from hoodoo.format.metadata.file_ids import SplitFileIds, join_file_ids, split_file_ids
from hoodoo.format.metadata.keys import Ints, key_texts
from hoodoo.format.metadata.schema import RECORD, RECORD_INDEX, RecordKind
from hoodoo.format.metadata.values import decode_values, encode_payload, payload_of

LOCATIONS = pa.schema(
    [
        pa.field("key", pa.string(), nullable=False),
        pa.field("partition", pa.string()),
        pa.field("file_id", pa.string(), nullable=False),
        pa.field("instant_ms", pa.int64()),
        pa.field("position", pa.int64()),
    ]
)
"""One row per record key; `instant_ms` is a moment in milliseconds since 1970."""


def decode_record_index(
    keys: pa.Array | pa.ChunkedArray,
    values: pa.Array | pa.ChunkedArray,
    schema_json: str | None = None,
) -> pa.Table:
    """Entries of the record index as a table of `LOCATIONS`."""
    distinct = _one(values).dictionary_encode()
    records = decode_values(distinct.dictionary, schema_json)
    payload = payload_of(records, RecordKind.RECORD_INDEX)
    columns = [
        payload.field("partitionName"),
        _file_ids(payload),
        payload.field("instantTime"),
        payload.field("position"),
    ]
    rows = distinct.indices
    return pa.table([key_texts(keys), *(column.take(rows) for column in columns)], LOCATIONS)


def _file_ids(payload: pa.Array) -> pa.Array:
    encoding = payload.field("fileIdEncoding").to_numpy()
    bits = [payload.field(name) for name in ("fileIdHighBits", "fileIdLowBits", "fileIndex")]
    text = payload.field("fileId")
    in_bits = encoding == 0
    if any((np.asarray(column.is_null()) & in_bits).any() for column in bits):
        raise FormatError("an entry of the record index lacks a part of its file id")
    if (np.asarray(text.is_null()) & ~in_bits).any():
        raise FormatError("an entry of the record index has no file id")
    high, low, number = (column.fill_null(-1).to_numpy() for column in bits)
    return join_file_ids(SplitFileIds(high, low, number, text.fill_null(""), encoding))


def encode_record_index(locations: pa.Table, *, base_file: str | None = None) -> pa.Array:
    """The values of a table of `LOCATIONS`, by row."""
    columns = [_one(locations[name]).dictionary_encode("encode") for name in LOCATIONS.names[1:4]]
    positions = _one(locations["position"])
    if positions.null_count < len(positions):  # no two records of a file have one position
        return _encode_distinct([_one(locations[name]) for name in LOCATIONS.names[1:]], base_file)
    code = np.zeros(len(positions), np.int64)
    for column in columns:
        code = code * (len(column.dictionary) + 1) + column.indices.to_numpy()
    _, first, inverse = np.unique(code, return_index=True, return_inverse=True)
    rows = pa.array(first)
    picked = [column.dictionary.take(column.indices.take(rows)) for column in columns]
    values = _encode_distinct([*picked, pa.nulls(len(first), pa.int64())], base_file)
    return _take_large(values, inverse)


def _encode_distinct(columns: list[pa.Array], base_file: str | None) -> pa.Array:
    partition, file_ids, instant, position = columns
    split = split_file_ids(file_ids)
    fields = list(RECORD.arrow.field(RECORD_INDEX).type)
    children = [
        partition,
        pa.array(split.high),
        pa.array(split.low),
        pa.array(split.number),
        split.text,
        instant,
        pa.array(split.encoding),
        position,
    ]
    payload = pa.StructArray.from_arrays(children, fields=fields)
    kinds = pa.repeat(pa.scalar(int(RecordKind.RECORD_INDEX), pa.int32()), len(payload))
    return encode_payload(kinds, RECORD_INDEX, payload, base_file=base_file)


def _take_large(values: pa.Array, rows: Ints) -> pa.Array:
    sizes = pc.binary_length(values).to_numpy()
    if len(rows) and int(sizes[rows].sum()) >= 2**31:
        values = values.cast(pa.large_binary())
    return values.take(pa.array(rows))


def _one(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if isinstance(column, pa.ChunkedArray):
        return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return column
