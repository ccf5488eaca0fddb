"""Indexes built by Spark while writers commit and a compaction runs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Event

import pytest
from pyspark.sql import SparkSession

import hoodoo
from hoodoo.errors import WriteConflict
from hoodoo_testing.tables.fresh_indexes import find_differences

pytestmark = pytest.mark.spark

COLUMNS = "id string, part string, v long"
OPTIONS = {
    "hoodie.write.num.retries.on.conflict.failures": 5,
    "hoodie.parquet.small.file.limit": 0,
    "hoodie.compact.inline": False,
}
INDEXES = ["files", "column_stats", "partition_stats", "bloom_filters", "record_index"]


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_index_equals_a_fresh_one_when_built_beside_two_writers_and_services(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    place = str(tmp_path / "t")
    hoodoo.create_table(
        place,
        schema=spark.createDataFrame([], COLUMNS).schema,
        record_key="id",
        partition_by="part",
        table_type=kind,
        options={"hoodie.metadata.enable": False},
    )
    first = spark.range(4000).selectExpr(
        "concat('k', id) AS id", "concat('p', cast(id / 2000 AS int)) AS part", "0L AS v"
    )
    hoodoo.open_table(place, OPTIONS).bulk_insert(first)
    is_built, has_begun = Event(), [Event(), Event()]

    def write(writer: int) -> int:
        table, number = hoodoo.open_table(place, OPTIONS), 0
        while not is_built.is_set() or number < 2:
            begin = writer * 2000 + number * 40
            rows = spark.range(begin, begin + 80).selectExpr(
                f"concat(if(id % 2 = 0, 'k', 'n{writer}-'), id) AS id",
                f"'p{writer}' AS part",
                f"{number + 1}L AS v",
            )
            with suppress(WriteConflict):
                table.upsert(rows)
            number += 1
            has_begun[writer].set()
        return number

    with ThreadPoolExecutor(2) as pool:
        writers = [pool.submit(write, writer) for writer in range(2)]
        for event in has_begun:
            assert event.wait(120)
        table = hoodoo.open_table(place, OPTIONS)
        if kind == "mor":
            table.schedule_compaction()
        try:
            done = table.create_index(INDEXES, spark=spark)
            if kind == "mor":
                table.run_compaction(spark=spark)
        finally:
            is_built.set()
        assert [writer.result() >= 2 for writer in writers] == [True, True]
    assert done is not None
    assert set(done.built) == set(INDEXES)
    assert find_differences(table._ref) == []
    by_index = hoodoo.open_table(place, {**OPTIONS, "hoodie.index.type": "RECORD_INDEX"})
    again = by_index.upsert(spark.createDataFrame([("k1", "p0", 99), ("new", "p1", 99)], COLUMNS))
    assert (again.stats.updated, again.stats.inserted) == (1, 1)
    assert find_differences(table._ref) == []
