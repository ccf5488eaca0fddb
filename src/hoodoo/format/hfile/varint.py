"""Numbers of variable length, of two families, and messages of protobuf.

protobuf    7 bits a byte, lowest first, the high bit set on all but the last byte
Hadoop      -112 to 127: one byte; else -112 - n (-120 - n, for ~v), then n bytes, big endian
message     fields: protobuf number (field << 3 | wire type), then
            type 0: protobuf number; type 2: length as protobuf number, bytes
"""

from __future__ import annotations

from collections.abc import Iterable

from hoodoo.errors import FormatError

_NUMBER, _BYTES = 0, 2  # wire types


def encode_varint(value: int) -> bytes:
    """A protobuf number."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def decode_varint(data: bytes, pos: int) -> tuple[int, int]:
    """A protobuf number, and where it ends."""
    value = 0
    for shift in range(0, 70, 7):
        if pos >= len(data):
            raise FormatError("a number runs past the end")
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, pos
    raise FormatError("a number of more than ten bytes")


def encode_hadoop(value: int) -> bytes:
    """A Hadoop number that is not negative."""
    if value <= 127:
        return bytes([value])
    size = (value.bit_length() + 7) // 8
    return bytes([256 - 112 - size]) + value.to_bytes(size, "big")


def decode_hadoop(data: bytes, pos: int) -> tuple[int, int]:
    """A Hadoop number, and where it ends."""
    if pos >= len(data):
        raise FormatError("a number runs past the end")
    first = data[pos] - 256 if data[pos] > 127 else data[pos]
    pos += 1
    if first >= -112:
        return first, pos
    size = -112 - first if first >= -120 else -120 - first
    if pos + size > len(data):
        raise FormatError("a number runs past the end")
    value = int.from_bytes(data[pos : pos + size], "big")
    return (value if first >= -120 else ~value), pos + size


def encode_message(fields: Iterable[tuple[int, int | bytes]]) -> bytes:
    """A message of numbers and bytes, in the order of `fields`."""
    parts: list[bytes] = []
    for field, value in fields:
        if isinstance(value, int):
            parts += (encode_varint(field << 3 | _NUMBER), encode_varint(value))
        else:
            parts += (encode_varint(field << 3 | _BYTES), encode_varint(len(value)), value)
    return b"".join(parts)


def decode_message(data: bytes) -> list[tuple[int, int | bytes]]:
    """The fields of a message, in order."""
    fields: list[tuple[int, int | bytes]] = []
    pos = 0
    while pos < len(data):
        tag, pos = decode_varint(data, pos)
        number, pos = decode_varint(data, pos)
        value: int | bytes = number
        if tag & 7 == _BYTES:
            if number > len(data) - pos:
                raise FormatError(f"a field of {number} bytes does not fit")
            value = data[pos : pos + number]
            pos += number
        elif tag & 7 != _NUMBER:
            raise FormatError(f"a field of wire type {tag & 7}")
        fields.append((tag >> 3, value))
    return fields
