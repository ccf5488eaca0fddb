"""The global simple index: a key is one row of the whole table, in whatever partition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

from hoodoo.config.index import UPDATE_PARTITION_PATH
from hoodoo.format.schema import PARTITION_PATH, RECORD_KEY
from hoodoo.model.merge import MergeRule
from hoodoo.rows.merge import one_array
from hoodoo.spark.columns import DELETED, GROUP, PLACE
from hoodoo.spark.index.stored import ALIVE, located, only_wanted
from hoodoo.spark.merged import over_slices
from hoodoo.spark.prepare import Rows, ordering_of
from hoodoo.spark.schema import spark_schema, to_spark
from hoodoo.table.base import SliceRead
from hoodoo.table.read import read_rule, read_slice, slice_reads
from hoodoo.table.snapshot import Snapshot
from hoodoo.write.locate import slice_keys
from hoodoo.write.lookup import SliceKeys

_STORED, _HELD, _LEFT = "_hoodoo_stored", "_hoodoo_held", "_hoodoo_left"
_LATE, _TARGET = "_hoodoo_late", "_hoodoo_target"


def tag(
    spark: SparkSession, snapshot: Snapshot, rows: Rows, counts: Mapping[str, int]
) -> DataFrame:
    """Rows, one of each key, with the file groups that they are for.

    A row whose key lives in another partition moves, unless it is the older one: the old row is
    deleted there. With `hoodie.simple.index.update.partition.path=false` it is updated there.
    """
    merge, moves = snapshot.ref.properties.merge, snapshot.ref.config.get(UPDATE_PARTITION_PATH)
    stored = _stored_rows(spark, snapshot, rows.schema)
    found = rows.frame.join(
        only_wanted(stored, rows.frame, sum(counts.values())), RECORD_KEY, "left"
    )
    of_key = Window.partitionBy(RECORD_KEY)
    own = sf.coalesce(sf.col(PLACE) == sf.col(PARTITION_PATH), sf.lit(False))
    alive = sf.coalesce(sf.col(ALIVE), sf.lit(False))
    lives = sf.max((alive & own) if moves else alive).over(of_key)
    found = found.withColumns(
        {
            # Where a key was deleted it belongs still, unless it lives elsewhere.
            _HELD: ((alive & own) if moves else alive) | (own & ~lives),
            _LEFT: (alive & ~own) if moves else sf.lit(False),
        }
    )
    if merge.by_event_time:
        newer = sf.col(_LEFT) & (sf.col(_STORED) > ordering_of(rows.schema, merge))
        found = found.withColumn(_LATE, sf.max(newer).over(of_key)).filter(~sf.col(_LATE))
    is_first = sf.row_number().over(of_key.orderBy(PLACE, GROUP)) == 1
    comes = is_first & ~sf.max(_HELD).over(of_key)
    targets = sf.array(
        sf.when(sf.col(_HELD), _target(sf.col(PLACE), sf.col(GROUP))),
        sf.when(sf.col(_LEFT), _target(sf.col(PLACE), sf.col(GROUP), deleted=True)),
        sf.when(comes, _target(sf.col(PARTITION_PATH), sf.lit(""))),
    )
    spread = found.withColumn(_TARGET, targets).withColumn(
        _TARGET, sf.explode(sf.array_compact(_TARGET))
    )
    names = (PLACE, GROUP, DELETED)
    spread = spread.withColumns({name: sf.col(f"{_TARGET}.{name}") for name in names})
    return spread.drop(_TARGET, _STORED, _HELD, _LEFT, _LATE, ALIVE)


def _target(place: Column, group: Column, *, deleted: bool = False) -> Column:
    return sf.struct(place.alias(PLACE), group.alias(GROUP), sf.lit(deleted).alias(DELETED))


def _stored_rows(spark: SparkSession, snapshot: Snapshot, schema: pa.Schema) -> DataFrame:
    """The keys of the table, their file groups, and the ordering values of those that live."""
    merge = snapshot.ref.properties.merge
    columns = [RECORD_KEY, *_ordering_columns(snapshot.schema, merge)]
    rule = read_rule(snapshot, columns=columns)
    stored_schema = spark_schema(pa.schema([snapshot.schema.field(name) for name in columns]))
    for name in (PLACE, GROUP):
        stored_schema = stored_schema.add(name, "string")
    stored_schema = stored_schema.add(ALIVE, "boolean")
    reads = slice_reads(snapshot, rule, snapshot.slices())
    stored = over_slices(spark, reads, _read_rows, stored_schema)
    if not merge.by_event_time:
        return stored.select(RECORD_KEY, PLACE, GROUP, ALIVE)
    stored = stored.withColumn(_STORED, ordering_of(schema, merge))
    return stored.select(RECORD_KEY, PLACE, GROUP, ALIVE, _STORED)


def _ordering_columns(schema: pa.Schema, merge: MergeRule) -> list[str]:
    fields = merge.ordering_fields if merge.by_event_time else ()
    return list(dict.fromkeys(f if f in schema.names else f.split(".")[0] for f in fields))


def _read_rows(task: SliceRead) -> Iterator[pa.Table]:
    """The live rows of a slice; then the keys that its logs have deleted, without ordering."""
    rows = to_spark(read_slice(task))
    live = one_array(rows.column(RECORD_KEY))
    if task.slice.logs:
        present = slice_keys(task).present
        gone = present.filter(pc.invert(pc.is_in(present, value_set=live)))
        more = pa.table({RECORD_KEY: gone})
        rows = pa.concat_tables([rows, more], promote_options="default")
    keys = SliceKeys(one_array(rows.column(RECORD_KEY)), live if task.slice.logs else None)
    where = located(keys, task.slice.group)
    for name in (PLACE, GROUP, ALIVE):
        rows = rows.append_column(name, where.column(name))
    yield rows
