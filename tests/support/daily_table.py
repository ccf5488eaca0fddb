"""A table with a partition a day, and one file group for each of the keys a, b and c."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

import hoodoo
from hoodoo.api.table import Table
from hoodoo.inspect.conflicts import InProgressReport

SCHEMA = pa.schema([("id", pa.string()), ("event_date", pa.string()), ("v", pa.int64())])
EARLY = "hoodie.write.concurrency.early.conflict.detection"
MANUAL: dict[str, object] = {
    "hoodie.table.services.enabled": "false",
    "hoodie.parquet.small.file.limit": 0,
}
BLIND = {**MANUAL, f"{EARLY}.enable": False}
"""A writer that looks for others only when it commits."""
LATE = {
    **MANUAL,
    f"{EARLY}.strategy": "simple_direct",
    "hoodie.write.concurrency.async.conflict.detector.initial_delay_ms": 600_000,
}
"""A writer that does not look when it begins, but when it announces a file."""
DAY, NEXT_DAY = "2026_01_05", "2026_01_06"
PARTITION = f"event_date={DAY}"


def rows(day: str = DAY, **values: int) -> pa.Table:
    """Rows of one day, from keys to values."""
    return pa.table([list(values), [day] * len(values), list(values.values())], schema=SCHEMA)


def upsert(day: str = DAY, **values: int) -> Callable[[Table], object]:
    """Work for a writer."""
    return lambda table: table.upsert(rows(day, **values))


def make_table(place: Path, table_type: str = "cow", **options: object) -> Path:
    """The table, without anybody at work on it."""
    hoodoo.create_table(
        str(place),
        schema=SCHEMA,
        record_key="id",
        partition_by="event_date",
        table_type=table_type,
        options=options,
    )
    table = hoodoo.open_table(str(place), MANUAL)
    for key in "abc":
        table.insert(rows(**{key: 1}))
    return place


def look(place: Path, **options: object) -> list[InProgressReport]:
    """Who is at work on it, as someone else sees that."""
    return hoodoo.open_table(str(place), options).conflicts()


def group_of(place: Path, key: str) -> str:
    """The file group of a key, as reports name it."""
    read = hoodoo.open_table(str(place)).to_arrow(filter=f"id = '{key}'")
    (name,) = read["_hoodie_file_name"].to_pylist()
    return f"{PARTITION}/{name.partition('_')[0]}"
