"""Entries of data blocks <-> Arrow arrays, without a Python loop over entries (layout: `layout`).

Entries are a chain: only the lengths of one tell where the next begins. So blocks are cut into
pieces at places that look like the start of an entry, and all pieces are walked at the same time,
one entry of each at a step. The cuts are right if the walk of each piece ends where the next piece
begins; if one does not, the blocks are walked without cuts.

Rows and values are then elements of one Arrow array over the payload, whose offsets are the bounds
of rows, suffixes, values and what lies between; `take` copies those that are wanted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from numpy.lib.stride_tricks import sliding_window_view

from hoodoo.errors import FormatError
from hoodoo.format.hfile.layout import ENTRY_HEAD, KEY_OVERHEAD, KEY_SUFFIX

BINARY = pa.large_binary()
_PIECE = 1 << 13  # bytes; a step of a thousand pieces costs about the same as one of a hundred
_SMALL_PIECE = 1 << 11  # where most pieces are passed over
_FEW_BYTES = 1 << 12  # a wanted key in so many bytes: most small pieces have none
_LONGEST_GUESS = 256  # rows this long are found when looking for the start of an entry
_SMALLEST = 8 + KEY_OVERHEAD + 1
_PUT = 4
_UINT = 0xFFFFFFFF

_Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Entries:
    """Keys and their values, two arrays of large binary of equal length, in order of keys."""

    keys: pa.LargeBinaryArray
    values: pa.LargeBinaryArray

    def __len__(self) -> int:
        return len(self.keys)

    @classmethod
    def concat(cls, parts: Sequence[Entries]) -> Entries:
        """The entries of all parts, one part after another."""
        if not parts:
            return cls(pa.array([], BINARY), pa.array([], BINARY))
        keys = pa.concat_arrays([part.keys for part in parts])
        return cls(keys, pa.concat_arrays([part.values for part in parts]))


class Payloads:
    """The entries of some data blocks; rows and values are copied out when asked for."""

    def __init__(self, blocks: Sequence[bytes], keys: pa.LargeBinaryArray | None = None) -> None:
        """All entries, or those of the pieces that may have any of the `keys` keys.

        `keys` is sorted; with it, no value may hold what looks like an entry.
        """
        data = blocks[0] if len(blocks) == 1 else b"".join(blocks)
        bounds = np.cumsum([0, *map(len, blocks)], dtype=np.int64)
        few = keys is not None and _FEW_BYTES * len(keys) < len(data)
        starts = _chain_some(data, bounds, keys) if keys is not None and few else None
        if starts is None:
            starts = _chain(data, bounds)
        self.firsts: _Places = np.searchsorted(starts, bounds[:-1])  # entry that begins each block
        lengths = _gather(data, ">u8", starts)
        key_lengths, value_lengths = lengths >> 32 & _UINT, lengths & _UINT
        row_lengths = _gather(data, ">u2", starts + 8)
        values = starts + 8 + key_lengths
        raw = np.frombuffer(data, dtype=np.uint8)
        if np.any(row_lengths + KEY_OVERHEAD != key_lengths) or np.any(raw[values - 1] != _PUT):
            raise FormatError("a key with a column family, or of another kind than put")
        if np.any(raw[values + value_lengths]):
            raise FormatError("an entry with an mvcc")
        self._count = len(starts)
        places = np.empty((self._count, 4), dtype=np.int64)
        places[:, 0] = starts + ENTRY_HEAD
        places[:, 1] = places[:, 0] + row_lengths
        places[:, 2] = values
        places[:, 3] = values + value_lengths
        buffers = [None, pa.py_buffer(places), pa.py_buffer(data)]
        self._parts = pa.LargeBinaryArray.from_buffers(BINARY, max(places.size - 1, 0), buffers)

    def __len__(self) -> int:
        return self._count

    def rows(self) -> pa.LargeBinaryArray:
        """The key of each entry; refuses what is not sorted."""
        rows = self._parts.take(pa.array(np.arange(0, 4 * self._count, 4)))
        if len(rows) > 1 and not pc.all(pc.less_equal(rows[:-1], rows[1:])).as_py():
            raise FormatError("the keys are not sorted")
        return rows

    def values(self, places: _Places | None = None) -> pa.LargeBinaryArray:
        """The values of all entries, or of those `places` by their number."""
        numbers = np.arange(self._count, dtype=np.int64) if places is None else places
        return self._parts.take(pa.array(4 * numbers + 2))


def encode_entries(keys: pa.LargeBinaryArray, values: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
    """The bytes of each entry; the array's data, end to end, are the payloads of the blocks."""
    row_lengths, value_lengths = lengths_of(keys), lengths_of(values)
    heads = np.empty(len(keys), dtype=[("key", ">i4"), ("value", ">i4"), ("row", ">i2")])
    heads["key"] = row_lengths + KEY_OVERHEAD
    heads["value"] = value_lengths
    heads["row"] = row_lengths
    offsets = np.arange(len(keys) + 1, dtype=np.int64) * ENTRY_HEAD
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(heads.tobytes())]
    head = pa.LargeBinaryArray.from_buffers(BINARY, len(keys), buffers)
    suffix, mvcc, nothing = (pa.scalar(part, BINARY) for part in (KEY_SUFFIX, b"\0", b""))
    return pc.binary_join_element_wise(head, keys, suffix, values, mvcc, nothing)


def lengths_of(array: pa.LargeBinaryArray) -> _Places:
    """The length of each element."""
    return np.asarray(np.diff(offsets_of(array)))


def offsets_of(array: pa.LargeBinaryArray) -> _Places:
    """Where each element begins in the data of an array, and the last one ends."""
    if len(array) == 0:
        return np.zeros(1, dtype=np.int64)
    offsets = np.frombuffer(array.buffers()[1], dtype=np.int64)
    return offsets[array.offset : array.offset + len(array) + 1]


def _gather(data: bytes, type_: str, places: _Places) -> npt.NDArray[np.int64]:
    """The number at each of these places, which need not be aligned."""
    size = int(type_[-1])
    numbers: Any = np.ndarray((max(len(data) - size + 1, 0),), type_, data, strides=(1,))
    return np.asarray(numbers[places].astype(np.int64))


def _chain(data: bytes, bounds: _Places) -> _Places:
    """Where the entries begin of blocks that begin and end at `bounds`, none of them empty."""
    pieces = _guess_pieces(data, bounds, _PIECE)
    starts = _walk(data, pieces[:-1], pieces[1:]) if len(pieces) > len(bounds) else None
    if starts is None:
        starts = _walk(data, bounds[:-1], bounds[1:])
    if starts is None:
        raise FormatError("entries that do not fill their block")
    return starts


def _chain_some(data: bytes, bounds: _Places, wanted_keys: pa.LargeBinaryArray) -> _Places | None:
    """Where the entries begin of the pieces that may have wanted keys; None if that is not clear.

    What is not walked is not checked: a cut inside a value would hide keys.
    """
    pieces = _guess_pieces(data, bounds, _SMALL_PIECE)
    begins = pieces[:-1]
    if np.any(np.diff(pieces) < _SMALLEST):
        return None
    lengths = _gather(data, ">u2", begins + 8)
    longest = int(max(lengths.max(), lengths_of(wanted_keys).max(initial=0)))
    if not 0 < longest <= _LONGEST_GUESS:
        return None
    rows = _pad_rows(np.frombuffer(data, np.uint8), begins + ENTRY_HEAD, lengths, longest)
    if np.any(rows[1:] < rows[:-1]):
        return None
    offsets = offsets_of(wanted_keys)
    keys = np.frombuffer(wanted_keys.buffers()[2] or b"", np.uint8)
    key_rows = _pad_rows(keys, offsets[:-1], np.diff(offsets), longest)
    # A key that a piece begins with may have begun in the piece before.
    first = np.maximum(np.searchsorted(rows, key_rows, side="left") - 1, 0)
    last = np.maximum(np.searchsorted(rows, key_rows, side="right") - 1, 0)
    if np.any(last - first > 1):
        return None
    is_candidate = np.zeros(len(begins), bool)
    is_candidate[first] = is_candidate[last] = True
    return _walk(data, begins[is_candidate], pieces[1:][is_candidate])


def _pad_rows(
    data: npt.NDArray[np.uint8], places: _Places, lengths: _Places, size: int
) -> npt.NDArray[np.bytes_]:
    """Texts of up to `size` bytes at these places, with NULs behind them; they sort like bytes."""
    if len(data) < size or len(places) == 0:
        data = np.append(data, np.zeros(size, np.uint8))
    # Where too little is left, the text is at the end of an earlier window.
    windows = np.minimum(places, len(data) - size)
    chars = sliding_window_view(data, size)[windows]
    if np.any(lengths != size) or np.any(windows != places):
        columns = np.arange(size)
        at = np.minimum(columns + (places - windows)[:, None], size - 1)
        chars = np.take_along_axis(chars, at, axis=1)
        chars[columns >= lengths[:, None]] = 0
    return chars.view(f"S{size}").ravel()


def _walk(data: bytes, places: _Places, ends: _Places) -> _Places | None:
    """Where entries begin, if every piece from a place to an end is a chain that ends there."""
    if np.any(ends - places < _SMALLEST):
        return None
    pieces = np.arange(len(places))
    counts = np.zeros(len(places), dtype=np.int64)
    steps: list[tuple[_Places, _Places]] = []
    while len(places):
        steps.append((pieces, places))
        lengths = _gather(data, ">u8", places)
        places = places + ((lengths >> 32 & _UINT) + (lengths & _UINT) + 9)  # always further
        sizes = ends - places
        if sizes.min() < _SMALLEST:
            is_finished = sizes == 0
            if np.any((sizes < _SMALLEST) & ~is_finished):
                return None
            counts[pieces[is_finished]] = len(steps)
            pieces, places, ends = pieces[~is_finished], places[~is_finished], ends[~is_finished]
    firsts = np.cumsum(counts) - counts
    starts = np.empty(int(counts.sum()), dtype=np.int64)
    for step, (pieces, places) in enumerate(steps):
        starts[firsts[pieces] + step] = places
    return starts


def _guess_pieces(data: bytes, bounds: _Places, size: int) -> _Places:
    """The bounds, and between them places that look like the start of an entry."""
    find = data.find
    positions = [find(KEY_SUFFIX, cut, cut + size) for cut in range(size, len(data), size)]
    suffixes = np.array(positions, dtype=np.int64)
    suffixes = suffixes[suffixes > _LONGEST_GUESS + ENTRY_HEAD]
    # Most rows are as long as the first one, or else of any length.
    first = int.from_bytes(data[8:ENTRY_HEAD], "big")
    usual, others = _starts_before(data, suffixes, np.array([min(first, _LONGEST_GUESS)]))
    more, _ = _starts_before(data, others, np.arange(_LONGEST_GUESS))
    return np.unique(np.concatenate((bounds, usual, more)))


def _starts_before(data: bytes, suffixes: _Places, rows: _Places) -> tuple[_Places, _Places]:
    """Where an entry begins, if its row has one of these lengths; and the suffixes of no such."""
    if len(suffixes) == 0:
        return suffixes, suffixes
    places = suffixes[:, None] - rows - ENTRY_HEAD
    fits = _gather(data, ">u4", places) == rows + KEY_OVERHEAD
    some = fits.any(axis=1)
    return places[some, fits[some].argmax(axis=1)], suffixes[~some]
