"""Files to load: Parquet as it is, CSV and JSON in the types of the table."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, DataType, StringType, StructField, StructType

from hoodoo.errors import EngineFailed, InputError
from hoodoo.format.schema import META_FIELDS
from hoodoo.spark.schema import spark_schema
from hoodoo.spark.session.session import translate_spark_errors

_OPTIONS: dict[str, dict[str, str]] = {
    "parquet": {},
    "csv": {"header": "true", "mode": "FAILFAST", "enforceSchema": "false"},
    "json": {"mode": "FAILFAST", "primitivesAsString": "true"},
}


def read_files(spark: SparkSession, place: str, format: str, schema: pa.Schema) -> DataFrame:
    """The rows of a file, or of all files in a directory, for a table of this schema.

    CSV has a header, JSON one object a line. Columns that the table lacks are an `InputError`:
    neither of them tells their types.
    """
    try:
        with translate_spark_errors():
            frame = spark.read.format(format).options(**_OPTIONS[format]).load(place)
    except EngineFailed as error:
        raise InputError(f"{place} cannot be read as {format}: {error}") from error
    if format == "parquet":
        return frame
    fields = {field.name: field for field in spark_schema(schema)}
    fields.update((name, StructField(name, StringType())) for name in META_FIELDS)
    missing = list(_missing_names(frame.schema, StructType(list(fields.values()))))
    if missing:
        raise InputError(f"{place} has columns that the table lacks: {', '.join(missing)}")
    table_types = StructType([fields[name] for name in frame.columns])
    return spark.read.format(format).options(**_OPTIONS[format]).schema(table_types).load(place)


def _missing_names(file_type: DataType, table_type: DataType, path: str = "") -> Iterator[str]:
    """Names in one type that the other does not have, however deep."""
    if isinstance(file_type, StructType) and isinstance(table_type, StructType):
        types = {field.name: field.dataType for field in table_type}
        for field in file_type:
            if field.name in types:
                yield from _missing_names(field.dataType, types[field.name], f"{path}{field.name}.")
            else:
                yield f"{path}{field.name}"
    elif isinstance(file_type, ArrayType) and isinstance(table_type, ArrayType):
        yield from _missing_names(file_type.elementType, table_type.elementType, path)
