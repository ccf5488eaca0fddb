"""The way from an actor to the store and back, where requests and answers get lost or late."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, NoReturn, TypeVar

from hoodoo.errors import HoodooError, OutcomeUnknown, StorageError
from hoodoo.model.paths import META
from hoodoo_testing.simulator.world.faults import Fault, FaultKind, ProcessCrash, StorageOperation
from hoodoo_testing.simulator.world.stage import Actor, Broken, SimProcess, TurnScheduler, Violation

_PROTOCOL = f"{META}/"
"""A process that pauses sends requests for such paths afterwards, however long that was. Data files
were on their way: those that are sent after the last sweep, nobody could know of."""

Result = TypeVar("Result")
Watcher = Callable[[StorageOperation], None]


@dataclass(slots=True)
class _Answer(Generic[Result]):
    value: Result | None
    error: StorageError | None

    def __str__(self) -> str:
        return type(self.error).__name__ if self.error else "ok"

    def get(self) -> Result:
        if self.error is not None:
            raise self.error
        return self.value  # type: ignore[return-value]  # no error, so it is a result


@dataclass(slots=True)
class Network:
    """Carries operations; the watchers see each mutation that landed, at once."""

    stage: TurnScheduler
    watchers: list[Watcher] = field(default_factory=list)
    store_skew_ms: int = 0

    def carry(
        self, process: SimProcess, verb: str, path: str, action: Callable[[], Result]
    ) -> Result:
        """Let others move, then do what was asked for, unless something goes wrong."""
        stage = self.stage
        actor = stage.enter(process)
        actor.operations += 1
        operation = StorageOperation(process.name, actor.name, actor.operations, verb, path)
        fault = stage.fault(operation)
        asked_ms = stage.now_ms
        stage.wait(actor, asked_ms + self._befall(actor, fault), stays=True, what=verb)
        waited_ms = stage.now_ms - asked_ms
        if waited_ms and operation.mutates and self._is_late(operation, waited_ms):
            pauses = fault is not None and fault.kind is FaultKind.PAUSE
            if not (pauses and path.startswith(_PROTOCOL)):
                self._lose(actor, operation, "never landed: too late")
        if actor.interrupt_ms is not None and actor.interrupt_ms <= stage.now_ms:
            actor.interrupt_ms = None
            self._tell(actor, operation, "interrupted before it")
            raise KeyboardInterrupt
        if process.refused_until_ms > stage.now_ms:
            self._tell(actor, operation, "refused: an outage")
            raise StorageError(path, "connection refused")
        if fault is None:
            answer = self._land(actor, operation, action)
            self._tell(actor, operation, str(answer))
            return answer.get()
        return self._with(fault, actor, operation, action)

    def _befall(self, actor: Actor, fault: Fault | None) -> int:
        """Faults that come ahead of the operation; tells how long its request is held up."""
        if fault is None:
            return 0
        match fault:
            case Fault(FaultKind.SLOW_REQUEST, ms):
                return ms
            case Fault(FaultKind.PAUSE, ms):
                actor.process.held_until_ms = self.stage.now_ms + ms
                self.stage.note(actor.process.name, "pauses", f"for {ms} ms")
            case Fault(FaultKind.JUMP, ms):
                actor.process.skew_ms += ms
                self.stage.note(actor.process.name, "clock", f"jumps by {ms} ms")
            case Fault(FaultKind.JUMP_STORE, ms):
                self.store_skew_ms += ms
                self.stage.note("store", "clock", f"jumps by {ms} ms")
        return 0

    def _with(
        self, fault: Fault, actor: Actor, operation: StorageOperation, action: Callable[[], Result]
    ) -> Result:
        """The operation with a fault upon it."""
        match fault.kind:
            case FaultKind.CRASH_BEFORE:
                self._crash(actor, operation, "crash before it")
            case FaultKind.CRASH_IN_FLIGHT:
                self._send(fault.ms, operation, action)
                self._crash(actor, operation, "crash, request in flight")
            case FaultKind.LOST_REQUEST:
                self._lose(actor, operation, "request lost")
            case FaultKind.STRAGGLER:
                self._send(fault.ms, operation, action)
                self._lose(actor, operation, "no answer, request in flight")
            case FaultKind.OUTAGE_LOST:
                self._cut_off(actor, fault.ms)
                self._lose(actor, operation, "request lost, outage")
            case FaultKind.OUTAGE_LATE:
                self._cut_off(actor, fault.ms // 2)
                self._send(fault.ms, operation, action)
                self._lose(actor, operation, "no answer, request in flight, outage")
        answer = self._land(actor, operation, action)
        match fault.kind:
            case FaultKind.CRASH_AFTER:
                self._crash(actor, operation, f"{answer}, crash after it")
            case FaultKind.LOST_RESPONSE:
                self._lose(actor, operation, f"{answer}, response lost")
            case FaultKind.OUTAGE:
                self._cut_off(actor, fault.ms)
                self._lose(actor, operation, f"{answer}, response lost, outage")
            case FaultKind.INTERRUPT if not fault.ms:
                self._tell(actor, operation, f"{answer}, interrupted")
                raise KeyboardInterrupt
            case FaultKind.INTERRUPT:
                actor.interrupt_ms = self.stage.now_ms + fault.ms
        self._tell(actor, operation, str(answer))
        if fault.kind is FaultKind.SLOW_RESPONSE:
            until_ms = self.stage.now_ms + fault.ms
            self.stage.wait(actor, until_ms, what="a response")
            self.stage.tell(actor, "hears", f"of {operation.verb} {operation.path}")
        return answer.get()

    def _land(
        self, actor: Actor, operation: StorageOperation, action: Callable[[], Result]
    ) -> _Answer[Result]:
        """Do it in the store. Raises `ProcessCrash` when that violates an invariant."""
        stage = self.stage
        least, most = stage.settings.cost_ms
        stage.now_ms += least + int(stage.chance.random() * (most - least + 1))
        try:
            value = action()
        except StorageError as error:
            return _Answer(None, error)
        if operation.mutates:
            self._watch(actor, operation)
        return _Answer(value, None)

    def _watch(self, actor: Actor, operation: StorageOperation) -> None:
        for watcher in self.watchers:
            try:
                watcher(operation)
            except Exception as error:  # whatever it stumbles over is not as it must be
                self._tell(actor, operation, "ok, and violates an invariant")
                self.stage.fail(describe(error), by=actor, is_broken=is_broken(error))
                raise ProcessCrash(actor.name) from None

    def _send(
        self, after_ms: int, operation: StorageOperation, action: Callable[[], Result]
    ) -> None:
        """Let a request land later, whatever becomes of those who sent it."""
        if self._is_late(operation, after_ms):
            return
        stage = self.stage
        process = stage.process("network")
        name = f"{operation.actor}@{operation.number}"

        def land() -> None:
            late = StorageOperation(process.name, name, 1, operation.verb, operation.path)
            answer = self._land(straggler, late, action)
            self._tell(straggler, late, f"{answer}, late")

        straggler = stage.spawn(process, name, land, after_ms=after_ms, begins="")

    def _cut_off(self, actor: Actor, ms: int) -> None:
        """Let the store refuse a process for a while."""
        actor.process.refused_until_ms = self.stage.now_ms + ms
        self.stage.note(actor.process.name, "is cut off", f"for {ms} ms")

    def _is_late(self, operation: StorageOperation, ms: int) -> bool:
        settings = self.stage.settings
        if settings.no_limit_below and operation.path.startswith(settings.no_limit_below):
            return False
        return settings.in_flight_ms is not None and ms > settings.in_flight_ms

    def _crash(self, actor: Actor, operation: StorageOperation, what: str) -> NoReturn:
        self._tell(actor, operation, what)
        self.stage.kill(actor.process, but=actor)
        raise ProcessCrash(actor.name)

    def _lose(self, actor: Actor, operation: StorageOperation, what: str) -> NoReturn:
        self._tell(actor, operation, f"OutcomeUnknown: {what}")
        raise OutcomeUnknown(operation.path)

    def _tell(self, actor: Actor, operation: StorageOperation, outcome: str) -> None:
        self.stage.tell(actor, operation.verb, operation.path, outcome, operation=operation.number)

    def store_ms(self) -> int:
        """The time by the store's own clock."""
        return self.stage.now_ms + self.store_skew_ms


def describe(error: Exception) -> str:
    """An error of a check, in words; where it is not the check's own finding, with its origin."""
    if isinstance(error, Violation):
        return str(error)
    return "".join(traceback.format_exception(error)).rstrip()


def is_broken(error: Exception) -> bool:
    """Whether a check did not come to a finding, but broke.

    What hoodoo says of a table that it cannot read, and what a check asserts, are findings.
    """
    return isinstance(error, Broken) or not isinstance(
        error, Violation | HoodooError | AssertionError
    )
