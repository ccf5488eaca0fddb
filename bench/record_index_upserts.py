"""Upserts of 1 % and 10 % of 4,000,000 rows: with a record index, and with the simple index.

Two tables of the same rows, copy on write: one with a record index, which the upsert asks and keeps
current, one without a metadata table, whose data files are searched. First upserts are told apart.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import hoodoo
from bench import record_index
from bench.clock import ratio_line
from hoodoo.format.hfile import HFileCodec

SHARES = (0.01, 0.1)
TURNS = 3
Carry = Callable[[pa.Table], Any]


def run(folder: Path) -> None:
    """Print the ratios without Spark."""
    _run(folder, "without Spark", lambda rows: rows)


def _run(folder: Path, where: str, carry: Carry) -> None:
    ids = record_index.make_table(folder / "record", HFileCodec.GZIP)
    record_index.make_table(folder / "simple", None)
    sides = {
        "record": hoodoo.open_table(str(folder / "record"), {"hoodie.index.type": "RECORD_INDEX"}),
        "simple": hoodoo.open_table(str(folder / "simple"), {"hoodie.index.type": "SIMPLE"}),
    }
    chance = np.random.default_rng(3)
    for share in SHARES:
        count = int(len(ids) * share)
        chosen = ids.take(pa.array(chance.permutation(len(ids))[:count]))
        columns = [chosen, pa.repeat("a", count), chance.random(count)]
        rows = carry(pa.table(columns, record_index.SCHEMA))
        turns = [{name: _upsert(table, rows) for name, table in sides.items()}]
        turns += [
            {name: _upsert(table, rows) for name, table in sides.items()} for _ in range(TURNS)
        ]
        print(f"{where}, upsert {count:,} of {len(ids):,}: record index against simple index")
        for phase in ("all", "CPU", "locate", "commit"):
            first, *others = ([turn[name][phase] for name in sides] for turn in turns)
            best = [min(turn[side] for turn in others) for side in (0, 1)]
            print(ratio_line(f"  {phase}, first upsert", *first))
            print(ratio_line(f"  {phase}, later", *best))


def _upsert(table: hoodoo.Table, rows: Any) -> dict[str, float]:
    """Seconds of an upsert, CPU seconds of this process, and seconds of its phases."""
    began, used = time.perf_counter(), time.process_time()
    result = table.upsert(rows)
    took = {"all": time.perf_counter() - began, "CPU": time.process_time() - used}
    return {**result.timings, **took}
