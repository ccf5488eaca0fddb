"""The write operations on DataFrames: each a straight line from rows to a commit.

prepare -> locate -> assign -> execute (begin, write stage, finalize, commit)

A write reads its rows two or three times: to count them, for their keys, to write them. To cache
millions of rows for that costs far more than to read a few columns of columnar files again. Rows of
any other origin (joins, functions, databases) are computed once and cached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from py4j.protocol import Py4JError
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from hoodoo.config.write import (
    BULK_INSERT_PARALLELISM,
    COMBINE_BEFORE_INSERT,
    DRIVER_MAX_KEYS,
    SORT_MODE,
    SortMode,
)
from hoodoo.errors import InputError
from hoodoo.format.schema import PARTITION_PATH, RECORD_KEY
from hoodoo.model.commit import OperationType, WriteStat
from hoodoo.model.paths import PartitionPath
from hoodoo.model.progress import OnProgress, Progress
from hoodoo.runtime.engine import StopSignal
from hoodoo.spark.datasource.register import ready_workers
from hoodoo.spark.engine import SparkEngine, engine_for
from hoodoo.spark.schema import LABEL, PARTITION
from hoodoo.spark.session.progress import watch_progress
from hoodoo.spark.session.session import (
    describe_jobs,
    override_settings,
    session_of,
    translate_spark_errors,
)
from hoodoo.spark.write.collect_keys import CollectedKeys, collect_keys
from hoodoo.spark.write.collect_rows import write_collected
from hoodoo.spark.write.join_keys import tag, tag_new
from hoodoo.spark.write.prepare import (
    PreparedRows,
    count_by_partition,
    drop_flagged_rows,
    keep_one_per_key,
    prepare,
    prepare_deletes,
)
from hoodoo.spark.write.stage import RoutedRows, RowsByDestination, write_routed, write_streamed
from hoodoo.table.ref import TableRef
from hoodoo.write.commit.publish import CommitResult
from hoodoo.write.execute import PhaseTimer, Stage, execute
from hoodoo.write.files.context import WriteContext
from hoodoo.write.index import index_of
from hoodoo.write.index.destinations import Destination
from hoodoo.write.planning.assignment import Assignment, WriteTarget, assign
from hoodoo.write.planning.locate import locate
from hoodoo.write.planning.prepare import refuse_unusable_partitions

# -- whether rows are cached or computed again -----------------------------------------------------


_STEPS = {"Project", "Filter", "Union", "Repartition"}
_FORMATS = {"ParquetFileFormat", "OrcFileFormat"}


def is_cheap_to_recompute(rows: DataFrame) -> bool:
    """Whether rows come straight from columnar files, and are the same every time."""
    plan: Any = rows._jdf.queryExecution().optimizedPlan()
    try:
        return bool(plan.deterministic()) and all(_reads_files(node) for node in _nodes(plan))
    except Py4JError:  # a node that is unlike those we know
        return False


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    children = plan.children()
    for number in range(children.size()):
        yield from _nodes(children.apply(number))


def _reads_files(node: Any) -> bool:
    name = node.getClass().getSimpleName()
    if name != "LogicalRelation":
        return name in _STEPS
    relation = node.relation()
    if relation.getClass().getSimpleName() != "HadoopFsRelation":
        return False
    return relation.fileFormat().getClass().getSimpleName() in _FORMATS


# -- the write operations --------------------------------------------------------------------------


# What is kept is used two or three times: to compress it costs more than it saves.
_PLAIN_CACHE = {"spark.sql.inMemoryColumnarStorage.compressed": "false"}


@dataclass(frozen=True)
class _WriteJob:
    """A write in the making: what it works on, how long its phases take, what it keeps."""

    ref: TableRef
    incoming: DataFrame
    operation: OperationType
    phases: PhaseTimer
    caches: ExitStack

    @property
    def spark(self) -> SparkSession:
        """The session of the rows."""
        return session_of(self.incoming)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """A phase before the write has its instant."""
        text = f"hoodoo {self.ref.properties.name} {self.operation.value.lower()}: {name}"
        with self.phases.timed(name), describe_jobs(self.spark, text), translate_spark_errors():
            yield

    @property
    def engine(self) -> SparkEngine:
        """Runs what is done per file."""
        return engine_for(self.ref, self.incoming)

    def keep(self, frame: DataFrame) -> DataFrame:
        """Rows that are used again: computed once, and dropped when the write ends."""
        with override_settings(self.spark, _PLAIN_CACHE):
            frame = frame.persist(StorageLevel.MEMORY_AND_DISK)
        self.caches.callback(frame.unpersist)
        return frame

    def keep_incoming(self, frame: DataFrame) -> DataFrame:
        """The same for the rows as they were given, unless it is cheap to compute them again."""
        return frame if is_cheap_to_recompute(self.incoming) else self.keep(frame)

    def execute(
        self, assignment: Assignment, routed_rows: RoutedRows, *, combine: bool
    ) -> CommitResult:
        """Carry a planned write out."""
        stage = partial(write_routed, self.spark, assignment, routed_rows, combine=combine)
        return self.execute_stage(assignment, stage)

    def execute_stage(self, assignment: Assignment, stage: Stage) -> CommitResult:
        """Carry a planned write out by this stage, and tell of its tasks."""
        tell = self.phases.on_progress

        def run_stage(context: WriteContext, stop: StopSignal) -> Sequence[WriteStat]:
            if tell is None:
                return stage(context, stop)
            with watch_progress(
                self.spark, lambda tasks: tell(Progress("write", tasks.done, tasks.total))
            ):
                return stage(context, stop)

        return execute(self.ref, assignment, run_stage, self.engine, self.phases)


@contextmanager
def _open_job(
    ref: TableRef, incoming: DataFrame, operation: OperationType, on_progress: OnProgress | None
) -> Iterator[_WriteJob]:
    ready_workers(incoming)
    with ExitStack() as caches:
        yield _WriteJob(ref, incoming, operation, PhaseTimer(ref.env, on_progress), caches)


def write(
    ref: TableRef,
    operation: OperationType,
    incoming: DataFrame,
    on_progress: OnProgress | None = None,
) -> CommitResult:
    """Carry an operation out on the rows of a DataFrame, or on the keys in it to delete.

    Few rows are collected by the driver, which then does what the local engine does. While Spark
    writes, `on_progress` is told of tasks, not files.
    """
    if operation is OperationType.DELETE_PARTITION:
        raise InputError("delete_partitions takes a list of partition paths, such as ['city=sf']")
    if operation is OperationType.BULK_INSERT and index_of(ref).buckets is None:
        return _bulk_insert(ref, incoming, on_progress)
    result = write_collected(ref, operation, incoming, on_progress)
    if result is not None:
        return result
    match operation:
        case OperationType.UPSERT:
            return _write_by_key(ref, incoming, operation, prepare, on_progress)
        case OperationType.DELETE:
            return _write_by_key(ref, incoming, operation, prepare_deletes, on_progress)
        case _:
            return _write_new(ref, incoming, operation, on_progress)


def _write_by_key(
    ref: TableRef,
    incoming: DataFrame,
    operation: OperationType,
    prepare_rows: Callable[[WriteTarget, DataFrame], PreparedRows],
    on_progress: OnProgress | None,
) -> CommitResult:
    """A write whose rows go to the file groups of their keys.

    The driver plans if it can hold the keys; else keys are joined.
    """
    with _open_job(ref, incoming, operation, on_progress) as job:
        with job.phase("prepare"):
            target = WriteTarget.load(ref)
            rows = prepare_rows(target, incoming)
        with job.phase("locate"):
            rows = replace(rows, frame=job.keep_incoming(rows.frame))
            counts = count_by_partition(rows.frame)
            if operation is not OperationType.DELETE:
                refuse_unusable_partitions(ref, counts)
            fits = sum(counts.values()) <= ref.config.get(DRIVER_MAX_KEYS)
            keys = collect_keys(target, rows) if fits else None
        if keys is not None:
            assignment, routed_rows = _plan_by_driver(job, target, rows, keys)
        else:
            with job.phase("locate"):
                deletes = operation is OperationType.DELETE
                tagged_rows = tag(job.spark, target, rows, counts, job.keep, deletes=deletes)
                profile = _count_by_destination(tagged_rows)
            assignment, routed_rows = _plan_tagged(job, target, rows, tagged_rows, profile)
        return job.execute(assignment, routed_rows, combine=True)


def _write_new(
    ref: TableRef, incoming: DataFrame, operation: OperationType, on_progress: OnProgress | None
) -> CommitResult:
    """A write whose rows are new, whatever keys there are."""
    with _open_job(ref, incoming, operation, on_progress) as job:
        with job.phase("prepare"):
            target = WriteTarget.load(ref)
            rows = prepare(target, incoming)
            tagged_rows = job.keep_incoming(tag_new(target, rows.frame))
            profile = _count_by_destination(tagged_rows)
            refuse_unusable_partitions(ref, {destination.partition for destination in profile})
        assignment, routed_rows = _plan_tagged(job, target, rows, tagged_rows, profile)
        return job.execute(assignment, routed_rows, combine=ref.config.get(COMBINE_BEFORE_INSERT))


def _plan_by_driver(
    job: _WriteJob, target: WriteTarget, rows: PreparedRows, keys: CollectedKeys
) -> tuple[Assignment, RoutedRows]:
    """Plan rows whose keys are in the driver."""
    deletes = job.operation is OperationType.DELETE
    with job.phase("locate"):
        locations = locate(
            target,
            keys.incoming,
            job.engine,
            deletes=deletes,
            in_all_partitions=rows.in_all_partitions,
        )
    with job.phase("assign"):
        assignment, groups = assign(target, job.operation, rows.schema, locations.counts)
        return assignment, keys.route(locations, groups.routes)


def _plan_tagged(
    job: _WriteJob,
    target: WriteTarget,
    rows: PreparedRows,
    tagged_rows: DataFrame,
    profile: dict[Destination, int],
) -> tuple[Assignment, RoutedRows]:
    """Plan rows that know their destination."""
    with job.phase("assign"):
        assignment, groups = assign(target, job.operation, rows.schema, profile)
        frame = tagged_rows.drop(RECORD_KEY, PARTITION_PATH)
        return assignment, RowsByDestination(frame, sum(profile.values()), groups.routes)


def _count_by_destination(tagged_rows: DataFrame) -> dict[Destination, int]:
    """How many of the rows go to each destination; runs a job."""
    counts = tagged_rows.groupBy(PARTITION, LABEL).count().collect()
    return {Destination(PartitionPath(place), label): count for place, label, count in counts}


def _bulk_insert(
    ref: TableRef, incoming: DataFrame, on_progress: OnProgress | None
) -> CommitResult:
    """Rows are written where they are; only those that are to be sorted move."""
    with _open_job(ref, incoming, OperationType.BULK_INSERT, on_progress) as job:
        with job.phase("prepare"):
            target = WriteTarget.load(ref)
            rows = prepare(target, incoming)
            frame = rows.frame
            if ref.config.get(COMBINE_BEFORE_INSERT):
                keys = (PARTITION_PATH, RECORD_KEY)
                frame = keep_one_per_key(frame, rows.schema, ref.properties.merge, keys)
            frame = drop_flagged_rows(frame, rows.schema, ref.properties.merge)
            # Keys and partitions are made again by the tasks, which is cheaper than to send them.
            frame = _sort_rows(ref, frame).drop(RECORD_KEY, PARTITION_PATH)
        assignment = Assignment(job.operation, target.snapshot, rows.schema)
        stage = partial(write_streamed, job.spark, frame)
        return job.execute_stage(assignment, stage)


def _sort_rows(ref: TableRef, frame: DataFrame) -> DataFrame:
    """Rows in the order that the settings ask for."""
    order = (PARTITION_PATH, RECORD_KEY)
    tasks = ref.config.get(BULK_INSERT_PARALLELISM)
    match ref.config.get(SORT_MODE):
        case SortMode.GLOBAL_SORT if tasks:
            return frame.repartitionByRange(tasks, *order).sortWithinPartitions(*order)
        case SortMode.GLOBAL_SORT:
            return frame.sort(*order)
        case SortMode.PARTITION_SORT:
            return frame.sortWithinPartitions(*order)
        case SortMode.NONE:
            return frame
