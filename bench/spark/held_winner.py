"""A write in a process of its own that waits ahead of its commit until it is told to go on."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Event

import pyarrow.parquet as pq

import hoodoo
from bench.holds import watched

DEADLINE_S = 600


class Winner:
    """The process as its parent sees it. Its files are written, its markers are there."""

    def __init__(self, uri: str, rows: str, count: int | None) -> None:
        context = multiprocessing.get_context("spawn")
        self._ready, self._go = context.Event(), context.Event()
        args = (uri, rows, count, self._ready, self._go)
        self._process = context.Process(target=_write, args=args, daemon=True)
        self._process.start()
        assert self._ready.wait(DEADLINE_S), "the older write gets nowhere"

    def commit(self) -> None:
        """Let it commit, and wait for that."""
        self._go.set()
        self._process.join(DEADLINE_S)
        assert self._process.exitcode == 0, "the older write failed"

    def end(self) -> None:
        """It does nothing any more."""
        self._process.terminate()
        self._process.join(DEADLINE_S)


@contextmanager
def hold_winner(uri: str, rows: str, count: int | None = None) -> Iterator[Winner]:
    """An older write that stays in progress; it ends with the block at the latest.

    It changes the first rows of a Parquet file, or all.
    """
    winner = Winner(uri, rows, count)
    try:
        yield winner
    finally:
        winner.end()


def _write(uri: str, rows: str, count: int | None, ready: Event, go: Event) -> None:
    def wait(purpose: str) -> None:
        if purpose == "commit":
            ready.set()
            assert go.wait(DEADLINE_S), "nobody told the older write to go on"

    with watched(before=wait):
        hoodoo.open_table(uri).upsert(pq.read_table(rows).slice(0, count))
