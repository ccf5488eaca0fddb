"""Writes of some rows: their keys come to the driver, which plans them as the local engine does.

Only keys travel, and ordering values where the index compares them. Each file is asked, in a task
of its own, which keys it has; what comes back is put together to a small table that sends each
row, by a hash, to the task of its file group. With many rows that table would not fit: `join_keys`.
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

from hoodoo.format.schema import PARTITION_PATH, RECORD_KEY
from hoodoo.rows.arrays import one_array
from hoodoo.rows.conform import conform
from hoodoo.rows.incoming import refuse_invalid_text
from hoodoo.spark.write.prepare import PreparedRows
from hoodoo.spark.write.stage import RowsByKeyHash
from hoodoo.write.index.destinations import Route
from hoodoo.write.index.matches import Positions
from hoodoo.write.planning.assignment import WriteTarget
from hoodoo.write.planning.locate import LocatedRows, ordering_roots
from hoodoo.write.planning.prepare import Incoming, combine

_NONE: Positions = np.zeros(0, np.int64)
_KEY_HASH = "_hoodoo_key_hash"


@dataclass(frozen=True)
class CollectedKeys:
    """The distinct keys of some rows, their hashes, and how many rows have each."""

    frame: DataFrame
    incoming: Incoming
    hashes: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]

    def route(self, locations: LocatedRows, routes: Sequence[Route]) -> RowsByKeyHash:
        """The rows, sent to the file groups of their destinations."""
        here, away = locations.route(routes), locations.route_leaving(routes)
        shares = [(write, rows, False) for write, rows in here.items()]
        shares += [(write, rows, True) for write, rows in away.items() if len(rows)]
        positions = np.concatenate([_NONE, *(rows for _, rows, _ in shares)])
        writes = [np.full(len(rows), write, np.int32) for write, rows, _ in shares]
        deletes = [np.full(len(rows), leaves, bool) for _, rows, leaves in shares]
        return RowsByKeyHash(
            self.frame.withColumn(_KEY_HASH, _hash()).drop(RECORD_KEY, PARTITION_PATH),
            int(self.counts[positions].sum()),
            _KEY_HASH,
            self.hashes[positions],
            np.concatenate([np.zeros(0, np.int32), *writes]),
            np.concatenate(deletes) if any(leaves for _, _, leaves in shares) else None,
        )


def collect_keys(target: WriteTarget, rows: PreparedRows) -> CollectedKeys | None:
    """The keys of rows, one each; None if two of them happen to have the same hash.

    With a global index, a key that comes for several partitions counts for one: that of the row
    that wins by the table's ordering.
    """
    rule, is_global = target.ref.properties.merge, target.index.is_global
    ordering = ordering_roots(rows.schema, rule) if is_global and not rows.in_all_partitions else []
    columns = [sf.col(f"`{name}`") for name in ordering]
    frame = rows.frame.select(_hash().alias(_KEY_HASH), RECORD_KEY, PARTITION_PATH, *columns)
    table = frame.toArrow()
    refuse_invalid_text(table)
    keys, partitions = (
        one_array(table.column(name).cast(pa.string())) for name in (RECORD_KEY, PARTITION_PATH)
    )
    key_schema = pa.schema([table.schema.field(_KEY_HASH), *map(rows.schema.field, ordering)])
    incoming = Incoming(conform(table.select(key_schema.names), key_schema), keys, partitions)
    hashes = one_array(table.column(_KEY_HASH)).to_numpy()
    distinct, first, counts = np.unique(hashes, return_index=True, return_counts=True)
    if len(distinct) < len(hashes):
        same = pa.array(first[np.searchsorted(distinct, hashes)])
        for column in (keys, partitions):  # partitions may be unknown
            if not pc.all(pc.equal(column, column.take(same)), min_count=0).as_py():
                return None
    if is_global and not rows.in_all_partitions:
        incoming = combine(incoming, rule, across_partitions=True)
    else:
        incoming = incoming.take(pa.array(first))
    key_hashes = one_array(incoming.rows.column(_KEY_HASH)).to_numpy()
    return CollectedKeys(
        rows.frame, incoming, key_hashes, counts[np.searchsorted(distinct, key_hashes)]
    )


def _hash() -> Column:
    return sf.xxhash64(RECORD_KEY, PARTITION_PATH)
