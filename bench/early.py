"""What early detection costs a write of 200 files that nobody disturbs, and its look at markers."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Protocol

import pyarrow as pa

from bench import commits, marker_check
from hoodoo.api.table import Table
from hoodoo.config.concurrency import EARLY_DETECTION, EARLY_STRATEGY, DetectionStrategy, MarkerType
from hoodoo.config.services import SERVICES_ENABLED
from hoodoo.runtime.env import Env
from hoodoo.storage import open_storage
from hoodoo.storage.traced import TracedStorage
from hoodoo.table.ref import open_ref

FILES = 200
TURNS = 9
AIM = 0.03
OFF = "off"

Cost = tuple[float, float]
"""Wall and CPU seconds."""


def settings() -> Iterator[tuple[str, dict[str, object]]]:
    """Without detection, and each strategy."""
    yield OFF, {EARLY_DETECTION.name: False}
    for strategy in DetectionStrategy:
        yield strategy.value, {EARLY_STRATEGY.name: strategy.value}


def make_rows(value: int) -> pa.Table:
    """A row for each of the files, in a partition of its own."""
    partitions = [f"p={number:03d}" for number in range(FILES)]
    columns = [partitions, partitions, [value] * FILES]
    return pa.table(dict(zip(commits.SCHEMA.names, columns, strict=True)), schema=commits.SCHEMA)


class Writer:
    """One way of writing to the table, and what it asks of the storage."""

    def __init__(self, uri: str, options: Mapping[str, object]) -> None:
        self._traced = TracedStorage(open_storage(uri))
        # What is due after some commits would count for whoever makes them.
        options = {**options, SERVICES_ENABLED.name: False}
        self._table = Table(open_ref(uri, options, env=Env(self._traced)))
        self.operations: Counter[str] = Counter()

    def write(self, value: int) -> Cost:
        """One upsert into all files."""
        self._traced.clear()
        started, cpu = time.perf_counter(), time.process_time()
        self._table.upsert(make_rows(value))
        took = time.perf_counter() - started, time.process_time() - cpu
        self.operations = self._traced.counts()
        return took


class Writing(Protocol):
    """A way of writing."""

    def write(self, value: int) -> Cost:
        """One upsert into all files."""


def take_turns(writers: Mapping[str, Writing], turns: int) -> dict[str, list[Cost]]:
    """The costs of each writer, turn by turn, after one turn that is not measured.

    Who is first changes from turn to turn.
    """
    costs: dict[str, list[Cost]] = {name: [] for name in writers}
    names = list(writers)
    for turn in range(-1, turns):
        names = names[1:] + names[:1]
        for name in names:
            cost = writers[name].write(turn)
            if turn >= 0:
                costs[name].append(cost)
    return costs


def report(what: str, costs: Mapping[str, Sequence[Cost]]) -> None:
    """Print what each strategy adds to a write without detection: medians, and by turns."""
    print(f"{what}, medians of {len(costs[OFF])}")
    for name, mine in costs.items():
        parts = [f"  {name:<22}"]
        for position, unit in enumerate(("s", "CPU s")):
            took = median(cost[position] for cost in mine)
            pairs = zip(mine, costs[OFF], strict=True)
            added = median(cost[position] / off[position] for cost, off in pairs) - 1
            parts.append(f"{took:7.3f} {unit} ({added:+6.1%})")
        print(" ".join(parts))


def report_operations(what: str, writers: Mapping[str, Writer]) -> None:
    """Print the operations of each strategy beside those without detection; they are exact."""
    off = writers[OFF].operations
    print(f"{what}: {off.total():,} operations without detection")
    for name, writer in writers.items():
        if name != OFF:
            added = {verb: writer.operations[verb] - off[verb] for verb in writer.operations}
            told = ", ".join(f"{count:+} {verb}" for verb, count in added.items() if count)
            total = writer.operations.total() - off.total()
            share = total / off.total()
            verdict = "met" if share <= AIM else "MISSED"
            told = told or "none"
            print(f"  {name:<22} {total:+} ({share:+.1%}, aim {AIM:.0%}: {verdict}): {told}")


def measure_overhead(folder: Path) -> None:
    """Print what detection adds where nobody else writes, and beside a write to other files."""
    uri = commits.create(f"{folder}/table").uri
    Writer(uri, {}).write(0)
    writers = {name: Writer(uri, options) for name, options in settings()}
    costs = take_turns(writers, TURNS)
    report(f"a write of {FILES} files, nobody else, local engine", costs)
    report_operations("  nobody else", writers)
    with marker_check.open_scene(uri) as scene:
        scene.announce(MarkerType.BATCHED)
        take_turns(writers, 0)
    report_operations(f"  beside {marker_check.MARKERS:,} markers of an older write", writers)


def run(folder: Path) -> None:
    """Print all."""
    marker_check.run(folder)
    measure_overhead(folder)
