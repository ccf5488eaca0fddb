"""Which concurrent instants stop an instant from publishing. Pure: facts in, conflicts out.

Each rule is a function that looks at one pair of instants. A strategy is a tuple of rules and a
notion of when two file groups are the same. What no rule objects to is committed on top of the
others (re-based). `docs/protocol/conflicts.md` has the reasons, and a matrix that a test holds
against `find_conflicts`. `make_conflict_error` words the error that a user gets.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, IntEnum

from hoodoo.config.concurrency import CONFLICT_RETRIES, ConflictStrategy
from hoodoo.errors import EarlyConflict, WriteConflict
from hoodoo.model.commit import NO_COMMIT, CommitMetadata, OperationType, WriteStat
from hoodoo.model.files import DataFile, FileGroupId
from hoodoo.model.instant import Action, Instant, InstantTime
from hoodoo.model.keys import DIGITS
from hoodoo.model.names import FileId
from hoodoo.model.paths import PartitionPath

# -- instants and conflicts ---------------------------------------------------------------------


class InstantKind(Enum):
    """What an instant does to the table, as far as conflicts go."""

    INGESTION = "write"
    COMPACTION = "compaction"
    LOG_COMPACTION = "log compaction"
    CLUSTERING = "clustering"
    UNDO = "undo"  # completed commits are taken back


class GroupEffect(IntEnum):
    """What an instant does to a file group; of several ways, the highest counts."""

    CREATE = 0
    APPEND = 1  # a log file for a group that was there
    REWRITE = 2  # a base file for a group that was there
    REPLACE = 3  # the group is gone once the instant is completed


GroupEffects = Mapping[FileGroupId, GroupEffect]
Overwrites = frozenset[PartitionPath] | None
"""Partitions all of whose rows are replaced, those that come meanwhile too; None is all of them."""
ANY = frozenset(GroupEffect)
WRITES = ANY - {GroupEffect.REPLACE}


@dataclass(frozen=True, slots=True)
class PublishingInstant:
    """The instant that wants to publish."""

    time: InstantTime
    kind: InstantKind
    group_effects: GroupEffects
    overwrites: Overwrites = frozenset()

    @classmethod
    def of(cls, instant: Instant, metadata: CommitMetadata) -> PublishingInstant:
        """The instant that is about to publish this metadata."""
        return cls(
            instant.requested_time,
            classify_commit(instant.action, metadata),
            collect_group_effects(metadata),
        )


@dataclass(frozen=True, slots=True)
class ConcurrentInstant:
    """An instant of someone else: completed since mine was planned, or pending now."""

    instant: Instant
    kind: InstantKind
    operation: str
    group_effects: GroupEffects = field(default_factory=dict)
    owner: str | None = None
    schema: str | None = None
    """The table's Avro schema as it published it; that of a table service does not count."""
    data_files: tuple[DataFile, ...] = ()
    """The data files that it wrote."""
    is_cancellable: bool = False
    """A pending plan that gives way to writes and to plans that are not: see
    `find_plans_to_cancel`.
    """

    @property
    def time(self) -> InstantTime:
        return self.instant.requested_time

    def is_completed(self, *kinds: InstantKind) -> bool:
        return self.instant.is_completed and self.kind in kinds

    def is_pending(self, *kinds: InstantKind) -> bool:
        return self.instant.is_pending and self.kind in kinds


@dataclass(frozen=True, slots=True)
class Conflict:
    """An instant in the way: why, and about which file groups of mine."""

    concurrent: ConcurrentInstant
    reason: str
    file_groups: tuple[FileGroupId, ...] = ()


@dataclass(frozen=True, slots=True)
class InstantPair:
    """My instant and one other; two file groups are the same if `same_as` makes them equal."""

    publishing: PublishingInstant
    concurrent: ConcurrentInstant
    group_identity: Callable[[FileGroupId], FileGroupId]

    def conflict_on_shared_groups(
        self,
        reason: str,
        *,
        publishing_effects: Collection[GroupEffect] = ANY,
        concurrent_effects: Collection[GroupEffect] = ANY,
    ) -> Conflict | None:
        """A conflict over the file groups that are touched in these ways, if there are any."""
        their_groups = {
            self.group_identity(group)
            for group, how in self.concurrent.group_effects.items()
            if how in concurrent_effects
        }
        groups = [
            group
            for group, how in self.publishing.group_effects.items()
            if how in publishing_effects and self.group_identity(group) in their_groups
        ]
        groups.sort(key=lambda group: (group.partition, group.file_id))
        return Conflict(self.concurrent, reason, tuple(groups)) if groups else None


ConflictRule = Callable[[InstantPair], Conflict | None]


# -- rules that every strategy has: without them rows would be lost ----------------------------


def find_taken_back_commits(pair: InstantPair) -> Conflict | None:
    """A restore, or a rollback of what mine was planned on: nobody knows what is left of it."""
    if pair.concurrent.kind is not InstantKind.UNDO:
        return None
    return Conflict(pair.concurrent, "commits that this one was planned on are taken back")


def find_replaced_groups(pair: InstantPair) -> Conflict | None:
    """A file group that is gone takes nothing more: it would come back, or be lost with it."""
    if not pair.concurrent.instant.is_completed:
        return None
    return pair.conflict_on_shared_groups("it replaces", concurrent_effects={GroupEffect.REPLACE})


def find_concurrent_writes(pair: InstantPair) -> Conflict | None:
    """Two writes to one file group: the later one was made without knowing the earlier one."""
    publishing, concurrent = pair.publishing, pair.concurrent
    if publishing.kind is not InstantKind.INGESTION or not concurrent.is_completed(
        InstantKind.INGESTION
    ):
        return None
    return pair.conflict_on_shared_groups("it writes to", concurrent_effects=WRITES)


def find_unseen_rows(pair: InstantPair) -> Conflict | None:
    """An overwrite replaces what it saw; file groups that came since would stay beside its rows."""
    publishing, concurrent = pair.publishing, pair.concurrent
    if not concurrent.instant.is_completed:
        return None
    groups = sorted(
        (
            group
            for group, how in concurrent.group_effects.items()
            if how is not GroupEffect.REPLACE
            and group not in publishing.group_effects
            and (publishing.overwrites is None or group.partition in publishing.overwrites)
        ),
        key=lambda group: (group.partition, group.file_id),
    )
    return Conflict(concurrent, "it adds rows in", tuple(groups)) if groups else None


def find_rows_left_behind(pair: InstantPair) -> Conflict | None:
    """A clustering moves the rows that it was planned on; later ones would stay behind."""
    publishing, concurrent = pair.publishing, pair.concurrent
    if publishing.kind is not InstantKind.CLUSTERING or not concurrent.is_completed(
        InstantKind.INGESTION
    ):
        return None
    return pair.conflict_on_shared_groups("it writes to", concurrent_effects=WRITES)


def find_rows_hidden_by_compaction(pair: InstantPair) -> Conflict | None:
    """A compaction's base file hides what was requested before it and is not in it.

    That is a rewrite by a base file of an earlier time, and a log compaction, whose old rows
    would come on top. Appended log files are safe: they count from when they are completed, which
    is after the compaction was requested. Pending compactions count: nothing stops them later.
    """
    publishing, concurrent = pair.publishing, pair.concurrent
    if concurrent.kind is InstantKind.COMPACTION and publishing.time < concurrent.time:
        reason = "it was requested later and does not know what becomes of"
        if publishing.kind is InstantKind.INGESTION:
            return pair.conflict_on_shared_groups(reason, publishing_effects={GroupEffect.REWRITE})
        if publishing.kind is InstantKind.LOG_COMPACTION:
            return pair.conflict_on_shared_groups(reason)
    if publishing.kind is InstantKind.COMPACTION and concurrent.time < publishing.time:
        reason = "it was requested earlier, but is not part of the compaction of"
        if concurrent.is_completed(InstantKind.INGESTION):
            return pair.conflict_on_shared_groups(reason, concurrent_effects={GroupEffect.REWRITE})
        if concurrent.is_completed(InstantKind.LOG_COMPACTION):
            return pair.conflict_on_shared_groups(reason)
    return None


def find_old_logs_on_new_base(pair: InstantPair) -> Conflict | None:
    """A log compaction's rows would come on top of a base file that already has newer ones."""
    publishing, concurrent = pair.publishing, pair.concurrent
    if publishing.kind is InstantKind.INGESTION and concurrent.is_completed(
        InstantKind.LOG_COMPACTION
    ):
        return pair.conflict_on_shared_groups(
            "it compacted the logs of", publishing_effects={GroupEffect.REWRITE}
        )
    if publishing.kind is InstantKind.LOG_COMPACTION and concurrent.is_completed(
        InstantKind.INGESTION
    ):
        return pair.conflict_on_shared_groups(
            "it wrote new base files for", concurrent_effects={GroupEffect.REWRITE}
        )
    return None


def find_writes_below_compacted_logs(pair: InstantPair) -> Conflict | None:
    """A log compaction comes on top of log files of an earlier time, for readers that know no
    better; so it must have them merged. Pending writes count: nothing stops them later.
    """
    publishing, concurrent = pair.publishing, pair.concurrent
    if publishing.kind is not InstantKind.LOG_COMPACTION or concurrent.time > publishing.time:
        return None
    if concurrent.is_completed(InstantKind.INGESTION):
        return pair.conflict_on_shared_groups(
            "it was requested earlier, and has since written to",
            concurrent_effects={GroupEffect.APPEND},
        )
    if concurrent.is_pending(InstantKind.INGESTION):
        return pair.conflict_on_shared_groups("it was requested earlier, and is writing to")
    return None


def find_double_compaction(pair: InstantPair) -> Conflict | None:
    """Two compactions of a kind: planners never let that happen, so it is nothing to reason on."""
    publishing, concurrent = pair.publishing, pair.concurrent
    twice = publishing.kind in (
        InstantKind.COMPACTION,
        InstantKind.LOG_COMPACTION,
    ) and concurrent.is_completed(publishing.kind)
    return pair.conflict_on_shared_groups("it compacted") if twice else None


# -- rules about pending work: who gives way is a matter of taste -------------------------------


def find_pending_plan(pair: InstantPair) -> Conflict | None:
    """The work of a pending clustering or log compaction would be for nothing."""
    publishing, concurrent = pair.publishing, pair.concurrent
    if publishing.kind is not InstantKind.INGESTION:
        return None
    if concurrent.is_pending(InstantKind.CLUSTERING):
        return pair.conflict_on_shared_groups("it is pending and will replace")
    if concurrent.is_pending(InstantKind.LOG_COMPACTION):
        rewriting = {GroupEffect.REWRITE, GroupEffect.REPLACE}
        return pair.conflict_on_shared_groups(
            "it is pending and will compact the logs of", publishing_effects=rewriting
        )
    return None


def find_writer_in_progress(pair: InstantPair) -> Conflict | None:
    """A clustering gives way to a write in progress, which would fail otherwise."""
    publishing, concurrent = pair.publishing, pair.concurrent
    if publishing.kind is not InstantKind.CLUSTERING or not concurrent.is_pending(
        InstantKind.INGESTION
    ):
        return None
    return pair.conflict_on_shared_groups("it is writing to")


# -- strategies ---------------------------------------------------------------------------------


_STOPPED_BY = {
    InstantKind.COMPACTION: {GroupEffect.REWRITE, GroupEffect.REPLACE},
    InstantKind.LOG_COMPACTION: {GroupEffect.REWRITE, GroupEffect.REPLACE},
    InstantKind.CLUSTERING: {GroupEffect.APPEND, GroupEffect.REWRITE, GroupEffect.REPLACE},
}


def identify_by_file_id(group: FileGroupId) -> FileGroupId:
    """File groups are the same if partition and file id are."""
    return group


def identify_by_bucket(group: FileGroupId) -> FileGroupId:
    """File groups are the same if partition and bucket are: the first digits of the file id."""
    return FileGroupId(group.partition, FileId(group.file_id[:DIGITS]))


@dataclass(frozen=True, slots=True)
class ConflictRules:
    """Rules in the order in which they are asked, and what makes file groups the same."""

    rules: tuple[ConflictRule, ...]
    group_identity: Callable[[FileGroupId], FileGroupId]


_ALWAYS: tuple[ConflictRule, ...] = (
    find_taken_back_commits,
    find_replaced_groups,
    find_concurrent_writes,
    find_unseen_rows,
    find_rows_left_behind,
    find_rows_hidden_by_compaction,
    find_old_logs_on_new_base,
    find_writes_below_compacted_logs,
    find_double_compaction,
)

STRATEGIES: Mapping[ConflictStrategy, ConflictRules] = {
    ConflictStrategy.SIMPLE: ConflictRules((*_ALWAYS, find_pending_plan), identify_by_file_id),
    ConflictStrategy.PREFER_WRITER: ConflictRules(
        (*_ALWAYS, find_writer_in_progress), identify_by_file_id
    ),
    ConflictStrategy.BUCKET: ConflictRules((*_ALWAYS, find_pending_plan), identify_by_bucket),
}


def find_conflicts(
    strategy: ConflictStrategy,
    publishing: PublishingInstant,
    concurrent_instants: Iterable[ConcurrentInstant],
) -> list[Conflict]:
    """All that stops mine from publishing, by the time of the other instant."""
    rule_set = STRATEGIES[strategy]
    conflicts = []
    for concurrent in sorted(
        concurrent_instants,
        key=lambda concurrent: (concurrent.time, concurrent.instant.action.value),
    ):
        if concurrent.is_cancellable and concurrent.instant.is_pending:
            continue
        meeting = InstantPair(publishing, concurrent, rule_set.group_identity)
        conflicts += [
            conflict for rule in rule_set.rules if (conflict := rule(meeting)) is not None
        ]
    return conflicts


def find_plans_to_cancel(
    strategy: ConflictStrategy,
    publishing: PublishingInstant,
    concurrent_instants: Iterable[ConcurrentInstant],
) -> tuple[InstantTime, ...]:
    """The pending cancellable plans that mine leaves no way to complete: they end with it.

    A clustering loses the rows that are written meanwhile to what it replaces. Compactions take
    rows that are appended, not base files that are rewritten or replaced.
    """
    same_as = STRATEGIES[strategy].group_identity
    return tuple(
        sorted(
            concurrent.time
            for concurrent in concurrent_instants
            if concurrent.is_cancellable
            and concurrent.instant.is_pending
            and InstantPair(publishing, concurrent, same_as).conflict_on_shared_groups(
                "", publishing_effects=_STOPPED_BY[concurrent.kind]
            )
        )
    )


def could_conflict(
    strategy: ConflictStrategy, publishing: PublishingInstant, instant: Instant, kind: InstantKind
) -> bool:
    """Whether it is worth reading what a pending instant is about."""
    concurrent = ConcurrentInstant(instant, kind, "", publishing.group_effects)
    if find_conflicts(strategy, publishing, [concurrent]):
        return True
    is_plan = kind in (InstantKind.COMPACTION, InstantKind.LOG_COMPACTION, InstantKind.CLUSTERING)
    return is_plan and bool(
        find_plans_to_cancel(strategy, publishing, [replace(concurrent, is_cancellable=True)])
    )


# -- what instants say of themselves ------------------------------------------------------------


_KINDS = {
    OperationType.COMPACT: InstantKind.COMPACTION,
    OperationType.LOG_COMPACT: InstantKind.LOG_COMPACTION,
    OperationType.CLUSTER: InstantKind.CLUSTERING,
}
_KINDS_OF_COMPACTED = {
    Action.COMMIT: InstantKind.COMPACTION,
    Action.DELTA_COMMIT: InstantKind.LOG_COMPACTION,
}


def classify_commit(action: Action, metadata: CommitMetadata) -> InstantKind:
    """What a commit did; one that does not tell is taken for a write, the strictest."""
    kind = _KINDS.get(metadata.operation, InstantKind.INGESTION)
    if metadata.operation is OperationType.UNKNOWN and metadata.compacted:
        return _KINDS_OF_COMPACTED.get(action.completed_as, kind)
    return kind


def collect_group_effects(metadata: CommitMetadata) -> dict[FileGroupId, GroupEffect]:
    """The file groups that a commit touches, and how."""
    touches: dict[FileGroupId, GroupEffect] = {}
    for partition, stat in metadata.stats():
        if stat.file_id:
            group, how = FileGroupId(partition, stat.file_id), _classify_touch(stat)
            touches[group] = max(how, touches.get(group, how))
    touches.update(dict.fromkeys(metadata.replaced_file_groups(), GroupEffect.REPLACE))
    return touches


def _classify_touch(stat: WriteStat) -> GroupEffect:
    if stat.is_log:
        return GroupEffect.APPEND
    return GroupEffect.CREATE if stat.prev_commit in (None, NO_COMMIT) else GroupEffect.REWRITE


# -- the error for users ------------------------------------------------------------------------


TRY_AGAIN = f"try again, or have that done by {CONFLICT_RETRIES.name}"
"""What to do about most conflicts."""

_CONFLICTS_NAMED = 3
_GROUPS_NAMED = 3


def make_conflict_error(
    publishing: PublishingInstant,
    conflicts: Sequence[Conflict],
    owners: Mapping[InstantTime, str] | None = None,
    *,
    in_progress: Collection[InstantTime] = (),
    is_early: bool = False,
) -> WriteConflict:
    """The error for these conflicts; `owners` says who made an instant that does not tell.

    `in_progress`: those of the others that have not committed yet. `is_early`: the write has not
    been finished.
    """
    descriptions = [
        _describe_conflict(conflict, owners or {}, in_progress)
        for conflict in conflicts[:_CONFLICTS_NAMED]
    ]
    if len(conflicts) > _CONFLICTS_NAMED:
        descriptions.append(f"and {len(conflicts) - _CONFLICTS_NAMED} more")
    with_whom = "; ".join(descriptions)
    groups = {str(group) for conflict in conflicts for group in conflict.file_groups}
    kind = EarlyConflict if is_early else WriteConflict
    return kind(
        f"{publishing.kind.value} {publishing.time} conflicts with {with_whom}. "
        f"Nothing of it is visible: {_choose_advice(publishing, conflicts)}",
        instant=publishing.time,
        conflicting_instants=tuple(
            dict.fromkeys(conflict.concurrent.time for conflict in conflicts)
        ),
        file_groups=tuple(sorted(groups)),
    )


def _describe_conflict(
    conflict: Conflict, owners: Mapping[InstantTime, str], in_progress: Collection[InstantTime]
) -> str:
    concurrent = conflict.concurrent
    still = ", in progress" if concurrent.time in in_progress else ""
    owner = concurrent.owner or owners.get(concurrent.time)
    by = f" by {owner}" if owner else ""
    group_names = ", ".join(map(str, conflict.file_groups[:_GROUPS_NAMED]))
    more = len(conflict.file_groups) - _GROUPS_NAMED
    groups = f" {group_names}" + (f" and {more} more" if more > 0 else "")
    return (
        f"{concurrent.instant.action.value} {concurrent.time} ({concurrent.operation}{still}{by}): "
        f"{conflict.reason}{groups if group_names else ''}"
    )


def _choose_advice(publishing: PublishingInstant, conflicts: Sequence[Conflict]) -> str:
    if publishing.kind is not InstantKind.INGESTION:
        return "plan it anew"
    if any(
        c.concurrent.is_pending(InstantKind.CLUSTERING, InstantKind.LOG_COMPACTION)
        for c in conflicts
    ):
        return "run the pending plan, or roll it back, and try again"
    return TRY_AGAIN
