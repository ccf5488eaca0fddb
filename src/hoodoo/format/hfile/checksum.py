"""Checksums of blocks: CRC32 and CRC32C of each slice of `bytes_per_checksum` bytes.

Only files that HBase wrote have them (tables of before Hudi 1.1), so CRC32C is worth no dependency:
it is computed here with numpy, at some 50 MB a second. A CRC is linear: that of two
pieces is that of the first, moved on by the length of the second, XOR that of the second. So it is
computed for all bytes at once, then for pairs, pairs of pairs and so on.
"""

from __future__ import annotations

import zlib
from enum import IntEnum
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

_POLYNOMIAL = 0x82F63B78  # Castagnoli, bits reversed
_ONES = 0xFFFFFFFF
_Words = npt.NDArray[np.uint32]


class ChecksumType(IntEnum):
    """What the checksums of a block are; the value is the one in its header."""

    NONE = 0
    CRC32 = 1
    CRC32C = 2


def checksums(data: bytes | memoryview, kind: ChecksumType, bytes_per_checksum: int) -> bytes:
    """The checksums as they follow `data` on disk."""
    crc = zlib.crc32 if kind is ChecksumType.CRC32 else crc32c
    parts = (
        crc(data[at : at + bytes_per_checksum]) for at in range(0, len(data), bytes_per_checksum)
    )
    return b"".join(part.to_bytes(4, "big") for part in parts)


def crc32c(data: bytes | memoryview) -> int:
    """CRC32C (Castagnoli) of some bytes."""
    size = len(data)
    width = 1 << max(size - 1, 0).bit_length()
    padded = np.zeros(width, dtype=np.uint8)
    padded[width - size :] = np.frombuffer(data, dtype=np.uint8)  # zeros in front change nothing
    words: Any = _byte_table()[padded]
    moved = 1
    while len(words) > 1:
        words = _move(words[0::2], moved) ^ words[1::2]
        moved *= 2
    # The register starts with ones: they count as if they stood before the data.
    start = np.array([_ONES], dtype=np.uint32)
    for bit in range(size.bit_length()):
        if size >> bit & 1:
            start = _move(start, 1 << bit)
    return int(words[0] ^ start[0]) ^ _ONES


@cache
def _byte_table() -> _Words:
    """The CRC of each byte, with a register that starts with zeros."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, table >> 1 ^ _POLYNOMIAL, table >> 1).astype(np.uint32)
    return table


def _move(crcs: _Words, size: int) -> _Words:
    """CRCs as they are after `size` (a power of two) zero bytes."""
    tables = _move_tables(size)
    moved = tables[0][crcs & 0xFF] ^ tables[1][crcs >> 8 & 0xFF]
    return np.asarray(moved ^ tables[2][crcs >> 16 & 0xFF] ^ tables[3][crcs >> 24])


@cache
def _move_tables(size: int) -> tuple[_Words, ...]:
    """What `size` zero bytes make of each value of each byte of a register."""
    columns = [np.arange(256, dtype=np.uint32) << np.uint32(8 * byte) for byte in range(4)]
    if size == 1:
        return tuple((column >> 8) ^ _byte_table()[column & 0xFF] for column in columns)
    half = size // 2
    return tuple(_move(_move(column, half), half) for column in columns)
