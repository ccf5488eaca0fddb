"""Threads that take turns: each sleeps at a lock of its own until it is handed the baton.

A hand-over is one lock released and one acquired. All workers stay on one processor: only one of
them moves at a time, and a hand-over within a processor is several times as fast as one across.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable


class Worker:
    """A thread that runs one job after another, and waits for its turn in between."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._turn.acquire()
        self._job: Callable[[], None] = _nothing
        thread = threading.Thread(target=self._run, name="simulated", daemon=True)
        thread.start()  # on the processor of the one who hires it
        self.ident = thread.ident
        _threads.append(thread)

    def begin(self, job: Callable[[], None]) -> None:
        """Hand the baton to this idle worker, for a new job."""
        self._job = job
        self._turn.release()

    def hand_over(self) -> None:
        """Hand the baton to this worker, which waits."""
        self._turn.release()

    def wait(self) -> None:
        """Wait for the baton; called by the worker's own thread."""
        self._turn.acquire()

    def _run(self) -> None:
        while True:
            self._turn.acquire()
            self._job()


_threads: list[threading.Thread] = []
_idle: list[Worker] = []
_libc = ctypes.CDLL(None)
_gathered = (-1, 0)  # on which processor, how many of them


def hire() -> Worker:
    """An idle worker: the one that became idle last, if there is one."""
    return _idle.pop() if _idle else Worker()


def dismiss(worker: Worker) -> None:
    """Take a worker back whose job is done but for handing the baton on."""
    _idle.append(worker)


def gather() -> None:
    """Have all workers on the processor of the caller, who goes where there is time for it."""
    global _gathered
    if sys.platform == "linux":
        now = int(_libc.sched_getcpu()), len(_threads)
        if now != _gathered:
            for thread in _threads:
                os.sched_setaffinity(thread.native_id or 0, {now[0]})
            _gathered = now


def _nothing() -> None:
    """No job yet."""
