"""The simple index: the keys of all files that may have them are read and compared."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from hoodoo.format.schema import PARTITION_PATH, RECORD_KEY
from hoodoo.spark.columns import GROUP, PLACE
from hoodoo.spark.index.stored import KEYS, only_wanted, stored_keys
from hoodoo.spark.prepare import Rows
from hoodoo.table.snapshot import Snapshot


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
        return join(rows, spark.createDataFrame([], KEYS))
    stored = stored_keys(spark, snapshot, slices)
    return join(rows, only_wanted(stored, rows.frame, sum(counts.values())))


def join(rows: Rows, found: DataFrame) -> DataFrame:
    """Rows with what was found of their keys, in their own partition or, if asked, in any."""
    if rows.in_all_partitions:
        return rows.frame.join(found, RECORD_KEY, "left").fillna("", [PLACE, GROUP])
    found = found.withColumnRenamed(PLACE, PARTITION_PATH)
    tagged = rows.frame.join(found, [RECORD_KEY, PARTITION_PATH], "left").fillna("", [GROUP])
    return tagged.withColumn(PLACE, sf.col(PARTITION_PATH))
