"""The write operations on DataFrames: each a straight line from rows to a commit.

prepare -> locate -> assign -> execute (begin, write stage, finalize, commit)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from hoodoo.config.tasks import (
    BULK_INSERT_PARALLELISM,
    DRIVER_MAX_KEYS,
    SORT_MODE,
    SortMode,
)
from hoodoo.config.write import COMBINE_BEFORE_INSERT
from hoodoo.engine.stop import Stop
from hoodoo.errors import InputError
from hoodoo.format.schema import PARTITION_PATH, RECORD_KEY
from hoodoo.index import index_of
from hoodoo.model.commit import OperationType
from hoodoo.model.file_group_write import Destination
from hoodoo.model.paths import PartitionPath
from hoodoo.model.progress import OnProgress, Progress
from hoodoo.model.stats import WriteStat
from hoodoo.spark import recompute
from hoodoo.spark.collect_keys import Keys, collect_keys
from hoodoo.spark.collect_rows import write_collected
from hoodoo.spark.columns import LABEL, PLACE
from hoodoo.spark.engine import SparkEngine, engine_on
from hoodoo.spark.join_keys import tag, tag_new
from hoodoo.spark.prepare import (
    Rows,
    count_by_partition,
    drop_flagged_rows,
    keep_one_per_key,
    prepare,
    prepare_deletes,
)
from hoodoo.spark.progress import watch_progress
from hoodoo.spark.ready import ready_workers
from hoodoo.spark.session import (
    describe_jobs,
    override_settings,
    session_of,
    translate_spark_errors,
)
from hoodoo.spark.stage import ByDestination, RoutedRows, write_routed, write_streamed
from hoodoo.table.ref import TableRef
from hoodoo.write.assignment import Assignment, Target, assign
from hoodoo.write.commit import CommitResult
from hoodoo.write.execute import Phases, Stage, execute
from hoodoo.write.handle import WriteContext
from hoodoo.write.locate import locate
from hoodoo.write.partitions import refuse_unusable_partitions

# What is kept is used two or three times: to compress it costs more than it saves.
_PLAIN_CACHE = {"spark.sql.inMemoryColumnarStorage.compressed": "false"}


@dataclass(frozen=True)
class _Job:
    """A write in the making: what it works on, how long its phases take, what it keeps."""

    ref: TableRef
    incoming: DataFrame
    operation: OperationType
    phases: Phases
    cached: ExitStack

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
        return engine_of(self.ref, self.incoming)

    def keep(self, frame: DataFrame) -> DataFrame:
        """Rows that are used again: computed once, and dropped when the write ends."""
        with override_settings(self.spark, _PLAIN_CACHE):
            frame = frame.persist(StorageLevel.MEMORY_AND_DISK)
        self.cached.callback(frame.unpersist)
        return frame

    def keep_incoming(self, frame: DataFrame) -> DataFrame:
        """The same for the rows as they were given, unless it is cheap to compute them again."""
        return frame if recompute.is_cheap(self.incoming) else self.keep(frame)

    def execute(self, assignment: Assignment, routed: RoutedRows, *, combine: bool) -> CommitResult:
        """Carry a planned write out."""
        stage = partial(write_routed, self.spark, assignment, routed, combine=combine)
        return self.execute_stage(assignment, stage)

    def execute_stage(self, assignment: Assignment, stage: Stage) -> CommitResult:
        """Carry a planned write out by this stage, and tell of its tasks."""
        tell = self.phases.on_progress

        def watched(context: WriteContext, stop: Stop) -> Sequence[WriteStat]:
            if tell is None:
                return stage(context, stop)
            with watch_progress(
                self.spark, lambda tasks: tell(Progress("write", tasks.done, tasks.total))
            ):
                return stage(context, stop)

        return execute(self.ref, assignment, watched, self.engine, self.phases)


def engine_of(ref: TableRef, rows: DataFrame) -> SparkEngine:
    """Runs what is done per file, in the session of these rows."""
    return engine_on(session_of(rows), ref)


@contextmanager
def _open_job(
    ref: TableRef, incoming: DataFrame, operation: OperationType, on_progress: OnProgress | None
) -> Iterator[_Job]:
    ready_workers(incoming)
    with ExitStack() as cached:
        yield _Job(ref, incoming, operation, Phases(ref.env, on_progress), cached)


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
    prepare_rows: Callable[[Target, DataFrame], Rows],
    on_progress: OnProgress | None,
) -> CommitResult:
    """A write whose rows go to the file groups of their keys.

    The driver plans if it can hold the keys; else keys are joined.
    """
    with _open_job(ref, incoming, operation, on_progress) as job:
        with job.phase("prepare"):
            target = Target.load(ref)
            rows = prepare_rows(target, incoming)
        with job.phase("locate"):
            rows = replace(rows, frame=job.keep_incoming(rows.frame))
            counts = count_by_partition(rows.frame)
            if operation is not OperationType.DELETE:
                refuse_unusable_partitions(ref, counts)
            fits = sum(counts.values()) <= ref.config.get(DRIVER_MAX_KEYS)
            keys = collect_keys(target, rows) if fits else None
        if keys is not None:
            assignment, routed = _plan_by_driver(job, target, rows, keys)
        else:
            with job.phase("locate"):
                deletes = operation is OperationType.DELETE
                tagged = tag(job.spark, target, rows, counts, job.keep, deletes=deletes)
                profile = _count_by_destination(tagged)
            assignment, routed = _plan_tagged(job, target, rows, tagged, profile)
        return job.execute(assignment, routed, combine=True)


def _write_new(
    ref: TableRef, incoming: DataFrame, operation: OperationType, on_progress: OnProgress | None
) -> CommitResult:
    """A write whose rows are new, whatever keys there are."""
    with _open_job(ref, incoming, operation, on_progress) as job:
        with job.phase("prepare"):
            target = Target.load(ref)
            rows = prepare(target, incoming)
            tagged = job.keep_incoming(tag_new(target, rows.frame))
            profile = _count_by_destination(tagged)
            refuse_unusable_partitions(ref, {destination.partition for destination in profile})
        assignment, routed = _plan_tagged(job, target, rows, tagged, profile)
        return job.execute(assignment, routed, combine=ref.config.get(COMBINE_BEFORE_INSERT))


def _plan_by_driver(
    job: _Job, target: Target, rows: Rows, keys: Keys
) -> tuple[Assignment, RoutedRows]:
    """Plan rows whose keys are in the driver."""
    deletes = job.operation is OperationType.DELETE
    with job.phase("locate"):
        located = locate(
            target,
            keys.incoming,
            job.engine,
            deletes=deletes,
            in_all_partitions=rows.in_all_partitions,
        )
    with job.phase("assign"):
        assignment, assigned = assign(target, job.operation, rows.schema, located.counts)
        return assignment, keys.route(located, assigned.routes)


def _plan_tagged(
    job: _Job, target: Target, rows: Rows, tagged: DataFrame, profile: dict[Destination, int]
) -> tuple[Assignment, RoutedRows]:
    """Plan rows that know their destination."""
    with job.phase("assign"):
        assignment, assigned = assign(target, job.operation, rows.schema, profile)
        frame = tagged.drop(RECORD_KEY, PARTITION_PATH)
        return assignment, ByDestination(frame, sum(profile.values()), assigned.routes)


def _count_by_destination(tagged: DataFrame) -> dict[Destination, int]:
    """How many of the rows go to each destination; runs a job."""
    counts = tagged.groupBy(PLACE, LABEL).count().collect()
    return {Destination(PartitionPath(place), label): count for place, label, count in counts}


def _bulk_insert(
    ref: TableRef, incoming: DataFrame, on_progress: OnProgress | None
) -> CommitResult:
    """Rows are written where they are; only those that are to be sorted move."""
    with _open_job(ref, incoming, OperationType.BULK_INSERT, on_progress) as job:
        with job.phase("prepare"):
            target = Target.load(ref)
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
