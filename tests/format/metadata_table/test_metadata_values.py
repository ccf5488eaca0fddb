"""Values of metadata tables: those that Apache Hudi wrote, and fastavro, are the outside word."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.metadata_tables import Piece, pieces_of, with_metadata

from hoodoo.errors import FormatError
from hoodoo.format.metadata_table.bloom_filters import decode_bloom_filters, encode_bloom_filters
from hoodoo.format.metadata_table.column_stats import (
    bounds_in,
    decode_column_stats,
    encode_column_stats,
)
from hoodoo.format.metadata_table.files import decode_file_lists, encode_file_lists, explode, gather
from hoodoo.format.metadata_table.record_index import decode_record_index, encode_record_index
from hoodoo.format.metadata_table.schema import COLUMN_STATS, RECORD, Wrapper, schema_json
from hoodoo.format.metadata_table.secondary_index import (
    decode_secondary_keys,
    encode_secondary_keys,
)
from hoodoo.format.metadata_table.values import decode_values, encode_values

Decode = Callable[..., pa.Table]
Encode = Callable[..., pa.Array]

EMPTY_LIST = bytes.fromhex("0000000000 00 02 0200 00 00 00 00")
ROOT_LIST = bytes.fromhex("0000000000 00 02 0202022e000000 00000000")
LOCATION = bytes.fromhex(
    "0000000000 00 0a 00 00 00"
    "02 0200 02afc4e5eba4a6e4a06b 02d790a4c0f38a90dd8301 0200 0200 02deaabfa69967 00 00 00"
)
SECONDARY = bytes.fromhex("0000000000 00 0e 00 00 00 00 0200")


def codec_of(partition: str) -> tuple[Decode, Encode]:
    if partition.startswith("secondary_index"):
        return decode_secondary_keys, encode_secondary_keys
    return {
        "files": (decode_file_lists, encode_file_lists),
        "column_stats": (decode_column_stats, encode_column_stats),
        "partition_stats": (decode_column_stats, encode_column_stats),
        "record_index": (decode_record_index, encode_record_index),
    }[partition]


def filled(table: str) -> list[Piece]:
    return [piece for piece in pieces_of(table) if len(piece.keys)]


def without_docs(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {key: without_docs(value) for key, value in schema.items() if key != "doc"}
    return [without_docs(item) for item in schema] if isinstance(schema, list) else schema


def test_schema_is_that_of_apache_hudi_but_for_texts(fixtures) -> None:
    found = {piece.schema_json for table in with_metadata() for piece in filled(table)}
    (theirs,) = found
    assert len(theirs) == 8910
    assert json.dumps(without_docs(json.loads(theirs)), separators=(",", ":")) == schema_json()


def test_schema_of_commits_has_no_meta_fields() -> None:
    with_meta, without = (json.loads(schema_json(meta_fields=flag)) for flag in (True, False))
    assert with_meta["fields"][5:] == without["fields"]


@pytest.mark.parametrize("table", with_metadata())
def test_every_value_of_the_fixtures_encodes_to_the_same_bytes(table: str) -> None:
    for piece in filled(table):
        records = decode_values(piece.values, piece.schema_json)
        records.validate(full=True)
        assert encode_values(records).to_pylist() == piece.values.to_pylist()
        decode, encode = codec_of(piece.partition)
        rows = decode(piece.keys, piece.values, piece.schema_json)
        rows.validate(full=True)
        assert rows["key"].to_pylist() == [key.decode() for key in piece.keys.to_pylist()]
        names = set(records.field("_hoodie_file_name").to_pylist())
        assert names <= {None, piece.file_name}  # a compaction has put itself in
        (name,) = names
        assert encode(rows, base_file=name).to_pylist() == piece.values.to_pylist()


def test_fixtures_have_thousands_of_values(fixtures) -> None:
    count = sum(len(piece.keys) for table in with_metadata() for piece in filled(table))
    assert count == 3996


def test_worked_lists_decode() -> None:
    keys = pa.array([b"__all_partitions__", b"__all_partitions__"])
    lists = decode_file_lists(keys, pa.array([EMPTY_LIST, ROOT_LIST]))
    root = {"key": "__all_partitions__", "name": ".", "size_bytes": 0, "is_deleted": False}
    assert explode(lists).to_pylist() == [root]
    assert encode_file_lists(lists).to_pylist() == [EMPTY_LIST, ROOT_LIST]


def test_worked_location_decodes() -> None:
    table = decode_record_index(pa.array([b"TXN-006"]), pa.array([LOCATION]))
    assert table.to_pylist() == [
        {
            "key": "TXN-006",
            "partition": "",
            "file_id": "ca5f3766-d943-4ee8-be22-dfd463fb7bd4-0",
            "instant_ms": 1772922333871,
            "position": None,
        }
    ]
    assert encode_record_index(table).to_pylist() == [LOCATION]


def test_worked_secondary_key_decodes() -> None:
    table = decode_secondary_keys(pa.array([b"Amazon$TXN-001"]), pa.array([SECONDARY]))
    assert table.to_pylist() == [{"key": "Amazon$TXN-001", "is_deleted": False}]
    assert encode_secondary_keys(table).to_pylist() == [SECONDARY]


def test_lists_are_gathered_by_key_with_those_that_are_empty() -> None:
    keys = pa.array([b"b", b"a"])
    values = pa.array([EMPTY_LIST, ROOT_LIST])
    rows = explode(decode_file_lists(keys, values.take(pa.array([1, 0]))))
    gathered = gather(rows, pa.array(["b", "a"]))
    assert gathered["key"].to_pylist() == ["a", "b"]
    assert [len(one) for one in gathered["files"].to_pylist()] == [0, 1]
    assert gather(rows)["key"].to_pylist() == ["b"]


def test_bloom_filters_survive_the_round_trip() -> None:
    schema = fastavro.parse_schema(json.loads(schema_json()))
    bloom = {"type": "SIMPLE", "timestamp": "1", "bloomFilter": b"AAAA", "isDeleted": False}
    record = {"key": "", "type": 4, "filesystemMetadata": None, "BloomFilterMetadata": bloom}
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, record)
    table = decode_bloom_filters(pa.array(["k"]), pa.array([out.getvalue()]))
    (row,) = table.to_pylist()
    assert list(row.values()) == ["k", "SIMPLE", "1", b"AAAA", False]
    assert encode_bloom_filters(table).to_pylist() == [out.getvalue()]


# -- all kinds of bounds, beside fastavro ---------------------------------------------------------

BOUNDS = st.one_of(
    st.none(),
    st.tuples(st.just("BooleanWrapper"), st.booleans()),
    st.tuples(st.sampled_from(("IntWrapper", "DateWrapper", "LocalDateWrapper")),
              st.integers(-(2**31), 2**31 - 1)),
    st.tuples(st.sampled_from(("LongWrapper", "TimestampMicrosWrapper")),
              st.integers(-(2**63), 2**63 - 1)),
    st.tuples(st.just("FloatWrapper"), st.floats(width=32, allow_nan=False)),
    st.tuples(st.just("DoubleWrapper"), st.floats(allow_nan=False)),
    st.tuples(st.just("BytesWrapper"), st.binary(max_size=9)),
    st.tuples(st.just("StringWrapper"), st.text(max_size=9)),
    st.tuples(st.just("DecimalWrapper"),
              st.decimals(-(10**9), 10**9, places=15).map(lambda d: d.quantize(Decimal("1e-15")))),
)  # fmt: skip


def wrap(bound: tuple[str, Any] | None) -> Any:
    return bound and (f"org.apache.hudi.avro.model.{bound[0]}", {"value": bound[1]})


@settings(max_examples=60)
@given(st.lists(st.tuples(BOUNDS, BOUNDS, st.none() | st.integers(0, 2**40)), max_size=6))
def test_bounds_of_all_kinds_are_as_fastavro_writes_them(rows) -> None:
    schema = fastavro.parse_schema(json.loads(schema_json()))
    values = []
    for low, high, count in rows:
        stats = {
            "fileName": "f", "columnName": "c", "minValue": wrap(low), "maxValue": wrap(high),
            "valueCount": count, "isDeleted": False, "isTightBound": count is None,
            "valueType": None if count is None else {"typeOrdinal": 7, "additionalInfo": "x"},
        }  # fmt: skip
        record = {"key": "", "type": 3, "filesystemMetadata": None, COLUMN_STATS: stats}
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, record)
        values.append(out.getvalue())
    keys = pa.array(["k"] * len(values), pa.string())
    table = decode_column_stats(keys, pa.array(values, pa.binary()))
    assert encode_column_stats(table).to_pylist() == values
    for column, bounds in (
        ("min_value", [r[0] for r in rows]),
        ("max_value", [r[1] for r in rows]),
    ):
        inside = [bound and bound["value"] for bound in table[column].to_pylist()]
        assert inside == [bound and bound[1] for bound in bounds]


@pytest.mark.parametrize(
    "bounds", [[("IntWrapper", 4), None, ("StringWrapper", "x")], []], ids=["some", "none"]
)
def test_arrays_of_bounds_survive(bounds: list[tuple[str, Any] | None]) -> None:
    schema = fastavro.parse_schema(json.loads(schema_json()))
    parts = [wrap(bound) for bound in bounds]
    array = ("org.apache.hudi.avro.model.ArrayWrapper", {"wrappedValues": parts})
    stats = {"minValue": array, "maxValue": wrap(("IntWrapper", 1)), "isDeleted": False}
    record = {"key": "", "type": 3, "filesystemMetadata": None, COLUMN_STATS: stats}
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, record)
    values = pa.array([out.getvalue()] * 3)
    table = decode_column_stats(pa.array(["k"] * 3), values)
    assert encode_column_stats(table).to_pylist() == values.to_pylist()
    rows, inside = bounds_in(table["min_value"].combine_chunks(), Wrapper.ARRAY)
    assert rows.tolist() == [0, 1, 2]
    assert inside[0].as_py() == [bound and {"value": bound[1]} for bound in bounds]


# -- other schemas, and bad bytes -----------------------------------------------------------------


def old_schema() -> dict[str, Any]:
    """As 0.14 had it: no secondary index, no type of values, no arrays, no encoding of ids."""
    schema = json.loads(schema_json())
    fields = {field["name"]: field for field in schema["fields"]}
    del schema["fields"][-1]
    stats = fields[COLUMN_STATS]["type"][1]
    stats["fields"] = [f for f in stats["fields"] if f["name"] not in ("valueType", "isTightBound")]
    for field in stats["fields"]:
        if field["name"] in ("minValue", "maxValue"):
            field["type"] = field["type"][:12]
    index = fields["recordIndexMetadata"]["type"][1]
    index["fields"] = [
        f for f in index["fields"] if f["name"] not in ("fileIdEncoding", "position", "fileId")
    ]
    return schema


def test_values_of_an_old_schema_get_what_they_lack() -> None:
    schema = fastavro.parse_schema(old_schema())
    stats = {
        "fileName": "f", "columnName": "c", "isDeleted": False,
        "minValue": wrap(("IntWrapper", 1)), "maxValue": wrap(("StringWrapper", "x")),
    }  # fmt: skip
    index = {"partitionName": "p", "fileIdHighBits": 1, "fileIdLowBits": 2, "fileIndex": -1,
             "instantTime": 5}  # fmt: skip
    values = []
    for payload in ({"type": 3, COLUMN_STATS: stats}, {"type": 5, "recordIndexMetadata": index}):
        out = io.BytesIO()
        record = {"key": "", "filesystemMetadata": None} | payload
        fastavro.schemaless_writer(out, schema, record)
        values.append(pa.array([out.getvalue()]))
    writer = json.dumps(old_schema())
    (row,) = decode_column_stats(pa.array(["k"]), values[0], writer).to_pylist()
    assert (row["min_value"], row["max_value"]) == ({"value": 1}, {"value": "x"})
    assert (row["is_tight_bound"], row["value_type"]) == (False, None)
    (row,) = decode_record_index(pa.array(["k"]), values[1], writer).to_pylist()
    assert row["file_id"] == "00000000-0000-0001-0000-000000000002"
    assert decode_values(values[0], writer).type == RECORD.arrow


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\0",
        LOCATION[:-1],
        LOCATION + b"\0",
        b"\xff" * 20,
        LOCATION.replace(b"\x0a", b"\x0c", 1),
    ],
)
def test_bad_bytes_are_a_format_error(value: bytes) -> None:
    with pytest.raises(FormatError):
        decode_record_index(pa.array(["k", "l"]), pa.array([LOCATION, value]))


@settings(max_examples=300)
@given(st.data())
def test_damaged_values_decode_or_are_a_format_error(data) -> None:
    pieces = [one for table in with_metadata()[:3] for one in filled(table)]
    if not pieces:
        pytest.skip("the fixtures are absent")
    piece = data.draw(st.sampled_from(pieces))
    value = bytearray(data.draw(st.sampled_from(piece.values.to_pylist())))
    for _ in range(data.draw(st.integers(1, 3))):
        value[data.draw(st.integers(0, len(value) - 1))] = data.draw(st.integers(0, 255))
    decode, encode = codec_of(piece.partition)
    try:
        table = decode(pa.array(["k"]), pa.array([bytes(value)]))
    except FormatError:
        return
    table.validate(full=True)
    encode(table)


def test_keys_that_are_not_text_are_a_format_error() -> None:
    with pytest.raises(FormatError, match="UTF-8"):
        decode_record_index(pa.array([b"\xff"]), pa.array([LOCATION]))


def test_no_entries_make_an_empty_table_and_no_values() -> None:
    for partition in ("files", "column_stats", "record_index", "secondary_index_x"):
        decode, encode = codec_of(partition)
        table = decode(pa.array([], pa.large_binary()), pa.array([], pa.large_binary()))
        assert table.num_rows == 0
        assert len(encode(table)) == 0


def test_slices_and_chunks_decode_like_whole_arrays() -> None:
    values = pa.chunked_array([pa.array([LOCATION, LOCATION])[1:], pa.array([LOCATION])])
    table = decode_record_index(pa.chunked_array([["a"], ["b"]]), values)
    assert table["partition"].to_pylist() == ["", ""]
    assert len(decode_values(values)) == 2
    assert np.all(decode_values(values).field("type").to_numpy() == 5)
