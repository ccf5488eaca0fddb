"""Where per-item work runs: `Engine`, its local implementation, and how to stop it.

`LocalEngine` runs items in threads of this process, for small tables and tests (Arrow and I/O drop
the GIL); Spark's engine is `spark.engine`. A `StopSignal` ends the work of an engine from outside,
by a lost heartbeat or a cancel. Values of Spark are recognised by their class, so that pyspark need
not be imported.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Protocol, Self, TypeVar, cast, runtime_checkable

from hoodoo.errors import HoodooError

# -- stop signals ----------------------------------------------------------------------------------


class StopSignal:
    """Asked for once, by any thread; what runs then ends with the error that was given."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._error: HoodooError | None = None
        self._callbacks: list[Callable[[], None]] = []

    def request(self, error: HoodooError) -> None:
        """End the work with this error; only the first request counts."""
        with self._lock:
            if self._error is not None:
                return
            self._error = error
            callbacks = list(self._callbacks)
        for callback in callbacks:
            callback()

    @property
    def error(self) -> HoodooError | None:
        """What the work is to end with; None while it may go on."""
        return self._error

    def check(self) -> None:
        """Raise the error if the end was requested."""
        if self._error is not None:
            raise self._error

    @contextmanager
    def calling(self, callback: Callable[[], None]) -> Iterator[None]:
        """Have this called, at most once, if the end is requested before the block is left."""
        with self._lock:
            self._callbacks.append(callback)
        try:
            self.check()
            yield
        finally:
            with self._lock:
                self._callbacks.remove(callback)


# -- the protocol ----------------------------------------------------------------------------------


Item = TypeVar("Item")
Result = TypeVar("Result")


REQUEST_BYTES = 64 << 10
"""What one request to the store counts for, in bytes that could be read meanwhile."""


@runtime_checkable
class Repeatable(Protocol):
    """An item that knows which of the attempts at it this is, where a task may run repeatedly."""

    def at_attempt(self, number: int) -> Self:
        """The item for this attempt; no two attempts at any item have the same number."""


@runtime_checkable
class HasSize(Protocol):
    """An item that knows how much work it is."""

    @property
    def size_bytes(self) -> int:
        """The bytes of its files and rows, roughly."""


class Engine(Protocol):
    """Applies a task to each item. Tasks and items pickle; results come back in order."""

    @property
    def may_repeat_tasks(self) -> bool:
        """Whether a task may run more than once, at the same time or after its result was taken."""

    def map(
        self,
        task: Callable[[Item], Result],
        items: Sequence[Item],
        *,
        stop: StopSignal | None = None,
        report_count: Callable[[int], None] | None = None,
    ) -> list[Result]:
        """The first failure of a task is raised; tasks not yet begun are then dropped.

        So is the error of `stop`, once it is requested. `report_count` gets the number of
        finished items.
        """


# -- threads of this process -----------------------------------------------------------------------


_REQUESTS = 16


def request_threads(engine: Engine) -> LocalEngine:
    """Threads of this process that send requests for one who works on an engine.

    Where that has one thread only, all is done in order: simulations rely on it.
    """
    if isinstance(engine, LocalEngine) and engine.threads == 1:
        return engine
    return LocalEngine(_REQUESTS)


class LocalEngine:
    """Runs tasks in threads; with one thread, inline and in order."""

    may_repeat_tasks = False

    def __init__(self, threads: int | None = None) -> None:
        self.threads = threads or min(8, os.cpu_count() or 1)

    def map(
        self,
        task: Callable[[Item], Result],
        items: Sequence[Item],
        *,
        stop: StopSignal | None = None,
        report_count: Callable[[int], None] | None = None,
    ) -> list[Result]:
        counter = itertools.count(1)

        def run_one(item: Item) -> Result:
            if stop is not None:
                stop.check()
            result = task(item)
            if report_count is not None:
                report_count(next(counter))
            return result

        if self.threads == 1 or len(items) < 2:
            return [run_one(item) for item in items]
        failure = threading.Event()

        def run(item: Item) -> Result:
            if failure.is_set():
                return cast(Result, None)  # dropped: nobody sees it, the failure is raised
            try:
                return run_one(item)
            except BaseException:
                failure.set()
                raise

        with ThreadPoolExecutor(min(self.threads, len(items))) as pool:
            return list(pool.map(run, items))


# -- values of Spark -------------------------------------------------------------------------------


def is_of_spark(value: object) -> bool:
    """Whether a value is a DataFrame, a session, a Column, or anything else of PySpark's."""
    return type(value).__module__.startswith("pyspark.")


def is_spark_column(value: object) -> bool:
    """Whether a value is a Column."""
    return is_of_spark(value) and type(value).__name__ == "Column"
