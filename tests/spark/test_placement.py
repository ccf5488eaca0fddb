"""Rows reach the task that is meant for them."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from hoodoo.spark.placement import numbers_for_tasks

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("tasks", [1, 2, 7, 64, 1000])
def test_each_number_leads_to_its_task(spark: SparkSession, tasks: int) -> None:
    numbers = numbers_for_tasks(tasks)
    assert len(set(numbers)) == tasks
    rows = spark.createDataFrame([(n,) for n in numbers], "number int")
    hashed = rows.select(sf.expr(f"pmod(hash(number), {tasks})")).collect()
    assert [row[0] for row in hashed] == list(range(tasks))


def test_spark_repartitions_by_that_hash(spark: SparkSession) -> None:
    numbers = numbers_for_tasks(5)
    rows = spark.createDataFrame(
        [(task, n) for task, n in enumerate(numbers)] * 3, "task int, n int"
    )
    placed = rows.repartition(5, "n").select("task", sf.spark_partition_id().alias("there"))
    assert {(row.task, row.there) for row in placed.collect()} == {(n, n) for n in range(5)}
