"""One block of an HFile <-> its payload (layout: `layout`).

Checksums are CRC32 or CRC32C of each slice of `bytes_per_checksum` bytes. Only files that HBase
wrote have them (tables of before Hudi 1.1), so CRC32C is worth no dependency:
it is computed here with numpy, at some 50 MB a second. A CRC is linear: that of two
pieces is that of the first, moved on by the length of the second, XOR that of the second. So it is
computed for all bytes at once, then for pairs, pairs of pairs and so on.
"""

from __future__ import annotations

import zlib
from enum import IntEnum
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hoodoo.errors import CorruptBlock, UnsupportedVersion
from hoodoo.format.hfile.layout import BLOCK_HEADER, HFileCodec, ZlibSettings

# -- checksums -------------------------------------------------------------------------------------


_POLYNOMIAL = 0x82F63B78  # Castagnoli, bits reversed
_ALL_BITS = 0xFFFFFFFF
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
    padded_data = np.zeros(width, dtype=np.uint8)
    padded_data[width - size :] = np.frombuffer(
        data, dtype=np.uint8
    )  # zeros in front change nothing
    words: Any = _byte_table()[padded_data]
    distance = 1
    while len(words) > 1:
        words = _move(words[0::2], distance) ^ words[1::2]
        distance *= 2
    # The register starts with ones: they count as if they stood before the data.
    start = np.array([_ALL_BITS], dtype=np.uint32)
    for bit in range(size.bit_length()):
        if size >> bit & 1:
            start = _move(start, 1 << bit)
    return int(words[0] ^ start[0]) ^ _ALL_BITS


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
    low_half = tables[0][crcs & 0xFF] ^ tables[1][crcs >> 8 & 0xFF]
    return np.asarray(low_half ^ tables[2][crcs >> 16 & 0xFF] ^ tables[3][crcs >> 24])


@cache
def _move_tables(size: int) -> tuple[_Words, ...]:
    """What `size` zero bytes make of each value of each byte of a register."""
    columns = [np.arange(256, dtype=np.uint32) << np.uint32(8 * byte) for byte in range(4)]
    if size == 1:
        return tuple((column >> 8) ^ _byte_table()[column & 0xFF] for column in columns)
    half = size // 2
    return tuple(_move(_move(column, half), half) for column in columns)


# -- blocks <-> payloads ---------------------------------------------------------------------------


_GZIP = 31  # of zlib: windows of 32 kB, with gzip's header and CRC
_MAX_RATIO = 1032  # of deflate; a larger size is damage, and is not allocated
_MEMORY = 8  # of zlib: its default


class Payload(NamedTuple):
    """What a block holds, and where in the file the next one begins."""

    data: bytes
    end: int


def decode_block(
    view: memoryview, at: int, *, magic: bytes, codec: HFileCodec, offset: int = 0
) -> Payload:
    """The block at `at` of `view`, whose first byte is at `offset` of the file."""
    where = offset + at
    if len(view) - at < BLOCK_HEADER.size:
        raise CorruptBlock("the file ends inside a block header", offset=where)
    block_magic, after_header, size, _, kind, step, end_of_payload = BLOCK_HEADER.unpack_from(
        view, at
    )
    if block_magic != magic:
        raise CorruptBlock(f"{block_magic!r} instead of {magic!r}", offset=where)
    total = BLOCK_HEADER.size + after_header
    if not BLOCK_HEADER.size <= end_of_payload <= total or size < 0:
        raise CorruptBlock("lengths that contradict each other", offset=where)
    if total > len(view) - at:
        raise CorruptBlock(f"a block of {total} bytes does not fit", offset=where)
    block = view[at : at + end_of_payload]
    _verify(block, view[at + end_of_payload : at + total], kind, step, where)
    return Payload(_decompress(block[BLOCK_HEADER.size :], size, codec, where), where + total)


def encode_block(
    payload: bytes | memoryview,
    size: int,
    *,
    magic: bytes,
    bytes_per_checksum: int,
    previous: int = -1,
) -> bytes:
    """The block of a compressed payload of `size` bytes; no checksums, but the room for them."""
    end_of_payload = BLOCK_HEADER.size + len(payload)
    room = 4 * -(-end_of_payload // bytes_per_checksum)
    header = BLOCK_HEADER.pack(
        magic,
        len(payload) + room,
        size,
        previous,
        ChecksumType.NONE,
        bytes_per_checksum,
        end_of_payload,
    )
    return b"".join((header, payload, bytes(room)))


def compress(
    payload: bytes | memoryview, codec: HFileCodec, packing: ZlibSettings
) -> bytes | memoryview:
    """A payload as it is stored. Java says operating system 0 in gzip's header, zlib says 3."""
    if codec is HFileCodec.NONE:
        return payload
    packer = zlib.compressobj(packing.level, zlib.DEFLATED, _GZIP, _MEMORY, packing.strategy)
    packed_payload = packer.compress(payload) + packer.flush()
    return packed_payload[:9] + b"\0" + packed_payload[10:]


def _verify(
    block: memoryview, block_checksums: memoryview, kind: int, step: int, where: int
) -> None:
    if kind == ChecksumType.NONE:
        return
    try:
        checksum_type = ChecksumType(kind)
    except ValueError:
        raise UnsupportedVersion(what="HFile checksum type", version=kind) from None
    if step <= 0 or len(block_checksums) != 4 * -(-len(block) // step):
        raise CorruptBlock("a wrong number of checksums", offset=where)
    if checksums(block, checksum_type, step) != block_checksums:
        raise CorruptBlock("the checksum is wrong", offset=where)


def _decompress(packed_payload: memoryview, size: int, codec: HFileCodec, where: int) -> bytes:
    if codec is HFileCodec.NONE:
        payload = bytes(packed_payload)
    elif size > _MAX_RATIO * len(packed_payload):
        raise CorruptBlock(f"{len(packed_payload)} bytes cannot become {size}", offset=where)
    else:
        try:
            # With the right size at hand, zlib takes a quarter less time than when it has to guess.
            payload = zlib.decompress(packed_payload, _GZIP, size or 1)
        except zlib.error as error:
            raise CorruptBlock(f"not gzip: {error}", offset=where) from None
    if len(payload) != size:
        raise CorruptBlock(f"the payload is not {size} bytes long", offset=where)
    return payload
