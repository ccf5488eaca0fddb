"""Record keys and partition paths as native Spark expressions; the rules are `model.keys`'.

Types whose texts Spark spells differently from Apache Hudi, and paths that are escaped or made of
dates, go through the Arrow code of `rows.keys` in the Python workers instead.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.types as pt
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StringType, StructField, StructType

from hoodoo.format.schema import PARTITION_PATH, RECORD_KEY
from hoodoo.model.keys import EMPTY_KEY, NULL_KEY, NULL_PARTITION, KeyRule
from hoodoo.rows.conform import conform
from hoodoo.rows.keys import field_type, partition_paths, record_keys, refuse_unfit_times
from hoodoo.spark.session import format_refusal

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
