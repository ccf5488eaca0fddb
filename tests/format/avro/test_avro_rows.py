"""Avro binary rows: log blocks that Apache Hudi wrote, and fastavro, are the outside word."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.arrow_rows import TABLES
from support.fixtures import fixture_tables

from hoodoo.errors import FormatError, SchemaMismatch
from hoodoo.format.avro.rows import decode_records, decode_slices, encode_array, encode_records
from hoodoo.format.schema import arrow_from_avro, avro_from_arrow


def schema_of(*types: Any) -> str:
    fields = [{"name": f"c{index}", "type": type_} for index, type_ in enumerate(types)]
    return json.dumps({"type": "record", "name": "t", "fields": fields})


def plain(tree: Any) -> Any:
    """The schema without logical types: fastavro then gives and takes numbers and bytes."""
    if isinstance(tree, list):
        return [plain(one) for one in tree]
    if isinstance(tree, dict):
        return {key: plain(value) for key, value in tree.items() if key != "logicalType"}
    return tree


def by_fastavro(table: pa.Table, schema_json: str) -> list[bytes]:
    schema = fastavro.parse_schema(json.loads(schema_json))
    made = []
    for row in table.to_pylist(maps_as_pydicts="strict"):
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, row)
        made.append(out.getvalue())
    return made


@settings(max_examples=30)
@given(TABLES)
def test_rows_survive_the_round_trip(table: pa.Table) -> None:
    avro = avro_from_arrow(table.schema, "t")
    encoded = encode_records(table, avro)
    decoded = decode_records([memoryview(one) for one in encoded], avro)
    decoded.validate(full=True)
    assert decoded.schema == table.schema
    assert decoded.equals(table)


@settings(max_examples=30)
@given(TABLES)
def test_bytes_are_those_of_fastavro(table: pa.Table) -> None:
    avro = json.dumps(plain(json.loads(avro_from_arrow(table.schema, "t"))))
    if any(name in str(table.schema) for name in ("date", "time", "decimal")):
        # The same bytes seen without logical types; those have tests of their own.
        table = decode_records(encode_records(table, avro_from_arrow(table.schema, "t")), avro)
    assert encode_records(table, avro) == by_fastavro(table, avro)


@pytest.mark.parametrize("spelling", [["null", "long"], ["long", "null"]])
def test_both_spellings_of_nullable(spelling: list[str]) -> None:
    avro = schema_of(spelling)
    table = pa.table({"c0": pa.array([7, None], pa.int64())})
    value = bytes([2 * spelling.index("long"), 14])
    null = bytes([2 * spelling.index("null")])
    assert encode_records(table, avro) == [value, null]
    assert decode_records([value, null], avro).equals(table)


NUMBERS = [0, -1, 1, 63, -64, 64, 127, 2**20, -(2**27), 2**31, 2**55, -(2**56), 2**62]
NUMBERS += [2**63 - 1, -(2**63), *(2 ** (7 * k - 1) for k in range(1, 10))]


def test_numbers_of_every_size() -> None:
    avro = schema_of("long")
    table = pa.Table.from_arrays([pa.array(NUMBERS)], schema=arrow_from_avro(avro))
    encoded = encode_records(table, avro)
    assert encoded == by_fastavro(table, avro)
    assert {len(one) for one in encoded} == set(range(1, 11))
    assert decode_records(encoded, avro).column(0).to_pylist() == NUMBERS
    for one, number in zip(encoded, NUMBERS, strict=True):
        assert decode_records([one], avro).column(0).to_pylist() == [number]


def test_floats_keep_every_bit() -> None:
    avro = schema_of("float", "double")
    record = b"\x01\x00\xc0\x7f" + b"\x00" * 7 + b"\x80"  # a NaN with a payload, and -0.0
    table = decode_records([record], avro)
    assert encode_records(table, avro) == [record]
    assert str(table.to_pylist()) == "[{'c0': nan, 'c1': -0.0}]"


@pytest.mark.parametrize("size", [16, 17, 20])
def test_decimals_of_wide_fixed(size: int) -> None:
    fixed = {"type": "fixed", "name": "f", "size": size}
    avro = schema_of({**fixed, "logicalType": "decimal", "precision": 38, "scale": 2})
    values = [Decimal(f"{sign}{digits}") for sign in "+-" for digits in ("0.01", "9" * 36 + ".99")]
    table = pa.Table.from_arrays(
        [pa.array(values, pa.decimal128(38, 2))], schema=arrow_from_avro(avro)
    )
    encoded = encode_records(table, avro)
    unscaled = [int(str(value).replace(".", "")) for value in values]
    assert encoded == [number.to_bytes(size, "big", signed=True) for number in unscaled]
    assert decode_records(encoded, avro).equals(table)
    if size > 16:
        for bad in (b"\x01" + bytes(size - 1), b"\x00" * (size - 16) + b"\xff" * 16):
            with pytest.raises(FormatError, match="decimal"):
                decode_records([bad], avro)


@settings(max_examples=50)
@given(st.lists(st.integers(-(10**38) + 1, 10**38 - 1), max_size=5))
def test_decimals_of_bytes_are_as_short_as_can_be(numbers: list[int]) -> None:
    avro = schema_of({"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 0})
    values = pa.array([Decimal(number) for number in numbers], pa.decimal128(38, 0))
    table = pa.Table.from_arrays([values], schema=arrow_from_avro(avro))
    encoded = encode_records(table, avro)
    # What Java's BigInteger.toByteArray gives.
    sizes = [(number if number >= 0 else ~number).bit_length() // 8 + 1 for number in numbers]
    assert encoded == [
        bytes([2 * size]) + number.to_bytes(size, "big", signed=True)
        for number, size in zip(numbers, sizes, strict=True)
    ]
    assert decode_records(encoded, avro).equals(table)


def test_longer_decimals_of_bytes_are_read_too() -> None:
    avro = schema_of({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 0})
    records = [b"\x02\x05", b"\x06\x00\x00\x05", b"\x24" + b"\xff" * 18]
    assert decode_records(records, avro).column(0).to_pylist() == [5, 5, -1]


def test_enums() -> None:
    avro = schema_of(["null", {"type": "enum", "name": "e", "symbols": ["A", "B"]}])
    table = pa.table({"c0": ["B", None, "A"]})
    encoded = encode_records(table, avro)
    assert encoded == [b"\x02\x02", b"\x00", b"\x02\x00"]
    assert decode_records(encoded, avro).equals(table)
    with pytest.raises(SchemaMismatch, match="none of A, B"):
        encode_records(pa.table({"c0": ["C"]}), avro)


def test_arrays_in_several_blocks_with_and_without_sizes() -> None:
    avro = schema_of({"type": "array", "items": "int"}, "int")
    record = b"\x04\x02\x04" + b"\x03\x04\x06\x08" + b"\x00" + b"\x0a"
    assert decode_records([record, b"\x00\x0c"], avro).to_pylist() == [
        {"c0": [1, 2, 3, 4], "c1": 5},
        {"c0": [], "c1": 6},
    ]


def test_single_branch_unions() -> None:
    avro = schema_of(["int"])
    table = pa.Table.from_arrays([pa.array([3], pa.int32())], schema=arrow_from_avro(avro))
    assert encode_records(table, avro) == [b"\x00\x06"]
    assert decode_records([b"\x00\x06"], avro).equals(table)


def test_no_rows() -> None:
    avro = schema_of(["null", {"type": "map", "values": "string"}])
    assert decode_records([], avro).equals(arrow_from_avro(avro).empty_table())
    assert encode_records(arrow_from_avro(avro).empty_table(), avro) == []


def test_rows_must_have_the_schema() -> None:
    with pytest.raises(SchemaMismatch, match="are not rows of"):
        encode_records(pa.table({"c0": [1]}), schema_of("int"))
    nulls = pa.Table.from_arrays(
        [pa.array([None], pa.int32())], schema=arrow_from_avro(schema_of("int"))
    )
    with pytest.raises(SchemaMismatch, match="column c0: nulls"):
        encode_records(nulls, schema_of("int"))


def test_slices_of_a_table_and_large_tables_in_batches() -> None:
    item = pa.struct([("x", pa.int32()), ("y", pa.string())])
    count = 70_000
    table = pa.table(
        {
            "id": pa.array(range(count), pa.int64()),
            "l": pa.array([[{"x": i, "y": None}] * (i % 3) for i in range(count)], pa.list_(item)),
            "m": pa.array([None if i % 5 else {str(i): i} for i in range(count)],
                          pa.map_(pa.string(), pa.int32())),
            "d": pa.array([Decimal(i) for i in range(count)], pa.decimal128(20, 0)),
        }
    )  # fmt: skip
    avro = avro_from_arrow(table.schema, "t")
    encoded = encode_array(table, avro)
    assert encoded.num_chunks > 1
    everything = encoded.to_pylist()
    assert decode_records(everything, avro).equals(table)
    part = table.slice(65_530, 12)
    assert encode_records(part, avro) == everything[65_530 : 65_530 + 12]


def test_records_in_place() -> None:
    avro = schema_of("int", "string")
    data = b"..\x02\x02a...\x04\x02b"
    starts, ends = np.array([2, 8]), np.array([5, 11])
    made = decode_slices(data, starts, ends, avro)
    assert made.to_pylist() == [{"c0": 1, "c1": "a"}, {"c0": 2, "c1": "b"}]
    for bad in ([2, 4], [-1, 8], [6, 8]):
        with pytest.raises(FormatError, match="overlap or leave"):
            decode_slices(data, np.array(bad), ends, avro)
    with pytest.raises(FormatError, match="overlap or leave"):
        decode_slices(data, starts, np.array([5, 12]), avro)


BYTES_OF_NOTHING = b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"  # the length 2 ** 63 - 1


@pytest.mark.parametrize(
    ("types", "record", "reason"),
    [
        (["int"], b"", "ends before"),
        (["int"], b"\x80", "ends before"),
        (["int"], b"\x02\x02", "longer than its fields"),
        (["int"], b"\x80\x80\x80\x80\x20", "32 bits"),
        (["long"], b"\xff" * 9 + b"\x02", "64 bits"),
        (["long"], b"\xff" * 12, "64 bits"),
        (["double"], b"\x00" * 7, "ends before"),
        (["boolean"], b"\x02", "neither 0 nor 1"),
        (["string"], b"\x01", "negative"),
        (["string"], b"\x04a", "ends before"),
        (["string"], BYTES_OF_NOTHING, "ends before"),
        (["string"], b"\x02\xff", "UTF-8"),
        ([["null", "int"]], b"\x04", "no branch 2"),
        ([["null", "int"]], b"\x01", "no branch -1"),
        ([["int"]], b"\x02\x02", "no branch 1"),
        ([{"type": "fixed", "name": "f", "size": 2**31 - 1}], b"abc", "ends before"),
        ([{"type": "enum", "name": "e", "symbols": ["A"]}], b"\x02", "symbol"),
        ([{"type": "enum", "name": "e", "symbols": []}], b"\x00", "symbol"),
        ([{"type": "array", "items": "int"}], b"\x02", "longer than its record"),
        ([{"type": "array", "items": "int"}], b"\x02\x02", "longer than its record"),
        ([{"type": "array", "items": "int"}], BYTES_OF_NOTHING, "longer than its record"),
        ([{"type": "array", "items": "string"}], b"\x02\x01\x00", "negative"),
        ([{"type": "array", "items": "int"}], b"\xff" * 1_000_000, "64 bits"),
        ([{"type": "array", "items": "string"}], b"\x02" + b"\xff" * 1_000_000, "64 bits"),
        ([{"type": "array", "items": "string"}], b"\x02\x7e\x00", "longer than its record"),
        ([{"type": "map", "values": "int"}], b"\x02\x02k\x02", "longer than its record"),
        ([{"type": "bytes", "logicalType": "decimal", "precision": 2}], b"\x00", "no bytes"),
        ([{"type": "bytes", "logicalType": "decimal", "precision": 2}], b"\x02\x64", "decimal"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_bad_records(types: list[Any], record: bytes, reason: str) -> None:
    avro = schema_of(*types)
    with pytest.raises(FormatError, match=reason):
        decode_records([record], avro)


def test_a_record_that_reaches_into_the_next_is_found() -> None:
    avro = schema_of("string")
    with pytest.raises(FormatError, match="ends before"):
        decode_records([b"\x04a", b"b\x02c"], avro)


EVERYTHING = schema_of(
    ["null", "string"],
    {"type": "array", "items": ["null", {"type": "map", "values": ["null", "bytes"]}]},
    ["null", {"type": "fixed", "name": "f", "size": 5, "logicalType": "decimal", "precision": 10}],
    {"type": "record", "name": "r", "fields": [{"name": "x", "type": ["double", "null"]}]},
    ["boolean", "null"],
    {"type": "int", "logicalType": "date"},
)
ROW = {
    "c0": "text",
    "c1": [[("k", b"v"), ("n", None)], None, []],
    "c2": Decimal(-5),
    "c3": {"x": 2.5},
    "c4": None,
    "c5": 300,
}


def row_record() -> bytes:
    schema = arrow_from_avro(EVERYTHING)
    columns = [pa.array([ROW[field.name]], field.type) for field in schema]
    return encode_records(pa.Table.from_arrays(columns, schema=schema), EVERYTHING)[0]


@settings(max_examples=200)
@given(st.data())
def test_damaged_records_are_format_errors_or_other_rows(data: st.DataObject) -> None:
    record = bytearray(row_record())
    for _ in range(data.draw(st.integers(1, 3))):
        record[data.draw(st.integers(0, len(record) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(record)))
    try:
        made = decode_records([bytes(record[:cut])], EVERYTHING)
    except FormatError:
        return
    made.validate(full=True)
    assert made.num_rows == 1


@settings(max_examples=200)
@given(st.lists(st.binary(max_size=40), min_size=1, max_size=3))
def test_garbage_records_are_format_errors_or_rows(records: list[bytes]) -> None:
    try:
        made = decode_records(records, EVERYTHING)
    except FormatError:
        return
    assert made.num_rows == len(records)


# ----- what Apache Hudi wrote


def avro_blocks(path: Path) -> Iterator[tuple[str, list[bytes]]]:
    """Schema and records of each Avro data block (type 3) of a log file."""
    data, at = path.read_bytes(), 0
    while at < len(data):
        assert data[at : at + 6] == b"#HUDI#"
        (size,) = struct.unpack_from(">q", data, at + 6)
        kind, entries = struct.unpack_from(">ii", data, at + 18)
        place, header = at + 26, {}
        for _ in range(entries):
            key, length = struct.unpack_from(">ii", data, place)
            header[key] = data[place + 8 : place + 8 + length].decode()
            place += 8 + length
        if kind == 3:
            version, count = struct.unpack_from(">ii", data, place + 8)
            assert version == 3
            place, records = place + 16, []
            for _ in range(count):
                (length,) = struct.unpack_from(">i", data, place)
                records.append(data[place + 4 : place + 4 + length])
                place += 4 + length
            yield header[2], records
        at += 14 + size


def test_fixture_log_blocks_are_written_again_byte_for_byte(unpack: Any) -> None:
    seen = 0
    for name in fixture_tables():
        table = unpack(name)
        for path in sorted(table.rglob(".*.log.*")):
            if "metadata" in path.relative_to(table).parts or path.suffix == ".crc":
                continue
            for avro, records in avro_blocks(path):
                rows = decode_records(records, avro)
                rows.validate(full=True)
                assert rows.column("_hoodie_commit_time").null_count in (0, len(records))
                assert encode_records(rows, avro) == records
                expected = [by_reading(record, avro) for record in records]
                assert rows.to_pylist(maps_as_pydicts="strict") == expected
                seen += len(records)
    assert seen > 10


def by_reading(record: bytes, avro: str) -> Any:
    """A row with Python's dates and decimals, as fastavro reads it."""
    return fastavro.schemaless_reader(
        io.BytesIO(record), fastavro.parse_schema(json.loads(avro)), None
    )
