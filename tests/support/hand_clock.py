"""A clock that moves when told to, and ids that can be told apart: one machine of a test."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo

from hoodoo.runtime.env import Process


@dataclass
class HandTimer:
    """A step that is due from time to time."""

    interval_s: float
    step: Callable[[], None]
    due: float
    is_stopped: bool = False

    def stop(self) -> None:
        self.is_stopped = True


class HandLine:
    """A line without threads: who finds it taken cannot wait."""

    def __init__(self) -> None:
        self.is_taken = False

    def enter(self, timeout_s: float) -> bool:
        was_taken, self.is_taken = self.is_taken, True
        return not was_taken

    def leave(self) -> None:
        self.is_taken = False


@dataclass
class World:
    """True time, which all machines share."""

    seconds: float = 1000.0
    clocks: list[HandClock] = field(default_factory=list)

    def machine(self, wall_ms: int = 0) -> HandClock:
        """A machine whose wall clock is `wall_ms` off."""
        made = HandClock(self, wall_ms)
        self.clocks.append(made)
        return made

    def pass_time(self, seconds: float) -> None:
        """Let time go by, and the steps run that become due, each at its time."""
        end = self.seconds + seconds
        while True:
            timers = [t for c in self.clocks if not c.is_stopped for t in c.timers]
            due = [t for t in timers if not t.is_stopped and t.due <= end]
            if not due:
                break
            timer = min(due, key=lambda t: t.due)
            self.seconds = max(self.seconds, timer.due)
            timer.due += timer.interval_s
            timer.step()
        self.seconds = max(self.seconds, end)  # steps take time too


class HandClock:
    """The clock of one machine; it stands still for those who are not told of time."""

    def __init__(self, world: World, wall_ms: int) -> None:
        self.world = world
        self.wall_ms = wall_ms
        self.zone: tzinfo = UTC
        self.is_stopped = False
        self.timers: list[HandTimer] = []
        self.slept: list[float] = []
        self._lines: dict[str, HandLine] = {}

    def now_ms(self) -> int:
        return 1_767_225_600_000 + int(self.world.seconds * 1000) + self.wall_ms

    def local_ms(self, epoch_ms: int) -> int:
        moment = datetime.fromtimestamp(epoch_ms // 1000, self.zone)
        return epoch_ms + (moment.utcoffset() or timedelta()) // timedelta(milliseconds=1)

    def monotonic(self) -> float:
        return self.world.seconds

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.world.pass_time(seconds)

    def every(self, interval_ms: int, step: Callable[[], None]) -> HandTimer:
        interval_s = interval_ms / 1000
        timer = HandTimer(interval_s, step, self.world.seconds + interval_s)
        self.timers = [*(each for each in self.timers if not each.is_stopped), timer]
        return timer

    def line(self, name: str) -> HandLine:
        return self._lines.setdefault(name, HandLine())


class HandIds:
    """Ids of one machine, in order."""

    def __init__(self, host: str, app: str = "test app") -> None:
        self._process = Process(host, 7, app)
        self._numbers = itertools.count(1)

    def process(self) -> Process:
        return self._process

    def uuid(self) -> str:
        return f"{self._process.host.replace(' ', '')}-{next(self._numbers)}"

    def jitter(self) -> float:
        return 0.5
