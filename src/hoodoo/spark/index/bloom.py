"""The bloom index: footers of base files rule most files out before keys are compared.

It pays where keys grow with time, so that the range of keys in a footer says a lot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from hoodoo.config.index import PRUNE_BY_RANGES
from hoodoo.format.schema import PARTITION_PATH, RECORD_KEY
from hoodoo.rows.merge import one_array
from hoodoo.spark.columns import TASK
from hoodoo.spark.engine import SparkEngine
from hoodoo.spark.index.simple import as_new, join
from hoodoo.spark.index.stored import KEYS, located
from hoodoo.spark.placement import leading_numbers
from hoodoo.spark.prepare import Rows
from hoodoo.table.base import SliceRead
from hoodoo.table.read import read_rule, slice_reads
from hoodoo.table.snapshot import Snapshot
from hoodoo.write.lookup import KeyRange, KeySearch, key_range, search

_SLICE = "_hoodoo_slice"
# Beyond these, Java's order of texts is not Spark's.
_WIDE = r"[\x{10000}-\x{10FFFF}]"


def tag(
    spark: SparkSession,
    snapshot: Snapshot,
    rows: Rows,
    counts: Mapping[str, int],
    keep: Callable[[DataFrame], DataFrame],
) -> DataFrame:
    """Rows with the file groups of their keys."""
    slices = [s for s in snapshot.slices() if s.group.partition in counts]
    if not slices:
        return as_new(rows.frame)
    reads = slice_reads(snapshot, read_rule(snapshot, columns=[RECORD_KEY]), slices)
    ranges: Sequence[KeyRange | None] = [None] * len(reads)
    if snapshot.ref.config.get(PRUNE_BY_RANGES):
        ranges = SparkEngine(spark, "hoodoo: footers").map(key_range, reads)
    asked = _asked(spark, rows.frame, reads, ranges)
    shared = spark.sparkContext.broadcast(reads)

    def look(batches: Iterable[Any]) -> Iterable[Any]:
        for number, keys in _keys_by_slice(batches).items():
            read = shared.value[number]
            yield from located(search(KeySearch(read, keys)), read.slice.group).to_batches()

    return join(rows, keep(asked.mapInArrow(look, KEYS)), slices)


def _asked(
    spark: SparkSession,
    rows: DataFrame,
    reads: Sequence[SliceRead],
    ranges: Sequence[KeyRange | None],
) -> DataFrame:
    """Each key with the number of each slice that may have it, in the task of that slice."""
    numbers = leading_numbers(len(reads))
    known = [found if found and found.is_plain else None for found in ranges]
    table = pa.table(
        {
            PARTITION_PATH: pa.array([read.slice.group.partition for read in reads], pa.string()),
            _SLICE: pa.array(range(len(reads)), pa.int32()),
            TASK: pa.array(numbers, pa.int32()),
            "smallest": pa.array([r and r.smallest for r in known], pa.string()),
            "largest": pa.array([r and r.largest for r in known], pa.string()),
        }
    )
    key = sf.col(RECORD_KEY)
    may_hold = (
        sf.col("smallest").isNull()
        | key.between(sf.col("smallest"), sf.col("largest"))
        | key.rlike(_WIDE)
    )
    keys = rows.select(RECORD_KEY, PARTITION_PATH).distinct()
    pairs = keys.join(sf.broadcast(spark.createDataFrame(table)), PARTITION_PATH).filter(may_hold)
    return pairs.repartition(len(reads), TASK).select(RECORD_KEY, _SLICE)


def _keys_by_slice(batches: Iterable[Any]) -> dict[int, pa.Array]:
    tables = [pa.Table.from_batches([batch]) for batch in batches if batch.num_rows]
    if not tables:
        return {}
    grouped = pa.concat_tables(tables).group_by(_SLICE).aggregate([(RECORD_KEY, "list")])
    lists = one_array(grouped.column(f"{RECORD_KEY}_list"))
    numbers = grouped.column(_SLICE).to_pylist()
    return {number: lists[n].values for n, number in enumerate(numbers)}
