"""The engine that runs per-item work on Spark's executors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import SparkSession

from hoodoo.engine.base import Item, Result
from hoodoo.spark.session import described, told_plainly


class SparkEngine:
    """Runs each item as a task of one Spark job; a task may run more than once."""

    repeats = True

    def __init__(self, spark: SparkSession, purpose: str) -> None:
        self._spark = spark
        self._purpose = purpose

    def map(self, task: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        if not items:
            return []
        rows = self._spark.sparkContext.parallelize(list(items), len(items))
        with described(self._spark, self._purpose), told_plainly():
            return list(rows.map(task).collect())
