"""Buckets by a column of Spark are those of `write.index.bucket_hash`, as Apache Hudi has them."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from hoodoo.model.keys import EMPTY_KEY, NULL_KEY, BucketRule
from hoodoo.spark.write.bucket_hash import number_buckets
from hoodoo.write.index.bucket_hash import bucket_numbers

pytestmark = pytest.mark.spark

PIECES = (",", ",", ":", ":", "a", "ab", "a:", ",a:", "é", "𝄞", "\n", " ", NULL_KEY, EMPTY_KEY)


def _keys(count: int) -> list[str]:
    """Keys that look as if they had parts, and some that have none, or are long."""
    chance = random.Random(7)
    made = ["".join(chance.choices(PIECES, k=chance.randint(1, 9))) for _ in range(count)]
    return [*made, "plain", "a:1", "a:1,b:2", "a:1,a:2", "x,a:1", "," * 20_000 + "a:1", "é" * 999]


@pytest.mark.parametrize("fields", [("a",), ("a", "ab")])
@pytest.mark.parametrize("record_fields", [("a",), ("a", "ab")])
def test_buckets_are_those_of_whole_columns(
    spark: SparkSession, fields: tuple[str, ...], record_fields: tuple[str, ...]
) -> None:
    keys, rule = _keys(3_000), BucketRule(1_000_003, fields)
    rows = spark.createDataFrame(pa.table({"key": keys}))
    column = number_buckets(sf.col("key"), rule, record_fields)
    found = {row.key: row.number for row in rows.select("key", column.alias("number")).collect()}
    wanted = dict(zip(keys, bucket_numbers(pa.array(keys), rule).tolist(), strict=True))
    assert found == wanted


def test_one_field_needs_no_python(spark: SparkSession) -> None:
    rows = spark.createDataFrame(pa.table({"key": ["x"]}))
    column = number_buckets(sf.col("key"), BucketRule(4, ("id",)), ("id",))
    plan = rows.select(column)._jdf.queryExecution().executedPlan().toString()
    assert "Python" not in plan
