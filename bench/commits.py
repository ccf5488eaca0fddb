"""Many small writers on one table, each in its own partition: commits a second, and waiting."""

from __future__ import annotations

import multiprocessing
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import Protocol

import pyarrow as pa

import hoodoo
from bench.holds import Hold, watched
from hoodoo.errors import HoodooError, WriteConflict

SECONDS = 10.0
ROWS = 10
SCHEMA = pa.schema([("id", pa.string()), ("partition", pa.string()), ("value", pa.int64())])


@dataclass
class Told:
    """What a writer, or a process of writers, tells when time is up."""

    counts: list[int] = field(default_factory=list)
    """Commits of each writer."""
    latencies: list[float] = field(default_factory=list)
    took_s: float = 0.0
    """Until the last writer was done with what it had begun before time was up."""
    cpu_s: float = 0.0
    waited_s: float = 0.0
    held_s: float = 0.0
    holds: Counter[str] = field(default_factory=Counter)
    """What the lock was taken for."""
    conflicts: int = 0
    errors: list[str] = field(default_factory=list)

    def add(self, other: Told) -> None:
        """Take what another writer tells into account."""
        self.counts += other.counts
        self.latencies += other.latencies
        self.took_s = max(self.took_s, other.took_s)
        self.cpu_s += other.cpu_s
        self.waited_s += other.waited_s
        self.held_s += other.held_s
        self.holds += other.holds
        self.conflicts += other.conflicts
        self.errors += other.errors

    def add_holds(self, holds: Sequence[Hold]) -> None:
        """Take the times with the lock into account."""
        self.waited_s += sum(hold.waited_s for hold in holds)
        self.held_s += sum(hold.held_s for hold in holds)
        self.holds.update(hold.purpose for hold in holds)


class Barrier(Protocol):
    """Of threads or of processes."""

    def wait(self) -> int: ...


class Results(Protocol):
    """Where writers put what they tell."""

    def put(self, item: Told, /) -> None: ...

    def get(self) -> Told: ...


def create(place: str, options: Mapping[str, str] | None = None) -> str:
    """An empty table for small rows."""
    table = hoodoo.create_table(
        place, schema=SCHEMA, record_key="id", partition_by="partition", options=options
    )
    return table.uri


def small_rows(partition: str, value: int) -> pa.Table:
    """Always the same keys, so that tables do not grow in rows."""
    keys = [f"{partition}-{number}" for number in range(ROWS)]
    columns = [keys, [partition] * ROWS, [value] * ROWS]
    return pa.table(dict(zip(SCHEMA.names, columns, strict=True)), schema=SCHEMA)


def _write(uri: str, name: str, ready: Barrier) -> Told:
    """One writer: a first commit, a common start, and then commits until time is up."""
    table, told = hoodoo.open_table(uri), Told()
    table.upsert(small_rows(name, 0))
    ready.wait()
    start = time.perf_counter()
    while (began := time.perf_counter()) < start + SECONDS:
        try:
            table.upsert(small_rows(name, len(told.latencies) + 1))
        except WriteConflict:
            told.conflicts += 1
        except HoodooError as error:
            told.errors.append(f"{type(error).__name__}: {error}")
        else:
            told.latencies.append(time.perf_counter() - began)
    told.counts.append(len(told.latencies))
    told.took_s = time.perf_counter() - start
    return told


def _process(uri: str, name: str, ready: Barrier, results: Results) -> None:
    with watched() as holds:
        told = _write(uri, name, _Clearing(ready, holds))
    told.add_holds(holds)
    results.put(told)


@dataclass
class _Clearing:
    """The common start, at which what was measured before is forgotten."""

    ready: Barrier
    holds: list[Hold]

    def wait(self) -> int:
        self.holds.clear()
        return self.ready.wait()


def with_processes(uri: str, writers: int) -> Told:
    """Writers that are processes of their own."""
    context = multiprocessing.get_context("spawn")
    ready, results = context.Barrier(writers), context.SimpleQueue()
    processes = [
        context.Process(target=_process, args=(uri, f"w{number:02d}", ready, results))
        for number in range(writers)
    ]
    return _joined(processes, results)


def with_threads(uri: str, writers: int) -> Told:
    """Writers that are threads of this process."""
    ready, results = threading.Barrier(writers), SimpleQueue[Told]()

    def work(name: str, start: Barrier) -> None:
        results.put(_write(uri, name, start))

    with watched() as holds:
        start = _Clearing(ready, holds)
        threads = [
            threading.Thread(target=work, args=(f"w{number:02d}", start))
            for number in range(writers)
        ]
        told = _joined(threads, results)
    told.add_holds(holds)
    return told


class _Startable(Protocol):
    def start(self) -> None: ...

    def join(self) -> None: ...


def _joined(workers: Sequence[_Startable], results: Results) -> Told:
    for worker in workers:
        worker.start()
    told = Told()
    for _ in workers:
        told.add(results.get())
    for worker in workers:
        worker.join()
    return told


def run(folder: Path) -> None:
    """Print commits a second of 1, 4 and 16 processes, and of 4 threads."""
    ways: list[tuple[int, str, Callable[[str, int], Told]]] = [
        (1, "process", with_processes),
        (4, "processes", with_processes),
        (16, "processes", with_processes),
        (4, "threads", with_threads),
    ]
    for writers, kind, work in ways:
        uri = create(f"{folder}/{writers}-{kind}")
        told = work(uri, writers)
        _check(uri, told)
        _print(f"{writers} {kind}", told)


def _check(uri: str, told: Told) -> None:
    """What was counted is what the table has; each writer began with one commit more."""
    table = hoodoo.open_table(uri)
    assert len(table.timeline()) == len(told.latencies) + len(told.counts)
    assert table.to_arrow().num_rows == ROWS * len(told.counts)


def _print(who: str, told: Told) -> None:
    busy_s = sum(told.latencies)
    percentiles = statistics.quantiles(told.latencies, n=100, method="inclusive")
    print(
        f"small commits by {who:<14} {sum(told.counts) / told.took_s:6.1f} a second,"
        f" median {percentiles[49] * 1000:6.1f} ms, p99 {percentiles[98] * 1000:6.1f} ms"
    )
    print(
        f"  lock: waited for {told.waited_s / busy_s:4.0%}, held {told.held_s / busy_s:4.0%}"
        f" of a write; taken {told.held_s / told.took_s:4.0%} of all time, for "
        + ", ".join(f"{what} x{count}" for what, count in told.holds.most_common())
    )
    print(
        f"  commits of a writer {min(told.counts)} to {max(told.counts)},"
        f" {told.conflicts} conflicts, {len(told.errors)} errors {told.errors[:2] or ''}"
    )
