"""The life of a plan: scheduled, owned by one executor at a time, completed at most once.

Owning a plan is beating for it. Whoever takes it over beats with the next epoch, and then moves the
head, so that the owner before it can complete nothing, however late it wakes up.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from enum import Enum

from hoodoo.concurrency.conflict import Kind, Other
from hoodoo.concurrency.gate import Attempt, request
from hoodoo.concurrency.heartbeat import Heartbeat, take_over
from hoodoo.concurrency.liveness import Pulse, take_pulses
from hoodoo.concurrency.others import load_other
from hoodoo.concurrency.transaction import transaction
from hoodoo.config.services import EXECUTION_GUARD
from hoodoo.errors import (
    Cancelled,
    HeartbeatLost,
    PlanInProgress,
    PlanNotExecutable,
    TimelineError,
)
from hoodoo.format import timeline as codec
from hoodoo.format.timeline import Metadata
from hoodoo.model.files import FileGroupId
from hoodoo.model.instant import Action, Instant, InstantTime, State
from hoodoo.model.plan import CompactionPlan, RequestedReplaceMetadata
from hoodoo.model.plan_terms import PlanTerms
from hoodoo.recovery.ending import REWRITES, PlanFacts, load_plan_facts
from hoodoo.recovery.rollback import carry_out_rollback, resume_rollback, schedule_rollback
from hoodoo.table.ref import TableRef
from hoodoo.timeline import transitions
from hoodoo.timeline.load import instant_path, load_rollback_targets, read_plan
from hoodoo.timeline.timeline import Timeline
from hoodoo.timeline.txn import Txn, new_time

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
    find_cancels: Callable[[Txn, Metadata], tuple[InstantTime, ...]] = lambda txn, plan: (),
) -> Instant | None:
    """Put a plan on the timeline; None if there is nothing to plan.

    It is made outside the lock, and made again inside only if the table has moved. `find_cancels`
    tells which pending plans yield to it.

    Order: timeline read and plan made; in a transaction: that of `gate.request`.
    Crash: before the head nothing happened; after it the plan is there.
    """
    known = ref.load_timeline()
    plan = build(known)
    if plan is None:
        return None

    def check_and_encode() -> tuple[InstantTime, bytes]:
        nonlocal known, plan
        if txn.timeline != known:
            known = txn.timeline
            plan = build(known)
        if plan is None:
            raise NothingToDo
        return new_time(txn), codec.encode(plan)

    def cancels() -> tuple[InstantTime, ...]:
        assert plan is not None
        return find_cancels(txn, plan)

    try:
        with transaction(ref, f"schedule {action.value}") as txn:
            scheduled = request(txn, action, ref.env.ids.uuid(), check_and_encode, cancels)
    except NothingToDo:
        return None
    log.info("scheduled time=%s action=%s", scheduled.requested_time, action.value)
    return scheduled


# -- owning -------------------------------------------------------------------------------------


class Move(Enum):
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


def judge_execution(
    instant: Instant,
    facts: PlanFacts,
    pulse: Pulse,
    *,
    rolled_back_by: InstantTime | None,
    is_guarded: bool = True,
) -> Move:
    """Whether a plan may be executed now, and what has to come first.

    A plan of a clean or an index has no terms: such plans are persistent. Raises `Cancelled`,
    `PlanInProgress`, `PlanNotExecutable`.
    """
    time, terms = instant.requested_time, facts.terms or PlanTerms()
    if instant.is_completed:
        return Move.RETURN
    if instant.state is State.ABORTED or facts.cancel is not None:
        reason = f": {facts.cancel.reason}" if facts.cancel else ""
        raise Cancelled(f"plan {time} was cancelled{reason}")
    if rolled_back_by is not None:
        if terms.is_persistent:
            return Move.FINISH_ROLLBACK
        raise PlanNotExecutable(f"plan {time} is being rolled back by {rolled_back_by}")
    is_pending_elsewhere = pulse.has_heartbeat or instant.state is State.INFLIGHT
    if is_guarded and is_pending_elsewhere and not pulse.is_dead:
        raise PlanInProgress(f"plan {time} is being executed: {pulse}")
    if instant.state is State.REQUESTED:
        return Move.EXECUTE
    if not terms.is_persistent:
        raise PlanNotExecutable(
            f"plan {time} is {terms.policy.value} and its execution failed ({pulse}): it is not "
            "tried again, and the next clean or `hoodoo recover` removes it"
        )
    return Move.ROLL_BACK if pulse.body is None else Move.EXECUTE


def own_plan(ref: TableRef, instant: str) -> OwnedPlan | Instant:
    """Make this process the executor of a plan; or the completed instant, if it is done.

    Raises as `judge_execution`, and `PlanNotExecutable` for what is no plan.
    Order: in a transaction: timeline, rollbacks, plan, heartbeat looked at; heartbeat with the next
    epoch; the plan decided again if it is not the first; inflight file. Attempts of other engines
    are rolled back first, outside.
    Crash: the heartbeat ages; the next executor has the next epoch.
    """
    while True:
        with ExitStack() as heartbeats:
            with transaction(ref, "own plan") as txn:
                found = _find_plan(txn.timeline, instant)
                facts = load_plan_facts(ref, found)
                by = load_rollback_targets(ref.env, txn.paths, txn.timeline.pending).get(
                    found.requested_time
                )
                move = judge_execution(
                    found,
                    facts,
                    take_pulses(ref, [found])[found.requested_time],
                    rolled_back_by=by,
                    is_guarded=ref.config.get(EXECUTION_GUARD),
                )
                if move is Move.RETURN:
                    return found
                if move is Move.EXECUTE:
                    return _begin_attempt(txn, ref, found, facts)
                rollback = _begin_rollback(txn, ref, found, by)
                heartbeats.callback(rollback.heartbeat.stop)
            carry_out_rollback(ref, rollback)


def _find_plan(timeline: Timeline, instant: str) -> Instant:
    found = timeline.find(instant)
    if found is None:
        raise PlanNotExecutable(f"there is no plan {instant} on the timeline")
    return found


def _begin_rollback(
    txn: Txn, ref: TableRef, instant: Instant, rolled_back_by: InstantTime | None
) -> Attempt:
    if rolled_back_by is None:
        return schedule_rollback(txn, ref, instant)
    rollback = txn.timeline.find(rolled_back_by)
    assert rollback is not None
    pulse = take_pulses(ref, [rollback])[rolled_back_by]
    if not pulse.is_dead:
        raise PlanInProgress(f"an attempt at plan {instant.requested_time} is rolled back: {pulse}")
    return resume_rollback(txn, ref, rollback)


def _begin_attempt(txn: Txn, ref: TableRef, instant: Instant, facts: PlanFacts) -> OwnedPlan:
    time = instant.requested_time
    plan = read_plan(ref.env, txn.paths, instant)
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
        requested = Instant(instant.requested_time, instant.action, State.REQUESTED)
        data = ref.env.storage.read(instant_path(txn.paths, requested))

        def check() -> tuple[InstantTime, bytes]:
            transitions.refuse_moved(txn, instant)
            return instant.requested_time, data

        request(txn, instant.action, Attempt(instant, heartbeat).owner, check)
    if instant.state is State.INFLIGHT:
        return instant
    return transitions.start(txn, instant)


# -- which plans there are ----------------------------------------------------------------------


def find_plans(timeline: Timeline, *actions: Action) -> list[Instant]:
    """Pending plans of these actions, oldest first."""
    return [instant for instant in timeline.pending if instant.action in actions]


def load_plans(ref: TableRef, timeline: Timeline) -> list[Other]:
    """What the pending plans that rewrite data are about."""
    where = ref.properties.timeline
    plans = (load_other(ref.env, where, instant) for instant in find_plans(timeline, *REWRITES))
    return [plan for plan in plans if plan is not None and plan.kind is not Kind.INGESTION]


def find_yielding_plans(txn: Txn, plan: Metadata) -> tuple[InstantTime, ...]:
    """The cancellable plans that share file groups with a new plan: they end when it is scheduled.

    Needs: a Txn.
    """
    groups = plan_groups(plan)
    return tuple(
        instant.requested_time
        for instant in find_plans(txn.timeline, *REWRITES)
        if (other := load_other(txn.env, txn.paths, instant)) is not None
        and other.is_cancellable
        and groups.intersection(other.touches)
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


def groups_in_plans(plans: Iterable[Other]) -> frozenset[FileGroupId]:
    """The file groups of these plans, except of those that yield to other plans."""
    return frozenset(group for plan in plans if not plan.is_cancellable for group in plan.touches)
