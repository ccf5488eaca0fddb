"""The world as hoodoo sees it: storage, clock and ids. Nothing else touches anything outside."""

from __future__ import annotations

import logging
import os
import random
import socket
import sys
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from hoodoo.storage import open_storage
from hoodoo.storage.storage import Storage, monotonic


class Timer(Protocol):
    """A step that repeats until stopped."""

    def stop(self) -> None: ...


class FairLock(Protocol):
    """Those of one process who want the same thing: first come, first served, one at a time."""

    def enter(self, timeout_s: float) -> bool:
        """Wait for the turn; False when time ran out first."""

    def leave(self) -> None:
        """Let the next one in."""


class Clock(Protocol):
    """Time, and waiting. Wall time is for names and people; durations use `monotonic`."""

    def now_ms(self) -> int: ...

    def local_ms(self, epoch_ms: int) -> int:
        """What a wall clock in this process's time zone shows at a moment.

        As the milliseconds since 1970 that a clock in UTC has when it shows the same.
        """

    def monotonic(self) -> float: ...

    def sleep(self, seconds: float) -> None: ...

    def every(self, interval_ms: int, step: Callable[[], None]) -> Timer:
        """Run `step` each `interval_ms` beside the caller, the first time after one interval.

        A step that raises is logged, and the next one runs all the same. When `stop` returns
        (and was not called by the step itself), no step runs any more.
        """

    def line(self, name: str) -> FairLock:
        """The line of this process before the thing called `name`."""


@dataclass(frozen=True, slots=True)
class Process:
    """Which process this is, for the people who read a lock or a heartbeat."""

    host: str
    pid: int
    app: str

    def __str__(self) -> str:
        return f"{self.app} on {self.host}, process {self.pid}"


class Ids(Protocol):
    """Where names that must be unique come from."""

    def process(self) -> Process: ...

    def uuid(self) -> str: ...

    def jitter(self) -> float:
        """A number in [0, 1)."""


_log = logging.getLogger("hoodoo.runtime")


class _ThreadTimer:
    def __init__(self, interval_ms: int, step: Callable[[], None]) -> None:
        self._stopped = threading.Event()
        self._interval_s = interval_ms / 1000
        self._step = step
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        due = time.monotonic() + self._interval_s
        while not self._stopped.wait(due - time.monotonic()):
            try:
                self._step()
            except Exception:  # whatever it is: a heartbeat must not stop at one failed beat
                _log.exception("step_failed interval_s=%s", self._interval_s)
            # Fixed beats, not fixed pauses; those that a slow step missed are left out.
            due = max(due + self._interval_s, time.monotonic())

    def stop(self) -> None:
        self._stopped.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()


class _ThreadLine:
    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._taken = False
        self._waiting: deque[threading.Event] = deque()

    def enter(self, timeout_s: float) -> bool:
        with self._guard:
            if not self._taken:
                self._taken = True
                return True
            turn = threading.Event()
            self._waiting.append(turn)
        if turn.wait(timeout_s):
            return True
        with self._guard:
            if turn.is_set():  # called up just now
                return True
            self._waiting.remove(turn)
        return False

    def leave(self) -> None:
        with self._guard:
            if self._waiting:
                self._waiting.popleft().set()
            else:
                self._taken = False


_lines: dict[str, _ThreadLine] = {}


class SystemClock:
    """The machine's clock, and threads for `every`."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def local_ms(self, epoch_ms: int) -> int:
        try:
            return epoch_ms + time.localtime(epoch_ms // 1000).tm_gmtoff * 1000
        except (OverflowError, OSError, ValueError):  # no calendar goes that far
            return epoch_ms

    def monotonic(self) -> float:
        return monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def every(self, interval_ms: int, step: Callable[[], None]) -> Timer:
        return _ThreadTimer(interval_ms, step)

    def line(self, name: str) -> FairLock:
        return _lines.setdefault(name, _ThreadLine())


def _app() -> str:
    """The script that runs, or the package of `python -m`."""
    directory, name = os.path.split(sys.argv[0] if sys.argv else "")
    if name == "__main__.py":
        name = os.path.basename(directory)
    return name if name not in ("", "-c", "-") else "python"


class SystemIds:
    """Random ids of the operating system."""

    def process(self) -> Process:
        return Process(socket.gethostname(), os.getpid(), _app())

    def uuid(self) -> str:
        return str(uuid.uuid4())

    def jitter(self) -> float:
        return random.random()


@dataclass(frozen=True)
class Env:
    """Storage of one table, clock and ids. Pickles as a recipe that an executor rebuilds."""

    storage: Storage
    clock: Clock = field(default_factory=SystemClock)
    ids: Ids = field(default_factory=SystemIds)
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls,
        uri: str,
        storage_options: Mapping[str, str] | None = None,
        *,
        upload_limit_s: float | None = None,
    ) -> Env:
        """The real world, for the table at `uri`; see `open_storage`."""
        options = dict(storage_options or {})
        storage = open_storage(uri, options, upload_limit_s=upload_limit_s)
        return cls(storage, storage_options=options)

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (self.storage, dict(self.storage_options)))


def _rebuild(storage: Storage, storage_options: Mapping[str, str]) -> Env:
    """An unpickled `Env`: storage pickles as its own recipe; clock and ids are this machine's."""
    return Env(storage, storage_options=storage_options)
