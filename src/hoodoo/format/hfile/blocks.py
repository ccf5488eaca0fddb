"""One block of an HFile <-> its payload (layout: `layout`)."""

from __future__ import annotations

import zlib
from typing import NamedTuple

from hoodoo.errors import CorruptBlock, UnsupportedVersion
from hoodoo.format.hfile.checksum import ChecksumType, checksums
from hoodoo.format.hfile.layout import BLOCK_HEADER, Codec, Packing

_GZIP = 31  # of zlib: windows of 32 kB, with gzip's header and CRC
_MAX_RATIO = 1032  # of deflate; a larger size is damage, and is not allocated
_MEMORY = 8  # of zlib: its default


class Payload(NamedTuple):
    """What a block holds, and where in the file the next one begins."""

    data: bytes
    end: int


def decode_block(
    view: memoryview, at: int, *, magic: bytes, codec: Codec, offset: int = 0
) -> Payload:
    """The block at `at` of `view`, whose first byte is at `offset` of the file."""
    where = offset + at
    if len(view) - at < BLOCK_HEADER.size:
        raise CorruptBlock("the file ends inside a block header", offset=where)
    found, after_header, size, _, kind, step, end_of_payload = BLOCK_HEADER.unpack_from(view, at)
    if found != magic:
        raise CorruptBlock(f"{found!r} instead of {magic!r}", offset=where)
    total = BLOCK_HEADER.size + after_header
    if not BLOCK_HEADER.size <= end_of_payload <= total or size < 0:
        raise CorruptBlock("lengths that contradict each other", offset=where)
    if total > len(view) - at:
        raise CorruptBlock(f"a block of {total} bytes does not fit", offset=where)
    stored = view[at : at + end_of_payload]
    _verify(stored, view[at + end_of_payload : at + total], kind, step, where)
    return Payload(_decompress(stored[BLOCK_HEADER.size :], size, codec, where), where + total)


def encode_block(
    stored: bytes | memoryview,
    size: int,
    *,
    magic: bytes,
    bytes_per_checksum: int,
    previous: int = -1,
) -> bytes:
    """The block of a compressed payload of `size` bytes; no checksums, but the room for them."""
    end_of_payload = BLOCK_HEADER.size + len(stored)
    room = 4 * -(-end_of_payload // bytes_per_checksum)
    header = BLOCK_HEADER.pack(
        magic,
        len(stored) + room,
        size,
        previous,
        ChecksumType.NONE,
        bytes_per_checksum,
        end_of_payload,
    )
    return b"".join((header, stored, bytes(room)))


def compress(payload: bytes | memoryview, codec: Codec, packing: Packing) -> bytes | memoryview:
    """A payload as it is stored. Java says operating system 0 in gzip's header, zlib says 3."""
    if codec is Codec.NONE:
        return payload
    packer = zlib.compressobj(packing.level, zlib.DEFLATED, _GZIP, _MEMORY, packing.strategy)
    stored = packer.compress(payload) + packer.flush()
    return stored[:9] + b"\0" + stored[10:]


def _verify(stored: memoryview, found: memoryview, kind: int, step: int, where: int) -> None:
    if kind == ChecksumType.NONE:
        return
    try:
        known = ChecksumType(kind)
    except ValueError:
        raise UnsupportedVersion(what="HFile checksum type", version=kind) from None
    if step <= 0 or len(found) != 4 * -(-len(stored) // step):
        raise CorruptBlock("a wrong number of checksums", offset=where)
    if checksums(stored, known, step) != found:
        raise CorruptBlock("the checksum is wrong", offset=where)


def _decompress(stored: memoryview, size: int, codec: Codec, where: int) -> bytes:
    if codec is Codec.NONE:
        payload = bytes(stored)
    elif size > _MAX_RATIO * len(stored):
        raise CorruptBlock(f"{len(stored)} bytes cannot become {size}", offset=where)
    else:
        try:
            # With the right size at hand, zlib takes a quarter less time than when it has to guess.
            payload = zlib.decompress(stored, _GZIP, size or 1)
        except zlib.error as error:
            raise CorruptBlock(f"not gzip: {error}", offset=where) from None
    if len(payload) != size:
        raise CorruptBlock(f"the payload is not {size} bytes long", offset=where)
    return payload
