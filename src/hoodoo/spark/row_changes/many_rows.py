"""Many changed rows on Spark -> one plan and its commit.

`write.row_changes.write_changes` does the same for few rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from hoodoo.errors import InputError
from hoodoo.format.schema import PARTITION_PATH, RECORD_KEY
from hoodoo.model.commit import OperationType
from hoodoo.model.paths import PartitionPath
from hoodoo.read.scan import ScanSelection, build_scan_rule
from hoodoo.spark.engine import engine_on
from hoodoo.spark.read.read import build_frame
from hoodoo.spark.row_changes.expressions import ACTION, DELETE, INSERT, NEW_ROW, OLD_ROW, UPDATE
from hoodoo.spark.schema import IS_DELETED, LABEL, PARTITION
from hoodoo.spark.session.session import describe_jobs, translate_spark_errors
from hoodoo.spark.write.join_keys import tag, tag_new
from hoodoo.spark.write.prepare import PreparedRows, add_checked_keys, count_by_partition
from hoodoo.spark.write.stage import RowsByDestination, write_routed
from hoodoo.write.commit.publish import CommitResult
from hoodoo.write.execute import PhaseTimer, execute
from hoodoo.write.files.bulk_insert import HASH
from hoodoo.write.index.destinations import Destination
from hoodoo.write.planning.assignment import WriteTarget, assign
from hoodoo.write.planning.prepare import refuse_unusable_partitions
from hoodoo.write.row_changes.write_changes import keeps_partitions, late_message, with_counts

_OLD_KEY, _OLD_PLACE, _IS_OLDER = "_hoodoo_old_key", "_hoodoo_old_place", "_hoodoo_older"

Keep = Callable[[DataFrame], DataFrame]


@dataclass(frozen=True)
class ChangedFrames:
    """Changes in Spark's memory, and how many there are of each kind.

    `are_new`: no key that is inserted can be in the table.
    """

    changes: DataFrame
    counts: Mapping[str, int]
    are_new: bool

    def only(self, *actions: str) -> DataFrame:
        """Changes of these kinds."""
        return self.changes.filter(sf.col(ACTION).isin(*actions))


def write_frames(
    spark: SparkSession, target: WriteTarget, frames: ChangedFrames, keep: Keep, phases: PhaseTimer
) -> CommitResult:
    """Write all changes as one commit.

    Needs: `target` is the snapshot in which the rows were read.
    """
    ref, text = target.ref, f"hoodoo {target.ref.properties.name}: locate changes"
    with phases.timed("locate"), describe_jobs(spark, text), translate_spark_errors():
        updates = _updates(target, frames)
        move_count = _refuse_unfit(target, updates) if frames.counts.get(UPDATE) else 0
        has_moved = sf.col(PARTITION_PATH) != sf.col(_OLD_PLACE)
        marks = (_OLD_KEY, _OLD_PLACE, _IS_OLDER)
        staying = updates.filter(~has_moved).drop(*marks)
        coming = [_inserts(target, frames)]
        leaving = [_old_rows(frames.only(DELETE))]
        if move_count:
            coming.append(updates.filter(has_moved).drop(*marks))
            elsewhere = updates.filter(has_moved).select(_OLD_KEY, _OLD_PLACE)
            leaving.append(_leaving(frames, elsewhere))
        new = _by_name(coming)
        if move_count or frames.counts.get(INSERT):
            _refuse_clashes(spark, target, frames, new, move_count=move_count)
        stays = _tag(spark, target, staying, keep, deletes=True)
        delete_rows = _tag(spark, target, _by_name(leaving), keep, deletes=True)
        if move_count and keeps_partitions(target):
            comes = tag_new(target, new).withColumn(IS_DELETED, sf.lit(False))
        else:
            comes = _tag(spark, target, new, keep, deletes=False)
        # What leaves a place is among those that are gone already.
        comes = comes.filter(~sf.col(IS_DELETED))
        tagged_rows = _by_name([stays, delete_rows.withColumn(IS_DELETED, sf.lit(True)), comes])
        tagged_rows = keep(tagged_rows.drop(RECORD_KEY, PARTITION_PATH))
        group_counts = tagged_rows.groupBy(PARTITION, LABEL).count().collect()
        profile = {Destination(PartitionPath(p), label): n for p, label, n in group_counts}
    with phases.timed("assign"):
        only_deletes = set(frames.counts) == {DELETE}
        operation = OperationType.DELETE if only_deletes else OperationType.UPSERT
        assignment, groups = assign(target, operation, target.schema, profile)
        routed_rows = RowsByDestination(tagged_rows, sum(profile.values()), groups.routes)
    stage = partial(write_routed, spark, assignment, routed_rows, combine=True)
    result = execute(ref, assignment, stage, engine_on(spark, ref), phases)
    inserts, update_count, deletes = (frames.counts.get(a, 0) for a in (INSERT, UPDATE, DELETE))
    return with_counts(result, inserts=inserts, updates=update_count, deletes=deletes)


def _updates(target: WriteTarget, frames: ChangedFrames) -> DataFrame:
    """Rows as they become, with their keys, and what is to be compared of those that they were."""
    rule = target.ref.properties.merge
    older: Column = sf.lit(False)
    if rule.by_event_time:
        before, after = (_inside(row, ordering_fields=rule.ordering_fields) for row in _ROWS)
        older = before > after
    frame = frames.only(UPDATE).select(
        f"{NEW_ROW}.*",
        sf.col(f"{OLD_ROW}.{RECORD_KEY}").alias(_OLD_KEY),
        sf.col(f"{OLD_ROW}.{PARTITION_PATH}").alias(_OLD_PLACE),
        older.alias(_IS_OLDER),
    )
    return _with_keys(target, frame)


_ROWS = (OLD_ROW, NEW_ROW)


def _inside(row: str, *, ordering_fields: Sequence[str]) -> Column:
    """The ordering values of a row in a struct, as one that compares."""
    values = [sf.col(f"{row}.{field}") for field in ordering_fields]
    return sf.struct(*(value.alias(f"o{n}") for n, value in enumerate(values)))


def _inserts(target: WriteTarget, frames: ChangedFrames) -> DataFrame:
    return _with_keys(target, frames.only(INSERT).select(f"{NEW_ROW}.*"))


def _with_keys(target: WriteTarget, frame: DataFrame) -> DataFrame:
    properties = target.ref.properties
    order = properties.merge.ordering_fields if properties.merge.by_event_time else ()
    return add_checked_keys(frame, target.schema, properties.keys, order)


def _old_rows(changes: DataFrame) -> DataFrame:
    """Rows as they were, with the keys and partition paths that are stored with them."""
    rows = changes.select(f"{OLD_ROW}.*").withColumn(HASH, sf.xxhash64(RECORD_KEY))
    others = [n for n in rows.columns if n.startswith("_hoodie_")]
    return rows.drop(*(n for n in others if n not in (RECORD_KEY, PARTITION_PATH)))


def _leaving(frames: ChangedFrames, elsewhere: DataFrame) -> DataFrame:
    """Rows as they were, of those that go to another partition."""
    old = _old_rows(frames.only(UPDATE))
    same = (sf.col(RECORD_KEY) == sf.col(_OLD_KEY)) & (sf.col(PARTITION_PATH) == sf.col(_OLD_PLACE))
    return old.join(elsewhere, same, "left_semi")


def _by_name(frames: Sequence[DataFrame]) -> DataFrame:
    return reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), frames)


def _refuse_unfit(target: WriteTarget, updates: DataFrame) -> int:
    """How many updates move; those that change a key, or make a row older, are refused."""
    properties = target.ref.properties
    key_changes, late, moves = updates.agg(
        sf.count_if(sf.col(RECORD_KEY) != sf.col(_OLD_KEY)),
        sf.count_if(_IS_OLDER),
        sf.count_if(sf.col(PARTITION_PATH) != sf.col(_OLD_PLACE)),
    ).collect()[0]
    if key_changes:
        fields = ", ".join(properties.keys.record_fields)
        raise InputError(
            f"an update cannot change the record key ({fields}): "
            "delete the row and insert it with its new key"
        )
    if late:
        raise InputError(late_message(properties.merge.ordering_fields, late))
    return int(moves)


def _refuse_clashes(
    spark: SparkSession,
    target: WriteTarget,
    frames: ChangedFrames,
    new: DataFrame,
    *,
    move_count: int,
) -> None:
    """Fail if a key would come twice, or is there already."""
    is_global = target.index.is_global
    ids = [RECORD_KEY] if is_global else [RECORD_KEY, PARTITION_PATH]
    places = count_by_partition(new)
    refuse_unusable_partitions(target.ref, places)
    twice = new.groupBy(*ids).count().filter("count > 1").limit(1).collect()
    if twice:
        raise InputError(f"several rows would have the same record key: {twice[0][0]!r}")
    if frames.are_new and not move_count:
        return
    slices = [s for s in target.snapshot.slices() if is_global or s.group.partition in places]
    rule = build_scan_rule(target.snapshot, columns=[RECORD_KEY, PARTITION_PATH])
    table_rows = build_frame(spark, ScanSelection(target.snapshot, rule, tuple(slices)))
    # With a global index a key that moves is in the table, and nowhere but where it leaves.
    mine = _inserts(target, frames) if is_global else new
    clashes = mine.select(*ids).join(table_rows.select(*ids), ids, "left_semi").limit(1).collect()
    if clashes:
        raise InputError(f"these record keys are in the table already: {clashes[0][0]!r}")


def _tag(
    spark: SparkSession, target: WriteTarget, frame: DataFrame, keep: Keep, *, deletes: bool
) -> DataFrame:
    """Rows with their destinations; stored ones have those where their keys live."""
    counts = count_by_partition(frame)
    rows = PreparedRows(frame, target.schema)
    tagged_rows = tag(spark, target, rows, counts, keep, deletes=deletes)
    if IS_DELETED not in tagged_rows.columns:
        tagged_rows = tagged_rows.withColumn(IS_DELETED, sf.lit(False))
    return tagged_rows
