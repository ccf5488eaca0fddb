"""Data blocks: rows in and out, as Avro and as Parquet."""

from __future__ import annotations

import datetime as dt
import json
import random
import struct
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from log_samples import log_files, single_files

from hoodoo.errors import CorruptBlock, FormatError, UnsupportedFeature, UnsupportedVersion
from hoodoo.format.log import (
    Block,
    BlockType,
    HeaderKey,
    avro_block,
    cdc_block,
    decode_data,
    encode_block,
    parquet_block,
    read_blocks,
)
from hoodoo.model.instant import InstantTime

NOW = InstantTime("20250101000000000")
SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "t_record",
        "namespace": "hoodie.t",
        "fields": [
            {"name": "_hoodie_record_key", "type": ["null", "string"], "default": None},
            {"name": "id", "type": ["null", "long"], "default": None},
            {"name": "name", "type": ["null", "string"], "default": None},
            {"name": "price", "type": ["null", "double"], "default": None},
        ],
    }
)
ROWS = st.lists(
    st.tuples(
        st.text(max_size=9),
        st.none() | st.integers(-(2**63), 2**63 - 1),
        st.none() | st.text(max_size=40),
        st.none() | st.floats(allow_nan=False),
    ),
    max_size=20,
)


def table(rows) -> pa.Table:
    types = {"_hoodie_record_key": pa.string(), "id": pa.int64(), "name": pa.string()}
    schema = pa.schema([*types.items(), ("price", pa.float64())])
    columns = list(zip(*rows, strict=True)) or [()] * 4
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema)


ONE = table([("k", 1, "one", 1.5)])


def to_stored(block: Block) -> Block:
    """The block as it comes back from a file."""
    found = read_blocks(encode_block(block))
    assert not found.corrupt
    return found.blocks[0]


@settings(max_examples=40)
@given(ROWS)
@pytest.mark.parametrize("make", [avro_block, cdc_block, parquet_block])
def test_rows_round_trip(make, rows):
    block = to_stored(make(table(rows), instant_time=NOW, schema_json=SCHEMA))
    assert block.instant_time == NOW
    assert block.schema_json == SCHEMA
    assert decode_data(block).equals(table(rows))


@pytest.mark.parametrize("make", [avro_block, parquet_block])
def test_columns_are_picked_and_absent_ones_passed_over(make):
    block = to_stored(make(ONE, instant_time=NOW, schema_json=SCHEMA))
    picked = decode_data(block, columns=["price", "id", "no such column"])
    assert sorted(picked.column_names) == ["id", "price"]
    assert picked.select(["id", "price"]).to_pylist() == [{"id": 1, "price": 1.5}]


def test_extra_header_entries_are_kept():
    extra = {HeaderKey.IS_PARTIAL: "true", HeaderKey.RECORD_POSITIONS: "x"}
    for make in (avro_block, parquet_block):
        block = to_stored(make(ONE, instant_time=NOW, schema_json=SCHEMA, extra=extra))
        assert block.is_partial
        assert block.header[HeaderKey.RECORD_POSITIONS] == "x"
    assert not to_stored(avro_block(ONE, instant_time=NOW, schema_json=SCHEMA)).is_partial


def test_every_fixture_avro_block_is_written_back_identical(fixtures):
    seen = 0
    for name, data in log_files(fixtures).items():
        for block in read_blocks(data).blocks:
            if block.type is BlockType.AVRO_DATA:
                rows = decode_data(block)
                again = avro_block(
                    rows, instant_time=block.instant_time, schema_json=block.schema_json
                )
                assert again.content == block.content, name
                assert rows["_hoodie_commit_time"].to_pylist() == [block.instant_time] * len(rows)
                seen += 1
    assert seen == 14


def test_the_avro_fixture_holds_one_updated_trip(fixtures):
    (block,) = read_blocks(single_files(fixtures)["avro"]).blocks
    (row,) = decode_data(block).to_pylist()
    assert (row["rider"], row["driver"], row["fare"]) == ("rider-A", "driver-K", 29.1)
    assert row["_hoodie_commit_time"] == block.instant_time


def test_every_fixture_parquet_block_has_the_columns_of_its_schema(fixtures):
    seen = 0
    for name, data in log_files(fixtures).items():
        for block in read_blocks(data).blocks:
            if block.type is BlockType.PARQUET_DATA:
                rows = decode_data(block)
                fields = [field["name"] for field in json.loads(block.schema_json)["fields"]]
                assert rows.column_names == fields, name
                assert rows.num_rows == 1
                again = parquet_block(
                    rows, instant_time=block.instant_time, schema_json=block.schema_json
                )
                assert decode_data(to_stored(again)).to_pylist() == rows.to_pylist()
                seen += 1
    assert seen == 5


def test_parquet_blocks_carry_parquets_own_types_and_the_avro_schema():
    rows = pa.table(
        {
            "day": pa.array([dt.date(2024, 1, 1)]),
            "at": pa.array([0], pa.timestamp("us", tz="UTC")),
            "cost": pa.array([Decimal("1.50")], pa.decimal128(10, 2)),
            "text": pa.array(["a"], pa.large_string()),
        }
    )
    block = parquet_block(rows, instant_time=NOW, schema_json=SCHEMA, compression="gzip")
    file = pq.ParquetFile(pa.BufferReader(block.content))
    assert file.metadata.row_group(0).column(0).compression == "GZIP"
    assert file.metadata.metadata == {b"parquet.avro.schema": SCHEMA.encode()}
    decoded = decode_data(to_stored(block))
    assert decoded.schema.metadata is None
    assert decoded.schema.field("text").type == pa.string()
    assert decoded.to_pylist() == rows.to_pylist()


@pytest.mark.parametrize("kind", [BlockType.HFILE_DATA, BlockType.DELETE, BlockType.COMMAND])
def test_blocks_that_hold_no_rows_that_we_read_say_so(kind):
    with pytest.raises(UnsupportedFeature, match=kind.name):
        decode_data(Block(kind, {}))


def avro(content: bytes, schema: str | None = SCHEMA) -> Block:
    header = {HeaderKey.INSTANT_TIME: NOW}
    return Block(
        BlockType.AVRO_DATA,
        header if schema is None else {**header, HeaderKey.SCHEMA: schema},
        content,
    )


@pytest.mark.parametrize(
    ("block", "error", "what"),
    [
        (avro(b""), CorruptBlock, "without a version"),
        (avro(struct.pack(">ii", 0, 0)), UnsupportedVersion, "Avro block version 0"),
        (avro(struct.pack(">ii", 4, 0)), UnsupportedVersion, "Avro block version 4"),
        (avro(struct.pack(">ii", 3, 2**31 - 1)), CorruptBlock, "records do not fit"),
        (avro(struct.pack(">ii", 3, -1)), CorruptBlock, "records do not fit"),
        (avro(struct.pack(">iii", 3, 1, 2**31 - 1)), CorruptBlock, "does not fit"),
        (avro(struct.pack(">iii", 3, 1, -1)), CorruptBlock, "does not fit"),
        (avro(struct.pack(">iiii", 3, 2, 4, 0)), CorruptBlock, "too early"),
        (avro(struct.pack(">iii", 3, 0, 0)), CorruptBlock, "4 bytes after"),
        (avro(struct.pack(">iii", 3, 1, 4) + b"\0\0\0\0", "{"), FormatError, "schema"),
        (avro(struct.pack(">iii", 3, 1, 4) + b"\0\0\0\0", None), FormatError, "has no SCHEMA"),
        (avro(struct.pack(">iii", 3, 1, 5) + b"\0\0\0\0\0"), FormatError, "longer"),
        (Block(BlockType.PARQUET_DATA, {}, b""), CorruptBlock, "not a Parquet file"),
        (Block(BlockType.PARQUET_DATA, {}, b"PAR1" * 5), CorruptBlock, "not a Parquet file"),
    ],
)
def test_rows_that_make_no_sense_are_typed_errors(block, error, what):
    with pytest.raises(error, match=what):
        decode_data(block)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_older_versions_of_the_content_have_the_same_layout(version):
    block = avro_block(ONE, instant_time=NOW, schema_json=SCHEMA)
    older = struct.pack(">i", version) + bytes(block.content)[4:]
    assert decode_data(avro(older)).equals(ONE)


@pytest.mark.parametrize("kind", ["avro", "parquet"])
def test_damaged_contents_are_typed_errors_or_rows(fixtures, kind):
    (block,) = read_blocks(single_files(fixtures)[kind]).blocks
    rng = random.Random(5)
    refused = 0
    for _ in range(600):
        data = bytearray(block.content)
        if rng.random() < 0.2:
            del data[rng.randrange(len(data)) :]
        else:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        try:
            decode_data(Block(block.type, block.header, bytes(data)))
        except FormatError:
            refused += 1
    assert refused > 100


def test_a_damaged_schema_is_a_typed_error_or_rows(fixtures):
    (block,) = read_blocks(single_files(fixtures)["avro"]).blocks
    rng = random.Random(6)
    refused = 0
    for _ in range(300):
        text = list(block.schema_json)
        text[rng.randrange(len(text))] = rng.choice('"{}[]:,x0\\')
        header = {**block.header, HeaderKey.SCHEMA: "".join(text)}
        try:
            decode_data(Block(block.type, header, block.content))
        except (FormatError, UnsupportedFeature):
            refused += 1
    assert refused > 50
