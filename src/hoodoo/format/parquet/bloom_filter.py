"""Bloom filters over record keys, as base files keep them in their footers.

The text is base64 of these bytes (integers big endian). SIMPLE is one header with its bits,
DYNAMIC_V0 is a header, three numbers, and rows that each are like a SIMPLE one:

    int32   -1, the version
    int32   hashes per key                   header
    int8    1, murmur
    int32   bits in a row

    int32   keys per row
    int32   keys in the last row             DYNAMIC_V0 only
    int32   rows
            header and bits of each row; bit i is bit i % 8, from the lowest, of byte i // 8

Hash number n of a key is 32-bit MurmurHash2 of its UTF-8 bytes, the seed being hash n - 1 (0 for
the first); the bit it stands for is |hash remainder bits|, both signed. The tail of the key goes
in as signed bytes, the first one highest, as in Hadoop's version of the function.
"""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numpy.lib.stride_tricks import sliding_window_view

from hoodoo.errors import FormatError, InputError, UnsupportedVersion

# Defaults of hoodie.index.bloom.num_entries, .fpp and filter.dynamic.max.entries.
ENTRIES = 60_000
FALSE_POSITIVE_RATE = 1e-9
MAX_ENTRIES = 100_000

_VERSION = -1
_MURMUR = 1
_HEADER = struct.Struct(">iibi")
_DYNAMIC = struct.Struct(">iii")

# A rate of 1e-300 takes 997.
_MAX_HASHES = 1024

# So many keys are hashed at a time: their words stay in the processor's cache.
_BATCH = 1 << 14

_MULTIPLIER = 0x5BD1E995
_M = np.uint32(_MULTIPLIER)
_FEW_KEYS = 8


class FilterType(Enum):
    """The two layouts; the value is the type code in the footer."""

    SIMPLE = "SIMPLE"
    DYNAMIC = "DYNAMIC_V0"


@dataclass(frozen=True, slots=True)
class BloomFilter:
    """A filter: the packed bits of its rows (a SIMPLE one has one row), and what made them."""

    type: FilterType
    hashes: int
    bits: int
    rows: tuple[bytes, ...] = field(repr=False)
    row_keys: int = 0
    last_row_keys: int = 0

    @classmethod
    def build(
        cls,
        keys: pa.Array | pa.ChunkedArray,
        *,
        type: FilterType = FilterType.DYNAMIC,
        entries: int = ENTRIES,
        false_positive_rate: float = FALSE_POSITIVE_RATE,
        max_entries: int = MAX_ENTRIES,
    ) -> BloomFilter:
        """The filter that Apache Hudi makes of these keys, given in this order."""
        builder = FilterBuilder(
            type=type,
            entries=entries,
            false_positive_rate=false_positive_rate,
            max_entries=max_entries,
        )
        builder.add(keys)
        return builder.build()

    def might_contain(self, keys: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.bool_]:
        """For each key, False if it was certainly not put in."""
        rows = [np.frombuffer(row, np.uint8) for row in self.rows]
        may_contain = np.zeros(len(keys), np.bool_)
        for index, key_bytes in _batches(keys):
            hits = np.ones((len(rows), len(index)), np.uint8)
            for positions in _positions(key_bytes, self.hashes, self.bits):
                shift = (positions & 7).astype(np.uint8)
                for hit, row in zip(hits, rows, strict=True):
                    hit &= row[positions >> 3] >> shift
                if not hits.any():
                    break
            may_contain[index] = hits.any(axis=0)
        return may_contain

    def encode(self) -> str:
        """The text that a footer holds."""
        header = _HEADER.pack(_VERSION, self.hashes, _MURMUR, self.bits)
        data = b"".join(header + row for row in self.rows)
        if self.type is FilterType.DYNAMIC:
            counts = _DYNAMIC.pack(self.row_keys, self.last_row_keys, len(self.rows))
            data = header + counts + data
        return base64.b64encode(data).decode()

    @classmethod
    def decode(cls, text: str | bytes, type_code: str) -> BloomFilter:
        """The filter of a footer's text and type code."""
        try:
            type_ = FilterType(type_code.upper())
        except ValueError:
            raise UnsupportedVersion(what="bloom filter type", version=type_code) from None
        try:
            data = base64.b64decode(text, validate=True)
        except ValueError:
            raise FormatError("bloom filter is not base64") from None
        hashes, bits = _decode_header(data, 0)
        at, row_keys, last_row_keys, count = 0, 0, 0, 1
        if type_ is FilterType.DYNAMIC:
            at = _HEADER.size + _DYNAMIC.size
            if len(data) < at:
                raise FormatError("bloom filter is cut off")
            row_keys, last_row_keys, count = _DYNAMIC.unpack_from(data, _HEADER.size)
        size = _HEADER.size + (bits + 7) // 8
        if count < 1 or row_keys < 0 or last_row_keys < 0 or len(data) != at + count * size:
            raise FormatError(f"bloom filter of {count} rows of {bits} bits has {len(data)} bytes")
        rows = []
        for start in range(at, len(data), size):
            if _decode_header(data, start) != (hashes, bits):
                raise FormatError("rows of a bloom filter differ in size")
            rows.append(data[start + _HEADER.size : start + size])
        return cls(type_, hashes, bits, tuple(rows), row_keys, last_row_keys)


class FilterBuilder:
    """A filter in the making, for keys that come in several batches."""

    def __init__(
        self,
        *,
        type: FilterType = FilterType.DYNAMIC,
        entries: int = ENTRIES,
        false_positive_rate: float = FALSE_POSITIVE_RATE,
        max_entries: int = MAX_ENTRIES,
        crowding: int = 1,
    ) -> None:
        """`crowding`: how many times the keys it is sized for it will take; the more, the fewer
        hashes of each key are best. Readers are told how many there are.
        """
        self._bits, best = _dimensions(entries, false_positive_rate)
        self._type = type
        self._entries = entries
        self._most_rows = max(1, -(-max_entries // entries))
        self._hashes = -(-best // crowding)
        self._keys = 0
        self._flags = np.zeros((1, self._bits), np.bool_)

    def add(self, keys: pa.Array | pa.ChunkedArray) -> None:
        """Put keys in."""
        if keys.null_count:
            raise InputError("a record key is null")
        row_of = self._rows_of(len(keys))
        self._keys += len(keys)
        missing = self._count_rows() - len(self._flags)
        if missing:
            more = np.zeros((missing, self._bits), np.bool_)
            self._flags = np.concatenate([self._flags, more])
        flags = self._flags.ravel()
        for index, key_bytes in _batches(keys):
            offsets = row_of[index] * self._bits
            for positions in _positions(key_bytes, self._hashes, self._bits):
                flags[offsets + positions] = True

    def build(self) -> BloomFilter:
        """The filter of all keys so far."""
        row_keys, last_row_keys = 0, 0
        if self._type is FilterType.DYNAMIC:
            row_keys = self._entries
            last_row_keys = self._keys - self._entries * (len(self._flags) - 1)
        bit_rows = np.packbits(self._flags, axis=1, bitorder="little")
        rows = tuple(map(bytes, bit_rows))
        return BloomFilter(self._type, self._hashes, self._bits, rows, row_keys, last_row_keys)

    def _count_rows(self) -> int:
        if self._type is FilterType.SIMPLE:
            return 1
        return min(self._most_rows, max(1, -(-self._keys // self._entries)))

    def _rows_of(self, count: int) -> npt.NDArray[np.int64]:
        """The row of each of the next keys.

        Rows fill up one by one. When there are rows for `max_entries` keys, none is added: one
        more key goes to the first row, and those after it to all rows in turn.
        """
        if self._type is FilterType.SIMPLE:
            return np.zeros(count, np.int64)
        at = np.arange(self._keys, self._keys + count)
        full = self._most_rows * self._entries
        turn = np.maximum(at - full - 1, 0) % self._most_rows
        return np.where(at < full, at // self._entries, turn)


def _decode_header(data: bytes, at: int) -> tuple[int, int]:
    if len(data) < at + _HEADER.size:
        raise FormatError("bloom filter is cut off")
    version, hashes, kind, bits = _HEADER.unpack_from(data, at)
    if version != _VERSION or kind != _MURMUR:
        raise UnsupportedVersion(what="bloom filter version and hash", version=(version, kind))
    if bits < 1 or not 1 <= hashes <= _MAX_HASHES:
        raise FormatError(f"bloom filter of {bits} bits and {hashes} hashes")
    return hashes, bits


def _dimensions(entries: int, false_positive_rate: float) -> tuple[int, int]:
    """Bits of a row and hashes of a key, so that `entries` keys give that rate."""
    if entries < 1 or not 0 < false_positive_rate < 1:
        raise InputError(f"no bloom filter for {entries} keys at a rate of {false_positive_rate}")
    bits = math.ceil(entries * (-math.log(false_positive_rate) / (math.log(2) * math.log(2))))
    if bits >= 2**31:
        raise InputError(f"a bloom filter for {entries} keys has 2 ** 31 bits or more")
    return bits, math.ceil(math.log(2) * bits / entries)


def _batches(
    keys: pa.Array | pa.ChunkedArray,
) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]]:
    """Keys of one length at a time: where they are in `keys`, and their bytes as matrix rows."""
    texts = keys.cast(pa.large_string()).fill_null("")
    if isinstance(texts, pa.ChunkedArray):
        texts = pa.concat_arrays(texts.chunks or [pa.array([], pa.large_string())])
    if not len(texts):
        return
    _, offset_buffer, data_buffer = texts.buffers()
    offsets = np.frombuffer(offset_buffer, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    data = np.frombuffer(data_buffer or b"", np.uint8)
    lengths = np.diff(offsets)
    order = np.argsort(lengths, kind="stable")
    sizes, firsts = np.unique(lengths[order], return_index=True)
    for size, group in zip(sizes.tolist(), np.split(order, firsts[1:]), strict=True):
        for start in range(0, len(group), _BATCH):
            index = group[start : start + _BATCH]
            if size:
                yield index, sliding_window_view(data, size)[offsets[index]]
            else:
                yield index, np.empty((len(index), 0), np.uint8)


def _positions(
    key_bytes: npt.NDArray[np.uint8], hashes: int, bits: int
) -> Iterator[npt.NDArray[np.int32]]:
    """The bits of these keys: for each of the hashes, one of every key."""
    count, length = key_bytes.shape
    whole = length // 4 * 4
    words = np.ascontiguousarray(np.ascontiguousarray(key_bytes[:, :whole]).view("<u4").T)
    words *= _M
    words ^= words >> 24
    words *= _M
    tail = np.zeros(count, np.uint32)
    for place in range(whole, length):
        signed_bytes = key_bytes[:, place].view(np.int8).astype(np.int32)
        tail ^= (signed_bytes << (8 * (length - 1 - place))).view(np.uint32)
    seed = np.zeros(count, np.uint32)
    few = words.T.tolist() if count < _FEW_KEYS else None
    for _ in range(hashes):
        seed ^= np.uint32(length)
        if few is None:
            for word in words:
                seed *= _M
                seed ^= word
        else:
            seed[:] = [_mix_words(int(of_key), own) for of_key, own in zip(seed, few, strict=True)]
        if whole < length:
            seed ^= tail
            seed *= _M
        seed ^= seed >> 13
        seed *= _M
        seed ^= seed >> 15
        yield np.abs(np.fmod(seed.view(np.int32), np.int32(bits)))


def _mix_words(seed: int, words: list[int]) -> int:
    """The same for one key: numbers of Python are quicker than arrays of a few."""
    for word in words:
        seed = (seed * _MULTIPLIER & 0xFFFFFFFF) ^ word
    return seed
