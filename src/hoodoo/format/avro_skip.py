"""Where the items of Avro arrays and maps lie: the one thing that takes a walk, item by item.

A skip takes the bytes and the place of a value, and gives the place behind it. Each one moves
forward by at least a byte, so a walk ends at the latest where the bytes do (`IndexError`).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from hoodoo.errors import FormatError
from hoodoo.format.avro_schema import AvroField, AvroType

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
