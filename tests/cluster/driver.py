"""A Spark driver in a process of its own, which does what the test asks of it.

`python driver.py JOURNAL SPEC`; the spec has: address (of the test's socket), settings (of the
session). A request is a number, a function of this module, and its arguments; the answer is the
number, and what it returned, or the name and the text of the error that it raised.
"""

from __future__ import annotations

import logging
import os
import pickle
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.connection import Client
from pathlib import Path
from typing import Any

from pyspark import Broadcast
from pyspark.sql import DataFrame, SparkSession
from support.faults import watched
from support.processes import spec_of

import hoodoo
from hoodoo.api.table import Table
from hoodoo.errors import CommitFailed
from hoodoo.spark.engine import SparkEngine
from hoodoo.spark.write import stage
from hoodoo.spark.write.tasks import HandleResult
from hoodoo.write.files import finalize as execute
from hoodoo.write.files.finalize import finalize


def session(settings: Mapping[str, str]) -> SparkSession:
    """A session with these settings."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.appName("hoodoo faults")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def rows(spark: SparkSession, *, first: int, count: int, v: int, table: str) -> DataFrame:
    """Rows as `table_rows.expected` has them, computed by tasks that are written down."""
    numbers = spark.range(first, first + count, 1, 4)
    made = numbers.selectExpr(
        "cast(id AS string) AS id", "concat('p', id % 6) AS part", f"cast({v} AS bigint) AS v"
    )
    return watched(made, Path(table))


def write(
    spark: SparkSession, *, operation: str, table: str, options: Mapping[str, object], **of: int
) -> str:
    """One write to a table; its instant."""
    opened = hoodoo.open_table(table, options)
    return str(getattr(opened, operation)(rows(spark, table=table, **of)).instant)


def run_service(
    spark: SparkSession,
    *,
    service: str,
    table: str,
    instant: str,
    options: Mapping[str, object],
    repeats: bool = False,
) -> int:
    """Execute a plan by tasks of Spark, the stage once more when it is committed if asked.

    How many files it wrote.
    """
    engine = _Repeating(spark, service) if repeats else SparkEngine(spark, service)
    opened = Table(hoodoo.open_table(table, options)._ref, engine)
    done = getattr(opened, f"run_{service}")(instant)
    if isinstance(engine, _Repeating):
        engine.run_again()
    return int(done.stats.files)


class _Repeating(SparkEngine):
    """Runs the last stage again when all is over; its tasks come too late."""

    _last: tuple[Any, Any] | None = None

    def map(self, task: Any, items: Any, **given: Any) -> list[Any]:
        self._last = (task, items)
        return super().map(task, items, **given)

    def run_again(self) -> None:
        assert self._last is not None
        task, items = self._last
        try:
            super().map(task, items)
        except CommitFailed:
            return
        raise AssertionError("tasks that came too late were not refused")


def write_and_repeat(spark: SparkSession, **given: Any) -> dict[str, list[list[str]]]:
    """A write whose stage runs again when the write was finalized, and again when committed.

    What each run of the stage returned: for each of its tasks the files that it tells of, or the
    error that it reports.
    """
    stages: list[DataFrame] = []
    outcomes: dict[str, list[list[str]]] = {}
    collect = stage._collect_results

    def kept(session: SparkSession, written: DataFrame, *rest: Any) -> Any:
        stages.append(written)
        results = collect(session, written, *rest)
        outcomes["first"] = [_outcome(result) for result in results]
        return results

    def run_again(moment: str) -> None:
        rows = stages[0].collect()
        outcomes[moment] = [_outcome(pickle.loads(row["result"])) for row in rows]

    def finalized(*args: Any, **kwargs: Any) -> Any:
        stats = finalize(*args, **kwargs)
        run_again("finalized")
        return stats

    with (
        _replaced(stage, "_collect_results", kept),
        _replaced(execute, "finalize", finalized),
        _replaced(Broadcast, "destroy", lambda shared: None),  # the stage needs it again
    ):
        write(spark, **given)
        run_again("committed")
    return outcomes


@contextmanager
def _replaced(owner: object, name: str, value: object) -> Iterator[None]:
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def _outcome(result: HandleResult) -> list[str]:
    if result.error is not None:
        return [type(result.error).__name__]
    return sorted(str(stat.path) for stat in result.stats)


def main() -> None:
    """Answer requests until the test is gone."""
    _, spec = spec_of(sys.argv[1:])
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    spark = session(spec["settings"])
    with Client(spec["address"]) as connection:
        while True:
            try:
                number, name, arguments = connection.recv()
            except EOFError:
                return
            connection.send((number, *_answer(spark, name, arguments)))


def _answer(spark: SparkSession, name: str, arguments: Mapping[str, Any]) -> tuple[str, Any]:
    try:
        return "done", globals()[name](spark, **arguments)
    except Exception as error:
        logging.exception("%s", name)
        return type(error).__name__, str(error)


if __name__ == "__main__":
    main()
