"""The engine that runs per-item work on Spark's executors, or here if there is little of it."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import cast

from pyspark import TaskContext
from pyspark.sql import SparkSession

from hoodoo.config.tasks import DRIVER_MAX_FILE_BYTES
from hoodoo.engine.engine import Item, Repeatable, Result, Sized
from hoodoo.engine.local import LocalEngine
from hoodoo.engine.stop import Stop
from hoodoo.errors import HoodooError
from hoodoo.spark.first_error import watch_for_errors
from hoodoo.spark.packing import pack
from hoodoo.spark.session import (
    check_session,
    describe_jobs,
    stoppable_jobs,
    translate_spark_errors,
)
from hoodoo.spark.worker import attempt
from hoodoo.table.ref import TableRef

_BROADCAST_BYTES = 16 << 20
"""Larger items are not sent with their task: that is one message, of at most 128 MB."""
_HERE = 0


def engine_on(spark: SparkSession, ref: TableRef) -> SparkEngine:
    """The engine for work on a table; what is little is done in this process."""
    here_bytes = ref.config.get(DRIVER_MAX_FILE_BYTES)
    return SparkEngine(check_session(spark), f"hoodoo {ref.properties.name}", here_bytes=here_bytes)


class SparkEngine:
    """Runs items in the tasks of one Spark job, small ones together; a task may run repeatedly.

    Items that tell their sizes, of together no more than `here_bytes`, are run by threads of this
    process: to send them out would take longer.
    """

    repeats = True

    def __init__(self, spark: SparkSession, purpose: str, *, here_bytes: int = 0) -> None:
        self._spark = spark
        self._purpose = purpose
        self._here_bytes = here_bytes

    def map(
        self,
        task: Callable[[Item], Result],
        items: Sequence[Item],
        *,
        stop: Stop | None = None,
        done: Callable[[int], None] | None = None,
    ) -> list[Result]:
        if not items:
            return []
        sizes = [item.size_bytes for item in items if isinstance(item, Sized)]
        if len(sizes) == len(items) and sum(sizes) <= self._here_bytes:
            here = [_attempted(item, _HERE) for item in items]
            return LocalEngine().map(task, here, stop=stop, done=done)
        stop = stop or Stop()
        with stoppable_jobs(self._spark, stop):
            results = self._map_in_tasks(task, items, stop)
        if done is not None:
            done(len(items))
        return results

    def _map_in_tasks(
        self, task: Callable[[Item], Result], items: Sequence[Item], stop: Stop
    ) -> list[Result]:
        """The first item that fails ends the job, by `stop`."""
        context, packed = self._spark.sparkContext, [pickle.dumps(item) for item in items]
        large = {n: context.broadcast(p) for n, p in enumerate(packed) if len(p) > _BROADCAST_BYTES}
        sizes = [_size(item) + len(data) for item, data in zip(items, packed, strict=True)]
        groups = [
            [(n, b"" if n in large else packed[n]) for n in positions]
            for positions in pack(sizes, at_least=context.defaultParallelism)
        ]

        errors = watch_for_errors(context, stop)

        def run(group: list[tuple[int, bytes]]) -> list[tuple[int, Result | HoodooError]]:
            outcomes: list[tuple[int, Result | HoodooError]] = []
            for number, data in group:
                item = pickle.loads(large[number].value if number in large else data)
                outcome = _outcome(task, item)
                outcomes.append((number, outcome))
                if isinstance(outcome, HoodooError):
                    errors.add(outcome)
                    break
            return outcomes

        try:
            with describe_jobs(self._spark, self._purpose), translate_spark_errors():
                found = dict(context.parallelize(groups, len(groups)).flatMap(run).collect())
        finally:
            for shared in large.values():
                shared.destroy()
        for outcome in found.values():
            if isinstance(outcome, HoodooError):
                raise outcome
        return [cast(Result, found[number]) for number in range(len(items))]


def _size(item: object) -> int:
    """The bytes that an item has to read, as far as it tells."""
    return item.size_bytes if isinstance(item, Sized) else 0


def _attempted(item: Item, number: int) -> Item:
    return item.at_attempt(number) if isinstance(item, Repeatable) else item


def _outcome(task: Callable[[Item], Result], item: Item) -> Result | HoodooError:
    context = TaskContext.get()
    assert context is not None
    return attempt(lambda: task(_attempted(item, context.taskAttemptId())))
