"""The bucket index: one file group for each bucket, whatever is written, and for good."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.indexed import (
    BUCKETS,
    KINDS,
    SCHEMA,
    arrow,
    assert_in_buckets,
    create,
    read_both,
    rows_in,
)

import hoodoo
from hoodoo.errors import ConfigError, WriteConflict
from hoodoo.model.commit import OperationType
from hoodoo.model.keys import BucketRule, bucket_of
from hoodoo.read.snapshot import take_snapshot
from hoodoo.table.ref import open_ref
from hoodoo.write import operations
from hoodoo.write.files.handle import run_handle
from hoodoo.write.index.bucket_hash import bucket_numbers


def base_files(place: Path) -> list[str]:
    return sorted(str(file.relative_to(place)) for file in place.rglob("p=*/*.parquet"))


@KINDS
@pytest.mark.parametrize("write", ["insert", "bulk_insert", "upsert", "insert_overwrite"])
def test_a_bucket_is_one_file_group_however_large(tmp_path: Path, kind: str, write: str) -> None:
    options = {**BUCKETS, "hoodie.parquet.max.file.size": "2000"}
    table = create(tmp_path / "t", kind, options, None)
    rows = [(f"key-{n:05d}", "x", n, n) for n in range(6_000)]
    getattr(table, write)(arrow(rows))
    assert len(base_files(tmp_path / "t")) == 3
    assert_in_buckets(table)
    assert rows_in(table.to_arrow()) == rows


@pytest.mark.parametrize("write", ["insert", "bulk_insert"])
def test_inserts_go_to_the_buckets_that_are_there(tmp_path: Path, write: str) -> None:
    """Rows in base files stay beside others of their key; rows in logs take their place."""
    for kind in ("cow", "mor"):
        table = create(tmp_path / kind, kind, BUCKETS, None)
        table.upsert(arrow([(f"k{n}", "x", 1, n) for n in range(9)]))
        before = {s.group for s in take_snapshot(table._ref).slices()}
        getattr(table, write)(arrow([("k1", "x", 2, 20), ("new", "x", 2, 30)]))
        slices = take_snapshot(table._ref).slices()
        assert {s.group for s in slices} == before
        assert any(s.logs for s in slices) is (kind == "mor")
        old = [("k1", "x", 1, 1)] if kind == "cow" else []
        assert read_both(table) == sorted(
            [
                *((f"k{n}", "x", 1, n) for n in range(9) if n != 1),
                *(*old, ("k1", "x", 2, 20), ("new", "x", 2, 30)),
            ]
        )


@KINDS
def test_inserted_rows_that_are_marked_as_deleted_are_none(tmp_path: Path, kind: str) -> None:
    schema = pa.schema([("id", pa.string()), ("_hoodie_is_deleted", pa.bool_())])
    options = {**BUCKETS, "hoodie.bucket.index.num.buckets": "1"}
    table = hoodoo.create_table(
        str(tmp_path / "t"), schema=schema, record_key="id", table_type=kind, options=options
    )
    for first, second in (("a", "b"), ("c", "d")):
        table.insert(pa.table([[first, second], [False, True]], schema=schema))
    assert sorted(table.to_arrow()["id"].to_pylist()) == ["a", "c"]


def test_inserts_that_bring_keys_back_merge_like_those_in_logs(tmp_path: Path) -> None:
    table = create(tmp_path / "t", "mor", {**BUCKETS, "hoodie.bucket.index.num.buckets": "1"}, "ts")
    table.upsert(arrow([("a", "x", 5, 1), ("b", "x", 5, 1)]))
    table.delete(["a"])
    table.insert(arrow([("a", "x", 1, 2), ("b", "x", 6, 2)]))
    assert read_both(table) == [("a", "x", 1, 2), ("b", "x", 6, 2)]


@KINDS
def test_overwritten_buckets_are_new_groups(tmp_path: Path, kind: str) -> None:
    table = create(tmp_path / "t", kind, BUCKETS, None)
    table.upsert(arrow([(f"k{n}", p, 1, n) for n in range(9) for p in "xy"]))
    before = {s.group for s in take_snapshot(table._ref).slices()}
    table.insert_overwrite(arrow([("k1", "x", 2, 1), ("k2", "x", 2, 2)]))
    after = {s.group for s in take_snapshot(table._ref).slices()}
    assert after & before == {g for g in before if g.partition == "p=y"}
    table.upsert(arrow([("k1", "x", 3, 5)]))
    assert {s.group for s in take_snapshot(table._ref).slices()} == after
    assert [row for row in read_both(table) if row[1] == "x"] == [
        ("k1", "x", 3, 5),
        ("k2", "x", 2, 2),
    ]


def test_buckets_by_a_part_of_the_key(tmp_path: Path) -> None:
    options = {**BUCKETS, "hoodie.bucket.index.hash.field": "p"}
    table = hoodoo.create_table(
        str(tmp_path / "t"), schema=SCHEMA, record_key=["id", "p"], options=options
    )
    rows = [(f"k{n}", p, 1, n) for n in range(20) for p in ("x", "y")]
    table.upsert(arrow(rows))
    table.upsert(arrow(rows))
    assert read_both(table) == sorted(rows)
    names = table.to_arrow().select(["p", "_hoodie_file_name"]).to_pylist()
    files = {(row["p"], bucket_of(row["_hoodie_file_name"])) for row in names}
    # Java's hash of a list of "x" is 31 + 120, of "y" 31 + 121.
    assert files == {("x", 151 % 3), ("y", 152 % 3)}


def forget_buckets(place: Path) -> None:
    """Leave the table's properties as Apache Hudi makes them: without a word of buckets."""
    properties = place / ".hoodie" / "hoodie.properties"
    lines = properties.read_text().splitlines()
    kept = [line for line in lines if "bucket.index" not in line and "index.type" not in line]
    assert len(kept) == len(lines) - 2
    properties.write_text("\n".join([*kept, ""]))


WRITES = pytest.mark.parametrize(
    "write", ["upsert", "insert", "bulk_insert", "insert_overwrite", "delete"]
)
ONE = arrow([("k", "x", 1, 1)])


@WRITES
@pytest.mark.parametrize("count", ["2", "1"])
def test_the_number_of_buckets_is_for_good(tmp_path: Path, write: str, count: str) -> None:
    table = create(tmp_path / "t", "cow", BUCKETS, None)
    forget_buckets(tmp_path / "t")
    table.upsert(arrow([(f"k{n}", "x", 1, n) for n in range(9)]))
    fewer = open_with_options(table, {"hoodie.bucket.index.num.buckets": count})
    with pytest.raises(ConfigError, match=r"num\.buckets.*none of these buckets"):
        getattr(fewer, write)(ONE)


@WRITES
def test_a_table_has_buckets_from_its_first_write_on(tmp_path: Path, write: str) -> None:
    plain = create(tmp_path / "plain", "cow", {}, None)
    plain.upsert(ONE)
    with pytest.raises(ConfigError, match="none of these buckets"):
        getattr(open_with_options(plain, {}), write)(ONE)
    bucketed = create(tmp_path / "buckets", "cow", BUCKETS, None)
    forget_buckets(tmp_path / "buckets")
    bucketed.upsert(ONE)
    with pytest.raises(ConfigError, match="has a bucket index: set BUCKET"):
        getattr(hoodoo.open_table(bucketed.uri), write)(ONE)
    assert read_both(plain) == read_both(bucketed) == [("k", "x", 1, 1)]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hoodie.index.type", "SIMPLE"),
        ("hoodie.bucket.index.num.buckets", "4"),
        ("hoodie.bucket.index.hash.field", "p"),
    ],
)
def test_what_the_table_says_of_buckets_holds(tmp_path: Path, key: str, value: str) -> None:
    table = hoodoo.create_table(
        str(tmp_path / "t"), schema=SCHEMA, record_key=["id", "p"], options=BUCKETS
    )
    hoodoo.open_table(table.uri).upsert(ONE)
    hoodoo.open_table(table.uri, {"hoodie.bucket.index.hash.field": "id,p"}).upsert(ONE)
    assert {bucket_of(s.group.file_id) for s in take_snapshot(open_ref(table.uri)).slices()} < {
        *range(3)
    }
    with pytest.raises(ConfigError, match="the table was made with") as caught:
        hoodoo.open_table(table.uri, {key: value}).upsert(ONE)
    assert caught.value.key == key


def open_with_options(table: Any, options: dict[str, str]) -> Any:
    return hoodoo.open_table(table.uri, {**BUCKETS, **options})


class Interrupted:
    """Runs tasks one by one, and after the first ones something else."""

    may_repeat_tasks = False

    def __init__(self, meanwhile: Any) -> None:
        self._meanwhile = [meanwhile]

    def map(self, task: Any, items: Any, **given: Any) -> list[Any]:
        done = [task(item) for item in items]
        if task is run_handle and self._meanwhile:
            self._meanwhile.pop()()
        return done


@KINDS
def test_two_writers_cannot_both_make_a_bucket(tmp_path: Path, kind: str) -> None:
    place = str(tmp_path / "t")
    table = create(place, kind, BUCKETS, None)
    other = arrow([("a", "x", 1, 1)])
    same = next(f"k{n}" for n in range(50) if bucket(f"k{n}") == bucket("a"))
    apart = next(f"k{n}" for n in range(50) if bucket(f"k{n}") != bucket("a"))
    with pytest.raises(WriteConflict):
        operations.write(
            open_ref(place, BUCKETS),
            OperationType.UPSERT,
            arrow([(same, "x", 1, 1)]),
            Interrupted(lambda: table.upsert(other)),
        )
    operations.write(
        open_ref(place, BUCKETS),
        OperationType.UPSERT,
        arrow([(apart, "x", 1, 1)]),
        Interrupted(lambda: table.upsert(arrow([("a", "x", 2, 2)]))),
    )
    assert read_both(table) == sorted([("a", "x", 2, 2), (apart, "x", 1, 1)])


def bucket(key: str) -> int:
    return int(bucket_numbers(pa.array([key]), BucketRule(3, ("id",)))[0])
