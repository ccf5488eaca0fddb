"""What can go wrong with a storage operation, and with the process that asks for it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

MUTATIONS = frozenset({"create", "put", "replace", "delete", "open_write"})
LISTINGS = frozenset({"list", "list_directories"})


class ProcessCrash(BaseException):
    """The power of this process is off: whatever it does from now on raises this."""


class StorageOperation(NamedTuple):
    """A storage operation that an actor asks for; its `number` counts those of the actor."""

    process: str
    actor: str
    number: int
    verb: str
    path: str

    @property
    def mutates(self) -> bool:
        """Whether it may change the store. A stream counts as `open_write`, when it closes."""
        return self.verb in MUTATIONS

    def commutes_with(self, other: StorageOperation) -> bool:
        """Whether the order of the two makes no difference to anyone but for the time."""
        if self.process == other.process:  # they share a memory
            return False
        if not self.mutates and not other.mutates:
            return True
        return not (self._covers(other.path) or other._covers(self.path))

    def _covers(self, path: str) -> bool:
        if self.verb in LISTINGS:
            return not self.path or path.startswith(f"{self.path}/")
        return path == self.path


class FaultKind(StrEnum):
    """Kinds of faults; those of mutations only are told of by `needs_mutation`."""

    CRASH_BEFORE = "crash_before"
    """The process dies; the operation never lands."""
    CRASH_AFTER = "crash_after"
    """The operation lands, and the process dies before it hears of it."""
    CRASH_IN_FLIGHT = "crash_in_flight"
    """The process dies; its request is on its way, and lands `ms` later."""
    LOST_REQUEST = "lost_request"
    """It does not land; the actor gets `OutcomeUnknown`."""
    LOST_RESPONSE = "lost_response"
    """It lands, or fails; the actor gets `OutcomeUnknown`."""
    STRAGGLER = "straggler"
    """The actor gets `OutcomeUnknown`, and the operation lands `ms` later all the same."""
    OUTAGE = "outage"
    """It lands, the actor gets `OutcomeUnknown`, and the store refuses its process for `ms`."""
    OUTAGE_LOST = "outage_lost"
    """The same, but it does not land."""
    OUTAGE_LATE = "outage_late"
    """The same, but it lands `ms` later, and the outage is over after half of that."""
    INTERRUPT = "interrupt"
    """It lands, and the actor gets a `KeyboardInterrupt`; with `ms`, that much later."""
    SLOW_REQUEST = "slow_request"
    """It lands `ms` later, while the actor waits; not at all if that is too late."""
    SLOW_RESPONSE = "slow_response"
    """It lands, and the actor hears of it `ms` later."""
    PAUSE = "pause"
    """The process stands still for `ms`, timers and all, with the operation before it."""
    JUMP = "jump"
    """The wall clock of the process jumps by `ms`."""
    JUMP_STORE = "jump_store"
    """The clock that dates the store's objects jumps by `ms`."""

    @property
    def needs_mutation(self) -> bool:
        """Whether it means anything, or anything new, for a mutation only."""
        return self in _OF_MUTATIONS

    @property
    def is_crash(self) -> bool:
        """Whether the process dies of it."""
        return self in (FaultKind.CRASH_BEFORE, FaultKind.CRASH_AFTER, FaultKind.CRASH_IN_FLIGHT)

    @property
    def is_outage(self) -> bool:
        """Whether the store refuses the process for a while."""
        return self in (FaultKind.OUTAGE, FaultKind.OUTAGE_LOST, FaultKind.OUTAGE_LATE)


_OF_MUTATIONS = frozenset(
    {
        *(FaultKind.CRASH_AFTER, FaultKind.CRASH_IN_FLIGHT),
        *(FaultKind.LOST_REQUEST, FaultKind.LOST_RESPONSE, FaultKind.STRAGGLER),
        *(FaultKind.OUTAGE, FaultKind.OUTAGE_LOST, FaultKind.OUTAGE_LATE),
    }
)


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong; as text `crash_after` or `pause:5000`."""

    kind: FaultKind
    ms: int = 0

    def __str__(self) -> str:
        return f"{self.kind}:{self.ms}" if self.ms else str(self.kind)

    @classmethod
    def parse(cls, text: str) -> Fault:
        """The fault that `str` made this text of. Raises `ValueError`."""
        kind, _, ms = text.partition(":")
        return cls(FaultKind(kind), int(ms or 0))

    def suits(self, operation: StorageOperation) -> bool:
        """Whether it can happen to this operation."""
        if self.kind is FaultKind.INTERRUPT:  # comes to the main thread, never to a timer
            return "~" not in operation.actor
        return operation.mutates or not self.kind.needs_mutation
