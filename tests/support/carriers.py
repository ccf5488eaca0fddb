"""What carries the rows and keys of a Spark write; tests write little, and choose by options."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

_BYTES, _KEYS = "hoodie.write.spark.driver.max.bytes", "hoodie.write.spark.driver.max.keys"
_FILES = "hoodie.write.spark.driver.max.file.bytes"

ROWS_IN_DRIVER = {_FILES: "0"}
"""The driver collects the rows; what is done per file group is done by tasks."""
KEYS_IN_DRIVER = {_BYTES: "0", **ROWS_IN_DRIVER}
"""The driver collects the keys; rows are shuffled."""
KEYS_IN_SPARK = {_KEYS: "0", **KEYS_IN_DRIVER}
"""As for large data: keys are joined with those of the files, rows are shuffled."""
CARRIERS: Mapping[str, Mapping[str, str]] = {
    "all_in_driver": {},
    "rows_in_driver": ROWS_IN_DRIVER,
    "keys_in_driver": KEYS_IN_DRIVER,
    "keys_in_spark": KEYS_IN_SPARK,
}
"""By name; the first one is for so few rows that the driver does all."""


def from_files(spark: SparkSession, rows: pa.Table, place: Path) -> DataFrame:
    """Rows that Spark reads from a file, and does not keep: to read them again is cheap."""
    place.mkdir(exist_ok=True)
    file = place / f"{len(list(place.iterdir()))}.parquet"
    pq.write_table(rows, file)
    return spark.read.parquet(str(file))
