"""`MarkerFlushes`: who waits for which batch, in the event loop of the marker server.

Group commit: while no batch is being written, markers are written at once; those that come
meanwhile form the next batch, which waits a moment for those who were just answered. Where the
store is slow, it begins beside those under way when the interval has passed since the last one
began, as long as there is a free file.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

from hoodoo.concurrency.markers import MarkerBatches, PendingMarkers
from hoodoo.model.names import MarkerName

_STOPS = "the marker server stops"
_GATHER_S = 0.002
_Waiting: TypeAlias = tuple[Sequence[MarkerName], "asyncio.Future[None]"]


class MarkerFlushes:
    """Batches under way, and the requests that wait for the next one."""

    def __init__(self, batches: MarkerBatches, *, files: int, interval_ms: int) -> None:
        """Belongs to the running event loop."""
        self._batches = batches
        self._interval_s = interval_ms / 1000
        self._loop = asyncio.get_running_loop()
        self._threads = ThreadPoolExecutor(files, thread_name_prefix="hoodoo-markers")
        self._waiting: list[_Waiting] = []
        self._under_way: set[asyncio.Task[None]] = set()
        self._began = self._ended = float("-inf")
        self._expected = 0
        self._timer: asyncio.TimerHandle | None = None
        self._is_stopped = False
        self._holds = 0  # no batch begins while there are any

    @property
    def markers(self) -> tuple[MarkerName, ...]:
        """The markers that are durable."""
        return self._batches.markers

    async def announce(self, markers: Sequence[MarkerName]) -> None:
        """Returns once the markers are durable; raises what kept their batch from the store."""
        if self._is_stopped:
            raise ConnectionAbortedError(_STOPS)
        durable: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append((markers, durable))
        self._begin_if_due()
        await durable

    async def delete(self) -> None:
        """Remove the marker directory, between two batches."""
        self._holds += 1
        try:
            while self._under_way:
                await asyncio.wait(set(self._under_way))
            await self._in_thread(self._batches.delete)
        finally:
            self._holds -= 1
            self._begin_if_due()

    async def stop(self, within_s: float) -> None:
        """Let the batches under way end, within bounds; whoever waits for another is refused."""
        self._is_stopped = True
        self._holds += 1
        self._cancel_timer()
        waiting, self._waiting = self._waiting, []
        _answer(waiting, ConnectionAbortedError(_STOPS))
        if self._under_way:
            await asyncio.wait(set(self._under_way), timeout=within_s)
        # A thread that hangs in the store ends when that gives up; nobody waits for it here.
        self._threads.shutdown(wait=not self._under_way, cancel_futures=True)

    def _begin_if_due(self) -> None:
        if not self._waiting or self._holds or not self._batches.has_free_file:
            return
        due = self._due()
        if self._loop.time() < due:
            if self._timer is None:
                self._timer = self._loop.call_at(due, self._on_timer)
            return
        self._cancel_timer()
        waiting, self._waiting = self._waiting, []
        batch = self._batches.begin(marker for markers, _ in waiting for marker in markers)
        if batch is None:
            _answer(waiting, None)
            return
        self._began = self._loop.time()
        task = self._loop.create_task(self._flush(batch, waiting))
        self._under_way.add(task)
        task.add_done_callback(self._on_end)

    def _due(self) -> float:
        """When the next batch may begin.

        Those who were just answered are about to announce their next file. Without a moment's
        wait for them two halves of the clients would take turns, and each would wait twice.
        """
        if self._under_way:
            return self._began + self._interval_s
        return self._ended + _GATHER_S if len(self._waiting) < self._expected else self._ended

    def _on_timer(self) -> None:
        self._timer = None
        self._begin_if_due()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_end(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        self._ended = self._loop.time()
        self._cancel_timer()  # the next batch may be due earlier
        self._begin_if_due()

    async def _flush(self, batch: PendingMarkers, waiting: Sequence[_Waiting]) -> None:
        failure: Exception | None = None
        try:
            await self._in_thread(lambda: self._batches.write(batch))
        except Exception as error:  # whatever it is: no marker of this batch counts
            failure = error
        self._batches.end(batch, is_durable=failure is None)
        self._expected = len(waiting) + len(self._waiting)
        _answer(waiting, failure)

    def _in_thread(self, work: Callable[[], None]) -> asyncio.Future[None]:
        return self._loop.run_in_executor(self._threads, work)


def _answer(waiting: Sequence[_Waiting], failure: Exception | None) -> None:
    """Tell all who waited for a batch what became of it."""
    for _, durable in waiting:
        if durable.done():  # the client went away
            continue
        if failure is None:
            durable.set_result(None)
        else:
            durable.set_exception(failure)
