"""Log compaction by Spark's executors, and what Spark reads after it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import hoodoo
from hoodoo.api.table import Table
from hoodoo.spark.engine import SparkEngine

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string()), ("ts", pa.int64()), ("v", pa.int64())])


def rows(*given: tuple[int, int]) -> pa.Table:
    """Rows of these ids and moments; each id is in a partition of its own."""
    listed = [{"id": key, "p": f"p{key}", "ts": ts, "v": 10 * ts} for key, ts in given]
    return pa.Table.from_pylist(listed, SCHEMA)


def test_spark_compacts_logs_and_reads_the_same_rows(spark: SparkSession, tmp_path: Path) -> None:
    table = hoodoo.create_table(
        str(tmp_path / "t"),
        schema=SCHEMA,
        record_key="id",
        partition_by="p",
        ordering="ts",
        table_type="mor",
        options={"hoodie.log.compaction.blocks.threshold": 2, "hoodie.compact.inline": False},
    )
    table.insert(rows((0, 1), (1, 1)))
    middle = table.upsert(rows((0, 2), (1, 3)))
    table.delete(rows((1, 4)))
    table.upsert(rows((0, 3)))

    def read(**options: str) -> list[tuple[object, ...]]:
        frame = spark.read.format("hoodoo").options(**options).load(table.uri)
        return sorted(map(tuple, frame.select("id", "ts", "v", "_hoodie_commit_time").collect()))

    before, as_of = read(), read(as_of=middle.instant)
    assert [row[:3] for row in before] == [(0, 3, 30)]
    assert table.schedule_log_compaction() is not None
    done = Table(table._ref, SparkEngine(spark, "test", here_bytes=0)).run_log_compaction()
    assert done is not None
    assert done.stats.files == 2
    assert read() == before
    assert read(as_of=middle.instant) == as_of
    assert [row[:3] for row in as_of] == [(0, 2, 20), (1, 3, 30)]
