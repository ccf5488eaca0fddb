"""The blocks that a log file is made of, their types and header keys, and how they are written.

One block, all integers big endian:

    6    magic "#HUDI#"
    8    B, the number of bytes after this field, the last field included
    4    version of the log format, 1
    4    block type                                    `BlockType`
    var  header: int32 n, then n times int32 key, int32 length, UTF-8 text   `HeaderKey`
    8    length of the content
    var  content
    var  footer, laid out like the header, always empty
    8    B + 6, everything before this field counted from the magic

A log file is its blocks, one after another. `reader` turns bytes into blocks; `data` and `deletes`
make the content. A command block has no content and three header entries:

    INSTANT_TIME          the rollback that wrote the block
    TARGET_INSTANT_TIME   the instant that is rolled back
    COMMAND_BLOCK_TYPE    "0", roll back; there is no other command

Tables before version 8 append them; from 8 on a rollback deletes log files instead.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TypeAlias

from hoodoo.errors import FormatError, UnsupportedVersion
from hoodoo.model.instant import InstantTime

# -- blocks and header keys ------------------------------------------------------------------------


MAGIC = b"#HUDI#"
LOG_FORMAT_VERSION = 1

Bytes: TypeAlias = bytes | memoryview


class BlockType(IntEnum):
    """What a block holds; the value is the ordinal on disk."""

    COMMAND = 0
    DELETE = 1
    CORRUPT = 2  # never on disk: other readers use it for what is `CorruptRange` here
    AVRO_DATA = 3
    HFILE_DATA = 4
    PARQUET_DATA = 5
    CDC_DATA = 6

    @property
    def is_data(self) -> bool:
        """Whether the block holds rows of the table (change records are not)."""
        return self in (BlockType.AVRO_DATA, BlockType.HFILE_DATA, BlockType.PARQUET_DATA)


class HeaderKey(IntEnum):
    """What a header entry says; the value is the ordinal on disk."""

    INSTANT_TIME = 0
    TARGET_INSTANT_TIME = 1
    SCHEMA = 2
    COMMAND_BLOCK_TYPE = 3
    COMPACTED_BLOCK_TIMES = 4
    RECORD_POSITIONS = 5
    BLOCK_IDENTIFIER = 6
    IS_PARTIAL = 7
    BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS = 8


Header: TypeAlias = Mapping[HeaderKey, str]


@dataclass(frozen=True, slots=True)
class Block:
    """One block. The order of header entries is kept, so that encoding gives back the same bytes.

    `content` may be a view into the bytes that were read; `offset` is where the block began there.
    """

    type: BlockType
    header: Header
    content: Bytes = b""
    footer: Header = field(default_factory=dict)
    offset: int = field(default=0, compare=False)
    version: int = LOG_FORMAT_VERSION

    @property
    def instant_time(self) -> InstantTime:
        """The requested time of the commit that wrote the block."""
        return InstantTime(self.require(HeaderKey.INSTANT_TIME))

    @property
    def schema_json(self) -> str:
        """The Avro schema of the records, meta columns included."""
        return self.require(HeaderKey.SCHEMA)

    @property
    def is_partial(self) -> bool:
        """Whether the records hold only the columns that changed."""
        return self.header.get(HeaderKey.IS_PARTIAL, "false").lower() == "true"

    @property
    def compacted_times(self) -> tuple[InstantTime, ...]:
        """The instants whose blocks this one replaces; empty unless a log compaction wrote it."""
        times = self.header.get(HeaderKey.COMPACTED_BLOCK_TIMES, "")
        return tuple(InstantTime(time) for time in times.split(",") if time)

    def require(self, key: HeaderKey) -> str:
        """The value of a header entry that this kind of block must have."""
        value = self.header.get(key)
        if value is None:
            raise FormatError(f"{self.type.name} block at byte {self.offset} has no {key.name}")
        return value


@dataclass(frozen=True, slots=True)
class CorruptRange:
    """Bytes that are no whole block, from `offset` to before `end`, and why."""

    offset: int
    end: int
    reason: str

    @property
    def size_bytes(self) -> int:
        return self.end - self.offset


@dataclass(frozen=True, slots=True)
class LogBlocks:
    """All that a log file holds, in file order: whole blocks, and what had to be skipped."""

    blocks: tuple[Block, ...]
    corrupt: tuple[CorruptRange, ...]


# -- command blocks --------------------------------------------------------------------------------


_ROLLBACK = "0"


def rollback_block(*, instant_time: InstantTime, target: InstantTime) -> Block:
    """The command of the rollback `instant_time` to drop all earlier blocks of `target`."""
    return Block(
        BlockType.COMMAND,
        {
            HeaderKey.INSTANT_TIME: instant_time,
            HeaderKey.TARGET_INSTANT_TIME: target,
            HeaderKey.COMMAND_BLOCK_TYPE: _ROLLBACK,
        },
    )


def rollback_target(block: Block) -> InstantTime:
    """The instant whose blocks a command block drops."""
    command = block.require(HeaderKey.COMMAND_BLOCK_TYPE)
    if command != _ROLLBACK:
        raise UnsupportedVersion(what="log command", version=command)
    return InstantTime(block.require(HeaderKey.TARGET_INSTANT_TIME))


# -- blocks -> bytes -------------------------------------------------------------------------------


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
