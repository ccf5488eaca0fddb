"""Thrift's compact encoding, read into plain values: what the footers of Parquet files are in.

struct   fields until a zero byte; a field is a byte with its type in the low four bits and,
         in the high four, what its id is above the id before (0: the id follows, zigzag)
list     a byte with the type of the elements and, in the high four bits, their number
         (15: the number follows), then the elements
binary   length, bytes            i16, i32, i64   zigzag varints
double   8 bytes little endian    boolean         in the type: 1 true, 2 false
"""

from __future__ import annotations

import struct
from typing import Any

from hoodoo.errors import FormatError

Struct = dict[int, Any]
"""The fields of a struct by id."""

_MAX_DEPTH = 32


def read_struct(data: bytes, at: int = 0) -> Struct:
    """The struct that begins at a place; structs inside are structs, lists are lists."""
    try:
        return _Reader(data, at).struct(0)
    except (IndexError, struct.error):
        raise FormatError("Thrift struct is cut off") from None


class _Reader:
    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self._at = at

    def struct(self, depth: int) -> Struct:
        if depth > _MAX_DEPTH:
            raise FormatError(f"Thrift struct nests deeper than {_MAX_DEPTH}")
        fields: Struct = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._signed()
            kind = head & 15
            fields[number] = kind == 1 if kind in (1, 2) else self._value(kind, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (4, 5, 6):
            return self._signed()
        if kind == 8:
            return self._bytes(self._number())
        if kind == 12:
            return self.struct(depth + 1)
        if kind in (9, 10):
            head = self._byte()
            count = self._number() if head >> 4 == 15 else head >> 4
            # Each element takes a byte at least, so a count that lies ends with the data.
            return [self._element(head & 15, depth + 1) for _ in range(count)]
        if kind == 7:
            return struct.unpack("<d", self._bytes(8))[0]
        if kind == 3:
            return self._byte()
        raise FormatError(f"Thrift type {kind} is not one of Parquet's")

    def _element(self, kind: int, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise FormatError(f"Thrift list nests deeper than {_MAX_DEPTH}")
        return self._byte() == 1 if kind in (1, 2) else self._value(kind, depth)

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _bytes(self, count: int) -> bytes:
        start = self._at
        self._at += count
        if self._at > len(self._data):
            raise IndexError
        return self._data[start : self._at]

    def _number(self) -> int:
        number = shift = 0
        while (byte := self._byte()) > 127:
            number |= (byte & 127) << shift
            shift += 7
        return number | byte << shift

    def _signed(self) -> int:
        number = self._number()
        return (number >> 1) ^ -(number & 1)
