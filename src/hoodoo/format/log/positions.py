"""Record positions: which rows of the base file the records of a block replace.

Base64 of a 64-bit Roaring bitmap in its portable form, little endian:

    uint64  number of buckets, then for each, by rising key:
    uint32  key, the high half of the positions in it
    32-bit Roaring bitmap of the low halves:
        uint32  12346, uint32 number of containers n                  no run containers
      | uint32  12347 + (n - 1 << 16), ceil(n / 8) bytes: bit i = container i is runs
        n times uint16 key (bits 16-31 of the positions), uint16 cardinality - 1
        n times uint32 offset of the container; absent if there are runs and n < 4
        containers: array   up to 4096 values: uint16 each
                    bitmap  more: 8192 bytes, lowest bit first
                    runs    uint16 count, then count times uint16 start, uint16 length - 1

The n-th smallest position belongs to the n-th record of the block.
"""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from hoodoo.errors import FormatError, InputError

Positions = npt.NDArray[np.int64]

_NO_RUNS = 12346
_RUNS = 12347
_ARRAY_LIMIT = 4096
_BITMAP_BYTES = 8192
_OFFSETS_FROM = 4
_MOST = 1 << 26  # more records than any block holds; a few bytes of runs can claim billions


def encode_positions(positions: npt.ArrayLike) -> str:
    """The header text for these positions: distinct row numbers in rising order."""
    values = np.asarray(positions, dtype=np.int64)
    if values.size and (values[0] < 0 or np.any(values[1:] <= values[:-1])):
        raise InputError("positions must be distinct, rising and not negative")
    buckets = list(_split(values, 32))
    parts = [struct.pack("<Q", len(buckets))]
    for key, lows in buckets:
        parts += [struct.pack("<I", key), _encode_bitmap(lows)]
    return base64.b64encode(b"".join(parts)).decode("ascii")


def decode_positions(text: str, *, count: int | None = None) -> Positions:
    """The positions in a header text, rising; `count` is how many records the block has."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise FormatError("record positions are not base64") from None
    cursor = _Cursor(data)
    parts: list[Positions] = []
    total = 0
    last = -1
    for _ in range(cursor.number("<Q", least=8)):
        key = cursor.number("<I")
        if key <= last or key >= 1 << 31:
            raise FormatError("record positions: buckets out of order")
        last = key
        containers = _read_containers(cursor)
        total += sum(container.cardinality for container in containers)
        if total > (_MOST if count is None else count):
            raise FormatError(f"record positions: {total} or more of them")
        for container in containers:
            lows = _read_values(cursor, container).astype(np.int64)
            parts.append(lows + ((key << 32) + (container.key << 16)))
    if cursor.remaining:
        raise FormatError(f"record positions: {cursor.remaining} bytes left over")
    if count is not None and total != count:
        raise FormatError(f"record positions: {total} for {count} records")
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)


def _split(values: Positions, bits: int) -> Iterator[tuple[int, Positions]]:
    """Rising values grouped by all but their lowest bits, which remain."""
    keys, starts = np.unique(values >> bits, return_index=True)
    lows = values & ((1 << bits) - 1)
    bounds = [*starts.tolist(), len(values)]
    for key, (start, end) in zip(keys.tolist(), pairwise(bounds), strict=True):
        yield key, lows[start:end]


def _encode_bitmap(lows: Positions) -> bytes:
    containers = list(_split(lows, 16))
    head = [struct.pack("<II", _NO_RUNS, len(containers))]
    bodies = [_encode_container(values) for _, values in containers]
    head += [struct.pack("<HH", key, len(values) - 1) for key, values in containers]
    offset = 8 + 8 * len(containers)
    for body in bodies:
        head.append(struct.pack("<I", offset))
        offset += len(body)
    return b"".join(head + bodies)


def _encode_container(values: Positions) -> bytes:
    if len(values) <= _ARRAY_LIMIT:
        return values.astype("<u2").tobytes()
    bits = np.zeros(1 << 16, dtype=np.uint8)
    bits[values] = 1
    return np.packbits(bits, bitorder="little").tobytes()


@dataclass(frozen=True, slots=True)
class _Container:
    key: int
    cardinality: int
    is_runs: bool


class _Cursor:
    """A place in bytes that never moves past their end."""

    __slots__ = ("_data", "_pos")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._pos = 0

    @property
    def remaining(self) -> int:
        return len(self._data) - self._pos

    def number(self, form: str, *, least: int = 0) -> int:
        """The next number; if it counts things of at least `least` bytes, they must fit."""
        (value,) = struct.unpack(form, self.take(struct.calcsize(form)))
        if value * least > self.remaining:
            raise FormatError(f"record positions: {value} parts do not fit")
        return int(value)

    def take(self, size: int) -> bytes:
        if size > self.remaining:
            raise FormatError("record positions end too early")
        self._pos += size
        return self._data[self._pos - size : self._pos]


def _read_containers(cursor: _Cursor) -> list[_Container]:
    cookie = cursor.number("<I")
    if cookie == _NO_RUNS:
        number = cursor.number("<I", least=8)
        runs = np.zeros(number, dtype=np.uint8)
    elif cookie & 0xFFFF == _RUNS:
        number = (cookie >> 16) + 1
        flags = np.frombuffer(cursor.take((number + 7) // 8), dtype=np.uint8)
        runs = np.unpackbits(flags, bitorder="little")[:number]
    else:
        raise FormatError(f"record positions: cookie {cookie} is no Roaring bitmap")
    head = np.frombuffer(cursor.take(4 * number), dtype="<u2").reshape(-1, 2).astype(np.int64)
    if np.any(head[1:, 0] <= head[:-1, 0]):
        raise FormatError("record positions: containers out of order")
    if cookie == _NO_RUNS or number >= _OFFSETS_FROM:
        cursor.take(4 * number)  # offsets; the containers follow each other without gaps
    return [
        _Container(int(key), int(less) + 1, bool(is_runs))
        for (key, less), is_runs in zip(head, runs, strict=True)
    ]


def _read_values(cursor: _Cursor, container: _Container) -> npt.NDArray[np.integer]:
    values: npt.NDArray[np.integer]
    if container.is_runs:
        number = cursor.number("<H", least=4)
        runs = np.frombuffer(cursor.take(4 * number), dtype="<u2").reshape(-1, 2).astype(np.int64)
        sizes = runs[:, 1] + 1
        if sizes.sum() != container.cardinality:
            raise FormatError("record positions: a container's runs do not add up")
        ends = np.cumsum(sizes)
        values = np.repeat(runs[:, 0] - (ends - sizes), sizes) + np.arange(container.cardinality)
    elif container.cardinality <= _ARRAY_LIMIT:
        values = np.frombuffer(cursor.take(2 * container.cardinality), dtype="<u2")
    else:
        words = np.frombuffer(cursor.take(_BITMAP_BYTES), dtype=np.uint8)
        values = np.flatnonzero(np.unpackbits(words, bitorder="little"))
    if len(values) != container.cardinality:
        raise FormatError("record positions: a container's bits do not add up")
    if values[-1] > 0xFFFF or np.any(values[1:] <= values[:-1]):
        raise FormatError("record positions: values out of order")
    return values
