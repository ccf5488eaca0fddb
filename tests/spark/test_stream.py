"""Structured streaming: each micro-batch is written once, and each change is read once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from support.paused_writes import pause_write

import hoodoo
from hoodoo.errors import InputError
from hoodoo.write.commit.publish import CommitResult

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])


def new_table(place: Path, **options: Any) -> hoodoo.Table:
    return hoodoo.create_table(place, schema=SCHEMA, record_key="id", ordering="v", **options)


def rows(*ids: int, v: int = 1) -> pa.Table:
    return pa.table({"id": list(ids), "v": [v] * len(ids)}, schema=SCHEMA)


def run(frame: DataFrame, sink: Callable[[DataFrame, int], None], checkpoint: Path) -> str:
    """Run a stream until all that is there is done; the id of its query."""
    writer = frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    return str(query.id)


def ids_in(table: hoodoo.Table) -> list[int]:
    return sorted(table.to_arrow(columns=["id"])["id"].to_pylist())


# -- sink ---------------------------------------------------------------------------------------


def test_a_batch_that_is_sent_again_is_skipped(spark: SparkSession, tmp_path: Path) -> None:
    table, source = new_table(tmp_path / "t"), tmp_path / "in"
    spark.range(0, 5).selectExpr("id", "1L v").write.parquet(str(source))
    stream = spark.readStream.schema("id long, v long").parquet(str(source))
    done: list[CommitResult] = []
    sink = hoodoo.stream_to(table, operation="insert", on_commit=done.append)
    query_id = run(stream, sink, tmp_path / "check")
    assert ids_in(table) == [0, 1, 2, 3, 4]
    (tmp_path / "check/commits/0").unlink()  # as if the driver had died before it wrote this
    (tmp_path / "check/commits/.0.crc").unlink(missing_ok=True)
    spark.range(5, 7).selectExpr("id", "1L v").write.mode("append").parquet(str(source))
    assert run(stream, sink, tmp_path / "check") == query_id
    assert ids_in(table) == [0, 1, 2, 3, 4, 5, 6]
    assert [each.is_skipped for each in done] == [False, True, False]
    assert done[1].instant == done[0].instant


def test_two_queries_do_not_take_each_others_batches(spark: SparkSession, tmp_path: Path) -> None:
    new_table(tmp_path / "t")
    sink = hoodoo.stream_to(str(tmp_path / "t"))
    for number in (1, 2):
        place = tmp_path / f"in{number}"
        spark.range(number, number + 1).selectExpr("id", "1L v").write.parquet(str(place))
        stream = spark.readStream.schema("id long, v long").parquet(str(place))
        run(stream, sink, tmp_path / f"check{number}")
    assert ids_in(hoodoo.open_table(tmp_path / "t")) == [1, 2]


def test_a_bad_sink_is_refused_at_once(spark: SparkSession, tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    with pytest.raises(InputError, match="'merge' is none of insert"):
        hoodoo.stream_to(table, operation="merge")
    with pytest.raises(InputError, match="no streaming query runs this"):
        hoodoo.stream_to(table)(spark.range(1).selectExpr("id", "1L v"), 0)
    assert table.timeline() == []


# -- source -------------------------------------------------------------------------------------


class Follower:
    """A stream of a table, whose batches are kept."""

    def __init__(self, spark: SparkSession, table: hoodoo.Table, place: Path, **options: Any):
        reader = spark.readStream.format("hoodoo").options(**options)
        self.stream = reader.load(table.uri).select("id", "v")
        self.place = place
        self.batches: list[list[tuple[int, int]]] = []

    def follow(self) -> list[list[tuple[int, int]]]:
        """The batches that have come since it was last asked."""
        seen = len(self.batches)
        query = (
            self.stream.writeStream.foreachBatch(self._keep)
            .option("checkpointLocation", str(self.place))
            .start()
        )
        try:
            query.processAllAvailable()
        finally:
            query.stop()
        return self.batches[seen:]

    def _keep(self, frame: DataFrame, _: int) -> None:
        self.batches.append(sorted((row.id, row.v) for row in frame.collect()))


@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_changes_are_read_once_across_restarts(
    spark: SparkSession, tmp_path: Path, table_type: str
) -> None:
    hoodoo.register(spark)
    table = new_table(tmp_path / "t", table_type=table_type)
    table.insert(rows(1, 2))
    table.upsert(rows(2, 3, v=2))
    follower = Follower(spark, table, tmp_path / "check")
    assert follower.follow() == [[(1, 1), (2, 2), (3, 2)]]
    assert follower.follow() == []
    table.upsert(rows(3, 4, v=3))
    assert follower.follow() == [[(3, 3), (4, 3)]]


def test_a_commit_that_completes_late_is_not_missed(spark: SparkSession, tmp_path: Path) -> None:
    hoodoo.register(spark)
    table = new_table(tmp_path / "t")
    table.bulk_insert(rows(1))
    follower = Follower(spark, table, tmp_path / "check")
    assert follower.follow() == [[(1, 1)]]
    with pause_write(tmp_path / "t", lambda mine: mine.bulk_insert(rows(2, v=2))) as late:
        table.bulk_insert(rows(3))
        assert follower.follow() == [[(3, 1)]]
        late.go_on()
    assert follower.follow() == [[(2, 2)]]


def test_since_and_limits_are_kept(spark: SparkSession, tmp_path: Path) -> None:
    hoodoo.register(spark)
    table = new_table(tmp_path / "t")
    first = table.insert(rows(1))
    for number in (2, 3, 4):
        table.insert(rows(number))
    options = {"since": first.instant, "max.commits.per.trigger": "1"}
    follower = Follower(spark, table, tmp_path / "check", **options)
    assert follower.follow() == [[(2, 1)], [(3, 1)], [(4, 1)]]
    for number in (5, 6):
        table.insert(rows(number))
    assert follower.follow() == [[(5, 1)], [(6, 1)]]  # also of a query that goes on


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"as_of": "20260101000000000"}, "'as_of' is not for spark.readStream"),
        ({"max.commits.per.trigger": "0"}, "a number from 1 on, not '0'"),
    ],
)
def test_bad_options_are_refused(
    spark: SparkSession, tmp_path: Path, options: dict[str, str], message: str
) -> None:
    hoodoo.register(spark)
    table = new_table(tmp_path / "t")
    table.insert(rows(1))
    with pytest.raises(PySparkException, match=message):
        Follower(spark, table, tmp_path / "check", **options).follow()
