"""Virtual time as one simulated process knows it, its timers and lines, and its ids."""

from __future__ import annotations

import logging
import math
import uuid
from collections import deque
from collections.abc import Callable
from random import Random

from hoodoo.errors import HoodooError
from hoodoo.runtime.env import FairLock, Process, Timer
from hoodoo_testing.simulator.world.stage import (
    FOREVER_MS,
    START_MS,
    Actor,
    SimProcess,
    TurnScheduler,
)

_log = logging.getLogger("hoodoo_testing")


class SimClock:
    """The clock of a process: its wall time is off by a skew, and monotonic time its own.

    Its time zone is UTC, unless a test sets another offset.
    """

    def __init__(self, stage: TurnScheduler, process: SimProcess) -> None:
        self._stage = stage
        self._process = process
        self._lines: dict[str, _SimLine] = {}
        self.zone_offset_ms = 0

    def now_ms(self) -> int:
        self._stage.enter(self._process)
        return self._stage.now_ms + self._process.skew_ms

    def local_ms(self, epoch_ms: int) -> int:
        return epoch_ms + self.zone_offset_ms

    def monotonic(self) -> float:
        self._stage.enter(self._process)
        # Every machine counts from another day: times of two of them cannot be compared.
        return (self._stage.now_ms - START_MS) / 1000 + 86_400.0 * (self._process.number + 1)

    def sleep(self, seconds: float) -> None:
        actor = self._stage.enter(self._process)
        until_ms, interrupt_ms = _due(self._stage, max(seconds, 0.001)), actor.interrupt_ms
        if interrupt_ms is not None and interrupt_ms <= until_ms:
            actor.interrupt_ms = None
            self._stage.wait(actor, max(interrupt_ms, self._stage.now_ms), what="an interrupt")
            self._stage.tell(actor, "wakes", "interrupted")
            raise KeyboardInterrupt
        self._stage.wait(actor, until_ms, what="time to pass")
        self._stage.tell(actor, "wakes", f"after {seconds:.3f} s")

    def every(self, interval_ms: int, step: Callable[[], None]) -> Timer:
        self._stage.enter(self._process)
        return _SimTimer(self._stage, self._process, interval_ms, step)

    def line(self, name: str) -> FairLock:
        self._stage.enter(self._process)
        return self._lines.setdefault(name, _SimLine(self._stage, self._process, name))


class _SimTimer:
    def __init__(
        self, stage: TurnScheduler, process: SimProcess, interval_ms: int, step: Callable[[], None]
    ) -> None:
        process.timers += 1
        self._stage = stage
        self._interval_ms = interval_ms
        self._step = step
        self._due_ms = stage.now_ms + interval_ms
        self._is_stopped = False
        name = f"{process.name}~{process.timers}"
        self._actor = stage.spawn(
            process, name, self._run, after_ms=interval_ms, begins="steps", again=self._again
        )

    def _run(self) -> None:
        try:
            self._step()
        except HoodooError as error:
            self._stage.note(self._actor.name, "fails", type(error).__name__)
            _log.warning("step_failed timer=%s error=%s", self._actor.name, error)

    def _again(self) -> int | None:
        if self._is_stopped:
            return None
        self._due_ms = max(self._due_ms + self._interval_ms, self._stage.now_ms)
        return self._due_ms

    def stop(self) -> None:
        caller = self._stage.enter(self._actor.process)
        is_running = self._actor.worker is not None
        if not is_running and not self._is_stopped:
            self._stage.remove(self._actor)
        self._is_stopped = True
        if is_running and caller is not self._actor:
            self._actor.joined_by.append(caller)
            self._stage.wait(caller, FOREVER_MS, what=f"the end of {self._actor.name}")
            self._stage.tell(caller, "stopped", self._actor.name)


class _SimLine:
    def __init__(self, stage: TurnScheduler, process: SimProcess, name: str) -> None:
        self._stage = stage
        self._process = process
        self._name = name
        self._is_taken = False
        self._waiting: deque[Actor] = deque()

    def enter(self, timeout_s: float) -> bool:
        actor = self._stage.enter(self._process)
        if not self._is_taken:
            self._is_taken = True
            return True
        self._waiting.append(actor)
        self._stage.wait(actor, _due(self._stage, timeout_s), what=f"the line {self._name}")
        if actor not in self._waiting:  # called up
            self._stage.tell(actor, "enters", self._name)
            return True
        self._waiting.remove(actor)
        self._stage.tell(actor, "gives up", self._name)
        return False

    def leave(self) -> None:
        self._stage.enter(self._process)
        if self._waiting:
            self._stage.wake(self._waiting.popleft())
        else:
            self._is_taken = False


class SimIds:
    """Ids that a seed makes: the same in every run, others in every process."""

    def __init__(self, stage: TurnScheduler, process: SimProcess) -> None:
        self._process = process
        self._random: Random | None = None
        self._seed = f"ids {stage.seed} {process.name} {process.number}"

    def process(self) -> Process:
        return Process(self._process.name, 1000 + self._process.number, "simulation")

    def uuid(self) -> str:
        return str(uuid.UUID(int=self._chance().getrandbits(128), version=4))

    def jitter(self) -> float:
        return self._chance().random()

    def _chance(self) -> Random:
        if self._random is None:  # costs more than the rest of a process: most need none
            self._random = Random(self._seed)
        return self._random


def _due(stage: TurnScheduler, seconds: float) -> int:
    """The virtual time in so many seconds; "never" for infinity."""
    if math.isinf(seconds):
        return FOREVER_MS
    return stage.now_ms + math.ceil(max(seconds, 0.0) * 1000)
