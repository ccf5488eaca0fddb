"""Reading a table of two million rows against reading its files with pyarrow."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import hoodoo
from bench.clock import ratio_line, side_by_side

ROWS = 2_000_000
CITIES = np.array(["amsterdam", "berlin", "cairo", "delhi"])


def trips(rows: int, seed: int = 1) -> pa.Table:
    """Rows of eight columns, as trips of a taxi company look like."""
    chance = np.random.default_rng(seed)
    numbers = np.arange(rows)
    return pa.table(
        {
            "trip_id": pa.array(numbers).cast(pa.string()),
            "city": CITIES[numbers % 4],
            "ts": pa.array(1_700_000_000_000 + chance.integers(0, 10**9, rows)),
            "driver": pa.array(chance.integers(0, 50_000, rows)).cast(pa.string()),
            "fare": chance.uniform(2, 90, rows).round(2),
            "distance": chance.uniform(0.2, 40, rows),
            "passengers": chance.integers(1, 6, rows).astype("int32"),
            "paid": chance.random(rows) < 0.97,
        }
    )


def build(path: Path, kind: str) -> hoodoo.Table:
    """A table of ROWS rows; a merge-on-read one with a tenth of its rows in Parquet logs."""
    rows = trips(ROWS)
    table = hoodoo.create_table(
        str(path / kind),
        schema=rows.schema,
        record_key="trip_id",
        partition_by="city",
        ordering="ts",
        table_type=kind,
        options={"hoodie.parquet.max.file.size": 24 * 1024 * 1024},
    )
    table.bulk_insert(rows)
    if kind == "mor":
        changed = trips(ROWS, seed=2).take(pa.array(np.arange(0, ROWS, 10)))
        later = pa.compute.add(changed["ts"], 10**10)
        table.upsert(changed.set_column(2, "ts", later))
    return table


def run(folder: Path) -> None:
    """Print the ratios."""
    for kind, aim in (("cow", 1.15), ("mor", 2.5)):
        table = build(folder, kind)
        files = sorted(str(p) for p in (folder / kind).glob("city=*/*.parquet"))
        size = sum(Path(f).stat().st_size for f in files) / 1e6
        assert table.to_arrow().num_rows == ROWS
        ours, theirs = side_by_side(table.to_arrow, lambda: _plain(files))  # noqa: B023 run at once
        what = f"{kind} to_arrow, {ROWS:,} rows, {len(files)} files, {size:.0f} MB"
        print(ratio_line(what, ours, theirs, aim))
        narrow = ["trip_id", "fare"]
        ours, theirs = side_by_side(
            lambda: table.to_arrow(columns=narrow),  # noqa: B023 run at once
            lambda: _plain(files, narrow),  # noqa: B023 run at once
        )
        print(ratio_line(f"{kind} to_arrow, two columns", ours, theirs))


def _plain(files: list[str], columns: list[str] | None = None) -> pa.Table:
    return pq.read_table(files, columns=columns, partitioning=None)
