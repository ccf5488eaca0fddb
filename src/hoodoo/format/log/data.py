"""Data blocks of log files: rows as Avro, Parquet or HFile, and change records.

    Avro     int32 3, version of the content; int32 number of records;
             per record int32 length, then Avro binary by the schema in the header
    Parquet  one whole Parquet file
    CDC      like Avro; the records are changes, in files that end in .cdc

The log files of metadata tables have HFile blocks:

    HFile data   one whole HFile, without a version in front; header INSTANT_TIME and SCHEMA
    delete       keys that are deleted, each with the metadata table's partition as its path

A commit writes one log file for each file group of a metadata table that it changes: HFile block,
delete block, or the one and then the other. A file group begins with a log file that holds one
delete block without keys, so that it is there before it has records.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from hoodoo.errors import CorruptBlock, FormatError, UnsupportedFeature, UnsupportedVersion
from hoodoo.format.avro import rows as avro_rows
from hoodoo.format.hfile import PORTABLE, Dialect, Entries, HFileCodec, HFileReader, write_hfile
from hoodoo.format.log.blocks import (
    Block,
    BlockType,
    Header,
    HeaderKey,
    encode_block,
    encode_blocks,
)
from hoodoo.format.log.deletes import delete_block, deletes_of
from hoodoo.format.log.ordering import always_wins
from hoodoo.model.instant import InstantTime

# -- Avro, Parquet and change records --------------------------------------------------------------


_VERSION = 3
_READABLE_VERSIONS = (1, 2, 3)  # one layout
_INT = struct.Struct(">i")
_HEAD = struct.Struct(">ii")


def parquet_block(
    rows: pa.Table,
    *,
    instant_time: InstantTime,
    schema_json: str,
    extra: Header | None = None,
    compression: str = "zstd",
) -> Block:
    """A block of rows as a Parquet file; columns as in a base file, meta columns first."""
    sink = pa.BufferOutputStream()
    # Without ARROW:schema the types are Parquet's own, the same for every reader.
    with pq.ParquetWriter(sink, rows.schema, compression=compression, store_schema=False) as file:
        file.write_table(rows)
        file.add_key_value_metadata({"parquet.avro.schema": schema_json})
    content = memoryview(sink.getvalue()).cast("B")
    return Block(BlockType.PARQUET_DATA, _header(instant_time, schema_json, extra), content)


def avro_block(
    rows: pa.Table,
    *,
    instant_time: InstantTime,
    schema_json: str,
    extra: Header | None = None,
) -> Block:
    """A block of rows as Avro records."""
    content = _encode_avro(rows, schema_json)
    return Block(BlockType.AVRO_DATA, _header(instant_time, schema_json, extra), content)


def cdc_block(
    changes: pa.Table,
    *,
    instant_time: InstantTime,
    schema_json: str,
    extra: Header | None = None,
) -> Block:
    """A block of change records; it goes into a file of its own, named .cdc."""
    content = _encode_avro(changes, schema_json)
    return Block(BlockType.CDC_DATA, _header(instant_time, schema_json, extra), content)


def decode_data(block: Block, *, columns: Sequence[str] | None = None) -> pa.Table:
    """The rows of a data or CDC block in block order; of `columns`, those that the block has."""
    if block.type is BlockType.PARQUET_DATA:
        return _decode_parquet(block, columns)
    if block.type in (BlockType.AVRO_DATA, BlockType.CDC_DATA):
        rows = avro_rows.decode_records(avro_records(block), block.schema_json)
        return (
            rows if columns is None else rows.select([c for c in columns if c in rows.column_names])
        )
    raise UnsupportedFeature(f"reading rows from {block.type.name} log blocks")


def _header(instant_time: InstantTime, schema_json: str, extra: Header | None) -> Header:
    header = {HeaderKey.INSTANT_TIME: str(instant_time), HeaderKey.SCHEMA: schema_json}
    return {**header, **(extra or {})}


def _decode_parquet(block: Block, columns: Sequence[str] | None) -> pa.Table:
    try:
        rows = pq.ParquetFile(pa.BufferReader(block.content)).read(columns=columns)
    except (pa.ArrowException, OSError, MemoryError, ValueError, OverflowError) as error:
        raise CorruptBlock(f"not a Parquet file: {error}", offset=block.offset) from None
    return rows.replace_schema_metadata(None)


def avro_records(block: Block) -> list[memoryview]:
    """The Avro binary of each record."""
    content = memoryview(block.content)
    if len(content) < _HEAD.size:
        raise CorruptBlock("an Avro block without a version", offset=block.offset)
    version, count = _HEAD.unpack_from(content)
    if version not in _READABLE_VERSIONS:
        raise UnsupportedVersion(what="Avro block version", version=version)
    pos, end = _HEAD.size, len(content)
    if not 0 <= count * _INT.size <= end - pos:
        raise CorruptBlock(f"{count} records do not fit", offset=block.offset)
    records: list[memoryview] = []
    for _ in range(count):
        if end - pos < _INT.size:
            raise CorruptBlock("the records end too early", offset=block.offset)
        (length,) = _INT.unpack_from(content, pos)
        pos += _INT.size
        if not 0 <= length <= end - pos:
            raise CorruptBlock(f"a record of {length} bytes does not fit", offset=block.offset)
        records.append(content[pos : pos + length])
        pos += length
    if pos != end:
        raise CorruptBlock(f"{end - pos} bytes after the records", offset=block.offset)
    return records


def _encode_avro(rows: pa.Table, schema_json: str) -> bytes:
    records = avro_rows.encode_records(rows, schema_json)
    parts = [_HEAD.pack(_VERSION, len(records))]
    for record in records:
        parts += (_INT.pack(len(record)), record)
    return b"".join(parts)


# -- HFile blocks of metadata tables ---------------------------------------------------------------


_BLOCK_SIZE = 1 << 20  # Apache Hudi's, for HFiles inside logs


def hfile_block(
    keys: pa.Array | pa.ChunkedArray,
    values: pa.Array | pa.ChunkedArray,
    *,
    instant_time: InstantTime,
    schema_json: str,
    created_ms: int = 0,
    codec: HFileCodec = HFileCodec.GZIP,
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
