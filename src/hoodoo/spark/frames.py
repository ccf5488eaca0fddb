"""Arrow tables as DataFrames."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType


def to_frame(spark: SparkSession, rows: pa.Table, schema: StructType | None = None) -> DataFrame:
    """The rows in Spark. In one chunk: PySpark 4.1 loses rows behind a chunk that is empty."""
    return spark.createDataFrame(rows.combine_chunks(), schema)
