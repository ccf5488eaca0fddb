#!/usr/bin/env python3
"""`make demo`: a table from its creation to time travel, in a few seconds and without Spark.

The table is made in `demo-table`, or in the directory given.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
from rich.console import Console
from rich.table import Table as Grid

import hoodoo

PLACE = Path(sys.argv[1] if len(sys.argv) > 1 else "demo-table")
NUMBERS = {"fare", "ts", "bytes"}
COLUMNS = ["trip_id", "city", "rider", "fare", "ts"]
SCHEMA = pa.schema(
    [
        ("trip_id", pa.string()),
        ("city", pa.string()),
        ("rider", pa.string()),
        ("fare", pa.float64()),
        ("ts", pa.int64()),
    ]
)

MONDAY = [
    ("t1", "san_francisco", "ada", 19.10, 1),
    ("t2", "san_francisco", "bob", 27.70, 1),
    ("t3", "sao_paulo", "cy", 33.90, 1),
    ("t4", "sao_paulo", "dee", 64.25, 1),
    ("t5", "chennai", "eve", 17.85, 1),
]
TUESDAY = [
    ("t1", "san_francisco", "ada", 25.00, 2),  # a corrected fare: newer by ts, so it wins
    ("t4", "sao_paulo", "dee", 1.00, 0),  # arrives late: older by ts, so it loses
    ("t6", "chennai", "fay", 41.00, 2),  # a new trip
]

out = Console(width=None if sys.stdout.isatty() else 110, highlight=False)
steps = iter(range(1, 100))


def main() -> None:
    """Tell the story step by step."""
    say("Create a table", "merge-on-read, keyed by trip_id, one folder per city, newest ts wins.")
    table = create()
    out.print(f"  {table!r}")

    say("Write five trips", "one commit; each city gets a Parquet base file.")
    first = table.insert(trips(MONDAY))
    show_result(first.instant, first.stats.inserted, first.stats.updated)

    say("Upsert three more", "a correction, one that comes too late, and a new trip.")
    second = table.upsert(trips(TUESDAY))
    show_result(second.instant, second.stats.inserted, second.stats.updated)

    say("The timeline", "what happened to the table, and when it became visible.")
    show(
        ("requested", "completed", "action", "operation"),
        ((i.requested_time, i.completion_time, i.action, i.operation) for i in table.timeline()),
    )

    say("The files", "updates lie in logs beside base files; the new trip filled up a small file.")
    show(("file", "bytes"), files_of(table))

    say("The rows now", "base and log files merged: t1 is corrected, t4 kept its newer fare.")
    show_rows(table.to_arrow(columns=COLUMNS))

    say("Back in time", f"the same table as of {first.instant}, before the second commit.")
    show_rows(table.to_arrow(columns=COLUMNS, as_of=first.instant))

    say("What changed since", "an incremental read: only what the second commit wrote.")
    show_rows(table.changes(since=first.instant, columns=COLUMNS))

    goodbye()


def create() -> hoodoo.Table:
    """A new table, in place of the one of the last demo."""
    if (PLACE / ".hoodie").is_dir():
        shutil.rmtree(PLACE)
    return hoodoo.create_table(
        str(PLACE),
        schema=SCHEMA,
        name="trips",
        record_key="trip_id",
        partition_by="city",
        ordering="ts",
        table_type="mor",
    )


def trips(rows: Iterable[tuple[object, ...]]) -> pa.Table:
    records = [dict(zip(SCHEMA.names, row, strict=True)) for row in rows]
    return pa.Table.from_pylist(records, schema=SCHEMA)


def files_of(table: hoodoo.Table) -> Iterable[tuple[str, int]]:
    for group in table.files().groups:
        for slice_ in group.slices:
            if slice_.base_file is not None:
                yield slice_.base_file.path, slice_.base_file.size_bytes
            yield from ((log.path, log.size_bytes) for log in slice_.log_files)


def say(title: str, why: str) -> None:
    out.print(f"\n[bold cyan]{next(steps)}. {title}[/]: {why}", soft_wrap=True)


def show_result(instant: str, inserted: int, updated: int) -> None:
    out.print(f"  committed {instant}: {inserted} inserted, {updated} updated")


def show_rows(rows: pa.Table) -> None:
    rows = rows.sort_by("trip_id")
    show(rows.column_names, (row.values() for row in rows.to_pylist()))


def show(header: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    grid = Grid(box=None, header_style="dim", padding=(0, 2))
    for name in header:
        grid.add_column(name, overflow="fold", justify="right" if name in NUMBERS else "left")
    for row in rows:
        grid.add_row(*(f"{cell:.2f}" if isinstance(cell, float) else str(cell) for cell in row))
    out.print(grid)


def goodbye() -> None:
    out.print(f"\nThe table stays in [bold]{PLACE}[/]. Look around in it:\n", soft_wrap=True)
    for command in (
        f"timeline {PLACE}",
        f"files {PLACE}",
        f"scan {PLACE} --filter \"city = 'chennai'\"",
        f"show {PLACE} --json",
    ):
        out.print(f"  .venv/bin/hoodoo {command}", soft_wrap=True)


if __name__ == "__main__":
    main()
