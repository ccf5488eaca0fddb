"""Every index against a dict: random histories of writes, read by us and by the wheel."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.wheel import wheel_rows

import hoodoo
from hoodoo.errors import ConfigError, FormatError, WriteConflict
from hoodoo.model.buckets import BucketRule, bucket_of
from hoodoo.model.names import parse_base_file
from hoodoo.rows.buckets import bucket_numbers
from hoodoo.table.ref import open_ref
from hoodoo.table.snapshot import take_snapshot
from hoodoo.write import operations
from hoodoo.write.handle import run_handle

SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string()), ("ts", pa.int64()), ("v", pa.int64())])
INDEX = "hoodie.index.type"
BUCKETS = {INDEX: "BUCKET", "hoodie.bucket.index.num.buckets": "3"}
GLOBAL = {INDEX: "GLOBAL_SIMPLE"}
STAYS = {**GLOBAL, "hoodie.simple.index.update.partition.path": "false"}
Row = tuple[str, str, int, int]  # id, p, ts, v


def arrow(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)


def made(place: Path | str, kind: str, options: dict[str, str], ordering: str | None) -> Any:
    return hoodoo.create_table(
        str(place),
        schema=SCHEMA,
        record_key="id",
        partition_by="p",
        ordering=ordering,
        table_type=kind,
        options=options,
    )


def rows_in(table: pa.Table) -> list[Row]:
    return sorted(tuple(row.values()) for row in table.select(SCHEMA.names).to_pylist())


def read(table: Any) -> list[Row]:
    """What we read, once the wheel reads the same."""
    ours = rows_in(table.to_arrow())
    theirs = [tuple(row[name] for name in SCHEMA.names) for row in wheel_rows(table.uri)]
    assert ours == sorted(theirs)
    return ours


@dataclass
class Model:
    """What the table should hold: by key and partition, or, by the global index, by key."""

    is_global: bool
    by_event: bool
    moves: bool = True
    rows: dict[Any, Row] = field(default_factory=dict)
    place: dict[Any, str] = field(default_factory=dict)

    def key(self, id_: str, partition: str) -> Any:
        return id_ if self.is_global else (id_, partition)

    def winners(self, given: list[Row]) -> list[Row]:
        found: dict[Any, Row] = {}
        for row in given:
            old = found.get(self.key(*row[:2]))
            if old is None or not self.by_event or row[2] >= old[2]:
                found[self.key(*row[:2])] = row
        return list(found.values())

    def upsert(self, given: list[Row]) -> None:
        for row in self.winners(given):
            key = self.key(*row[:2])
            old = self.rows.get(key)
            if old is None or not self.by_event or row[2] >= old[2]:
                if old is None or self.moves:
                    self.place[key] = row[1]
                self.rows[key] = row

    def delete(self, ids: list[str], partition: str | None) -> None:
        for row in list(self.rows.values()):
            key = self.key(*row[:2])
            is_there = self.is_global or partition is None or self.place[key] == partition
            if row[0] in ids and is_there:
                del self.rows[key]

    def overwrite(self, given: list[Row]) -> None:
        touched = {row[1] for row in given}
        for key in [key for key in self.rows if self.place[key] in touched]:
            del self.rows[key]
        self.upsert(given)


IDS = st.sampled_from([f"key-{n}" for n in range(6)])
PARTITIONS = st.sampled_from(["x", "y z"])
ROWS = st.lists(
    st.tuples(IDS, PARTITIONS, st.integers(0, 3), st.integers(0, 999)), min_size=1, max_size=6
)
STEPS = st.one_of(
    st.tuples(st.just("insert"), ROWS),
    st.tuples(st.just("upsert"), ROWS),
    st.tuples(st.just("upsert"), ROWS),
    st.tuples(st.just("delete"), st.tuples(st.lists(IDS, min_size=1, max_size=3), PARTITIONS)),
    st.tuples(st.just("delete everywhere"), st.lists(IDS, min_size=1, max_size=2)),
    st.tuples(st.just("overwrite"), ROWS),
)


def apply(table: Any, model: Model, step: str, given: Any) -> None:
    match step:
        case "insert":  # of keys that are not there: an insert does not look for them
            fresh = [r for r in model.winners(given) if model.key(*r[:2]) not in model.rows]
            model.upsert(fresh)
            table.insert(arrow(fresh))
        case "upsert":
            model.upsert(given)
            table.upsert(arrow(given))
        case "delete":
            ids, partition = given
            model.delete(ids, partition)
            table.delete(pa.table({"id": ids, "p": [partition] * len(ids)}))
        case "delete everywhere":
            model.delete(given, None)
            table.delete(given)
        case "overwrite":
            # Where a key is one row of the table, an overwrite may make it two.
            fresh = [
                r
                for r in model.winners(given)
                if model.place.get(model.key(*r[:2]), r[1]) == r[1]
                or model.key(*r[:2]) not in model.rows
            ]
            model.overwrite(fresh)
            table.insert_overwrite(arrow(fresh))


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("ordering", ["ts", None])
@pytest.mark.parametrize(
    "options",
    [{INDEX: "BLOOM"}, BUCKETS, GLOBAL, STAYS],
    ids=["bloom", "bucket", "global", "stays"],
)
@settings(max_examples=6)
@given(steps=st.lists(STEPS, min_size=2, max_size=6))
def test_histories(
    options: dict[str, str], ordering: str | None, kind: str, steps: list[tuple[str, Any]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = made(f"{folder}/t", kind, options, ordering)
        model = Model(
            options[INDEX] == "GLOBAL_SIMPLE", ordering is not None, moves=options is not STAYS
        )
        for step, given in steps:
            apply(table, model, step, given)
            assert rows_in(table.to_arrow()) == sorted(model.rows.values())
        assert read(table) == sorted(model.rows.values())
        if options is BUCKETS:
            assert_in_buckets(table)


def assert_in_buckets(table: Any) -> None:
    """One file group for each bucket, with the keys of that bucket."""
    rows = table.to_arrow()
    numbers = bucket_numbers(rows.column("_hoodie_record_key"), BucketRule(3, ("id",)))
    groups = set()
    for partition, file, number in zip(
        rows.column("_hoodie_partition_path").to_pylist(),
        rows.column("_hoodie_file_name").to_pylist(),
        numbers.tolist(),
        strict=True,
    ):
        name = parse_base_file(file)
        file_id = name.file_id if name else file
        assert bucket_of(file_id) == number
        groups.add((partition, file_id))
    assert max(Counter((p, bucket_of(i)) for p, i in groups).values(), default=1) == 1


# -- the global index -------------------------------------------------------------------------

KINDS = pytest.mark.parametrize("kind", ["cow", "mor"])


@KINDS
def test_rows_move_to_another_partition_and_back(tmp_path: Path, kind: str) -> None:
    table = made(tmp_path / "t", kind, GLOBAL, "ts")
    table.upsert(arrow([("a", "x", 5, 1), ("b", "x", 5, 2)]))
    table.upsert(arrow([("a", "y", 6, 3), ("b", "y", 4, 4)]))  # b is older than what is there
    assert read(table) == [("a", "y", 6, 3), ("b", "x", 5, 2)]
    table.upsert(arrow([("a", "x", 6, 5)]))  # of equal age: the later one wins
    assert read(table) == [("a", "x", 6, 5), ("b", "x", 5, 2)]
    assert set(table.to_arrow()["_hoodie_partition_path"].to_pylist()) == {"p=x"}


@KINDS
def test_rows_stay_in_their_partition_if_told_so(tmp_path: Path, kind: str) -> None:
    """The partition column says what was written, the path where the row lives; as Hudi does."""
    table = made(tmp_path / "t", kind, STAYS, "ts")
    table.upsert(arrow([("a", "x", 5, 1), ("b", "y", 5, 2)]))
    table.upsert(arrow([("a", "y", 6, 3), ("c", "y", 1, 4)]))
    assert read(table) == [("a", "y", 6, 3), ("b", "y", 5, 2), ("c", "y", 1, 4)]
    paths = table.to_arrow().select(["id", "_hoodie_partition_path"]).to_pylist()
    assert sorted(tuple(row.values()) for row in paths) == [
        ("a", "p=x"),
        ("b", "p=y"),
        ("c", "p=y"),
    ]


@KINDS
@pytest.mark.parametrize(
    ("row", "after"),
    [
        (("k", "z", 3, 9), [("k", "z", 3, 9)]),
        (("k", "y", 3, 9), [("k", "y", 3, 9)]),
        (("k", "z", 1, 9), [("k", "x", 1, 1), ("k", "y", 2, 2)]),  # y has a newer one
        (("k", "y", 1, 9), [("k", "y", 2, 2)]),  # the newer one is in its own partition
    ],
)
def test_a_key_that_is_there_twice_becomes_one_row(
    tmp_path: Path, kind: str, row: Row, after: list[Row]
) -> None:
    table = made(tmp_path / "t", kind, GLOBAL, "ts")
    table.insert(arrow([("k", "x", 1, 1), ("k", "y", 2, 2), ("m", "x", 1, 1)]))
    table.upsert(arrow([row]))
    assert read(table) == [*after, ("m", "x", 1, 1)]


@KINDS
def test_incoming_rows_of_one_key_are_one(tmp_path: Path, kind: str) -> None:
    options = {**GLOBAL, "hoodie.combine.before.upsert": "false"}
    table = made(tmp_path / "t", kind, options, "ts")
    table.upsert(arrow([("k", "x", 1, 1), ("k", "y", 3, 2), ("k", "z", 2, 3)]))
    assert read(table) == [("k", "y", 3, 2)]
    table.delete(pa.table({"id": ["k", "k"], "p": ["x", "elsewhere"]}))
    assert read(table) == []


@KINDS
def test_rows_marked_as_deleted_are_deleted_wherever_they_live(tmp_path: Path, kind: str) -> None:
    schema = SCHEMA.append(pa.field("_hoodie_is_deleted", pa.bool_()))
    table = hoodoo.create_table(
        str(tmp_path / "t"),
        schema=schema,
        record_key="id",
        partition_by="p",
        ordering="ts",
        table_type=kind,
        options=GLOBAL,
    )

    def upsert(*rows: tuple[Any, ...]) -> None:
        named = [dict(zip(schema.names, row, strict=True)) for row in rows]
        table.upsert(pa.Table.from_pylist(named, schema))

    upsert(("a", "x", 5, 1, False), ("b", "x", 5, 1, False), ("new", "x", 5, 1, True))
    upsert(("a", "y", 6, 1, True), ("b", "y", 4, 1, True), ("gone", "z", 1, 1, True))
    assert table.to_arrow()["id"].to_pylist() == ["b"]
    assert {s.group.partition for s in take_snapshot(table._ref).slices()} == {"p=x"}


# -- buckets ----------------------------------------------------------------------------------


def base_files(place: Path) -> list[str]:
    return sorted(str(file.relative_to(place)) for file in place.rglob("p=*/*.parquet"))


@KINDS
@pytest.mark.parametrize("write", ["insert", "bulk_insert", "upsert", "insert_overwrite"])
def test_a_bucket_is_one_file_group_however_large(tmp_path: Path, kind: str, write: str) -> None:
    options = {
        **BUCKETS,
        "hoodie.parquet.max.file.size": "2000",
        "hoodie.parquet.block.size": "1024",
    }
    table = made(tmp_path / "t", kind, options, None)
    rows = [(f"key-{n:05d}", "x", n, n) for n in range(20_000)]
    getattr(table, write)(arrow(rows))
    assert len(base_files(tmp_path / "t")) == 3
    assert_in_buckets(table)
    assert rows_in(table.to_arrow()) == rows


@pytest.mark.parametrize("write", ["insert", "bulk_insert"])
def test_inserts_go_to_the_buckets_that_are_there(tmp_path: Path, write: str) -> None:
    """Rows in base files stay beside others of their key; rows in logs take their place."""
    for kind in ("cow", "mor"):
        table = made(tmp_path / kind, kind, BUCKETS, None)
        table.upsert(arrow([(f"k{n}", "x", 1, n) for n in range(9)]))
        before = {s.group for s in take_snapshot(table._ref).slices()}
        getattr(table, write)(arrow([("k1", "x", 2, 20), ("new", "x", 2, 30)]))
        slices = take_snapshot(table._ref).slices()
        assert {s.group for s in slices} == before
        assert any(s.logs for s in slices) is (kind == "mor")
        old = [("k1", "x", 1, 1)] if kind == "cow" else []
        assert read(table) == sorted(
            [
                *((f"k{n}", "x", 1, n) for n in range(9) if n != 1),
                *(*old, ("k1", "x", 2, 20), ("new", "x", 2, 30)),
            ]
        )


def test_inserts_that_bring_keys_back_merge_like_those_in_logs(tmp_path: Path) -> None:
    table = made(tmp_path / "t", "mor", {**BUCKETS, "hoodie.bucket.index.num.buckets": "1"}, "ts")
    table.upsert(arrow([("a", "x", 5, 1), ("b", "x", 5, 1)]))
    table.delete(["a"])
    table.insert(arrow([("a", "x", 1, 2), ("b", "x", 6, 2)]))
    assert read(table) == [("a", "x", 1, 2), ("b", "x", 6, 2)]


@KINDS
def test_overwritten_buckets_are_new_groups(tmp_path: Path, kind: str) -> None:
    table = made(tmp_path / "t", kind, BUCKETS, None)
    table.upsert(arrow([(f"k{n}", p, 1, n) for n in range(9) for p in "xy"]))
    before = {s.group for s in take_snapshot(table._ref).slices()}
    table.insert_overwrite(arrow([("k1", "x", 2, 1), ("k2", "x", 2, 2)]))
    after = {s.group for s in take_snapshot(table._ref).slices()}
    assert {g for g in after & before} == {g for g in before if g.partition == "p=y"}
    table.upsert(arrow([("k1", "x", 3, 5)]))
    assert {s.group for s in take_snapshot(table._ref).slices()} == after
    assert [row for row in read(table) if row[1] == "x"] == [("k1", "x", 3, 5), ("k2", "x", 2, 2)]


def test_buckets_by_a_part_of_the_key(tmp_path: Path) -> None:
    options = {**BUCKETS, "hoodie.bucket.index.hash.field": "p"}
    table = hoodoo.create_table(
        str(tmp_path / "t"), schema=SCHEMA, record_key=["id", "p"], options=options
    )
    rows = [(f"k{n}", p, 1, n) for n in range(20) for p in ("x", "y")]
    table.upsert(arrow(rows))
    table.upsert(arrow(rows))
    assert read(table) == sorted(rows)
    names = table.to_arrow().select(["p", "_hoodie_file_name"]).to_pylist()
    files = {(row["p"], bucket_of(row["_hoodie_file_name"])) for row in names}
    # Java's hash of a list of "x" is 31 + 120, of "y" 31 + 121.
    assert files == {("x", 151 % 3), ("y", 152 % 3)}


def test_buckets_are_for_good(tmp_path: Path) -> None:
    place = str(tmp_path / "t")
    table = made(place, "cow", BUCKETS, None)
    table.upsert(arrow([(f"k{n}", "x", 1, n) for n in range(9)]))
    for fewer in (table.upsert, table.insert, table.bulk_insert, table.delete):
        given = open_with(table, {"hoodie.bucket.index.num.buckets": "2"})
        with pytest.raises(ConfigError, match=r"num\.buckets.*none of these buckets"):
            getattr(given, fewer.__name__)(arrow([("k", "x", 1, 1)]))
    plain = made(tmp_path / "plain", "cow", {}, None)
    plain.upsert(arrow([("k", "x", 1, 1)]))
    with pytest.raises((ConfigError, FormatError)):
        open_with(plain, BUCKETS).upsert(arrow([("k", "x", 1, 1)]))
    assert read(plain) == [("k", "x", 1, 1)]


def open_with(table: Any, options: dict[str, str]) -> Any:
    return hoodoo.open_table(table.uri, {**BUCKETS, **options})


class Interrupted:
    """Runs tasks one by one, and after the first ones something else."""

    repeats = False

    def __init__(self, meanwhile: Any) -> None:
        self._meanwhile = [meanwhile]

    def map(self, task: Any, items: Any) -> list[Any]:
        done = [task(item) for item in items]
        if task is run_handle and self._meanwhile:
            self._meanwhile.pop()()
        return done


@KINDS
def test_two_writers_cannot_both_make_a_bucket(tmp_path: Path, kind: str) -> None:
    place = str(tmp_path / "t")
    table = made(place, kind, BUCKETS, None)
    other = arrow([("a", "x", 1, 1)])
    same = [f"k{n}" for n in range(50) if bucket(f"k{n}") == bucket("a")][0]
    apart = [f"k{n}" for n in range(50) if bucket(f"k{n}") != bucket("a")][0]
    with pytest.raises(WriteConflict):
        operations.upsert(
            open_ref(place, BUCKETS),
            arrow([(same, "x", 1, 1)]),
            Interrupted(lambda: table.upsert(other)),
        )
    operations.upsert(
        open_ref(place, BUCKETS),
        arrow([(apart, "x", 1, 1)]),
        Interrupted(lambda: table.upsert(arrow([("a", "x", 2, 2)]))),
    )
    assert read(table) == sorted([("a", "x", 2, 2), (apart, "x", 1, 1)])


def bucket(key: str) -> int:
    return int(bucket_numbers(pa.array([key]), BucketRule(3, ("id",)))[0])


# -- the bloom index --------------------------------------------------------------------------


@KINDS
def test_the_bloom_index_spares_files_by_their_footers(tmp_path: Path, kind: str) -> None:
    options = {"hoodie.parquet.small.file.limit": "0"}
    table = made(tmp_path / "t", kind, options, None)
    table.insert(arrow([(f"key-{n:06d}", "x", 1, n) for n in range(40_000)]))
    (file,) = (tmp_path / "t").rglob("p=*/*.parquet")
    data = bytearray(file.read_bytes())
    data[1000 : len(data) // 2] = bytes(len(data) // 2 - 1000)  # only the footer is left
    file.write_bytes(data)
    new = arrow([("later", "x", 1, 1)])
    with pytest.raises(FormatError):
        table.upsert(new)
    bloom = hoodoo.open_table(table.uri, {**options, INDEX: "BLOOM"})
    assert bloom.upsert(new).stats.inserted == 1
    with pytest.raises(FormatError):
        bloom.upsert(arrow([("key-000001", "x", 1, 1)]))


def test_the_bloom_index_finds_keys_in_logs_and_forgets_the_deleted(tmp_path: Path) -> None:
    table = made(tmp_path / "t", "mor", {INDEX: "BLOOM"}, "ts")
    table.upsert(arrow([("a", "x", 5, 1), ("b", "x", 5, 1)]))
    table.upsert(arrow([("a", "x", 6, 2)]))
    table.delete(["a"])
    commits = len(table._ref.load_timeline().commits.instants)
    assert table.delete(["a"]).stats.deleted == 0
    assert len(table._ref.load_timeline().commits.instants) == commits + 1
    table.upsert(arrow([("a", "x", 1, 3)]))
    assert read(table) == [("a", "x", 1, 3), ("b", "x", 5, 1)]
    assert len(take_snapshot(table._ref).slices()) == 1
