"""Base files that Spark scans itself: nothing read for nothing, and values as in the files."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from support.frame_checks import files_read, is_merged, is_scanned, plan_of, rows_in, same_rows
from support.wheel import rows_of

import hoodoo

pytestmark = pytest.mark.spark

HIVE = "hoodie.datasource.write.hive_style_partitioning"
ENCODED = "hoodie.datasource.write.partitionpath.urlencode"

# Texts that look like something else, or that paths, globs and escapes do not like.
ODD = [
    "sf",
    "007",
    "1.0",
    "1e3",
    "12345678901234567890123",
    "true",
    "2026-01-01",
    "null",
    "default",
]
ODD += ["new york", " lead", "trail ", "zürich 東京", "a+b", "x}y", "[z]", "{a,b}", "q?", "st*r"]
ODD += [
    "back\\slash",
    "a=b",
    "city=sf",
    "50%",
    "a%20b",
    "%41",
    "%",
    "a:b",
    "it's",
    'q"q',
    "#x",
    "&",
]
ODD += ["a,b", "semi;colon", "~", "_under", "tab\tbed", None, ""]


def table_of(
    place: Path, column: pa.DataType, values: list[Any], kind: str = "cow", **options: object
) -> hoodoo.Table:
    schema = pa.schema([("id", pa.int64()), ("p", column), ("v", pa.int64())])
    table = hoodoo.create_table(
        str(place),
        schema=schema,
        record_key="id",
        partition_by="p",
        table_type=kind,
        name="t",
        options=options,
    )
    listed = [{"id": n, "p": value, "v": 10 * n} for n, value in enumerate(values)]
    table.insert(pa.Table.from_pylist(listed, schema))
    return table


@pytest.mark.parametrize("hive", [True, False])
@pytest.mark.parametrize("encoded", [True, False])
def test_text_partition_values_come_back_and_prune_files(
    spark: SparkSession, tmp_path: Path, hive: bool, encoded: bool
) -> None:
    values = [*ODD, "a/b", "x//y", "/z"] if encoded else [*ODD, "a/b"]
    table = table_of(tmp_path / "t", pa.string(), values, **{HIVE: hive, ENCODED: encoded})
    frame = table.read(spark)
    same_rows(frame, table.to_arrow())
    assert is_scanned(frame)
    assert not is_merged(frame)
    for value in ("sf", "007", "1.0", "50%", "a%20b", "default", "zürich 東京", "2026-01-01"):
        expected = values.index(value)
        assert [row.id for row in frame.where(frame.p == value).collect()] == [expected]
        found = table.read(spark, filter=[("p", "=", value)], columns=["id"])
        assert [row.id for row in found.collect()] == [expected]
    assert {row.id for row in frame.where("p is null").collect()} == {values.index(None)}
    assert {row.id for row in frame.where("p = ''").collect()} == {values.index("")}


@pytest.mark.parametrize(
    ("column", "values"),
    [
        (pa.int32(), [0, 7, -1, 2**31 - 1, None]),
        (pa.int64(), [0, -(2**63), 2**63 - 1, None]),
        (pa.bool_(), [True, False, None]),
        (pa.date32(), [dt.date(2026, 1, 2), dt.date(1, 1, 1), dt.date(9999, 12, 31), None]),
        (pa.float64(), [0.5, 1e300, -0.0, None]),
        (pa.decimal128(10, 2), [None]),
        (pa.timestamp("us", "UTC"), [dt.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=dt.UTC), None]),
    ],
    ids=str,
)
def test_partition_values_of_every_type_come_back(
    spark: SparkSession, tmp_path: Path, column: pa.DataType, values: list[Any]
) -> None:
    table = table_of(tmp_path / "t", column, values)
    frame = table.read(spark)
    same_rows(frame, table.to_arrow())
    kind = frame.schema["p"].dataType
    by_path = pa.types.is_integer(column) or pa.types.is_boolean(column) or column == pa.date32()
    assert files_read(frame.where("p is null")) == (1 if by_path else len(values))
    for number, value in enumerate(values):
        same = frame.p.eqNullSafe(sf.lit(None if value is None else str(value)).cast(kind))
        assert [row.id for row in frame.where(same).select("id").collect()] == [number]


def test_filters_of_a_frame_prune_files(spark: SparkSession, tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", pa.string(), [f"c{n}" for n in range(40)])
    frame = table.read(spark)
    assert files_read(frame) == 40
    few = frame.where("p in ('c7', 'c9')")
    assert "PartitionFilters: [p" in plan_of(few)
    assert files_read(few) == 2
    assert sorted(row.v for row in few.collect()) == [70, 90]
    assert "PushedFilters: [IsNotNull(v), GreaterThan(v,5)]" in plan_of(frame.where("v > 5"))
    assert "ReadSchema: struct<v:bigint>" in plan_of(frame.select("v"))
    assert "Batched: true" in plan_of(frame)


def test_filters_of_a_call_prune_files(spark: SparkSession, tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", pa.string(), [f"c{n}" for n in range(40)])
    few = table.read(spark, filter="p in ('c7', 'c9') and v < 80", columns=["v"])
    assert "Location: InMemoryFileIndex(1 paths)" in plan_of(few)  # by statistics
    assert "LessThan(v,80)" in plan_of(few)
    assert [row.v for row in few.collect()] == [70]
    by_arrow = table.read(spark, filter=pc.field("v") == 70, columns=["p"])
    assert is_merged(by_arrow)
    assert [row.p for row in by_arrow.collect()] == ["c7"]


def test_settings_of_the_session_come_back(spark: SparkSession, tmp_path: Path) -> None:
    key = "spark.sql.sources.parallelPartitionDiscovery.threshold"
    table = table_of(tmp_path / "t", pa.string(), [f"c{n}" for n in range(40)])
    assert spark.conf.get(key) == "32"
    jobs = spark.sparkContext.statusTracker()
    spark.sparkContext.setJobGroup("listing", "")
    table.read(spark)
    spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]  # None unsets it
    assert not jobs.getJobIdsForGroup("listing")
    assert spark.conf.get(key) == "32"
    spark.conf.set(key, "7")
    table.read(spark)
    assert spark.conf.get(key) == "7"
    spark.conf.unset(key)


@pytest.mark.thin(2)
@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("name", ["plain", "a b", "[x]{y}*?", "50%20:z", "zürich=1", "back\\slash"])
def test_places_with_odd_names(spark: SparkSession, tmp_path: Path, name: str, kind: str) -> None:
    table = table_of(tmp_path / name / "t", pa.string(), ["sf", "[z]", "a:b", "c d"], kind)
    if kind == "mor":
        changed = pa.table({"id": [0], "p": ["sf"], "v": [5]})
        table.upsert(changed)
    frame = table.read(spark)
    same_rows(frame, table.to_arrow())
    assert frame.where("p = '[z]'").select("v").collect()[0].v == 10


def test_several_levels_of_partitions(spark: SparkSession, tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("day", pa.date32()), ("city", pa.string())])
    table = hoodoo.create_table(
        str(tmp_path / "t"), schema=schema, record_key="id", partition_by=["day", "city"]
    )
    days = [dt.date(2026, 1, 1), dt.date(2026, 1, 2), None]
    listed = [{"id": n, "day": days[n % 3], "city": f"0{n % 2}"} for n in range(12)]
    listed += [{"id": 12, "day": None, "city": None}, {"id": 13, "day": days[0], "city": ""}]
    table.insert(pa.Table.from_pylist(listed, schema))
    frame = table.read(spark)
    same_rows(frame, table.to_arrow())
    few = frame.where("day = date'2026-01-02' and city = '01'")
    assert rows_in(few) == rows_of(table.to_arrow(filter="day = date '2026-01-02' and city = '01'"))
    # The two files whose paths do not tell whether a text is null are looked into.
    assert files_read(few) == 3


def test_partition_columns_that_are_not_asked_for(spark: SparkSession, tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", pa.string(), ["007", None, "x"])
    frame = table.read(spark, columns=["v", "_hoodie_partition_path"])
    same_rows(frame, table.to_arrow(columns=["v", "_hoodie_partition_path"]))
    assert "p" not in frame.columns
    only = table.read(spark, columns=["p"])
    same_rows(only, table.to_arrow(columns=["p"]))


def test_old_types_that_spark_does_not_take(spark: SparkSession, tmp_path: Path) -> None:
    """A table of another writer, whose longs became texts: Arrow reads it, as `to_arrow` does."""
    table = table_of(tmp_path / "t", pa.string(), ["x", "y"])
    for file in (tmp_path / "t").glob("p=*/*.parquet"):
        old = pq.read_table(file, partitioning=None)
        old = old.set_column(6, "p", pa.array([5], pa.int64()))
        old = old.set_column(7, "v", old["v"].cast(pa.int32()))
        pq.write_table(old, file, store_schema=False)
    table.insert(pa.table({"id": [7], "p": ["z"], "v": [2**40]}))
    frame = table.read(spark)
    assert is_merged(frame)
    assert not is_scanned(frame)
    same_rows(frame, table.to_arrow())
    assert sorted(row.p for row in frame.collect()) == ["5", "5", "z"]
    without = table.read(spark, columns=["v"])
    assert is_scanned(without)
    same_rows(without, table.to_arrow(columns=["v"]))
