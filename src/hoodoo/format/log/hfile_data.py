"""HFile data blocks, and the log files of metadata tables that are made of them.

    HFile data   one whole HFile, without a version in front; header INSTANT_TIME and SCHEMA
    delete       keys that are deleted, each with the metadata table's partition as its path

A commit writes one log file for each file group of a metadata table that it changes: HFile block,
delete block, or the one and then the other. A file group begins with a log file that holds one
delete block without keys, so that it is there before it has records.
"""

from __future__ import annotations

import pyarrow as pa

from hoodoo.errors import CorruptBlock, FormatError
from hoodoo.format.hfile import PORTABLE, Codec, Dialect, Entries, HFileReader, write_hfile
from hoodoo.format.log.blocks import Block, BlockType, HeaderKey
from hoodoo.format.log.deletes import delete_block, deletes_of
from hoodoo.format.log.ordering import always_wins
from hoodoo.format.log.writer import encode_block, encode_blocks
from hoodoo.model.instant import InstantTime

_BLOCK_SIZE = 1 << 20  # Apache Hudi's, for HFiles inside logs


def hfile_block(
    keys: pa.Array | pa.ChunkedArray,
    values: pa.Array | pa.ChunkedArray,
    *,
    instant_time: InstantTime,
    schema_json: str,
    created_ms: int = 0,
    codec: Codec = Codec.GZIP,
    dialect: Dialect = PORTABLE,
) -> Block:
    """A block of records of a metadata table; keys are sorted by their bytes."""
    content = write_hfile(
        keys,
        values,
        codec=codec,
        block_size=_BLOCK_SIZE,
        info={b"schema": schema_json.encode("utf-8")},
        created_ms=created_ms,
        dialect=dialect,
    )
    header = {HeaderKey.INSTANT_TIME: str(instant_time), HeaderKey.SCHEMA: schema_json}
    return Block(BlockType.HFILE_DATA, header, content)


def open_hfile(block: Block) -> HFileReader:
    """The HFile that a block holds; its errors tell bytes of the HFile, not of the log."""
    content = memoryview(block.content)
    try:
        return HFileReader(
            lambda start, length: bytes(content[start : start + length]), len(content)
        )
    except FormatError as error:
        raise CorruptBlock(error.reason, offset=block.offset) from None


def decode_hfile(block: Block) -> Entries:
    """The records of an HFile data block, in order of keys."""
    reader = open_hfile(block)
    try:
        return reader.read_all()
    except FormatError as error:
        raise CorruptBlock(error.reason, offset=block.offset) from None


def encode_metadata_log(
    *,
    instant_time: InstantTime,
    partition: str,
    schema_json: str,
    keys: pa.Array | pa.ChunkedArray,
    values: pa.Array | pa.ChunkedArray,
    deleted_keys: pa.Array | pa.ChunkedArray | None = None,
    created_ms: int = 0,
    dialect: Dialect = PORTABLE,
) -> bytes:
    """A log file of a metadata table: records written and keys deleted in one partition."""
    blocks: list[Block] = []
    if len(keys):
        block = hfile_block(
            keys,
            values,
            instant_time=instant_time,
            schema_json=schema_json,
            created_ms=created_ms,
            dialect=dialect,
        )
        blocks.append(block)
    if deleted_keys is not None and len(deleted_keys):
        count = len(deleted_keys)
        paths = pa.repeat(pa.scalar(partition, pa.string()), count)
        deletes = deletes_of(deleted_keys.cast(pa.string()), paths, always_wins(count))
        blocks.append(delete_block(deletes, instant_time=instant_time, schema_json=schema_json))
    return encode_blocks(blocks)


def encode_first_log(instant_time: InstantTime) -> bytes:
    """The log file that a file group of a metadata table begins with."""
    nothing = deletes_of(pa.array([], pa.string()), pa.array([], pa.string()), always_wins(0))
    return encode_block(delete_block(nothing, instant_time=instant_time))
