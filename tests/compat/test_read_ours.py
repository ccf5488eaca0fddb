"""Tables that we write are read by Apache Hudi to the same rows, and it can go on with them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from compat.peer_client import READ_OPTIMIZED, Peer
from compat.peer_rows import FIRST, ODD, narrow, trips, two_level, typed
from compat.peer_tables import COMPACT, METADATA, OPERATION
from compat.same_rows import assert_same_rows

import hoodoo

SCHEMA = trips("a sf 1 1").schema
BLOCK = "hoodie.logfile.data.block.format"
KINDS = ["cow", "mor parquet", "mor avro"]


def make(path: Path, kind: str = "cow", **arguments: Any) -> hoodoo.Table:
    """A new table of ours; `kind` is a table type and, for MOR, a log format."""
    table_type, _, block = kind.partition(" ")
    options = {BLOCK: block} if block else {}
    arguments = {"record_key": "id", "partition_by": "city", "ordering": "ts", **arguments}
    options |= arguments.pop("options", {})
    return hoodoo.create_table(
        str(path / "trips"),
        **{"schema": SCHEMA, **arguments},
        table_type=table_type,
        options=options,
    )


def check(hudi: Peer, table: hoodoo.Table, *expected: str) -> None:
    """Hudi's snapshot is ours, and, where given, the expected `id ts fare`."""
    theirs = hudi.read(table.uri)
    assert_same_rows(table.to_arrow(), theirs)
    if expected:
        found = zip(*(theirs[name].to_pylist() for name in ("id", "ts", "fare")), strict=True)
        assert sorted(f"{key} {ts} {fare:g}" for key, ts, fare in found) == sorted(expected)


@pytest.mark.parametrize("kind", KINDS)
def test_life(hudi: Peer, tmp_path: Path, kind: str) -> None:
    """Insert, update (one late), delete; then the past, the base files, and the changes."""
    table = make(tmp_path, kind)
    first = table.insert(trips(*FIRST))
    check(hudi, table, "a 1 10", "b 1 20", "c 1 30", "d 1 40", "e 1 50")
    second = table.upsert(trips("a sf 2 11", "c la 0 -1", "f rome 1 60", "g sf 1 70"))
    after = ("a 2 11", "b 1 20", "c 1 30", "d 1 40", "e 1 50", "f 1 60", "g 1 70")
    check(hudi, table, *after)
    table.delete(trips("b sf 9 0", "d la 0 0"))  # the second comes too late by its ordering value
    table.delete(["e"])
    check(hudi, table, "a 2 11", "c 1 30", "d 1 40", "f 1 60", "g 1 70")

    for result in (first, second):
        theirs = hudi.as_of(table.uri, result.instant)
        assert_same_rows(table.to_arrow(as_of=result.instant), theirs)
        assert theirs.num_rows == (5 if result is first else 7)
    optimized = hudi.read(table.uri, READ_OPTIMIZED)
    assert_same_rows(table.to_arrow(mode="read_optimized"), optimized)
    changed = hudi.changes(table.uri, first.completion_time)
    changed = changed.filter(
        pc.not_equal(changed["id"], "c")
    )  # on MOR Hudi shows the late update too
    assert sorted(changed["id"].to_pylist()) == ["a", "f", "g"]
    assert_same_rows(table.changes(since=first.completion_time), changed)


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_commit_time_ordering(hudi: Peer, tmp_path: Path, kind: str) -> None:
    table = make(tmp_path, kind, ordering=None)
    table.insert(trips(*FIRST))
    table.upsert(trips("a sf 0 11"))
    table.delete(trips("c la 0 0"))
    check(hudi, table, "a 0 11", "b 1 20", "d 1 40", "e 1 50")


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_overwrite(hudi: Peer, tmp_path: Path, kind: str) -> None:
    table = make(tmp_path, kind)
    table.insert(trips(*FIRST))
    table.upsert(trips("c la 2 31"))
    before = table.upsert(trips("a sf 2 11"))
    table.insert_overwrite(trips("x la 1 1", "y rome 1 2"))
    check(hudi, table, "a 2 11", "b 1 20", "e 1 50", "x 1 1", "y 1 2")
    assert_same_rows(table.to_arrow(as_of=before.instant), hudi.as_of(table.uri, before.instant))
    table.delete_partitions(["city=ny"])
    table.upsert(trips("x la 2 9"))
    check(hudi, table, "a 2 11", "b 1 20", "x 2 9", "y 1 2")
    table.insert_overwrite_table(trips("z la 1 3"))
    check(hudi, table, "z 1 3")


@pytest.mark.parametrize("kind", KINDS)
def test_evolution(hudi: Peer, tmp_path: Path, kind: str) -> None:
    """A column added, then int widened to long and float to double."""
    rows = narrow("a sf 1 1.5", "b sf 1 2.5", "c la 1 3.5")
    table = make(tmp_path, kind, schema=rows.schema)
    table.insert(rows)
    note = pa.array(["hi", None], pa.string())
    table.upsert(narrow("a sf 2 1.75", "d la 1 4.5").append_column("note", note))
    check(hudi, table, "a 2 1.75", "b 1 2.5", "c 1 3.5", "d 1 4.5")
    wide = trips("b sf 3000000000 0.1", "e ny 1 5.5").append_column("note", note)
    table.upsert(wide)
    check(hudi, table, "a 2 1.75", "b 3000000000 0.1", "c 1 3.5", "d 1 4.5", "e 1 5.5")


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_two_keys_two_partitions(hudi: Peer, tmp_path: Path, kind: str) -> None:
    rows = two_level("a 1 sf 2024 10", "a 2 sf 2024 20", "b - la 2025 30", "c 3 - 2025 40")
    table = make(
        tmp_path, kind, schema=rows.schema, record_key=["id", "n"], partition_by=["city", "year"]
    )
    table.insert(rows)
    table.upsert(two_level("a 2 sf 2024 21", "b - la 2025 31"))
    check(hudi, table, "a 1 10", "a 1 21", "b 1 31", "c 1 40")
    assert "id:b,n:__null__" in table.to_arrow()["_hoodie_record_key"].to_pylist()


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_no_partitions(hudi: Peer, tmp_path: Path, kind: str) -> None:
    table = make(tmp_path, kind, partition_by=None)
    table.insert(trips(*FIRST))
    table.upsert(trips("a sf 2 11", "f ny 1 60"))
    table.delete(["b"])
    check(hudi, table, "a 2 11", "c 1 30", "d 1 40", "e 1 50", "f 1 60")


@pytest.mark.parametrize("hive", [True, False])
def test_odd_partition_values(hudi: Peer, tmp_path: Path, hive: bool) -> None:
    options = {
        "hoodie.datasource.write.partitionpath.urlencode": True,
        "hoodie.datasource.write.hive_style_partitioning": hive,
    }
    table = make(tmp_path, "mor", options=options)
    rows = trips(*(f"k{n:02} - 1 {n}" for n in range(len(ODD))))
    rows = rows.set_column(1, "city", pa.array(ODD, pa.string()))
    table.insert(rows)
    table.upsert(rows.slice(2, 5))
    check(hudi, table)


@pytest.mark.parametrize("kind", KINDS)
def test_all_types(hudi: Peer, tmp_path: Path, kind: str) -> None:
    gaps = pa.array([[None], ["x", None], [], None], pa.list_(pa.string()))  # Hudi writes none
    rows = typed(0, 4).append_column("gaps", gaps)
    table = make(tmp_path, kind, schema=rows.schema)
    table.insert(rows)
    table.upsert(typed(2, 6).append_column("gaps", gaps))
    check(hudi, table)
    assert hudi.read(table.uri).num_rows == 6


TYPED_KEYS = {
    "flag": pa.array([True, False]),
    "int": pa.array([-7, 2**31 - 1], pa.int32()),
    "long": pa.array([-(2**63), 2**40], pa.int64()),
    "day": pa.array([dt.date(2024, 1, 15), dt.date(1969, 12, 31)]),
    "at": pa.array([dt.datetime(2024, 1, 15, 10, 30, 0, 123456), None], pa.timestamp("us", "UTC")),
    "price": pa.array([Decimal("12.50"), Decimal("-0.10")], pa.decimal128(10, 2)),
    "real": pa.array([0.1, 1e10], pa.float32()),
    "double": pa.array([1e-7, 123456789.125], pa.float64()),
}


def test_keys_and_paths_are_spelled_as_hudi_spells_them(hudi: Peer, tmp_path: Path) -> None:
    """Hudi writes the same rows into its own table: keys and partition paths are the same."""
    rows = trips("a - 1 1", "b - 1 2")
    for name, values in TYPED_KEYS.items():
        rows = rows.append_column(name, values)
    keys = ["id", *TYPED_KEYS]
    # Hudi itself reads a column of timestamps back as null if it partitions by it.
    partitions = [name for name in TYPED_KEYS if name != "at"]
    ours = make(tmp_path, schema=rows.schema, record_key=keys, partition_by=partitions)
    ours.insert(rows)
    options = {
        "hoodie.table.name": "trips",
        "hoodie.datasource.write.recordkey.field": ",".join(keys),
        "hoodie.datasource.write.partitionpath.field": ",".join(partitions),
        "hoodie.datasource.write.hive_style_partitioning": "true",
        METADATA: "false",
    }
    hudi.write(tmp_path / "theirs", rows, options)
    theirs = hudi.read(tmp_path / "theirs")
    besides = ("_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_file_name")
    assert_same_rows(ours.to_arrow(), theirs, besides=besides)
    check(hudi, ours)


@pytest.mark.parametrize("kind", ["cow", "mor parquet"])
def test_hudi_goes_on_and_so_do_we(hudi: Peer, tmp_path: Path, kind: str) -> None:
    """Turn by turn: we, Hudi, we; then Hudi compacts our logs, cleans and builds its index."""
    table = make(tmp_path, kind)
    table.insert(trips(*FIRST))
    table.upsert(trips("a sf 2 11", "c la 2 31"))
    alone = {"hoodie.table.name": "trips", METADATA: "false", "hoodie.compact.inline": "false"}
    hudi.write(table.uri, trips("a sf 3 12", "b sf 0 -1", "h ny 1 80"), alone)
    hudi.write(table.uri, trips("e ny 1 0"), {**alone, OPERATION: "delete"})
    table = hoodoo.open_table(table.uri)
    check(hudi, table, "a 3 12", "b 1 20", "c 2 31", "d 1 40", "h 1 80")
    table.upsert(trips("a sf 4 13", "i oslo 1 90"))
    table.delete(trips("d la 1 0"))
    expected = ["a 4 13", "b 1 20", "c 2 31", "h 1 80", "i 1 90"]
    check(hudi, table, *expected)

    services = {"hoodie.table.name": "trips", "hoodie.clean.commits.retained": "1"}
    services |= {} if kind == "cow" else COMPACT
    hudi.write(table.uri, trips("j sf 1 99"), services)
    table = hoodoo.open_table(table.uri)
    done = {one.action for one in table.timeline()}
    assert "clean" in done
    assert kind == "cow" or "commit" in done, "Hudi compacted nothing"
    assert "files" in table.properties["hoodie.table.metadata.partitions"]
    check(hudi, table, *expected, "j 1 99")
    table.upsert(trips("a sf 9 9"))
    check(hudi, table, "a 9 9", *expected[1:], "j 1 99")


def test_table_without_commits(hudi: Peer, tmp_path: Path) -> None:
    table = make(tmp_path, "mor")
    check(hudi, table)
    assert hudi.read(table.uri).num_rows == 0
