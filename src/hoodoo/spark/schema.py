"""Arrow schemas and tables as Spark's, and the names of hoodoo's own columns in DataFrames.

    Arrow                              Spark
    bool  int8 to int64  float double  boolean  tinyint to bigint  float  double
    string  binary, fixed-size binary  string (char, varchar)  binary
    decimal128(p, s)  date32           decimal(p, s)  date
    timestamp[ms|us, UTC]              timestamp
    timestamp[ms|us]                   timestamp_ntz
    list  map  struct                  array  map  struct

Spark counts microseconds and has no binaries of fixed size: rows on their way to Spark are cast
(`to_spark`). It has no time of day either: its TIME is a preview that is switched off. `to_frame`
makes DataFrames of Arrow tables. The column names are of what travels beside the user's columns
from Spark to the write handles.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.types as pt
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as st
from pyspark.sql.types import StructType

from hoodoo.errors import FormatError, SchemaMismatch, UnsupportedFeature
from hoodoo.format.arrow_types import COMMENT
from hoodoo.write.files.bulk_insert import HASH

# -- schemas ---------------------------------------------------------------------------------------


_SAME: tuple[tuple[pa.DataType, st.DataType], ...] = (
    (pa.bool_(), st.BooleanType()),
    (pa.int8(), st.ByteType()),
    (pa.int16(), st.ShortType()),
    (pa.int32(), st.IntegerType()),
    (pa.int64(), st.LongType()),
    (pa.float32(), st.FloatType()),
    (pa.float64(), st.DoubleType()),
    (pa.string(), st.StringType()),
    (pa.binary(), st.BinaryType()),
    (pa.date32(), st.DateType()),
    (pa.timestamp("us", "UTC"), st.TimestampType()),
    (pa.timestamp("us"), st.TimestampNTZType()),
    (pa.null(), st.NullType()),
)
_SPARK_OF: dict[pa.DataType, st.DataType] = dict(_SAME)
_TEXTS = (st.StringType, st.CharType, st.VarcharType)


def arrow_schema(schema: st.StructType) -> pa.Schema:
    """A Spark schema as Arrow has it; `SchemaMismatch` names a column that Arrow cannot have."""
    return pa.schema([_arrow_field(field, "") for field in schema.fields])


def spark_schema(schema: pa.Schema) -> st.StructType:
    """An Arrow schema as Spark has it, everything nullable, as Spark reads all files.

    `UnsupportedFeature` names a column that Spark cannot have.
    """
    return st.StructType([_spark_field(field, "") for field in schema])


def to_spark(rows: pa.Table) -> pa.Table:
    """Rows with the Arrow types that Spark takes for the schema `spark_schema` gives them."""
    target = pa.schema([_field_in_spark(field) for field in rows.schema])
    try:
        return rows.cast(target) if target != rows.schema else rows
    except pa.ArrowInvalid as error:
        raise FormatError(f"a value that Spark cannot have: {error}") from None


def _arrow_field(field: st.StructField, path: str) -> pa.Field:
    comment = field.metadata.get("comment") if field.metadata else None
    metadata = {COMMENT: str(comment).encode()} if comment else None
    type_ = _arrow_type(field.dataType, path + field.name)
    return pa.field(field.name, type_, field.nullable, metadata)


def _arrow_type(type_: st.DataType, path: str) -> pa.DataType:
    for arrow, spark in _SAME:
        if type_ == spark:
            return arrow
    match type_:
        case st.DecimalType():
            return pa.decimal128(type_.precision, type_.scale)
        case st.StructType():
            return pa.struct([_arrow_field(field, f"{path}.") for field in type_.fields])
        case st.ArrayType():
            element = _arrow_type(type_.elementType, f"{path}[]")
            return pa.list_(pa.field("element", element, type_.containsNull))
        case st.MapType():
            key = _arrow_type(type_.keyType, f"{path}{{}}")
            value = _arrow_type(type_.valueType, f"{path}{{}}")
            return pa.map_(key, pa.field("value", value, type_.valueContainsNull))
        case _ if isinstance(type_, _TEXTS):  # of whatever length or collation
            return pa.string()
    raise SchemaMismatch(f"column {path}: a table cannot hold Spark's {type_.simpleString()}")


def _spark_field(field: pa.Field, path: str) -> st.StructField:
    comment = (field.metadata or {}).get(COMMENT)
    metadata: dict[str, Any] = {"comment": comment.decode("utf-8", "replace")} if comment else {}
    return st.StructField(field.name, _spark_type(field.type, path + field.name), True, metadata)


def _spark_type(type_: pa.DataType, path: str) -> st.DataType:
    plain = _type_in_spark(type_)
    if plain in _SPARK_OF:
        return _SPARK_OF[plain]
    if pt.is_decimal(plain):
        return st.DecimalType(plain.precision, plain.scale)
    if pt.is_struct(plain):
        return st.StructType([_spark_field(field, f"{path}.") for field in plain])
    if pt.is_map(plain):
        key = _spark_type(plain.key_type, f"{path}{{}}")
        return st.MapType(key, _spark_type(plain.item_type, f"{path}{{}}"))
    if pt.is_list(plain):
        return st.ArrayType(_spark_type(plain.value_type, f"{path}[]"))
    if pt.is_time(plain):
        raise UnsupportedFeature(
            f"column {path}: Spark has no time of day ({plain}); leave the column out by columns="
        )
    raise UnsupportedFeature(f"column {path}: Spark has no type for {plain}")


def _type_in_spark(type_: pa.DataType) -> pa.DataType:
    """The Arrow type in which Spark takes values of a table's type."""
    if pt.is_timestamp(type_):
        return pa.timestamp("us", "UTC" if type_.tz is not None else None)
    if pt.is_fixed_size_binary(type_) and not pt.is_decimal(type_):
        return pa.binary()
    if pt.is_struct(type_):
        return pa.struct([_field_in_spark(field) for field in type_])
    if pt.is_map(type_):
        return pa.map_(type_.key_type, _field_in_spark(type_.item_field))
    if pt.is_list(type_):
        return pa.list_(_field_in_spark(type_.value_field))
    return type_


def _field_in_spark(field: pa.Field) -> pa.Field:
    """Nullable like those of `spark_schema`: from 4.3 on Spark refuses rows of another schema."""
    return field.with_type(_type_in_spark(field.type)).with_nullable(True)


# -- Arrow tables as DataFrames --------------------------------------------------------------------


def to_frame(spark: SparkSession, rows: pa.Table, schema: StructType | None = None) -> DataFrame:
    """The rows in Spark. In one chunk: PySpark 4.1 loses rows behind a chunk that is empty."""
    return spark.createDataFrame(rows.combine_chunks(), schema)


# -- columns beside the user's own -----------------------------------------------------------------


PREFIX = "_hoodoo_"
"""What the names of all of them begin with; users' columns do not."""

# `HASH` is of the record key: it decides where new rows go, and tells inputs apart.
PARTITION = "_hoodoo_place"
"""The partition whose file group takes the row; nearly always the row's own."""
LABEL = "_hoodoo_label"
"""The label of the row's destination; see `write.index.destinations.Destination`."""
IS_DELETED = "_hoodoo_deleted"
"""Whether the row is taken out of its file group instead of written to it."""
WRITE = "_hoodoo_write"
"""The number of the `FileGroupWrite` that the row goes to."""
TASK = "_hoodoo_task"
"""A number that leads the row to the task that writes its file group."""

HOODOO_COLUMNS = (HASH, PARTITION, LABEL, IS_DELETED, WRITE, TASK)
