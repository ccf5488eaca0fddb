"""Avro schema JSON to Arrow and back; the schemas of the fixture tables are the outside word."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.arrow_rows import SCHEMAS
from support.fixtures import fixture_tables

from hoodoo.errors import FormatError, SchemaMismatch, UnsupportedFeature
from hoodoo.format.arrow_types import fixed_size_of, normalise
from hoodoo.format.schema import (
    META_FIELDS,
    OPERATION,
    arrow_from_avro,
    avro_from_arrow,
    with_meta_fields,
    without_meta_fields,
)


def record(*fields: Any, **more: Any) -> str:
    return json.dumps({"type": "record", "name": "t", "fields": list(fields), **more})


def field(type_: Any, name: str = "c") -> dict[str, Any]:
    return {"name": name, "type": type_}


def type_of(avro: Any) -> pa.DataType:
    return arrow_from_avro(record(field(avro))).field("c").type


@settings(max_examples=40)
@given(SCHEMAS)
def test_arrow_to_avro_to_arrow_is_the_identity(schema: pa.Schema) -> None:
    assert normalise(schema) == schema
    made = arrow_from_avro(avro_from_arrow(schema, "t"))
    assert made == schema
    # Equality of list and map types does not look at the names inside.
    assert str(made) == str(schema)


@settings(max_examples=40)
@given(SCHEMAS)
def test_what_we_write_is_avro_to_others(schema: pa.Schema) -> None:
    fastavro.parse_schema(json.loads(avro_from_arrow(schema, "t")))


@pytest.mark.parametrize(
    ("avro", "arrow"),
    [
        ("string", pa.string()),
        ({"type": "string"}, pa.string()),
        ({"type": "string", "avro.java.string": "String"}, pa.string()),
        ({"type": "string", "logicalType": "uuid"}, pa.string()),
        ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, pa.string()),
        ({"type": "fixed", "name": "f", "size": 16, "logicalType": "uuid"}, pa.binary(16)),
        ({"type": "int", "logicalType": "date"}, pa.date32()),
        ({"type": "int", "logicalType": "time-millis"}, pa.time32("ms")),
        ({"type": "long", "logicalType": "time-micros"}, pa.time64("us")),
        ({"type": "long", "logicalType": "timestamp-millis"}, pa.timestamp("ms", tz="UTC")),
        ({"type": "long", "logicalType": "timestamp-micros"}, pa.timestamp("us", tz="UTC")),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, pa.timestamp("ms")),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, pa.timestamp("us")),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9}, pa.decimal128(9, 0)),
        # A logical type that does not fit does not count.
        ({"type": "long", "logicalType": "date"}, pa.int64()),
        ({"type": "long", "logicalType": "surprise"}, pa.int64()),
        ({"type": "int", "logicalType": ["date"]}, pa.int32()),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 4},
            pa.binary(),
        ),
        (
            {"type": "fixed", "name": "f", "size": 2, "logicalType": "decimal", "precision": 5},
            pa.binary(2),
        ),
        ({"type": "array", "items": ["null", "long"]}, pa.list_(pa.int64())),
        (
            {"type": "array", "items": "long"},
            pa.list_(pa.field("element", pa.int64(), nullable=False)),
        ),
        ({"type": "map", "values": ["double", "null"]}, pa.map_(pa.string(), pa.float64())),
    ],
)
def test_types(avro: Any, arrow: pa.DataType) -> None:
    assert type_of(avro) == arrow


def test_nullable_in_both_spellings() -> None:
    schema = arrow_from_avro(
        record(field(["null", "int"], "a"), field(["int", "null"], "b"), field("int", "c"))
    )
    assert [one.nullable for one in schema] == [True, True, False]
    assert schema.types == [pa.int32()] * 3


def test_named_types_are_found_by_name_and_namespace() -> None:
    inner = {"type": "record", "name": "p", "fields": [field("int", "x")]}
    fixed = {"type": "fixed", "name": "other.f", "size": 2}
    schema = arrow_from_avro(
        record(
            field(inner, "a"),
            field("p", "b"),
            field(["null", "n.s.p"], "c"),
            field(fixed, "d"),
            field("other.f", "e"),
            namespace="n.s",
        )
    )
    point = pa.struct([pa.field("x", pa.int32(), nullable=False)])
    assert schema.types == [point, point, point, pa.binary(2), pa.binary(2)]


def test_names_are_those_of_apache_hudi() -> None:
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            pa.field("price", pa.decimal128(10, 2), metadata={b"comment": "in €".encode()}),
            pa.field(
                "s", pa.struct([("d", pa.decimal128(38, 0)), ("in", pa.struct([("x", pa.int8())]))])
            ),
            pa.field("l", pa.list_(pa.struct([("y", pa.string())]))),
        ]
    )
    avro = avro_from_arrow(schema, "trips")
    assert avro == (
        '{"type":"record","name":"trips_record","namespace":"hoodie.trips","fields":['
        '{"name":"id","type":"long"},'
        '{"name":"price","type":["null",{"type":"fixed","name":"fixed",'
        '"namespace":"hoodie.trips.trips_record.price","size":5,"logicalType":"decimal",'
        '"precision":10,"scale":2}],"doc":"in €","default":null},'
        '{"name":"s","type":["null",{"type":"record","name":"s",'
        '"namespace":"hoodie.trips.trips_record","fields":['
        '{"name":"d","type":["null",{"type":"fixed","name":"fixed",'
        '"namespace":"hoodie.trips.trips_record.s.d","size":16,"logicalType":"decimal",'
        '"precision":38,"scale":0}],"default":null},'
        '{"name":"in","type":["null",{"type":"record","name":"in",'
        '"namespace":"hoodie.trips.trips_record.s","fields":['
        '{"name":"x","type":["null","int"],"default":null}]}],"default":null}]}],"default":null},'
        '{"name":"l","type":["null",{"type":"array","items":["null",{"type":"record","name":"l",'
        '"namespace":"hoodie.trips.trips_record","fields":['
        '{"name":"y","type":["null","string"],"default":null}]}]}],"default":null}]}'
    )
    comment = arrow_from_avro(avro).field("price").metadata
    assert comment == {b"comment": "in €".encode()}


@pytest.mark.parametrize(
    ("table", "name"),
    [("trips", "trips"), ("my-trips 2", "my__trips__2"), ("2nd", "__nd"), ("été", "__t__")],
)
def test_table_names_become_avro_names(table: str, name: str) -> None:
    tree = json.loads(avro_from_arrow(pa.schema([("a", pa.int32())]), table))
    assert (tree["name"], tree["namespace"]) == (f"{name}_record", f"hoodie.{name}")


@pytest.mark.parametrize(
    ("given_type", "table_type"),
    [
        (pa.large_string(), pa.string()),
        (pa.string_view(), pa.string()),
        (pa.large_binary(), pa.binary()),
        (pa.dictionary(pa.int8(), pa.string()), pa.string()),
        (pa.large_list(pa.large_string()), pa.list_(pa.string())),
        (pa.list_(pa.int16(), 3), pa.list_(pa.int32())),
        (pa.map_(pa.large_string(), pa.uint8()), pa.map_(pa.string(), pa.int32())),
        (pa.uint16(), pa.int32()),
        (pa.uint32(), pa.int64()),
        (pa.float16(), pa.float32()),
        (pa.date64(), pa.date32()),
        (pa.time32("s"), pa.time32("ms")),
        (pa.timestamp("s"), pa.timestamp("ms")),
        (pa.timestamp("us", tz="Europe/Paris"), pa.timestamp("us", tz="UTC")),
        (pa.decimal32(5, 2), pa.decimal128(5, 2)),
        (pa.decimal256(38, 2), pa.decimal128(38, 2)),
    ],
)
def test_equal_values_get_one_type(given_type: pa.DataType, table_type: pa.DataType) -> None:
    assert normalise(pa.schema([("c", given_type)])) == pa.schema([("c", table_type)])


@pytest.mark.parametrize(
    "type_",
    [
        pa.uint64(),
        pa.timestamp("ns"),
        pa.time64("ns"),
        pa.decimal256(39, 0),
        pa.decimal128(3, -1),
        pa.null(),
        pa.duration("us"),
        pa.list_view(pa.int32()),
        pa.map_(pa.int32(), pa.int32()),
        pa.struct([]),
        pa.struct([("in", pa.list_(pa.uint64()))]),
        pa.binary(0),
        pa.dense_union([pa.field("a", pa.int32())]),
        pa.uuid(),
    ],
    ids=str,
)
def test_types_that_no_table_has_are_refused_by_column(type_: pa.DataType) -> None:
    with pytest.raises(SchemaMismatch, match=r"column c\b"):
        avro_from_arrow(pa.schema([("c", type_)]), "t")


@pytest.mark.parametrize("name", ["", "a b", "1a", "é", "a.b", "a\n"])
def test_names_that_avro_forbids_are_refused(name: str) -> None:
    with pytest.raises(SchemaMismatch, match=re.escape(f"column {name}")):
        avro_from_arrow(pa.schema([(name, pa.int32())]), "t")
    with pytest.raises(SchemaMismatch, match=re.escape(f"column s.{name}")):
        avro_from_arrow(pa.schema([("s", pa.struct([(name, pa.int32())]))]), "t")


def test_names_that_differ_only_in_case_are_refused() -> None:
    with pytest.raises(SchemaMismatch, match="a and A"):
        normalise(pa.schema([("a", pa.int32()), ("A", pa.int32())]))
    with pytest.raises(SchemaMismatch, match="at least one column"):
        avro_from_arrow(pa.schema([]), "t")
    with pytest.raises(SchemaMismatch, match="needs a name"):
        avro_from_arrow(pa.schema([("a", pa.int32())]), "")


@pytest.mark.parametrize(
    "avro",
    [
        ["int", "string"],
        ["null", "int", "string"],
        ["null", "null", "int"],
        [],
        ["null"],
        "null",
        {"type": "null"},
        {"type": "long", "logicalType": "timestamp-nanos"},
        {"type": "bytes", "logicalType": "decimal", "precision": 39},
        {"type": "record", "name": "t2", "fields": [field(["null", "t2"], "next")]},
    ],
    ids=json.dumps,
)
def test_valid_avro_that_tables_cannot_have_names_the_field(avro: Any) -> None:
    with pytest.raises(UnsupportedFeature, match=r"field c\b"):
        type_of(avro)


@pytest.mark.parametrize(
    "avro",
    [
        None,
        1,
        "unknown",
        {},
        {"type": None},
        {"type": ["null", "int"]},
        {"type": "array"},
        {"type": "map", "values": 3},
        {"type": "record", "name": "x"},
        {"type": "record", "name": "x", "fields": []},
        {"type": "record", "name": "x", "fields": [1]},
        {"type": "record", "name": "x", "fields": [{"type": "int"}]},
        {"type": "record", "name": "x", "fields": [field("int"), field("int")]},
        {"type": "record", "name": "", "fields": [field("int")]},
        {"type": "record", "name": "t", "fields": [field("int")]},
        {"type": "record", "name": "x", "namespace": 1, "fields": [field("int")]},
        {"type": "fixed", "name": "f"},
        {"type": "fixed", "name": "f", "size": 0},
        {"type": "fixed", "name": "f", "size": True},
        {"type": "fixed", "name": "f", "size": 2**31},
        {"type": "fixed", "name": "f", "size": "4"},
        {"type": "enum", "name": "e"},
        {"type": "enum", "name": "e", "symbols": [1]},
        {"type": "enum", "name": "e", "symbols": ["\ud800"]},
        {"type": "record", "name": "x", "fields": [field("int", "\ud800")]},
    ],
    ids=json.dumps,
)
def test_bad_schemas_are_format_errors_that_name_the_field(avro: Any) -> None:
    with pytest.raises(FormatError, match=r"field c\b"):
        type_of(avro)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '"string"',
        '{"type":"int"}',
        '{"type":"record"}',
        '{"type":"record","fields":{}}',
        "[" * 100_000,
        '{"type":"record","name":"t","fields":[],"x":' + "9" * 5000 + "}",
    ],
    ids=lambda text: text[:20],
)
def test_text_that_is_no_record_schema(text: str) -> None:
    with pytest.raises(FormatError, match="Avro schema"):
        arrow_from_avro(text)
    if 'fields":[]' not in text:
        with pytest.raises(FormatError, match="Avro schema"):
            with_meta_fields(text)


def test_deep_and_exploding_schemas_are_refused() -> None:
    deep: Any = "int"
    for _ in range(200):
        deep = {"type": "array", "items": deep}
    with pytest.raises(FormatError, match="deeper"):
        type_of(deep)
    # Each record holds the one before ten times: 10 ** 12 leaves from a kilobyte.
    laughs = [field({"type": "record", "name": "r0", "fields": [field("int")]}, "f0")]
    for level in range(1, 13):
        inner = [field(f"r{level - 1}", f"x{index}") for index in range(10)]
        laughs.append(field({"type": "record", "name": f"r{level}", "fields": inner}, f"f{level}"))
    with pytest.raises(FormatError, match="more than"):
        arrow_from_avro(record(*laughs))


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["int", "record", "t", "fixed"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "name", "fields", "items", "values", "size", "symbols"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@settings(max_examples=200)
@given(st.lists(JSON_VALUES, max_size=3))
def test_no_json_escapes_the_error_tree(fields: list[Any]) -> None:
    text = json.dumps({"type": "record", "name": "t", "fields": fields})
    try:
        schema = arrow_from_avro(text)
    except (FormatError, UnsupportedFeature):
        return
    assert len(schema) == len(fields)


def test_meta_fields_come_and_go() -> None:
    data = pa.schema([("a", pa.int32()), ("b", pa.string())])
    full = with_meta_fields(data)
    assert tuple(full.names) == (*META_FIELDS, "a", "b")
    assert with_meta_fields(full) == full
    assert without_meta_fields(full) == data
    avro = avro_from_arrow(data, "t")
    assert with_meta_fields(avro) == avro_from_arrow(full, "t")
    assert with_meta_fields(with_meta_fields(avro)) == with_meta_fields(avro)
    assert without_meta_fields(with_meta_fields(avro)) == avro
    changelog = pa.schema([*full, pa.field(OPERATION, pa.string())])
    assert without_meta_fields(changelog) == data


@pytest.mark.parametrize("precision", range(1, 39))
def test_fixed_size_is_the_smallest_that_holds_all_digits(precision: int) -> None:
    size, largest = fixed_size_of(precision), 10**precision - 1
    largest.to_bytes(size, "big", signed=True)
    with pytest.raises(OverflowError):
        largest.to_bytes(size - 1, "big", signed=True)


# ----- what Apache Hudi wrote


def base_files(table: Path) -> list[Path]:
    return [path for path in sorted(table.rglob("*.parquet")) if ".hoodie" not in path.parts]


def commit_schema(path: Path) -> str | None:
    data = path.read_bytes()
    if data.startswith(b"Obj\x01"):
        metadata: Any = next(iter(fastavro.reader(io.BytesIO(data))))
    else:
        metadata = json.loads(data) if data.startswith(b"{") else {}
    return (metadata.get("extraMetadata") or {}).get("schema") or None


def unescape(value: str) -> str:
    return re.sub(r"\\(.)", r"\1", value)


@pytest.mark.parametrize("name", fixture_tables())
def test_schemas_of_fixture_footers(name: str, unpack: Any) -> None:
    for path in base_files(unpack(name)):
        parquet = pq.ParquetFile(path)
        text = (parquet.metadata.metadata or {}).get(b"parquet.avro.schema")
        if text is None:
            continue
        avro = text.decode()
        schema = arrow_from_avro(avro)
        table = json.loads(avro)["name"].removesuffix("_record")
        assert avro_from_arrow(schema, table) == avro
        assert with_meta_fields(without_meta_fields(avro)) == avro
        in_file = pa.struct(list(normalise(parquet.schema_arrow)))
        assert with_nullable_items(in_file) == pa.struct(list(schema))


def with_nullable_items(type_: pa.DataType) -> pa.DataType:
    """Lists of two levels, which Java writes, cannot tell that their items may be null."""
    if pa.types.is_struct(type_):
        return pa.struct([one.with_type(with_nullable_items(one.type)) for one in type_])
    if pa.types.is_list(type_):
        return pa.list_(with_nullable_items(type_.value_type))
    return type_


@pytest.mark.parametrize("name", fixture_tables())
def test_schemas_of_fixture_properties_and_commits(name: str, unpack: Any) -> None:
    table = unpack(name)
    found = []
    for line in (table / ".hoodie/hoodie.properties").read_text("latin-1").splitlines():
        if line.startswith("hoodie.table.create.schema="):
            found.append(unescape(line.partition("=")[2]))
    for path in sorted((table / ".hoodie").rglob("*commit")):
        if "metadata" not in path.parts:
            found.extend(filter(None, [commit_schema(path)]))
    assert found
    for avro in found:
        schema = arrow_from_avro(avro)
        assert not set(META_FIELDS) & set(schema.names)
        again = arrow_from_avro(avro_from_arrow(schema, "t"))
        assert again.equals(schema, check_metadata=True)
