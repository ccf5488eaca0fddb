"""Clustering changes where rows are, and nothing that a reader sees."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.wheel import wheel_rows

import hoodoo
from hoodoo.engine.local import LocalEngine
from hoodoo.errors import InputError, Unsupported
from hoodoo.format.parquet import open_parquet, read_footer
from hoodoo.model.commit import OperationType
from hoodoo.model.files import FileSlice
from hoodoo.services.clustering import run_clustering, schedule_clustering
from hoodoo.table.ref import open_ref
from hoodoo.table.snapshot import take_snapshot
from hoodoo.timeline.load import read_commit

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("city", pa.string()),
        ("ts", pa.int64()),
        ("fare", pa.float64()),
        ("note", pa.string()),
    ]
)
CITIES = ("oslo", "rome")
META = ("_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_record_key", "_hoodie_partition_path")


def rows(ids: range | list[int], ts: int = 1) -> pa.Table:
    values = [
        {
            "id": id,
            "city": CITIES[id % 2],
            "ts": ts,
            "fare": id * 7919 % 1000 / 7 if id % 5 else None,
            "note": f"note {id * 31 % 97} of {ts}" if id % 7 else None,
        }
        for id in ids
    ]
    return pa.Table.from_pylist(values, schema=SCHEMA)


def make(path: Path, kind: str = "cow", **options: Any) -> hoodoo.Table:
    named = {f"hoodie.{key.replace('__', '.')}": value for key, value in options.items()}
    return hoodoo.create_table(
        str(path / "t"),
        schema=SCHEMA,
        record_key="id",
        partition_by="city",
        ordering="ts",
        table_type=kind,
        options={"hoodie.parquet.small.file.limit": 0, **named},
    )


def fill(table: hoodoo.Table) -> list[str]:
    """A history with inserts, updates and deletes; its instants."""
    first = table.insert(rows(range(100)))
    table.insert(rows(range(100, 160)))
    table.upsert(rows([3, 50, 120, 200], ts=2))
    table.delete([4, 51, 121])
    last = table.upsert(rows([4, 60, 61, 300], ts=3))
    return [first.instant, last.instant]


def slices(table: hoodoo.Table) -> list[FileSlice]:
    return take_snapshot(open_ref(table.uri)).slices()


def rows_by_key(table: pa.Table) -> dict[str, dict[str, Any]]:
    """Rows with their meta columns, but for the name of their file."""
    found = table.to_pylist()
    by_key = {row["_hoodie_record_key"]: row for row in found}
    assert len(by_key) == len(found)
    for row in found:
        del row["_hoodie_file_name"]
    return by_key


def views(table: hoodoo.Table, instants: list[str]) -> Mapping[str, Any]:
    """All that readers may ask for."""
    seen: dict[str, Any] = {"now": rows_by_key(table.to_arrow())}
    for instant in instants:
        seen[f"as of {instant}"] = rows_by_key(table.to_arrow(as_of=instant))
        seen[f"since {instant}"] = rows_by_key(table.changes(since=instant))
    seen["since the beginning"] = rows_by_key(table.changes(since="2000-01-01"))
    return seen


def cluster(table: hoodoo.Table, **arguments: Any) -> str:
    ref = open_ref(table.uri)
    instant = schedule_clustering(ref, **arguments)
    assert instant is not None
    completed = run_clustering(ref, LocalEngine(2), instant)
    assert completed.requested_time == instant
    return instant


ORDERS = [
    {},
    {"order_by": ["fare"]},
    {"order_by": ["note", "fare"], "layout": "linear"},
    {"order_by": ["fare", "note"], "layout": "zorder"},
    {"order_by": ["fare", "ts", "note"], "layout": "hilbert"},
]


@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_readers_see_the_same_before_and_after(
    tmp_path: Path, kind: str, order: dict[str, Any]
) -> None:
    table = make(tmp_path, kind)
    instants = fill(table)
    before, count = views(table, instants), len(slices(table))
    cluster(table, **order)
    assert views(table, instants) == before
    after = slices(table)
    assert len(after) == len(CITIES) < count
    assert not any(slice_.logs for slice_ in after)
    theirs = wheel_rows(tmp_path / "t")
    ours = table.to_arrow().to_pylist()
    assert sorted(theirs, key=lambda row: row["id"]) == sorted(ours, key=lambda row: row["id"])
    table.upsert(rows([3, 500], ts=9))
    table.delete([60])
    expected = {**before["now"]}
    expected.pop("60")
    assert rows_by_key(table.to_arrow()).keys() == {*expected, "500"}
