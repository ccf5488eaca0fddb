"""create: schemas from text and files, and what becomes of the options."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hoodoo
from hoodoo.cli.input.schema import parse_schema
from hoodoo.errors import InputError

AVRO = {
    "type": "record",
    "name": "trip",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "city", "type": ["null", "string"], "default": None},
    ],
}
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("city", pa.string())])


def test_create_makes_a_table_and_prints_its_place(tmp_path: Path, hoodoo_cli) -> None:
    place = tmp_path / "trips"
    words = ["create", place, "--schema", "id:long!, city:string, day:date, ts:timestamp"]
    words += ["--record-key", "id,day", "--partition-by", "city", "--ordering", "ts"]
    words += ["--type", "mor", "--option", "hoodie.datasource.write.hive_style_partitioning=false"]
    ran = hoodoo_cli(*words)
    assert (ran.code, ran.out) == (0, f"made table trips at file://{place}\n")
    facts = hoodoo_cli("show", place, "--json").json
    assert (facts["name"], facts["type"]) == ("trips", "MERGE_ON_READ")
    assert (facts["record_key"], facts["partition_fields"]) == (["id", "day"], ["city"])
    assert facts["ordering"] == ["ts"]
    assert facts["hive_style_partitions"] is False
    table = hoodoo.open_table(str(place))
    assert table.schema.field("ts").type == pa.timestamp("us", "UTC")
    assert table.schema.field("id").nullable is False


def test_create_prints_json(tmp_path: Path, hoodoo_cli) -> None:
    words = ("create", tmp_path / "t", "--schema", "id:long", "--record-key", "id", "--json")
    made = hoodoo_cli(*words, "--name", "other").json
    assert made["name"] == "other"
    assert made["uri"] == f"file://{tmp_path}/t"
    assert made["properties"] == dict(hoodoo.open_table(str(tmp_path / "t")).properties)


@pytest.mark.parametrize("kind", ["avro file", "avro text", "parquet file", "short form"])
def test_where_a_schema_comes_from(kind: str, tmp_path: Path, hoodoo_cli) -> None:
    given = str(tmp_path / "schema")
    if kind == "avro file":
        Path(given).write_text(json.dumps(AVRO, indent=2))
    elif kind == "parquet file":
        with_meta = pa.schema([pa.field("_hoodie_commit_time", pa.string()), *SCHEMA])
        pq.write_table(with_meta.empty_table(), given)
    else:
        given = json.dumps(AVRO) if kind == "avro text" else "id:bigint!,city:STRING"
    ran = hoodoo_cli("create", tmp_path / "t", "--schema", given, "--record-key", "id")
    assert ran.code == 0, ran.err
    assert hoodoo.open_table(str(tmp_path / "t")).schema == SCHEMA


def test_short_form_of_every_type() -> None:
    found = parse_schema(
        "a:boolean, b:int, c:float, d:double!, e:bytes, f:time, g:timestamp_ntz,"
        "h:decimal(10,2), i:decimal(5), j:fixed(16), k:list<string!>, l:map<decimal(4, 1)>,"
        "m:struct<x:list<struct<y:int!>>, z:date>"
    )
    element = pa.field("element", pa.string(), nullable=False)
    deep = pa.list_(pa.field("element", pa.struct([pa.field("y", pa.int32(), nullable=False)])))
    assert found == pa.schema(
        [
            ("a", pa.bool_()),
            ("b", pa.int32()),
            ("c", pa.float32()),
            pa.field("d", pa.float64(), nullable=False),
            ("e", pa.binary()),
            ("f", pa.time64("us")),
            ("g", pa.timestamp("us")),
            ("h", pa.decimal128(10, 2)),
            ("i", pa.decimal128(5, 0)),
            ("j", pa.binary(16)),
            ("k", pa.list_(element)),
            ("l", pa.map_(pa.string(), pa.decimal128(4, 1))),
            ("m", pa.struct([("x", deep), ("z", pa.date32())])),
        ]
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("id", "expected : at the end"),
        ("id:", "expected a type at the end"),
        ("id:long,", "expected a column name at the end"),
        ("id:wide", "unknown type 'wide'"),
        ("id:long;x:int", "expected , or the end before ';x:int'"),
        ("id:list<int", "expected > at the end"),
        ("id:decimal(99)", "precision"),
        ("id:decimal(x)", "'x' is not a number"),
        ("id:fixed(99999999999)", "is not a number"),
        (":long", "expected a column name"),
        ("id:" + "list<" * 99, "nested too deeply"),
    ],
)
def test_a_bad_short_form_says_where(text: str, reason: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_schema(text)
    assert reason in str(caught.value)


def test_many_columns_are_not_deep_ones() -> None:
    assert len(parse_schema(",".join(f"c{n}:list<int>" for n in range(200)))) == 200


@given(st.text("ab:,<>()!19 listmapstructdecimalfixed", max_size=40))
def test_no_text_breaks_the_parser(text: str) -> None:
    try:
        found = parse_schema(text)
    except InputError:
        return
    assert found.names


def test_invalid_tables_are_not_created(tmp_path: Path, hoodoo_cli) -> None:
    key = ("--record-key", "id")
    (tmp_path / "torn.parquet").write_bytes(b"PAR1 and no more")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "broken.avsc").write_text("[1, 2")
    for schema, reason in (
        (str(tmp_path / "torn.parquet"), "not a Parquet file"),
        (str(tmp_path / "binary"), "neither a Parquet file nor Avro JSON"),
        (str(tmp_path / "broken.avsc"), "not an Avro schema"),
        (str(tmp_path / "absent.avsc"), "no such file"),
        ('{"type": "record"}', "not an Avro schema"),
        ("other:long", "no column 'id'"),
    ):
        ran = hoodoo_cli("create", tmp_path / "t", "--schema", schema, *key)
        assert (ran.code, ran.out) == (1, ""), schema
        assert reason in ran.err
        assert ran.err.startswith("hoodoo: ")
        assert len(ran.err.splitlines()) == 1
    assert not (tmp_path / "t").exists()


def test_a_table_is_never_made_twice(tmp_path: Path, hoodoo_cli) -> None:
    words = ("create", tmp_path / "t", "--schema", "id:long", "--record-key", "id")
    assert hoodoo_cli(*words).code == 0
    again = hoodoo_cli(*words)
    assert again.code == 1
    assert again.err == f"hoodoo: a table already exists at file://{tmp_path}/t\n"
