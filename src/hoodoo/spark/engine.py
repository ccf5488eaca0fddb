"""The engine that runs per-item work on Spark's executors."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence

from pyspark import TaskContext
from pyspark.sql import SparkSession

from hoodoo.engine.base import Item, Repeatable, Result
from hoodoo.errors import HoodooError
from hoodoo.spark.session import described, translate_spark_errors
from hoodoo.spark.worker import attempt

_MOST_IN_A_TASK = 48 << 20
"""Spark sends a task in one message, of at most 128 MB."""


class SparkEngine:
    """Runs each item as a task of one Spark job; a task may run more than once."""

    repeats = True

    def __init__(self, spark: SparkSession, purpose: str) -> None:
        self._spark = spark
        self._purpose = purpose

    def map(self, task: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        if not items:
            return []
        context, packed = self._spark.sparkContext, [pickle.dumps(item) for item in items]
        large = {n: context.broadcast(p) for n, p in enumerate(packed) if len(p) > _MOST_IN_A_TASK}
        small = [(n, b"" if n in large else p) for n, p in enumerate(packed)]

        def run(numbered: tuple[int, bytes]) -> Result | HoodooError:
            number, data = numbered
            return _outcome(task, pickle.loads(large[number].value if number in large else data))

        try:
            with described(self._spark, self._purpose), translate_spark_errors():
                outcomes = context.parallelize(small, len(small)).map(run).collect()
        finally:
            for shared in large.values():
                shared.destroy()
        return [_result(outcome) for outcome in outcomes]


def _result(outcome: Result | HoodooError) -> Result:
    if isinstance(outcome, HoodooError):
        raise outcome
    return outcome


def _outcome(task: Callable[[Item], Result], item: Item) -> Result | HoodooError:
    context = TaskContext.get()
    assert context is not None
    if isinstance(item, Repeatable):
        item = item.at_attempt(context.taskAttemptId())
    return attempt(lambda: task(item))
