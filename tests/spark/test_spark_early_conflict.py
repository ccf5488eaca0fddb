"""A Spark write that has lost stops its job at once: by its tasks, or by its driver."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from support.carriers import KEYS_IN_DRIVER, KEYS_IN_SPARK
from support.paused_writes import pause_write

import hoodoo
from hoodoo.api.table import Table
from hoodoo.errors import EarlyConflict, InputError
from hoodoo.write.commit.publish import CommitResult

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("id", pa.string()), ("part", pa.string()), ("v", pa.int64())])
STRATEGY = "hoodie.write.concurrency.early.conflict.detection.strategy"
LATER = {"hoodie.write.concurrency.async.conflict.detector.initial_delay_ms": 1}
SOON = {"hoodie.write.concurrency.async.conflict.detector.period_ms": 100}
RETRIES = {"hoodie.write.num.retries.on.conflict.failures": 1}


def rows(v: int, *ids: str, part: str = "p") -> pa.Table:
    return pa.table([list(ids), [part] * len(ids), [v] * len(ids)], schema=SCHEMA)


def make_table(place: Path, kind: str = "cow") -> Table:
    table = hoodoo.create_table(
        place, schema=SCHEMA, record_key="id", partition_by="part", table_type=kind
    )
    table.insert(rows(0, "a", "b"))
    table.insert(rows(0, "c", "d", part="q"))
    return table


def held_back(frame: DataFrame, gate: Path, *, only: str) -> DataFrame:
    """Rows of which those of one partition come only when a gate is opened."""

    def wait(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if only in batch.column("part").to_pylist():
                (gate / "reached").touch()
                while not (gate / "open").exists():
                    time.sleep(0.02)
                (gate / "passed").touch()
            yield batch

    return frame.mapInArrow(wait, frame.schema)


def test_the_first_task_that_fails_ends_the_others(spark: SparkSession, tmp_path: Path) -> None:
    """The other one waits for a gate that opens when the write has failed."""
    table, gate = make_table(tmp_path / "t"), tmp_path / "gate"
    gate.mkdir()
    both = spark.range(0, 2, 1, 2).selectExpr(
        "if(id = 0, 'e', null) id", "if(id = 0, 'q', 'p') part", "1L v"
    )
    try:
        with pytest.raises(InputError, match="id"):
            table.bulk_insert(held_back(both, gate, only="q"))
    finally:
        (gate / "open").touch()
    assert not (gate / "passed").exists()
    assert table.to_arrow().num_rows == 4


@pytest.mark.thin(2)
@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("carrier", [KEYS_IN_DRIVER, KEYS_IN_SPARK], ids=["driver", "spark"])
def test_the_begin_finds_an_older_write(
    spark: SparkSession, tmp_path: Path, kind: str, carrier: dict[str, str]
) -> None:
    place = tmp_path / "t"
    make_table(place, kind)
    with pause_write(place, lambda table: table.upsert(rows(1, "a"))) as older:
        younger = hoodoo.open_table(place, options=carrier)
        with pytest.raises(EarlyConflict) as caught:
            younger.upsert(spark.createDataFrame(rows(2, "b", "c")))
        assert caught.value.conflicting_instants == (older.instant,)
        older.go_on()
    assert len(hoodoo.open_table(place).timeline()) == 3


@pytest.mark.thin(2)
@pytest.mark.parametrize("strategy", ["simple_direct", "transactional_direct", "bloom_direct"])
@pytest.mark.parametrize("markers", ["direct", "timeline_server_based"])
def test_a_task_finds_an_older_write(
    spark: SparkSession, tmp_path: Path, strategy: str, markers: str
) -> None:
    place = tmp_path / "t"
    make_table(place)
    options = {
        **KEYS_IN_DRIVER,
        **LATER,
        STRATEGY: strategy,
        "hoodie.write.markers.type": markers,
    }
    with pause_write(
        place, lambda table: table.upsert(rows(1, "a")), options={STRATEGY: strategy}
    ) as older:
        younger = hoodoo.open_table(place, options=options)
        with pytest.raises(EarlyConflict) as caught:
            younger.upsert(spark.createDataFrame(rows(2, "b")))
        assert caught.value.conflicting_instants == (older.instant,)
        assert caught.value.instant is not None
        older.go_on()
    found = hoodoo.open_table(place)
    assert not found._ref.load_timeline().pending
    assert found.to_arrow(columns=["id", "v"], filter="v = 2").num_rows == 0


@pytest.mark.parametrize("strategy", ["async", "bloom_async"])
def test_the_driver_stops_the_job_within_a_period(
    spark: SparkSession, tmp_path: Path, strategy: str
) -> None:
    """Neither the begin nor tasks look; half a million rows take longer than a period."""
    place = tmp_path / "t"
    make_table(place)
    options = {**KEYS_IN_DRIVER, **LATER, **SOON, STRATEGY: strategy}
    many = spark.range(500_000).selectExpr("concat('k', id) id", "'p' part", "2L v")
    with pause_write(
        place, lambda table: table.upsert(rows(1, "a")), options={STRATEGY: strategy}
    ) as older:
        younger = hoodoo.open_table(place, options=options)
        with pytest.raises(EarlyConflict) as caught:
            younger.upsert(many.union(spark.createDataFrame(rows(2, "b"))))
        assert caught.value.conflicting_instants == (older.instant,)
        older.go_on()
    assert hoodoo.open_table(place).to_arrow().num_rows == 4


def test_a_retry_waits_for_the_older_write_and_then_succeeds(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = tmp_path / "t"
    make_table(place)
    with pause_write(place, lambda table: table.upsert(rows(1, "a", "b"))) as older:
        younger = hoodoo.open_table(place, options={**KEYS_IN_DRIVER, **RETRIES})
        done: list[object] = []
        frame = spark.createDataFrame(rows(2, "b"))
        writer = threading.Thread(target=lambda: done.append(younger.upsert(frame)))
        writer.start()
        first = older.go_on()
        writer.join(60)
    (second,) = done
    assert isinstance(second, CommitResult)
    assert second.instant > first.completion_time
    found = hoodoo.open_table(place).to_arrow(columns=["id", "v"])
    values = dict(zip(*(column.to_pylist() for column in found.columns), strict=True))
    assert values == {"a": 1, "b": 2, "c": 0, "d": 0}


def test_tasks_announce_their_files_to_the_server_of_the_driver(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = tmp_path / "t"
    make_table(place)
    options = {**KEYS_IN_DRIVER, "hoodie.write.markers.type": "timeline_server_based"}
    with caplog.at_level("INFO", logger="hoodoo.spark"):
        table = hoodoo.open_table(place, options=options)
        table.upsert(spark.createDataFrame(rows(5, "a", "b")))
    assert "marker_server_started" in caplog.text
    assert "marker_server_failed" not in caplog.text
    assert table.to_arrow(filter="v = 5").num_rows == 2
    assert not list((place / ".hoodie" / ".temp").rglob("MARKERS*"))
