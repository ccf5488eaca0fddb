"""Plans of table services: what resuming a dead compaction costs, and how long planning takes."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time

import pyarrow as pa

import hoodoo
from bench.clock import ratio_line
from hoodoo.read.snapshot import take_snapshot
from hoodoo.runtime.engine import LocalEngine
from hoodoo.services.clustering.clustering import schedule_clustering
from hoodoo.services.compaction.compaction import run_compaction, schedule_compaction
from hoodoo.services.plans.execute import ServiceResult
from hoodoo.table.ref import open_ref

GROUPS, ROWS, DIES_AT, MOST_SHARE = 10, 100_000, 8, 0.35
FILE_GROUPS, PARTITIONS = 20_000, 20
_QUIET = {"hoodie.table.services.enabled": False, "hoodie.parquet.small.file.limit": 0}
_UNBOUNDED = {"hoodie.clustering.plan.strategy.max.num.groups": FILE_GROUPS}
_TIME = "20260101000000000"


class Died(BaseException):
    """The executor is gone."""


def run(folder: Path) -> None:
    """Print both."""
    _measure_resume(folder)
    _measure_planning(folder)


# -- resume ---------------------------------------------------------------------------------------


def _measure_resume(folder: Path) -> None:
    place = _build(folder / "table")
    full_s, done = _compact(shutil.copytree(place, folder / "full"))
    assert done.reused_items == 0
    half = shutil.copytree(place, folder / "half")
    try:
        _compact(half, dies_at=DIES_AT)
    except Died:
        resumed_s, done = _compact(half)
    assert done.reused_items == DIES_AT
    what = f"compaction, {GROUPS} x {ROWS:,} rows, dead at {DIES_AT}: the rest, to all (CPU)"
    print(ratio_line(what, resumed_s, full_s, MOST_SHARE), flush=True)


def _build(place: Path) -> Path:
    """File groups with a log each that has a tenth of their rows, and a plan for all of them."""
    table = hoodoo.create_table(
        place, schema=_rows(0, 1).schema, record_key="id", table_type="mor", options=_QUIET
    )
    for number in range(GROUPS):
        table.bulk_insert(_rows(number * ROWS, (number + 1) * ROWS))
    table.upsert(_rows(0, GROUPS * ROWS, step=10, v=1))
    assert table.schedule_compaction() is not None
    return place


def _rows(begin: int, end: int, step: int = 1, v: int = 0) -> pa.Table:
    numbers = range(begin, end, step)
    return pa.table(
        {
            "id": [f"key-{number * 7919 % 1_000_003:07d}-{number}" for number in numbers],
            "fare": pa.array([number % 997 / 7 for number in numbers]),
            "note": [f"note {number % 89} of {v}" for number in numbers],
        }
    )


def _compact(place: Path, *, dies_at: int | None = None) -> tuple[float, ServiceResult]:
    """CPU seconds of a compaction, whose executor may die after so many items."""

    def progress(done: int, total: int) -> None:
        if done == dies_at:
            raise Died

    began = process_time()
    done = run_compaction(open_ref(str(place), _QUIET), None, LocalEngine(threads=1), progress)
    assert done is not None
    return process_time() - began, done


# -- planning -------------------------------------------------------------------------------------


def _measure_planning(folder: Path) -> None:
    uri = _build_wide(folder / "wide")
    ref = open_ref(uri, {**_QUIET, **_UNBOUNDED})
    assert len(take_snapshot(ref).slices()) == FILE_GROUPS + 1
    _tell("compaction", lambda: schedule_compaction(ref))
    uri = _build_wide(folder / "again")
    ref = open_ref(uri, {**_QUIET, **_UNBOUNDED})
    _tell("clustering", lambda: schedule_clustering(ref))


def _build_wide(place: Path) -> str:
    """File groups that lie there since before the timeline began; nobody reads them."""
    schema = pa.schema([("id", pa.string()), ("p", pa.string())])
    table = hoodoo.create_table(
        place, schema=schema, record_key="id", partition_by="p", table_type="mor", options=_QUIET
    )
    table.insert(pa.table({"id": ["x"], "p": ["0"]}, schema=schema))
    for number in range(FILE_GROUPS):
        partition = place / f"p={number % PARTITIONS}"
        partition.mkdir(exist_ok=True)
        file_id = f"00000000-0000-4000-8000-{number:012d}-0"
        (partition / f"{file_id}_0-0-0_{_TIME}.parquet").touch()
        (partition / f".{file_id}_{_TIME}.log.1_0-1-0").touch()
    return table.uri


def _tell(service: str, plan: Callable[[], object]) -> None:
    began, cpu = perf_counter(), process_time()
    assert plan() is not None
    took, cpu = perf_counter() - began, process_time() - cpu
    what = f"plan of a {service}, {FILE_GROUPS:,} file groups"
    print(f"{what:<45} {took:8.2f} s, {cpu:.2f} s CPU", flush=True)
