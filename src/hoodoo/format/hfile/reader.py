"""Reads an HFile with ranged requests: all of it, keys, or prefixes (layout: `layout`).

Opening takes one request for the end of the file, which has trailer, index and file info; a second
one where the index is large. A look-up then asks for the blocks that may hold the keys, several in
one request where they are neighbours. Blocks are decoded some megabytes at a time, by `map_groups`;
it may be the map of a thread pool: most of the time goes into zlib, which lets other threads run.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.errors import FormatError
from hoodoo.format.hfile.blocks import decode_block
from hoodoo.format.hfile.entries import BINARY, Entries, Payloads
from hoodoo.format.hfile.index import (
    BlockRange,
    IndexEntry,
    after_prefix,
    batch_groups,
    blocks_of_keys,
    blocks_of_prefixes,
    check_places,
    decode_level,
    decode_root,
    group_blocks,
    rows_of,
)
from hoodoo.format.hfile.layout import (
    DATA,
    FILE_INFO,
    INTERMEDIATE_INDEX,
    LEAF_INDEX,
    META,
    ROOT_INDEX,
)
from hoodoo.format.hfile.trailer import (
    TRAILER_SIZE,
    check_versions,
    decode_file_info,
    decode_trailer,
)

_TAIL_BYTES = 128 << 10  # holds the index of some two thousand blocks
_GAP_BYTES = 256 << 10  # to read past that much is cheaper than another request
_GROUP_BYTES = 4 << 20

Read = Callable[[int, int], bytes]
_A = TypeVar("_A")
_B = TypeVar("_B")
_Numbers = npt.NDArray[np.int64]


class ParallelMap(Protocol):
    """The builtin `map`, or one that does several items at a time and keeps their order."""

    def __call__(self, function: Callable[[_A], _B], items: Iterable[_A], /) -> Iterable[_B]: ...


@dataclass(frozen=True, slots=True)
class _Tail:
    """The end of a file, which stays in memory."""

    start: int
    data: bytes


class HFileReader:
    """An HFile of `size` bytes, of which `read(start, length)` gives any part."""

    def __init__(
        self,
        read: Read,
        size: int,
        *,
        map_groups: ParallelMap = map,
        gap_bytes: int = _GAP_BYTES,
        group_bytes: int = _GROUP_BYTES,
    ) -> None:
        self._read = read
        self._map = map_groups
        self._gap_bytes = gap_bytes
        self._group_bytes = group_bytes
        if size < TRAILER_SIZE:
            raise FormatError(f"no HFile: {size} bytes")
        start = max(0, size - _TAIL_BYTES)
        self._tail = _Tail(size, b"")
        self._tail = _Tail(start, self._bytes(start, size))
        self._trailer = decode_trailer(self._tail.data[-TRAILER_SIZE:])
        first = self._trailer.load_on_open_offset
        self._end = size - TRAILER_SIZE
        if not first <= self._trailer.file_info_offset <= self._end:
            raise FormatError("the trailer has offsets behind the end of the file")
        if first < start:
            self._tail = _Tail(first, self._bytes(first, start) + self._tail.data)
        self._load()

    @property
    def num_entries(self) -> int:
        """How many entries the file has."""
        return self._trailer.num_entries

    @property
    def file_info(self) -> Mapping[bytes, bytes]:
        """Facts about the file that its writer left, such as the Avro schema of the values."""
        return self._info

    def meta_block(self, name: str | bytes) -> bytes | None:
        """The named value, e.g. of "bloomFilter"; None if there is none."""
        key = name.encode("utf-8") if isinstance(name, str) else name
        for entry in self._meta_index:
            if entry.key == key:
                return self._payload(entry, META)
        return None

    def read_all(self) -> Entries:
        """All entries, in order."""
        every = ((block, range(0)) for block in range(len(self._index)))
        entries = self._collect(every, None)
        if len(entries) != self.num_entries:
            raise FormatError(f"{len(entries)} entries instead of {self.num_entries}")
        return entries

    def find(self, keys: pa.Array | pa.ChunkedArray, *, skips: bool = False) -> Entries:
        """The entries of those keys that the file has, in order; an entry is given once.

        `skips` passes over parts of blocks that have none of them. That is for values of which it
        is known that they hold nothing that looks like an entry.
        """
        sorted_keys = _sorted_binary(keys)
        texts: list[bytes] = sorted_keys.to_pylist()

        def choose(rows: pa.LargeBinaryArray, key_range: range) -> _Numbers:
            among = sorted_keys.slice(key_range.start, len(key_range))
            return np.flatnonzero(pc.is_in(rows, value_set=among).to_numpy(zero_copy_only=False))

        return self._collect(
            blocks_of_keys(self._rows, texts), choose, sorted_keys if skips else None
        )

    def find_prefixes(self, prefixes: pa.Array | pa.ChunkedArray) -> Entries:
        """The entries whose keys begin with any of these, in order; an entry is given once."""
        shortest: list[bytes] = []
        for prefix in _sorted_binary(prefixes).to_pylist():
            if not shortest or not prefix.startswith(shortest[-1]):
                shortest.append(prefix)

        def choose(rows: pa.LargeBinaryArray, prefix_range: range) -> _Numbers:
            texts: list[bytes] = rows.to_pylist()
            parts = [np.empty(0, dtype=np.int64)]
            for prefix in shortest[prefix_range.start : prefix_range.stop]:
                after = after_prefix(prefix)
                start = bisect_left(texts, prefix)
                end = len(texts) if after is None else bisect_left(texts, after, start)
                parts.append(np.arange(start, end))
            return np.concatenate(parts)

        return self._collect(blocks_of_prefixes(self._rows, shortest), choose)

    def _load(self) -> None:
        """Decode what is between the data and the trailer."""
        trailer, at = self._trailer, self._trailer.load_on_open_offset
        root, at = self._block(at, ROOT_INDEX)
        meta, at = self._block(at, ROOT_INDEX)
        if at != trailer.file_info_offset:
            raise FormatError("the file info does not follow the indexes")
        info, at = self._block(at, FILE_INFO)
        if at != self._end:
            raise FormatError("bytes between the file info and the trailer")
        self._root = decode_root(root, trailer.data_index_count, levels=trailer.index_levels)
        self._meta_index = decode_root(meta, trailer.meta_index_count)
        self._info = decode_file_info(info)
        check_versions(self._info)
        check_places(self._root, trailer.load_on_open_offset)
        check_places(self._meta_index, trailer.load_on_open_offset)

    @cached_property
    def _index(self) -> Sequence[IndexEntry]:
        """The data blocks: the lowest level of the index."""
        level = self._root
        for levels in range(self._trailer.index_levels - 1, 0, -1):
            magic = LEAF_INDEX if levels == 1 else INTERMEDIATE_INDEX
            every = ((number, range(0)) for number in range(len(level)))
            groups = self._groups(level, every)
            level = [
                entry
                for group in groups
                for payload in self._payloads(level, group, magic)
                for entry in decode_level(payload)
            ]
            check_places(level, self._trailer.load_on_open_offset)
        return level

    @cached_property
    def _rows(self) -> Sequence[bytes]:
        """The row of each key of the index."""
        return rows_of(self._index)

    def _collect(
        self,
        blocks: Iterable[tuple[int, range]],
        choose: Callable[[pa.LargeBinaryArray, range], _Numbers] | None,
        keys: pa.LargeBinaryArray | None = None,
    ) -> Entries:
        """The chosen entries of these blocks; all of them where there is nothing to choose by.

        Of the parts of blocks that have none of the sorted `keys`, if given, nothing is chosen.
        """

        def decode(groups: Sequence[BlockRange]) -> Entries:
            read = [self._payloads(self._index, group, DATA) for group in groups]
            key_range = range(groups[0].key_range.start, groups[-1].key_range.stop)
            some = None if keys is None else keys.slice(key_range.start, len(key_range))
            payloads = Payloads(list(chain.from_iterable(read)), some)
            rows = payloads.rows()
            self._check_rows(rows, payloads, [n for group in groups for n in group.blocks])
            if choose is None:
                return Entries(rows, payloads.values())
            numbers = choose(rows, key_range)
            return Entries(rows.take(pa.array(numbers)), payloads.values(numbers))

        groups = self._groups(self._index, blocks)
        batches = list(batch_groups(groups, batch_bytes=self._group_bytes))
        # A single batch is not worth the way to another thread.
        return Entries.concat(list((self._map if len(batches) > 1 else map)(decode, batches)))

    def _check_rows(
        self, rows: pa.LargeBinaryArray, payloads: Payloads, blocks: Sequence[int]
    ) -> None:
        """Refuse blocks whose rows are not where the index says: look-ups would miss them."""
        bounds = [*payloads.firsts.tolist(), len(rows)]
        for block, (first, after) in zip(blocks, pairwise(bounds), strict=True):
            if first == after:
                continue
            late = block + 1 < len(self._rows) and rows[after - 1].as_py() > self._rows[block + 1]
            if rows[first].as_py() < self._rows[block] or late:
                place = self._index[block].offset
                raise FormatError(f"keys of the block at byte {place} that the index denies")

    def _groups(
        self, index: Sequence[IndexEntry], blocks: Iterable[tuple[int, range]]
    ) -> Iterator[BlockRange]:
        return group_blocks(index, blocks, gap_bytes=self._gap_bytes, group_bytes=self._group_bytes)

    def _payloads(
        self, index: Sequence[IndexEntry], group: BlockRange, magic: bytes
    ) -> list[bytes]:
        """What the blocks of a group hold."""
        view = memoryview(self._bytes(group.start, group.end))
        return [self._payload(index[number], magic, view, group.start) for number in group.blocks]

    def _payload(
        self, entry: IndexEntry, magic: bytes, view: memoryview | None = None, start: int = 0
    ) -> bytes:
        """What the block of an index entry holds; `view` begins at `start` of the file."""
        if view is None:
            view, start = memoryview(self._bytes(entry.offset, entry.end)), entry.offset
        codec = self._trailer.codec
        payload = decode_block(view, entry.offset - start, magic=magic, codec=codec, offset=start)
        if payload.end != entry.end:
            raise FormatError(f"the block at byte {entry.offset} is not {entry.size} bytes long")
        return payload.data

    def _block(self, offset: int, magic: bytes) -> tuple[bytes, int]:
        """What a block in the tail holds, and where the next one begins."""
        view, start = memoryview(self._tail.data), self._tail.start
        codec = self._trailer.codec
        return decode_block(view, offset - start, magic=magic, codec=codec, offset=start)

    def _bytes(self, start: int, end: int) -> bytes:
        tail = self._tail
        if start >= tail.start:
            return tail.data[start - tail.start : end - tail.start]
        data = self._read(start, end - start)
        if len(data) != end - start:
            raise FormatError(f"{len(data)} bytes at byte {start} instead of {end - start}")
        return data


def _sorted_binary(keys: pa.Array | pa.ChunkedArray) -> pa.LargeBinaryArray:
    """Each key once, sorted by its bytes."""
    if isinstance(keys, pa.ChunkedArray):
        keys = keys.combine_chunks()
    distinct = pc.unique(keys.drop_null().cast(BINARY))
    return distinct.take(pc.sort_indices(distinct))
