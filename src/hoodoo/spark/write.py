"""The write operations on DataFrames: each a straight line from rows to a commit.

prepare -> locate -> assign -> execute (begin, write stage, finalize, commit)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from hoodoo.concurrency.conflict import Overwritten
from hoodoo.config.tasks import (
    BULK_INSERT_PARALLELISM,
    DRIVER_MAX_FILE_BYTES,
    SORT_MODE,
    SortMode,
)
from hoodoo.config.write import COMBINE_BEFORE_INSERT
from hoodoo.errors import InputError
from hoodoo.format.schema import PARTITION_PATH, RECORD_KEY
from hoodoo.model.buckets import bucket_file_id
from hoodoo.model.commit import OperationType
from hoodoo.model.files import FileGroupId, FileSlice
from hoodoo.model.names import FileId, derived_uuid, new_file_id
from hoodoo.model.paths import PartitionPath
from hoodoo.spark import again, few, small
from hoodoo.spark.columns import GROUP, PLACE
from hoodoo.spark.engine import SparkEngine
from hoodoo.spark.index import as_new, bucket, tag
from hoodoo.spark.prepare import (
    Rows,
    one_per_key,
    prepare,
    prepare_deletes,
    rows_by_partition,
    without_marked,
)
from hoodoo.spark.session import configured, described, session_of, told_plainly
from hoodoo.spark.stage import ByGroup, Led, Route, routes_of, write_led, write_streamed
from hoodoo.table.ref import TableRef
from hoodoo.table.snapshot import Snapshot, take_snapshot
from hoodoo.table.writable import refuse_unwritable
from hoodoo.write import operations
from hoodoo.write.assign import assign, assign_numbers
from hoodoo.write.bucketed import check_buckets, has_buckets
from hoodoo.write.commit import CommitResult
from hoodoo.write.execute import Phases, execute
from hoodoo.write.locate import locate
from hoodoo.write.partitions import refuse_unusable_partitions
from hoodoo.write.plan import place
from hoodoo.write.work import (
    Replaced,
    Work,
    groups_by_partition,
    sizes_of,
    takes_inserts,
    update_kind,
)

_OVERWRITES = frozenset({OperationType.INSERT_OVERWRITE, OperationType.INSERT_OVERWRITE_TABLE})
# What is kept is used two or three times: to compress it costs more than it saves.
_PLAIN_CACHE = {"spark.sql.inMemoryColumnarStorage.compressed": "false"}


@dataclass(frozen=True)
class _Job:
    """A write in the making: what it works on, how long its phases take, what it keeps."""

    ref: TableRef
    given: DataFrame
    operation: OperationType
    phases: Phases
    kept: ExitStack

    @property
    def spark(self) -> SparkSession:
        """The session of the rows."""
        return session_of(self.given)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """A phase before the write has its instant."""
        text = f"hoodoo {self.ref.properties.name} {self.operation.value.lower()}: {name}"
        with self.phases.timed(name), described(self.spark, text), told_plainly():
            yield

    def snapshot(self) -> Snapshot:
        """The table as it is, if the settings fit it."""
        snapshot = take_snapshot(self.ref)
        check_buckets(snapshot)
        return snapshot

    @property
    def engine(self) -> SparkEngine:
        """Runs what is done per file."""
        here_bytes = self.ref.config.get(DRIVER_MAX_FILE_BYTES)
        text = f"hoodoo {self.ref.properties.name}"
        return SparkEngine(self.spark, text, here_bytes=here_bytes)

    def keep(self, frame: DataFrame) -> DataFrame:
        """Rows that are used again: computed once, and dropped when the write ends."""
        with configured(self.spark, _PLAIN_CACHE):
            frame = frame.persist(StorageLevel.MEMORY_AND_DISK)
        self.kept.callback(frame.unpersist)
        return frame

    def keep_given(self, frame: DataFrame) -> DataFrame:
        """The same for the rows as they were given, unless it is cheap to compute them again."""
        return frame if again.is_cheap(self.given) else self.keep(frame)

    def execute(self, work: Work, led: Led, *, combine: bool) -> CommitResult:
        """Carry a planned write out."""
        deletes = self.operation is OperationType.DELETE
        stage = partial(write_led, self.spark, work, led, deletes=deletes, combine=combine)
        return execute(self.ref, work, stage, self.engine, self.phases)


@contextmanager
def _writing(ref: TableRef, given: DataFrame, operation: OperationType) -> Iterator[_Job]:
    with ExitStack() as kept:
        yield _Job(ref, given, operation, Phases(ref.env), kept)


def upsert(ref: TableRef, given: DataFrame) -> CommitResult:
    """Update rows whose keys are there, add the others."""
    refuse_unwritable(ref)
    by_spark = partial(_by_keys, operation=OperationType.UPSERT, prepared=prepare)
    return small.written(ref, given, operations.upsert) or by_spark(ref, given)


def delete(ref: TableRef, given: DataFrame) -> CommitResult:
    """Delete rows by key; see `write.operations.delete`."""
    refuse_unwritable(ref)
    by_spark = partial(_by_keys, operation=OperationType.DELETE, prepared=prepare_deletes)
    return small.written(ref, given, operations.delete) or by_spark(ref, given)


def insert(ref: TableRef, given: DataFrame, *, bulk: bool = False) -> CommitResult:
    """Add rows without looking for their keys; bulk inserts leave existing files alone."""
    refuse_unwritable(ref)
    if bulk and not has_buckets(ref):
        return _bulk_insert(ref, given)
    by_driver = partial(operations.insert, bulk=bulk)
    operation = OperationType.BULK_INSERT if bulk else OperationType.INSERT
    return small.written(ref, given, by_driver) or _insert(ref, given, operation, fill=not bulk)


def overwrite(ref: TableRef, given: DataFrame, *, whole: bool = False) -> CommitResult:
    """Replace all rows of the partitions that occur in the rows, or of the whole table."""
    refuse_unwritable(ref)
    by_driver = partial(operations.overwrite, whole=whole)
    operation = OperationType.INSERT_OVERWRITE_TABLE if whole else OperationType.INSERT_OVERWRITE
    return small.written(ref, given, by_driver) or _insert(ref, given, operation, fill=False)


def delete_partitions(ref: TableRef, given: DataFrame) -> CommitResult:
    """Partitions are named, not told by rows."""
    raise InputError("delete_partitions takes a list of partition paths, such as ['city=sf']")


def _by_keys(
    ref: TableRef,
    given: DataFrame,
    *,
    operation: OperationType,
    prepared: Callable[[Snapshot, DataFrame], Rows],
) -> CommitResult:
    """A write whose rows go to the file groups of their keys."""
    with _writing(ref, given, operation) as job:
        with job.phase("prepare"):
            snapshot = job.snapshot()
            rows = prepared(snapshot, given)
        return job.execute(*_led_by_keys(job, snapshot, rows), combine=True)


def _insert(
    ref: TableRef, given: DataFrame, operation: OperationType, *, fill: bool
) -> CommitResult:
    with _writing(ref, given, operation) as job:
        with job.phase("prepare"):
            snapshot = job.snapshot()
            rows = prepare(snapshot, given)
            frame = job.keep_given(_as_new(job, snapshot, rows))
            profile = _profile(frame)
            refuse_unusable_partitions(ref, {place for place, _ in profile})
        with job.phase("assign"):
            replaced: Replaced | None = None
            overwrites: Overwritten = frozenset()
            if operation in _OVERWRITES:
                is_whole = operation is OperationType.INSERT_OVERWRITE_TABLE
                overwrites = None if is_whole else frozenset(place for place, _ in profile)
                replaced = groups_by_partition(snapshot, overwrites)
            candidates = snapshot.slices() if fill else []
            work, led = _planned(job, snapshot, rows, frame, profile, candidates, replaced)
            work = replace(work, overwrites=overwrites)
        return job.execute(work, led, combine=ref.config.get(COMBINE_BEFORE_INSERT))


Profile = dict[tuple[PartitionPath, str], int]
"""How many rows go to each file group; those that are new, to the empty one."""


def _led_by_keys(job: _Job, snapshot: Snapshot, rows: Rows) -> tuple[Work, Led]:
    """Rows go to the file groups of their keys; absent keys are added, or need no delete."""
    with job.phase("locate"):
        rows = replace(rows, frame=job.keep_given(rows.frame))
        counts = rows_by_partition(rows.frame)
        if job.operation is not OperationType.DELETE:
            refuse_unusable_partitions(job.ref, counts)
        is_few = few.suits(job.ref, sum(counts.values()))
        keys = few.bring(rows.frame) if is_few else None
    if keys is not None:
        return _led_by_the_driver(job, snapshot, rows, keys)
    with job.phase("locate"):
        tagged = _tagged(job, snapshot, rows, counts)
        profile = _profile(tagged)
    with job.phase("assign"):
        return _planned(job, snapshot, rows, tagged, profile, snapshot.slices())


def _led_by_the_driver(
    job: _Job, snapshot: Snapshot, rows: Rows, keys: few.Keys
) -> tuple[Work, Led]:
    with job.phase("locate"):
        located = locate(
            snapshot,
            keys.incoming,
            job.engine,
            in_all_partitions=rows.in_all_partitions,
            only_live=rows.only_live,
        )
        if job.operation is OperationType.DELETE:
            located = replace(located, nowhere=located.nowhere[:0])
    with job.phase("assign"):
        placed = place(snapshot, keys.incoming, located)
        buckets = [made for made, _ in placed]
        return Work(job.operation, snapshot, rows.schema, buckets), keys.led_to(placed)


def _tagged(job: _Job, snapshot: Snapshot, rows: Rows, counts: Mapping[str, int]) -> DataFrame:
    """Rows with the file groups of their keys."""
    deletes = job.operation is OperationType.DELETE
    if has_buckets(job.ref):
        by_number = bucket.tag_present if deletes else bucket.tag
        return by_number(job.spark, snapshot, rows)
    found = tag(job.spark, snapshot, rows, counts, job.keep)
    return found.filter(sf.col(GROUP) != "") if deletes else found


def _as_new(job: _Job, snapshot: Snapshot, rows: Rows) -> DataFrame:
    if has_buckets(job.ref):
        return bucket.tag(job.spark, snapshot, rows)
    return as_new(rows.frame)


def _profile(tagged: DataFrame) -> Profile:
    """How many of the rows go where; runs a job."""
    counted = tagged.groupBy(PLACE, GROUP).count().collect()
    return {(PartitionPath(place), group): count for place, group, count in counted}


def _planned(
    job: _Job,
    snapshot: Snapshot,
    rows: Rows,
    tagged: DataFrame,
    profile: Profile,
    candidates: list[FileSlice],
    replaced: Replaced | None = None,
) -> tuple[Work, Led]:
    """The buckets of a write, and its tagged rows led to them."""
    ref, write_id = job.ref, job.ref.env.ids.uuid()
    if has_buckets(ref):
        numbered = assign_numbers(
            {(place, bucket.number_in(group)): count for (place, group), count in profile.items()},
            [] if replaced is not None else snapshot.slices(),
            update_kind(ref),
            lambda place, number: bucket_file_id(
                number, derived_uuid(write_id, f"{place}/{number}")
            ),
        )
        buckets = list(numbered.values())
        routes = [
            Route(place, bucket.group_of(number), made.index)
            for (place, number), made in numbered.items()
        ]
    else:
        slices = {slice_.group: slice_ for slice_ in snapshot.slices()}
        updates = {FileGroupId(p, FileId(g)): n for (p, g), n in profile.items() if g}
        inserts = {place: count for (place, group), count in profile.items() if not group}
        buckets = assign(
            {slices[group]: update_kind(ref) for group in updates},
            updates,
            inserts,
            [slice_ for slice_ in candidates if takes_inserts(ref, slice_)],
            sizes_of(snapshot, has_inserts=bool(inserts)),
            partial(new_file_id, write_id),
        )
        routes = list(routes_of(buckets))
    work = Work(job.operation, snapshot, rows.schema, buckets, replaced or {})
    led = ByGroup(tagged.drop(RECORD_KEY, PARTITION_PATH), sum(profile.values()), routes)
    return work, led


def _bulk_insert(ref: TableRef, given: DataFrame) -> CommitResult:
    """Rows are written where they are; only those that are to be sorted move."""
    with _writing(ref, given, OperationType.BULK_INSERT) as job:
        with job.phase("prepare"):
            snapshot = job.snapshot()
            rows = prepare(snapshot, given)
            frame = rows.frame
            if ref.config.get(COMBINE_BEFORE_INSERT):
                keys = (PARTITION_PATH, RECORD_KEY)
                frame = one_per_key(frame, rows.schema, ref.properties.merge, keys)
            frame = without_marked(frame, rows.schema)
            # Keys and partitions are made again by the tasks, which is cheaper than to send them.
            frame = _sorted(ref, frame).drop(RECORD_KEY, PARTITION_PATH)
        work = Work(job.operation, snapshot, rows.schema)
        stage = partial(write_streamed, job.spark, frame)
        return execute(ref, work, stage, job.engine, job.phases)


def _sorted(ref: TableRef, frame: DataFrame) -> DataFrame:
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
