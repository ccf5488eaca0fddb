"""Slices that Python workers read: merged with their logs by Arrow, or from a store of our own."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from hoodoo.model.files import FileSlice, Visibility
from hoodoo.read.base_files import SliceReadTask
from hoodoo.read.scan import read_slice_pieces
from hoodoo.spark.placement import balance_loads
from hoodoo.spark.schema import to_spark
from hoodoo.spark.session.worker_python import check_workers
from hoodoo.spark.session.workers import tune_worker

Item = TypeVar("Item")

_TASKS_PER_CORE = 4
_BATCH_ROWS = 32_768


def scan_slices(
    spark: SparkSession, reads: Sequence[SliceReadTask], schema: StructType
) -> DataFrame:
    """The rows of slices, piece by piece."""
    return map_slices(spark, reads, lambda read: map(to_spark, read_slice_pieces(read)), schema)


def map_slices(
    spark: SparkSession,
    reads: Sequence[SliceReadTask],
    read_tables: Callable[[SliceReadTask], Iterable[pa.Table]],
    schema: StructType | str,
) -> DataFrame:
    """What is told of each slice, one slice at a time in each Python worker."""
    env, rule = reads[0].env, reads[0].rule  # what all share is packed once

    def read(item: tuple[FileSlice, Visibility]) -> Iterable[pa.Table]:
        return read_tables(SliceReadTask(env, item[0], rule, item[1]))

    items = [(read.slice, read.visibility) for read in reads]
    return map_items(spark, items, read, schema, sizes=[read.size_bytes for read in reads])


def map_items(
    spark: SparkSession,
    items: Sequence[Item],
    read_tables: Callable[[Item], Iterable[pa.Table]],
    schema: StructType | str,
    *,
    sizes: Sequence[int],
) -> DataFrame:
    """What is told of each item of these sizes, one at a time in each Python worker."""
    check_workers(spark)
    loads = balance_loads(sizes, most=_TASKS_PER_CORE * spark.sparkContext.defaultParallelism)
    pickles = [pickle.dumps([items[n] for n in load]) for load in loads]  # a task unpacks its own

    def run(batches: Iterable[Any]) -> Iterable[Any]:
        tune_worker()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for item in pickle.loads(pickles[number]):
                    for rows in read_tables(item):
                        yield from rows.to_batches(_BATCH_ROWS)

    return spark.range(0, len(loads), 1, len(loads)).mapInArrow(run, schema)
