"""Recover: find the dead, schedule their rollbacks in one transaction, carry them out outside."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from hoodoo.concurrency.gate import Attempt
from hoodoo.concurrency.heartbeat import read_heartbeat
from hoodoo.concurrency.liveness import take_pulses
from hoodoo.concurrency.transaction import transaction
from hoodoo.config.concurrency import FAILED_WRITES, FailedWrites
from hoodoo.config.services import ROLLBACK_DELAY_MIN
from hoodoo.errors import (
    AlreadyCommitted,
    HeartbeatLost,
    HoodooError,
    InputError,
    NotFound,
    TimelineError,
    Unsupported,
    WriterAlive,
)
from hoodoo.model.decision import DecisionKind
from hoodoo.model.instant import Action, Instant
from hoodoo.recovery.ending import REWRITES, load_plan_facts
from hoodoo.recovery.rollback import (
    RolledBack,
    carry_out_rollback,
    drop_moot,
    resume_rollback,
    schedule_rollback,
)
from hoodoo.recovery.sweep import Swept, sweep, sweep_before_write, sweep_instant
from hoodoo.recovery.traces import load_traces
from hoodoo.recovery.verdict import Fate, Verdict, judge_all
from hoodoo.table.ref import TableRef
from hoodoo.table.writable import reopen_for_writing
from hoodoo.timeline.head import read_head
from hoodoo.timeline.load import load_rollback_targets
from hoodoo.timeline.timeline import Timeline
from hoodoo.timeline.txn import Txn

log = logging.getLogger("hoodoo.recovery")


@dataclass(frozen=True, slots=True)
class Recovered:
    """What a recover found and did."""

    rolled_back: tuple[RolledBack, ...] = ()
    left: tuple[Verdict, ...] = ()
    """Pending instants that it left alone, and why."""
    swept: Swept = field(default_factory=Swept)


def recover_before_write(ref: TableRef) -> None:
    """Roll dead writes back ahead of a write, and do the sweeps that are due.

    By the policy for failed writes. What cannot be done now must not keep a healthy write from
    being done.
    """
    policy = ref.config.get(FAILED_WRITES)
    if policy is FailedWrites.NEVER:
        return
    try:
        traces = load_traces(ref.env, ref.properties.timeline)
        if policy is FailedWrites.EAGER:
            roll_back_dead(ref, traces.timeline)
        sweep_before_write(ref, traces)
    except HoodooError as error:
        log.warning("recover_failed error=%s", error)


def recover(ref: TableRef) -> Recovered:
    """Finish what was decided, roll back every dead write, carry on its rollbacks, and sweep."""
    ref = reopen_for_writing(ref)
    finish_decision(ref)
    traces = load_traces(ref.env, ref.properties.timeline)
    recovered = roll_back_dead(ref, traces.timeline)
    if recovered.rolled_back:
        traces = load_traces(ref.env, ref.properties.timeline)
    return replace(recovered, swept=sweep(ref, traces))


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


def roll_back_dead(ref: TableRef, timeline: Timeline) -> Recovered:
    """Roll back every dead write, and finish rollbacks that nobody carries on.

    Order: (1) in one transaction, which is spared if nobody seems dead on `timeline`: fresh
    timeline, heartbeats, rollback plans of the dead; (2) outside it: each rollback carried out
    under its own heartbeat.
    Crash: rollbacks are pending; the next recover finishes them.
    """
    verdicts = _judge_pending(ref, timeline)
    if all(verdict.fate is Fate.LEAVE for verdict in verdicts):
        return Recovered(left=tuple(verdicts))
    rollbacks: list[tuple[Attempt, Verdict]] = []
    left: list[Verdict] = []
    with ExitStack() as heartbeats:
        with transaction(ref, "recover") as txn:
            for verdict in _judge_pending(ref, txn.timeline):
                try:
                    attempt = _begin_rollback(txn, ref, verdict)
                except (TimelineError, HeartbeatLost) as error:
                    left.append(replace(verdict, reason=f"it changed meanwhile: {error}"))
                    continue
                if attempt is None:
                    left.append(verdict)
                else:
                    heartbeats.callback(attempt.heartbeat.stop)
                    rollbacks.append((attempt, verdict))
        return _carry_out_all(ref, rollbacks, left)


def roll_back(ref: TableRef, instant: str, *, force: bool = False) -> RolledBack:
    """Roll back one pending instant; `force` does not ask whether its writer is alive.

    A rollback of a completed instant, which another engine requested, is dropped.

    Raises `AlreadyCommitted`, `WriterAlive`.
    """
    ref = reopen_for_writing(ref)
    with ExitStack() as heartbeats:
        with transaction(ref, "rollback") as txn:
            target = _find_pending(txn, ref, instant, force=force)
            if target.action is Action.ROLLBACK:
                dropped = drop_moot(txn, ref, target)
                if dropped is not None:
                    return dropped
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
        raise Unsupported(f"a {pending.action.value} is not rolled back")
    targets = load_rollback_targets(ref.env, txn.paths, txn.timeline.pending)
    under_way = txn.timeline.find(targets.get(pending.requested_time, instant)) or pending
    pulse = take_pulses(ref, [under_way])[under_way.requested_time]
    if not pulse.is_dead and not force:
        raise WriterAlive(f"instant {under_way.requested_time} is not dead: {pulse}")
    return under_way


def abandon(ref: TableRef, attempt: Attempt) -> None:
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
    if time in load_rollback_targets(ref.env, txn.paths, txn.timeline.pending):
        return None
    try:
        current_body = read_heartbeat(ref.env, time)
    except NotFound:
        return None
    if current_body is None or not current_body.is_same_attempt(own_body):
        return None
    return schedule_rollback(txn, ref, pending)


def _judge_pending(ref: TableRef, timeline: Timeline) -> list[Verdict]:
    pending = timeline.pending.instants
    return judge_all(
        pending,
        take_pulses(ref, pending),
        plans={i.requested_time: load_plan_facts(ref, i) for i in pending if i.action in REWRITES},
        delay_minutes=ref.config.get(ROLLBACK_DELAY_MIN),
        targets=load_rollback_targets(ref.env, ref.properties.timeline, pending),
        completed={instant.requested_time for instant in timeline.completed},
    )


def _begin_rollback(txn: Txn, ref: TableRef, verdict: Verdict) -> Attempt | None:
    match verdict.fate:
        case Fate.LEAVE:
            return None
        case Fate.FINISH:
            return resume_rollback(txn, ref, verdict.instant)
        case Fate.ROLL_BACK:
            return schedule_rollback(txn, ref, verdict.instant)


def _carry_out_all(
    ref: TableRef, rollbacks: Iterable[tuple[Attempt, Verdict]], left: Iterable[Verdict]
) -> Recovered:
    """Every rollback gets its chance; the first failure is raised at the end."""
    done: list[RolledBack] = []
    overtaken: list[Verdict] = []
    failures: list[HoodooError] = []
    for attempt, verdict in rollbacks:
        is_finished = verdict.fate is Fate.FINISH
        try:
            rolled_back = carry_out_rollback(ref, attempt)
        except (AlreadyCommitted, HeartbeatLost) as error:
            overtaken.append(replace(verdict, reason=f"someone else carries it on: {error}"))
        except HoodooError as error:
            failures.append(error)
        else:
            done.append(replace(rolled_back, is_finished=is_finished, reason=verdict.reason))
    if failures:
        raise failures[0]
    gone = {each.instant for each in done}
    still = [verdict for verdict in left if verdict.instant.requested_time not in gone]
    return Recovered(tuple(done), (*still, *overtaken))
