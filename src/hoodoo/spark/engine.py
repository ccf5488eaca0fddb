"""The engine that runs per-item work on Spark's executors, or here if there is little of it.

Tasks return permanent errors as results, so that Spark does not repeat them; but the driver gets
results only when the whole stage has ended. `_FirstError` is an accumulator that brings such an
error to the driver when its task ends, and cancels the job at once.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any, cast

from pyspark import Accumulator, SparkContext, TaskContext
from pyspark.accumulators import AccumulatorParam
from pyspark.sql import DataFrame, SparkSession

from hoodoo.config.write import DRIVER_MAX_FILE_BYTES
from hoodoo.errors import HoodooError
from hoodoo.runtime.engine import HasSize, Item, LocalEngine, Repeatable, Result, StopSignal
from hoodoo.spark.placement import pack
from hoodoo.spark.session.session import (
    check_session,
    describe_jobs,
    session_of,
    stoppable_jobs,
    translate_spark_errors,
)
from hoodoo.spark.session.workers import return_permanent_errors
from hoodoo.table.ref import TableRef

# -- the first permanent error of a stage ----------------------------------------------------------


Errors = Accumulator[HoodooError | None]


class _FirstError(AccumulatorParam[HoodooError | None]):
    """Keeps the first error, and tells whoever waits for one in this process."""

    def __init__(self, stop: StopSignal | None = None) -> None:
        self._stop = stop

    def __reduce__(self) -> tuple[object, ...]:
        return (_FirstError, ())  # in workers nobody waits

    def zero(self, value: HoodooError | None) -> HoodooError | None:
        return None

    def addInPlace(  # noqa: N802  # the name is Spark's
        self, value1: HoodooError | None, value2: HoodooError | None
    ) -> HoodooError | None:
        if value2 is not None and self._stop is not None:
            self._stop.request(value2)
        return value1 or value2


def watch_for_errors(context: SparkContext, stop: StopSignal) -> Errors:
    """Where tasks put their errors; the first one ends the work by the `StopSignal`."""
    return context.accumulator(None, _FirstError(stop))


# -- the engine ------------------------------------------------------------------------------------


_BROADCAST_BYTES = 16 << 20
"""Larger items are not sent with their task: that is one message, of at most 128 MB."""
_HERE = 0


def engine_for(ref: TableRef, source: Any) -> SparkEngine:
    """Return the engine of a session, or of the session of a DataFrame."""
    return engine_on(session_of(source) if isinstance(source, DataFrame) else source, ref)


def engine_on(spark: SparkSession, ref: TableRef) -> SparkEngine:
    """The engine for work on a table; what is little is done in this process."""
    here_bytes = ref.config.get(DRIVER_MAX_FILE_BYTES)
    return SparkEngine(check_session(spark), f"hoodoo {ref.properties.name}", here_bytes=here_bytes)


class SparkEngine:
    """Runs items in the tasks of one Spark job, small ones together; a task may run repeatedly.

    Items that tell their sizes, of together no more than `here_bytes`, are run by threads of this
    process: to send them out would take longer.
    """

    may_repeat_tasks = True

    def __init__(self, spark: SparkSession, purpose: str, *, here_bytes: int = 0) -> None:
        self._spark = spark
        self._purpose = purpose
        self._here_bytes = here_bytes

    def map(
        self,
        task: Callable[[Item], Result],
        items: Sequence[Item],
        *,
        stop: StopSignal | None = None,
        report_count: Callable[[int], None] | None = None,
    ) -> list[Result]:
        if not items:
            return []
        sizes = [item.size_bytes for item in items if isinstance(item, HasSize)]
        if len(sizes) == len(items) and sum(sizes) <= self._here_bytes:
            here = [_number_attempt(item, _HERE) for item in items]
            return LocalEngine().map(task, here, stop=stop, report_count=report_count)
        stop = stop or StopSignal()
        with stoppable_jobs(self._spark, stop):
            results = self._map_in_tasks(task, items, stop)
        if report_count is not None:
            report_count(len(items))
        return results

    def _map_in_tasks(
        self, task: Callable[[Item], Result], items: Sequence[Item], stop: StopSignal
    ) -> list[Result]:
        """The first item that fails ends the job, by `stop`."""
        context, pickles = self._spark.sparkContext, [pickle.dumps(item) for item in items]
        large = {
            n: context.broadcast(p) for n, p in enumerate(pickles) if len(p) > _BROADCAST_BYTES
        }
        sizes = [_size(item) + len(data) for item, data in zip(items, pickles, strict=True)]
        groups = [
            [(n, b"" if n in large else pickles[n]) for n in positions]
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
                outcome_by_number = dict(
                    context.parallelize(groups, len(groups)).flatMap(run).collect()
                )
        finally:
            for broadcast in large.values():
                broadcast.destroy()
        for outcome in outcome_by_number.values():
            if isinstance(outcome, HoodooError):
                raise outcome
        return [cast(Result, outcome_by_number[number]) for number in range(len(items))]


def _size(item: object) -> int:
    """The bytes that an item has to read, as far as it tells."""
    return item.size_bytes if isinstance(item, HasSize) else 0


def _number_attempt(item: Item, number: int) -> Item:
    return item.at_attempt(number) if isinstance(item, Repeatable) else item


def _outcome(task: Callable[[Item], Result], item: Item) -> Result | HoodooError:
    context = TaskContext.get()
    assert context is not None
    return return_permanent_errors(lambda: task(_number_attempt(item, context.taskAttemptId())))
