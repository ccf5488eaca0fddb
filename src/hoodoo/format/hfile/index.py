"""The index of an HFile: where each block is, the key it begins with, and so which blocks to read.

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
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from hoodoo.errors import FormatError
from hoodoo.format.hfile.layout import BLOCK_HEADER, decode_hadoop, encode_hadoop

# -- bytes <-> index entries -----------------------------------------------------------------------


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


# -- which blocks may hold a key, and which are fetched together -----------------------------------


@dataclass(frozen=True, slots=True)
class BlockRange:
    """Blocks, by number, that are fetched with one request; and what is looked for in them.

    `key_range` is a range of the sorted keys or prefixes that are looked for.
    """

    blocks: tuple[int, ...]
    start: int
    end: int
    key_range: range


def group_blocks(
    index: Sequence[IndexEntry],
    blocks: Iterable[tuple[int, range]],
    *,
    gap_bytes: int,
    group_bytes: int,
) -> Iterator[BlockRange]:
    """Blocks, in order, with what is wanted of each: together where few bytes lie between them."""
    group: BlockRange | None = None
    for number, key_range in blocks:
        block = index[number]
        if group is not None:
            near = block.offset - group.end <= gap_bytes
            if near and block.end - group.start <= group_bytes:
                both = range(min(group.key_range.start, key_range.start), key_range.stop)
                group = BlockRange((*group.blocks, number), group.start, block.end, both)
                continue
            yield group
        group = BlockRange((number,), block.offset, block.end, key_range)
    if group is not None:
        yield group


def batch_groups(
    groups: Iterable[BlockRange], *, batch_bytes: int
) -> Iterator[tuple[BlockRange, ...]]:
    """Groups, in order, that are decoded together: so much of the file, or a group alone."""
    batch: list[BlockRange] = []
    size = 0
    for group in groups:
        more = group.end - group.start
        if batch and size + more > batch_bytes:
            yield tuple(batch)
            batch, size = [], 0
        batch.append(group)
        size += more
    if batch:
        yield tuple(batch)


def blocks_of_keys(rows: Sequence[bytes], keys: Sequence[bytes]) -> list[tuple[int, range]]:
    """The blocks that may hold any of the sorted, distinct keys, and which keys those are."""
    range_of_block: dict[int, range] = {}
    at = 0
    while at < len(keys):
        block = bisect_right(rows, keys[at]) - 1
        end = len(keys) if block + 1 == len(rows) else bisect_left(keys, rows[block + 1], at)
        # A key that blocks begin with may have begun in the block before.
        for earlier in range(max(bisect_left(rows, keys[at]) - 1, 0), block):
            range_of_block[earlier] = range(
                range_of_block.get(earlier, range(at, at)).start, at + 1
            )
        if block >= 0:
            range_of_block[block] = range(range_of_block.get(block, range(at, at)).start, end)
        at = end
    return sorted(range_of_block.items(), key=lambda item: item[0])


def blocks_of_prefixes(rows: Sequence[bytes], prefixes: Sequence[bytes]) -> list[tuple[int, range]]:
    """The blocks that may hold keys with any of the sorted prefixes, and which those are.

    No prefix is the start of another one.
    """
    range_of_block: dict[int, range] = {}
    for number, prefix in enumerate(prefixes):
        after = after_prefix(prefix)
        end = len(rows) if after is None else bisect_left(rows, after)
        for block in range(max(bisect_left(rows, prefix) - 1, 0), end):
            range_of_block[block] = range(
                range_of_block.get(block, range(number, number)).start, number + 1
            )
    return sorted(range_of_block.items(), key=lambda item: item[0])


def after_prefix(prefix: bytes) -> bytes | None:
    """The least bytes that are greater than all with this prefix; None if there are none."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else None
