"""The bucket index: the hash of a key tells its file group; nothing is looked up.

`GROUP` is the bucket's number behind a `#`; the driver knows which file groups there are.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from hoodoo.config.index import bucket_rule
from hoodoo.format.schema import PARTITION_PATH, RECORD_KEY
from hoodoo.model.buckets import bucket_of
from hoodoo.spark.bucket_hash import number_buckets
from hoodoo.spark.columns import GROUP, PLACE
from hoodoo.spark.prepare import Rows
from hoodoo.table.snapshot import Snapshot

_MARK = "#"


def tag(spark: SparkSession, snapshot: Snapshot, rows: Rows) -> DataFrame:
    """Rows with the buckets of their keys; those that tell no partition, for each that there is."""
    fields = snapshot.ref.properties.keys.record_fields
    rule = bucket_rule(snapshot.ref.config, fields)
    numbers = number_buckets(sf.col(RECORD_KEY), rule, fields)
    group = sf.concat(sf.lit(_MARK), numbers.cast("string"))
    frame = rows.frame.withColumn(GROUP, group)
    if not rows.in_all_partitions:
        return frame.withColumn(PLACE, sf.col(PARTITION_PATH))
    partitions = sorted({slice_.group.partition for slice_ in snapshot.slices()})
    places = spark.createDataFrame(pa.table({PLACE: pa.array(partitions, pa.string())}))
    return frame.crossJoin(sf.broadcast(places))


def tag_present(spark: SparkSession, snapshot: Snapshot, rows: Rows) -> DataFrame:
    """The same, of rows whose bucket has a file group."""
    groups = [slice_.group for slice_ in snapshot.slices()]
    numbers = [bucket_of(group.file_id) for group in groups]
    there = {
        PLACE: pa.array([group.partition for group in groups], pa.string()),
        GROUP: pa.array([group_of(n) for n in numbers if n is not None], pa.string()),
    }
    present = sf.broadcast(spark.createDataFrame(pa.table(there)))
    return tag(spark, snapshot, rows).join(present, [PLACE, GROUP], "left_semi")


def group_of(number: int) -> str:
    """What stands in `GROUP` for a bucket."""
    return f"{_MARK}{number}"


def number_in(group: str) -> int:
    """The bucket that `GROUP` stands for."""
    return int(group.removeprefix(_MARK))
