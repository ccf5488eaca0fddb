"""The simple index: the keys of all files that may have them are read and compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from hoodoo.config.tasks import UPSERT_PARALLELISM
from hoodoo.format.schema import PARTITION_PATH, RECORD_KEY
from hoodoo.model.files import FileSlice
from hoodoo.spark.columns import GROUP, PLACE
from hoodoo.spark.index.stored import ALIVE, only_wanted, stored_keys, where_known
from hoodoo.spark.prepare import Rows
from hoodoo.table.ref import TableRef
from hoodoo.table.snapshot import Snapshot

_ROWS_OF_A_TASK = 250_000


def tag(
    spark: SparkSession, snapshot: Snapshot, rows: Rows, counts: Mapping[str, int]
) -> DataFrame:
    """Rows with the file groups of their keys."""
    slices = [
        slice_
        for slice_ in snapshot.slices()
        if rows.in_all_partitions or slice_.group.partition in counts
    ]
    if not slices:
        return as_new(rows.frame)
    count = sum(counts.values())
    found = only_wanted(stored_keys(spark, snapshot, slices), rows.frame, count)
    return join(rows, found, slices, tasks_for(snapshot.ref, spark, count))


def as_new(rows: DataFrame) -> DataFrame:
    """Rows whose keys are nowhere, or nobody looks for."""
    return rows.withColumns({PLACE: sf.col(PARTITION_PATH), GROUP: sf.lit("")})


def join(rows: Rows, found: DataFrame, slices: Sequence[FileSlice], tasks: int) -> DataFrame:
    """Rows with what was found of their keys, in their own partition or, if asked, in any."""
    keys = [RECORD_KEY] if rows.in_all_partitions else [RECORD_KEY, PARTITION_PATH]
    if not rows.in_all_partitions:
        found = found.withColumnRenamed(PLACE, PARTITION_PATH)
    found = found.repartition(tasks, *keys)
    if any(slice_.logs for slice_ in slices):  # none but logs delete keys and leave them there
        found = where_known(found, keys, only_live=rows.only_live)
    else:
        found = found.drop(ALIVE)
    tagged = rows.frame.repartition(tasks, *keys).join(found, keys, "left").fillna("", [GROUP])
    if rows.in_all_partitions:
        return tagged.fillna("", [PLACE])
    return tagged.withColumn(PLACE, sf.col(PARTITION_PATH))


def tasks_for(ref: TableRef, spark: SparkSession, rows: int) -> int:
    """How many tasks compare the keys of so many rows."""
    chosen = ref.config.get(UPSERT_PARALLELISM)
    return chosen or max(spark.sparkContext.defaultParallelism, -(-rows // _ROWS_OF_A_TASK))
