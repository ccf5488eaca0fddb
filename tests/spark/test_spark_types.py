"""Every type of a table reaches Spark with its values, whoever reads the file, wherever we are."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from pyspark.sql import SparkSession
from pyspark.sql import types as st
from support import arrow_rows
from support.frame_checks import is_merged, is_scanned, same_rows

import hoodoo
from hoodoo.errors import InputError, SchemaMismatch, UnsupportedFeature
from hoodoo.format.arrow_types import normalise
from hoodoo.spark.schema import arrow_schema, spark_schema, to_spark
from hoodoo.table.ref import open_ref

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("flag", pa.bool_()),
        ("small", pa.int32()),
        ("real", pa.float32()),
        ("double", pa.float64()),
        ("text", pa.string()),
        ("raw", pa.binary()),
        ("fixed", pa.binary(3)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("at_ms", pa.timestamp("ms", "UTC")),
        ("local", pa.timestamp("us")),
        ("local_ms", pa.timestamp("ms")),
        ("price", pa.decimal128(10, 2)),
        ("big", pa.decimal128(38, 9)),
        ("tags", pa.list_(pa.string())),
        ("scores", pa.map_(pa.string(), pa.int64())),
        ("place", pa.struct([("lat", pa.float64()), ("when", pa.timestamp("ms", "UTC"))])),
        ("legs", pa.list_(pa.struct([("km", pa.int32()), ("mark", pa.binary(3))]))),
        ("deep", pa.struct([("inner", pa.struct([("xs", pa.list_(pa.timestamp("ms")))]))])),
        ("by_name", pa.map_(pa.string(), pa.struct([("day", pa.date32())]))),
        ("marks", pa.map_(pa.string(), pa.binary(2))),
        ("seen", pa.map_(pa.string(), pa.timestamp("ms", "UTC"))),
    ]
)


def row(number: int) -> dict[str, Any]:
    if number % 3 == 2:
        return {"id": number, **dict.fromkeys(SCHEMA.names[1:])}
    hours = dt.timedelta(hours=number)
    local = dt.datetime(2026, 3, 8, 2, 30, 0, 1000 * number)  # does not exist in New York
    return {
        "id": number,
        "flag": number % 2 == 0,
        "small": -number,
        "real": number / 4,
        "double": float("inf") if number == 1 else number / 3,
        "text": f"täxt {number} \U0001f600",
        "raw": bytes([number, 0, 255]),
        "fixed": bytes([number, 0, 255]),
        "day": dt.date(1500, 2, 27) + dt.timedelta(days=number),
        "at": dt.datetime(2026, 3, 8, 6, 30, 0, number, tzinfo=dt.UTC) + hours,
        "at_ms": dt.datetime(1, 1, 1, 0, 0, 0, 1000 * number, tzinfo=dt.UTC),
        "local": local + dt.timedelta(microseconds=7),
        "local_ms": local,
        "price": Decimal(f"-{number}.25"),
        "big": Decimal(f"{10**20 + number}.000000001"),
        "tags": ["a", None, "ü"][: number + 1],
        "scores": [("x", number), ("y", None)],
        "place": {"lat": None, "when": dt.datetime(2026, 11, 1, 5, 30, tzinfo=dt.UTC) + hours},
        "legs": [{"km": number, "mark": b"abc"}, None, {"km": None, "mark": None}],
        "deep": {"inner": {"xs": [local, None]}},
        "by_name": [("k", {"day": dt.date(9999, 12, 31)}), ("n", None)],
        "marks": [("m", b"ab"), ("n", None)],
        "seen": [("s", dt.datetime(2026, 1, 1, 0, 0, 0, 1000, tzinfo=dt.UTC))],
    }


@pytest.fixture(params=["UTC", "America/New_York", "Asia/Kathmandu"])
def spark_in_zone(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """The session in several time zones."""
    spark.conf.set("spark.sql.session.timeZone", request.param)
    yield spark
    spark.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.mark.spark
@pytest.mark.parametrize("blocks", ["parquet", "avro"])
def test_all_types_in_all_zones(spark_in_zone: SparkSession, tmp_path: Path, blocks: str) -> None:
    table = hoodoo.create_table(
        str(tmp_path / "t"),
        schema=SCHEMA,
        record_key="id",
        table_type="mor",
        options={"hoodie.logfile.data.block.format": blocks},
    )
    table.insert(pa.Table.from_pylist([row(n) for n in range(9)], SCHEMA))
    scanned = table.read(spark_in_zone)
    assert is_scanned(scanned)
    same_rows(scanned, table.to_arrow())
    changed = [{**row(n + 1), "id": n} for n in range(0, 9, 2)]
    table.upsert(pa.Table.from_pylist(changed, SCHEMA))
    merged = table.read(spark_in_zone)
    assert is_merged(merged)
    assert merged.schema == scanned.schema
    same_rows(merged, table.to_arrow())
    # Spark itself sees the same moments and local times in both.
    texts = "cast(unix_micros(at) as string)", "cast(local as string)", "cast(day as string)"
    before = {r[0]: tuple(r) for r in scanned.selectExpr("id", *texts).collect()}
    after = {r[0]: tuple(r) for r in merged.selectExpr("id", *texts).collect()}
    assert [before[n] for n in (1, 3, 5, 7)] == [after[n] for n in (1, 3, 5, 7)]


@pytest.mark.spark
def test_a_time_of_day_is_left_out_or_refused(spark: SparkSession, tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("t", pa.time64("us"))])
    table = hoodoo.create_table(str(tmp_path / "t"), schema=schema, record_key="id")
    table.insert(pa.table({"id": [1, 2], "t": [dt.time(1), dt.time(2)]}, schema=schema))
    with pytest.raises(UnsupportedFeature, match=r"column t\b.*columns="):
        table.read(spark)
    same_rows(table.read(spark, columns=["id"]), table.to_arrow(columns=["id"]))
    chosen = {"columns": ["id"], "filter": [("t", ">", dt.time(1, 30))]}
    assert [r.id for r in table.read(spark, **chosen).collect()] == [2]


@given(schema=arrow_rows.SCHEMAS)
@settings(max_examples=200)
def test_schemas_survive_the_round_trip_to_spark(schema: pa.Schema) -> None:
    try:
        there = spark_schema(schema)
    except UnsupportedFeature:
        assert "time32" in str(schema) or "time64" in str(schema)
        return
    assert [field.name for field in there] == schema.names
    back = arrow_schema(there)
    taken = to_spark(schema.empty_table()).schema
    assert taken == back
    assert spark_schema(back) == there


def test_schemas_of_spark() -> None:
    given = st.StructType(
        [
            st.StructField("a", st.ByteType(), False, {"comment": "first"}),
            st.StructField("b", st.ShortType()),
            st.StructField("c", st.VarcharType(5)),
            st.StructField("d", st.ArrayType(st.LongType(), False)),
            st.StructField("e", st.MapType(st.StringType(), st.DateType(), False)),
            st.StructField("f", st.StructType([st.StructField("x", st.TimestampNTZType(), False)])),
            st.StructField("g", st.NullType()),
        ]
    )
    expected = pa.schema(
        [
            pa.field("a", pa.int8(), False, {"comment": "first"}),
            ("b", pa.int16()),
            ("c", pa.string()),
            ("d", pa.list_(pa.field("element", pa.int64(), False))),
            ("e", pa.map_(pa.string(), pa.field("value", pa.date32(), False))),
            ("f", pa.struct([pa.field("x", pa.timestamp("us"), False)])),
            ("g", pa.null()),
        ]
    )
    found = arrow_schema(given)
    assert found.equals(expected, check_metadata=True)
    assert normalise(found.remove(6)).field("a").type == pa.int32()
    commented = spark_schema(found.remove(6)).fields[0]
    assert (commented.metadata, commented.nullable) == ({"comment": "first"}, True)
    for odd in (st.DayTimeIntervalType(), st.ArrayType(st.YearMonthIntervalType())):
        with pytest.raises(SchemaMismatch, match="column odd"):
            arrow_schema(st.StructType([st.StructField("odd", odd)]))


def test_tables_made_of_schemas_of_spark(tmp_path: Path) -> None:
    inner = st.StructType([st.StructField("x", st.LongType(), True, {"comment": "inside"})])
    schema = st.StructType(
        [
            st.StructField("id", st.StringType(), False, {"comment": "who: \u00e9"}),
            st.StructField("code", st.CharType(3)),
            st.StructField("name", st.VarcharType(20), True, {"comment": "as shown"}),
            st.StructField("s", inner),
        ]
    )
    place = str(tmp_path / "t")
    hoodoo.create_table(place, schema=schema, record_key="id")
    stored = json.loads(open_ref(place).properties.raw["hoodie.table.create.schema"])
    docs = {field["name"]: field.get("doc") for field in stored["fields"]}
    assert docs == {"id": "who: \u00e9", "code": None, "name": "as shown", "s": None}
    table = hoodoo.open_table(place)
    expected = pa.schema(
        [
            pa.field("id", pa.string(), False, {"comment": "who: \u00e9"}),
            ("code", pa.string()),
            pa.field("name", pa.string(), True, {"comment": "as shown"}),
            ("s", pa.struct([pa.field("x", pa.int64(), True, {"comment": "inside"})])),
        ]
    )
    assert table.schema.equals(expected, check_metadata=True)
    table.insert(pa.Table.from_pylist([{"id": "a", "code": "abc"}], expected))
    assert table.schema.equals(expected, check_metadata=True)
    assert spark_schema(table.schema)["name"].metadata == {"comment": "as shown"}


@pytest.mark.parametrize("odd", [st.DayTimeIntervalType(), st.YearMonthIntervalType()])
def test_tables_with_intervals_are_refused(tmp_path: Path, odd: st.DataType) -> None:
    schema = st.StructType([st.StructField("id", st.StringType()), st.StructField("odd", odd)])
    with pytest.raises(InputError, match=r"column odd: .*interval"):
        hoodoo.create_table(str(tmp_path / "t"), schema=schema, record_key="id")
    assert not (tmp_path / "t").exists()
