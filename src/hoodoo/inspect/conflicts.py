"""Writes in progress and pending plans for people: who touches what, and who will lose.

As of `inspect.timeline`: looking writes nothing, so a silence is at least as long as it says. Who
loses is for `inspect.losers` to tell; here are the facts. An instant announces what it is going to
do by its plan, or its workload profile, and by the markers of its files.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from hoodoo.concurrency.conflict import Kind, Mine, Other, Overwrites, Touch
from hoodoo.concurrency.early import Detection
from hoodoo.concurrency.liveness import Pulse
from hoodoo.concurrency.markers import load_markers
from hoodoo.concurrency.others import PENDING_KINDS, load_other
from hoodoo.concurrency.peer_markers import touch_of
from hoodoo.concurrency.peers import Peer
from hoodoo.errors import FormatError, NotFound, StorageError
from hoodoo.inspect.losers import Clash, Contender, Rules
from hoodoo.inspect.timeline import age_seconds, estimate_pulse, newest_ms
from hoodoo.model.commit import CommitMetadata, OperationType
from hoodoo.model.decision import DecisionKind
from hoodoo.model.files import FileGroupId
from hoodoo.model.instant import Action, Instant, InstantTime, State
from hoodoo.recovery.ending import NO_PLAN, PlanFacts, load_plan_facts
from hoodoo.table.ref import TableRef
from hoodoo.timeline.head import read_head
from hoodoo.timeline.load import load_rollback_targets, read_metadata
from hoodoo.timeline.timeline import Timeline
from hoodoo.write.begin import conflict_strategy

_OF_PARTITIONS = frozenset({OperationType.INSERT_OVERWRITE, OperationType.DELETE_PARTITION})
_NAMED = 3
_NOBODY = Pulse(0, 0)


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
    pulse: Pulse | None
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
    loaded = list(_load_all(ref, timeline, pending))
    still = {instant.requested_time for instant in ref.load_timeline().pending}
    found = [each for each in loaded if each.instant.requested_time in still]
    rules = Rules(conflict_strategy(ref), is_early=Detection.of(ref) is not None)
    return [
        _report(ref, each, tuple(_judge(rules, found[:number], each)))
        for number, each in enumerate(found)
    ]


def _judge(rules: Rules, older: Sequence[_InProgress], one: _InProgress) -> Iterator[ClashReport]:
    for other in older:
        clash = rules.judge(other.contender, one.contender)
        if clash is not None:
            time = other.instant.requested_time
            yield ClashReport(time, clash.outcome.value, clash.loser, _overlaps(clash))


def _overlaps(clash: Clash) -> tuple[OverlapReport, ...]:
    return tuple(
        OverlapReport(each.reason, tuple(map(str, each.file_groups))) for each in clash.conflicts
    )


def _report(
    ref: TableRef, found: _InProgress, clashes: tuple[ClashReport, ...]
) -> InProgressReport:
    instant, pulse = found.instant, found.pulse
    body = pulse.body if pulse else None
    mine = found.contender.mine
    touches = mine.touches if mine else {}
    groups = sorted(touches.items(), key=lambda item: (item[0].partition, item[0].file_id))
    return InProgressReport(
        instant=instant.requested_time,
        action=instant.action.value,
        state=instant.state.value,
        operation=found.contender.other.operation,
        status=found.status.value,
        policy=found.policy,
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
        problems=found.problems,
        clashes=clashes,
    )


# -- the facts ----------------------------------------------------------------------------------


def _is_restore(instant: Instant) -> bool:
    return instant.action is Action.RESTORE


def _load_all(
    ref: TableRef, timeline: Timeline, pending: Sequence[Instant]
) -> Iterator[_InProgress]:
    targets, decided, store_ms = _load_targets(ref, timeline), _read_decided(ref), newest_ms(ref)
    for instant in pending:
        facts, pulse = _load_facts(ref, instant), estimate_pulse(ref, instant, store_ms)
        status = _judge_status(
            instant,
            facts,
            pulse,
            is_decided=instant.requested_time == decided,
            is_target=instant.requested_time in targets,
        )
        try:
            yield _load(ref, instant, facts, pulse, status)
        except NotFound:  # it has ended just now
            continue


def _load_targets(ref: TableRef, timeline: Timeline) -> Collection[InstantTime]:
    try:
        return load_rollback_targets(ref.env, ref.properties.timeline, timeline.pending)
    except (NotFound, FormatError):  # for `doctor` to tell
        return ()


def _read_decided(ref: TableRef) -> InstantTime | None:
    try:
        decision = read_head(ref.env).decision
    except FormatError:  # for `doctor` to tell
        return None
    is_commit = decision is not None and decision.kind is DecisionKind.COMPLETE
    return decision.instant if decision is not None and is_commit else None


def _load_facts(ref: TableRef, instant: Instant) -> PlanFacts:
    try:
        return load_plan_facts(ref, instant)
    except FormatError:  # told where the plan is read for what it touches
        return NO_PLAN


def _judge_status(
    instant: Instant,
    facts: PlanFacts,
    pulse: Pulse | None,
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
    ref: TableRef, instant: Instant, facts: PlanFacts, pulse: Pulse | None, status: Status
) -> _InProgress:
    problems: list[str] = []
    other = _load_other(ref, instant, problems)
    mine: Mine | None = Mine(other.time, other.kind, other.touches)
    is_over = False
    if other.kind is Kind.INGESTION:
        markers = _load_markers(ref, instant, problems)
        mine = _describe(_read_profile(ref, instant), instant, other, markers)
        announced: dict[FileGroupId, Touch] = {}
        for group, how in markers:
            announced[group] = max(how, announced.get(group, how))
        other = Peer(other, _NOBODY).touching(announced).other
        is_over = status is not Status.COMMITTED and (
            status is Status.ROLLING_BACK or pulse is None or pulse.is_dead
        )
    elif other.kind is Kind.UNDO:
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


def _load_other(ref: TableRef, instant: Instant, problems: list[str]) -> Other:
    """What an instant is about, as its plan or its profile tells; damage is a problem to show."""
    if _is_restore(instant):
        return Other(instant, Kind.UNDO, "restore")
    try:
        other = load_other(ref.env, ref.properties.timeline, instant)
    except FormatError as error:
        problems.append(str(error))
        kind = PENDING_KINDS[instant.action]
        return Other(instant, kind, kind.value)
    assert other is not None
    return other


def _load_markers(
    ref: TableRef, instant: Instant, problems: list[str]
) -> list[tuple[FileGroupId, Touch]]:
    """What the files that a write has announced do to which file groups."""
    try:
        markers = load_markers(ref.env, instant.requested_time)
    except StorageError as error:
        problems.append(f"its markers cannot be read: {error}")
        return []
    if markers.foreign:
        named, more = ", ".join(markers.foreign[:_NAMED]), len(markers.foreign) - _NAMED
        rest = f" and {more} more" if more > 0 else ""
        problems.append(f"markers that announce no file of it: {named}{rest}")
    return [touch for marker in markers.files if (touch := touch_of(marker)) is not None]


def _read_profile(ref: TableRef, instant: Instant) -> CommitMetadata:
    try:
        profile = read_metadata(ref.env, ref.properties.timeline, instant)
    except FormatError:  # told already
        profile = None
    return profile if isinstance(profile, CommitMetadata) else CommitMetadata()


def _describe(
    profile: CommitMetadata,
    instant: Instant,
    other: Other,
    markers: Iterable[tuple[FileGroupId, Touch]],
) -> Mine:
    """A write as it would ask for itself, from what it has announced. Pure.

    Its profile names file groups, and not how they are written: on a merge-on-read table those
    that get new rows are rewritten, the others appended to.
    """
    touches: dict[FileGroupId, Touch] = {}
    for partition, stat in profile.stats():
        if stat.file_id:
            is_append = instant.action is Action.DELTA_COMMIT and not stat.num_inserts
            group = FileGroupId(partition, stat.file_id)
            touches[group] = Touch.APPEND if is_append else Touch.REWRITE
    known = frozenset(touches)
    for group, how in markers:
        if how is Touch.CREATE and group in known:
            how = Touch.REWRITE  # the base file of a group that was there
        touches[group] = max(how, touches.get(group, how))
    replaced = {group for group, how in other.touches.items() if how is Touch.REPLACE}
    touches.update(dict.fromkeys(replaced, Touch.REPLACE))
    overwrites: Overwrites = frozenset()
    if profile.operation is OperationType.INSERT_OVERWRITE_TABLE:
        overwrites = None
    elif profile.operation in _OF_PARTITIONS:
        partitions = {group.partition for group in replaced}
        overwrites = frozenset({*profile.partition_to_write_stats, *partitions})
    return Mine(other.time, other.kind, touches, overwrites)
