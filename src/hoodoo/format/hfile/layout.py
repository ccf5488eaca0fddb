"""HFile, version 3: sorted keys and values in blocks, with an index; what metadata tables keep.

All integers are big endian unless said otherwise. Blocks, one after another:

    DATABLK*   entries                 any number; HBase puts leaf index blocks (IDXLEAF2) between
    METABLKc   one named value each    e.g. "bloomFilter"
    IDXINTE2   intermediate index      HBase only, three levels
    IDXROOT2   root of the data index  <- load_on_open_offset of the trailer
    IDXROOT2   meta index              always there, may be empty
    FILEINF2   file info               <- file_info_offset of the trailer
    trailer    4096 bytes, see `trailer`

A block is a header of 33 bytes, a payload and checksums:

    8   magic
    4   bytes after the header: compressed payload and checksums
    4   bytes of the payload before compression
    8   prevBlockOffset; no reader uses it
    1   checksum type: 0 none, 1 CRC32, 2 CRC32C
    4   bytesPerChecksum
    4   33 + bytes of the compressed payload
    n   payload, compressed with the codec of the file
    4c  c checksums, one for each bytesPerChecksum of header and payload; zeros for type 0

An entry of a data block; they are sorted by row, and follow each other without padding:

    4   length of the key, R + 12
    4   V, length of the value
    2   R, length of the row
    R   row: what callers call the key
    10  00 7fffffffffffffff 04: no column family, newest timestamp, put
    V   value
    1   00, mvcc

`blocks` does blocks, `entries` what is in data blocks, `index` the levels of the index.

Numbers of variable length are of two families, and some blocks are messages of protobuf:

protobuf    7 bits a byte, lowest first, the high bit set on all but the last byte
Hadoop      -112 to 127: one byte; else -112 - n (-120 - n, for ~v), then n bytes, big endian
message     fields: protobuf number (field << 3 | wire type), then
            type 0: protobuf number; type 2: length as protobuf number, bytes
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

from hoodoo.errors import FormatError

# -- constants of the layout -----------------------------------------------------------------------


DATA = b"DATABLK*"
META = b"METABLKc"
ROOT_INDEX = b"IDXROOT2"
LEAF_INDEX = b"IDXLEAF2"
INTERMEDIATE_INDEX = b"IDXINTE2"
FILE_INFO = b"FILEINF2"

BLOCK_HEADER = struct.Struct(">8siiqBii")
KEY_SUFFIX = b"\x00\x7f\xff\xff\xff\xff\xff\xff\xff\x04"
KEY_OVERHEAD = 2 + len(KEY_SUFFIX)  # of a key beside its row
ENTRY_HEAD = 10  # both lengths of an entry and the length of its row
MAX_ROW = 0x7FFF  # Java reads a signed short


class HFileCodec(IntEnum):
    """How the blocks of a file are compressed; the value is the one in the trailer."""

    GZIP = 1
    NONE = 2


@dataclass(frozen=True, slots=True)
class Dialect:
    """Where writers of one format differ, and readers have to take both."""

    bytes_per_checksum: int
    whole_index_keys: bool  # index keys with their suffix, without which HBase's reader fails
    packing: ZlibSettings


@dataclass(frozen=True, slots=True)
class ZlibSettings:
    """How hard zlib tries; any reader reads any of them."""

    level: int
    strategy: int


# Java's, so that the bytes are the same as Apache Hudi's.
HUDI_1_1 = Dialect(
    bytes_per_checksum=16384,
    whole_index_keys=False,
    packing=ZlibSettings(level=6, strategy=zlib.Z_DEFAULT_STRATEGY),
)
# One checksum for each block: Apache Hudi 1.1 and hudi-rs 0.5.0 miscount several, and lose the last
# entries of large blocks or fail.
# Short matches among random keys are not worth it: entries of a record index are packed in three
# quarters of the time, are smaller, and are unpacked in five sixths of the time.
PORTABLE = Dialect(
    bytes_per_checksum=1 << 30,
    whole_index_keys=True,
    packing=ZlibSettings(level=4, strategy=zlib.Z_FILTERED),
)


# -- numbers of variable length, protobuf messages -------------------------------------------------


_NUMBER, _BYTES = 0, 2  # wire types


def encode_varint(value: int) -> bytes:
    """A protobuf number."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def decode_varint(data: bytes, pos: int) -> tuple[int, int]:
    """A protobuf number, and where it ends."""
    value = 0
    for shift in range(0, 70, 7):
        if pos >= len(data):
            raise FormatError("a number runs past the end")
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, pos
    raise FormatError("a number of more than ten bytes")


def encode_hadoop(value: int) -> bytes:
    """A Hadoop number that is not negative."""
    if value <= 127:
        return bytes([value])
    size = (value.bit_length() + 7) // 8
    return bytes([256 - 112 - size]) + value.to_bytes(size, "big")


def decode_hadoop(data: bytes, pos: int) -> tuple[int, int]:
    """A Hadoop number, and where it ends."""
    if pos >= len(data):
        raise FormatError("a number runs past the end")
    first = data[pos] - 256 if data[pos] > 127 else data[pos]
    pos += 1
    if first >= -112:
        return first, pos
    size = -112 - first if first >= -120 else -120 - first
    if pos + size > len(data):
        raise FormatError("a number runs past the end")
    value = int.from_bytes(data[pos : pos + size], "big")
    return (value if first >= -120 else ~value), pos + size


def encode_message(fields: Iterable[tuple[int, int | bytes]]) -> bytes:
    """A message of numbers and bytes, in the order of `fields`."""
    parts: list[bytes] = []
    for field, value in fields:
        if isinstance(value, int):
            parts += (encode_varint(field << 3 | _NUMBER), encode_varint(value))
        else:
            parts += (encode_varint(field << 3 | _BYTES), encode_varint(len(value)), value)
    return b"".join(parts)


def decode_message(data: bytes) -> list[tuple[int, int | bytes]]:
    """The fields of a message, in order."""
    fields: list[tuple[int, int | bytes]] = []
    pos = 0
    while pos < len(data):
        tag, pos = decode_varint(data, pos)
        number, pos = decode_varint(data, pos)
        value: int | bytes = number
        if tag & 7 == _BYTES:
            if number > len(data) - pos:
                raise FormatError(f"a field of {number} bytes does not fit")
            value = data[pos : pos + number]
            pos += number
        elif tag & 7 != _NUMBER:
            raise FormatError(f"a field of wire type {tag & 7}")
        fields.append((tag >> 3, value))
    return fields
