"""Looking up keys that are in Spark: each share of them goes to one task, which asks for it.

Neither keys nor locations come to the driver. A task asks for some keys at a time, in order, so
that each part of the index is read once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from hoodoo.format.schema import PARTITION_PATH, RECORD_KEY
from hoodoo.index.index import KeyLookup
from hoodoo.model.files import FileGroupId
from hoodoo.model.names import FileId
from hoodoo.model.paths import PartitionPath
from hoodoo.rows.merge import one_array
from hoodoo.spark.bucket_hash import hash_text
from hoodoo.spark.columns import LABEL, PLACE, TASK
from hoodoo.spark.placement import leading_numbers
from hoodoo.spark.stored_keys import ALIVE, KEYS, read_stored_rows
from hoodoo.table.snapshot import Snapshot

_SHARE = "_hoodoo_share"
_KEYS_AT_ONCE = 500_000


def look_up_keys(spark: SparkSession, lookup: KeyLookup, rows: DataFrame) -> DataFrame:
    """The keys of `rows` that are in file groups, with the destinations that lead to them."""
    shared = spark.sparkContext.broadcast(lookup)
    tasks = sf.array(*[sf.lit(number) for number in leading_numbers(lookup.shares)])
    share = number_shares(sf.col(RECORD_KEY), lookup.shares)
    keys = rows.select(RECORD_KEY).distinct().withColumn(_SHARE, share)
    keys = keys.withColumn(TASK, sf.get(tasks, sf.col(_SHARE)))
    sent = keys.repartition(lookup.shares, TASK).select(RECORD_KEY, _SHARE)

    def find(batches: Iterable[Any]) -> Iterable[Any]:
        for number, some in _keys_by_share(batches):
            found = shared.value.find(number, some)
            count = found.num_rows
            columns = [*found.columns, pa.repeat(pa.scalar(True), count)]
            yield from pa.table(columns, [RECORD_KEY, PLACE, LABEL, ALIVE]).to_batches()

    return sent.sortWithinPartitions(_SHARE, RECORD_KEY).mapInArrow(find, KEYS)


def number_shares(keys: Column, count: int) -> Column:
    """The share of each key, as an int: what `KeyLookup.number_shares` is for Arrow columns."""
    unsigned = hash_text(keys)
    size = sf.when(unsigned >= 2**31, sf.lit(2**32) - unsigned).otherwise(unsigned)
    return (size % count).cast("int")


def add_stored_rows(
    spark: SparkSession, snapshot: Snapshot, found: DataFrame, rows: DataFrame
) -> DataFrame | None:
    """Found keys with the ordering columns of those that live in another partition than the row.

    Only the slices that have such keys are read; None if there are none. Runs a job.
    """
    own = rows.select(RECORD_KEY, PARTITION_PATH).distinct()
    away = found.join(own, RECORD_KEY).filter(sf.col(PLACE) != sf.col(PARTITION_PATH))
    groups = {
        FileGroupId(PartitionPath(place), FileId(label))
        for place, label in away.select(PLACE, LABEL).distinct().collect()
    }
    slices = [slice_ for slice_ in snapshot.slices() if slice_.group in groups]
    if not slices:
        return None
    stored = read_stored_rows(spark, snapshot, slices).drop(ALIVE)
    return found.join(stored, [RECORD_KEY, PLACE, LABEL], "left")


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
