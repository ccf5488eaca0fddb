"""The write stage on Spark: rows are sent to the task of their bucket, and written there."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from hoodoo.config.write import RECORD_SIZE_ESTIMATE
from hoodoo.errors import CommitFailed
from hoodoo.model.paths import PartitionPath
from hoodoo.model.stats import WriteStat
from hoodoo.spark.columns import BUCKET, GROUP, HASH, PLACE, TASK
from hoodoo.spark.packing import pack
from hoodoo.spark.placement import leading_numbers
from hoodoo.spark.session import described, told_plainly
from hoodoo.spark.tasks import RESULTS, BucketPlan, Result, write_buckets, write_bulk
from hoodoo.write.assign import Bucket
from hoodoo.write.context import WriteContext
from hoodoo.write.execute import bucket_reads
from hoodoo.write.work import Work

_MOST_TASKS = 4096
_LOWEST, _HASHES = -(2**63), 2**64
_LOW, _HIGH = "_hoodoo_low", "_hoodoo_high"


@dataclass(frozen=True, slots=True)
class Route:
    """Which rows go to a bucket: by place and group, new ones also by the hash of their key."""

    partition: PartitionPath
    group: str
    bucket: int
    lowest: int = _LOWEST
    highest: int = _LOWEST + _HASHES - 1


class BucketTasks:
    """The task of each bucket of a write; small ones share one."""

    def __init__(self, buckets: Sequence[Bucket], *, row_bytes: int, at_least: int) -> None:
        sizes = [_bucket_bytes(bucket, row_bytes) for bucket in buckets]
        tasks = pack(sizes, at_least=at_least, most=_MOST_TASKS)
        self.count = len(tasks)
        self._task_of = np.zeros(max(bucket.index for bucket in buckets) + 1, np.int32)
        for task, positions in enumerate(tasks):
            self._task_of[[buckets[position].index for position in positions]] = task

    def of(self, buckets: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """The tasks of buckets, by their numbers."""
        return self._task_of[buckets]


def _bucket_bytes(bucket: Bucket, row_bytes: int) -> int:
    previous = bucket.previous.size_bytes if bucket.previous else 0
    return previous + (bucket.inserts + bucket.updates) * row_bytes


class Led(Protocol):
    """Rows of a write, each with the bucket that it is for."""

    @property
    def rows(self) -> int:
        """How many there are."""

    def in_tasks(self, spark: SparkSession, tasks: BucketTasks) -> DataFrame:
        """The rows, with `BUCKET`, in the task of their bucket."""


@dataclass(frozen=True)
class ByGroup:
    """Rows that know their file group, `PLACE` and `GROUP`."""

    frame: DataFrame
    rows: int
    routes: Sequence[Route]

    def in_tasks(self, spark: SparkSession, tasks: BucketTasks) -> DataFrame:
        buckets = np.array([route.bucket for route in self.routes], np.int32)
        table = pa.table(
            {
                PLACE: pa.array([route.partition for route in self.routes], pa.string()),
                GROUP: pa.array([route.group for route in self.routes], pa.string()),
                _LOW: pa.array([route.lowest for route in self.routes], pa.int64()),
                _HIGH: pa.array([route.highest for route in self.routes], pa.int64()),
                **_targets(buckets, tasks),
            }
        )
        led = self.frame.join(sf.broadcast(spark.createDataFrame(table)), [PLACE, GROUP])
        led = led.filter(sf.col(HASH).between(sf.col(_LOW), sf.col(_HIGH)))
        return _sent(led.drop(PLACE, GROUP, _LOW, _HIGH), tasks)


@dataclass(frozen=True)
class ByKey:
    """Rows with a hash of their key in the column `route`, and a table of hashes and buckets."""

    frame: DataFrame
    rows: int
    route: str
    hashes: npt.NDArray[np.int64]
    buckets: npt.NDArray[np.int32]

    def in_tasks(self, spark: SparkSession, tasks: BucketTasks) -> DataFrame:
        table = pa.table({self.route: self.hashes, **_targets(self.buckets, tasks)})
        led = self.frame.join(sf.broadcast(spark.createDataFrame(table)), self.route)
        return _sent(led.drop(self.route), tasks)


def _targets(buckets: npt.NDArray[np.int32], tasks: BucketTasks) -> dict[str, pa.Array]:
    numbers = np.array(leading_numbers(tasks.count), np.int32)
    return {BUCKET: pa.array(buckets), TASK: pa.array(numbers[tasks.of(buckets)])}


def _sent(rows: DataFrame, tasks: BucketTasks) -> DataFrame:
    return rows.repartition(tasks.count, TASK).drop(TASK)


def write_led(
    spark: SparkSession,
    work: Work,
    led: Led,
    context: WriteContext,
    *,
    deletes: bool,
    combine: bool,
) -> list[WriteStat]:
    """Write rows to the buckets of a planned write."""
    if not work.buckets:
        return []
    tasks = BucketTasks(
        work.buckets,
        row_bytes=context.ref.config.get(RECORD_SIZE_ESTIMATE),
        at_least=spark.sparkContext.defaultParallelism,
    )
    buckets: dict[int, list[Any]] = {task: [] for task in range(tasks.count)}
    numbers = tasks.of(np.array([bucket.index for bucket in work.buckets], np.int32))
    for task, planned in zip(numbers.tolist(), bucket_reads(work, context), strict=True):
        buckets[task].append(planned)
    plan = spark.sparkContext.broadcast(BucketPlan(context, buckets, deletes, combine))
    written = led.in_tasks(spark, tasks).mapInArrow(
        lambda batches: write_buckets(plan.value, batches), RESULTS
    )
    try:
        results = _collected(spark, written, context, "write")
    finally:
        plan.destroy()
    came = sum(result.rows for result in results)
    if came != led.rows:
        raise CommitFailed(
            f"the rows of this write changed while it ran: {led.rows} were planned, {came} came"
        )
    return [stat for result in results for stat in result.stats]


def write_streamed(spark: SparkSession, frame: DataFrame, context: WriteContext) -> list[WriteStat]:
    """Write rows to new file groups where they are, without moving them."""
    shared = spark.sparkContext.broadcast(context)
    written = frame.mapInArrow(lambda batches: write_bulk(shared.value, batches), RESULTS)
    try:
        results = _collected(spark, written, context, "write")
    finally:
        shared.destroy()
    return [stat for result in results for stat in result.stats]


def routes_of(buckets: Iterable[Bucket]) -> Iterator[Route]:
    """Rows go to the file group of their key; new ones to a bucket of their partition.

    Which one is told by the hash of their key, in proportion to what the buckets can take.
    """
    fresh: dict[PartitionPath, list[Bucket]] = {}
    for bucket in buckets:
        partition = bucket.group.partition
        if bucket.updates:
            yield Route(partition, bucket.group.file_id, bucket.index)
        if bucket.inserts:
            fresh.setdefault(partition, []).append(bucket)
    for partition, takers in fresh.items():
        sums = list(accumulate(bucket.inserts for bucket in takers))
        bounds = [_LOWEST, *(_LOWEST + _HASHES * each // sums[-1] for each in sums)]
        for number, bucket in enumerate(takers):
            yield Route(partition, "", bucket.index, bounds[number], bounds[number + 1] - 1)


def _collected(
    spark: SparkSession, written: DataFrame, context: WriteContext, phase: str
) -> list[Result]:
    """Run the stage. Its results are collected once, and nothing comes behind it in the job."""
    with described(spark, job_text(context, phase)), told_plainly():
        rows = written.collect()
    results = [pickle.loads(row["result"]) for row in sorted(rows, key=lambda row: row["bucket"])]
    for result in results:
        if result.error is not None:
            raise result.error
    return results


def job_text(context: WriteContext, phase: str) -> str:
    """What a job is for, as people read it in Spark's pages."""
    return f"hoodoo {context.ref.properties.name} {context.requested_time}: {phase}"
