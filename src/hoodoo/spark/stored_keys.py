"""The keys that are in a table's files, as DataFrames.

Each key comes with the destination that leads to it, `PLACE` and `LABEL`, and whether it is
`ALIVE`: keys that a log deleted belong to their file group still.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from hoodoo.format.schema import PARTITION_PATH, RECORD_KEY
from hoodoo.index import Index
from hoodoo.index.slice_keys import KeyRange, SliceKeys, read_keys
from hoodoo.index.stored_filters import AT_ONCE
from hoodoo.model.files import FileGroupId, FileSlice
from hoodoo.rows.merge import one_array
from hoodoo.spark.columns import HASH, LABEL, PLACE, TASK
from hoodoo.spark.engine import SparkEngine
from hoodoo.spark.frames import to_frame
from hoodoo.spark.native import base_files, is_reachable
from hoodoo.spark.placement import leading_numbers
from hoodoo.spark.python_scan import map_slices
from hoodoo.spark.schema import spark_schema, to_spark
from hoodoo.table.read import read_rule, read_slice, slice_reads
from hoodoo.table.read_rule import SliceRead
from hoodoo.table.snapshot import Snapshot
from hoodoo.write.locate import ordering_roots

ALIVE = "_hoodoo_alive"
KEYS = f"{RECORD_KEY} string, {PLACE} string, {LABEL} string, {ALIVE} boolean"
MOST_BROADCAST = 4_000_000
"""Incoming rows whose hashes fit well into the memory of every executor."""

_SLICE = "_hoodoo_slice"
# Beyond these, Java's order of texts is not Spark's.
_WIDE = r"[\x{10000}-\x{10FFFF}]"


def read_stored_keys(
    spark: SparkSession, snapshot: Snapshot, slices: Sequence[FileSlice]
) -> DataFrame:
    """All keys of these slices; Spark itself reads the base files that have no logs."""
    scanned = [s for s in slices if not s.logs] if is_reachable(spark, snapshot.ref) else []
    merged = [s for s in slices if s.logs] if scanned else list(slices)
    frames = []
    if scanned:
        frames.append(_scan_keys(spark, snapshot, scanned))
    if merged:
        rule = read_rule(snapshot, columns=[RECORD_KEY])
        frames.append(map_slices(spark, slice_reads(snapshot, rule, merged), _read_keys, KEYS))
    return frames[0] if len(frames) == 1 else frames[0].unionAll(frames[1])


def read_stored_rows(
    spark: SparkSession, snapshot: Snapshot, slices: Sequence[FileSlice]
) -> DataFrame:
    """All keys of these slices, with the columns of the ordering fields of those that live."""
    columns = [RECORD_KEY, *ordering_roots(snapshot.schema, snapshot.ref.properties.merge)]
    schema = spark_schema(pa.schema([snapshot.schema.field(name) for name in columns]))
    schema = schema.add(PLACE, "string").add(LABEL, "string").add(ALIVE, "boolean")
    reads = slice_reads(snapshot, read_rule(snapshot, columns=columns), slices)
    return map_slices(spark, reads, _read_rows, schema)


def keep_incoming_keys(stored: DataFrame, rows: DataFrame, count: int) -> DataFrame:
    """Of stored keys, those whose hash occurs in `rows`: what is joined next is small then."""
    if count > MOST_BROADCAST:
        return stored
    incoming = sf.broadcast(rows.select(HASH))
    hashed = stored.withColumn(HASH, sf.xxhash64(RECORD_KEY))
    return hashed.join(incoming, HASH, "left_semi").drop(HASH)


def find_in_slices(
    spark: SparkSession,
    snapshot: Snapshot,
    index: Index,
    slices: Sequence[FileSlice],
    rows: DataFrame,
) -> DataFrame:
    """Keys of `rows` that are in these slices; each key is sent to the slices that may have it."""
    reads = slice_reads(snapshot, read_rule(snapshot, columns=[RECORD_KEY]), slices)
    filters = index.open_filters(snapshot) if len(slices) <= AT_ONCE else None
    known = filters.load(slices) if filters is not None else [None] * len(reads)
    if any(known):
        ranges = [
            one.range if one is not None and not read.slice.logs else None
            for one, read in zip(known, reads, strict=True)
        ]
    else:
        ranges = SparkEngine(spark, "hoodoo: footers").map(index.key_range, reads)
    pairs = _pair_with_slices(spark, rows, reads, ranges)
    shared = spark.sparkContext.broadcast(list(zip(reads, known, strict=True)))

    def search(batches: Iterable[Any]) -> Iterable[Any]:
        for number, keys in _keys_by_slice(batches).items():
            read, known = shared.value[number]
            in_base = known.keep_possible(keys) if known is not None else None
            matches = index.search(read, keys, in_base)
            yield from _with_group(matches, read.slice.group).to_batches()

    return pairs.mapInArrow(search, KEYS)


def _pair_with_slices(
    spark: SparkSession,
    rows: DataFrame,
    reads: Sequence[SliceRead],
    ranges: Sequence[KeyRange | None],
) -> DataFrame:
    """Each key with the number of each slice that may have it, in the task of that slice."""
    numbers = leading_numbers(len(reads))
    known = [key_range if key_range and key_range.is_plain else None for key_range in ranges]
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
    pairs = keys.join(sf.broadcast(to_frame(spark, table)), PARTITION_PATH).filter(may_hold)
    return pairs.repartition(len(reads), TASK).select(RECORD_KEY, _SLICE)


def _keys_by_slice(batches: Iterable[Any]) -> dict[int, pa.Array]:
    tables = [pa.Table.from_batches([batch]) for batch in batches if batch.num_rows]
    if not tables:
        return {}
    grouped = pa.concat_tables(tables).group_by(_SLICE).aggregate([(RECORD_KEY, "list")])
    lists = one_array(grouped.column(f"{RECORD_KEY}_list"))
    numbers = grouped.column(_SLICE).to_pylist()
    return {number: lists[n].values for n, number in enumerate(numbers)}


def _scan_keys(spark: SparkSession, snapshot: Snapshot, slices: Sequence[FileSlice]) -> DataFrame:
    """Spark reads the key column itself; the name of a base file tells its file group."""
    rows = base_files(spark, snapshot.ref, slices, f"{RECORD_KEY} string, {PARTITION_PATH} string")
    name = sf.col("_metadata.file_name")
    behind = sf.length(sf.substring_index(name, "_", -2)) + 1
    file_id = sf.substring(name, sf.lit(1), sf.length(name) - behind)
    place, alive = sf.col(PARTITION_PATH).alias(PLACE), sf.lit(True).alias(ALIVE)
    return rows.select(RECORD_KEY, place, file_id.alias(LABEL), alive)


def _read_keys(read: SliceRead) -> Iterator[pa.Table]:
    yield _with_group(read_keys(read), read.slice.group)


def _read_rows(read: SliceRead) -> Iterator[pa.Table]:
    """The live rows of a slice; then the keys that its logs have deleted, without ordering."""
    rows = to_spark(read_slice(read))
    live = one_array(rows.column(RECORD_KEY))
    if read.slice.logs:
        present = read_keys(read).present
        deleted = present.filter(pc.invert(pc.is_in(present, value_set=live)))
        rows = pa.concat_tables([rows, pa.table({RECORD_KEY: deleted})], promote_options="default")
    keys = SliceKeys(one_array(rows.column(RECORD_KEY)), live if read.slice.logs else None)
    where = _with_group(keys, read.slice.group)
    for name in (PLACE, LABEL, ALIVE):
        rows = rows.append_column(name, where.column(name))
    yield rows


def _with_group(keys: SliceKeys, group: FileGroupId) -> pa.Table:
    """Keys, and the file group that has them."""
    count = len(keys.present)
    return pa.table(
        {
            RECORD_KEY: keys.present,
            PLACE: pa.repeat(pa.scalar(group.partition, pa.string()), count),
            LABEL: pa.repeat(pa.scalar(group.file_id, pa.string()), count),
            ALIVE: pc.is_in(keys.present, value_set=keys.alive),
        }
    )
