"""Which instants of others stop an instant from publishing. Pure: facts in, conflicts out.

Each rule is a function that looks at one meeting of two instants; a strategy is a tuple of rules
and a notion of when two file groups are the same. What no rule objects to is committed on top of
the others (re-based) without a word. `docs/protocol/conflicts.md` has the whole matrix, and the
reasons; a test holds it against `check`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum

from hoodoo.config.concurrency import CONFLICT_RETRIES, ConflictStrategy
from hoodoo.errors import WriteConflict
from hoodoo.model.commit import CommitMetadata, OperationType
from hoodoo.model.files import DataFile, FileGroupId
from hoodoo.model.instant import Action, Instant, InstantTime
from hoodoo.model.names import FileId
from hoodoo.model.stats import NO_COMMIT, WriteStat

_GROUPS_NAMED = 3
_BUCKET_DIGITS = 8


class Kind(Enum):
    """What an instant does to the table, as far as conflicts go."""

    INGESTION = "write"
    COMPACTION = "compaction"
    LOG_COMPACTION = "log compaction"
    CLUSTERING = "clustering"
    UNDO = "restore"
    """It takes completed commits back."""


class Touch(IntEnum):
    """What an instant does to a file group; the strongest counts."""

    CREATE = 0
    APPEND = 1  # a log file
    REWRITE = 2  # a base file, of a group that was there
    REPLACE = 3  # the group is gone once the instant is completed


ANY = frozenset(Touch)
WRITES = ANY - {Touch.REPLACE}

Touched = Mapping[FileGroupId, Touch]


@dataclass(frozen=True, slots=True)
class Mine:
    """The instant that wants to publish."""

    time: InstantTime
    kind: Kind
    touched: Touched

    @classmethod
    def of(cls, instant: Instant, metadata: CommitMetadata) -> Mine:
        """The instant that is about to publish this metadata."""
        return cls(instant.requested_time, kind_of(instant.action, metadata), touched_by(metadata))


@dataclass(frozen=True, slots=True)
class Other:
    """An instant of someone else: completed since mine was planned, or pending now."""

    instant: Instant
    kind: Kind
    operation: str
    touched: Touched = field(default_factory=dict)
    owner: str | None = None
    schema: str | None = None
    """The table's Avro schema that it published; services publish none that counts."""
    added: tuple[DataFile, ...] = ()
    """The data files that it wrote."""

    @property
    def time(self) -> InstantTime:
        return self.instant.requested_time

    def is_completed(self, *kinds: Kind) -> bool:
        return self.instant.is_completed and self.kind in (kinds or Kind)

    def is_pending(self, *kinds: Kind) -> bool:
        return self.instant.is_pending and self.kind in kinds


@dataclass(frozen=True, slots=True)
class Conflict:
    """One instant in the way: why, and about which file groups of mine."""

    other: Other
    rule: str
    reason: str
    file_groups: tuple[FileGroupId, ...] = ()


SameAs = Callable[[FileGroupId], FileGroupId]
"""Two file groups are the same if this makes the same of both."""


@dataclass(frozen=True, slots=True)
class Meeting:
    """My instant and one of another, and when two file groups count as one."""

    mine: Mine
    other: Other
    same_as: SameAs

    def common(
        self, *, mine: Iterable[Touch] = ANY, theirs: Iterable[Touch] = ANY
    ) -> tuple[FileGroupId, ...]:
        """File groups that I touch in one of these ways and the other one in one of those."""
        hit = {self.same_as(group) for group, how in self.other.touched.items() if how in theirs}
        found = [
            group
            for group, how in self.mine.touched.items()
            if how in mine and self.same_as(group) in hit
        ]
        return tuple(sorted(found, key=lambda group: (group.partition, group.file_id)))

    def is_service(self, kind: Kind) -> bool:
        """Whether this service is one of the two, and the other one is as far as it will get."""
        return self.mine.kind is kind or self.other.is_completed(kind)


Rule = Callable[[Meeting], tuple[FileGroupId, ...] | None]
"""The file groups in conflict; none is no conflict, except that () without groups is told apart."""
