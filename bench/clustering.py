"""Clustering against plain Spark that rewrites the same files: as they are, and sorted.

Both run on one Spark session, in turns, and make two files. The plain side has no z-order or
hilbert: there it sorts by the same columns. CPU seconds are those of this process and its workers.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from pyspark.sql import SparkSession

import hoodoo
from bench.clock import ratio_line
from bench.spark import data, session
from bench.spark.cpu import seconds_by_process, seconds_since
from hoodoo.read.snapshot import take_snapshot
from hoodoo.services.clustering.clustering import run_clustering, schedule_clustering
from hoodoo.spark.engine import SparkEngine
from hoodoo.table.ref import open_ref

FILES, OUTPUTS, TURNS = 8, 2, 3
WAYS: dict[str, tuple[dict[str, Any], float]] = {
    "rows as they come": ({}, 0.2),
    "linear, one column": ({"order_by": ["fare"]}, 0.6),
    "z-order, two columns": ({"order_by": ["fare", "distance"], "layout": "zorder"}, 0.6),
    "hilbert, two columns": ({"order_by": ["fare", "distance"], "layout": "hilbert"}, 0.6),
}


def run(folder: Path, rows: int) -> None:
    """Print the ratios."""
    spark = session.start(folder / "spark", configure=hoodoo.configure)
    try:
        place = build(spark, folder / "table", rows)
        _take_turn(spark, place, folder, {})  # warms both up
        for name, (order, aim) in WAYS.items():
            turns = [_take_turn(spark, place, folder, order) for _ in range(TURNS)]
            sides = map(_medians, zip(*turns, strict=True))
            for what, ours, theirs in zip(("s", "CPU"), *sides, strict=True):
                print(ratio_line(f"clustering, {name} ({what})", ours, theirs, aim), flush=True)
    finally:
        spark.stop()


def build(spark: SparkSession, place: Path, rows: int) -> Path:
    """A table with its rows in several file groups."""
    trips = data.trips(spark.range(0, rows, 1, FILES))
    table = hoodoo.create_table(place, schema=trips.schema, record_key=data.KEY)
    table.bulk_insert(trips)
    slices = take_snapshot(open_ref(table.uri)).slices()
    size_mb = sum(slice_.size_bytes for slice_ in slices) / 1e6
    print(f"{rows:,} rows in {len(slices)} files, {size_mb:.0f} MB", flush=True)
    return place


Cost = tuple[float, float]
"""Seconds, and CPU seconds."""


def _medians(costs: tuple[Cost, ...]) -> list[float]:
    return [median(each) for each in zip(*costs, strict=True)]


def _take_turn(
    spark: SparkSession, place: Path, folder: Path, order: dict[str, Any]
) -> tuple[Cost, Cost]:
    """What our side costs, and what the plain one."""
    copy, out = folder / "copy", folder / "out"
    shutil.copytree(place, copy)
    size = sum(s.size_bytes for s in take_snapshot(open_ref(str(copy))).slices())
    half = {f"hoodie.clustering.plan.strategy.{key}": size // OUTPUTS + 1 for key in LIMITS}
    ref = open_ref(str(copy), half)

    def ours() -> None:
        planned = schedule_clustering(ref, **order)
        assert planned is not None
        run_clustering(ref, planned.requested_time, SparkEngine(spark, "clustering"))

    def theirs() -> None:
        frame = spark.read.parquet(f"{place}/*.parquet")
        columns = order.get("order_by")
        if columns:
            ranges = frame.repartitionByRange(OUTPUTS, *columns)
            frame = ranges.sortWithinPartitions(*columns)
        else:
            frame = frame.coalesce(OUTPUTS)
        frame.write.parquet(str(out))

    try:
        return measure(ours), measure(theirs)
    finally:
        shutil.rmtree(copy)
        shutil.rmtree(out, ignore_errors=True)


LIMITS = ("max.bytes.per.group", "target.file.max.bytes")


def measure(work: Callable[[], None]) -> Cost:
    """What it costs to do this."""
    before, started = seconds_by_process(), time.perf_counter()
    work()
    return time.perf_counter() - started, seconds_since(before)
