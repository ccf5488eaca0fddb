"""The index of an HFile: where each block is, and the key it begins with.

Root (also the meta index), as many entries as the trailer says:

    8   offset of the block
    4   its size on disk
    var length of the key, a Hadoop number
    n   key
    16  only with several levels: where the middle key of the file is; not used

Leaf and intermediate level, which HBase writes:

    4       n, number of entries
    4(n+1)  where each entry begins and the last one ends, counted from the first
    per entry 8 offset, 4 size, key

Keys of the data index are the row with its length of two bytes in front, with or without the suffix
of a key. HBase shortens them: then they lie between the last row of the block before and the first
row of their own. In the meta index a key is the name alone.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from hoodoo.errors import FormatError
from hoodoo.format.hfile.layout import BLOCK_HEADER
from hoodoo.format.hfile.varint import decode_hadoop, encode_hadoop

_POINTER = struct.Struct(">qi")
_MIDDLE_BYTES = 16


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """Where a block is, and its key."""

    offset: int
    size: int
    key: bytes

    @property
    def end(self) -> int:
        return self.offset + self.size


def encode_root(entries: Iterable[IndexEntry]) -> bytes:
    """The payload of a root index block."""
    parts: list[bytes] = []
    for entry in entries:
        parts += (_POINTER.pack(entry.offset, entry.size), encode_hadoop(len(entry.key)), entry.key)
    return b"".join(parts)


def decode_root(payload: bytes, count: int, *, levels: int = 1) -> list[IndexEntry]:
    """The entries of a root index block."""
    entries: list[IndexEntry] = []
    pos = 0
    if count * (_POINTER.size + 1) > len(payload):
        raise FormatError(f"{count} index entries do not fit")
    for _ in range(count):
        if pos + _POINTER.size > len(payload):
            raise FormatError("the index ends too early")
        offset, size = _POINTER.unpack_from(payload, pos)
        length, pos = decode_hadoop(payload, pos + _POINTER.size)
        if not 0 <= length <= len(payload) - pos:
            raise FormatError(f"an index key of {length} bytes does not fit")
        entries.append(IndexEntry(offset, size, payload[pos : pos + length]))
        pos += length
    if pos + (_MIDDLE_BYTES if levels > 1 else 0) != len(payload):
        raise FormatError(f"{len(payload) - pos} bytes after the index")
    return entries


def decode_level(payload: bytes) -> list[IndexEntry]:
    """The entries of a leaf or intermediate index block."""
    if len(payload) < 4:
        raise FormatError("an index block without a count")
    (count,) = struct.unpack_from(">i", payload)
    area = 4 + 4 * (count + 1)
    if count < 0 or area > len(payload):
        raise FormatError(f"{count} index entries do not fit")
    bounds = struct.unpack_from(f">{count + 1}i", payload, 4)
    if bounds[0] != 0 or area + bounds[-1] != len(payload):
        raise FormatError("index entries that do not fill their block")
    entries: list[IndexEntry] = []
    for start, end in pairwise(bounds):
        if end - start < _POINTER.size:
            raise FormatError("an index entry is too short")
        offset, size = _POINTER.unpack_from(payload, area + start)
        entries.append(IndexEntry(offset, size, payload[area + start + 12 : area + end]))
    return entries


def check_places(entries: Sequence[IndexEntry], end: int) -> None:
    """Refuse blocks that overlap, or that lie behind `end`."""
    before = 0
    for entry in entries:
        if entry.offset < before or entry.size < BLOCK_HEADER.size or entry.end > end:
            raise FormatError(f"an index entry with a block at {entry.offset} to {entry.end}")
        before = entry.end


def rows_of(entries: Iterable[IndexEntry]) -> list[bytes]:
    """The row of each key of a data index."""
    rows: list[bytes] = []
    for entry in entries:
        length = int.from_bytes(entry.key[:2], "big")
        if len(entry.key) < 2 + length:
            raise FormatError("an index key is shorter than its row")
        rows.append(entry.key[2 : 2 + length])
    if any(low > high for low, high in pairwise(rows)):
        raise FormatError("the index is not sorted")
    return rows
