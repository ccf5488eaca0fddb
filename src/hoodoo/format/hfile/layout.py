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
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from enum import IntEnum

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


class Codec(IntEnum):
    """How the blocks of a file are compressed; the value is the one in the trailer."""

    GZIP = 1
    NONE = 2


@dataclass(frozen=True, slots=True)
class Dialect:
    """Where writers of one format differ, and readers have to take both."""

    bytes_per_checksum: int
    whole_index_keys: bool  # index keys with their suffix, without which HBase's reader fails
    packing: Packing


@dataclass(frozen=True, slots=True)
class Packing:
    """How hard zlib tries; any reader reads any of them."""

    level: int
    strategy: int


# Java's, so that the bytes are the same as Apache Hudi's.
HUDI_1_1 = Dialect(
    bytes_per_checksum=16384,
    whole_index_keys=False,
    packing=Packing(level=6, strategy=zlib.Z_DEFAULT_STRATEGY),
)
# One checksum for each block: Apache Hudi 1.1 and hudi-rs 0.5.0 miscount several, and lose the last
# entries of large blocks or fail.
# Short matches among random keys are not worth it: entries of a record index are packed in three
# quarters of the time, are smaller, and are unpacked in five sixths of the time.
PORTABLE = Dialect(
    bytes_per_checksum=1 << 30,
    whole_index_keys=True,
    packing=Packing(level=4, strategy=zlib.Z_FILTERED),
)
