"""Where the Spark engine runs items: in this process if they are small, in tasks otherwise."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from support.carriers import ROWS_IN_DRIVER
from support.engine_items import (
    Item,
    Plain,
    Slow,
    linger,
    process,
    refuse_four,
    refuse_or_linger,
    where,
)

import hoodoo
from hoodoo.errors import CommitFailed, InputError
from hoodoo.runtime.engine import StopSignal
from hoodoo.spark.engine import SparkEngine

pytestmark = pytest.mark.spark


def test_items_below_the_limit_run_in_this_process(spark: SparkSession) -> None:
    engine = SparkEngine(spark, "test", here_bytes=30)
    done = engine.map(where, [Item(n) for n in range(3)])
    assert done == [(n, os.getpid(), None) for n in range(3)]


def test_items_above_the_limit_run_in_tasks_and_in_order(spark: SparkSession) -> None:
    engine = SparkEngine(spark, "test", here_bytes=99)
    done = engine.map(where, [Item(n) for n in range(10)])
    assert [number for number, *_ in done] == list(range(10))
    assert os.getpid() not in {pid for _, pid, _ in done}
    assert {task for _, _, task in done} == set(range(spark.sparkContext.defaultParallelism))


def test_large_items_get_a_task_each(spark: SparkSession) -> None:
    done = SparkEngine(spark, "test").map(where, [Item(n, 40 << 20) for n in range(5)])
    assert sorted(task for _, _, task in done if task is not None) == list(range(5))


def test_items_that_tell_no_size_run_in_tasks(spark: SparkSession) -> None:
    engine = SparkEngine(spark, "test", here_bytes=1 << 40)
    pids = engine.map(process, [Plain(1), Plain(2)])
    assert [number for number, _ in pids] == [1, 2]
    assert os.getpid() not in {pid for _, pid in pids}


@pytest.mark.parametrize("here_bytes", [0, 1 << 40])
def test_error_of_an_item_is_raised(spark: SparkSession, here_bytes: int) -> None:
    engine = SparkEngine(spark, "test", here_bytes=here_bytes)
    with pytest.raises(InputError, match="number 4"):
        engine.map(refuse_four, [Item(n) for n in range(6)])


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_upsert_by_driver_and_by_tasks_give_the_same_rows(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    found = []
    for name, options in {"driver": {}, "tasks": ROWS_IN_DRIVER}.items():
        rows = pa.table({"id": [f"k{n}" for n in range(300)], "v": list(range(300))})
        table = hoodoo.create_table(
            str(tmp_path / name),
            schema=rows.schema,
            record_key="id",
            table_type=kind,
            options={**options, "hoodie.parquet.max.file.size": "1000"},
        )
        table.insert(rows)
        changed = rows.slice(0, 40).set_column(1, "v", pa.array([-n for n in range(40)]))
        result = table.upsert(spark.createDataFrame(changed))
        assert result.stats.updated == 40
        read = table.to_arrow(columns=["id", "v"])
        found.append(read.sort_by("id").to_pylist())
    assert found[0] == found[1]
    assert {"id": "k7", "v": -7} in found[0]


@pytest.mark.parametrize(("count", "is_few"), [(10_000, True), (10_001, False)])
def test_rows_of_unknown_size_are_collected_if_few(
    spark: SparkSession, tmp_path: Path, count: int, is_few: bool
) -> None:
    listed = spark.createDataFrame([(f"k{n}", n) for n in range(count)], "id string, v long")
    table = hoodoo.create_table(str(tmp_path / "t"), schema=listed.schema, record_key="id")
    done = table.upsert(listed.selectExpr("id", "v + 1 AS v"))
    assert ("collect" in done.timings) is is_few
    assert sorted(table.to_arrow(columns=["v"])["v"].to_pylist()) == list(range(1, count + 1))


def test_the_first_item_that_fails_ends_the_others(spark: SparkSession, tmp_path: Path) -> None:
    mark = str(tmp_path / "go")
    items = [Slow(number, 0.0, mark) for number in range(2)]
    try:
        with pytest.raises(InputError, match="number 0"):
            SparkEngine(spark, "test").map(refuse_or_linger, items)
    finally:
        Path(mark).touch()
    assert not Path(f"{mark}-1").exists()


def test_a_stop_before_spark_knows_the_job_ends_it_all_the_same(
    spark: SparkSession, tmp_path: Path
) -> None:
    """It comes while the items are being sent."""
    mark, stop = str(tmp_path / "go"), StopSignal()
    items = [Slow(number, 0.5, mark) for number in range(2)]
    early = threading.Timer(0.2, lambda: stop.request(CommitFailed("stopped")))
    early.start()
    try:
        with pytest.raises(CommitFailed, match="stopped"):
            SparkEngine(spark, "test").map(linger, items, stop=stop)
    finally:
        Path(mark).touch()
        early.join()
    assert not Path(f"{mark}-0").exists()
