"""The global index: a key is one row of the table, in whatever partition it lives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.indexed import GLOBAL, KINDS, SCHEMA, STAYS, Row, arrow, create, read_both

import hoodoo
from hoodoo.read.snapshot import take_snapshot


@KINDS
def test_rows_move_to_another_partition_and_back(tmp_path: Path, kind: str) -> None:
    table = create(tmp_path / "t", kind, GLOBAL, "ts")
    table.upsert(arrow([("a", "x", 5, 1), ("b", "x", 5, 2)]))
    table.upsert(arrow([("a", "y", 6, 3), ("b", "y", 4, 4)]))  # b is older than what is there
    assert read_both(table) == [("a", "y", 6, 3), ("b", "x", 5, 2)]
    table.upsert(arrow([("a", "x", 6, 5)]))  # of equal age: the later one wins
    assert read_both(table) == [("a", "x", 6, 5), ("b", "x", 5, 2)]
    assert set(table.to_arrow()["_hoodie_partition_path"].to_pylist()) == {"p=x"}


@KINDS
def test_rows_stay_in_their_partition_if_told_so(tmp_path: Path, kind: str) -> None:
    """The partition column says what was written, the path where the row lives; as Hudi does."""
    table = create(tmp_path / "t", kind, STAYS, "ts")
    table.upsert(arrow([("a", "x", 5, 1), ("b", "y", 5, 2)]))
    table.upsert(arrow([("a", "y", 6, 3), ("c", "y", 1, 4)]))
    assert read_both(table) == [("a", "y", 6, 3), ("b", "y", 5, 2), ("c", "y", 1, 4)]
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
    table = create(tmp_path / "t", kind, GLOBAL, "ts")
    table.insert(arrow([("k", "x", 1, 1), ("k", "y", 2, 2), ("m", "x", 1, 1)]))
    table.upsert(arrow([row]))
    assert read_both(table) == [*after, ("m", "x", 1, 1)]


@KINDS
def test_incoming_rows_of_one_key_are_one(tmp_path: Path, kind: str) -> None:
    options = {**GLOBAL, "hoodie.combine.before.upsert": "false"}
    table = create(tmp_path / "t", kind, options, "ts")
    table.upsert(arrow([("k", "x", 1, 1), ("k", "y", 3, 2), ("k", "z", 2, 3)]))
    assert read_both(table) == [("k", "y", 3, 2)]
    table.delete(pa.table({"id": ["k", "k"], "p": ["x", "elsewhere"]}))
    assert read_both(table) == []


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


@pytest.mark.parametrize("options", [GLOBAL, STAYS], ids=["moves", "stays"])
def test_a_deleted_key_still_belongs_to_its_group(tmp_path: Path, options: dict[str, str]) -> None:
    table = create(tmp_path / "t", "mor", {**options, "hoodie.parquet.small.file.limit": "0"}, None)
    table.upsert(arrow([("a", "x", 1, 1), ("b", "x", 1, 1)]))
    table.delete(["a"])
    table.upsert(arrow([("a", "x", 1, 2)]))
    assert read_both(table) == [("a", "x", 1, 2), ("b", "x", 1, 1)]
    assert len(take_snapshot(table._ref).slices()) == 1
