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
from functools import cache


class Worker:
    """A thread that runs one job after another, and waits for its turn in between."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._turn.acquire()
        self._job: Callable[[], None] = _nothing
        thread = threading.Thread(target=self._run, name="simulated", daemon=True)
        thread.start()
        self.ident = thread.ident

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
        _stay_on_one_processor()
        while True:
            self._turn.acquire()
            self._job()


_idle: list[Worker] = []


def hire() -> Worker:
    """An idle worker: the one that became idle last, if there is one."""
    return _idle.pop() if _idle else Worker()


def dismiss(worker: Worker) -> None:
    """Take a worker back whose job is done but for handing the baton on."""
    _idle.append(worker)


def _nothing() -> None:
    """No job yet."""


def _stay_on_one_processor() -> None:
    if sys.platform == "linux":
        os.sched_setaffinity(0, {_processor()})  # of the calling thread alone


@cache
def _processor() -> int:
    """One for all workers: where this process happens to run, so that two of them may differ."""
    return int(ctypes.CDLL(None).sched_getcpu())
