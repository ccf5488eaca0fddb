"""Avro binary of ordering values: raw values off the bytes, columns from raw values, and back.

    null boolean int long float double bytes string date decimal time timestamp   branches 0 to 11
        boolean, int, long, float (4 bytes LE), double (8 bytes LE), bytes, string as in Avro;
        date: int, days; decimal: bytes, the unscaled number of decimal(30,15), big endian;
        time, timestamp: long, microseconds
    array                                                                         branch 12
        union null, array of a union of branches 0 to 11 as above and 12, a local date: int, days

Ints and longs are zigzag varints. An array is blocks of items (count, items), ended by count 0; a
negative count is followed by the size of the block in bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from hoodoo.errors import FormatError
from hoodoo.format.log.ordering import (
    DECIMAL_TYPE,
    ELEMENT,
    ELEMENT_TYPES,
    ORDERING_TYPES,
    K,
    OrderingKind,
    child,
    union_of,
)
from hoodoo.format.unions import codes_and_offsets

Raw: TypeAlias = Any  # int for numbers, bytes for all else, list of (kind, raw) for arrays
Reader: TypeAlias = Callable[[bytes, int], tuple[Raw, int]]

_LOCAL_DATE_BRANCH = 12
_DECIMAL_LIMIT = 10**DECIMAL_TYPE.precision
_WIDTH = {K.FLOAT: 4, K.DOUBLE: 8}
_INT32 = (K.INT, K.DATE, K.LOCAL_DATE)


def read_long(data: bytes, pos: int) -> tuple[int, int]:
    """A zigzag varint, and where it ends. IndexError where the bytes end."""
    byte = data[pos]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), pos + 1
    value = byte & 0x7F
    shift = 7
    while byte >= 0x80:
        if shift > 63:
            raise FormatError("a number of more than 64 bits")
        pos += 1
        byte = data[pos]
        value |= (byte & 0x7F) << shift
        shift += 7
    if value >> 64:
        raise FormatError("a number of more than 64 bits")
    return (value >> 1) ^ -(value & 1), pos + 1


def varint(value: int) -> bytes:
    """A long as Avro writes it."""
    rest = (value << 1) ^ (value >> 63)
    if rest < 0x80:
        return _ONE_BYTE[rest]
    out = bytearray()
    while rest >= 0x80:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


_ONE_BYTE = [bytes([value]) for value in range(0x80)]


def read_bytes(data: bytes, pos: int) -> tuple[bytes, int]:
    """Bytes with their length in front, and where they end."""
    length, pos = read_long(data, pos)
    end = pos + length
    if length < 0 or end > len(data):
        raise FormatError(f"{length} bytes do not fit")
    return data[pos:end], end


def read_count(data: bytes, pos: int, *, least: int) -> tuple[int, int]:
    """The number of items in the next block of an array; each takes at least `least` bytes."""
    count, pos = read_long(data, pos)
    if count < 0:
        count = -count
        _, pos = read_long(data, pos)
    if count * least > len(data) - pos:
        raise FormatError(f"{count} items do not fit")
    return count, pos


def _read_boolean(data: bytes, pos: int) -> tuple[int, int]:
    if data[pos] > 1:
        raise FormatError(f"{data[pos]} is no boolean")
    return data[pos], pos + 1


def _read_fixed(width: int) -> Reader:
    def read(data: bytes, pos: int) -> tuple[bytes, int]:
        if pos + width > len(data):
            raise FormatError("a number ends too early")
        return data[pos : pos + width], pos + width

    return read


def _read_array(data: bytes, pos: int) -> tuple[list[tuple[int, Raw]] | None, int]:
    branch, pos = read_long(data, pos)
    if branch == 0:
        return None, pos
    if branch != 1:
        raise FormatError(f"no array of ordering values has branch {branch}")
    items: list[tuple[int, Raw]] = []
    count, pos = read_count(data, pos, least=1)
    while count:
        for _ in range(count):
            branch, pos = read_long(data, pos)
            if branch == 0:
                items.append((K.NULL, None))
                continue
            kind = K.LOCAL_DATE if branch == _LOCAL_DATE_BRANCH else branch
            reader = _SCALAR_READERS.get(kind)
            if reader is None or branch > _LOCAL_DATE_BRANCH:
                raise FormatError(f"no ordering value in an array has branch {branch}")
            value, pos = reader(data, pos)
            items.append((kind, value))
        count, pos = read_count(data, pos, least=1)
    return items, pos


_SCALAR_READERS: Mapping[int, Reader] = {
    K.BOOLEAN: _read_boolean,
    K.INT: read_long,
    K.LONG: read_long,
    K.FLOAT: _read_fixed(_WIDTH[K.FLOAT]),
    K.DOUBLE: _read_fixed(_WIDTH[K.DOUBLE]),
    K.BYTES: read_bytes,
    K.STRING: read_bytes,
    K.DATE: read_long,
    K.DECIMAL: read_bytes,
    K.TIME_MICROS: read_long,
    K.TIMESTAMP_MICROS: read_long,
    K.LOCAL_DATE: read_long,
}
READERS: Mapping[int, Reader] = {
    kind: _SCALAR_READERS.get(kind, _read_array) for kind in ORDERING_TYPES if kind is not K.NULL
}


def column_of(kind: OrderingKind, raws: Sequence[Raw]) -> pa.Array:
    """The raw values of one kind as an Arrow array."""
    type_ = ORDERING_TYPES.get(kind, ELEMENT_TYPES.get(kind))
    if kind is K.ARRAY:
        return _array_column(raws)
    if kind is K.BOOLEAN:
        return pa.array(np.array(raws, dtype=np.bool_))
    if kind in _WIDTH:
        return pa.array(np.frombuffer(b"".join(raws), dtype=f"<f{_WIDTH[kind]}"))
    if kind is K.BYTES:
        return pa.array(raws, type_)
    if kind is K.STRING:
        try:
            return pa.array(raws, pa.binary()).cast(type_)
        except pa.ArrowInvalid:
            raise FormatError("an ordering value is not UTF-8") from None
    if kind is K.DECIMAL:
        return _decimal_column(raws)
    storage = pa.int32() if kind in _INT32 else pa.int64()
    try:
        return pa.array(raws, storage).view(type_)
    except (pa.ArrowInvalid, OverflowError):
        raise FormatError(f"an ordering value does not fit {kind.name}") from None


def _decimal_column(raws: Sequence[bytes]) -> pa.Array:
    numbers = [int.from_bytes(raw, "big", signed=True) for raw in raws if len(raw) <= 16]
    if len(numbers) != len(raws) or any(abs(number) >= _DECIMAL_LIMIT for number in numbers):
        raise FormatError(f"an ordering value does not fit {DECIMAL_TYPE}")
    words = b"".join(number.to_bytes(16, "little", signed=True) for number in numbers)
    return pa.Array.from_buffers(DECIMAL_TYPE, len(raws), [None, pa.py_buffer(words)])


def _array_column(raws: Sequence[list[tuple[int, Raw]] | None]) -> pa.Array:
    items = [item for raw in raws if raw is not None for item in raw]
    kinds = np.array([kind for kind, _ in items], dtype=np.int8)
    values: dict[OrderingKind, list[Raw]] = {}
    for kind, value in items:
        values.setdefault(K(kind), []).append(value)
    values.pop(K.NULL, None)
    columns = {kind: column_of(kind, of_kind) for kind, of_kind in values.items()}
    ends = np.cumsum([0] + [len(raw or ()) for raw in raws])
    is_null = np.array([raw is None for raw in raws] + [False])
    elements = union_of(kinds, columns, ELEMENT_TYPES)
    return pa.ListArray.from_arrays(
        pa.array(ends, pa.int32(), mask=is_null), elements, type=pa.list_(ELEMENT)
    )


def payloads_of(union: pa.Array, kind: OrderingKind) -> list[bytes]:
    """The values of one kind in a union array as Avro binary, each with its branch in front."""
    values = child(union, kind)
    branch = varint(_LOCAL_DATE_BRANCH if kind is K.LOCAL_DATE else kind)
    return [branch + payload for payload in _encode(kind, values)]


def _encode(kind: OrderingKind, values: pa.Array) -> list[bytes]:
    if kind is K.NULL:
        return [b""] * len(values)
    if kind is K.ARRAY:
        return _encode_arrays(values)
    if kind is K.BOOLEAN:
        return [b"\x01" if value else b"\x00" for value in values.to_pylist()]
    if kind in _WIDTH:
        width = _WIDTH[kind]
        data = values.to_numpy().astype(f"<f{width}").tobytes()
        return [data[at : at + width] for at in range(0, len(data), width)]
    if kind in (K.BYTES, K.STRING):
        texts = values.cast(pa.binary()).to_pylist()
        return [varint(len(text)) + text for text in texts]
    if kind is K.DECIMAL:
        words = values.view(pa.binary(16)).to_pylist()
        return [_minimal(int.from_bytes(word, "little", signed=True)) for word in words]
    storage = pa.int32() if kind in _INT32 else pa.int64()
    return [varint(value) for value in values.view(storage).to_pylist()]


def _minimal(number: int) -> bytes:
    """A number in the fewest bytes of two's complement, big endian, with the length in front."""
    bits = number.bit_length() if number >= 0 else (~number).bit_length()
    size = bits // 8 + 1
    return varint(size) + number.to_bytes(size, "big", signed=True)


def _encode_arrays(lists: pa.Array) -> list[bytes]:
    elements = lists.values
    codes, places = codes_and_offsets(elements)
    payloads = {kind: payloads_of(elements, kind) for kind in map(K, np.unique(codes).tolist())}
    items = [
        payloads[code][place] for code, place in zip(codes.tolist(), places.tolist(), strict=True)
    ]
    starts = lists.offsets.to_pylist()
    out: list[bytes] = []
    for row, is_valid in enumerate(lists.is_valid().to_pylist()):
        if not is_valid:
            out.append(varint(0))
            continue
        encoded_items = items[starts[row] : starts[row + 1]]
        count = varint(len(encoded_items)) if encoded_items else b""
        out.append(b"".join([varint(1), count, *encoded_items, varint(0)]))
    return out
