"""Thrift's compact encoding to and from plain values: what the footers of Parquet files are in.

struct   fields until a zero byte; a field is a byte with its type in the low four bits and,
         in the high four, what its id is above the id before (0: the id follows, zigzag)
list     a byte with the type of the elements and, in the high four bits, their number
         (15: the number follows), then the elements
binary   length, bytes            i16, i32, i64   zigzag varints
double   8 bytes little endian    boolean         in the type: 1 true, 2 false
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from hoodoo.errors import FormatError

Struct = dict[int, Any]
"""The fields of a struct by id."""

_MAX_DEPTH = 32
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 12
_I16, _I32, _I64 = _INTEGERS = (4, 5, 6)


@dataclass(frozen=True, slots=True)
class ThriftType:
    """How a field is written: its type, and what its elements or its own fields are."""

    type: int
    elements: ThriftType | None = None
    fields: Mapping[int, ThriftType] | None = None


BOOLEAN: Final = ThriftType(_TRUE)
I16: Final = ThriftType(_I16)
I32: Final = ThriftType(_I32)
I64: Final = ThriftType(_I64)
BINARY: Final = ThriftType(_BINARY)


def list_of(elements: ThriftType) -> ThriftType:
    """A list."""
    return ThriftType(_LIST, elements=elements)


def struct_of(fields: Mapping[int, ThriftType]) -> ThriftType:
    """A struct with these fields; others of a value are not written."""
    return ThriftType(_STRUCT, fields=dict(sorted(fields.items())))


LIST_SPAN: Final = ThriftType(_LIST)
"""A list that is encoded already, as `field_spans` gives it."""


def read_struct(data: bytes, at: int = 0) -> Struct:
    """The struct that begins at a place; structs inside are structs, lists are lists."""
    try:
        return _read_struct(data, at, 0)[0]
    except (IndexError, struct.error):
        raise FormatError("Thrift struct is cut off") from None


def field_spans(data: bytes) -> dict[int, bytes]:
    """The fields of a struct by id, still encoded."""
    spans: dict[int, bytes] = {}
    number = at = 0
    try:
        while head := data[at]:
            number, begin = number + (head >> 4), at + 1
            if head < 16:
                number, begin = _read_signed(data, at + 1)
            kind = head & 15
            at = begin if kind in (_TRUE, _FALSE) else _read_value(data, begin, kind, 0)[1]
            spans[number] = data[begin:at]
    except (IndexError, struct.error):
        raise FormatError("Thrift struct is cut off") from None
    return spans


def write_struct(kind: ThriftType, values: Struct) -> bytes:
    """A struct, encoded."""
    out = bytearray()
    _write_struct(out, kind, values)
    return bytes(out)


def _write_struct(out: bytearray, kind: ThriftType, values: Struct) -> None:
    before = 0
    for number, field in (kind.fields or {}).items():
        value = values.get(number)
        if value is None:
            continue
        type_ = field.type if field is not BOOLEAN or value else _FALSE
        step = number - before
        if 0 < step < 16:
            out.append(step << 4 | type_)
        else:
            out.append(type_)
            _write_signed(out, number)
        before = number
        if field is not BOOLEAN:
            _write_value(out, field, value)
    out.append(0)


def _write_value(out: bytearray, kind: ThriftType, value: Any) -> None:
    if isinstance(value, bytes):
        if kind.type == _BINARY:
            _write_number(out, len(value))
        out += value
    elif kind.type in _INTEGERS:
        _write_signed(out, value)
    elif kind.type == _STRUCT:
        _write_struct(out, kind, value)
    elif kind.elements is not None:
        head = min(len(value), 15) << 4 | kind.elements.type
        out.append(head)
        if len(value) > 14:
            _write_number(out, len(value))
        for element in value:
            _write_value(out, kind.elements, element)
    else:
        raise TypeError(f"cannot write {type(value).__name__} as Thrift type {kind.type}")


def _write_signed(out: bytearray, number: int) -> None:
    _write_number(out, number << 1 if number >= 0 else (-number << 1) - 1)


def _write_number(out: bytearray, number: int) -> None:
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)


# Each function takes the data and a place, and gives a value and the place behind it: in Python
# this is twice as fast as a reader that keeps its place, and footers are long.


def _read_struct(data: bytes, at: int, depth: int) -> tuple[Struct, int]:
    if depth > _MAX_DEPTH:
        raise FormatError(f"Thrift struct nests deeper than {_MAX_DEPTH}")
    fields: Struct = {}
    number = 0
    while head := data[at]:
        at += 1
        if head > 15:
            number += head >> 4
        else:
            number, at = _read_signed(data, at)
        kind = head & 15
        if kind in _INTEGERS:
            fields[number], at = _read_signed(data, at)
        elif kind in (_TRUE, _FALSE):
            fields[number] = kind == _TRUE
        else:
            fields[number], at = _read_value(data, at, kind, depth)
    return fields, at + 1


def _read_value(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in _INTEGERS:
        return _read_signed(data, at)
    if kind == _BINARY:
        size, at = _read_number(data, at)
        if at + size > len(data):
            raise IndexError
        return data[at : at + size], at + size
    if kind == _STRUCT:
        return _read_struct(data, at, depth + 1)
    if kind in (_LIST, _SET):
        return _read_list(data, at, depth + 1)
    if kind == _DOUBLE:
        return struct.unpack_from("<d", data, at)[0], at + 8
    if kind in (_TRUE, _FALSE, _BYTE):  # in a list, a boolean is a byte
        return data[at], at + 1
    raise FormatError(f"Thrift type {kind} is not one of Parquet's")


def _read_list(data: bytes, at: int, depth: int) -> tuple[list[Any], int]:
    if depth > _MAX_DEPTH:
        raise FormatError(f"Thrift list nests deeper than {_MAX_DEPTH}")
    head, at = data[at], at + 1
    count = head >> 4
    if count == 15:
        count, at = _read_number(data, at)
    values = []
    for _ in range(count):  # a count that lies ends with the data: no element takes no byte
        value, at = _read_value(data, at, head & 15, depth)
        values.append(value)
    return values, at


def _read_signed(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    if byte < 128:
        return (byte >> 1) ^ -(byte & 1), at + 1
    number, at = _read_number(data, at)
    return (number >> 1) ^ -(number & 1), at


def _read_number(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while (byte := data[at]) > 127:
        number |= (byte & 127) << shift
        shift += 7
        at += 1
        if shift > 63:
            raise FormatError("Thrift number does not fit 64 bits")
    return number | byte << shift, at + 1
