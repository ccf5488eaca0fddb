"""The engine of tests and small tables: threads of this process (Arrow and I/O drop the GIL)."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import cast

from hoodoo.engine.engine import Engine, Item, Result
from hoodoo.engine.stop import Stop

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

    repeats = False

    def __init__(self, threads: int | None = None) -> None:
        self.threads = threads or min(8, os.cpu_count() or 1)

    def map(
        self,
        task: Callable[[Item], Result],
        items: Sequence[Item],
        *,
        stop: Stop | None = None,
        done: Callable[[int], None] | None = None,
    ) -> list[Result]:
        finished = itertools.count(1)

        def run_one(item: Item) -> Result:
            if stop is not None:
                stop.check()
            result = task(item)
            if done is not None:
                done(next(finished))
            return result

        if self.threads == 1 or len(items) < 2:
            return [run_one(item) for item in items]
        failed = threading.Event()

        def run(item: Item) -> Result:
            if failed.is_set():
                return cast(Result, None)  # dropped: nobody sees it, the failure is raised
            try:
                return run_one(item)
            except BaseException:
                failed.set()
                raise

        with ThreadPoolExecutor(min(self.threads, len(items))) as pool:
            return list(pool.map(run, items))
