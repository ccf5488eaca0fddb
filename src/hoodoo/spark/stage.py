"""The write stage on Spark: rows are sent to the task of their bucket, and written there."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from hoodoo.errors import CommitFailed
from hoodoo.model.paths import PartitionPath
from hoodoo.model.stats import WriteStat
from hoodoo.spark.columns import BUCKET, GROUP, HASH, PLACE, TASK
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


@dataclass(frozen=True)
class Tagged:
    """Rows that know their file group, and how many there are."""

    frame: DataFrame
    rows: int


def write_tagged(
    spark: SparkSession,
    work: Work,
    tagged: Tagged,
    routes: Sequence[Route],
    context: WriteContext,
    *,
    deletes: bool,
    combine: bool,
) -> list[WriteStat]:
    """Write tagged rows to the buckets of a planned write."""
    if not work.buckets:
        return []
    tasks = min(len(work.buckets), _MOST_TASKS)
    buckets: dict[int, list[Any]] = {task: [] for task in range(tasks)}
    for bucket, read in bucket_reads(work, context):
        buckets[bucket.index % tasks].append((bucket, read))
    plan = spark.sparkContext.broadcast(BucketPlan(context, buckets, deletes, combine))
    placed = _placed(spark, tagged.frame, routes, tasks)
    written = placed.mapInArrow(lambda batches: write_buckets(plan.value, batches), RESULTS)
    try:
        results = _collected(spark, written, context, "write")
    finally:
        plan.destroy()
    came = sum(result.rows for result in results)
    if came != tagged.rows:
        raise CommitFailed(
            f"the rows of this write changed while it ran: {tagged.rows} were planned, {came} came"
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


def _placed(spark: SparkSession, rows: DataFrame, routes: Sequence[Route], tasks: int) -> DataFrame:
    """Rows in the task of their bucket."""
    numbers = leading_numbers(tasks)
    table = pa.table(
        {
            PLACE: pa.array([route.partition for route in routes], pa.string()),
            GROUP: pa.array([route.group for route in routes], pa.string()),
            _LOW: pa.array([route.lowest for route in routes], pa.int64()),
            _HIGH: pa.array([route.highest for route in routes], pa.int64()),
            BUCKET: pa.array([route.bucket for route in routes], pa.int32()),
            TASK: pa.array([numbers[route.bucket % tasks] for route in routes], pa.int32()),
        }
    )
    routed = rows.join(sf.broadcast(spark.createDataFrame(table)), [PLACE, GROUP])
    routed = routed.filter(sf.col(HASH).between(sf.col(_LOW), sf.col(_HIGH)))
    return routed.drop(PLACE, GROUP, _LOW, _HIGH).repartition(tasks, TASK).drop(TASK)


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
