"""Tables that Spark writes through hoodoo: Apache Hudi reads them, and writes on."""

from __future__ import annotations

from pathlib import Path

import pytest
from compat.peer_client import Peer
from compat.peer_rows import FIRST, typed
from compat.same_rows import assert_same_rows
from compat.spark_turns import INDEXES, KINDS, Turns
from pyspark.sql import SparkSession

import hoodoo

EACH_KIND = pytest.mark.parametrize("kind", KINDS)
EACH_INDEX = pytest.mark.parametrize("index", INDEXES)


@EACH_INDEX
@EACH_KIND
def test_every_operation_is_read_by_hudi(
    hudi: Peer, spark: SparkSession, tmp_path: Path, kind: str, index: str
) -> None:
    turns = Turns(hudi, spark, tmp_path / "t", kind, index)
    turns.make()
    turns.ours("bulk_insert", *FIRST)
    turns.ours("upsert", "a sf 2 11", "c la 0 -1", "f rome 1 60", "g sf 1 70")  # c comes late
    turns.ours("insert", "h sf 1 80", "i oslo 1 90")
    turns.ours("delete", "b sf 9 0", "d la 0 0")  # d too
    rows = ["a 2 11", "c 1 30", "d 1 40", "e 1 50", "f 1 60", "g 1 70", "h 1 80", "i 1 90"]
    turns.check(*rows)
    turns.ours("insert_overwrite", "x la 1 1", "y rome 1 2")
    hoodoo.open_table(str(turns.place), INDEXES[index]).delete_partitions(["city=ny"])
    turns.ours("upsert", "x la 2 9", "z la 1 3", "b sf 1 21")
    rows = ["a 2 11", "b 1 21", "g 1 70", "h 1 80", "i 1 90", "x 2 9", "y 1 2", "z 1 3"]
    turns.check(*rows)
    turns.ours("insert_overwrite_table", "q la 1 4")
    turns.check("q 1 4")


@EACH_KIND
@pytest.mark.parametrize(
    ("index", "first"),
    [("simple", "we"), ("bloom", "they"), ("bucket", "we"), ("bucket", "they")],
)
def test_turns(
    hudi: Peer, spark: SparkSession, tmp_path: Path, kind: str, index: str, first: str
) -> None:
    turns = Turns(hudi, spark, tmp_path / "t", kind, index)
    if first == "we":
        turns.make()
        turns.ours("upsert", *FIRST)
    else:
        turns.theirs("upsert", *FIRST)
    turns.theirs("upsert", "a sf 2 11", "f sf 1 60", "g sf 1 70")
    turns.ours("upsert", "b sf 2 21", "f sf 2 61", "h sf 1 80", "i ny 1 90", "c la 0 -1")
    turns.theirs("upsert", "h sf 2 81", "d la 2 41", "j ny 1 1", "b sf 1 -1")
    more = ["d 2 41", "f 2 61", "g 1 70", "h 2 81", "i 1 90", "j 1 1"]
    turns.check("a 2 11", "b 2 21", "c 1 30", "e 1 50", *more)
    turns.ours("delete", "a sf 9 0", "e ny 9 0")
    turns.theirs("delete", "b sf 9 9")
    turns.ours("upsert", "b sf 3 22", "h sf 3 82")  # what they deleted comes back
    turns.check("b 3 22", "c 1 30", *(row for row in more if row[0] != "h"), "h 3 82")


@EACH_KIND
def test_all_types(hudi: Peer, spark: SparkSession, tmp_path: Path, kind: str) -> None:
    rows = typed(0, 4)
    table = hoodoo.create_table(
        str(tmp_path / "t"),
        schema=rows.schema,
        record_key="id",
        partition_by="city",
        ordering="ts",
        table_type=kind,
    )
    table.bulk_insert(spark.createDataFrame(rows))
    table.upsert(spark.createDataFrame(typed(2, 6)))
    theirs = hudi.read(table.uri)
    assert theirs.num_rows == 6
    assert_same_rows(table.to_arrow(), theirs)


@EACH_KIND
def test_hudi_tells_what_was_written(
    hudi: Peer, spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    turns = Turns(hudi, spark, tmp_path / "t", kind, "simple")
    turns.make()
    results = [
        turns.ours("bulk_insert", *FIRST),
        turns.ours("upsert", "a sf 2 11", "f oslo 1 60"),
        turns.ours("insert", "g sf 1 70"),
    ]
    hudi.sql(f"create table told_{kind} using hudi location '{turns.place}'")
    commits = hudi.sql(f"call show_commits(table => 'told_{kind}', limit => 9)", rows=True)
    assert commits is not None
    told = {row["commit_time"]: row for row in commits.to_pylist()}
    assert set(told) == {result.instant for result in results}
    for result in results:
        row = told[result.instant]
        assert row["total_bytes_written"] == result.stats.bytes
        assert row["total_update_records_written"] == result.stats.updated
        assert row["total_files_added"] + row["total_files_updated"] == result.stats.files
    written = [told[result.instant]["total_records_written"] for result in results]
    assert written == ([5, 3, 3] if kind == "cow" else [5, 2, written[2]])
    partitions = [told[result.instant]["total_partitions_written"] for result in results]
    assert partitions == [3, 2, 1]
