"""A writer of the tour that waits in the middle of its write, for the tour to look around.

It is a thread without Spark. The pause is in its storage: the write knows nothing of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, Self

from hoodoo.api.table import Table
from hoodoo.runtime.engine import LocalEngine
from hoodoo.runtime.env import Env
from hoodoo.storage import open_storage
from hoodoo.storage.traced import TracedStorage
from hoodoo.table.ref import open_ref

if TYPE_CHECKING:
    from hoodoo.write.commit.publish import CommitResult

FIRST_MARKER = ("create", r"/\.temp/\d+/")
"""It has its instant, and is about to announce its first file."""
MARKER_LISTING = ("list", r"/\.temp/\d+$")
"""All files are written, and the commit is about to begin."""


class PausedWriter:
    """An upsert that runs up to a point; then it waits to be let on."""

    def __init__(
        self, place: Path, rows: Any, options: Mapping[str, object], *, at: tuple[str, str]
    ) -> None:
        self._verb, self._path = at
        self._is_there, self._go = Event(), Event()
        storage = TracedStorage(open_storage(str(place)), before=self._before)
        table = Table(open_ref(str(place), options, Env(storage)), LocalEngine(threads=1))
        self._pool = ThreadPoolExecutor(1, "hoodoo tour")
        self._end: Future[CommitResult] = self._pool.submit(table.upsert, rows)
        self._end.add_done_callback(lambda _: self._is_there.set())

    def _before(self, verb: str, path: str) -> None:
        if verb == self._verb and re.search(self._path, path):
            self._is_there.set()
            self._go.wait()

    @property
    def is_paused(self) -> bool:
        """Whether it has come to the point, and has not been let on."""
        return self._is_there.is_set() and not self._end.done()

    def go_on(self) -> Future[CommitResult]:
        """Let it on, and wait for its end."""
        self._go.set()
        self._end.exception()
        return self._end

    def __enter__(self) -> Self:
        self._is_there.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._go.set()
        self._pool.shutdown()
