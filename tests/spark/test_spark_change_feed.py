"""The change feed on Spark: the same as by Arrow and by a dict, compared in workers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from support.change_feed_table import WRITES, changes_in, expected_changes, follow_new_table
from support.frame_checks import plan_of, rows_in, same_rows
from support.wheel import rows_of

import hoodoo
from hoodoo.errors import InputError, SnapshotCleaned, UnsupportedFeature
from hoodoo.table.ref import open_ref

pytestmark = pytest.mark.spark

Unpack = Callable[[str], Path]


@pytest.mark.parametrize(("kind", "is_global"), [("cow", False), ("mor", True), ("mor", False)])
def test_changes_are_the_difference_of_snapshots(
    spark: SparkSession, tmp_path: Path, kind: str, is_global: bool
) -> None:
    chance = Random(f"spark {kind} {is_global}")
    followed = follow_new_table(tmp_path, kind, is_global=is_global)
    for step in ("insert", "upsert", "upsert", *chance.choices(WRITES, k=6)):
        followed.play(step, chance)
    followed.run_service("cluster")
    followed.run_service("compact")
    for number in (0, 1, len(followed.past) - 2):
        (since, old), (until, new) = followed.past[number], followed.past[-1]
        frame = followed.table.changes(spark, since=since, until=until, deletes=True, before=True)
        assert changes_in(frame.toArrow()) == expected_changes(old, new)
        same_rows(
            followed.table.changes(spark, since=since, deletes=True, filter="v > 50"),
            followed.table.changes(since=since, deletes=True, filter="v > 50"),
        )
    assert followed.table.changes(spark, since=until, deletes=True).count() == 0
    everything = followed.table.changes(spark, since="earliest", deletes=True)
    same_rows(everything, followed.table.changes(since="earliest", deletes=True))
    plain = followed.table.changes(spark, since="earliest", filter="v > 50", columns=["v"])
    same_rows(plain, followed.table.changes(since="earliest", filter="v > 50", columns=["v"]))


def test_rows_of_one_commit_are_not_shuffled_and_those_that_may_move_are(
    spark: SparkSession, tmp_path: Path
) -> None:
    followed = follow_new_table(tmp_path, "cow")
    chance = Random(1)
    for step in ("upsert", "upsert", "overwrite_table", "upsert"):
        followed.play(step, chance)
    times = [time for time, _ in followed.past]
    one = followed.table.changes(spark, since=times[-2], deletes=True)
    assert "Exchange" not in plan_of(one)
    assert "MapInArrow" in plan_of(one)
    many = followed.table.changes(spark, since=times[0], deletes=True)
    assert "Exchange" in plan_of(many)


def test_tables_of_apache_hudi(spark: SparkSession, unpack: Unpack) -> None:
    """What the feed says leads from the rows as of a commit to those of now."""
    for name in ("cow/v9_txns_simple_nometa", "mor-avro/v9_txns_nonpart_meta"):
        table = hoodoo.open_table(str(unpack(name)))
        commits = sorted(
            open_ref(table.uri).load_timeline().commits,
            key=lambda commit: commit.completion_or_requested_time,
        )
        columns = table.schema.names
        for commit in commits:
            try:
                found = table.changes(since=commit.requested_time, deletes=True, before=True)
            except SnapshotCleaned:
                continue
            frame = table.changes(spark, since=commit.requested_time, deletes=True, before=True)
            assert rows_in(frame) == rows_of(found)
            types = found["_change_type"]
            is_old = pa.compute.is_in(types, pa.array(["delete", "update_preimage"]))
            gone = found.filter(is_old).select(columns)
            new = found.filter(pa.compute.invert(is_old)).select(columns)
            then = table.to_arrow(as_of=commit.requested_time, columns=columns)
            now = table.to_arrow(columns=columns)
            assert rows_of(pa.concat_tables([then, new])) == rows_of(pa.concat_tables([now, gone]))


def test_bad_calls_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    followed = follow_new_table(tmp_path, "cow")
    followed.play("insert", Random(1))
    since = followed.past[0][0]
    with pytest.raises(InputError, match="unknown column 'w'"):
        followed.table.changes(spark, since=since, deletes=True, columns=["w"])
    schema = pa.schema([("id", pa.string())])
    memory = hoodoo.create_table("memory://feed", schema=schema, record_key="id")
    with pytest.raises(UnsupportedFeature, match="memory of one process"):
        memory.changes(spark, since="2020-01-01", deletes=True)
