"""The engine of tests and small tables: threads of this process (Arrow and I/O drop the GIL)."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait

from hoodoo.engine.base import Item, Result


class LocalEngine:
    """Runs tasks in threads; with one thread, inline and in order."""

    def __init__(self, threads: int | None = None) -> None:
        self._threads = threads or min(8, os.cpu_count() or 1)

    def map(self, task: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        if self._threads == 1 or len(items) < 2:
            return [task(item) for item in items]
        with ThreadPoolExecutor(min(self._threads, len(items))) as pool:
            futures = [pool.submit(task, item) for item in items]
            try:
                done, _ = wait(futures, return_when=FIRST_EXCEPTION)
                # In the order of items, so that of several failures the same one is raised.
                return [future.result() for future in futures if future in done]
            finally:
                pool.shutdown(wait=False, cancel_futures=True)
