"""A key exists once: two upserts insert it at the same time, whatever carries the keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from support.carriers import CARRIERS, KEYS_IN_SPARK

import hoodoo
from hoodoo.errors import WriteConflict

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string()), ("v", pa.int64())])
NEW_GROUPS = {"hoodie.parquet.small.file.limit": "0"}
KINDS = pytest.mark.parametrize("kind", ["cow", "mor"])


def rows(part: str = "p", **values: int) -> pa.Table:
    columns = [list(values), [part] * len(values), list(values.values())]
    return pa.table(columns, schema=SCHEMA)


def frame(spark: SparkSession, given: pa.Table, place: str, done: Path, theirs: str) -> DataFrame:
    """These rows; when they are first computed, another process upserts k, in partition `theirs`.

    Rows are computed once the table was looked at.
    """

    other, options, open_table = rows(theirs, k=2), NEW_GROUPS, hoodoo.open_table

    def meanwhile(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            done.touch(exist_ok=False)
        except FileExistsError:
            pass
        else:
            open_table(place, options).upsert(other)
        yield from batches

    made = spark.createDataFrame(given.to_pylist(), "id string, p string, v long").coalesce(1)
    return made.mapInArrow(meanwhile, made.schema)


def create(place: str, kind: str, **options: str) -> hoodoo.Table:
    table = hoodoo.create_table(
        place, schema=SCHEMA, record_key="id", partition_by="p", table_type=kind
    )
    table.insert(rows(a=1))
    return hoodoo.open_table(place, {**NEW_GROUPS, **options})


@pytest.mark.thin(2)
@KINDS
@pytest.mark.parametrize("carrier", list(CARRIERS))
def test_the_second_upsert_is_refused(
    spark: SparkSession, tmp_path: Path, kind: str, carrier: str
) -> None:
    place = str(tmp_path / "t")
    table = create(place, kind, **CARRIERS[carrier])
    given = frame(spark, rows(k=3, z=3), place, tmp_path / "done", "p")
    with pytest.raises(WriteConflict, match="others inserted meanwhile: 'k'"):
        table.upsert(given)
    assert sorted(table.to_arrow(columns=["id"])["id"].to_pylist()) == ["a", "k"]


@KINDS
def test_with_retries_it_becomes_an_update(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    place = str(tmp_path / "t")
    retries = {"hoodie.write.num.retries.on.conflict.failures": "2"}
    table = create(place, kind, **KEYS_IN_SPARK, **retries)
    done = table.upsert(frame(spark, rows(k=3, z=3), place, tmp_path / "done", "p"))
    assert (done.stats.inserted, done.stats.updated) == (1, 1)
    found = table.to_arrow(columns=["id", "v"]).to_pydict()
    assert dict(zip(found["id"], found["v"], strict=True)) == {"a": 1, "k": 3, "z": 3}


def test_a_key_of_another_partition_is_another_row(spark: SparkSession, tmp_path: Path) -> None:
    place = str(tmp_path / "t")
    table = create(place, "cow", **KEYS_IN_SPARK)
    table.upsert(frame(spark, rows(k=3), place, tmp_path / "done", "q"))
    assert sorted(table.to_arrow(columns=["id"])["id"].to_pylist()) == ["a", "k", "k"]


def test_a_global_index_looks_in_all_partitions(spark: SparkSession, tmp_path: Path) -> None:
    place = str(tmp_path / "t")
    table = create(place, "cow", **KEYS_IN_SPARK, **{"hoodie.index.type": "GLOBAL_SIMPLE"})
    with pytest.raises(WriteConflict, match="others inserted meanwhile: 'k'"):
        table.upsert(frame(spark, rows(k=3), place, tmp_path / "done", "q"))
