"""Many small writers on one table, each in its own partition: commits a second, and waiting."""

from __future__ import annotations

import multiprocessing
import statistics
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pyarrow as pa

import hoodoo
from bench.holds import Hold, watched
from hoodoo.errors import HoodooError, WriteConflict

SECONDS = 10.0
ROWS = 10
SCHEMA = pa.schema([("id", pa.string()), ("partition", pa.string()), ("value", pa.int64())])
RACES = ((1, 1), (4, 1), (16, 1), (1, 4))
"""Processes, and writers in each."""


@dataclass
class Told:
    """What a process tells when time is up."""

    latencies: dict[str, list[float]] = field(default_factory=dict)
    """Seconds of each commit, by writer."""
    holds: Sequence[Hold] = ()
    took_s: float = 0.0
    """Until its last writer was done with what it had begun before time was up."""
    cpu_s: float = 0.0
    conflicts: int = 0
    errors: list[str] = field(default_factory=list)


def create(place: str, options: Mapping[str, str] | None = None) -> hoodoo.Table:
    """An empty table for small rows."""
    return hoodoo.create_table(
        place, schema=SCHEMA, record_key="id", partition_by="partition", options=options
    )


def small_rows(partition: str, value: int) -> pa.Table:
    """Always the same keys, so that tables do not grow in rows."""
    keys = [f"{partition}-{number}" for number in range(ROWS)]
    columns = [keys, [partition] * ROWS, [value] * ROWS]
    return pa.table(dict(zip(SCHEMA.names, columns, strict=True)), schema=SCHEMA)


def race(uri: str, processes: int, writers: int) -> list[Told]:
    """Let processes with this many writers each commit as fast as they can, for a while."""
    context = multiprocessing.get_context("spawn")
    ready, results = context.Barrier(processes), context.SimpleQueue()
    started = []
    for number in range(processes):
        names = [f"{number:02d}-{writer}" for writer in range(writers)]
        started.append(context.Process(target=_compete, args=(uri, names, ready, results)))
        started[-1].start()
    told = [results.get() for _ in started]
    for process in started:
        process.join()
    return told


def _compete(uri: str, names: Sequence[str], ready: Barrier, results: SimpleQueue[Told]) -> None:
    """One process: a first commit of each writer, a common start, the race."""
    told = Told({name: [] for name in names})
    tables = {name: hoodoo.open_table(uri) for name in names}
    for name, table in tables.items():
        table.upsert(small_rows(name, 0))
    ready.wait()
    start, cpu_start_s = time.perf_counter(), time.process_time()
    with watched() as told.holds, ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(lambda name: _write(tables[name], name, start + SECONDS, told), names))
    told.took_s, told.cpu_s = time.perf_counter() - start, time.process_time() - cpu_start_s
    results.put(told)


def _write(table: hoodoo.Table, name: str, until: float, told: Told) -> None:
    took = told.latencies[name]
    while (began := time.perf_counter()) < until:
        try:
            table.upsert(small_rows(name, len(took) + 1))
        except WriteConflict:
            told.conflicts += 1
        except HoodooError as error:
            told.errors.append(f"{type(error).__name__}: {error}")
        else:
            took.append(time.perf_counter() - began)


def report(who: str, told: Sequence[Told]) -> None:
    """Print what the processes of a race tell."""
    counts = [len(latencies) for each in told for latencies in each.latencies.values()]
    took = [s for each in told for latencies in each.latencies.values() for s in latencies]
    holds = [hold for each in told for hold in each.holds]
    waited_s, held_s = sum(h.waited_s for h in holds), sum(h.held_s for h in holds)
    errors = [error for each in told for error in each.errors]
    percentiles = statistics.quantiles(took, n=100, method="inclusive")
    race_s = max(each.took_s for each in told)
    print(
        f"small commits by {who:<14} {len(took) / race_s:6.1f} a second,"
        f" median {percentiles[49] * 1000:6.1f} ms, p99 {percentiles[98] * 1000:6.1f} ms,"
        f" {sum(each.cpu_s for each in told) / len(took) * 1000:5.1f} ms of CPU each"
    )
    purposes = Counter(hold.purpose for hold in holds)
    print(
        f"  lock waited for {waited_s / sum(took):4.0%}, held {held_s / sum(took):4.0%} of a"
        f" write; taken {held_s / race_s:4.0%} of all time, for "
        + ", ".join(f"{purpose} x{count}" for purpose, count in purposes.most_common())
    )
    print(
        f"  commits of a writer {min(counts)} to {max(counts)},"
        f" {sum(each.conflicts for each in told)} conflicts, {len(errors)} errors"
    )
    for error in errors[:3]:
        print(f"  {error}")


def run(folder: Path) -> None:
    """Print commits a second of 1, 4 and 16 processes, and of 4 threads in one."""
    for processes, writers in RACES:
        who = f"{writers} threads" if writers > 1 else f"{processes} process"
        table = create(f"{folder}/{processes}-{writers}")
        told = race(table.uri, processes, writers)
        report(who + "es" * (processes > 1), told)
        commits = sum(len(latencies) for each in told for latencies in each.latencies.values())
        # Each writer began with one commit more.
        assert len(table.timeline()) == commits + processes * writers
        assert table.to_arrow().num_rows == ROWS * processes * writers
