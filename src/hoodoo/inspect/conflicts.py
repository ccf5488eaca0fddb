"""Writes in progress and pending plans for people: who touches what, and who will lose.

As of `inspect.timeline`: looking writes nothing, so a silence is at least as long as it says. An
instant announces what it is going to do by its plan, or its workload profile, and by the markers of
its files. Which of two instants will lose is decided purely, by the rules of the real thing.

Each of the two is asked what it would be told if it looked now (`find_early_conflicts`,
`find_conflicts`), and whether the other would cancel it (`find_plans_to_cancel`). If neither has to
give way, each is asked what it would meet in the gate if the other had committed before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from hoodoo.concurrency.conflicts.announced_files import effect_of_marker
from hoodoo.concurrency.conflicts.changes_since import PENDING_KINDS, load_concurrent_instant
from hoodoo.concurrency.conflicts.early_detection import DetectionSettings, find_early_conflicts
from hoodoo.concurrency.conflicts.rules import (
    STRATEGIES,
    ConcurrentInstant,
    Conflict,
    GroupEffect,
    InstantKind,
    InstantPair,
    Overwrites,
    PublishingInstant,
    find_conflicts,
    find_plans_to_cancel,
)
from hoodoo.concurrency.conflicts.writes_in_progress import LiveWrite
from hoodoo.concurrency.heartbeats import WriterStatus
from hoodoo.concurrency.markers import load_markers
from hoodoo.concurrency.transactions.head import read_head
from hoodoo.config.concurrency import ConflictStrategy
from hoodoo.errors import FormatError, ObjectNotFound, StorageError
from hoodoo.inspect.timeline import age_seconds, estimate_pulse, newest_ms
from hoodoo.model.commit import CommitMetadata, OperationType
from hoodoo.model.coordination import DecisionKind
from hoodoo.model.files import FileGroupId
from hoodoo.model.instant import Action, Instant, InstantTime, State
from hoodoo.recovery.rollback import NO_PLAN, PlanState, load_plan_state
from hoodoo.services.plans.execute import choose_strategy
from hoodoo.table.ref import TableRef
from hoodoo.table.timeline import Timeline, load_rollback_targets, read_metadata
from hoodoo.write.commit.begin import conflict_strategy

# -- which of two instants would lose --------------------------------------------------------------


_UNKNOWN = WriterStatus(0, 0)


class ClashOutcome(Enum):
    """How two instants that touch the same get on."""

    LOSES = "loses"
    """One gives way to the other, or fails on it."""
    LOSES_IF_SECOND = "loses if second"
    """One fails if the other commits before it."""
    SECOND_LOSES = "second loses"
    """Whichever commits second fails."""
    BOTH_COMMIT = "both commit"


@dataclass(frozen=True, slots=True)
class Contender:
    """A write in progress or a pending plan, as the rules see it."""

    concurrent: ConcurrentInstant
    """As others meet it."""
    publishing: PublishingInstant | None
    """As it asks for itself; None for a restore, which asks nobody."""
    is_over: bool = False
    """A write that commits no more: dead, or being rolled back. Nobody gives way to it."""
    is_ending: bool = False
    """A plan that nobody can complete any more; it is in the way until it is off the timeline."""
    is_decided: bool = False
    """It is committed for everybody, and will be visible."""

    @property
    def time(self) -> InstantTime:
        return self.concurrent.time

    @property
    def is_write(self) -> bool:
        return self.concurrent.kind is InstantKind.INGESTION

    def if_completed(self) -> ConcurrentInstant:
        """What the gate would meet if it were completed."""
        return LiveWrite(self.concurrent, _UNKNOWN).if_completed()


@dataclass(frozen=True, slots=True)
class PredictedConflict:
    """Two instants that touch the same: how that ends, and over what."""

    outcome: ClashOutcome
    loser: InstantTime | None
    conflicts: tuple[Conflict, ...]
    """What the loser is told; without one, what they share."""


@dataclass(frozen=True, slots=True)
class PredictionSettings:
    """The settings that decide."""

    strategy: ConflictStrategy
    is_early: bool
    """Whether a younger write looks for older ones before it commits."""

    def judge(self, older: Contender, younger: Contender) -> PredictedConflict | None:
        """What becomes of the two; None if they have nothing to do with each other."""
        if older.is_over or younger.is_over:
            return None
        # Where each would give way, it is the younger one that is told: it looks when it begins.
        for one, other in ((younger, older), (older, younger)):
            if conflicts := self._find_losses(one, other):
                return PredictedConflict(ClashOutcome.LOSES, one.time, conflicts)
        if losses := {
            one.time: conflicts
            for one, other in ((younger, older), (older, younger))
            if (conflicts := self._find_losses_if_second(one, other))
        }:
            (loser, conflicts), *rest = losses.items()
            if rest:
                return PredictedConflict(ClashOutcome.SECOND_LOSES, None, conflicts)
            return PredictedConflict(ClashOutcome.LOSES_IF_SECOND, loser, conflicts)
        overlap = self._find_shared(younger, older.concurrent)
        return PredictedConflict(ClashOutcome.BOTH_COMMIT, None, overlap) if overlap else None

    def _find_losses(self, one: Contender, other: Contender) -> tuple[Conflict, ...]:
        """What stops one now, or ends it when the other commits."""
        mine = one.publishing
        if mine is None or one.is_decided or one.is_ending:
            return ()
        if other.is_decided:
            return self._find_conflicts(one, mine, other.if_completed())
        if one.is_write and other.is_write:
            peers = [LiveWrite(other.concurrent, _UNKNOWN)] if self.is_early else []
            return tuple(find_early_conflicts(self.strategy, mine, (), peers))
        if conflicts := self._find_conflicts(one, mine, other.concurrent):
            return conflicts
        is_cancelled = (
            other.is_write
            and other.publishing is not None
            and one.time in find_plans_to_cancel(self.strategy, other.publishing, [one.concurrent])
        )
        return self._find_shared(one, other.concurrent) if is_cancelled else ()

    def _find_losses_if_second(self, one: Contender, other: Contender) -> tuple[Conflict, ...]:
        if one.publishing is None or one.is_decided or one.is_ending:
            return ()
        if other.publishing is None or other.is_ending:
            return ()
        return self._find_conflicts(one, one.publishing, other.if_completed())

    def _find_conflicts(
        self, one: Contender, publishing: PublishingInstant, concurrent: ConcurrentInstant
    ) -> tuple[Conflict, ...]:
        is_cancellable = one.concurrent.is_cancellable
        strategy = choose_strategy(self.strategy, is_cancellable=is_cancellable)
        return tuple(find_conflicts(strategy, publishing, [concurrent]))

    def _find_shared(self, one: Contender, concurrent: ConcurrentInstant) -> tuple[Conflict, ...]:
        mine = one.publishing or PublishingInstant(
            one.time, one.concurrent.kind, one.concurrent.group_effects
        )
        overlap = InstantPair(
            mine, concurrent, STRATEGIES[self.strategy].group_identity
        ).conflict_on_shared_groups("it writes to")
        return (overlap,) if overlap else ()


# -- the reports -----------------------------------------------------------------------------------


_OF_PARTITIONS = frozenset({OperationType.INSERT_OVERWRITE, OperationType.DELETE_PARTITION})
_MOST_NAMES = 3
_NO_HEARTBEAT = WriterStatus(0, 0)


class Status(Enum):
    """Whether anybody is at work on an instant."""

    RUNNING = "running"
    WAITING = "waiting"
    """A plan that nobody has begun with."""
    DEAD = "dead"
    ROLLING_BACK = "being rolled back"
    CANCELLED = "cancel requested"
    """A plan that nobody can complete any more."""
    COMMITTED = "committed"
    """It is decided, and will be visible in a moment, or as soon as someone writes or recovers."""


@dataclass(frozen=True, slots=True)
class FileGroupReport:
    """A file group that an instant touches."""

    partition: str
    file_id: str
    touch: str
    """create, append, rewrite or replace."""


@dataclass(frozen=True, slots=True)
class OverlapReport:
    """What two instants are in each other's way about."""

    reason: str
    """What the other one does, to be read in front of the file groups."""
    file_groups: tuple[str, ...]
    """As `partition/file id`."""


@dataclass(frozen=True, slots=True)
class ClashReport:
    """This instant and an older one, and how that ends."""

    older: InstantTime
    outcome: str
    """loses; loses if second (if the other commits before it); second loses; both commit."""
    loser: InstantTime | None
    """Either of the two; None where neither loses, or whichever commits second."""
    overlaps: tuple[OverlapReport, ...]


@dataclass(frozen=True, slots=True)
class InProgressReport:
    """A write in progress, or a pending plan that rewrites data."""

    instant: InstantTime
    action: str
    state: str
    operation: str
    status: str
    """running, waiting, dead, being rolled back, cancel requested or committed."""
    policy: str | None
    """Of a plan: persistent, removable, cancellable."""
    app: str | None
    """Who is at work on it, or was; None: nobody, or someone who does not say."""
    host: str | None
    pid: int | None
    phase: str | None
    age_seconds: float | None
    silent_seconds: float | None
    """For how long its owner has shown no sign of life, at least."""
    file_groups: tuple[FileGroupReport, ...]
    """As far as it has announced them."""
    problems: tuple[str, ...]
    """What could not be read."""
    clashes: tuple[ClashReport, ...]
    """With older ones, so that each is told once."""


@dataclass(frozen=True, slots=True)
class _InProgress:
    """What is known of an instant."""

    instant: Instant
    contender: Contender
    status: Status
    policy: str | None
    pulse: WriterStatus | None
    problems: tuple[str, ...]


def report_conflicts(ref: TableRef) -> list[InProgressReport]:
    """Writes in progress and pending plans that rewrite data, oldest first, and who will lose.

    Order: timeline; pending rollbacks, head; of each instant: plan or profile, heartbeat, markers;
    the timeline once more, as some may have ended meanwhile.
    """
    timeline = ref.load_timeline()
    pending = [i for i in timeline.pending if i.action in PENDING_KINDS or _is_restore(i)]
    if not pending:
        return []
    all_writes = list(_load_all(ref, timeline, pending))
    still = {instant.requested_time for instant in ref.load_timeline().pending}
    writes = [each for each in all_writes if each.instant.requested_time in still]
    rules = PredictionSettings(
        conflict_strategy(ref), is_early=DetectionSettings.of(ref) is not None
    )
    return [
        _report(ref, each, tuple(_judge(rules, writes[:number], each)))
        for number, each in enumerate(writes)
    ]


def _judge(
    rules: PredictionSettings, older: Sequence[_InProgress], one: _InProgress
) -> Iterator[ClashReport]:
    for other in older:
        clash = rules.judge(other.contender, one.contender)
        if clash is not None:
            time = other.instant.requested_time
            yield ClashReport(time, clash.outcome.value, clash.loser, _overlaps(clash))


def _overlaps(clash: PredictedConflict) -> tuple[OverlapReport, ...]:
    return tuple(
        OverlapReport(each.reason, tuple(map(str, each.file_groups))) for each in clash.conflicts
    )


def _report(
    ref: TableRef, write: _InProgress, clashes: tuple[ClashReport, ...]
) -> InProgressReport:
    instant, pulse = write.instant, write.pulse
    body = pulse.body if pulse else None
    mine = write.contender.publishing
    touches = mine.group_effects if mine else {}
    groups = sorted(touches.items(), key=lambda item: (item[0].partition, item[0].file_id))
    return InProgressReport(
        instant=instant.requested_time,
        action=instant.action.value,
        state=instant.state.value,
        operation=write.contender.concurrent.operation,
        status=write.status.value,
        policy=write.policy,
        app=body.app_id if body else None,
        host=body.host if body else None,
        pid=body.pid if body else None,
        phase=body.phase if body else None,
        age_seconds=age_seconds(ref, instant),
        silent_seconds=pulse.silent_ms / 1000 if pulse else None,
        file_groups=tuple(
            FileGroupReport(group.partition, group.file_id, how.name.lower())
            for group, how in groups
        ),
        problems=write.problems,
        clashes=clashes,
    )


# -- what instants announce ------------------------------------------------------------------------


def _is_restore(instant: Instant) -> bool:
    return instant.action is Action.RESTORE


def _load_all(
    ref: TableRef, timeline: Timeline, pending: Sequence[Instant]
) -> Iterator[_InProgress]:
    targets, decided_time, store_ms = (
        _load_targets(ref, timeline),
        _read_decided(ref),
        newest_ms(ref),
    )
    for instant in pending:
        facts, pulse = _load_facts(ref, instant), estimate_pulse(ref, instant, store_ms)
        status = _judge_status(
            instant,
            facts,
            pulse,
            is_decided=instant.requested_time == decided_time,
            is_target=instant.requested_time in targets,
        )
        try:
            yield _load(ref, instant, facts, pulse, status)
        except ObjectNotFound:  # it has ended just now
            continue


def _load_targets(ref: TableRef, timeline: Timeline) -> Collection[InstantTime]:
    try:
        return load_rollback_targets(ref.env, ref.properties.timeline_paths, timeline.pending)
    except (ObjectNotFound, FormatError):  # for `doctor` to tell
        return ()


def _read_decided(ref: TableRef) -> InstantTime | None:
    try:
        decision = read_head(ref.env).decision
    except FormatError:  # for `doctor` to tell
        return None
    is_commit = decision is not None and decision.kind is DecisionKind.COMPLETE
    return decision.instant if decision is not None and is_commit else None


def _load_facts(ref: TableRef, instant: Instant) -> PlanState:
    try:
        return load_plan_state(ref, instant)
    except FormatError:  # told where the plan is read for what it touches
        return NO_PLAN


def _judge_status(
    instant: Instant,
    facts: PlanState,
    pulse: WriterStatus | None,
    *,
    is_decided: bool,
    is_target: bool,
) -> Status:
    if is_decided:
        return Status.COMMITTED
    if facts.cancel is not None:
        return Status.CANCELLED
    if is_target:
        return Status.ROLLING_BACK
    # Older writers plan clusterings as replace commits, which wait as other plans do.
    waits = facts.terms is not None and instant.state is State.REQUESTED
    if pulse is None or (waits and not pulse.has_heartbeat):
        return Status.WAITING
    return Status.DEAD if pulse.is_dead else Status.RUNNING


def _load(
    ref: TableRef, instant: Instant, facts: PlanState, pulse: WriterStatus | None, status: Status
) -> _InProgress:
    problems: list[str] = []
    other = _load_other(ref, instant, problems)
    mine: PublishingInstant | None = PublishingInstant(other.time, other.kind, other.group_effects)
    is_over = False
    if other.kind is InstantKind.INGESTION:
        markers = _load_markers(ref, instant, problems)
        mine = _describe(_read_profile(ref, instant), instant, other, markers)
        effect_by_group: dict[FileGroupId, GroupEffect] = {}
        for group, how in markers:
            effect_by_group[group] = max(how, effect_by_group.get(group, how))
        other = LiveWrite(other, _NO_HEARTBEAT).with_marker_effects(effect_by_group).concurrent
        is_over = status is not Status.COMMITTED and (
            status is Status.ROLLING_BACK or pulse is None or pulse.is_dead
        )
    elif other.kind is InstantKind.UNDO:
        mine = None
    contender = Contender(
        other,
        mine,
        is_over=is_over,
        is_ending=status is Status.CANCELLED,
        is_decided=status is Status.COMMITTED,
    )
    policy = facts.terms.policy.value if facts.terms else None
    return _InProgress(instant, contender, status, policy, pulse, tuple(problems))


def _load_other(ref: TableRef, instant: Instant, problems: list[str]) -> ConcurrentInstant:
    """What an instant is about, as its plan or its profile tells; damage is a problem to show."""
    if _is_restore(instant):
        return ConcurrentInstant(instant, InstantKind.UNDO, "restore")
    try:
        other = load_concurrent_instant(ref.env, ref.properties.timeline_paths, instant)
    except FormatError as error:
        problems.append(str(error))
        kind = PENDING_KINDS[instant.action]
        return ConcurrentInstant(instant, kind, kind.value)
    assert other is not None
    return other


def _load_markers(
    ref: TableRef, instant: Instant, problems: list[str]
) -> list[tuple[FileGroupId, GroupEffect]]:
    """What the files that a write has announced do to which file groups."""
    try:
        markers = load_markers(ref.env, instant.requested_time)
    except StorageError as error:
        problems.append(f"its markers cannot be read: {error}")
        return []
    if markers.foreign:
        names, more = ", ".join(markers.foreign[:_MOST_NAMES]), len(markers.foreign) - _MOST_NAMES
        rest = f" and {more} more" if more > 0 else ""
        problems.append(f"markers that announce no file of it: {names}{rest}")
    return [touch for marker in markers.files if (touch := effect_of_marker(marker)) is not None]


def _read_profile(ref: TableRef, instant: Instant) -> CommitMetadata:
    try:
        profile = read_metadata(ref.env, ref.properties.timeline_paths, instant)
    except FormatError:  # told already
        profile = None
    return profile if isinstance(profile, CommitMetadata) else CommitMetadata()


def _describe(
    profile: CommitMetadata,
    instant: Instant,
    concurrent: ConcurrentInstant,
    markers: Iterable[tuple[FileGroupId, GroupEffect]],
) -> PublishingInstant:
    """A write as it would ask for itself, from what it has announced. Pure.

    Its profile names file groups, and not how they are written: on a merge-on-read table those
    that get new rows are rewritten, the others appended to.
    """
    touches: dict[FileGroupId, GroupEffect] = {}
    for partition, stat in profile.stats():
        if stat.file_id:
            is_append = instant.action is Action.DELTA_COMMIT and not stat.num_inserts
            group = FileGroupId(partition, stat.file_id)
            touches[group] = GroupEffect.APPEND if is_append else GroupEffect.REWRITE
    touched_groups = frozenset(touches)
    for group, how in markers:
        if how is GroupEffect.CREATE and group in touched_groups:
            how = GroupEffect.REWRITE  # the base file of a group that was there
        touches[group] = max(how, touches.get(group, how))
    replaced_groups = {
        group for group, how in concurrent.group_effects.items() if how is GroupEffect.REPLACE
    }
    touches.update(dict.fromkeys(replaced_groups, GroupEffect.REPLACE))
    overwrites: Overwrites = frozenset()
    if profile.operation is OperationType.INSERT_OVERWRITE_TABLE:
        overwrites = None
    elif profile.operation in _OF_PARTITIONS:
        partitions = {group.partition for group in replaced_groups}
        overwrites = frozenset({*profile.partition_to_write_stats, *partitions})
    return PublishingInstant(concurrent.time, concurrent.kind, touches, overwrites)
