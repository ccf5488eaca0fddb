"""A DataFrame as users give it -> rows with keys, partition paths and hashes, and their schema.

Record keys and partition paths are native Spark expressions, by the rules of `model.keys`.

Types whose texts Spark spells differently from Apache Hudi, and paths that are escaped or made of
dates, go through the Arrow code of `rows.keys` in the Python workers instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.types as pt
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType, StringType, StructField, StructType

from hoodoo.errors import InputError
from hoodoo.format.arrow_types import normalise
from hoodoo.format.schema import META_FIELDS, PARTITION_PATH, RECORD_KEY
from hoodoo.model.keys import EMPTY_KEY, NULL_KEY, NULL_PARTITION, KeyRule
from hoodoo.model.merge import MergeRule
from hoodoo.rows.conform import conform
from hoodoo.rows.keys import (
    field_type,
    has_fields,
    partition_paths,
    record_keys,
    refuse_unfit_times,
)
from hoodoo.rows.merge import IS_DELETED, has_ordering
from hoodoo.spark.schema import PREFIX, arrow_schema, spark_schema
from hoodoo.spark.session.session import format_refusal
from hoodoo.write.files.bulk_insert import HASH
from hoodoo.write.planning.assignment import WriteTarget
from hoodoo.write.planning.prepare import evolve_schema, refuse_duplicate_names, schema_of_deletes

# -- record keys and partition paths ---------------------------------------------------------------


# What cannot be a directory: empty levels, and the directory itself or the one above it.
_NO_DIRECTORY = r"(^/)|(/$)|(//)|((^|/)\.\.?(/|$))"


def add_keys(rows: DataFrame, schema: pa.Schema, rule: KeyRule, *, paths: bool = True) -> DataFrame:
    """The rows with their record keys and, unless told otherwise, partition paths.

    `schema` is the table's: values are spelled as its types are, not as those that come.
    """
    fields = (*rule.record_fields, *(rule.partition_fields if paths else ()))
    if paths:
        refuse_unfit_times(schema, rule)
    if (
        rule.timestamp is None
        and not rule.url_encode
        and all(_is_native(field_type(schema, field)) for field in fields)
    ):
        path = partition_path(schema, rule) if paths else sf.lit(None).cast("string")
        return rows.withColumns({RECORD_KEY: record_key(schema, rule), PARTITION_PATH: path})
    return _add_keys_in_workers(rows, schema, rule, fields, paths=paths)


def record_key(schema: pa.Schema, rule: KeyRule) -> Column:
    """The record key of a row; a row without one fails the job."""
    fields = rule.record_fields
    texts = [_text(schema, field) for field in fields]
    if not rule.has_composite_keys:
        reason = format_refusal(f"record key {fields[0]} is null or empty")
        return sf.when(texts[0] != "", texts[0]).otherwise(sf.raise_error(sf.lit(reason)))
    parts = []
    for field, text in zip(fields, texts, strict=True):
        present = sf.when(text == "", EMPTY_KEY).otherwise(sf.coalesce(text, sf.lit(NULL_KEY)))
        parts.append(sf.concat(sf.lit(f"{field}:"), present))
    some = sf.coalesce(*(sf.when(text != "", text) for text in texts)).isNotNull()
    reason = format_refusal(f"all parts of the record key {','.join(fields)} are null or empty")
    return sf.when(some, sf.concat_ws(",", *parts)).otherwise(sf.raise_error(sf.lit(reason)))


def partition_path(schema: pa.Schema, rule: KeyRule) -> Column:
    """The partition path of a row; a value that cannot be a directory fails the job."""
    if not rule.is_partitioned:
        return sf.lit("")
    segments = []
    for field in rule.partition_fields:
        text = _text(schema, field)
        text = sf.when(text != "", text).otherwise(NULL_PARTITION)
        if pt.is_string(field_type(schema, field)):
            text = sf.when(text.rlike(_NO_DIRECTORY), _refuse_partition(field, text)).otherwise(
                text
            )
        segments.append(sf.concat(sf.lit(f"{field}="), text) if rule.hive_style else text)
    return sf.concat_ws("/", *segments) if len(segments) > 1 else segments[0]


def _refuse_partition(field: str, text: Column) -> Column:
    before, after = format_refusal("\0").split("\0")
    return sf.raise_error(
        sf.concat(
            sf.lit(f"{before}partition value '"),
            text,
            sf.lit(
                f"' of {field} cannot be a directory name; "
                f"set hoodie.datasource.write.partitionpath.urlencode=true{after}"
            ),
        )
    )


def _text(schema: pa.Schema, field: str) -> Column:
    kind = field_type(schema, field)
    column = column_of(schema, field)
    if pt.is_timestamp(kind):
        column = sf.unix_micros(column)  # a point in time stands for its number
    return column.cast("string")


def column_of(schema: pa.Schema, field: str) -> Column:
    """A column by its name, which may hold dots, or by the path into structs."""
    if field in schema.names:
        return sf.col(f"`{field}`")
    return sf.col(".".join(f"`{part}`" for part in field.split(".")))


def _is_native(kind: pa.DataType | None) -> bool:
    return kind is not None and (
        pt.is_string(kind)
        or pt.is_integer(kind)
        or pt.is_boolean(kind)
        or pt.is_date32(kind)
        or (pt.is_timestamp(kind) and kind.tz is not None)
    )


def _add_keys_in_workers(
    rows: DataFrame, schema: pa.Schema, rule: KeyRule, fields: Iterable[str], *, paths: bool
) -> DataFrame:
    texts = [StructField(name, StringType()) for name in (RECORD_KEY, PARTITION_PATH)]
    names = dict.fromkeys(f if f in schema.names else f.split(".")[0] for f in fields)
    key_schema = pa.schema([schema.field(name) for name in names])

    def add(batches: Iterable[Any]) -> Iterable[Any]:
        for batch in batches:
            table = pa.Table.from_batches([batch])
            key_columns = conform(table.select(key_schema.names), key_schema)
            keys = record_keys(key_columns, rule)
            partitions = (
                partition_paths(key_columns, rule) if paths else pa.nulls(len(keys), pa.string())
            )
            table = table.append_column(RECORD_KEY, keys).append_column(PARTITION_PATH, partitions)
            yield from table.combine_chunks().to_batches()

    return rows.mapInArrow(add, StructType([*rows.schema.fields, *texts]))


# -- rows ready to be written ----------------------------------------------------------------------


_RANK = "_hoodoo_rank"


@dataclass(frozen=True)
class PreparedRows:
    """Rows with their keys, and the schema of the table once they are written."""

    frame: DataFrame
    schema: pa.Schema
    in_all_partitions: bool = False
    """The rows do not tell their partition (keys to delete)."""


def prepare(target: WriteTarget, input_rows: DataFrame) -> PreparedRows:
    """Rows to write; what is wrong with their columns is found here, before any job runs.

    What is wrong with values (no key, no ordering value, an odd partition) fails the first job
    that sees them.
    """
    keys, ordering = target.ref.properties.keys, target.ref.properties.merge
    frame = drop_meta_columns(input_rows)
    incoming = normalise(arrow_schema(frame.schema))
    schema = evolve_schema(target.ref, incoming, target.snapshot.schema)
    return PreparedRows(add_checked_keys(frame, schema, keys, ordering.ordering_fields), schema)


def prepare_deletes(target: WriteTarget, input_rows: DataFrame) -> PreparedRows:
    """Keys to delete; partition and ordering columns count where they are given."""
    keys, merge = target.ref.properties.keys, target.ref.properties.merge
    schema, frame = target.schema, drop_meta_columns(input_rows)
    delete_schema = schema_of_deletes(target.ref, normalise(arrow_schema(frame.schema)), schema)
    frame = frame.select([sf.col(f"`{name}`") for name in delete_schema.names])
    has_partitions = not keys.is_partitioned or has_fields(delete_schema, keys.partition_fields)
    paths = has_partitions and not target.index.is_global
    ordering = merge.ordering_fields if has_ordering(delete_schema, merge) else ()
    keys_to_delete = add_checked_keys(frame, schema, keys, ordering, paths=paths)
    return PreparedRows(keys_to_delete, schema, in_all_partitions=not paths)


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
    rows_with_rank = frame.withColumn(
        _RANK, sf.row_number().over(Window.partitionBy(*keys).orderBy(order))
    )
    return rows_with_rank.filter(sf.col(_RANK) == 1).drop(_RANK)


def ordering_of(schema: pa.Schema, merge: MergeRule) -> Column:
    """The ordering values of a row as one that compares."""
    values = [column_of(schema, f).cast(_spark_type(schema, f)) for f in merge.ordering_fields]
    return sf.struct(*(value.alias(f"o{n}") for n, value in enumerate(values)))


def _spark_type(schema: pa.Schema, field: str) -> DataType:
    return spark_schema(pa.schema([pa.field(field, field_type(schema, field))])).fields[0].dataType
