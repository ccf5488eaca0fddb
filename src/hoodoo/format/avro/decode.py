"""Avro binary records into Arrow columns, all records at once.

Avro binary, field after field, nothing between them:

    boolean      1 byte, 0 or 1
    int, long    zigzag, then 7 bits a byte from the lowest, high bit set on all but the last
    float        4 bytes little endian                double      8 bytes little endian
    bytes        long length, bytes                   string      the same, UTF-8
    fixed        its bytes                            enum        int, index of the symbol
    union        long index of the branch, then its value (null: nothing)
    array        blocks until a count of 0: long count, items; a negative count stands for
                 its absolute value and is followed by a long, the size of the block in bytes
    map          as an array of pairs: string key, value
    decimal      of bytes or fixed: two's complement, big endian

Every record has a cursor, an element of the array `at`; decoding a field moves all cursors by
array operations. Only where the items of arrays and maps lie is found by a loop (a skip);
then they are decoded all at once. No cursor is ever beyond its record's end.

A skip takes the bytes and the place of a value, and gives the place behind it. Each one moves
forward by at least a byte, so a walk ends at the latest where the bytes do (`IndexError`).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt
from numpy.lib.stride_tricks import sliding_window_view

from hoodoo.errors import FormatError
from hoodoo.format.arrow_types import dense_union
from hoodoo.format.avro.schema import AvroField, AvroType

# -- skips: where the items of arrays and maps lie -------------------------------------------------


Ints = npt.NDArray[np.int64]
Skip = Callable[[bytes, int], int]

_FIXED_SIZES = {"boolean": 1, "float": 4, "double": 8}


def find_items(data: bytes, skip_item: Skip, at: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """Offsets of each array in the list of all items, and where each item begins.

    The arrays begin at the cursors `at`, which move behind them.
    """
    starts: list[int] = []
    counts = [0]
    for row, (place, end) in enumerate(zip(at.tolist(), ends.tolist(), strict=True)):
        before = len(starts)
        try:
            behind = _walk(data, skip_item, place, end, starts)
        except IndexError:
            behind = len(data)
        if behind > end:
            raise FormatError("Avro array is longer than its record")
        at[row] = behind
        counts.append(len(starts) - before)
    offsets = np.fromiter(accumulate(counts), np.int64, len(counts))
    return offsets, np.array(starts, np.int64)


def skip_of(field: AvroField) -> Skip:
    """How to step over a value of the field."""
    skip_value = _skip_value(field.type)
    if not field.in_union:
        return skip_value
    branch = field.branch

    def skip(data: bytes, at: int) -> int:
        number, at = _long(data, at)
        return skip_value(data, at) if number == branch else at

    return skip


def skip_entry_of(field: AvroField) -> Skip:
    """How to step over an entry of a map: a key, and a value of the field."""
    behind = _fixed_behind_number(field)
    if behind is not None:
        return _skip_text_and_number(behind)
    skip_value = skip_of(field)
    return lambda data, at: skip_value(data, _skip_bytes(data, at))


def _fixed_behind_number(field: AvroField) -> int | None:
    """How many bytes follow the number that a value is; None if it is anything else."""
    kinds = [one.type for one in field.type.fields if not one.in_union]
    if field.in_union or field.type.kind != "record" or len(kinds) != len(field.type.fields):
        return None
    if not kinds or kinds[0].kind not in ("int", "long"):
        return None
    sizes = [one.size or _FIXED_SIZES.get(one.kind, 0) for one in kinds[1:]]
    return sum(sizes) if all(sizes) else None


def _skip_text_and_number(behind: int) -> Skip:
    """Steps over a file of a metadata table's listing, of which there are many, in one call."""

    def skip(data: bytes, at: int) -> int:
        low, high = data[at], data[at + 1]
        if low > 127 and high < 128 and not low & 1:  # a length of two bytes, not negative
            at += 2 + ((low & 127 | high << 7) >> 1)
        else:
            at = _skip_bytes(data, at)
        while data[at] > 127:
            at += 1
        return at + 1 + behind

    return skip


def _skip_value(type_: AvroType) -> Skip:
    size = type_.size or _FIXED_SIZES.get(type_.kind, 0)
    if size:
        return lambda data, at: at + size
    if type_.kind in ("int", "long", "enum"):
        return _skip_number
    if type_.kind in ("bytes", "string"):
        return _skip_bytes
    if type_.kind == "union":
        return _skip_union([skip_of(field) for field in type_.fields])
    if type_.kind == "null":
        return lambda data, at: at
    if type_.kind == "record":
        return _skip_record([skip_of(field) for field in type_.fields])
    of_item = skip_of if type_.kind == "array" else skip_entry_of
    skip_item = of_item(type_.fields[0])
    return lambda data, at: _walk(data, skip_item, at, len(data), [])


def _skip_record(skips: list[Skip]) -> Skip:
    def skip(data: bytes, at: int) -> int:
        for one in skips:
            at = one(data, at)
        return at

    return skip


def _skip_union(skips: list[Skip]) -> Skip:
    def skip(data: bytes, at: int) -> int:
        code, at = _long(data, at)
        if not 0 <= code < len(skips):
            raise FormatError("Avro union has no such branch")
        return skips[code](data, at)

    return skip


def _skip_number(data: bytes, at: int) -> int:
    while data[at] > 127:
        at += 1
    return at + 1


def _skip_bytes(data: bytes, at: int) -> int:
    first = data[at]
    if first < 128 and not first & 1:
        return at + 1 + (first >> 1)
    length, at = _long(data, at)
    if length < 0:
        raise FormatError("Avro string of negative length")
    return at + length


def _walk(data: bytes, skip_item: Skip, at: int, end: int, starts: list[int]) -> int:
    """The place behind an array; the places of its items are added to `starts`."""
    while True:
        count, at = _long(data, at)
        if count == 0:
            return at
        if count < 0:
            count = -count
            at = _skip_number(data, at)
        if count > end - at:
            raise FormatError("Avro array is longer than its record")
        for _ in range(count):
            starts.append(at)
            at = skip_item(data, at)


def _long(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    at += 1
    raw = byte & 127
    shift = 7
    while byte > 127:
        byte = data[at]
        at += 1
        raw |= (byte & 127) << shift
        shift += 7
        if shift > 70:
            raise FormatError("Avro number does not fit 64 bits")
    return (raw >> 1) ^ -(raw & 1), at


# -- columns from bytes ----------------------------------------------------------------------------


Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]

# A number takes 10 bytes at most: so far may be read beyond the end of the last record.
_PADDING = bytes(16)

_EACH_BYTE = np.uint64(0x0101010101010101)
_HIGH_BITS = np.uint64(0x8080808080808080)
_ONE = np.uint64(1)


class Decoder:
    """Decodes records that lie one after the other in `data`."""

    def __init__(self, data: bytes) -> None:
        if len(data) >= 2**31:
            raise FormatError("2 GiB of Avro records or more in one piece")
        self._data = data + _PADDING
        self._buffer = pa.py_buffer(self._data)
        self._bytes = np.frombuffer(self._data, np.uint8)

    def records(self, type_: AvroType, starts: Ints, ends: Ints) -> pa.StructArray:
        """The records between these places, in the order of the bytes; each must be filled."""
        at = starts.copy()
        struct = self._value(type_, at, ends)
        if not np.array_equal(at, ends):
            raise FormatError(f"Avro record {np.argmin(at == ends)} is longer than its fields")
        return struct

    def _field(self, field: AvroField, at: Ints, ends: Ints) -> pa.Array:
        if not field.in_union:
            return self._value(field.type, at, ends)
        branches = self._longs(at, ends)
        present = branches == field.branch
        if present.all():
            return self._value(field.type, at, ends)
        others = branches[~present]
        if not field.nullable or (others != 1 - field.branch).any():
            raise FormatError(f"Avro union has no branch {others[0]}")
        rows = present.nonzero()[0]
        if not rows.size:
            return pa.nulls(len(at), field.type.arrow)
        places = at[rows]
        values = self._value(field.type, places, ends[rows])
        at[rows] = places
        return values.take(pa.array(np.cumsum(present) - 1, mask=~present))

    def _value(self, type_: AvroType, at: Ints, ends: Ints) -> pa.Array:
        if not at.size:
            return pa.nulls(0, type_.arrow)
        match type_.kind:
            case "record":
                columns = [self._field(field, at, ends) for field in type_.fields]
                return pa.StructArray.from_arrays(columns, fields=list(type_.arrow))
            case "null":
                return pa.nulls(len(at))
            case "union":
                return self._union(type_, at, ends)
            case "array":
                return self._list(type_, at, ends)
            case "map":
                return self._map(type_, at, ends)
            case "string":
                return _as_text(self._slices(*self._strings(at, ends)))
            case "bytes":
                starts, lengths = self._strings(at, ends)
                if pt.is_decimal(type_.arrow):
                    return self._decimals(type_.arrow, starts, lengths)
                return self._slices(starts, lengths)
            case "enum":
                return self._symbols(type_.symbols, at, ends)
            case "int":
                return _primitive(type_.arrow, _as_int32(self._longs(at, ends)))
            case "long":
                return _primitive(type_.arrow, self._longs(at, ends))
            case "boolean":
                return self._booleans(at, ends)
        size = {"float": 4, "double": 8}.get(type_.kind, type_.size)
        starts = at.copy()
        _advance(at, size, ends)
        if pt.is_decimal(type_.arrow):
            return self._decimals(type_.arrow, starts, np.full(len(at), size))
        return _primitive(type_.arrow, self._rows(starts, size))

    def _union(self, type_: AvroType, at: Ints, ends: Ints) -> pa.Array:
        codes = self._longs(at, ends)
        if ((codes < 0) | (codes >= len(type_.fields))).any():
            raise FormatError("Avro union has no such branch")
        children = [pa.nulls(0, branch.type.arrow) for branch in type_.fields]
        for code in np.unique(codes).tolist():
            rows = (codes == code).nonzero()[0]
            places = at[rows]
            children[code] = self._value(type_.fields[code].type, places, ends[rows])
            at[rows] = places
        return dense_union(type_.arrow, codes, children)

    def _rows(self, starts: Ints, size: int) -> Bytes:
        """The `size` bytes from each place, as rows of a matrix."""
        return sliding_window_view(self._bytes, size)[starts]

    def _longs(self, at: Ints, ends: Ints) -> Ints:
        first = self._bytes[at]
        if (first < 128).all():
            raw = first.astype(np.uint64)
            at += 1
        else:
            raw, sizes = self._long_numbers(at)
            at += sizes
        if (at > ends).any():
            raise _early_end()
        return (raw >> _ONE).astype(np.int64) ^ -(raw & _ONE).astype(np.int64)

    def _long_numbers(self, at: Ints) -> tuple[Words, Ints]:
        """Numbers of up to 10 bytes, still zigzag, and their sizes: eight bytes in one go."""
        word = self._rows(at, 8).view("<u8").ravel()
        last = ~word & _HIGH_BITS
        used_bits = ((last & (~last + _ONE)) << _ONE) - _ONE
        sizes = ((used_bits & _EACH_BYTE) * _EACH_BYTE >> np.uint64(56)).astype(np.int64)
        raw = word & used_bits & ~_HIGH_BITS
        for bits, low in ((1, 0x007F007F007F007F), (2, 0x00003FFF00003FFF), (4, 0x0FFFFFFF)):
            mask = np.uint64(low)
            raw = (raw & mask) | ((raw >> np.uint64(bits)) & (mask << np.uint64(7 * bits)))
        longer = (last == 0).nonzero()[0]
        if longer.size:
            ninth, tenth = self._bytes[at[longer] + 8], self._bytes[at[longer] + 9]
            goes_on = ninth > 127
            if (tenth[goes_on] > 1).any():
                raise FormatError("Avro number does not fit 64 bits")
            raw[longer] |= (ninth & 127).astype(np.uint64) << np.uint64(56)
            raw[longer] |= np.where(goes_on, tenth, 0).astype(np.uint64) << np.uint64(63)
            sizes[longer] += 1 + goes_on
        return raw, sizes

    def _strings(self, at: Ints, ends: Ints) -> tuple[Ints, Ints]:
        lengths = self._longs(at, ends)
        if (lengths < 0).any():
            raise FormatError("Avro string of negative length")
        starts = at.copy()
        _advance(at, lengths, ends)
        return starts, lengths

    def _slices(self, starts: Ints, lengths: Ints) -> pa.BinaryArray:
        # Seen as an array of binaries, the data is: a value, what lies between, a value, ...
        offsets = np.empty(2 * len(starts), np.int32)
        offsets[0::2] = starts
        offsets[1::2] = starts + lengths
        buffers = [None, pa.py_buffer(offsets), self._buffer]
        every = pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)
        return every.take(pa.array(np.arange(0, len(offsets), 2)))

    def _booleans(self, at: Ints, ends: Ints) -> pa.BooleanArray:
        values = self._bytes[at]
        _advance(at, 1, ends)
        if (values > 1).any():
            raise FormatError("Avro boolean is neither 0 nor 1")
        bits = pa.py_buffer(np.packbits(values, bitorder="little"))
        return pa.Array.from_buffers(pa.bool_(), len(at), [None, bits])

    def _symbols(self, symbols: tuple[str, ...], at: Ints, ends: Ints) -> pa.StringArray:
        index = self._longs(at, ends)
        if ((index < 0) | (index >= len(symbols))).any():
            raise FormatError("Avro enum has no such symbol")
        return pa.array(symbols, pa.string()).take(pa.array(index))

    def _decimals(self, arrow: pa.DataType, starts: Ints, lengths: Ints) -> pa.Decimal128Array:
        values = np.empty((len(starts), 16), np.uint8)
        for size in np.unique(lengths).tolist():
            if not size:
                raise FormatError("Avro decimal of no bytes")
            rows = (lengths == size).nonzero()[0]
            values[rows] = _as_int128(self._rows(starts[rows], size))
        column = _primitive(arrow, values)
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as error:
            raise FormatError(f"Avro decimal: {error}") from None
        return column

    def _list(self, type_: AvroType, at: Ints, ends: Ints) -> pa.ListArray:
        offsets, items = find_items(self._data, skip_of(type_.fields[0]), at, ends)
        values = self._field(type_.fields[0], items, np.repeat(ends, np.diff(offsets)))
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values, type_.arrow)

    def _map(self, type_: AvroType, at: Ints, ends: Ints) -> pa.MapArray:
        offsets, items = find_items(self._data, skip_entry_of(type_.fields[0]), at, ends)
        item_ends = np.repeat(ends, np.diff(offsets))
        keys = _as_text(self._slices(*self._strings(items, item_ends)) if items.size else None)
        values = self._field(type_.fields[0], items, item_ends)
        return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), keys, values, type_.arrow)


def _early_end() -> FormatError:
    return FormatError("Avro record ends before its fields do")


def _advance(at: Ints, by: int | Ints, ends: Ints) -> None:
    # Lengths may be absurd: compared before they are added, nothing overflows.
    if (ends - at < by).any():
        raise _early_end()
    at += by


def _primitive(arrow: pa.DataType, values: npt.NDArray[np.generic]) -> pa.Array:
    buffer = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(arrow, len(values), [None, buffer])


def _as_int32(values: Ints) -> npt.NDArray[np.int32]:
    small = values.astype(np.int32)
    if (small != values).any():
        raise FormatError("Avro int does not fit 32 bits")
    return small


def _as_text(values: pa.BinaryArray | None) -> pa.StringArray:
    if values is None:
        return pa.array([], pa.string())
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        raise FormatError("Avro string is not UTF-8") from None


def _as_int128(rows: Bytes) -> Bytes:
    """Big-endian rows of any width as little-endian rows of 16 bytes."""
    sign = np.where(rows[:, :1] > 127, np.uint8(255), np.uint8(0))
    low = rows[:, -16:][:, ::-1]
    values = np.repeat(sign, 16, axis=1)
    values[:, : low.shape[1]] = low
    if rows.shape[1] > 16:
        sign_stays = (values[:, 15:] > 127) == (sign > 127)
        if not sign_stays.all() or (rows[:, :-16] != sign).any():
            raise FormatError("Avro decimal does not fit 128 bits")
    return values
