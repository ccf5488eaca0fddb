"""Pending plans of table services for people: what they are about, who runs them, what they block.

As of `inspect.timeline`: looking writes nothing, so a silence is at least as long as it says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from hoodoo.errors import FormatError, NotFound
from hoodoo.format.timeline import Metadata
from hoodoo.inspect.timeline import InstantReport, newest_ms, report_instant
from hoodoo.model.files import FileGroupId
from hoodoo.model.instant import Action, Instant, InstantTime, State
from hoodoo.model.plan import CleanerPlan, PlanPolicy
from hoodoo.model.plan_terms import read_terms
from hoodoo.recovery.cancel import find_overdue
from hoodoo.recovery.ending import REWRITES, load_plan_facts
from hoodoo.services.cancels import count_cancels
from hoodoo.services.pending import plan_groups
from hoodoo.table.ref import TableRef
from hoodoo.timeline.load import read_plan
from hoodoo.timeline.timeline import Timeline

_SERVICES = frozenset({*REWRITES, Action.CLEAN, Action.INDEXING, Action.RESTORE})


class Progress(Enum):
    """How far a plan is."""

    WAITING = "waiting"
    """Nobody has begun with it."""
    RUNNING = "running"
    DEAD = "executor died"
    CANCELLED = "cancel requested"
    """Nobody can complete it any more."""


@dataclass(frozen=True, slots=True)
class PlanReport:
    """A plan that is pending."""

    instant: InstantTime
    action: str
    state: str
    progress: str
    policy: str
    """What may become of it if nobody completes it: persistent, removable, cancellable."""
    age_seconds: float | None
    file_groups: int
    partitions: tuple[str, ...]
    cancels: int
    """How many clusterings of one of its file groups were cancelled within a day, at most."""
    blocks: tuple[str, ...]
    """What cannot be done as long as it is pending."""
    owner: str | None
    """Who runs it; None: nobody."""
    silent_seconds: float | None
    """For how long its owner has shown no sign of life, at least."""
    cancel_reason: str | None
    """Why its end was requested."""
    overdue: str | None
    """Why a clean, or `hoodoo upkeep`, will cancel it."""
    problem: str | None


def report_plans(ref: TableRef) -> list[PlanReport]:
    """The pending plans of table services, oldest first."""
    timeline = ref.load_timeline()
    pending = [instant for instant in timeline.pending if instant.action in _SERVICES]
    if not pending:
        return []
    overdue, cancels = _find_overdue(ref, timeline), count_cancels(ref, timeline)
    reports = (
        _report(ref, instant, overdue.get(instant.requested_time), cancels) for instant in pending
    )
    return [report for report in reports if report is not None]


def _find_overdue(ref: TableRef, timeline: Timeline) -> dict[InstantTime, str]:
    try:
        found = find_overdue(ref, timeline, newest_ms(ref))
    except FormatError:  # the report of that plan tells
        return {}
    return {each.instant.requested_time: each.reason for each in found}


def _report(
    ref: TableRef, instant: Instant, overdue: str | None, cancels: Mapping[FileGroupId, int]
) -> PlanReport | None:
    """One plan; None for a write, or what has ended meanwhile."""
    time, problem, cancel = instant.requested_time, None, None
    plan: Metadata | None = None
    try:
        plan = read_plan(ref.env, ref.properties.timeline, instant)
        if instant.action in REWRITES:
            facts = load_plan_facts(ref, instant)
            cancel = facts.cancel
            if facts.terms is None and instant.action is Action.REPLACE_COMMIT:
                return None
            if facts.terms is None:
                problem = "no plan in it"
    except NotFound:
        return None
    except FormatError as error:
        problem = str(error)
    policy = read_terms(plan).policy
    groups = plan_groups(plan) if plan is not None else frozenset()
    found = report_instant(ref, instant)
    is_running = found.owner is not None and not found.is_dead
    return PlanReport(
        instant=time,
        action=instant.action.value,
        state=instant.state.value,
        progress=_progress(instant, found, is_cancelled=cancel is not None).value,
        policy=policy.value,
        age_seconds=found.age_seconds,
        file_groups=len(groups),
        partitions=tuple(sorted(_partitions(plan, groups))),
        cancels=max((cancels.get(group, 0) for group in groups), default=0),
        blocks=describe_blocks(instant.action, policy, is_cancelled=cancel is not None),
        owner=found.owner if is_running else None,
        silent_seconds=found.silent_seconds,
        cancel_reason=cancel.reason if cancel else None,
        overdue=overdue,
        problem=problem,
    )


def _progress(instant: Instant, found: InstantReport, *, is_cancelled: bool) -> Progress:
    if is_cancelled:
        return Progress.CANCELLED
    if found.is_dead:
        return Progress.DEAD
    if found.owner is not None or instant.state is State.INFLIGHT:
        return Progress.RUNNING
    return Progress.WAITING


def _partitions(plan: Metadata | None, groups: Iterable[FileGroupId]) -> set[str]:
    if isinstance(plan, CleanerPlan):
        return {
            *(plan.file_paths_to_be_deleted_per_partition or {}),
            *(plan.files_to_be_deleted_per_partition or {}),
        }
    return {group.partition for group in groups}


def describe_blocks(
    action: Action, policy: PlanPolicy, *, is_cancelled: bool = False
) -> tuple[str, ...]:
    """What a pending plan is in the way of."""
    archival = "archival of later instants"
    if is_cancelled or policy is PlanPolicy.CANCELLABLE:
        return (archival,)
    match action:
        case Action.CLUSTERING | Action.REPLACE_COMMIT:
            return "updates of its file groups", "other plans for them", archival
        case Action.LOG_COMPACTION:
            return "overwrites of its file groups", "other plans for them", archival
        case Action.COMPACTION:
            return "other plans for its file groups", archival
        case Action.RESTORE:
            return ("every commit",)
        case Action.CLEAN:
            return ("savepoints of what it deletes",)
        case _:
            return ()
