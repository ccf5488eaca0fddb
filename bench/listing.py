"""Listing many files: time per file must stay flat."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

import hoodoo
from bench.clock import best
from hoodoo.read.snapshot import take_snapshot
from hoodoo.table.ref import open_ref

SIZES = (1_000, 5_000, 20_000)
PARTITIONS = 20
TIME = "20260101000000000"


def build(path: Path, files: int) -> str:
    """A table whose partitions hold this many base files (empty ones: nobody reads them)."""
    schema = pa.schema([("id", pa.string()), ("p", pa.string())])
    folder = path / f"f{files}"
    table = hoodoo.create_table(str(folder), schema=schema, record_key="id", partition_by="p")
    rows = pa.table({"id": ["x"], "p": ["0"]}, schema=schema)
    table.insert(rows)
    # Files older than the first active instant count as committed.
    for number in range(files):
        partition = folder / f"p={number % PARTITIONS}"
        partition.mkdir(exist_ok=True)
        name = f"00000000-0000-4000-8000-{number:012d}-0_0-0-0_{TIME}.parquet"
        (partition / name).touch()
    return table.uri


def run(folder: Path) -> None:
    """Print the time to list and slice a table's files, per file."""
    for files in SIZES:
        uri = build(folder, files)
        ref = open_ref(uri)
        assert len(take_snapshot(ref).slices()) == files + 1
        took = best(lambda: take_snapshot(ref).slices())  # noqa: B023 run at once
        print(
            f"list + slice, {files:>6,} files in {PARTITIONS} partitions"
            f" {took:19.3f} s  {took / files * 1e6:6.1f} us a file"
        )
