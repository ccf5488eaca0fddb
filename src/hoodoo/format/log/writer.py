"""Blocks -> bytes of a log file (layout: `blocks`). A log file is its blocks, one after another."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from hoodoo.format.log.blocks import MAGIC, Block, Header

_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")
_ENTRY = struct.Struct(">ii")
_PRELUDE = struct.Struct(">ii")


def encode_block(block: Block) -> bytes:
    """The bytes of one block."""
    body = [
        _PRELUDE.pack(block.version, block.type),
        _encode_header(block.header),
        _LONG.pack(len(block.content)),
        block.content,
        _encode_header(block.footer),
    ]
    size = sum(map(len, body)) + _LONG.size
    return b"".join([MAGIC, _LONG.pack(size), *body, _LONG.pack(size + len(MAGIC))])


def encode_blocks(blocks: Iterable[Block]) -> bytes:
    """The bytes of a log file that holds these blocks."""
    return b"".join(map(encode_block, blocks))


def _encode_header(header: Header) -> bytes:
    parts = [_INT.pack(len(header))]
    for key, text in header.items():
        value = text.encode("utf-8")
        parts += [_ENTRY.pack(key, len(value)), value]
    return b"".join(parts)
