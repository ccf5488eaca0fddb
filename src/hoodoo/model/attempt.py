"""Who works on an instant, and what it may leave behind.

Every execution of an instant is an attempt with an owner and an epoch. Whoever takes an instant
over counts the epoch up, and the owner before it has lost it.
"""

from __future__ import annotations

from dataclasses import dataclass

from hoodoo.model.instant import InstantTime

RELEASED = "released"
"""The phase of an attempt that has failed and stopped: another one may begin at once."""

GOES_FIRST = " goes first"
"""How the reason of a cancel ends if the instant in front of it was decided instead."""


@dataclass(frozen=True, slots=True)
class HeartbeatBody:
    """The body of a heartbeat file; Apache Hudi leaves it empty and looks only at its age."""

    owner: str
    epoch: int
    host: str
    pid: int
    app_id: str
    kind: str
    """What is being done: upsert, rollback, ..."""
    phase: str
    interval_ms: int
    misses: int
    seq: int

    @property
    def expiry_ms(self) -> int:
        """Silence after which the owner counts as dead."""
        return self.interval_ms * self.misses

    @property
    def is_released(self) -> bool:
        """Whether the owner said that nothing of this attempt runs any more."""
        return self.phase == RELEASED

    def is_same_attempt(self, other: HeartbeatBody) -> bool:
        return self.owner == other.owner and self.epoch == other.epoch

    def __str__(self) -> str:
        return f"{self.app_id} on {self.host}, process {self.pid} ({self.kind}, {self.phase})"


@dataclass(frozen=True, slots=True)
class CancelRequest:
    """The content of a cancel request, for people to read: who asked for a plan's end, and why."""

    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class AbortedPlan:
    """What is left of a plan that was cancelled."""

    instant: InstantTime
    action: str
    rollback: InstantTime
    """The rollback that took it off the timeline."""
    reason: str
    plan: str
    """What its requested file held, in base64."""


@dataclass(frozen=True, slots=True)
class Leftovers:
    """Where files of a rolled back instant may still turn up, from tasks that outlived it."""

    instant: InstantTime
    partitions: tuple[str, ...]
    rounds: int
    """How often these places were swept."""
