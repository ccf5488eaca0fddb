"""Clustering by Spark's executors: the same files as on the local engine, each written once."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from support.wheel import rows_of, wheel_rows

import hoodoo
from hoodoo.read.file_listing import DirectoryLister
from hoodoo.read.snapshot import take_snapshot
from hoodoo.runtime.engine import Engine, LocalEngine
from hoodoo.services.clustering.clustering import run_clustering, schedule_clustering
from hoodoo.spark.engine import SparkEngine
from hoodoo.table.ref import open_ref

pytestmark = pytest.mark.spark

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("city", pa.string()),
        ("fare", pa.float64()),
        ("at", pa.timestamp("us", "UTC")),
    ]
)
ORDERS: list[dict[str, Any]] = [
    {},
    {"order_by": "fare"},
    {"order_by": ["fare", "at"], "layout": "zorder"},
]


def rows(start: int, count: int) -> pa.Table:
    ids = range(start, start + count)
    values = [
        {"id": n, "city": f"c{n % 3}", "fare": n * 7919 % 1009 / 8, "at": n * 104729 % 10**9}
        for n in ids
    ]
    return pa.Table.from_pylist(values, schema=SCHEMA)


def make(place: Path, kind: str) -> hoodoo.Table:
    table = hoodoo.create_table(
        str(place), schema=SCHEMA, record_key="id", partition_by="city", table_type=kind
    )
    for start in range(0, 900, 300):
        table.bulk_insert(rows(start, 300))
    table.upsert(rows(100, 50))
    table.delete([5, 6, 7])
    return table


def cluster(table: hoodoo.Table, engine: Engine, **order: Any) -> None:
    ref = open_ref(table.uri)
    planned = schedule_clustering(ref, **order)
    assert planned is not None
    run_clustering(ref, planned.requested_time, engine)


def contents(table: hoodoo.Table) -> list[list[int]]:
    """The keys of each file, in the order of the file."""
    rows = table.to_arrow(columns=["id", "_hoodie_file_name"])
    files: dict[str, list[int]] = {}
    for row in rows.to_pylist():
        files.setdefault(row["_hoodie_file_name"], []).append(row["id"])
    return sorted(files.values())


@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_executors_write_what_the_local_engine_writes(
    spark: SparkSession, tmp_path: Path, kind: str, order: dict[str, Any]
) -> None:
    ours = make(tmp_path / "spark", kind)
    shutil.copytree(tmp_path / "spark", tmp_path / "local")
    local = hoodoo.open_table(tmp_path / "local")
    before = rows_of(ours.to_arrow(columns=SCHEMA.names))
    cluster(ours, SparkEngine(spark, "cluster"), **order)
    cluster(local, LocalEngine(1), **order)
    assert rows_of(ours.to_arrow(columns=SCHEMA.names)) == before
    assert contents(ours) == contents(local)
    found = [{name: row[name] for name in SCHEMA.names} for row in wheel_rows(tmp_path / "spark")]
    assert sorted(found, key=lambda row: row["id"]) == sorted(before, key=lambda row: row["id"])
    assert ours.read(spark).count() == len(before)


def test_no_file_is_left_that_no_commit_names(spark: SparkSession, tmp_path: Path) -> None:
    table = make(tmp_path / "t", "cow")
    ref = open_ref(table.uri)
    before = {file.path for file in DirectoryLister(ref.env, ref.properties.keys).files()}
    cluster(table, SparkEngine(spark, "cluster"), order_by="fare")
    after = {file.path for file in DirectoryLister(ref.env, ref.properties.keys).files()}
    named = {s.base.path for s in take_snapshot(ref).slices() if s.base}
    assert after - before == named
    assert not list(ref.env.storage.list(".hoodie/.temp", recursive=True))
