"""Finding the file groups of incoming keys: one module per index, all with the same answer.

Rows come back with `PLACE` and `GROUP`: where their key is, or the empty group if it is new. A key
that several groups have (inserted twice) comes back once for each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession

from hoodoo.config.index import INDEX_TYPE, IndexType
from hoodoo.format.schema import RECORD_KEY
from hoodoo.spark.index import bloom, global_simple, simple
from hoodoo.spark.index.simple import as_new
from hoodoo.spark.prepare import Rows, one_per_key
from hoodoo.table.snapshot import Snapshot

__all__ = ["as_new", "tag"]


def tag(
    spark: SparkSession,
    snapshot: Snapshot,
    rows: Rows,
    counts: Mapping[str, int],
    keep: Callable[[DataFrame], DataFrame],
) -> DataFrame:
    """Rows with the file groups of their keys, by the index of the table.

    `counts` tells how many rows each partition gets. `keep` is for what is costly and is looked at
    again: the rows that come back are, to be counted and to be written.
    """
    index = snapshot.ref.config.get(INDEX_TYPE)
    if index is IndexType.GLOBAL_SIMPLE and not rows.in_all_partitions:
        merge = snapshot.ref.properties.merge
        rows = replace(rows, frame=one_per_key(rows.frame, rows.schema, merge, [RECORD_KEY]))
    if not snapshot.groups:
        return as_new(rows.frame)
    match index:
        case IndexType.GLOBAL_SIMPLE if not rows.in_all_partitions:
            return keep(global_simple.tag(spark, snapshot, rows, counts))
        case IndexType.BLOOM if not rows.in_all_partitions:
            return bloom.tag(spark, snapshot, rows, counts, keep)
        case _:
            return simple.tag(spark, snapshot, rows, counts, keep)
