"""Who works on an instant (attempts), and how instants end (decisions).

Every execution of an instant is an attempt with an owner and an epoch. Whoever takes an instant
over counts the epoch up, and the owner before it has lost it.

The head of a table is the last decision, with all that is needed to carry it out. Every ending of
an instant, and whatever others' checks depend on, is a decision. It is taken by replacing one
object by condition, so that of two who decided on the same facts one has lost.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from hoodoo.model.instant import InstantTime, is_instant_time
from hoodoo.model.names import named_in_json

# -- attempts --------------------------------------------------------------------------------------


RELEASE_BODY = "released"
"""The phase of an attempt that has failed and stopped: another one may begin at once."""

_GOES_FIRST = " goes first"


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
    max_missed_beats: int = field(metadata=named_in_json("misses"))
    seq: int

    @property
    def expiry_ms(self) -> int:
        """Silence after which the owner counts as dead."""
        return self.interval_ms * self.max_missed_beats

    @property
    def is_released(self) -> bool:
        """Whether the owner said that nothing of this attempt runs any more."""
        return self.phase == RELEASE_BODY

    def is_same_attempt(self, other: HeartbeatBody) -> bool:
        return self.owner == other.owner and self.epoch == other.epoch

    def __str__(self) -> str:
        return f"{self.app_id} on {self.host}, process {self.pid} ({self.kind}, {self.phase})"


@dataclass(frozen=True, slots=True)
class CancelRequest:
    """The content of a cancel request, for people to read: who asked for a plan's end, and why."""

    by: str
    reason: str
    cancelled_by: InstantTime | None = None
    """The instant that was decided instead, if the plan was in its way."""

    @classmethod
    def give_way(cls, owner: str, instant: InstantTime) -> CancelRequest:
        """The request of an instant that was decided by `owner`, to end a plan in its way."""
        return cls(owner, f"{instant}{_GOES_FIRST}", instant)


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
    cancelled_by: InstantTime | None = None
    """As the cancel request has it; `find_winner` also knows records of older releases."""

    def find_winner(self) -> InstantTime | None:
        """The instant that was decided instead of the plan, if there was one."""
        if self.cancelled_by is not None:
            return self.cancelled_by
        time, is_named, _ = self.reason.partition(_GOES_FIRST)
        return InstantTime(time) if is_named and is_instant_time(time) else None


@dataclass(frozen=True, slots=True)
class SweepNote:
    """Where files of a rolled back instant may still turn up, from tasks that outlived it."""

    instant: InstantTime
    partitions: tuple[str, ...]
    rounds: int
    """How often these places were swept."""


# -- decisions and the head ------------------------------------------------------------------------


class DecisionKind(Enum):
    """What is decided about an instant."""

    REQUEST = "request"
    """A plan or a rollback is put on the timeline: its requested file is to be created."""
    COMPLETE = "complete"
    """The completed file is to be created."""
    REMOVE = "remove"
    """A file is to be deleted: the completed one of a commit that was not acknowledged and cannot
    stand, or the requested one of a rollback that must not be carried out."""
    PROPERTIES = "properties"
    """`hoodie.properties` is to be replaced."""
    CANCEL = "cancel"
    """A plan is never to be completed: its cancel request is to be created."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The last decision on a table. Whoever finds it unfinished finishes it before all else."""

    number: int
    """Counts the decisions of a table, so that no two heads have the same bytes."""
    kind: DecisionKind
    instant: InstantTime
    """Whom it is about; for properties, when they changed."""
    owner: str
    """Who decided, so that it knows its own decision again."""
    path: str
    """The one file that carrying it out creates, replaces or deletes."""
    latest: InstantTime
    """No instant of this table has a later time, as far as those knew who decided so far."""
    needs: str | None
    """The file without which it is void: that of the instant as it was when this was decided."""
    sha256: str
    """Of the file's content, which is in `content` (base64), or in the object `staged`."""
    content: str | None = None
    staged: str | None = None
    cancels: tuple[str, ...] = ()
    """Pending plans that this ends as well: their cancel requests are created after its file."""


@dataclass(frozen=True, slots=True)
class Head:
    """The head as it is on storage; without a decision before the first one is taken."""

    decision: Decision | None = None
    etag: str | None = None

    @property
    def number(self) -> int:
        return self.decision.number if self.decision else 0

    @property
    def latest(self) -> InstantTime | None:
        return self.decision.latest if self.decision else None


PROPERTIES_DECISION = "hoodoo.properties.decision"
"""The property that tells which decision wrote `hoodie.properties`."""
