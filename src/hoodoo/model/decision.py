"""The head of a table: the last decision taken on it, and all that is needed to carry it out.

Every ending of an instant, and whatever others' checks depend on, is a decision. It is taken by
replacing one object by condition, so that of two who decided on the same facts one has lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from hoodoo.model.instant import InstantTime


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
