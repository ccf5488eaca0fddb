"""Pending plans of table services for people: what they are about, who runs them, what they block.

As of `inspect.timeline`: looking writes nothing, so a silence is at least as long as it says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from hoodoo.deprecated import with_old_fields
from hoodoo.errors import FormatError, ObjectNotFound
from hoodoo.format.timeline.instant_files import Metadata
from hoodoo.inspect.timeline import InstantReport, newest_ms, report_instant
from hoodoo.model.files import FileGroupId
from hoodoo.model.instant import (
    ACTIONS_WITH_PLANS,
    SERVICE_ACTIONS,
    Action,
    Instant,
    InstantTime,
    State,
)
from hoodoo.model.names import named_in_json
from hoodoo.model.plans import CleanerPlan, PlanPolicy, read_terms
from hoodoo.recovery.rollback import load_plan_state
from hoodoo.services.plans.cancel import count_cancels, find_overdue
from hoodoo.services.plans.pending import plan_groups
from hoodoo.table.ref import TableRef
from hoodoo.table.timeline import Timeline, read_plan

_SERVICES = ACTIONS_WITH_PLANS | SERVICE_ACTIONS | {Action.RESTORE}


class PlanProgress(Enum):
    """How far a plan is."""

    WAITING = "waiting"
    """Nobody has begun with it."""
    RUNNING = "running"
    DEAD = "executor died"
    CANCELLED = "cancel requested"
    """Nobody can complete it any more."""


@with_old_fields
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
    recent_cancels: int = field(metadata=named_in_json("cancels"))
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
        plans = find_overdue(ref, timeline, newest_ms(ref))
    except FormatError:  # the report of that plan tells
        return {}
    return {each.instant.requested_time: each.reason for each in plans}


def _report(
    ref: TableRef, instant: Instant, overdue: str | None, cancels: Mapping[FileGroupId, int]
) -> PlanReport | None:
    """One plan; None for a write, or what has ended meanwhile."""
    time, problem, cancel = instant.requested_time, None, None
    plan: Metadata | None = None
    try:
        plan = read_plan(ref.env, ref.properties.timeline_paths, instant)
        if instant.action in ACTIONS_WITH_PLANS:
            facts = load_plan_state(ref, instant)
            cancel = facts.cancel
            if facts.terms is None and instant.action is Action.REPLACE_COMMIT:
                return None
            if facts.terms is None:
                problem = "no plan in it"
    except ObjectNotFound:
        return None
    except FormatError as error:
        problem = str(error)
    policy = read_terms(plan).policy
    groups = plan_groups(plan) if plan is not None else frozenset()
    instant_report = report_instant(ref, instant)
    is_running = instant_report.owner is not None and not instant_report.is_dead
    return PlanReport(
        instant=time,
        action=instant.action.value,
        state=instant.state.value,
        progress=_progress(instant, instant_report, is_cancelled=cancel is not None).value,
        policy=policy.value,
        age_seconds=instant_report.age_seconds,
        file_groups=len(groups),
        partitions=tuple(sorted(_partitions(plan, groups))),
        recent_cancels=max((cancels.get(group, 0) for group in groups), default=0),
        blocks=describe_blocks(instant.action, policy, is_cancelled=cancel is not None),
        owner=instant_report.owner if is_running else None,
        silent_seconds=instant_report.silent_seconds,
        cancel_reason=cancel.reason if cancel else None,
        overdue=overdue,
        problem=problem,
    )


def _progress(instant: Instant, report: InstantReport, *, is_cancelled: bool) -> PlanProgress:
    if is_cancelled:
        return PlanProgress.CANCELLED
    if report.is_dead:
        return PlanProgress.DEAD
    if report.owner is not None or instant.state is State.INFLIGHT:
        return PlanProgress.RUNNING
    return PlanProgress.WAITING


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
