"""The simple index: the keys of all files that may have them are read and compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from hoodoo.format.schema import PARTITION_PATH, RECORD_KEY
from hoodoo.model.files import FileSlice
from hoodoo.spark.columns import GROUP, PLACE
from hoodoo.spark.index.stored import ALIVE, MOST_BROADCAST, only_wanted, stored_keys, where_known
from hoodoo.spark.prepare import Rows
from hoodoo.table.snapshot import Snapshot


def tag(
    spark: SparkSession,
    snapshot: Snapshot,
    rows: Rows,
    counts: Mapping[str, int],
    keep: Callable[[DataFrame], DataFrame],
) -> DataFrame:
    """Rows with the file groups of their keys."""
    slices = [
        slice_
        for slice_ in snapshot.slices()
        if rows.in_all_partitions or slice_.group.partition in counts
    ]
    if not slices:
        return as_new(rows.frame)
    stored, count = stored_keys(spark, snapshot, slices), sum(counts.values())
    if count > MOST_BROADCAST:  # all keys of the table are joined: far more than rows to keep
        return keep(join(rows, stored, slices))
    return join(rows, keep(only_wanted(stored, rows.frame, count)), slices)


def as_new(rows: DataFrame) -> DataFrame:
    """Rows whose keys are nowhere, or nobody looks for."""
    return rows.withColumns({PLACE: sf.col(PARTITION_PATH), GROUP: sf.lit("")})


def join(rows: Rows, found: DataFrame, slices: Sequence[FileSlice]) -> DataFrame:
    """Rows with what was found of their keys, in their own partition or, if asked, in any."""
    keys = [RECORD_KEY] if rows.in_all_partitions else [RECORD_KEY, PARTITION_PATH]
    if not rows.in_all_partitions:
        found = found.withColumnRenamed(PLACE, PARTITION_PATH)
    if any(slice_.logs for slice_ in slices):  # none but logs delete keys and leave them there
        found = where_known(found, keys, only_live=rows.only_live)
    else:
        found = found.drop(ALIVE)
    tagged = rows.frame.join(found.hint("shuffle_hash"), keys, "left").fillna("", [GROUP])
    if rows.in_all_partitions:
        return tagged.fillna("", [PLACE])
    return tagged.withColumn(PLACE, sf.col(PARTITION_PATH))
