"""Cancelling plans: a request that nobody can take back, and its execution.

The request never waits for anyone; the execution never disturbs an executor that is alive. A plan
that is cancelled ends as a rollback of it does, so that other engines agree that it is not pending,
and leaves a record and a tombstone beside that.
"""

from __future__ import annotations

import logging
from contextlib import ExitStack
from dataclasses import dataclass

from hoodoo.concurrency.gate import cancel
from hoodoo.concurrency.heartbeat import Heartbeat, take_over
from hoodoo.concurrency.liveness import Pulse, store_time_ms, take_pulses
from hoodoo.concurrency.transaction import transaction
from hoodoo.errors import (
    AlreadyCommitted,
    CancelNotRequested,
    HeartbeatLost,
    HoodooError,
    NotCancellable,
    NotFound,
    PlanInProgress,
)
from hoodoo.model import paths
from hoodoo.model.attempt import CancelRequest
from hoodoo.model.instant import Instant, InstantTime, State
from hoodoo.recovery.ending import (
    REWRITES,
    Ending,
    PlanFacts,
    drop_cancel,
    load_plan_facts,
    read_cancel,
)
from hoodoo.recovery.rollback import (
    RolledBack,
    carry_out_rollback,
    resume_rollback,
    schedule_rollback,
)
from hoodoo.table.ref import TableRef
from hoodoo.table.writable import reopen_for_writing
from hoodoo.timeline.load import instant_path, load_rollback_targets
from hoodoo.timeline.timeline import Timeline
from hoodoo.timeline.txn import Txn

log = logging.getLogger("hoodoo.recovery")

_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Overdue:
    """A cancellable plan that is to be cancelled, and why."""

    instant: Instant
    reason: str


def request_cancel(
    ref: TableRef, instant: str, *, reason: str = "by hand", force: bool = False
) -> bool:
    """Ask for the end of a plan; false if that was asked before, or is done.

    From now on nobody can complete it. `force` also takes plans that are not cancellable.

    Raises `AlreadyCommitted`, `NotCancellable`; then nothing was written.
    Order: that of `gate.cancel`, in a transaction.
    """
    ref = reopen_for_writing(ref)
    time, is_new = InstantTime(instant), False

    def check() -> bool:
        nonlocal is_new
        is_new = _is_to_be_cancelled(ref, txn.timeline, time, force=force)
        return is_new

    with transaction(ref, "request cancel") as txn:
        cancel(txn, time, CancelRequest(str(ref.env.ids.process()), reason), check)
    if is_new:
        log.info("cancel_requested time=%s reason=%s", time, reason)
    return is_new


def _is_to_be_cancelled(
    ref: TableRef, timeline: Timeline, time: InstantTime, *, force: bool
) -> bool:
    found = timeline.find(time)
    if found is None or found.state is State.ABORTED:
        if ref.env.storage.exists(paths.aborted(time)):
            return False
        raise NotCancellable(f"there is no pending plan {time}")
    if found.is_completed:
        raise AlreadyCommitted(f"instant {time} is completed: it cannot be cancelled any more")
    facts = load_plan_facts(ref, found)
    if facts.terms is None:
        raise NotCancellable(f"{found} is not a plan of compaction, log compaction or clustering")
    if not (facts.terms.is_cancellable or force):
        raise NotCancellable(
            f"plan {time} is {facts.terms.policy.value}: it was not scheduled as cancellable"
        )
    return facts.cancel is None


def execute_cancel(ref: TableRef, instant: str) -> RolledBack | None:
    """Carry out a cancel that was requested; None if it is done already.

    Raises `CancelNotRequested`, `AlreadyCommitted`, `PlanInProgress` while an executor is alive.
    Order: in a transaction: heartbeat taken over; rollback requested, through the head; outside:
    that of `carry_out_rollback`.
    Crash: before the rollback is decided anyone may begin again; after it anyone carries it on.
    """
    ref = reopen_for_writing(ref)
    time = InstantTime(instant)
    with ExitStack() as heartbeats:
        with transaction(ref, "execute cancel") as txn:
            found = txn.timeline.find(time)
            if found is None or found.state is State.ABORTED:
                if not ref.env.storage.exists(paths.aborted(time)):
                    raise NotCancellable(f"there is no pending plan {time}")
                drop_cancel(ref, time)
                return None
            if found.is_completed:
                raise AlreadyCommitted(f"instant {time} is completed")
            if load_plan_facts(ref, found).cancel is None:
                raise CancelNotRequested(f"nobody requested that plan {time} is cancelled")
            rollback = _find_rollback(txn, ref, time)
            _refuse_alive(ref, rollback or found)
            if rollback is not None:
                attempt = resume_rollback(txn, ref, rollback)
            else:
                heartbeats.callback(_take_over(ref, time).stop)
                attempt = schedule_rollback(txn, ref, found)
            heartbeats.callback(attempt.heartbeat.stop)
        done = carry_out_rollback(ref, attempt)
    assert done.ending is Ending.ABORT
    return done


def _find_rollback(txn: Txn, ref: TableRef, time: InstantTime) -> Instant | None:
    """The pending rollback of an instant."""
    by = load_rollback_targets(ref.env, txn.paths, txn.timeline.pending).get(time)
    return txn.timeline.find(by) if by else None


def _refuse_alive(ref: TableRef, instant: Instant) -> None:
    pulse = take_pulses(ref, [instant])[instant.requested_time]
    if pulse.has_heartbeat and not pulse.is_dead:
        raise PlanInProgress(f"someone is at work on {instant}: {pulse}")


def _take_over(ref: TableRef, time: InstantTime) -> Heartbeat:
    try:
        return take_over(ref, time, kind="cancel")
    except HeartbeatLost as error:
        raise PlanInProgress(str(error)) from None


def find_overdue(ref: TableRef, timeline: Timeline, now_ms: int | None = None) -> list[Overdue]:
    """Cancellable plans that are pending for too long, or whose executor died.

    `now_ms` is the store's time, if it is known already.
    """
    plans = [(i, load_plan_facts(ref, i)) for i in timeline.pending if i.action in REWRITES]
    cancellable = [(i, f) for i, f in plans if f.terms is not None and f.terms.is_cancellable]
    if not cancellable:
        return []
    if now_ms is None:
        now_ms = store_time_ms(ref.env)
    pulses = take_pulses(ref, [instant for instant, _ in cancellable], now_ms)
    overdue = []
    for instant, facts in cancellable:
        pulse = pulses[instant.requested_time]
        reason = _find_reason(ref, timeline, instant, facts, pulse, now_ms)
        if reason is not None:
            overdue.append(Overdue(instant, reason))
    return overdue


def _find_reason(
    ref: TableRef,
    timeline: Timeline,
    instant: Instant,
    facts: PlanFacts,
    pulse: Pulse,
    now_ms: int,
) -> str | None:
    assert facts.terms is not None
    if facts.cancel is not None:
        return facts.cancel.reason
    if instant.state is State.INFLIGHT and pulse.has_heartbeat and pulse.is_dead:
        return f"its executor died: {pulse}"
    requested = instant_path(
        ref.properties.timeline, Instant(instant.requested_time, instant.action, State.REQUESTED)
    )
    try:
        age_hours = (now_ms - ref.env.storage.stat(requested).modified_ms) / _HOUR_MS
    except NotFound:
        return None
    writes = sum(commit.ended_at > instant.requested_time for commit in timeline.commits)
    if facts.terms.is_overdue(age_hours=age_hours, writes_since=writes):
        return f"pending for {age_hours:.1f} hours and {writes} commits, which its policy forbids"
    return None


def cancel_overdue(ref: TableRef, timeline: Timeline) -> list[RolledBack]:
    """Cancel the plans whose time is up; those that are being executed are only asked to stop."""
    overdue = find_overdue(ref, timeline)
    ended = (_try_to_cancel(ref, each.instant, each.reason) for each in overdue)
    return [each for each in ended if each is not None]


def cancel_requested(ref: TableRef, timeline: Timeline) -> list[RolledBack]:
    """Carry out the cancels that were requested, unless someone is still at work on the plan.

    Other engines heed no requests: the sooner such a plan is off the timeline, the better.
    """
    plans = (i for i in timeline.pending if i.action in REWRITES)
    requested = (i for i in plans if read_cancel(ref, i.requested_time) is not None)
    ended = (_try_to_cancel(ref, instant) for instant in requested)
    return [each for each in ended if each is not None]


def _try_to_cancel(ref: TableRef, instant: Instant, reason: str | None = None) -> RolledBack | None:
    """Request a cancel, if there is a reason, and carry it out; None if others are in the way."""
    time = instant.requested_time
    try:
        if reason is not None:
            request_cancel(ref, time, reason=reason)
        return execute_cancel(ref, time)
    except (AlreadyCommitted, PlanInProgress, NotCancellable) as error:
        log.info("cancel_left time=%s reason=%s", time, error)
    except HoodooError as error:
        log.warning("cancel_failed time=%s error=%s", time, error)
    return None
