"""The keys of a table's files as DataFrames: read from the files, or looked up in an index.

Each key comes with the destination that leads to it, `PARTITION` and `LABEL`, and whether it is
`ALIVE`: keys that a log deleted belong to their file group still.

A lookup sends each share of the keys to one task; neither keys nor locations come to the driver. A
task looks up some keys at a time, in order, so that it reads each part of the index once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from hoodoo.format.schema import PARTITION_PATH, RECORD_KEY
from hoodoo.model.files import FileGroupId, FileSlice
from hoodoo.model.names import FileId
from hoodoo.model.paths import PartitionPath
from hoodoo.read.base_files import SliceReadTask
from hoodoo.read.scan import build_scan_rule, read_slice, slice_reads
from hoodoo.read.snapshot import Snapshot
from hoodoo.rows.arrays import one_array
from hoodoo.spark.engine import SparkEngine
from hoodoo.spark.placement import numbers_for_tasks
from hoodoo.spark.read.native_scan import base_files, is_reachable
from hoodoo.spark.read.python_scan import map_slices
from hoodoo.spark.schema import LABEL, PARTITION, TASK, spark_schema, to_frame, to_spark
from hoodoo.spark.write.bucket_hash import hash_text
from hoodoo.write.files.bulk_insert import HASH
from hoodoo.write.index import Index
from hoodoo.write.index.index import KeyLookup
from hoodoo.write.index.key_filters import AT_ONCE
from hoodoo.write.index.slice_keys import KeyRange, SliceKeys, read_keys
from hoodoo.write.planning.locate import ordering_roots

# -- keys read from files --------------------------------------------------------------------------


ALIVE = "_hoodoo_alive"
KEYS = f"{RECORD_KEY} string, {PARTITION} string, {LABEL} string, {ALIVE} boolean"
MOST_BROADCAST = 4_000_000
"""Incoming rows whose hashes fit well into the memory of every executor."""

_SLICE = "_hoodoo_slice"
# Beyond these, Java's order of texts is not Spark's.
_WIDE = r"[\x{10000}-\x{10FFFF}]"


def read_stored_keys(
    spark: SparkSession, snapshot: Snapshot, slices: Sequence[FileSlice]
) -> DataFrame:
    """All keys of these slices; Spark itself reads the base files that have no logs."""
    scan_slices = [s for s in slices if not s.logs] if is_reachable(spark, snapshot.ref) else []
    merge_slices = [s for s in slices if s.logs] if scan_slices else list(slices)
    frames = []
    if scan_slices:
        frames.append(_scan_keys(spark, snapshot, scan_slices))
    if merge_slices:
        rule = build_scan_rule(snapshot, columns=[RECORD_KEY])
        frames.append(
            map_slices(spark, slice_reads(snapshot, rule, merge_slices), _read_keys, KEYS)
        )
    return frames[0] if len(frames) == 1 else frames[0].unionAll(frames[1])


def read_stored_rows(
    spark: SparkSession, snapshot: Snapshot, slices: Sequence[FileSlice]
) -> DataFrame:
    """All keys of these slices, with the columns of the ordering fields of those that live."""
    columns = [RECORD_KEY, *ordering_roots(snapshot.schema, snapshot.ref.properties.merge)]
    schema = spark_schema(pa.schema([snapshot.schema.field(name) for name in columns]))
    schema = schema.add(PARTITION, "string").add(LABEL, "string").add(ALIVE, "boolean")
    reads = slice_reads(snapshot, build_scan_rule(snapshot, columns=columns), slices)
    return map_slices(spark, reads, _read_rows, schema)


def keep_incoming_keys(stored_keys: DataFrame, rows: DataFrame, count: int) -> DataFrame:
    """Of stored keys, those whose hash occurs in `rows`: what is joined next is small then."""
    if count > MOST_BROADCAST:
        return stored_keys
    incoming = sf.broadcast(rows.select(HASH))
    keys_with_hash = stored_keys.withColumn(HASH, sf.xxhash64(RECORD_KEY))
    return keys_with_hash.join(incoming, HASH, "left_semi").drop(HASH)


def find_in_slices(
    spark: SparkSession,
    snapshot: Snapshot,
    index: Index,
    slices: Sequence[FileSlice],
    rows: DataFrame,
) -> DataFrame:
    """Keys of `rows` that are in these slices; each key is sent to the slices that may have it."""
    reads = slice_reads(snapshot, build_scan_rule(snapshot, columns=[RECORD_KEY]), slices)
    filters = index.open_filters(snapshot) if len(slices) <= AT_ONCE else None
    slice_filters = filters.load(slices) if filters is not None else [None] * len(reads)
    if any(slice_filters):
        ranges = [
            one.range if one is not None and not read.slice.logs else None
            for one, read in zip(slice_filters, reads, strict=True)
        ]
    else:
        ranges = SparkEngine(spark, "hoodoo: footers").map(index.key_range, reads)
    pairs = _pair_with_slices(spark, rows, reads, ranges)
    broadcast = spark.sparkContext.broadcast(list(zip(reads, slice_filters, strict=True)))

    def search(batches: Iterable[Any]) -> Iterable[Any]:
        for number, keys in _keys_by_slice(batches).items():
            read, slice_filters = broadcast.value[number]
            in_base = slice_filters.keep_possible(keys) if slice_filters is not None else None
            matches = index.search(read, keys, in_base)
            yield from _with_group(matches, read.slice.group).to_batches()

    return pairs.mapInArrow(search, KEYS)


def _pair_with_slices(
    spark: SparkSession,
    rows: DataFrame,
    reads: Sequence[SliceReadTask],
    ranges: Sequence[KeyRange | None],
) -> DataFrame:
    """Each key with the number of each slice that may have it, in the task of that slice."""
    numbers = numbers_for_tasks(len(reads))
    plain_ranges = [key_range if key_range and key_range.is_plain else None for key_range in ranges]
    table = pa.table(
        {
            PARTITION_PATH: pa.array([read.slice.group.partition for read in reads], pa.string()),
            _SLICE: pa.array(range(len(reads)), pa.int32()),
            TASK: pa.array(numbers, pa.int32()),
            "smallest": pa.array([r and r.smallest for r in plain_ranges], pa.string()),
            "largest": pa.array([r and r.largest for r in plain_ranges], pa.string()),
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
    groups = pa.concat_tables(tables).group_by(_SLICE).aggregate([(RECORD_KEY, "list")])
    lists = one_array(groups.column(f"{RECORD_KEY}_list"))
    numbers = groups.column(_SLICE).to_pylist()
    return {number: lists[n].values for n, number in enumerate(numbers)}


def _scan_keys(spark: SparkSession, snapshot: Snapshot, slices: Sequence[FileSlice]) -> DataFrame:
    """Spark reads the key column itself; the name of a base file tells its file group."""
    rows = base_files(spark, snapshot.ref, slices, f"{RECORD_KEY} string, {PARTITION_PATH} string")
    name = sf.col("_metadata.file_name")
    behind = sf.length(sf.substring_index(name, "_", -2)) + 1
    file_id = sf.substring(name, sf.lit(1), sf.length(name) - behind)
    place, alive = sf.col(PARTITION_PATH).alias(PARTITION), sf.lit(True).alias(ALIVE)
    return rows.select(RECORD_KEY, place, file_id.alias(LABEL), alive)


def _read_keys(read: SliceReadTask) -> Iterator[pa.Table]:
    yield _with_group(read_keys(read), read.slice.group)


def _read_rows(read: SliceReadTask) -> Iterator[pa.Table]:
    """The live rows of a slice; then the keys that its logs have deleted, without ordering."""
    rows = to_spark(read_slice(read))
    live = one_array(rows.column(RECORD_KEY))
    if read.slice.logs:
        present = read_keys(read).present
        deleted_keys = present.filter(pc.invert(pc.is_in(present, value_set=live)))
        rows = pa.concat_tables(
            [rows, pa.table({RECORD_KEY: deleted_keys})], promote_options="default"
        )
    keys = SliceKeys(one_array(rows.column(RECORD_KEY)), live if read.slice.logs else None)
    where = _with_group(keys, read.slice.group)
    for name in (PARTITION, LABEL, ALIVE):
        rows = rows.append_column(name, where.column(name))
    yield rows


def _with_group(keys: SliceKeys, group: FileGroupId) -> pa.Table:
    """Keys, and the file group that has them."""
    count = len(keys.present)
    return pa.table(
        {
            RECORD_KEY: keys.present,
            PARTITION: pa.repeat(pa.scalar(group.partition, pa.string()), count),
            LABEL: pa.repeat(pa.scalar(group.file_id, pa.string()), count),
            ALIVE: pc.is_in(keys.present, value_set=keys.alive),
        }
    )


# -- keys looked up in an index --------------------------------------------------------------------


_SHARE = "_hoodoo_share"
_KEYS_AT_ONCE = 500_000


def look_up_keys(spark: SparkSession, lookup: KeyLookup, rows: DataFrame) -> DataFrame:
    """The keys of `rows` that are in file groups, with the destinations that lead to them."""
    broadcast = spark.sparkContext.broadcast(lookup)
    tasks = sf.array(*[sf.lit(number) for number in numbers_for_tasks(lookup.shares)])
    share = number_shares(sf.col(RECORD_KEY), lookup.shares)
    keys = rows.select(RECORD_KEY).distinct().withColumn(_SHARE, share)
    keys = keys.withColumn(TASK, sf.get(tasks, sf.col(_SHARE)))
    key_shares = keys.repartition(lookup.shares, TASK).select(RECORD_KEY, _SHARE)

    def find(batches: Iterable[Any]) -> Iterable[Any]:
        for number, some in _keys_by_share(batches):
            locations = broadcast.value.find(number, some)
            count = locations.num_rows
            columns = [*locations.columns, pa.repeat(pa.scalar(True), count)]
            yield from pa.table(columns, [RECORD_KEY, PARTITION, LABEL, ALIVE]).to_batches()

    return key_shares.sortWithinPartitions(_SHARE, RECORD_KEY).mapInArrow(find, KEYS)


def number_shares(keys: Column, count: int) -> Column:
    """The share of each key, as an int: what `KeyLookup.number_shares` is for Arrow columns."""
    hash_ = hash_text(keys)
    size = sf.when(hash_ >= 2**31, sf.lit(2**32) - hash_).otherwise(hash_)
    return (size % count).cast("int")


def add_stored_rows(
    spark: SparkSession, snapshot: Snapshot, matches: DataFrame, rows: DataFrame
) -> DataFrame | None:
    """Found keys with the ordering columns of those that live in another partition than the row.

    Only the slices that have such keys are read; None if there are none. Runs a job.
    """
    own = rows.select(RECORD_KEY, PARTITION_PATH).distinct()
    away = matches.join(own, RECORD_KEY).filter(sf.col(PARTITION) != sf.col(PARTITION_PATH))
    groups = {
        FileGroupId(PartitionPath(place), FileId(label))
        for place, label in away.select(PARTITION, LABEL).distinct().collect()
    }
    slices = [slice_ for slice_ in snapshot.slices() if slice_.group in groups]
    if not slices:
        return None
    stored_rows = read_stored_rows(spark, snapshot, slices).drop(ALIVE)
    return matches.join(stored_rows, [RECORD_KEY, PARTITION, LABEL], "left")


def _keys_by_share(batches: Iterable[Any]) -> Iterator[tuple[int, pa.Array]]:
    """The keys of a task, some at a time; those of a share come one after the other."""
    pending: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        pending.append(batch)
        count += batch.num_rows
        if count >= _KEYS_AT_ONCE:
            yield from _split_by_share(pending)
            pending, count = [], 0
    yield from _split_by_share(pending)


def _split_by_share(batches: Sequence[pa.RecordBatch]) -> Iterator[tuple[int, pa.Array]]:
    batches = [batch for batch in batches if batch.num_rows]
    if not batches:
        return
    table = pa.Table.from_batches(batches)
    numbers = one_array(table.column(_SHARE)).to_numpy()
    keys = one_array(table.column(RECORD_KEY)).cast(pa.string())
    starts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist()]
    for begin, end in zip(starts, [*starts[1:], len(keys)], strict=True):
        yield int(numbers[begin]), keys[begin:end]
