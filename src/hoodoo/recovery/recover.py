"""Recover: find dead instants, schedule their rollbacks in one transaction, carry them out outside.

`judge_all` decides which pending instants are dead and what happens to each: pure. `recover`
judges, rolls back and sweeps. A crash leaves pending rollbacks, which the next recover carries out.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING

from hoodoo.concurrency.heartbeats import WriterStatus, load_writer_statuses, read_heartbeat
from hoodoo.concurrency.transactions.gate import Attempt
from hoodoo.concurrency.transactions.head import read_head
from hoodoo.concurrency.transactions.transaction import Txn, transaction
from hoodoo.config.concurrency import FAILED_WRITES, FailedWrites
from hoodoo.config.services import ROLLBACK_DELAY_MIN
from hoodoo.deprecated import find_by_old_name, with_old_fields
from hoodoo.errors import (
    AlreadyCommitted,
    HeartbeatLost,
    HoodooError,
    InputError,
    ObjectNotFound,
    TimelineError,
    UnsupportedFeature,
    WriterAlive,
)
from hoodoo.model.coordination import DecisionKind
from hoodoo.model.instant import ACTIONS_WITH_PLANS, Action, Instant, InstantTime, State
from hoodoo.model.names import named_in_json
from hoodoo.model.plans import PlanPolicy, PlanTerms
from hoodoo.recovery.rollback import (
    NO_PLAN,
    PlanState,
    RollbackResult,
    carry_out_rollback,
    drop_moot,
    load_plan_state,
    resume_rollback,
    schedule_rollback,
)
from hoodoo.recovery.sweep import (
    SweepResult,
    list_hoodie_directory,
    sweep,
    sweep_before_write,
    sweep_instant,
)
from hoodoo.table.ref import TableRef
from hoodoo.table.timeline import Timeline, load_rollback_targets
from hoodoo.table.writable import reopen_for_writing

log = logging.getLogger("hoodoo.recovery")


# -- judging instants ---------------------------------------------------------------------------


_MINUTE_MS = 60_000


class RecoveryAction(Enum):
    """What recovery does with a pending instant."""

    LEAVE = "leave"
    ROLL_BACK = "roll back"
    FINISH = "finish"
    """A rollback that someone began and nobody carries on."""


@dataclass(frozen=True, slots=True)
class RecoveryVerdict:
    """What is to become of a pending instant, and why."""

    instant: Instant
    fate: RecoveryAction
    reason: str
    is_moot: bool = False
    """A rollback of a completed commit: people tell whether that commit goes."""


def judge_instant(
    instant: Instant,
    pulse: WriterStatus,
    *,
    plan: PlanState = NO_PLAN,
    delay_minutes: int = -1,
    rolled_back_by: InstantTime | None = None,
    undoes: InstantTime | None = None,
) -> RecoveryVerdict:
    """The verdict on a pending instant.

    `plan`: that of a table service, which waits for an executor; `delay_minutes`: how old a
    removable one may get, -1 is however old. `rolled_back_by`: the pending rollback that targets
    it. `undoes`: the completed instant that it is a rollback of.
    """
    if rolled_back_by is not None:
        return RecoveryVerdict(
            instant, RecoveryAction.LEAVE, f"rollback {rolled_back_by} is about it"
        )
    # A plan that waits for its executor has no heartbeat, however young it is.
    waits = plan.terms is not None and instant.state is State.REQUESTED and not pulse.has_heartbeat
    if not pulse.is_dead and not waits:
        return RecoveryVerdict(instant, RecoveryAction.LEAVE, f"alive: {pulse}")
    if instant.action is Action.RESTORE:
        return RecoveryVerdict(
            instant, RecoveryAction.LEAVE, "a restore that was cut off: restore again, it goes on"
        )
    if undoes is not None:
        return RecoveryVerdict(instant, RecoveryAction.LEAVE, _moot(instant, undoes), is_moot=True)
    if instant.action is Action.ROLLBACK:
        return RecoveryVerdict(instant, RecoveryAction.FINISH, f"dead: {pulse}")
    if plan.terms is not None:
        return _judge_plan(instant, pulse, plan, plan.terms, delay_minutes)
    if not instant.action.writes_data:
        return RecoveryVerdict(
            instant, RecoveryAction.LEAVE, f"a {instant.action.value} is not rolled back"
        )
    return RecoveryVerdict(instant, RecoveryAction.ROLL_BACK, f"dead: {pulse}")


def _judge_plan(
    instant: Instant, pulse: WriterStatus, plan: PlanState, terms: PlanTerms, delay_minutes: int
) -> RecoveryVerdict:
    """Only a cancelled plan, and a removable one that failed or that nobody executes, goes."""
    if plan.cancel is not None:
        return RecoveryVerdict(
            instant, RecoveryAction.ROLL_BACK, f"its end was requested: {plan.cancel.reason}"
        )
    if terms.policy is PlanPolicy.REMOVABLE:
        if instant.state is State.INFLIGHT:
            return RecoveryVerdict(
                instant, RecoveryAction.ROLL_BACK, f"its execution failed: {pulse}"
            )
        if 0 <= delay_minutes * _MINUTE_MS <= pulse.silent_ms:
            return RecoveryVerdict(
                instant, RecoveryAction.ROLL_BACK, f"nobody executed it: {pulse}"
            )
    policy = terms.policy.value
    return RecoveryVerdict(
        instant, RecoveryAction.LEAVE, f"a {policy} plan of a table service, for its executor"
    )


def judge_all(
    pending: Collection[Instant],
    pulses: Mapping[InstantTime, WriterStatus],
    *,
    plans: Mapping[InstantTime, PlanState],
    targets: Mapping[InstantTime, InstantTime],
    completed_times: Collection[InstantTime] = (),
    delay_minutes: int = -1,
) -> list[RecoveryVerdict]:
    """The verdict on each pending instant; `targets` maps what is rolled back to its rollback."""
    undone = {by: target for target, by in targets.items() if target in completed_times}
    return [
        judge_instant(
            instant,
            pulses[instant.requested_time],
            plan=plans.get(instant.requested_time, NO_PLAN),
            delay_minutes=delay_minutes,
            rolled_back_by=targets.get(instant.requested_time),
            undoes=undone.get(instant.requested_time),
        )
        for instant in pending
    ]


def _moot(rollback: Instant, target: InstantTime) -> str:
    """Whether the commit is to go cannot be told: it may have landed after the rollback began."""
    time = rollback.requested_time
    return (
        f"it is about {target}, which is completed: another engine requested it and died, and "
        f"nothing is deleted. To keep {target}, drop the request: `hoodoo rollback TABLE {time}`. "
        f"To remove {target}, let that engine finish its rollback"
    )


if not TYPE_CHECKING:  # a type checker knows the names of today only

    def __getattr__(name: str) -> object:
        return find_by_old_name(__name__, name)


# -- rolling back dead instants -----------------------------------------------------------------


@with_old_fields
@dataclass(frozen=True, slots=True)
class RecoverResult:
    """What a recover found and did."""

    rolled_back: tuple[RollbackResult, ...] = ()
    left_pending: tuple[RecoveryVerdict, ...] = field(default=(), metadata=named_in_json("left"))
    """Pending instants that it left alone, and why."""
    swept: SweepResult = field(default_factory=SweepResult)


def recover_before_write(ref: TableRef) -> None:
    """Roll dead writes back ahead of a write, and do the sweeps that are due.

    By the policy for failed writes. What cannot be done now must not keep a healthy write from
    being done.
    """
    policy = ref.config.get(FAILED_WRITES)
    if policy is FailedWrites.NEVER:
        return
    try:
        traces = list_hoodie_directory(ref.env, ref.properties.timeline_paths)
        if policy is FailedWrites.EAGER:
            roll_back_dead_writes(ref, traces.timeline)
        sweep_before_write(ref, traces)
    except HoodooError as error:
        log.warning("recover_failed error=%s", error)


def recover(ref: TableRef) -> RecoverResult:
    """Finish what was decided, roll back every dead write, carry on its rollbacks, and sweep."""
    ref = reopen_for_writing(ref)
    finish_decision(ref)
    traces = list_hoodie_directory(ref.env, ref.properties.timeline_paths)
    result = roll_back_dead_writes(ref, traces.timeline)
    if result.rolled_back:
        traces = list_hoodie_directory(ref.env, ref.properties.timeline_paths)
    return replace(result, swept=sweep(ref, traces))


def finish_decision(ref: TableRef) -> None:
    """Carry out the last decision, if whoever took it died before that.

    Order: head read; in a transaction, if its file is not there: as
    `load_head_and_timeline`.
    """
    decision = read_head(ref.env).decision
    if decision is None:
        return
    is_there = ref.env.storage.exists(decision.path)
    is_done = is_there != (decision.kind is DecisionKind.REMOVE)
    if not is_done or decision.kind is DecisionKind.PROPERTIES:
        with transaction(ref, "recover"):
            log.info("looked_at_decision number=%d", decision.number)


def roll_back_dead_writes(ref: TableRef, timeline: Timeline) -> RecoverResult:
    """Roll back every dead write, and finish rollbacks that nobody carries on.

    Order: (1) in one transaction, which is spared if nobody seems dead on `timeline`: fresh
    timeline, heartbeats, rollback plans of the dead; (2) outside it: each rollback carried out
    under its own heartbeat.
    Crash: rollbacks are pending; the next recover finishes them.
    """
    verdicts = judge_pending_instants(ref, timeline)
    if all(verdict.fate is RecoveryAction.LEAVE for verdict in verdicts):
        return RecoverResult(left_pending=tuple(verdicts))
    rollbacks: list[tuple[Attempt, RecoveryVerdict]] = []
    live_verdicts: list[RecoveryVerdict] = []
    with ExitStack() as heartbeats:
        with transaction(ref, "recover") as txn:
            for verdict in judge_pending_instants(ref, txn.timeline):
                try:
                    attempt = _begin_rollback(txn, ref, verdict)
                except (TimelineError, HeartbeatLost) as error:
                    live_verdicts.append(replace(verdict, reason=f"it changed meanwhile: {error}"))
                    continue
                if attempt is None:
                    live_verdicts.append(verdict)
                else:
                    heartbeats.callback(attempt.heartbeat.stop)
                    rollbacks.append((attempt, verdict))
        return _carry_out_all(ref, rollbacks, live_verdicts)


def roll_back(ref: TableRef, instant: str, *, force: bool = False) -> RollbackResult:
    """Roll back one pending instant; `force` does not ask whether its writer is alive.

    A rollback of a completed instant, which another engine requested, is dropped.

    Raises `AlreadyCommitted`, `WriterAlive`.
    """
    ref = reopen_for_writing(ref)
    with ExitStack() as heartbeats:
        with transaction(ref, "rollback") as txn:
            target = _find_pending(txn, ref, instant, force=force)
            if target.action is Action.ROLLBACK:
                moot_result = drop_moot(txn, ref, target)
                if moot_result is not None:
                    return moot_result
                attempt = resume_rollback(txn, ref, target)
            else:
                attempt = schedule_rollback(txn, ref, target)
            heartbeats.callback(attempt.heartbeat.stop)
        return carry_out_rollback(ref, attempt)


def _find_pending(txn: Txn, ref: TableRef, instant: str, *, force: bool) -> Instant:
    """The named instant, or the rollback that is about it."""
    pending = txn.timeline.find(instant)
    if pending is None:
        raise InputError(f"there is no instant {instant} on the timeline")
    if not pending.is_pending:
        raise AlreadyCommitted(f"instant {instant} is {pending.state.value}: nothing to roll back")
    if not pending.action.writes_data and pending.action is not Action.ROLLBACK:
        raise UnsupportedFeature(f"a {pending.action.value} is not rolled back")
    targets = load_rollback_targets(ref.env, txn.timeline_paths, txn.timeline.pending)
    under_way = txn.timeline.find(targets.get(pending.requested_time, instant)) or pending
    if under_way.action is Action.RESTORE:
        raise UnsupportedFeature(
            f"restore {under_way.requested_time} takes {instant} back: run it again"
        )
    pulse = load_writer_statuses(ref, [under_way])[under_way.requested_time]
    if not pulse.is_dead and not force:
        raise WriterAlive(f"instant {under_way.requested_time} is not dead: {pulse}")
    return under_way


def roll_back_own_attempt(ref: TableRef, attempt: Attempt) -> None:
    """Roll back an own attempt that failed, and of which nothing runs any more.

    Failing here changes nothing for the caller: a later recover does the same.
    """
    attempt.heartbeat.stop()
    try:
        with ExitStack() as heartbeats:
            with transaction(ref, "rollback") as txn:
                rollback = _schedule_own(txn, ref, attempt)
                if rollback is not None:
                    heartbeats.callback(rollback.heartbeat.stop)
            if rollback is not None:
                carry_out_rollback(ref, rollback)
            elif txn.timeline.find(attempt.instant.requested_time) is None:
                # Others rolled it back, and cannot have seen what it made since.
                sweep_instant(ref, txn.timeline, attempt.instant.requested_time)
    except HoodooError as error:
        log.warning("abandon_failed time=%s error=%s", attempt.instant.requested_time, error)


def _schedule_own(txn: Txn, ref: TableRef, attempt: Attempt) -> Attempt | None:
    """Begin the rollback of an own attempt, if the instant is still ours to roll back."""
    time, own_body = attempt.instant.requested_time, attempt.heartbeat.body
    pending = txn.timeline.find(time)
    if pending is None or not pending.is_pending:
        return None
    if time in load_rollback_targets(ref.env, txn.timeline_paths, txn.timeline.pending):
        return None
    try:
        current_body = read_heartbeat(ref.env, time)
    except ObjectNotFound:
        return None
    if current_body is None or not current_body.is_same_attempt(own_body):
        return None
    return schedule_rollback(txn, ref, pending)


def judge_pending_instants(
    ref: TableRef, timeline: Timeline, now_ms: int | None = None
) -> list[RecoveryVerdict]:
    """What recover would do with each pending instant; `now_ms` as of `load_writer_statuses`."""
    pending = timeline.pending.instants
    plans = [instant for instant in pending if instant.action in ACTIONS_WITH_PLANS]
    return judge_all(
        pending,
        load_writer_statuses(ref, pending, now_ms),
        plans={instant.requested_time: load_plan_state(ref, instant) for instant in plans},
        delay_minutes=ref.config.get(ROLLBACK_DELAY_MIN),
        targets=load_rollback_targets(ref.env, ref.properties.timeline_paths, pending),
        completed_times={instant.requested_time for instant in timeline.completed},
    )


def _begin_rollback(txn: Txn, ref: TableRef, verdict: RecoveryVerdict) -> Attempt | None:
    match verdict.fate:
        case RecoveryAction.LEAVE:
            return None
        case RecoveryAction.FINISH:
            return resume_rollback(txn, ref, verdict.instant)
        case RecoveryAction.ROLL_BACK:
            return schedule_rollback(txn, ref, verdict.instant)


def _carry_out_all(
    ref: TableRef,
    rollbacks: Iterable[tuple[Attempt, RecoveryVerdict]],
    live_verdicts: Iterable[RecoveryVerdict],
) -> RecoverResult:
    """Every rollback gets its chance; the first failure is raised at the end."""
    results: list[RollbackResult] = []
    overtaken: list[RecoveryVerdict] = []
    failures: list[HoodooError] = []
    for attempt, verdict in rollbacks:
        is_finished = verdict.fate is RecoveryAction.FINISH
        try:
            rolled_back = carry_out_rollback(ref, attempt)
        except (AlreadyCommitted, HeartbeatLost) as error:
            overtaken.append(replace(verdict, reason=f"someone else carries it on: {error}"))
        except HoodooError as error:
            failures.append(error)
        else:
            results.append(replace(rolled_back, is_finished=is_finished, reason=verdict.reason))
    if failures:
        raise failures[0]
    rolled_back_times = {each.instant for each in results}
    still = [
        verdict
        for verdict in live_verdicts
        if verdict.instant.requested_time not in rolled_back_times
    ]
    return RecoverResult(tuple(results), (*still, *overtaken))


if not TYPE_CHECKING:  # a type checker knows the names of today only

    def __getattr__(name: str) -> object:
        return find_by_old_name(__name__, name)
