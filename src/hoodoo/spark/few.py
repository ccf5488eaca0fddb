"""Writes of few rows: their keys come to the driver, which plans them as the local engine does.

Only keys travel. Each file is asked, in a task of its own, which of them it has; what comes back
is put together to a small table that leads each row, by a hash, to the task of its bucket. With
many rows that table would not fit, and keys are joined with those of the files instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from hoodoo.config.index import INDEX_TYPE, IndexType
from hoodoo.config.tasks import DRIVER_MAX_KEYS
from hoodoo.format.schema import PARTITION_PATH, RECORD_KEY
from hoodoo.rows.merge import one_array
from hoodoo.rows.text import refuse_invalid_text
from hoodoo.spark.stage import ByKey
from hoodoo.table.ref import TableRef
from hoodoo.write.assign import Bucket
from hoodoo.write.locate import Positions
from hoodoo.write.prepare import Incoming

_ROUTE = "_hoodoo_route"


def suits(ref: TableRef, count: int) -> bool:
    """Whether so many rows are few. The global index moves rows, and so has to see them whole."""
    return (
        count <= ref.config.get(DRIVER_MAX_KEYS)
        and ref.config.get(INDEX_TYPE) is not IndexType.GLOBAL_SIMPLE
    )


@dataclass(frozen=True)
class Keys:
    """The distinct keys of some rows, their hashes, and how many rows have each."""

    frame: DataFrame
    incoming: Incoming
    hashes: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]

    def led_to(self, placed: Sequence[tuple[Bucket, Positions]]) -> ByKey:
        """The rows, led to these buckets."""
        positions = np.concatenate([rows for _, rows in placed] or [np.zeros(0, np.int64)])
        numbers = [np.full(len(rows), bucket.index, np.int32) for bucket, rows in placed]
        return ByKey(
            self.frame.withColumn(_ROUTE, _hash()).drop(RECORD_KEY, PARTITION_PATH),
            int(self.counts[positions].sum()),
            _ROUTE,
            self.hashes[positions],
            np.concatenate(numbers or [np.zeros(0, np.int32)]),
        )


def bring(rows: DataFrame) -> Keys | None:
    """The keys of rows; None if two of them happen to have the same hash."""
    table = rows.select(_hash().alias(_ROUTE), RECORD_KEY, PARTITION_PATH).toArrow()
    refuse_invalid_text(table)
    hashes = one_array(table.column(_ROUTE)).to_numpy()
    incoming = Incoming(
        table,
        one_array(table.column(RECORD_KEY).cast(pa.string())),
        one_array(table.column(PARTITION_PATH).cast(pa.string())),
    )
    distinct, first, counts = np.unique(hashes, return_index=True, return_counts=True)
    if len(distinct) < len(hashes):
        same = pa.array(first[np.searchsorted(distinct, hashes)])
        for column in (incoming.keys, incoming.partitions):  # partitions may be unknown
            if not pc.all(pc.equal(column, column.take(same)), min_count=0).as_py():
                return None
    return Keys(rows, incoming.take(pa.array(first)), distinct, counts)


def _hash() -> Column:
    return sf.xxhash64(RECORD_KEY, PARTITION_PATH)
