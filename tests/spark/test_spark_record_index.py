"""The record index on Spark's carriers: rows go where the local engine sends them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from support.indexed import KINDS, Row, arrow
from support.record_indexed import RECORD_INDEXED, locate_rows, make_indexed, scan, target_of

from hoodoo.format.metadata_table.keys import file_group_numbers
from hoodoo.format.schema import PARTITION_PATH, RECORD_KEY
from hoodoo.runtime.engine import LocalEngine
from hoodoo.spark.datasource.register import ready_workers
from hoodoo.spark.engine import SparkEngine
from hoodoo.spark.schema import IS_DELETED, LABEL, PARTITION
from hoodoo.spark.write.collect_keys import collect_keys
from hoodoo.spark.write.join_keys import tag
from hoodoo.spark.write.prepare import count_by_partition, prepare, prepare_deletes
from hoodoo.spark.write.stored_keys import look_up_keys, number_shares
from hoodoo.table.ref import open_ref
from hoodoo.write.index import Index
from hoodoo.write.index.record import RecordIndex
from hoodoo.write.index.simple import GlobalSimpleIndex
from hoodoo.write.planning.assignment import WriteTarget
from hoodoo.write.planning.locate import LocatedRows, locate
from hoodoo.write.planning.prepare import Incoming

pytestmark = pytest.mark.spark

Sent = set[tuple[str, str, str, bool]]  # key, partition, label, whether it leaves

STEPS: list[tuple[str, list[Row]]] = [
    ("insert", [(f"k{n}", "xyz"[n % 3], 5, n) for n in range(30)]),
    ("insert", [(f"k{n}", "xyz"[n % 3], 5, n) for n in range(30, 50)]),
    ("upsert", [(f"k{n}", "xyz"[n % 3], 6, n) for n in range(0, 50, 7)]),
    ("delete", [("k1", "", 0, 0), ("k40", "", 0, 0)]),
]


def batch(seed: int) -> list[Row]:
    """Keys that are there and that are not, in any partition; some rows are older."""
    chance = Random(seed)
    keys = [f"k{n}" for n in range(60) if n not in (1, 40)]
    rows = [(key, chance.choice("xyz"), chance.randrange(10), 0) for key in chance.sample(keys, 25)]
    return [*rows, ("ключ", "x", 1, 0), ("\U0001f600", "y", 1, 0)]


def by_row(incoming: Incoming, located: LocatedRows) -> Sent:
    """Destinations of an engine that has the keys in this process."""
    keys = incoming.keys.to_pylist()
    here = {
        (keys[n], d.partition, d.label, False) for d, rows in located.rows.items() for n in rows
    }
    away = {
        (keys[n], d.partition, d.label, True) for d, rows in located.leaving.items() for n in rows
    }
    return here | away


def rows_in_driver(
    spark: SparkSession, target: WriteTarget, rows: list[Row], deletes: bool
) -> Sent:
    return by_row(*locate_rows(target, rows, SparkEngine(spark, "test"), deletes=deletes))


def keys_in_driver(
    spark: SparkSession, target: WriteTarget, rows: list[Row], deletes: bool
) -> Sent:
    frame = spark.createDataFrame(arrow(rows))
    made = (prepare_deletes if deletes else prepare)(target, frame)
    keys = collect_keys(target, made)
    assert keys is not None
    located = locate(
        target,
        keys.incoming,
        SparkEngine(spark, "test"),
        deletes=deletes,
        in_all_partitions=made.in_all_partitions,
    )
    return by_row(keys.incoming, located)


def keys_in_spark(spark: SparkSession, target: WriteTarget, rows: list[Row], deletes: bool) -> Sent:
    frame = spark.createDataFrame(arrow(rows))
    made = (prepare_deletes if deletes else prepare)(target, frame)
    counts = count_by_partition(made.frame)
    tagged = tag(spark, target, made, counts, lambda kept: kept, deletes=deletes)
    if IS_DELETED not in tagged.columns:
        tagged = tagged.withColumn(IS_DELETED, sf.lit(False))
    return {tuple(row) for row in tagged.select(RECORD_KEY, PARTITION, LABEL, IS_DELETED).collect()}


CARRIERS: dict[str, Callable[..., Sent]] = {
    "rows_in_driver": rows_in_driver,
    "keys_in_driver": keys_in_driver,
    "keys_in_spark": keys_in_spark,
}


@KINDS
@pytest.mark.parametrize("ordering", ["ts", None])
def test_every_carrier_sends_rows_where_the_global_index_does(
    spark: SparkSession, tmp_path: Path, kind: str, ordering: str | None
) -> None:
    ready_workers(spark.range(1))
    uri = make_indexed(tmp_path / "t", kind, ordering, STEPS).uri
    by_event_time = ordering is not None
    left = 0
    for seed, (moves, deletes) in enumerate([(True, False), (False, False), (True, True)]):
        rows = batch(seed)
        by_files: Index = GlobalSimpleIndex(moves=moves, by_event_time=by_event_time)
        by_record: Index = RecordIndex(moves=moves, by_event_time=by_event_time)
        local = locate_rows(target_of(uri, by_files), rows, LocalEngine(2), deletes=deletes)
        expected = by_row(*local)
        left += sum(leaves for *_, leaves in expected)
        for name, carrier in CARRIERS.items():
            found = carrier(spark, target_of(uri, by_record), rows, deletes)
            assert found == expected, (name, moves, deletes)
    assert left


@pytest.mark.parametrize("table", RECORD_INDEXED)
def test_tasks_find_every_key_of_a_table_of_apache_hudi(
    spark: SparkSession, table: str, unpack: Callable[[str], Path]
) -> None:
    path = unpack(table)
    located = scan(open_ref(str(path)))
    keys = pa.array([*located, "absent"])
    frame = spark.createDataFrame(pa.table({RECORD_KEY: keys, PARTITION_PATH: keys}))
    ready_workers(frame)
    lookup = RecordIndex().open_lookup(target_of(path, RecordIndex()).snapshot)
    assert lookup is not None
    found = look_up_keys(spark, lookup, frame)
    assert found.rdd.getNumPartitions() == lookup.shares == 10
    rows: list[Any] = found.collect()
    assert {row[RECORD_KEY]: (row[PARTITION], row[LABEL]) for row in rows} == located


def test_shares_are_numbered_as_by_arrow(spark: SparkSession) -> None:
    chance = Random(3)
    ranges = [(32, 126), (0x80, 0x7FF), (0x800, 0xD7FF), (0x10000, 0x10FFFF)]
    keys = ["", "polygenelubricants"]  # the hash of the second is the smallest number
    for _ in range(2_000):
        letters = [chr(chance.randint(*chance.choice(ranges))) for _ in range(chance.randrange(12))]
        keys.append("".join(letters))
    frame = spark.createDataFrame(pa.table({RECORD_KEY: pa.array(keys)}))
    for count in (1, 10, 977):
        numbered = frame.select(number_shares(sf.col(RECORD_KEY), count)).collect()
        expected = file_group_numbers(pa.array(keys), count).tolist()
        assert [row[0] for row in numbered] == expected
