"""Actors, virtual time, and the one baton.

Every actor runs in a thread of its own, and exactly one moves. Whenever it comes to a point where
others could move, it chooses the next one itself, hands the baton over, and waits. Time stands
still while anyone can move, apart from what operations cost; then it leaps to the next wake-up.

Each thread sleeps at a lock of its own until it is handed the baton. A hand-over is one lock
released and one acquired. All workers stay on one processor: only one of them moves at a time, and
a hand-over within a processor is several times as fast as one across.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from sys import _current_frames
from typing import NoReturn

from hoodoo.errors import HoodooError
from hoodoo_testing.simulator.world.faults import Fault, ProcessCrash, StorageOperation
from hoodoo_testing.simulator.world.schedule import Schedule, Script
from hoodoo_testing.simulator.world.trace import TraceStep

# -- threads that take turns -----------------------------------------------------------------------


class Worker:
    """A thread that runs one job after another, and waits for its turn in between."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._turn.acquire()
        self._job: Callable[[], None] = _nothing
        thread = threading.Thread(target=self._run, name="simulated", daemon=True)
        thread.start()  # on the processor of the one who hires it
        self.ident = thread.ident
        _threads.append(thread)

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
        while True:
            self._turn.acquire()
            self._job()


_threads: list[threading.Thread] = []
_idle: list[Worker] = []
_libc = ctypes.CDLL(None)
_pinning = (-1, 0)  # on which processor, how many of them


def hire() -> Worker:
    """An idle worker: the one that became idle last, if there is one."""
    return _idle.pop() if _idle else Worker()


def dismiss(worker: Worker) -> None:
    """Take a worker back whose job is done but for handing the baton on."""
    _idle.append(worker)


def pin_workers_to_cpu() -> None:
    """Have all workers on the processor of the caller, who goes where there is time for it."""
    global _pinning
    if sys.platform == "linux":
        now = int(_libc.sched_getcpu()), len(_threads)
        if now != _pinning:
            for thread in _threads:
                os.sched_setaffinity(thread.native_id or 0, {now[0]})
            _pinning = now


def _nothing() -> None:
    """No job yet."""


# -- actors and virtual time -----------------------------------------------------------------------


START_MS = 1_767_225_600_000  # 2026-01-01
FOREVER_MS = 1 << 60
_STUCK_AFTER_S = 60.0  # of real time: an actor waits for something that is not simulated
_KNOCKS = 1000  # at the closed door of a crashed process, before its code counts as running away


class Violation(Exception):
    """An invariant does not hold, or the actors never come to an end."""


class Broken(Violation):
    """Code raised what neither an invariant nor hoodoo raises: a bug, maybe of the test itself."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The nature of a world."""

    in_flight_ms: int | None = 30_000
    """A mutation that has not landed this long after it was asked for never will; None: it may."""
    no_limit_below: str | None = None
    """Paths that begin so are not under this limit: requests for them land however late."""
    cost_ms: tuple[int, int] = (1, 20)
    """How long an operation takes, at least and at most."""
    skew_ms: int = 2_000
    """How far clocks are off at first, at most, forwards or back."""
    most_steps: int = 20_000
    """A run that takes more has run away."""


@dataclass(eq=False, slots=True)
class SimProcess:
    """What crashes, pauses and has a clock: actors of one memory, with their timers."""

    name: str
    number: int
    skew_ms: int
    is_dead: bool = False
    held_until_ms: int = 0
    refused_until_ms: int = 0
    """Until then the store refuses whatever it asks for."""
    timers: int = 0
    living: int = 0
    """Actors that keep it running: all but timers."""
    knocks: int = 0


@dataclass(eq=False, slots=True)
class Actor:
    """A thread of a process; without a worker, it has not begun, or waits for its next time."""

    name: str
    number: int
    process: SimProcess
    action: Callable[[], object]
    wake_ms: int
    """When it can move; `FOREVER_MS` until someone wakes it."""
    begins: str = "begins"
    """What the trace says of its first move; "" if it tells of that itself."""
    again: Callable[[], int | None] | None = None
    """When it begins again, asked at its end: for timers, which keep no process running."""
    worker: Worker | None = None
    operations: int = 0
    interrupt_ms: int | None = None
    """When a `KeyboardInterrupt` comes to it."""
    waits_for: str = ""
    result: object = None
    error: BaseException | None = None
    joined_by: list[Actor] = field(default_factory=list)


class TurnScheduler:
    """Where actors take turns."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.now_ms = START_MS
        self.steps: list[TraceStep] = []
        self.picks: dict[int, str] = {}
        self.faults: dict[tuple[str, int], Fault] = {}
        self.violation: str | None = None
        self.is_broken = False
        self._schedule: Schedule = Script()
        self._step = 0
        self._actors: list[Actor] = []
        self._living = 0
        self._doomed: list[Actor] = []
        self._moving: Actor | None = None
        self._home = threading.Lock()
        self._home.acquire()
        self.restart(0)

    # Before and after

    def process(self, name: str) -> SimProcess:
        """A new process; a name may come back, as those of restarted programs do."""
        process = SimProcess(name, len(self._processes), self.skew())
        self._processes.append(process)
        return process

    def spawn(
        self,
        process: SimProcess,
        name: str,
        action: Callable[[], object],
        *,
        after_ms: int = 0,
        begins: str = "begins",
        again: Callable[[], int | None] | None = None,
    ) -> Actor:
        """A new actor of a process, who can move `after_ms` from now."""
        self._numbers += 1
        wake_ms = self.now_ms + after_ms
        actor = Actor(name, self._numbers, process, action, wake_ms, begins, again)
        self._actors.append(actor)
        if again is None:
            process.living += 1
            self._living += 1
        return actor

    def play(self, schedule: Schedule) -> None:
        """Let the actors move until all have ended; called from outside."""
        self._schedule = schedule
        pin_workers_to_cpu()
        self._give(self._next(0, stays=False))
        last_step = self._step
        while not self._home.acquire(timeout=_STUCK_AFTER_S):
            if last_step == self._step:
                raise RuntimeError(f"no step for {_STUCK_AFTER_S} s:\n{self._where()}")
            last_step = self._step

    def restart(self, seed: int) -> None:
        """Go on from what is stored and from the time, as if nothing else had been before."""
        assert not self._actors
        self.seed = seed
        self.chance = Random(f"world {seed}")
        self._processes: list[SimProcess] = []
        self._numbers = 0
        self.steps.clear()
        self.picks.clear()
        self.faults.clear()
        self._step = 0

    def skew(self) -> int:
        """How far off a new clock is."""
        most = self.settings.skew_ms
        return int((self.chance.random() * 2 - 1) * most)

    # Called by the actor who moves

    def enter(self, process: SimProcess) -> Actor:
        """The actor who moves, if it may do anything at all. Raises `ProcessCrash`."""
        if process.is_dead:
            self._knock(process)
        actor = self._moving
        if actor is None or actor.worker is None or actor.worker.ident != threading.get_ident():
            raise RuntimeError("a thread that is no actor uses the environment of one")
        if actor.process is not process:
            raise RuntimeError(f"{actor.name} uses the environment of {process.name}")
        return actor

    def wait(self, actor: Actor, until_ms: int, *, stays: bool = False, what: str = "") -> None:
        """Let others move; come back when it is time, or someone woke the actor.

        `stays`: the actor could go on at once. Raises `ProcessCrash`.
        """
        actor.wake_ms = until_ms
        actor.waits_for = what
        successor = self._next(actor.number, stays=stays)
        if successor is not actor:
            assert actor.worker is not None
            self._give(successor)
            actor.worker.wait()
        if actor.process.is_dead:
            raise ProcessCrash(actor.name)

    def wake(self, actor: Actor) -> None:
        """Let an actor that waits move from now on."""
        actor.wake_ms = self.now_ms

    def remove(self, actor: Actor) -> None:
        """End an actor that has no worker, or whose action has ended."""
        self._actors.remove(actor)
        for other in actor.joined_by:
            self.wake(other)
        if actor.again is None:
            self._living -= 1
            actor.process.living -= 1
            if not actor.process.living:
                self.kill(actor.process)

    def kill(self, process: SimProcess, *, but: Actor | None = None) -> None:
        """End a process and all its actors, `but` the one that moves and ends by itself."""
        if process.is_dead:
            return
        process.is_dead = True
        for actor in [each for each in self._actors if each.process is process]:
            if actor is but:
                continue
            if actor.worker is None:
                actor.error = ProcessCrash(actor.name)
                self.remove(actor)
            else:
                self._doomed.append(actor)

    def fail(self, reason: str, *, by: Actor | None, is_broken: bool = False) -> None:
        """End the run: an invariant is violated. The actor who moves must raise `ProcessCrash`."""
        if self.violation is None:
            self.violation, self.is_broken = reason, is_broken
        for process in self._processes:
            self.kill(process, but=by)

    def fault(self, operation: StorageOperation) -> Fault | None:
        """What goes wrong with this operation, which is written down."""
        fault = self._schedule.fault(operation)
        if fault is not None and fault.suits(operation):
            self.faults[operation.actor, operation.number] = fault
            return fault
        return None

    def tell(
        self, actor: Actor, verb: str, path: str = "", outcome: str = "", *, operation: int = 0
    ) -> None:
        """Write down the move that the actor was picked for."""
        at_ms = self.now_ms - START_MS
        self.steps.append(TraceStep(self._step, at_ms, actor.name, operation, verb, path, outcome))

    def note(self, who: str, verb: str, what: str = "") -> None:
        """Write down something that nobody was picked for."""
        self.steps.append(TraceStep(None, self.now_ms - START_MS, who, 0, verb, what, ""))

    # Turns

    def _next(self, last: int, *, stays: bool) -> Actor | None:
        """Whose turn it is after the actor number `last`; None when all have ended."""
        if self._doomed:
            return self._doomed.pop()
        if not self._living:
            return None
        ready = self._ready()
        if not ready:
            waiting = "; ".join(f"{each.name} waits for {each.waits_for}" for each in self._actors)
            return self._give_up(f"deadlock: {waiting}")
        self._step += 1
        if self._step > self.settings.most_steps:
            return self._give_up(f"no end after {self.settings.most_steps} steps")
        if len(ready) == 1:
            return ready[0]
        # Whoever moved goes on if it can; else the others have their turn before it has another.
        first = last if stays else last + 1
        ready.sort(key=lambda actor: (actor.number < first, actor.number))
        names = [actor.name for actor in ready]
        at = self._schedule.pick(self._step, names, stays=stays and ready[0].number == last)
        if at:
            self.picks[self._step] = names[at]
        return ready[at]

    def _ready(self) -> list[Actor]:
        """Those who can move now, or as soon as anyone can."""
        while True:
            now_ms = self.now_ms
            ready = [
                actor
                for actor in self._actors
                if actor.wake_ms <= now_ms and actor.process.held_until_ms <= now_ms
            ]
            if ready:
                return ready
            due = (max(each.wake_ms, each.process.held_until_ms) for each in self._actors)
            now_ms = min(due, default=FOREVER_MS)
            if now_ms >= FOREVER_MS:
                return []
            self.now_ms = now_ms

    def _give_up(self, reason: str) -> Actor | None:
        self.fail(reason, by=None)
        return self._doomed.pop() if self._doomed else None

    def _give(self, actor: Actor | None) -> None:
        """Hand the baton over; it goes back to the outside when all have ended."""
        self._moving = actor
        if actor is None:
            self._home.release()
        elif actor.worker is None:
            actor.worker = hire()
            actor.worker.begin(partial(self._live, actor))
        else:
            actor.worker.hand_over()

    def _live(self, actor: Actor) -> None:
        """The life of an actor, in its worker's thread."""
        if actor.begins:
            self.tell(actor, actor.begins)
        try:
            actor.result = actor.action()
        except (ProcessCrash, HoodooError, KeyboardInterrupt) as error:
            actor.error = error.with_traceback(None)  # frames would live as long as the outcome
        except Violation as error:
            self.fail(str(error), by=actor, is_broken=isinstance(error, Broken))
        except BaseException as error:  # a bug, whatever it is
            actor.error = error
            reason = f"{actor.name} broke: {traceback.format_exc()}"
            self.fail(reason, by=actor, is_broken=True)
        self._end(actor)

    def _end(self, actor: Actor) -> None:
        worker = actor.worker
        assert worker is not None
        actor.worker = None
        again_ms = None
        if actor.again is None:
            reason = f"with {type(actor.error).__name__}" if actor.error else ""
            self.note(actor.name, "ends", reason)
        elif not actor.process.is_dead:
            again_ms = actor.again()
        if again_ms is None:
            self.remove(actor)
        else:
            actor.wake_ms = again_ms
        successor = self._next(actor.number, stays=False)
        # First: who begins now may do so in this very thread, at no cost.
        dismiss(worker)
        self._give(successor)

    def _where(self) -> str:
        """Where the actor who moves is, in real code."""
        worker = self._moving.worker if self._moving else None
        frame = _current_frames().get(worker.ident or 0) if worker else None
        return "".join(traceback.format_stack(frame)) if frame else "nowhere"

    def _knock(self, process: SimProcess) -> NoReturn:
        """Code of a dead process wants to do something."""
        process.knocks += 1
        actor = self._moving
        if actor is None:
            raise RuntimeError(f"{process.name} has ended; its environment is of no use any more")
        if process.knocks > _KNOCKS and actor.process is process:
            # It would go on forever. Its thread is lost; the run is not.
            self.fail(f"{actor.name} goes on after its crash", by=actor)
            self.remove(actor)
            self._give(self._next(actor.number, stays=False))
            threading.Event().wait()
        raise ProcessCrash(process.name)
