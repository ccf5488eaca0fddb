"""Bytes of a log file -> blocks (layout: `blocks`), skipping what a crashed writer left.

A block is corrupt, and the scan goes on at the next magic, when its size runs past the end of the
file, when its last field disagrees with its size, or when neither a magic nor the end follows it.
Fewer than six bytes at the end are the start of a block that was never written. Everything else
that is wrong (no magic at the start, a bad header, an unknown type) is an error: a file that was
written whole never has it.
"""

from __future__ import annotations

import re
import struct

import pyarrow as pa

from hoodoo.errors import CorruptBlock, UnsupportedVersion
from hoodoo.format.log.blocks import (
    LOG_FORMAT_VERSION,
    MAGIC,
    Block,
    BlockType,
    CorruptRange,
    Header,
    HeaderKey,
    LogBlocks,
)

_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")
_ENTRY = struct.Struct(">ii")
_START = struct.Struct(">6sq")
_PRELUDE = struct.Struct(">ii")
_SMALLEST = _PRELUDE.size + 2 * _INT.size + 2 * _LONG.size  # empty header, content and footer
_MAGIC = re.compile(re.escape(MAGIC))


def read_blocks(data: bytes | bytearray | memoryview | pa.Buffer) -> LogBlocks:
    """All blocks of a log file, and the ranges that are none. Contents are views into `data`."""
    view = memoryview(data).cast("B").toreadonly()
    end = len(view)
    if end >= len(MAGIC) and view[: len(MAGIC)] != MAGIC:
        raise CorruptBlock("a log file starts with #HUDI#", offset=0)
    blocks: list[Block] = []
    corrupt: list[CorruptRange] = []
    at = 0
    while at < end:
        reason = _damage(view, at)
        if reason is None:
            block, at = _parse_block(view, at)
            blocks.append(block)
        else:
            following = _MAGIC.search(view, at + len(MAGIC))
            to = following.start() if following else end
            corrupt.append(CorruptRange(at, to, reason))
            at = to
    return LogBlocks(tuple(blocks), tuple(corrupt))


def _damage(view: memoryview, at: int) -> str | None:
    """Why there is no whole block here, or None."""
    rest = len(view) - at
    if rest < _START.size:
        return "the file ends inside a block"
    _, size = _START.unpack_from(view, at)
    if size > rest - _START.size:
        return f"size {size} runs past the end of the file"
    if size < _SMALLEST:
        return f"size {size} is too small for a block"
    after = at + _START.size + size
    (total,) = _LONG.unpack_from(view, after - _LONG.size)
    if total != size + len(MAGIC):
        return f"size {size} at the start, {total - len(MAGIC)} at the end"
    if after + len(MAGIC) <= len(view) and view[after : after + len(MAGIC)] != MAGIC:
        return "no block follows where this one ends"
    return None


def _parse_block(view: memoryview, at: int) -> tuple[Block, int]:
    _, size = _START.unpack_from(view, at)
    pos = at + _START.size
    after = pos + size
    end = after - _LONG.size
    version, ordinal = _PRELUDE.unpack_from(view, pos)
    if version != LOG_FORMAT_VERSION:
        raise UnsupportedVersion(what="log format version", version=version)
    try:
        kind = BlockType(ordinal)
    except ValueError:
        raise UnsupportedVersion(what="log block type", version=ordinal) from None
    if kind is BlockType.CORRUPT:
        raise UnsupportedVersion(what="log block type", version=ordinal)
    header, pos = _parse_header(view, pos + _PRELUDE.size, end, block=at)
    if end - pos < _LONG.size:
        raise CorruptBlock("no room for the content length", offset=at)
    (length,) = _LONG.unpack_from(view, pos)
    pos += _LONG.size
    if not 0 <= length <= end - pos:
        raise CorruptBlock(f"content length {length} does not fit", offset=at)
    content = view[pos : pos + length]
    footer, pos = _parse_header(view, pos + length, end, block=at)
    if pos != end:
        raise CorruptBlock(f"{end - pos} bytes left over", offset=at)
    return Block(kind, header, content, footer, at, version), after


def _parse_header(view: memoryview, pos: int, end: int, *, block: int) -> tuple[Header, int]:
    if end - pos < _INT.size:
        raise CorruptBlock("no room for a header", offset=block)
    (count,) = _INT.unpack_from(view, pos)
    pos += _INT.size
    if not 0 <= count <= len(HeaderKey):
        raise CorruptBlock(f"{count} header entries", offset=block)
    header: dict[HeaderKey, str] = {}
    for _ in range(count):
        if end - pos < _ENTRY.size:
            raise CorruptBlock("the header runs past the block", offset=block)
        ordinal, length = _ENTRY.unpack_from(view, pos)
        pos += _ENTRY.size
        if not 0 <= length <= end - pos:
            raise CorruptBlock(f"header entry of {length} bytes does not fit", offset=block)
        try:
            key = HeaderKey(ordinal)
        except ValueError:
            raise UnsupportedVersion(what="log block header key", version=ordinal) from None
        if key in header:
            raise CorruptBlock(f"{key.name} is twice in the header", offset=block)
        try:
            header[key] = str(view[pos : pos + length], "utf-8")
        except UnicodeDecodeError:
            raise CorruptBlock(f"{key.name} is not UTF-8", offset=block) from None
        pos += length
    return header, pos
