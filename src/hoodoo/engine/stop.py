"""`Stop`: how the work of an engine is ended from outside, by a lost heartbeat or a cancel."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hoodoo.errors import HoodooError


class Stop:
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
