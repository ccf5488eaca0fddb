"""Partition `record_index`: for each record key, the file group that has the record.

The value says the partition, the file id and the instant that put the record there. Records that
were written together share their value, so distinct values are decoded and encoded once. A file id
is stored as two halves of a uuid and a number:

encoding 0   <uuid>-<n>: the uuid's upper and lower 64 bits, signed; n, or -1 if there is none
encoding 1   any other text, as it is; the numbers are -1
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from numpy.lib.stride_tricks import sliding_window_view

from hoodoo.errors import FormatError
from hoodoo.format.metadata_table.keys import Ints, key_texts
from hoodoo.format.metadata_table.schema import RECORD, RECORD_INDEX, RecordKind
from hoodoo.format.metadata_table.values import decode_values, encode_payload, payload_of

# -- file ids as numbers, and back -----------------------------------------------------------------


UUID_ENCODING = 0
TEXT_ENCODING = 1

_UUID_CHARS = 36
_DASHES = [8, 13, 18, 23]
_DIGITS = [place for place in range(_UUID_CHARS) if place not in _DASHES]
_DASH = ord("-")
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
_NO_DIGIT = 16
_VALUE_OF = np.full(256, _NO_DIGIT, np.uint8)
_VALUE_OF[_HEX] = np.arange(16)
_TAIL = re.compile(r"-(0|[1-9]\d{0,8})\Z", re.ASCII)

Longs = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class SplitFileIds:
    """File ids in the record index's own columns."""

    high: Longs
    low: Longs
    number: npt.NDArray[np.int32]
    text: pa.Array  # "" under encoding 0
    encoding: npt.NDArray[np.int32]


def split_file_ids(file_ids: pa.Array) -> SplitFileIds:
    """Take file ids apart; those that would not come back the same stay texts."""
    count = len(file_ids)
    high, low = np.full(count, -1, np.int64), np.full(count, -1, np.int64)
    number = np.full(count, -1, np.int32)
    encoding = np.full(count, TEXT_ENCODING, np.int32)
    rows, halves = _find_uuids(file_ids)
    if rows.size:
        numbers, good = _parse_numbers(file_ids.take(pa.array(rows)))
        rows, halves = rows[good], halves[good]
        high[rows], low[rows] = halves[:, 0], halves[:, 1]
        number[rows] = numbers[good]
        encoding[rows] = UUID_ENCODING
    text = pc.if_else(pa.array(encoding == UUID_ENCODING), "", file_ids)
    return SplitFileIds(high, low, number, text, encoding)


def _find_uuids(texts: pa.Array) -> tuple[Longs, Longs]:
    """The rows that begin with a uuid, and its two halves."""
    offsets = np.frombuffer(texts.buffers()[1], np.int32)
    offsets = offsets[texts.offset : texts.offset + len(texts) + 1]
    rows = (np.diff(offsets) >= _UUID_CHARS).nonzero()[0]
    if not rows.size:
        return rows, np.empty((0, 2), np.int64)
    data = np.frombuffer(texts.buffers()[2], np.uint8)
    chars = sliding_window_view(data, _UUID_CHARS)[offsets[rows]]
    digits = _VALUE_OF[chars[:, _DIGITS]]
    is_uuid = (digits != _NO_DIGIT).all(axis=1) & (chars[:, _DASHES] == _DASH).all(axis=1)
    octets = digits[:, 0::2] << 4 | digits[:, 1::2]
    halves = np.ascontiguousarray(octets).view(">i8").astype(np.int64)
    return rows[is_uuid], halves[is_uuid]


def _parse_numbers(texts: pa.Array) -> tuple[npt.NDArray[np.int32], Flags]:
    # The uuid in front is ASCII. Not `binary_slice`: without an end it fails on many rows.
    distinct = pc.utf8_slice_codeunits(texts, _UUID_CHARS).dictionary_encode()
    parsed_numbers = [_parse_number(tail) for tail in distinct.dictionary.to_pylist()]
    numbers = np.array([-1 if one is None else one for one in parsed_numbers], np.int32)
    good = np.array([one is not None for one in parsed_numbers], bool)
    index = distinct.indices.to_numpy()
    return numbers[index], good[index]


def _parse_number(tail: str) -> int | None:
    """The n of "-n"; -1 for nothing at all; None for anything else."""
    if not tail:
        return -1
    return int(tail[1:]) if _TAIL.match(tail) else None


def join_file_ids(split: SplitFileIds) -> pa.Array:
    """The texts that `split_file_ids` took apart."""
    if not np.isin(split.encoding, (UUID_ENCODING, TEXT_ENCODING)).all():
        raise FormatError("the record index has an unknown encoding of file ids")
    halves = np.column_stack((split.high, split.low)).astype(">i8")
    octets = np.ascontiguousarray(halves).view(np.uint8).reshape(-1, 16)
    chars = np.full((len(octets), _UUID_CHARS), _DASH, np.uint8)
    digits = np.empty((len(octets), 32), np.uint8)
    digits[:, 0::2] = _HEX[octets >> 4]
    digits[:, 1::2] = _HEX[octets & 15]
    chars[:, _DIGITS] = digits
    offsets = np.arange(0, chars.size + 1, _UUID_CHARS, dtype=np.int32)
    if chars.size >= 2**31:
        raise FormatError("too many file ids in one piece")
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(chars)]
    uuids = pa.Array.from_buffers(pa.string(), len(octets), buffers)
    numbers = pa.array(split.number).dictionary_encode()
    tails = pa.array([f"-{n}" if n != -1 else "" for n in numbers.dictionary.to_pylist()])
    file_ids = pc.binary_join_element_wise(uuids, tails.cast(pa.string()).take(numbers.indices), "")
    return pc.if_else(pa.array(split.encoding == UUID_ENCODING), file_ids, split.text)


# -- locations <-> values --------------------------------------------------------------------------


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
    distinct = _to_array(values).dictionary_encode()
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
    columns = [
        _to_array(locations[name]).dictionary_encode("encode") for name in LOCATIONS.names[1:4]
    ]
    positions = _to_array(locations["position"])
    if positions.null_count < len(positions):  # no two records of a file have one position
        return _encode_distinct(
            [_to_array(locations[name]) for name in LOCATIONS.names[1:]], base_file
        )
    code = np.zeros(len(positions), np.int64)
    for column in columns:
        code = code * (len(column.dictionary) + 1) + column.indices.to_numpy()
    _, first, inverse = np.unique(code, return_index=True, return_inverse=True)
    rows = pa.array(first)
    distinct_columns = [column.dictionary.take(column.indices.take(rows)) for column in columns]
    values = _encode_distinct([*distinct_columns, pa.nulls(len(first), pa.int64())], base_file)
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


def _to_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if isinstance(column, pa.ChunkedArray):
        return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return column
