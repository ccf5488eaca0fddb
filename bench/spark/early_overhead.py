"""What early detection costs a write of 200 files on Spark that nobody disturbs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import hoodoo
from bench import commits, early
from bench.spark import cpu
from hoodoo.config.services import SERVICES_ENABLED
from hoodoo.config.write import DRIVER_MAX_BYTES, DRIVER_MAX_FILE_BYTES

TURNS = 5
ROWS_PER_FILE = 50


class Writer:
    """One way of writing to the table, by tasks of Spark's."""

    def __init__(self, spark: SparkSession, uri: str, options: Mapping[str, object]) -> None:
        self._spark = spark
        by_tasks = {DRIVER_MAX_BYTES.name: 0, DRIVER_MAX_FILE_BYTES.name: 0}
        # What is due after some commits would count for whoever makes them.
        own = {**by_tasks, SERVICES_ENABLED.name: False}
        self._table = hoodoo.open_table(uri, {**own, **options})

    def write(self, value: int) -> early.Cost:
        """One upsert into all files: wall seconds, and CPU seconds of all processes."""
        rows = make_rows(self._spark, value)
        started, before = time.perf_counter(), cpu.seconds_by_process()
        self._table.upsert(rows)
        return time.perf_counter() - started, cpu.seconds_since(before)


def make_rows(spark: SparkSession, value: int) -> DataFrame:
    """Rows for each of the files, which are in partitions of their own."""
    number = f"lpad(cast(id % {early.FILES} as string), 3, '0')"
    return spark.range(0, early.FILES * ROWS_PER_FILE, 1, 4).selectExpr(
        "cast(id as string) id", f"concat('p=', {number}) partition", f"cast({value} as long) value"
    )


def run(spark: SparkSession, folder: Path) -> None:
    """Print what each strategy adds."""
    uri = commits.create(f"{folder}/overhead").uri
    Writer(spark, uri, {}).write(0)
    writers = {name: Writer(spark, uri, options) for name, options in early.settings()}
    costs = early.take_turns(writers, TURNS)
    early.report(f"a write of {early.FILES} files, nobody else, Spark", costs)
