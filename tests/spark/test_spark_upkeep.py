"""Services that are due run after writes of Spark too, whichever door the rows came in by."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import hoodoo

pytestmark = pytest.mark.spark

SCHEMA = "id long, v long"


def frame(spark: SparkSession, v: int):
    return spark.range(0, 20, 1, 2).selectExpr("id", f"{v}L AS v")


@pytest.fixture
def place(spark: SparkSession, tmp_path: Path) -> Path:
    hoodoo.create_table(
        str(tmp_path / "t"),
        schema=frame(spark, 0).schema,
        record_key="id",
        table_type="mor",
        options={"hoodie.index.type": "SIMPLE"},
    )
    return tmp_path / "t"


def operations(place: Path) -> list[str | None]:
    return [each.operation for each in hoodoo.open_table(str(place)).timeline()]


@pytest.mark.parametrize("collected", [True, False])
def test_a_frame_is_followed_by_a_compaction_when_it_is_due(
    spark: SparkSession, place: Path, collected: bool
) -> None:
    options = {} if collected else {"hoodie.write.spark.driver.max.bytes": 0}
    table = hoodoo.open_table(str(place), options)
    done = [table.upsert(frame(spark, v)) for v in range(5)]
    assert operations(place) == ["UPSERT"] * 5 + ["COMPACT"]
    assert ["upkeep" in each.timings for each in done] == [False] * 4 + [True]
    assert {row.v for row in table.read(spark).select("v").collect()} == {4}


def test_executors_compact_what_is_too_much_for_the_driver(
    spark: SparkSession, place: Path
) -> None:
    table = hoodoo.open_table(str(place), {"hoodie.write.spark.driver.max.file.bytes": 0})
    for v in range(5):
        table.upsert(frame(spark, v))
    assert operations(place)[-1] == "COMPACT"
    assert table.read(spark).count() == 20


def test_an_append_by_the_data_source_is_followed_by_a_compaction(
    spark: SparkSession, place: Path
) -> None:
    options = {"hoodie.table.services.enabled": False}
    table = hoodoo.open_table(str(place), options)
    for v in range(4):
        table.upsert(frame(spark, v))
    assert operations(place) == ["UPSERT"] * 4
    hoodoo.register(spark)
    rows = spark.range(100, 110).selectExpr("id", "9L AS v")
    rows.write.format("hoodoo").mode("append").save(str(place))
    assert operations(place) == ["UPSERT"] * 4 + ["BULK_INSERT", "COMPACT"]
    assert table.read(spark).count() == 30
