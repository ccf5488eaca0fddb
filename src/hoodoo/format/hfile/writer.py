"""Writes an HFile as Apache Hudi does: one level of index, no checksums (layout: `layout`)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.errors import InputError
from hoodoo.format.hfile.blocks import compress, encode_block
from hoodoo.format.hfile.entries import BINARY, encode_entries, lengths_of, offsets_of
from hoodoo.format.hfile.index import IndexEntry, encode_root
from hoodoo.format.hfile.layout import (
    DATA,
    FILE_INFO,
    KEY_SUFFIX,
    MAX_ROW,
    META,
    PORTABLE,
    ROOT_INDEX,
    Dialect,
    HFileCodec,
)
from hoodoo.format.hfile.reader import ParallelMap
from hoodoo.format.hfile.trailer import NO_BLOCK, Trailer, encode_file_info, encode_trailer

BLOCK_SIZE = 64 << 10
# Apache Hudi's order, that of a Java hash map; other keys come last.
_INFO_ORDER = (
    b"schema",
    b"bloomFilterTypeCode",
    b"hfile.LASTKEY",
    b"hfile.AVG_VALUE_LEN",
    b"minRecordKey",
    b"hfile.AVG_KEY_LEN",
    b"maxRecordKey",
    b"KEY_VALUE_VERSION",
    b"MAX_MEMSTORE_TS_KEY",
    b"hfile.CREATE_TIME_TS",
)
_NOTHING: Mapping[bytes, bytes] = MappingProxyType({})


def write_hfile(
    keys: pa.Array | pa.ChunkedArray,
    values: pa.Array | pa.ChunkedArray,
    *,
    codec: HFileCodec = HFileCodec.GZIP,
    block_size: int = BLOCK_SIZE,
    meta: Mapping[bytes, bytes] = _NOTHING,
    info: Mapping[bytes, bytes] = _NOTHING,
    created_ms: int = 0,
    dialect: Dialect = PORTABLE,
    map_blocks: ParallelMap = map,
) -> bytes:
    """The bytes of a file with these entries, which are sorted by the bytes of their keys.

    `meta` are named values in blocks of their own; `info` is added to the file info, and readers of
    metadata tables need `schema` there. `map_blocks` compresses the blocks.
    """
    rows, data = _binary(keys), _binary(values)
    _check(rows, data)
    out = _File(codec, dialect)
    index = out.add_data(rows, data, block_size, map_blocks)
    meta_index = []
    for name, value in meta.items():
        offset, size = out.add(META, value)
        meta_index.append(IndexEntry(offset, size, name))
    load_on_open, _ = out.add(ROOT_INDEX, encode_root(index))
    out.add(ROOT_INDEX, encode_root(meta_index))
    facts = _file_info(rows, data, info, created_ms)
    file_info, _ = out.add(FILE_INFO, encode_file_info(facts))
    trailer = Trailer(
        file_info_offset=file_info,
        load_on_open_offset=load_on_open,
        data_bytes=out.data_bytes,
        data_index_count=len(index),
        meta_index_count=len(meta_index),
        num_entries=len(rows),
        first_data_block_offset=index[0].offset if index else NO_BLOCK,
        last_data_block_offset=index[-1].offset if index else 0,
        codec=codec,
    )
    return b"".join((*out.parts, encode_trailer(trailer)))


class _File:
    """The blocks so far."""

    def __init__(self, codec: HFileCodec, dialect: Dialect) -> None:
        self.parts: list[bytes] = []
        self.data_bytes = 0
        self._codec = codec
        self._dialect = dialect
        self._size = 0

    def add(self, magic: bytes, payload: bytes) -> tuple[int, int]:
        """Append the block of a payload; its offset and size."""
        return self._add(
            magic, compress(payload, self._codec, self._dialect.packing), len(payload), -1
        )

    def add_data(
        self,
        rows: pa.LargeBinaryArray,
        values: pa.LargeBinaryArray,
        block_size: int,
        map_blocks: ParallelMap,
    ) -> list[IndexEntry]:
        """Append the data blocks; their index."""
        if len(rows) == 0:
            return []
        entries = encode_entries(rows, values)
        bounds = offsets_of(entries)
        firsts = _cut(rows, bounds, block_size)
        data = memoryview(entries.buffers()[2])
        payloads = [data[start:end] for start, end in pairwise(bounds[[*firsts, -1]].tolist())]
        self.data_bytes = int(bounds[-1])
        packed_payloads = map_blocks(
            lambda payload: compress(payload, self._codec, self._dialect.packing), payloads
        )
        index: list[IndexEntry] = []
        for first, payload, part in zip(firsts, payloads, packed_payloads, strict=True):
            previous = self._size if index else -1  # its own offset, as Apache Hudi has it
            offset, size = self._add(DATA, part, len(payload), previous)
            row = rows[first].as_py()
            suffix = KEY_SUFFIX if self._dialect.whole_index_keys else b""
            index.append(IndexEntry(offset, size, _with_length(row) + suffix))
        return index

    def _add(
        self, magic: bytes, payload: bytes | memoryview, size: int, previous: int
    ) -> tuple[int, int]:
        step = self._dialect.bytes_per_checksum
        block = encode_block(payload, size, magic=magic, bytes_per_checksum=step, previous=previous)
        offset = self._size
        self.parts.append(block)
        self._size += len(block)
        return offset, len(block)


def _cut(rows: pa.LargeBinaryArray, bounds: npt.NDArray[np.int64], block_size: int) -> list[int]:
    """The first entry of each block, of entries that begin and end at `bounds`.

    A block ends before the entry that would make it larger than `block_size`, but entries of one
    key stay in one block.
    """
    changes = np.flatnonzero(pc.not_equal(rows[1:], rows[:-1]).to_numpy(zero_copy_only=False)) + 1
    firsts = [0]
    while True:
        first = firsts[-1]
        full = int(np.searchsorted(bounds, bounds[first] + block_size, side="right")) - 1
        at = int(np.searchsorted(changes, max(full, first + 1)))
        if at == len(changes):
            return firsts
        firsts.append(int(changes[at]))


def _file_info(
    rows: pa.LargeBinaryArray,
    values: pa.LargeBinaryArray,
    info: Mapping[bytes, bytes],
    created_ms: int,
) -> dict[bytes, bytes]:
    count = max(len(rows), 1)
    last = rows[-1].as_py() if len(rows) else b""
    facts = {
        b"hfile.LASTKEY": _with_length(last) if last else b"",
        b"hfile.AVG_KEY_LEN": (int(lengths_of(rows).sum()) // count).to_bytes(4, "big"),
        b"hfile.AVG_VALUE_LEN": (int(lengths_of(values).sum()) // count).to_bytes(4, "big"),
        b"KEY_VALUE_VERSION": (1).to_bytes(4, "big"),
        b"MAX_MEMSTORE_TS_KEY": bytes(8),
        b"hfile.CREATE_TIME_TS": created_ms.to_bytes(8, "big"),
        **info,
    }
    leading_facts = {key: facts.pop(key) for key in _INFO_ORDER if key in facts}
    return leading_facts | facts


def _with_length(row: bytes) -> bytes:
    return len(row).to_bytes(2, "big") + row


def _binary(array: pa.Array | pa.ChunkedArray) -> pa.LargeBinaryArray:
    whole = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    return whole.cast(BINARY)


def _check(rows: pa.LargeBinaryArray, values: pa.LargeBinaryArray) -> None:
    if len(rows) != len(values):
        raise InputError(f"{len(rows)} keys and {len(values)} values for an HFile")
    if rows.null_count or values.null_count:
        raise InputError("an HFile takes no null keys or values")
    if len(rows) == 0:
        return
    if not pc.all(pc.less_equal(rows[:-1], rows[1:])).as_py() and len(rows) > 1:
        raise InputError("the keys of an HFile are sorted by their bytes")
    longest = int(lengths_of(rows).max())
    if longest > MAX_ROW:
        raise InputError(f"a key of {longest} bytes; an HFile takes at most {MAX_ROW}")
