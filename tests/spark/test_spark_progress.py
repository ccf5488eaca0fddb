"""Writes of DataFrames tell their phases, and Spark's tasks while it writes."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import hoodoo
from hoodoo import Progress
from hoodoo.config.write import DRIVER_MAX_BYTES, DRIVER_MAX_KEYS

pytestmark = pytest.mark.spark

WAYS = {
    "collect rows": {},
    "collect keys": {DRIVER_MAX_BYTES.name: 0},
    "join keys": {DRIVER_MAX_BYTES.name: 0, DRIVER_MAX_KEYS.name: 0},
}


@pytest.mark.thin(2)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("operation", ["upsert", "insert", "bulk_insert", "delete"])
def test_a_write_by_spark_tells_its_phases(
    spark: SparkSession, tmp_path: Path, way: str, operation: str
) -> None:
    rows = spark.createDataFrame([(1, "sf"), (2, "la")], "id long, city string")
    table = hoodoo.create_table(
        tmp_path / "t", schema=rows.schema, record_key="id", partition_by="city", options=WAYS[way]
    )
    steps: list[Progress] = []
    getattr(table, operation)(rows, progress=steps.append)
    phases = list(dict.fromkeys(step.phase for step in steps))
    assert phases[-4:] == ["begin", "write", "finalize", "commit"]
    assert "prepare" in phases
    assert steps[-1] == Progress("commit", 1, 1)
    counted = [step for step in steps if step.phase == "write" and step.total]
    assert all(0 <= step.done <= (step.total or 0) for step in counted)
