"""The write stage on Spark: rows are sent to the task of their file group, and written there."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from hoodoo.config.concurrency import (
    MARKER_FILES,
    MARKER_INTERVAL_MS,
    MARKER_SERVER,
    MARKER_SERVER_PORT,
    MarkerType,
)
from hoodoo.config.write import RECORD_SIZE_ESTIMATE
from hoodoo.errors import CommitFailed
from hoodoo.model.commit import OperationType, WriteStat
from hoodoo.runtime.engine import StopSignal
from hoodoo.spark.engine import watch_for_errors
from hoodoo.spark.placement import numbers_for_tasks, pack
from hoodoo.spark.schema import IS_DELETED, LABEL, PARTITION, TASK, WRITE, to_frame
from hoodoo.spark.session.session import describe_jobs, stoppable_jobs, translate_spark_errors
from hoodoo.spark.write.tasks import (
    RESULTS,
    HandleResult,
    StageTasks,
    write_bulk,
    write_file_groups,
)
from hoodoo.write.execute import read_previous_slices
from hoodoo.write.files.bulk_insert import HASH
from hoodoo.write.files.context import WriteContext
from hoodoo.write.index.destinations import FileGroupWrite, Route
from hoodoo.write.planning.assignment import Assignment

_MOST_TASKS = 4096
_LOWEST, _HASHES = -(2**63), 2**64
_LOW, _HIGH = "_hoodoo_low", "_hoodoo_high"


class TaskNumbers:
    """The task of each file group of a write; small file groups share one."""

    def __init__(self, writes: Sequence[FileGroupWrite], *, row_bytes: int, at_least: int) -> None:
        sizes = [_size_bytes(write, row_bytes) for write in writes]
        tasks = pack(sizes, at_least=at_least, most=_MOST_TASKS)
        self.count = len(tasks)
        self._task_of = np.zeros(max(write.index for write in writes) + 1, np.int32)
        for task, positions in enumerate(tasks):
            self._task_of[[writes[position].index for position in positions]] = task

    def of(self, writes: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """The tasks of file groups, by the numbers of their writes."""
        return self._task_of[writes]


def _size_bytes(write: FileGroupWrite, row_bytes: int) -> int:
    previous = write.previous.size_bytes if write.previous else 0
    return previous + (write.inserts + write.updates) * row_bytes


class RoutedRows(Protocol):
    """Rows of a write, each with the file group that it is for."""

    @property
    def rows(self) -> int:
        """How many there are."""

    def in_tasks(self, spark: SparkSession, tasks: TaskNumbers) -> DataFrame:
        """The rows, with `WRITE`, in the task of their file group."""


@dataclass(frozen=True)
class RowsByDestination:
    """Rows that know their destination, `PARTITION` and `LABEL`."""

    frame: DataFrame
    rows: int
    routes: Sequence[Route]

    def in_tasks(self, spark: SparkSession, tasks: TaskNumbers) -> DataFrame:
        """Rows of one destination are shared out by the hash of their key."""
        writes = np.array([route.write for route in self.routes], np.int32)
        lowest = [_LOWEST + _HASHES * route.first // route.of for route in self.routes]
        highest = [_LOWEST + _HASHES * route.end // route.of - 1 for route in self.routes]
        places = [route.destination.partition for route in self.routes]
        table = pa.table(
            {
                PARTITION: pa.array(places, pa.string()),
                LABEL: pa.array([route.destination.label for route in self.routes], pa.string()),
                _LOW: pa.array(lowest, pa.int64()),
                _HIGH: pa.array(highest, pa.int64()),
                **_task_columns(writes, tasks),
            }
        )
        rows_of_task = self.frame.join(sf.broadcast(to_frame(spark, table)), [PARTITION, LABEL])
        rows_of_task = rows_of_task.filter(sf.col(HASH).between(sf.col(_LOW), sf.col(_HIGH)))
        return _send(rows_of_task.drop(PARTITION, LABEL, _LOW, _HIGH), tasks)


@dataclass(frozen=True)
class RowsByKeyHash:
    """Rows with a hash of their key in the column `hash`, and where each hash goes.

    `deletes`: the row's key is deleted there; None if that is so for none.
    """

    frame: DataFrame
    rows: int
    hash: str
    hashes: npt.NDArray[np.int64]
    writes: npt.NDArray[np.int32]
    deletes: npt.NDArray[np.bool_] | None = None

    def in_tasks(self, spark: SparkSession, tasks: TaskNumbers) -> DataFrame:
        """Each row is joined with where it goes."""
        table = pa.table({self.hash: self.hashes, **_task_columns(self.writes, tasks)})
        if self.deletes is not None:
            table = table.append_column(IS_DELETED, pa.array(self.deletes))
        rows_of_task = self.frame.join(sf.broadcast(to_frame(spark, table)), self.hash)
        return _send(rows_of_task.drop(self.hash), tasks)


def _task_columns(writes: npt.NDArray[np.int32], tasks: TaskNumbers) -> dict[str, pa.Array]:
    numbers = np.array(numbers_for_tasks(tasks.count), np.int32)
    return {WRITE: pa.array(writes), TASK: pa.array(numbers[tasks.of(writes)])}


def _send(rows: DataFrame, tasks: TaskNumbers) -> DataFrame:
    return rows.repartition(tasks.count, TASK).drop(TASK)


def write_routed(
    spark: SparkSession,
    assignment: Assignment,
    routed_rows: RoutedRows,
    context: WriteContext,
    stop: StopSignal,
    *,
    combine: bool,
) -> list[WriteStat]:
    """Write rows to the file groups of a planned write."""
    if not assignment.writes:
        return []
    tasks = TaskNumbers(
        assignment.writes,
        row_bytes=context.ref.config.get(RECORD_SIZE_ESTIMATE),
        at_least=spark.sparkContext.defaultParallelism,
    )
    writes: dict[int, list[Any]] = {task: [] for task in range(tasks.count)}
    numbers = tasks.of(np.array([write.index for write in assignment.writes], np.int32))
    for task, group_write in zip(
        numbers.tolist(), read_previous_slices(assignment, context), strict=True
    ):
        writes[task].append(group_write)
    deletes = assignment.operation is OperationType.DELETE
    with _serving_markers(spark, context, stop) as served_context:
        broadcast = spark.sparkContext.broadcast(
            StageTasks(served_context, writes, deletes, combine)
        )
        errors = watch_for_errors(spark.sparkContext, stop)
        stage_rows = routed_rows.in_tasks(spark, tasks).mapInArrow(
            lambda batches: write_file_groups(broadcast.value, batches, errors.add), RESULTS
        )
        try:
            results = _collect_results(spark, stage_rows, context, stop)
        finally:
            broadcast.destroy()
    row_count = sum(result.rows for result in results)
    if row_count != routed_rows.rows:
        raise CommitFailed(
            "the rows of this write changed while it ran: "
            f"{routed_rows.rows} were planned, {row_count} came"
        )
    return [stat for result in results for stat in result.stats]


def write_streamed(
    spark: SparkSession, frame: DataFrame, context: WriteContext, stop: StopSignal
) -> list[WriteStat]:
    """Write rows to new file groups where they are, without moving them."""
    with _serving_markers(spark, context, stop) as served_context:
        broadcast = spark.sparkContext.broadcast(served_context)
        errors = watch_for_errors(spark.sparkContext, stop)
        stage_rows = frame.mapInArrow(
            lambda batches: write_bulk(broadcast.value, batches, errors.add), RESULTS
        )
        try:
            results = _collect_results(spark, stage_rows, context, stop)
        finally:
            broadcast.destroy()
    return [stat for result in results for stat in result.stats]


@contextmanager
def _serving_markers(
    spark: SparkSession, context: WriteContext, stop: StopSignal
) -> Iterator[WriteContext]:
    """The context with a marker server in this process, if markers come in batches.

    Tasks that announce files after a conflict was found are told so by the server.
    """
    config = context.ref.config
    if context.marker_type is not MarkerType.BATCHED or not config.get(MARKER_SERVER):
        yield context
        return
    from hoodoo.spark.marker_server.server import MarkerServer, driver_address, serve_markers

    host, bind = driver_address(spark)
    server = MarkerServer(
        context.ref.env,
        context.requested_time,
        host=host,
        bind=bind,
        port=config.get(MARKER_SERVER_PORT),
        files=config.get(MARKER_FILES),
        interval_ms=config.get(MARKER_INTERVAL_MS),
        find_conflict=lambda: stop.error,
    )
    with serve_markers(server) as announcer:
        yield replace(context, announcer=announcer)


def _collect_results(
    spark: SparkSession, stage_rows: DataFrame, context: WriteContext, stop: StopSignal
) -> list[HandleResult]:
    """Run the stage. Its results are collected once, and nothing comes behind it in the job."""
    description = describe_phase(context, "write")
    with (
        stoppable_jobs(spark, stop),
        describe_jobs(spark, description),
        translate_spark_errors(),
    ):
        rows = stage_rows.collect()
    results = [pickle.loads(row["result"]) for row in sorted(rows, key=lambda row: row["number"])]
    for result in results:
        if result.error is not None:
            raise result.error
    return results


def describe_phase(context: WriteContext, phase: str) -> str:
    """What a job is for, as people read it in Spark's pages."""
    return f"hoodoo {context.ref.properties.name} {context.requested_time}: {phase}"
