"""HFile blocks, and the log files of metadata tables: read, and written to the byte."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from log_samples import log_files

from hoodoo.errors import CorruptBlock
from hoodoo.format.hfile import HUDI_1_1
from hoodoo.format.log import (
    Block,
    BlockType,
    HeaderKey,
    decode_deletes,
    decode_hfile,
    delete_block,
    encode_blocks,
    encode_first_log,
    encode_metadata_log,
    hfile_block,
    open_hfile,
    read_blocks,
)
from hoodoo.model.instant import InstantTime

NOW = InstantTime("20250101000000000")
KEYS = pa.array([b"a", b"b"])
VALUES = pa.array([b"one", b"two"])


def metadata_logs(fixtures) -> dict[str, bytes]:
    """The log files of metadata tables that Hudi 1.1 wrote."""
    logs = log_files(fixtures)
    return {name: data for name, data in logs.items() if "/.hoodie/metadata/" in name}


def created_ms(block: Block) -> int:
    return int.from_bytes(open_hfile(block).file_info[b"hfile.CREATE_TIME_TS"], "big")


def made_again(block: Block) -> Block:
    """The block that we make of what a block says; header entries in the order of the original."""
    time, schema = block.instant_time, block.header.get(HeaderKey.SCHEMA)
    if block.type is BlockType.DELETE:
        made = delete_block(decode_deletes(block), instant_time=time, schema_json=schema)
    else:
        assert block.type is BlockType.HFILE_DATA
        entries = decode_hfile(block)
        made = hfile_block(
            entries.keys,
            entries.values,
            instant_time=time,
            schema_json=block.schema_json,
            created_ms=created_ms(block),
            dialect=HUDI_1_1,
        )
    assert made.header == block.header
    return replace(made, header=block.header)


def test_every_metadata_log_is_written_to_the_byte(fixtures):
    logs = metadata_logs(fixtures)
    assert len(logs) >= 500
    hfiles = 0
    for name, data in logs.items():
        found = read_blocks(data)
        assert not found.corrupt
        assert encode_blocks(map(made_again, found.blocks)) == data, name
        hfiles += sum(block.type is BlockType.HFILE_DATA for block in found.blocks)
    assert hfiles >= 300


def test_log_files_of_one_commit_are_those_of_apache_hudi(fixtures):
    """Where Java's hash order of the header happens to be ours."""
    seen = set()
    for name, data in metadata_logs(fixtures).items():
        blocks = read_blocks(data).blocks
        orders = {tuple(block.header) for block in blocks}
        if orders != {(HeaderKey.INSTANT_TIME, HeaderKey.SCHEMA)}:
            continue
        records = [block for block in blocks if block.type is BlockType.HFILE_DATA]
        deletes = [block for block in blocks if block.type is BlockType.DELETE]
        entries = decode_hfile(records[0]) if records else None
        made = encode_metadata_log(
            instant_time=blocks[0].instant_time,
            partition=name.split("/")[-2],
            schema_json=blocks[0].schema_json,
            keys=entries.keys if entries else KEYS[:0],
            values=entries.values if entries else VALUES[:0],
            deleted_keys=decode_deletes(deletes[0])["record_key"] if deletes else None,
            created_ms=created_ms(records[0]) if records else 0,
            dialect=HUDI_1_1,
        )
        assert made == data, name
        seen.add(tuple(block.type for block in blocks))
    assert (BlockType.HFILE_DATA,) in seen
    assert any(BlockType.DELETE in types for types in seen)


def test_the_first_log_of_a_file_group_is_an_empty_delete_block(fixtures):
    first = encode_first_log(InstantTime("00000000000000000"))
    assert first.hex() == (
        "23485544492300000000000000420000000100000001000000010000000000000011"
        "303030303030303030303030303030303000000000000000090000000300000001"
        "00000000000000000000000048"
    )
    assert first in metadata_logs(fixtures).values()
    (block,) = read_blocks(first).blocks
    assert decode_deletes(block).num_rows == 0


def test_records_and_deletes_come_back():
    data = encode_metadata_log(
        instant_time=NOW,
        partition="record_index",
        schema_json="{}",
        keys=KEYS,
        values=VALUES,
        deleted_keys=pa.array([b"c", "ü".encode()]),
    )
    records, deletes = read_blocks(data).blocks
    assert (records.instant_time, records.schema_json, deletes.instant_time) == (NOW, "{}", NOW)
    assert decode_hfile(records).keys.to_pylist() == [b"a", b"b"]
    assert decode_hfile(records).values.to_pylist() == [b"one", b"two"]
    assert open_hfile(records).find(pa.array([b"b"])).values.to_pylist() == [b"two"]
    gone = decode_deletes(deletes)
    assert gone["record_key"].to_pylist() == ["c", "ü"]
    assert gone["partition_path"].to_pylist() == ["record_index"] * 2


def test_a_broken_hfile_tells_its_block():
    block = hfile_block(KEYS, VALUES, instant_time=NOW, schema_json="{}")
    for content in (b"", block.content[:-1], b"x" + block.content[1:]):
        with pytest.raises(CorruptBlock, match="block at byte 17"):
            decode_hfile(replace(block, content=content, offset=17))
