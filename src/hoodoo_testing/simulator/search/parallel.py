"""Many seeds of many scenarios on several processors, with a word now and then on how far it is.

The seeds go in rounds: some of each scenario, then some more of each. So whoever stops it early
has seen as much of one as of another, and what is left takes about as long as what is done.
"""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from itertools import islice
from multiprocessing import get_context

from hoodoo_testing.simulator.scenarios import scenarios
from hoodoo_testing.simulator.search.explore import by_seed, search

_CHUNK = 250  # seeds: some seconds of work
_TELL_EVERY_S = 20.0

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some seeds of a scenario, and what came of them."""

    name: str
    seeds: range
    runs: int = 0
    steps: int = 0
    cpu_s: float = 0.0
    failure: str | None = None


def explore_all(names: Sequence[str], seeds: range, *, jobs: int, say: Say) -> int:
    """Run each scenario with each seed, until it fails; tells in the end what was run.

    1 if anything failed. Whatever is left of a scenario that failed is left out.
    """
    tally = _Tally(names, len(seeds), say)
    chunks = _chunks(names, seeds)
    workers = ProcessPoolExecutor(jobs, get_context("spawn"), _prepare_worker)
    try:
        running: set[Future[Chunk]] = set()
        while True:
            # One more than there are workers: none has to wait for its next.
            open_chunks = (chunk for chunk in chunks if chunk.name not in tally.failing_scenarios)
            missing = jobs + 1 - len(running)
            running |= {workers.submit(explore, chunk) for chunk in islice(open_chunks, missing)}
            if not running:
                break
            finished_futures, running = wait(running, return_when=FIRST_COMPLETED)
            for each in finished_futures:
                tally.add(each.result())
    finally:
        tally.tell_all()
        workers.shutdown(cancel_futures=True)
    return 1 if tally.failing_scenarios else 0


def explore(chunk: Chunk) -> Chunk:
    """Run the seeds of a chunk, up to the first failure."""
    start_s = time.process_time()
    result = search(by_seed(scenarios()[chunk.name], chunk.seeds))
    failure = result.failures[0].report() if result.failures else None
    cpu_s = time.process_time() - start_s
    return Chunk(chunk.name, chunk.seeds, result.runs, result.steps, cpu_s, failure)


def _prepare_worker() -> None:
    logging.getLogger("hoodoo").addHandler(logging.NullHandler())  # the trace tells more
    # Nearly all that the collector looks at are modules: let it look seldom, and past them.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def _chunks(names: Sequence[str], seeds: range) -> Iterator[Chunk]:
    for at in range(0, len(seeds), _CHUNK):
        for name in names:
            yield Chunk(name, seeds[at : at + _CHUNK])


class _Tally:
    """What was run so far, and how fast."""

    def __init__(self, names: Sequence[str], each: int, say: Say) -> None:
        self.failing_scenarios: set[str] = set()
        self._done: dict[str, list[Chunk]] = {name: [] for name in names}
        self._each = each
        self._say = say
        self._runs = 0
        self._started = self._told = time.monotonic()

    def add(self, chunk: Chunk) -> None:
        """Count what came of a chunk, and say so if it failed, or nothing was said for a while."""
        self._done[chunk.name].append(chunk)
        self._runs += chunk.runs
        if chunk.failure is not None:
            self.failing_scenarios.add(chunk.name)
            self._say(f"{chunk.name}: VIOLATION\n\n{chunk.failure}")
        now = time.monotonic()
        if now - self._told >= _TELL_EVERY_S:
            self._told = now
            self._say(self._progress(chunk, now - self._started))

    def _progress(self, last: Chunk, took_s: float) -> str:
        total = self._each * (len(self._done) - len(self.failing_scenarios))
        run_count = sum(
            chunk.runs
            for name, chunks in self._done.items()
            for chunk in chunks
            if name not in self.failing_scenarios
        )
        rate = self._runs / took_s
        left_min = (total - run_count) / rate / 60
        runs = sum(chunk.runs for chunk in self._done[last.name])
        return (
            f"{self._runs:,} runs, {100 * run_count / max(total, 1):.1f} %, {rate:.1f} runs/s, "
            f"{left_min // 60:.0f} h {left_min % 60:02.0f} min left; last {last.name}, {runs:,}"
        )

    def tell_all(self) -> None:
        """A line for each scenario."""
        for name, chunks in self._done.items():
            runs, steps = sum(each.runs for each in chunks), sum(each.steps for each in chunks)
            cpu_s = sum(each.cpu_s for each in chunks)
            total = "" if runs == self._each else f" of {self._each}"
            end = "VIOLATION" if name in self.failing_scenarios else "no violation"
            self._say(f"{name}: {runs}{total} runs, {steps} steps, {cpu_s:.1f} s: {end}")
        took_min = (time.monotonic() - self._started) / 60
        self._say(f"{self._runs:,} runs of {len(self._done)} scenarios in {took_min:.1f} min")
