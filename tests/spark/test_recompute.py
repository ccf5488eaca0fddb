"""Rows of columnar files are read again where others are kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from support.carriers import KEYS_IN_SPARK, from_files
from support.indexed import BUCKETS, arrow, create, read_both

from hoodoo.errors import HoodooError
from hoodoo.spark.write import write
from hoodoo.spark.write.write import is_cheap_to_recompute

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("interpreted")]

ROWS = [(f"k{n}", "xyz"[n % 3], n, n) for n in range(300)]
Change = Callable[[DataFrame], DataFrame]
CHEAP: dict[str, Change] = {
    "as they are": lambda rows: rows,
    "some columns and rows": lambda rows: rows.filter("v > 3").select("id", sf.col("ts") + 1),
    "twice": lambda rows: rows.unionAll(rows),
    "in fewer tasks": lambda rows: rows.coalesce(1),
}
DEAR: dict[str, Change] = {
    "distinct": lambda rows: rows.distinct(),
    "joined": lambda rows: rows.join(rows.select("id"), "id"),
    "never the same": lambda rows: rows.withColumn("v", (sf.rand() * 1000).cast("long")),
    "by Python": lambda rows: rows.withColumn("v", sf.udf(lambda v: v + 1, "long")("v")),
}


@pytest.fixture
def rows(spark: SparkSession, tmp_path: Path) -> DataFrame:
    return from_files(spark, arrow(ROWS), tmp_path / "files")


@pytest.mark.parametrize("how", CHEAP)
def test_file_scans_with_cheap_steps_are_cheap_to_recompute(rows: DataFrame, how: str) -> None:
    assert is_cheap_to_recompute(CHEAP[how](rows))


@pytest.mark.parametrize("how", DEAR)
def test_costly_steps_are_not_cheap_to_recompute(rows: DataFrame, how: str) -> None:
    assert not is_cheap_to_recompute(DEAR[how](rows))


def test_sources_other_than_files_are_not_cheap_to_recompute(
    spark: SparkSession, rows: DataFrame, tmp_path: Path
) -> None:
    rows.write.json(str(tmp_path / "json"))
    assert not is_cheap_to_recompute(spark.read.json(str(tmp_path / "json")))
    assert not is_cheap_to_recompute(spark.createDataFrame(arrow(ROWS)))
    assert not is_cheap_to_recompute(spark.range(5))


@pytest.mark.parametrize("operation", ["upsert", "insert", "insert_overwrite_table"])
@pytest.mark.parametrize("kept", [False, True])
def test_rows_are_cached_only_when_expensive_to_recompute(
    spark: SparkSession, rows: DataFrame, tmp_path: Path, operation: str, kept: bool
) -> None:
    table = create(tmp_path / "t", "cow", {**KEYS_IN_SPARK, **BUCKETS}, "ts")
    seen: list[int] = []
    persist = type(rows).persist

    def noted(frame: DataFrame, *more: object) -> DataFrame:
        seen.append(1)
        return persist(frame, *more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(rows), "persist", noted)
        getattr(table, operation)(rows.distinct() if kept else rows)
    assert bool(seen) is kept
    assert read_both(table) == sorted(ROWS)


def test_rows_that_change_between_two_looks_are_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The same file name with more rows, as a careless writer of the input would do it."""
    table = create(tmp_path / "t", "cow", {**KEYS_IN_SPARK, **BUCKETS}, "ts")
    few = from_files(spark, arrow(ROWS[:10]), tmp_path / "files")
    (file,) = (tmp_path / "files").iterdir()
    from_files(spark, arrow(ROWS), tmp_path / "others")
    (more,) = (tmp_path / "others").iterdir()

    planned = write._plan_tagged

    def change_and_plan(*args: Any, **options: Any) -> Any:
        file.write_bytes(more.read_bytes())
        return planned(*args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(write, "_plan_tagged", change_and_plan)
        with pytest.raises(HoodooError):
            table.insert(few)
    assert read_both(table) == []
