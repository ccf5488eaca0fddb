"""Incremental reads as DataFrames: rows of file groups are compared by workers, never here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from hoodoo.errors import UnsupportedFeature
from hoodoo.format.schema import PARTITION_PATH, RECORD_KEY
from hoodoo.model.files import FileSlice, Visibility
from hoodoo.read.base_files import SliceReadTask
from hoodoo.read.change_feed.diff import CHANGE_TYPE, INSERT
from hoodoo.read.change_feed.feed import (
    ChangeFeed,
    DiffRule,
    SlicePair,
    open_change_feed,
    read_changed_rows,
)
from hoodoo.read.change_feed.incremental import select_changes
from hoodoo.spark.datasource.register import ready_session
from hoodoo.spark.read.python_scan import map_items
from hoodoo.spark.read.read import build_frame
from hoodoo.spark.schema import spark_schema, to_spark
from hoodoo.spark.session.workers import tune_worker
from hoodoo.table.ref import TableRef

PackedPair = tuple[tuple[FileSlice, Visibility] | None, ...]
"""The slices of a pair, without what all pairs share."""

_TASK_BYTES = 32 * 1024 * 1024
"""Of files, whose rows one task compares: it has them in memory, which takes several times that."""


def read_changes(
    ref: TableRef,
    spark: object,
    *,
    since: str,
    until: str | None = None,
    columns: Sequence[str] | None = None,
    filter: Any = None,
    deletes: bool = False,
    before: bool = False,
) -> DataFrame:
    """The rows that changed in a window of completion times; see `read.change_feed.incremental`."""
    session = ready_session(spark)
    window: dict[str, Any] = {"since": since, "until": until, "columns": columns, "filter": filter}
    if not deletes:
        return build_frame(session, select_changes(ref, **window))
    if ref.uri.startswith("memory:"):
        raise UnsupportedFeature(
            f"{ref.uri} is in the memory of one process: read it without Spark"
        )
    return _build_feed(session, open_change_feed(ref, **window, before=before))


def _build_feed(spark: SparkSession, feed: ChangeFeed) -> DataFrame:
    """The changes: of file groups that stand alone each by itself, of the others by key."""
    if feed.inserts is not None:
        return build_frame(spark, feed.inserts).withColumn(CHANGE_TYPE, sf.lit(INSERT))
    schema = spark_schema(feed.rule.result_schema)
    alone, others = feed.split()
    frames = []
    if alone:
        frames.append(_map_pairs(spark, alone, _diff_alone(feed.rule), schema))
    if others:
        frames.append(_diff_by_key(spark, others, feed.rule))
    return reduce(DataFrame.unionAll, frames) if frames else spark.createDataFrame([], schema)


def _map_pairs(
    spark: SparkSession,
    pairs: Sequence[SlicePair],
    read_tables: Callable[[SlicePair], Iterable[pa.Table]],
    schema: StructType,
) -> DataFrame:
    """What is told of each pair, one at a time in each Python worker."""
    side = next(side for side in pairs[0].sides if side is not None)
    env, rule = side.env, side.rule  # what all share is packed once

    def unpack(item: PackedPair) -> Iterable[pa.Table]:
        reads = (None if one is None else SliceReadTask(env, one[0], rule, one[1]) for one in item)
        return read_tables(SlicePair(*reads))

    items = [
        tuple(None if side is None else (side.slice, side.visibility) for side in pair.sides)
        for pair in pairs
    ]
    sizes = [pair.size_bytes for pair in pairs]
    return map_items(spark, items, unpack, schema, sizes=sizes)


def _diff_alone(rule: DiffRule) -> Callable[[SlicePair], Iterable[pa.Table]]:
    def diff(pair: SlicePair) -> Iterable[pa.Table]:
        rows = [rule.input_schema.empty_table(), *read_changed_rows(pair)]
        yield to_spark(rule.diff(pa.concat_tables(rows)))

    return diff


def _diff_by_key(spark: SparkSession, pairs: Sequence[SlicePair], rule: DiffRule) -> DataFrame:
    """Rows of a key come to one task from all file groups, as they may have moved between them."""
    whole = spark_schema(rule.input_schema)
    rows = _map_pairs(spark, pairs, lambda pair: map(to_spark, read_changed_rows(pair)), whole)
    size = sum(pair.size_bytes for pair in pairs)
    count = max(1, min(len(pairs), spark.sparkContext.defaultParallelism), size // _TASK_BYTES)
    identity = (RECORD_KEY, PARTITION_PATH) if rule.by_partition else (RECORD_KEY,)

    def diff(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        tune_worker()
        all_batches = list(batches)
        if all_batches:
            yield from to_spark(rule.diff(pa.Table.from_batches(all_batches))).to_batches()

    rows_by_key = rows.repartition(count, *(f"`{name}`" for name in identity))
    return rows_by_key.mapInArrow(diff, spark_schema(rule.result_schema))
