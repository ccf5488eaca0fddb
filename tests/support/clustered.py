"""Tables with several small file groups in each partition, to be clustered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

import hoodoo
from hoodoo.model.files import FileSlice
from hoodoo.read.snapshot import take_snapshot
from hoodoo.table.ref import open_ref

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


def rows(ids: range | list[int], ts: int = 1) -> pa.Table:
    values = [
        {
            "id": n,
            "city": CITIES[n % 2],
            "ts": ts,
            "fare": n * 7919 % 1000 / 7 if n % 5 else None,
            "note": f"note {n * 31 % 97} of {ts}" if n % 7 else None,
        }
        for n in ids
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


def cluster(table: hoodoo.Table, **arguments: Any) -> str:
    instant = table.schedule_clustering(**arguments)
    assert instant is not None
    result = table.run_clustering(instant)
    assert result is not None
    assert result.instant == instant
    return instant
