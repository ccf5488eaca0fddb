"""Reports of a table's facts, schema and rows."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from support.fixtures import fixture_tables
from support.wheel import wheel_rows

import hoodoo
from hoodoo.inspect.table import report_schema, report_table
from hoodoo.read.scan import count_all_rows, read_first_rows
from hoodoo.table.ref import open_ref

NESTED = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("at", pa.struct([("lat", pa.float64()), ("tags", pa.list_(pa.string()))])),
        pa.field("notes", pa.map_(pa.string(), pa.decimal128(10, 2))),
        pa.field("ts", pa.int64(), metadata={"comment": "when"}),
    ]
)


def test_facts_of_a_table_of_ours(tmp_path: Path) -> None:
    place = str(tmp_path / "trips")
    schema = pa.schema([("id", pa.int64()), ("city", pa.string()), ("ts", pa.int64())])
    table = hoodoo.create_table(
        place,
        schema=schema,
        record_key="id",
        partition_by="city",
        ordering="ts",
        table_type="mor",
    )
    empty = report_table(open_ref(place), rows=True)
    assert (empty.instants, empty.latest_commit, empty.rows) == ({}, None, 0)
    table.insert(pa.table({"id": [1, 2], "city": ["sf", "la"], "ts": [1, 1]}, schema))
    done = table.upsert(pa.table({"id": [1, 3], "city": ["sf", "la"], "ts": [2, 1]}, schema))
    facts = report_table(open_ref(place))
    assert (facts.name, facts.uri) == ("trips", f"file://{place}")
    assert (facts.type, facts.version, facts.timeline_layout) == ("MERGE_ON_READ", 9, 2)
    assert (facts.record_key, facts.partition_fields) == (("id",), ("city",))
    assert (facts.ordering, facts.merge_mode) == (("ts",), "EVENT_TIME_ORDERING")
    assert facts.instants == {"completed": 2}
    assert facts.latest_commit is not None
    assert facts.latest_commit.requested_time == done.instant
    assert facts.latest_commit.operation == "UPSERT"
    assert (facts.files.partitions, facts.files.log_files > 0) == (2, True)
    assert facts.properties["hoodie.table.name"] == "trips"
    assert facts.rows is None
    assert report_table(open_ref(place), rows=True).rows == 3


def test_indexes_and_pending_instants(unpack) -> None:
    facts = report_table(open_ref(str(unpack("cow/v9_txns_simple_meta"))))
    assert "column_stats" in facts.indexes
    assert facts.indexes_being_built == ()


@pytest.mark.parametrize("table", fixture_tables())
def test_rows_are_counted_as_the_wheel_reads_them(table: str, unpack) -> None:
    place = unpack(table)
    assert count_all_rows(open_ref(str(place))) == len(wheel_rows(place))


@pytest.mark.parametrize("table", fixture_tables())
def test_schema_is_that_of_the_rows(table: str, unpack) -> None:
    place = str(unpack(table))
    report = report_schema(open_ref(place))
    assert [column.name for column in report.columns] == hoodoo.open_table(place).schema.names
    assert report.avro is not None
    fields = json.loads(report.avro)["fields"]
    assert [field["name"] for field in fields] == [column.name for column in report.columns]


def test_parts_of_nested_columns(tmp_path: Path) -> None:
    hoodoo.create_table(str(tmp_path / "t"), schema=NESTED, record_key="id")
    key, at, notes, ts = report_schema(open_ref(str(tmp_path / "t"))).columns
    assert (key.type, key.nullable, key.parts) == ("int64", False, ())
    assert (at.type, at.nullable) == ("struct", True)
    assert [(part.name, part.type) for part in at.parts] == [("lat", "double"), ("tags", "list")]
    assert [(part.name, part.type) for part in at.parts[1].parts] == [("element", "string")]
    assert [(part.name, part.type) for part in notes.parts] == [("value", "decimal128(10, 2)")]
    assert (ts.comment, key.comment) == ("when", None)


def test_meta_columns_are_no_part_of_it(tmp_path: Path) -> None:
    hoodoo.create_table(str(tmp_path / "t"), schema=NESTED, record_key="id")
    properties = tmp_path / "t/.hoodie/hoodie.properties"
    first, meta = '"fields":[', '{"name":"_hoodie_commit_time","type":"string"},'
    text = properties.read_text()
    assert first in text
    properties.write_text(text.replace(first, first + meta, 1))
    report = report_schema(open_ref(str(tmp_path / "t")))
    assert [column.name for column in report.columns] == NESTED.names
    assert "_hoodie_commit_time" not in str(report.avro)


def test_schema_of_files_where_nothing_else_tells(tmp_path: Path, unpack) -> None:
    found = report_schema(open_ref(str(unpack("cow/v6_empty"))))
    assert [column.name for column in found.columns]
    table = hoodoo.create_table(str(tmp_path / "t"), schema=NESTED, record_key="id")
    properties = tmp_path / "t/.hoodie/hoodie.properties"
    kept = [line for line in properties.read_text().splitlines() if "create.schema" not in line]
    properties.write_text("\n".join(kept) + "\n")
    nothing = report_schema(open_ref(table.uri))
    assert (nothing.columns, nothing.avro) == ((), None)


def test_first_rows_read_no_more_files_than_needed(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("city", pa.string())])
    table = hoodoo.create_table(
        str(tmp_path / "t"), schema=schema, record_key="id", partition_by="city"
    )
    for number, city in enumerate("abc"):
        ids = [10 * number, 10 * number + 1]
        table.insert(pa.table({"id": ids, "city": [city] * 2}, schema))
    for path in (tmp_path / "t/city=c").glob("*.parquet"):
        path.write_bytes(b"not to be read")
    ref = open_ref(table.uri)
    assert read_first_rows(ref, limit=3, columns=["id"]).column("id").to_pylist() == [0, 1, 10]
    assert len(read_first_rows(ref, limit=3, filter="city = 'b'")) == 2
    with pytest.raises(hoodoo.HoodooError, match="city=c"):
        read_first_rows(ref, limit=5)
    with pytest.raises(hoodoo.HoodooError, match="city=c"):
        read_first_rows(ref, limit=None)
