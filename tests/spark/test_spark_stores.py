"""Tables on a store that this Spark's JVM has no client for: Python workers read all of it."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from support.frame_checks import is_scanned, same_rows

import hoodoo
from hoodoo.spark.read.native_scan import is_reachable
from hoodoo_testing.servers.object_stores import S3Server

pytestmark = [pytest.mark.spark, pytest.mark.server]

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string()), ("v", pa.float64())])


def rows(first: int, last: int, v: float) -> pa.Table:
    ids = list(range(first, last))
    return pa.table([ids, [f"p{i % 3}" for i in ids], [v] * len(ids)], schema=SCHEMA)


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_spark_writes_and_reads_tables_on_s3(spark: SparkSession, s3: S3Server, kind: str) -> None:
    table = hoodoo.create_table(
        s3.uri(f"spark/{kind}"),
        schema=SCHEMA,
        record_key="id",
        partition_by="p",
        table_type=kind,
        options=dict(s3.options),
    )
    first = table.insert(rows(0, 3000, 1.0))
    table.upsert(rows(1000, 3500, 2.0))
    table.delete(list(range(500)))
    assert not is_reachable(spark, table._ref)
    frame = table.read(spark)
    assert not is_scanned(frame)
    same_rows(frame, table.to_arrow())
    assert frame.count() == 3000
    few = {"columns": ["id"], "filter": "p = 'p1' and v < 1.5"}
    same_rows(table.read(spark, **few), table.to_arrow(**few))
    same_rows(table.changes(spark, since=first.instant), table.changes(since=first.instant))
