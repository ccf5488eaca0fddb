"""The life of a plan: scheduled, owned by one executor at a time, completed at most once.

To own a plan is to beat for it. An executor that takes a plan over beats with the next epoch, and
then moves the head, so that the owner before it can complete nothing, however late it wakes up. A
crash leaves the plan pending, and a heartbeat that ages until another executor may own the plan.

`build_terms` checks the terms that users choose for a plan: who may cancel it, and when.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from enum import Enum

from hoodoo.concurrency.conflicts.changes_since import load_concurrent_instant
from hoodoo.concurrency.conflicts.rules import ConcurrentInstant, InstantKind
from hoodoo.concurrency.heartbeats import Heartbeat, WriterStatus, load_writer_statuses, take_over
from hoodoo.concurrency.transactions import instants
from hoodoo.concurrency.transactions.gate import Attempt, request_plan
from hoodoo.concurrency.transactions.transaction import Txn, new_time, transaction
from hoodoo.config.services import EXECUTION_GUARD
from hoodoo.errors import (
    HeartbeatLost,
    InputError,
    PlanCancelled,
    PlanInProgress,
    PlanNotExecutable,
    TimelineError,
)
from hoodoo.format.timeline import instant_files as codec
from hoodoo.format.timeline.instant_files import Metadata
from hoodoo.model.files import FileGroupId
from hoodoo.model.instant import ACTIONS_WITH_PLANS, Action, Instant, InstantTime, State
from hoodoo.model.plans import (
    DEFAULT_HOURS,
    DEFAULT_INSTANTS,
    CompactionPlan,
    PlanPolicy,
    PlanTerms,
    RequestedReplaceMetadata,
)
from hoodoo.recovery.rollback import (
    PlanState,
    carry_out_rollback,
    load_plan_state,
    resume_rollback,
    schedule_rollback,
)
from hoodoo.table.ref import TableRef
from hoodoo.table.timeline import Timeline, instant_path, load_rollback_targets, read_plan

log = logging.getLogger("hoodoo.services")


# -- scheduling ---------------------------------------------------------------------------------

BuildPlan = Callable[[Timeline], Metadata | None]
"""A plan for the table as of this timeline; None if there is nothing to do."""


class NothingToDo(Exception):
    """The table moved while a plan was made, and there is nothing left to plan."""


def schedule(
    ref: TableRef,
    action: Action,
    build: BuildPlan,
    find_plans_to_cancel: Callable[[Txn, Metadata], tuple[InstantTime, ...]] = lambda txn, plan: (),
) -> Instant | None:
    """Put a plan on the timeline; None if there is nothing to plan.

    It is made outside the lock, and made again inside only if the table has moved.
    `find_plans_to_cancel` tells which pending plans yield to it.

    Order: timeline read and plan made; in a transaction: that of `gate.request_plan`.
    Crash: before the head nothing happened; after it the plan is there.
    """
    planned_on = ref.load_timeline()
    plan = build(planned_on)
    if plan is None:
        return None

    def check_and_encode() -> tuple[InstantTime, bytes]:
        nonlocal planned_on, plan
        if txn.timeline != planned_on:
            planned_on = txn.timeline
            plan = build(planned_on)
        if plan is None:
            raise NothingToDo
        return new_time(txn), codec.encode(plan)

    def cancels() -> tuple[InstantTime, ...]:
        assert plan is not None
        return find_plans_to_cancel(txn, plan)

    try:
        with transaction(ref, f"schedule {action.value}") as txn:
            plan_instant = request_plan(txn, action, ref.env.ids.uuid(), check_and_encode, cancels)
    except NothingToDo:
        return None
    log.info("scheduled time=%s action=%s", plan_instant.requested_time, action.value)
    return plan_instant


# -- owning -------------------------------------------------------------------------------------


class ExecutionStep(Enum):
    """What an executor does with a plan that it was asked to execute."""

    RETURN = "it is completed"
    EXECUTE = "execute it"
    ROLL_BACK = "roll back the attempt of another engine, then execute it"
    FINISH_ROLLBACK = "finish the rollback of an attempt, then execute it"


@dataclass(frozen=True, slots=True)
class OwnedPlan:
    """A plan that this process executes, until its heartbeat is lost."""

    attempt: Attempt
    plan: Metadata
    terms: PlanTerms

    @property
    def time(self) -> InstantTime:
        return self.attempt.instant.requested_time

    @property
    def epoch(self) -> int:
        return self.attempt.heartbeat.body.epoch


def choose_execution_step(
    instant: Instant,
    facts: PlanState,
    pulse: WriterStatus,
    *,
    rolled_back_by: InstantTime | None,
    is_guarded: bool = True,
) -> ExecutionStep:
    """Whether a plan may be executed now, and what has to come first.

    A plan of a clean or an index has no terms: such plans are persistent. Raises `PlanCancelled`,
    `PlanInProgress`, `PlanNotExecutable`.
    """
    time, terms = instant.requested_time, facts.terms or PlanTerms()
    if instant.is_completed:
        return ExecutionStep.RETURN
    if instant.state is State.ABORTED or facts.cancel is not None:
        reason = f": {facts.cancel.reason}" if facts.cancel else ""
        raise PlanCancelled(f"plan {time} was cancelled{reason}")
    if rolled_back_by is not None:
        if terms.is_persistent:
            return ExecutionStep.FINISH_ROLLBACK
        raise PlanNotExecutable(f"plan {time} is being rolled back by {rolled_back_by}")
    is_pending_elsewhere = pulse.has_heartbeat or instant.state is State.INFLIGHT
    if is_guarded and is_pending_elsewhere and not pulse.is_dead:
        raise PlanInProgress(f"plan {time} is being executed: {pulse}")
    if instant.state is State.REQUESTED:
        return ExecutionStep.EXECUTE
    if not terms.is_persistent:
        raise PlanNotExecutable(
            f"plan {time} is {terms.policy.value} and its execution failed ({pulse}): it is not "
            "tried again, and the next clean or `hoodoo recover` removes it"
        )
    is_foreign_rewrite = pulse.body is None and instant.action in ACTIONS_WITH_PLANS
    return ExecutionStep.ROLL_BACK if is_foreign_rewrite else ExecutionStep.EXECUTE


def own_plan(ref: TableRef, instant: str) -> OwnedPlan | Instant:
    """Make this process the executor of a plan; or the completed instant, if it is done.

    Raises as `choose_execution_step`, and `PlanNotExecutable` for what is no plan.
    Order: in a transaction: timeline, rollbacks, plan, heartbeat looked at; heartbeat with the next
    epoch; the plan decided again if it is not the first; inflight file. Attempts of other engines
    are rolled back first, outside.
    Crash: the heartbeat ages; the next executor has the next epoch.
    """
    while True:
        with ExitStack() as heartbeats:
            with transaction(ref, "own plan") as txn:
                plan_instant = _find_plan(txn.timeline, instant)
                facts = load_plan_state(ref, plan_instant)
                by = load_rollback_targets(ref.env, txn.timeline_paths, txn.timeline.pending).get(
                    plan_instant.requested_time
                )
                move = choose_execution_step(
                    plan_instant,
                    facts,
                    load_writer_statuses(ref, [plan_instant])[plan_instant.requested_time],
                    rolled_back_by=by,
                    is_guarded=ref.config.get(EXECUTION_GUARD),
                )
                if move is ExecutionStep.RETURN:
                    return plan_instant
                if move is ExecutionStep.EXECUTE:
                    return _begin_attempt(txn, ref, plan_instant, facts)
                rollback = _begin_rollback(txn, ref, plan_instant, by)
                heartbeats.callback(rollback.heartbeat.stop)
            carry_out_rollback(ref, rollback)


def _find_plan(timeline: Timeline, instant: str) -> Instant:
    plan_instant = timeline.find(instant)
    if plan_instant is None:
        raise PlanNotExecutable(f"there is no plan {instant} on the timeline")
    return plan_instant


def _begin_rollback(
    txn: Txn, ref: TableRef, instant: Instant, rolled_back_by: InstantTime | None
) -> Attempt:
    if rolled_back_by is None:
        return schedule_rollback(txn, ref, instant)
    rollback = txn.timeline.find(rolled_back_by)
    assert rollback is not None
    pulse = load_writer_statuses(ref, [rollback])[rolled_back_by]
    if not pulse.is_dead:
        raise PlanInProgress(f"an attempt at plan {instant.requested_time} is rolled back: {pulse}")
    return resume_rollback(txn, ref, rollback)


def _begin_attempt(txn: Txn, ref: TableRef, instant: Instant, facts: PlanState) -> OwnedPlan:
    time = instant.requested_time
    plan = read_plan(ref.env, txn.timeline_paths, instant)
    assert plan is not None
    try:
        heartbeat = take_over(ref, time, kind=instant.action.value)
    except HeartbeatLost as error:
        raise PlanInProgress(str(error)) from None
    try:
        inflight = _start(txn, ref, instant, heartbeat)
    except TimelineError:
        heartbeat.release()
        raise
    except BaseException:
        heartbeat.stop()
        raise
    log.info("own_plan time=%s epoch=%d", time, heartbeat.body.epoch)
    return OwnedPlan(Attempt(inflight, heartbeat), plan, facts.terms or PlanTerms())


def _start(txn: Txn, ref: TableRef, instant: Instant, heartbeat: Heartbeat) -> Instant:
    """Shut out earlier attempts, then go on from wherever they left the instant."""
    if heartbeat.body.epoch > 1:
        requested_instant = Instant(instant.requested_time, instant.action, State.REQUESTED)
        data = ref.env.storage.read(instant_path(txn.timeline_paths, requested_instant))

        def check() -> tuple[InstantTime, bytes]:
            instants.refuse_changed_state(txn, instant)
            return instant.requested_time, data

        request_plan(txn, instant.action, Attempt(instant, heartbeat).owner, check)
    if instant.state is State.INFLIGHT:
        return instant
    return instants.create_inflight_file(txn, instant)


# -- which plans there are ----------------------------------------------------------------------


def find_plans(timeline: Timeline, *actions: Action) -> list[Instant]:
    """Pending plans of these actions, oldest first."""
    return [instant for instant in timeline.pending if instant.action in actions]


def find_idle_plans(ref: TableRef, plans: Sequence[Instant]) -> list[Instant]:
    """Those of these pending plans that nobody is at work on."""
    pulses = load_writer_statuses(ref, plans)

    def is_idle(plan: Instant) -> bool:
        pulse = pulses[plan.requested_time]
        has_begun = pulse.has_heartbeat or plan.state is State.INFLIGHT
        return pulse.is_dead or not has_begun

    return [plan for plan in plans if is_idle(plan)]


def load_plans(ref: TableRef, timeline: Timeline) -> list[ConcurrentInstant]:
    """What the pending plans that rewrite data are about."""
    timeline_paths = ref.properties.timeline_paths
    pending = find_plans(timeline, *ACTIONS_WITH_PLANS)
    plans = (load_concurrent_instant(ref.env, timeline_paths, instant) for instant in pending)
    return [plan for plan in plans if plan is not None and plan.kind is not InstantKind.INGESTION]


def find_yielding_plans(txn: Txn, plan: Metadata) -> tuple[InstantTime, ...]:
    """The cancellable plans that share file groups with a new plan: they end when it is scheduled.

    Needs: a Txn.
    """
    groups = plan_groups(plan)
    return tuple(
        instant.requested_time
        for instant in find_plans(txn.timeline, *ACTIONS_WITH_PLANS)
        if (other := load_concurrent_instant(txn.env, txn.timeline_paths, instant)) is not None
        and other.is_cancellable
        and groups.intersection(other.group_effects)
    )


def plan_groups(plan: Metadata) -> frozenset[FileGroupId]:
    """The file groups that a plan is about."""
    match plan:
        case CompactionPlan():
            return plan.file_groups()
        case RequestedReplaceMetadata(clustering_plan=clustering) if clustering is not None:
            return clustering.file_groups()
        case _:
            return frozenset()


def groups_in_plans(plans: Iterable[ConcurrentInstant]) -> frozenset[FileGroupId]:
    """The file groups of these plans, except of those that yield to other plans."""
    return frozenset(
        group for plan in plans if not plan.is_cancellable for group in plan.group_effects
    )


# -- terms of a plan ----------------------------------------------------------------------------


_LIMITS = ("hours", "instants")


def build_terms(
    *, cancellable: bool, removable: bool = False, limits: Mapping[str, float] | None = None
) -> PlanTerms:
    """The terms of a plan that is to be scheduled. Raises `InputError`."""
    if cancellable and removable:
        raise InputError("a plan is removable or cancellable, not both")
    if limits is not None:
        _refuse_bad_limits(limits, cancellable=cancellable)
    if cancellable:
        hours, instants = (limits or {}).get("hours"), (limits or {}).get("instants")
        if hours is None and instants is None:
            hours, instants = DEFAULT_HOURS, DEFAULT_INSTANTS
        return PlanTerms(
            PlanPolicy.CANCELLABLE,
            cancel_hours=None if hours is None else float(hours),
            cancel_instants=None if instants is None else int(instants),
        )
    return PlanTerms(PlanPolicy.REMOVABLE if removable else PlanPolicy.PERSISTENT)


def _refuse_bad_limits(limits: Mapping[str, float], *, cancellable: bool) -> None:
    if not cancellable:
        raise InputError("cancellation_policy is for cancellable plans: say cancellable=True")
    unknown = sorted(set(limits) - set(_LIMITS))
    if unknown or not limits:
        raise InputError(
            f"cancellation_policy takes {' and '.join(_LIMITS)}, not {', '.join(unknown) or 'none'}"
        )
    for name, value in limits.items():
        if not isinstance(value, int | float) or value < 0:
            raise InputError(f"cancellation_policy: {name} must be a number of 0 or more")
