"""Cancelling plans: a request that nobody can take back, and its execution.

The request waits for nobody. The execution leaves an executor that is alive alone. A cancelled plan
ends by a rollback, so that other engines agree that it is not pending; beside that it leaves a
record and a tombstone. A crash in between leaves the request, and the next execution finishes it.

The tombstones also show which file groups are hot: a clustering plan that writes cancel again and
again starves, so planning passes over its file groups. A tombstone counts for a day, or until it is
archived: by then the file group may have cooled down.
"""

from __future__ import annotations

import base64
import logging
from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from hoodoo.concurrency.conflicts.rules import collect_group_effects
from hoodoo.concurrency.heartbeats import (
    Heartbeat,
    WriterStatus,
    load_writer_statuses,
    store_time_ms,
    take_over,
)
from hoodoo.concurrency.transactions.gate import decide_cancel
from hoodoo.concurrency.transactions.transaction import Txn, transaction
from hoodoo.config.clustering import CLUSTER_MOST_CANCELS
from hoodoo.errors import (
    AlreadyCommitted,
    CancelNotRequested,
    FormatError,
    HeartbeatLost,
    HoodooError,
    NotCancellable,
    ObjectNotFound,
    PlanInProgress,
)
from hoodoo.format import json_files
from hoodoo.format.timeline import instant_files as codec
from hoodoo.model import paths
from hoodoo.model.coordination import AbortedPlan, CancelRequest
from hoodoo.model.files import FileGroupId
from hoodoo.model.instant import ACTIONS_WITH_PLANS, Action, Instant, InstantTime, State, to_wall_ms
from hoodoo.recovery.rollback import (
    AfterRollback,
    PlanState,
    RollbackResult,
    carry_out_rollback,
    drop_cancel,
    load_plan_state,
    read_cancel,
    resume_rollback,
    schedule_rollback,
)
from hoodoo.services.plans.pending import plan_groups
from hoodoo.table.ref import TableRef
from hoodoo.table.timeline import (
    Timeline,
    instant_path,
    load_rollback_targets,
    now_wall_ms,
    read_commit,
)
from hoodoo.table.writable import reopen_for_writing

log = logging.getLogger("hoodoo.services")


# -- requesting and executing a cancel ----------------------------------------------------------


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
        decide_cancel(txn, time, CancelRequest(str(ref.env.ids.process()), reason), check)
    if is_new:
        log.info("cancel_requested time=%s reason=%s", time, reason)
    return is_new


def _is_to_be_cancelled(
    ref: TableRef, timeline: Timeline, time: InstantTime, *, force: bool
) -> bool:
    instant = timeline.find(time)
    if instant is None or instant.state is State.ABORTED:
        if ref.env.storage.exists(paths.aborted_plan_path(time)):
            return False
        raise NotCancellable(f"there is no pending plan {time}")
    if instant.is_completed:
        raise AlreadyCommitted(f"instant {time} is completed: it cannot be cancelled any more")
    facts = load_plan_state(ref, instant)
    if facts.terms is None:
        raise NotCancellable(f"{instant} is not a plan of compaction, log compaction or clustering")
    if not (facts.terms.is_cancellable or force):
        raise NotCancellable(
            f"plan {time} is {facts.terms.policy.value}: it was not scheduled as cancellable"
        )
    return facts.cancel is None


def execute_cancel(ref: TableRef, instant: str) -> RollbackResult | None:
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
            plan_instant = txn.timeline.find(time)
            if plan_instant is None or plan_instant.state is State.ABORTED:
                if not ref.env.storage.exists(paths.aborted_plan_path(time)):
                    raise NotCancellable(f"there is no pending plan {time}")
                drop_cancel(ref, time)
                return None
            if plan_instant.is_completed:
                raise AlreadyCommitted(f"instant {time} is completed")
            if load_plan_state(ref, plan_instant).cancel is None:
                raise CancelNotRequested(f"nobody requested that plan {time} is cancelled")
            rollback = _find_rollback(txn, ref, time)
            _refuse_alive(ref, rollback or plan_instant)
            if rollback is not None:
                attempt = resume_rollback(txn, ref, rollback)
            else:
                heartbeats.callback(_take_over(ref, time).stop)
                attempt = schedule_rollback(txn, ref, plan_instant)
            heartbeats.callback(attempt.heartbeat.stop)
        result = carry_out_rollback(ref, attempt)
    assert result.ending is AfterRollback.ABORT
    return result


def _find_rollback(txn: Txn, ref: TableRef, time: InstantTime) -> Instant | None:
    """The pending rollback of an instant."""
    by = load_rollback_targets(ref.env, txn.timeline_paths, txn.timeline.pending).get(time)
    return txn.timeline.find(by) if by else None


def _refuse_alive(ref: TableRef, instant: Instant) -> None:
    pulse = load_writer_statuses(ref, [instant])[instant.requested_time]
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
    pending = (i for i in timeline.pending if i.action in ACTIONS_WITH_PLANS)
    plans = [(i, load_plan_state(ref, i)) for i in pending]
    cancellable = [(i, f) for i, f in plans if f.terms is not None and f.terms.is_cancellable]
    if not cancellable:
        return []
    if now_ms is None:
        now_ms = store_time_ms(ref.env)
    pulses = load_writer_statuses(ref, [instant for instant, _ in cancellable], now_ms)
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
    facts: PlanState,
    pulse: WriterStatus,
    now_ms: int,
) -> str | None:
    assert facts.terms is not None
    if facts.cancel is not None:
        return facts.cancel.reason
    if instant.state is State.INFLIGHT and pulse.has_heartbeat and pulse.is_dead:
        return f"its executor died: {pulse}"
    requested_path = instant_path(
        ref.properties.timeline_paths,
        Instant(instant.requested_time, instant.action, State.REQUESTED),
    )
    try:
        age_hours = (now_ms - ref.env.storage.stat(requested_path).modified_ms) / _HOUR_MS
    except ObjectNotFound:
        return None
    writes = sum(
        commit.completion_or_requested_time > instant.requested_time for commit in timeline.commits
    )
    if facts.terms.is_overdue(age_hours=age_hours, writes_since=writes):
        return f"pending for {age_hours:.1f} hours and {writes} commits, which its policy forbids"
    return None


def cancel_overdue(ref: TableRef, timeline: Timeline) -> list[RollbackResult]:
    """Cancel the plans whose time is up; those that are being executed are only asked to stop."""
    overdue = find_overdue(ref, timeline)
    results = (_try_to_cancel(ref, each.instant, each.reason) for each in overdue)
    return [each for each in results if each is not None]


def cancel_requested(ref: TableRef, timeline: Timeline) -> list[RollbackResult]:
    """Carry out the cancels that were requested, unless someone is still at work on the plan.

    Other engines heed no requests: the sooner such a plan is off the timeline, the better.
    """
    plans = (i for i in timeline.pending if i.action in ACTIONS_WITH_PLANS)
    plans_to_cancel = (i for i in plans if read_cancel(ref, i.requested_time) is not None)
    results = (_try_to_cancel(ref, instant) for instant in plans_to_cancel)
    return [each for each in results if each is not None]


def _try_to_cancel(
    ref: TableRef, instant: Instant, reason: str | None = None
) -> RollbackResult | None:
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


# -- file groups that writes keep busy ----------------------------------------------------------


DAY_MS = 24 * 3_600_000


def count_cancels(ref: TableRef, timeline: Timeline) -> Mapping[FileGroupId, int]:
    """How many clusterings were cancelled within a day because of a write to the file group."""
    since = now_wall_ms(ref.env.clock, ref.properties.timeline_zone) - DAY_MS
    counts: Counter[FileGroupId] = Counter()
    for instant in timeline:
        is_aborted = instant.action is Action.CLUSTERING and instant.state is State.ABORTED
        if is_aborted and to_wall_ms(instant.requested_time) >= since:
            counts.update(_find_causes(ref, timeline, instant))
    return counts


def find_hot_groups(ref: TableRef, counts: Mapping[FileGroupId, int]) -> frozenset[FileGroupId]:
    """Those that plans that yield are to leave alone, by the settings."""
    most = ref.config.get(CLUSTER_MOST_CANCELS)
    return frozenset(group for group, count in counts.items() if most and count >= most)


def _find_causes(ref: TableRef, timeline: Timeline, instant: Instant) -> frozenset[FileGroupId]:
    """The file groups of a cancelled plan that a write had touched; none if nobody can tell."""
    try:
        data = ref.env.storage.read(paths.aborted_plan_path(instant.requested_time))
        record = json_files.decode(data, AbortedPlan)
        plan = codec.decode(base64.b64decode(record.plan), instant.action, State.REQUESTED)
        winner_groups = _read_touches(ref, timeline, record.find_winner())
    except ObjectNotFound:
        return frozenset()
    except (FormatError, ValueError) as error:
        log.warning("aborted_plan_unreadable time=%s error=%s", instant.requested_time, error)
        return frozenset()
    if plan is None:
        return frozenset()
    # An executor that lost its own conflict check names file groups in the reason.
    return frozenset(g for g in plan_groups(plan) if g in winner_groups or str(g) in record.reason)


def _read_touches(
    ref: TableRef, timeline: Timeline, time: InstantTime | None
) -> Collection[FileGroupId]:
    write = timeline.find(time) if time else None
    if write is None or not write.is_completed or not write.action.writes_data:
        return ()
    return collect_group_effects(read_commit(ref.env, ref.properties.timeline_paths, write))
