"""Which instants of others stop an instant from publishing. Pure: facts in, conflicts out.

Each rule is a function that looks at one meeting of two instants. A strategy is a tuple of rules
and a notion of when two file groups are the same. What no rule objects to is committed on top of
the others (re-based) without a word. `docs/protocol/conflicts.md` has the reasons, and a matrix
that a test holds against `find_conflicts`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, IntEnum

from hoodoo.config.concurrency import ConflictStrategy
from hoodoo.model.buckets import DIGITS
from hoodoo.model.commit import CommitMetadata, OperationType
from hoodoo.model.files import DataFile, FileGroupId
from hoodoo.model.instant import Action, Instant, InstantTime
from hoodoo.model.names import FileId
from hoodoo.model.paths import PartitionPath
from hoodoo.model.stats import NO_COMMIT, WriteStat


class Kind(Enum):
    """What an instant does to the table, as far as conflicts go."""

    INGESTION = "write"
    COMPACTION = "compaction"
    LOG_COMPACTION = "log compaction"
    CLUSTERING = "clustering"
    UNDO = "undo"  # completed commits are taken back


class Touch(IntEnum):
    """What an instant does to a file group; of several ways, the highest counts."""

    CREATE = 0
    APPEND = 1  # a log file for a group that was there
    REWRITE = 2  # a base file for a group that was there
    REPLACE = 3  # the group is gone once the instant is completed


Touches = Mapping[FileGroupId, Touch]
Overwrites = frozenset[PartitionPath] | None
"""Partitions all of whose rows are replaced, those that come meanwhile too; None is all of them."""
ANY = frozenset(Touch)
WRITES = ANY - {Touch.REPLACE}


@dataclass(frozen=True, slots=True)
class Mine:
    """The instant that wants to publish."""

    time: InstantTime
    kind: Kind
    touches: Touches
    overwrites: Overwrites = frozenset()

    @classmethod
    def of(cls, instant: Instant, metadata: CommitMetadata) -> Mine:
        """The instant that is about to publish this metadata."""
        return cls(
            instant.requested_time,
            classify_commit(instant.action, metadata),
            collect_touches(metadata),
        )


@dataclass(frozen=True, slots=True)
class Other:
    """An instant of someone else: completed since mine was planned, or pending now."""

    instant: Instant
    kind: Kind
    operation: str
    touches: Touches = field(default_factory=dict)
    owner: str | None = None
    schema: str | None = None
    """The table's Avro schema as it published it; that of a table service does not count."""
    added: tuple[DataFile, ...] = ()
    """The data files that it wrote."""
    is_cancellable: bool = False
    """A pending plan that gives way to writes and to plans that are not: see `find_cancels`."""

    @property
    def time(self) -> InstantTime:
        return self.instant.requested_time

    def is_completed(self, *kinds: Kind) -> bool:
        return self.instant.is_completed and self.kind in kinds

    def is_pending(self, *kinds: Kind) -> bool:
        return self.instant.is_pending and self.kind in kinds


@dataclass(frozen=True, slots=True)
class Conflict:
    """An instant in the way: why, and about which file groups of mine."""

    other: Other
    reason: str
    file_groups: tuple[FileGroupId, ...] = ()


@dataclass(frozen=True, slots=True)
class Meeting:
    """My instant and one other; two file groups are the same if `same_as` makes them equal."""

    mine: Mine
    other: Other
    same_as: Callable[[FileGroupId], FileGroupId]

    def over(
        self,
        reason: str,
        *,
        mine: Collection[Touch] = ANY,
        theirs: Collection[Touch] = ANY,
    ) -> Conflict | None:
        """A conflict over the file groups that are touched in these ways, if there are any."""
        their_groups = {
            self.same_as(group) for group, how in self.other.touches.items() if how in theirs
        }
        groups = [
            group
            for group, how in self.mine.touches.items()
            if how in mine and self.same_as(group) in their_groups
        ]
        groups.sort(key=lambda group: (group.partition, group.file_id))
        return Conflict(self.other, reason, tuple(groups)) if groups else None


Rule = Callable[[Meeting], Conflict | None]


# -- rules that every strategy has: without them rows would be lost ----------------------------


def find_undo(meeting: Meeting) -> Conflict | None:
    """A restore, or a rollback of what mine was planned on: nobody knows what is left of it."""
    if meeting.other.kind is not Kind.UNDO:
        return None
    return Conflict(meeting.other, "commits that this one was planned on are taken back")


def find_replaced_groups(meeting: Meeting) -> Conflict | None:
    """A file group that is gone takes nothing more: it would come back, or be lost with it."""
    if not meeting.other.instant.is_completed:
        return None
    return meeting.over("it replaces", theirs={Touch.REPLACE})


def find_concurrent_writes(meeting: Meeting) -> Conflict | None:
    """Two writes to one file group: the later one was made without knowing the earlier one."""
    mine, other = meeting.mine, meeting.other
    if mine.kind is not Kind.INGESTION or not other.is_completed(Kind.INGESTION):
        return None
    return meeting.over("it writes to", theirs=WRITES)


def find_unseen_rows(meeting: Meeting) -> Conflict | None:
    """An overwrite replaces what it saw; file groups that came since would stay beside its rows."""
    mine, other = meeting.mine, meeting.other
    if not other.instant.is_completed:
        return None
    groups = sorted(
        (
            group
            for group, how in other.touches.items()
            if how is not Touch.REPLACE
            and group not in mine.touches
            and (mine.overwrites is None or group.partition in mine.overwrites)
        ),
        key=lambda group: (group.partition, group.file_id),
    )
    return Conflict(other, "it adds rows in", tuple(groups)) if groups else None


def find_rows_left_behind(meeting: Meeting) -> Conflict | None:
    """A clustering moves the rows that it was planned on; later ones would stay behind."""
    mine, other = meeting.mine, meeting.other
    if mine.kind is not Kind.CLUSTERING or not other.is_completed(Kind.INGESTION):
        return None
    return meeting.over("it writes to", theirs=WRITES)


def find_rows_hidden_by_compaction(meeting: Meeting) -> Conflict | None:
    """A compaction's base file hides what was requested before it and is not in it.

    That is a rewrite by a base file of an earlier time, and a log compaction, whose old rows
    would come on top. Appended log files are safe: they count from when they are completed, which
    is after the compaction was requested. Pending compactions count: nothing stops them later.
    """
    mine, other = meeting.mine, meeting.other
    if other.kind is Kind.COMPACTION and mine.time < other.time:
        reason = "it was requested later and does not know what becomes of"
        if mine.kind is Kind.INGESTION:
            return meeting.over(reason, mine={Touch.REWRITE})
        if mine.kind is Kind.LOG_COMPACTION:
            return meeting.over(reason)
    if mine.kind is Kind.COMPACTION and other.time < mine.time:
        reason = "it was requested earlier, but is not part of the compaction of"
        if other.is_completed(Kind.INGESTION):
            return meeting.over(reason, theirs={Touch.REWRITE})
        if other.is_completed(Kind.LOG_COMPACTION):
            return meeting.over(reason)
    return None


def find_old_logs_on_new_base(meeting: Meeting) -> Conflict | None:
    """A log compaction's rows would come on top of a base file that already has newer ones."""
    mine, other = meeting.mine, meeting.other
    if mine.kind is Kind.INGESTION and other.is_completed(Kind.LOG_COMPACTION):
        return meeting.over("it compacted the logs of", mine={Touch.REWRITE})
    if mine.kind is Kind.LOG_COMPACTION and other.is_completed(Kind.INGESTION):
        return meeting.over("it wrote new base files for", theirs={Touch.REWRITE})
    return None


def find_writes_below_compacted_logs(meeting: Meeting) -> Conflict | None:
    """A log compaction comes on top of log files of an earlier time, for readers that know no
    better; so it must have them merged. Pending writes count: nothing stops them later.
    """
    mine, other = meeting.mine, meeting.other
    if mine.kind is not Kind.LOG_COMPACTION or other.time > mine.time:
        return None
    if other.is_completed(Kind.INGESTION):
        return meeting.over(
            "it was requested earlier, and has since written to", theirs={Touch.APPEND}
        )
    if other.is_pending(Kind.INGESTION):
        return meeting.over("it was requested earlier, and is writing to")
    return None


def find_double_compaction(meeting: Meeting) -> Conflict | None:
    """Two compactions of a kind: planners never let that happen, so it is nothing to reason on."""
    mine, other = meeting.mine, meeting.other
    twice = mine.kind in (Kind.COMPACTION, Kind.LOG_COMPACTION) and other.is_completed(mine.kind)
    return meeting.over("it compacted") if twice else None


# -- rules about pending work: who gives way is a matter of taste -------------------------------


def find_pending_plan(meeting: Meeting) -> Conflict | None:
    """The work of a pending clustering or log compaction would be for nothing."""
    mine, other = meeting.mine, meeting.other
    if mine.kind is not Kind.INGESTION:
        return None
    if other.is_pending(Kind.CLUSTERING):
        return meeting.over("it is pending and will replace")
    if other.is_pending(Kind.LOG_COMPACTION):
        rewriting = {Touch.REWRITE, Touch.REPLACE}
        return meeting.over("it is pending and will compact the logs of", mine=rewriting)
    return None


def find_writer_in_progress(meeting: Meeting) -> Conflict | None:
    """A clustering gives way to a write in progress, which would fail otherwise."""
    mine, other = meeting.mine, meeting.other
    if mine.kind is not Kind.CLUSTERING or not other.is_pending(Kind.INGESTION):
        return None
    return meeting.over("it is writing to")


# -- strategies ---------------------------------------------------------------------------------


_STOPPED_BY = {
    Kind.COMPACTION: {Touch.REWRITE, Touch.REPLACE},
    Kind.LOG_COMPACTION: {Touch.REWRITE, Touch.REPLACE},
    Kind.CLUSTERING: {Touch.APPEND, Touch.REWRITE, Touch.REPLACE},
}


def by_file_id(group: FileGroupId) -> FileGroupId:
    """File groups are the same if partition and file id are."""
    return group


def by_bucket(group: FileGroupId) -> FileGroupId:
    """File groups are the same if partition and bucket are: the first digits of the file id."""
    return FileGroupId(group.partition, FileId(group.file_id[:DIGITS]))


@dataclass(frozen=True, slots=True)
class Strategy:
    """Rules in the order in which they are asked, and what makes file groups the same."""

    rules: tuple[Rule, ...]
    same_as: Callable[[FileGroupId], FileGroupId]


_ALWAYS: tuple[Rule, ...] = (
    find_undo,
    find_replaced_groups,
    find_concurrent_writes,
    find_unseen_rows,
    find_rows_left_behind,
    find_rows_hidden_by_compaction,
    find_old_logs_on_new_base,
    find_writes_below_compacted_logs,
    find_double_compaction,
)

STRATEGIES: Mapping[ConflictStrategy, Strategy] = {
    ConflictStrategy.SIMPLE: Strategy((*_ALWAYS, find_pending_plan), by_file_id),
    ConflictStrategy.PREFER_WRITER: Strategy((*_ALWAYS, find_writer_in_progress), by_file_id),
    ConflictStrategy.BUCKET: Strategy((*_ALWAYS, find_pending_plan), by_bucket),
}


def find_conflicts(
    strategy: ConflictStrategy, mine: Mine, others: Iterable[Other]
) -> list[Conflict]:
    """All that stops mine from publishing, by the time of the other instant."""
    rule_set = STRATEGIES[strategy]
    conflicts = []
    for other in sorted(others, key=lambda other: (other.time, other.instant.action.value)):
        if other.is_cancellable and other.instant.is_pending:
            continue
        meeting = Meeting(mine, other, rule_set.same_as)
        conflicts += [
            conflict for rule in rule_set.rules if (conflict := rule(meeting)) is not None
        ]
    return conflicts


def find_cancels(
    strategy: ConflictStrategy, mine: Mine, others: Iterable[Other]
) -> tuple[InstantTime, ...]:
    """The pending cancellable plans that mine leaves no way to complete: they end with it.

    A clustering loses the rows that are written meanwhile to what it replaces. Compactions take
    rows that are appended, not base files that are rewritten or replaced.
    """
    same_as = STRATEGIES[strategy].same_as
    return tuple(
        sorted(
            other.time
            for other in others
            if other.is_cancellable
            and other.instant.is_pending
            and Meeting(mine, other, same_as).over("", mine=_STOPPED_BY[other.kind])
        )
    )


def may_matter(strategy: ConflictStrategy, mine: Mine, instant: Instant, kind: Kind) -> bool:
    """Whether it is worth reading what a pending instant is about."""
    other = Other(instant, kind, "", mine.touches)
    if find_conflicts(strategy, mine, [other]):
        return True
    is_plan = kind in (Kind.COMPACTION, Kind.LOG_COMPACTION, Kind.CLUSTERING)
    return is_plan and bool(find_cancels(strategy, mine, [replace(other, is_cancellable=True)]))


# -- what instants say of themselves ------------------------------------------------------------


_KINDS = {
    OperationType.COMPACT: Kind.COMPACTION,
    OperationType.LOG_COMPACT: Kind.LOG_COMPACTION,
    OperationType.CLUSTER: Kind.CLUSTERING,
}
_KINDS_OF_COMPACTED = {
    Action.COMMIT: Kind.COMPACTION,
    Action.DELTA_COMMIT: Kind.LOG_COMPACTION,
}


def classify_commit(action: Action, metadata: CommitMetadata) -> Kind:
    """What a commit did; one that does not tell is taken for a write, the strictest."""
    kind = _KINDS.get(metadata.operation, Kind.INGESTION)
    if metadata.operation is OperationType.UNKNOWN and metadata.compacted:
        return _KINDS_OF_COMPACTED.get(action.completed_as, kind)
    return kind


def collect_touches(metadata: CommitMetadata) -> dict[FileGroupId, Touch]:
    """The file groups that a commit touches, and how."""
    touches: dict[FileGroupId, Touch] = {}
    for partition, stat in metadata.stats():
        if stat.file_id:
            group, how = FileGroupId(partition, stat.file_id), _classify_touch(stat)
            touches[group] = max(how, touches.get(group, how))
    touches.update(dict.fromkeys(metadata.replaced_file_groups(), Touch.REPLACE))
    return touches


def _classify_touch(stat: WriteStat) -> Touch:
    if stat.is_log:
        return Touch.APPEND
    return Touch.CREATE if stat.prev_commit in (None, NO_COMMIT) else Touch.REWRITE
