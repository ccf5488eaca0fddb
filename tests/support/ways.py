"""The ways of Spark's writes, by how much is written; tests write little, and choose one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

_BYTES, _KEYS = "hoodie.write.spark.driver.max.bytes", "hoodie.write.spark.driver.max.keys"
_FILES = "hoodie.write.spark.driver.max.file.bytes"

TASKS = {_FILES: "0"}
"""What is done per file group is done by tasks."""
JOINS = {_BYTES: "0", _KEYS: "0", **TASKS}
"""As much data goes: keys are joined with those of the files, rows are shuffled."""
WAYS: Mapping[str, Mapping[str, str]] = {
    "driver": {},
    "rows": TASKS,
    "keys": {_BYTES: "0", **TASKS},
    "joins": JOINS,
}
"""The driver does all; it collects the rows; only their keys; nothing."""


def from_files(spark: SparkSession, rows: pa.Table, place: Path) -> DataFrame:
    """Rows that Spark reads from a file, and does not keep: to read them again is cheap."""
    place.mkdir(exist_ok=True)
    file = place / f"{len(list(place.iterdir()))}.parquet"
    pq.write_table(rows, file)
    return spark.read.parquet(str(file))
