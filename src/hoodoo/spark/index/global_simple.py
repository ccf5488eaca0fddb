"""The global simple index: a key is one row of the whole table, in whatever partition."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from hoodoo.config.index import UPDATE_PARTITION_PATH
from hoodoo.format.schema import PARTITION_PATH, RECORD_KEY
from hoodoo.model.merge import MergeRule
from hoodoo.spark.columns import DELETED, GROUP, PLACE
from hoodoo.spark.index.stored import located, only_wanted, over_slices
from hoodoo.spark.prepare import Rows, one_per_key, ordering_of
from hoodoo.spark.schema import spark_schema
from hoodoo.table.base import SliceRead
from hoodoo.table.read import read_rule, read_slice, slice_reads
from hoodoo.table.snapshot import Snapshot

_STORED = "_hoodoo_stored"


def tag(
    spark: SparkSession, snapshot: Snapshot, rows: Rows, counts: Mapping[str, int]
) -> DataFrame:
    """Rows with the file groups of their keys.

    A row whose key is in another partition moves: the old one is deleted there. With
    `hoodie.simple.index.update.partition.path=false` it is updated where it is.
    """
    merge = snapshot.ref.properties.merge
    stored = _stored_rows(spark, snapshot, merge)
    stored = only_wanted(stored, rows.frame, sum(counts.values()))
    frame = (
        rows.frame
        if rows.in_all_partitions
        else one_per_key(rows.frame, rows.schema, merge, [RECORD_KEY])
    )
    found = frame.join(stored, RECORD_KEY, "left")
    here = sf.coalesce(sf.col(PLACE), sf.col(PARTITION_PATH))
    stays = sf.struct(
        here.alias(PLACE),
        sf.coalesce(sf.col(GROUP), sf.lit("")).alias(GROUP),
        sf.lit(False).alias(DELETED),
    )
    targets = sf.array(stays)
    if not rows.in_all_partitions and snapshot.ref.config.get(UPDATE_PARTITION_PATH):
        leaves = sf.struct(sf.col(PLACE), sf.col(GROUP), sf.lit(True).alias(DELETED))
        comes = sf.struct(
            sf.col(PARTITION_PATH).alias(PLACE),
            sf.lit("").alias(GROUP),
            sf.lit(False).alias(DELETED),
        )
        moves = sf.col(PLACE) != sf.col(PARTITION_PATH)
        if merge.by_event_time:
            newer = sf.col(_STORED) > ordering_of(rows.schema, merge)
            found = found.filter(~sf.coalesce(moves & newer, sf.lit(False)))
        targets = sf.when(moves, sf.array(leaves, comes)).otherwise(targets)
    spread = found.withColumn("_hoodoo_target", sf.explode(targets))
    names = (PLACE, GROUP, DELETED)
    spread = spread.withColumns({name: sf.col(f"_hoodoo_target.{name}") for name in names})
    return spread.drop("_hoodoo_target", _STORED)


def _stored_rows(spark: SparkSession, snapshot: Snapshot, merge: MergeRule) -> DataFrame:
    """The live keys of the table, their file groups and their ordering values."""
    fields = merge.ordering_fields if merge.by_event_time else ()
    columns = [RECORD_KEY, *dict.fromkeys(field.split(".")[0] for field in fields)]
    rule = read_rule(snapshot, columns=columns)
    schema = spark_schema(pa.schema([snapshot.schema.field(name) for name in columns]))
    for name in (PLACE, GROUP):
        schema = schema.add(name, "string")

    def read(task: SliceRead) -> pa.Table:
        rows = read_slice(task)
        where = located(rows.column(RECORD_KEY), task.slice.group)
        for name in (PLACE, GROUP):
            rows = rows.append_column(name, where.column(name))
        return rows

    stored = over_slices(spark, slice_reads(snapshot, rule, snapshot.slices()), read, schema)
    if fields:
        stored = stored.withColumn(_STORED, ordering_of(snapshot.schema, merge))
        return stored.select(RECORD_KEY, PLACE, GROUP, _STORED)
    return stored.withColumn(_STORED, sf.lit(None).cast("int"))
