"""Writes of ours that stop at a point of their way, until they are told to go on, or to die."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from hoodoo.api.table import Table
from hoodoo.model.instant import InstantTime
from hoodoo.runtime.engine import LocalEngine
from hoodoo.runtime.env import Env
from hoodoo.storage import open_storage
from hoodoo.storage.traced import TracedStorage
from hoodoo.table.ref import open_ref
from support.writer_machines import PowerCut

Point = tuple[str, str]
ANNOUNCED: Point = ("create", r"/\.temp/\d+/")
"""The write has its instant, and is about to announce its first file."""
WRITTEN: Point = ("list", r"/\.temp/\d+$")
"""All files are written; the lock is not held, and the commit is about to begin."""

_DEADLINE_S = 60


class PausedWrite:
    """One such write, in a thread of this process."""

    instant: InstantTime
    """The instant that it has begun."""

    def __init__(self, place: Path, point: Point, options: Mapping[str, object]) -> None:
        self._point = point
        self._reached, self._go = threading.Event(), threading.Event()
        self._is_dead = False
        storage = TracedStorage(open_storage(str(place)), before=self._before)
        self._ref = open_ref(str(place), options, Env(storage))
        self._end: Future[Any] = Future()

    def go_on(self) -> Any:
        """Let it run to its end; what it returns, or raises."""
        self._go.set()
        return self._end.result(_DEADLINE_S)

    def go_on_to(self, point: Point) -> None:
        """Let it run to a later point of its way, where it waits again."""
        waiting, self._go = self._go, threading.Event()
        self._point = point
        self._reached.clear()
        waiting.set()
        self._wait_until_there()

    def die(self) -> None:
        """It does nothing any more."""
        self._is_dead = True
        with suppress(PowerCut):
            self.go_on()

    def _run(self, pool: ThreadPoolExecutor, work: Callable[[Table], object]) -> None:
        known = self._times()
        self._end = pool.submit(work, Table(self._ref, LocalEngine(threads=1)))
        self._end.add_done_callback(lambda _: self._reached.set())
        self._wait_until_there()
        (self.instant,) = self._times() - known

    def _wait_until_there(self) -> None:
        assert self._reached.wait(_DEADLINE_S), "it gets nowhere"
        if self._end.done():
            raise AssertionError(f"it never came to {self._point}") from self._end.exception()

    def _times(self) -> set[InstantTime]:
        return {instant.requested_time for instant in self._ref.load_timeline()}

    def _before(self, verb: str, path: str) -> None:
        (verb_to_pause, part), go = self._point, self._go
        if verb == verb_to_pause and re.search(part, path) and not go.is_set():
            self._reached.set()
            go.wait(_DEADLINE_S)
        if self._is_dead:
            raise PowerCut


@contextmanager
def pause_write(
    place: Path,
    work: Callable[[Table], object],
    *,
    at: Point = WRITTEN,
    options: Mapping[str, object] | None = None,
) -> Iterator[PausedWrite]:
    """A write that waits at a point of its way; it dies at the end of the block at the latest."""
    write = PausedWrite(place, at, options or {})
    with ThreadPoolExecutor(1) as pool:
        write._run(pool, work)
        try:
            yield write
        finally:
            if not write._end.done():
                write.die()


def kill_write(
    place: Path,
    work: Callable[[Table], object],
    *,
    at: Point = WRITTEN,
    options: Mapping[str, object] | None = None,
) -> InstantTime:
    """A write that dies there; the instant that it leaves behind."""
    with pause_write(place, work, at=at, options=options) as write:
        return write.instant
