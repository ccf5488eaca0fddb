"""The keys that are in a table's files, as DataFrames."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

from hoodoo.format.schema import PARTITION_PATH, RECORD_KEY
from hoodoo.model.files import FileGroupId, FileSlice
from hoodoo.spark.columns import GROUP, HASH, PLACE
from hoodoo.spark.merged import over_slices
from hoodoo.spark.native import base_files, is_reachable
from hoodoo.table.base import SliceRead
from hoodoo.table.read import read_rule, slice_reads
from hoodoo.table.snapshot import Snapshot
from hoodoo.write.locate import slice_keys
from hoodoo.write.lookup import SliceKeys

ALIVE = "_hoodoo_alive"
"""Whether a stored key was not deleted by a log; if it was, it belongs to its group still."""
KEYS = f"{RECORD_KEY} string, {PLACE} string, {GROUP} string, {ALIVE} boolean"

_LIVES = "_hoodoo_lives"
MOST_BROADCAST = 4_000_000
"""Incoming rows whose hashes fit well into the memory of every executor."""


def stored_keys(spark: SparkSession, snapshot: Snapshot, slices: Sequence[FileSlice]) -> DataFrame:
    """Key, partition and file id of every row in these slices; deleted keys, and which they are."""
    scanned = [s for s in slices if not s.logs] if is_reachable(spark, snapshot.ref) else []
    merged = [s for s in slices if s.logs] if scanned else list(slices)
    frames = []
    if scanned:
        frames.append(_scanned_keys(spark, snapshot, scanned))
    if merged:
        rule = read_rule(snapshot, columns=[RECORD_KEY])
        frames.append(over_slices(spark, slice_reads(snapshot, rule, merged), _read_keys, KEYS))
    return frames[0] if len(frames) == 1 else frames[0].unionAll(frames[1])


def only_wanted(stored: DataFrame, rows: DataFrame, count: int) -> DataFrame:
    """Of stored keys, those whose hash occurs in `rows`: what is joined next is small then."""
    if count > MOST_BROADCAST:
        return stored
    wanted = sf.broadcast(rows.select(HASH))
    hashed = stored.withColumn(HASH, sf.xxhash64(RECORD_KEY))
    return hashed.join(wanted, HASH, "left_semi").drop(HASH)


def where_known(found: DataFrame, keys: Sequence[str], *, only_live: bool) -> DataFrame:
    """Of what was found, where a key lives; if it does so nowhere, where it was deleted."""
    if only_live:
        return found.filter(ALIVE).drop(ALIVE)
    lives = sf.max(ALIVE).over(Window.partitionBy(*keys))
    return (
        found.withColumn(_LIVES, lives).filter(sf.col(ALIVE) | ~sf.col(_LIVES)).drop(ALIVE, _LIVES)
    )


def _scanned_keys(
    spark: SparkSession, snapshot: Snapshot, slices: Sequence[FileSlice]
) -> DataFrame:
    """Spark reads the key column itself; the name of a base file tells its file group."""
    rows = base_files(spark, snapshot.ref, slices, f"{RECORD_KEY} string, {PARTITION_PATH} string")
    name = sf.col("_metadata.file_name")
    behind = sf.length(sf.substring_index(name, "_", -2)) + 1
    file_id = sf.substring(name, sf.lit(1), sf.length(name) - behind)
    place, alive = sf.col(PARTITION_PATH).alias(PLACE), sf.lit(True).alias(ALIVE)
    return rows.select(RECORD_KEY, place, file_id.alias(GROUP), alive)


def located(keys: SliceKeys, group: FileGroupId) -> pa.Table:
    """Keys, and the file group that has them."""
    count = len(keys.present)
    return pa.table(
        {
            RECORD_KEY: keys.present,
            PLACE: pa.repeat(pa.scalar(group.partition, pa.string()), count),
            GROUP: pa.repeat(pa.scalar(group.file_id, pa.string()), count),
            ALIVE: pc.is_in(keys.present, value_set=keys.alive),
        }
    )


def _read_keys(read: SliceRead) -> Iterator[pa.Table]:
    yield located(slice_keys(read), read.slice.group)
