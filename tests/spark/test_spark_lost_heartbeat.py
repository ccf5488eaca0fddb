"""A write that has lost its instant stops its Spark job at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import hoodoo
from hoodoo.errors import HeartbeatLost

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])
OPTIONS = {
    "hoodie.client.heartbeat.interval_in_ms": 1_000,
    "hoodie.client.heartbeat.tolerable.misses": 20,
}


def test_a_write_whose_heartbeat_is_gone_stops_its_job(spark: SparkSession, tmp_path: Path) -> None:
    path, gate, ended = tmp_path / "t", tmp_path / "gate", tmp_path / "ended"
    gate.mkdir()
    ended.mkdir()
    table = hoodoo.create_table(path, schema=SCHEMA, record_key="id", options=OPTIONS)

    def wait_at_gate(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            (gate / "reached").touch()
            while not (gate / "open").exists():
                time.sleep(0.05)
            (ended / "task").touch()
            yield batch

    def steal() -> None:
        while not (gate / "reached").exists():
            time.sleep(0.05)
        for heartbeat in (path / ".hoodie" / ".heartbeat").iterdir():
            heartbeat.unlink()

    rows = spark.range(4).selectExpr("id", "id as v").mapInArrow(wait_at_gate, "id long, v long")
    thief = threading.Thread(target=steal)
    thief.start()
    try:
        with pytest.raises(HeartbeatLost, match="heartbeat is gone"):
            table.bulk_insert(rows)
    finally:
        (gate / "open").touch()
        thief.join()
    assert not list(ended.iterdir())
    assert hoodoo.open_table(path).to_arrow().num_rows == 0
    assert spark.range(3).count() == 3  # the session goes on
