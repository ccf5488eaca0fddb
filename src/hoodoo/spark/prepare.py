"""A DataFrame as users give it -> rows with keys, partition paths and hashes, and their schema."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pt
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType

from hoodoo.errors import InputError
from hoodoo.format.schema import META_FIELDS, PARTITION_PATH, RECORD_KEY
from hoodoo.format.schema_types import normalise
from hoodoo.model.keys import KeyRule
from hoodoo.model.merge import MergeRule
from hoodoo.rows.keys import field_type, has_fields
from hoodoo.rows.merge import IS_DELETED, has_ordering
from hoodoo.spark.columns import HASH, PREFIX
from hoodoo.spark.keys import add_keys, column_of
from hoodoo.spark.schema import arrow_schema, spark_schema
from hoodoo.spark.session import format_refusal
from hoodoo.write.assignment import Target
from hoodoo.write.prepare import evolve_schema, refuse_duplicate_names, schema_of_deletes

_RANK = "_hoodoo_rank"


@dataclass(frozen=True)
class Rows:
    """Rows with their keys, and the schema of the table once they are written."""

    frame: DataFrame
    schema: pa.Schema
    in_all_partitions: bool = False
    """The rows do not tell their partition (keys to delete)."""


def prepare(target: Target, input_rows: DataFrame) -> Rows:
    """Rows to write; what is wrong with their columns is found here, before any job runs.

    What is wrong with values (no key, no ordering value, an odd partition) fails the first job
    that sees them.
    """
    keys, ordering = target.ref.properties.keys, target.ref.properties.merge
    frame = drop_meta_columns(input_rows)
    incoming = normalise(arrow_schema(frame.schema))
    schema = evolve_schema(target.ref, incoming, target.snapshot.schema)
    return Rows(add_checked_keys(frame, schema, keys, ordering.ordering_fields), schema)


def prepare_deletes(target: Target, input_rows: DataFrame) -> Rows:
    """Keys to delete; partition and ordering columns count where they are given."""
    keys, merge = target.ref.properties.keys, target.ref.properties.merge
    schema, frame = target.schema, drop_meta_columns(input_rows)
    known = schema_of_deletes(target.ref, normalise(arrow_schema(frame.schema)), schema)
    frame = frame.select([sf.col(f"`{name}`") for name in known.names])
    has_partitions = not keys.is_partitioned or has_fields(known, keys.partition_fields)
    paths = has_partitions and not target.index.is_global
    ordering = merge.ordering_fields if has_ordering(known, merge) else ()
    keys_to_delete = add_checked_keys(frame, schema, keys, ordering, paths=paths)
    return Rows(keys_to_delete, schema, in_all_partitions=not paths)


def drop_meta_columns(input_rows: DataFrame) -> DataFrame:
    """The user's columns: distinct names, none of ours."""
    if input_rows.isStreaming:
        raise InputError("a stream is written batch by batch: call this in its foreachBatch")
    refuse_duplicate_names(input_rows.columns)
    for name in input_rows.columns:
        if name.lower().startswith(PREFIX) or (
            name not in META_FIELDS and name.lower() in META_FIELDS
        ):
            raise InputError(f"column {name!r}: the name is hoodoo's own")
    # Rows read from a table carry its meta columns; they are made anew for each write.
    return input_rows.drop(*(name for name in input_rows.columns if name in META_FIELDS))


def add_checked_keys(
    frame: DataFrame,
    schema: pa.Schema,
    keys: KeyRule,
    ordering_fields: Iterable[str],
    *,
    paths: bool = True,
) -> DataFrame:
    """Rows with keys, partition paths and hashes; those without a key or an ordering value fail."""
    frame = add_keys(frame, schema, keys, paths=paths)
    for field in ordering_fields:
        reason = sf.lit(format_refusal(f"ordering column {field} is null"))
        key: Column = sf.when(column_of(schema, field).isNotNull(), sf.col(RECORD_KEY)).otherwise(
            sf.raise_error(reason)
        )
        frame = frame.withColumn(RECORD_KEY, key)
    return frame.withColumn(HASH, sf.xxhash64(RECORD_KEY))


def drop_flagged_rows(frame: DataFrame, schema: pa.Schema, merge: MergeRule) -> DataFrame:
    """Rows to insert: one that is marked as deleted is none (as `rows.merge` has it)."""
    flags = []
    if IS_DELETED in frame.columns and pt.is_boolean(schema.field(IS_DELETED).type):
        flags.append(sf.col(IS_DELETED))
    own = merge.delete_flag
    if own is not None and field_type(arrow_schema(frame.schema), own.field) is not None:
        flags.append(column_of(schema, own.field).cast("string") == own.text)
    for flag in flags:
        frame = frame.filter(~sf.coalesce(flag, sf.lit(False)))
    return frame


def count_by_partition(frame: DataFrame) -> dict[str, int]:
    """How many rows each partition gets; runs a job."""
    counts = frame.groupBy(PARTITION_PATH).count().collect()
    return {row[0]: row[1] for row in counts}


def keep_one_per_key(
    frame: DataFrame, schema: pa.Schema, merge: MergeRule, keys: Sequence[str]
) -> DataFrame:
    """Of rows with the same key, the one that wins by the table's ordering."""
    order = ordering_of(schema, merge).desc() if merge.by_event_time else sf.col(HASH)
    ranked = frame.withColumn(_RANK, sf.row_number().over(Window.partitionBy(*keys).orderBy(order)))
    return ranked.filter(sf.col(_RANK) == 1).drop(_RANK)


def ordering_of(schema: pa.Schema, merge: MergeRule) -> Column:
    """The ordering values of a row as one that compares."""
    values = [column_of(schema, f).cast(_spark_type(schema, f)) for f in merge.ordering_fields]
    return sf.struct(*(value.alias(f"o{n}") for n, value in enumerate(values)))


def _spark_type(schema: pa.Schema, field: str) -> DataType:
    return spark_schema(pa.schema([pa.field(field, field_type(schema, field))])).fields[0].dataType
