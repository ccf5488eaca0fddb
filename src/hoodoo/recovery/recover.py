"""Recover: find the dead, schedule their rollbacks in one transaction, carry them out outside."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from hoodoo.concurrency.gate import Attempt
from hoodoo.concurrency.heartbeat import read_beat, take_over
from hoodoo.concurrency.liveness import Pulse, take_pulses
from hoodoo.concurrency.transaction import transaction
from hoodoo.config.concurrency import FAILED_WRITES, FailedWrites
from hoodoo.errors import (
    AlreadyCommitted,
    HeartbeatLost,
    HoodooError,
    InputError,
    NotFound,
    Unsupported,
    WriterAlive,
)
from hoodoo.model.instant import Action, Instant, InstantTime, State
from hoodoo.model.plan import RequestedReplaceMetadata
from hoodoo.recovery.rollback import RolledBack, carry_out, schedule
from hoodoo.recovery.sweep import Swept, sweep, sweep_instant
from hoodoo.recovery.verdict import Fate, Verdict, judge_all
from hoodoo.table.ref import TableRef
from hoodoo.table.writable import refuse_unwritable
from hoodoo.timeline import transitions
from hoodoo.timeline.load import load_rollback_targets, read_plan
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


def before_write(ref: TableRef) -> None:
    """Roll dead writes back ahead of a write, if the policy for failed writes says so.

    What cannot be rolled back now must not keep a healthy write from being done.
    """
    if ref.config.get(FAILED_WRITES) is not FailedWrites.EAGER:
        return
    try:
        roll_back_dead(ref)
    except HoodooError as error:
        log.warning("recover_failed error=%s", error)


def recover(ref: TableRef) -> Recovered:
    """Roll back every dead write, finish rollbacks that nobody carries on, and sweep."""
    recovered = roll_back_dead(ref)
    return replace(recovered, swept=sweep(ref))


def roll_back_dead(ref: TableRef) -> Recovered:
    """Roll back every dead write, and finish rollbacks that nobody carries on.

    Order: (1) in one transaction, which is spared if nobody seems dead: fresh timeline,
    heartbeats, rollback plans of the dead; (2) outside it: each rollback carried out under its
    own heartbeat.
    Crash: rollbacks are pending; the next recover finishes them.
    """
    refuse_unwritable(ref)
    seen = [verdict for verdict, _ in _verdicts(ref, ref.load_timeline())]
    if all(verdict.fate is Fate.LEAVE for verdict in seen):
        return Recovered(left=tuple(seen))
    begun: list[tuple[Attempt, Verdict]] = []
    left: list[Verdict] = []
    with ExitStack() as beating:
        with transaction(ref, "recover") as txn:
            for verdict, pulse in _verdicts(ref, txn.timeline):
                # Times drawn in this transaction are not on its timeline.
                after = max((a.instant.requested_time for a, _ in begun), default=None)
                attempt = _begin(txn, ref, verdict, pulse, after)
                if attempt is not None:
                    beating.callback(attempt.heartbeat.stop)
                    begun.append((attempt, verdict))
                elif verdict.fate is Fate.LEAVE:
                    left.append(verdict)
                else:
                    left.append(replace(verdict, reason=f"its commit may still land: {pulse}"))
        return _carry_out_all(ref, begun, left)


def roll_back(ref: TableRef, instant: str, *, force: bool = False) -> RolledBack:
    """Roll back one pending instant; `force` does not ask whether its writer is alive.

    Raises `AlreadyCommitted`, `WriterAlive`.
    """
    refuse_unwritable(ref)
    with ExitStack() as beating:
        with transaction(ref, "rollback") as txn:
            attempt = _schedule_named(txn, ref, instant, force=force)
            beating.callback(attempt.heartbeat.stop)
        return carry_out(ref, attempt)


def _schedule_named(txn: Txn, ref: TableRef, instant: str, *, force: bool) -> Attempt:
    found = txn.timeline.find(instant)
    if found is None:
        raise InputError(f"there is no instant {instant} on the timeline")
    if not found.is_pending:
        raise AlreadyCommitted(f"instant {instant} is {found.state.value}: nothing to roll back")
    if not found.action.writes_data and found.action is not Action.ROLLBACK:
        raise Unsupported(f"a {found.action.value} is not rolled back")
    targets = load_rollback_targets(ref.env, txn.paths, txn.timeline.pending)
    under_way = txn.timeline.find(targets.get(found.requested_time, instant)) or found
    pulse = take_pulses(ref, [under_way])[under_way.requested_time]
    if not pulse.is_dead and not force:
        raise WriterAlive(f"instant {under_way.requested_time} is not dead: {pulse}")
    if under_way.action is Action.ROLLBACK:
        return _take_over_rollback(txn, ref, under_way)
    attempt = schedule(txn, ref, found, expiry_ms=pulse.expiry_ms)
    if attempt is None:
        raise WriterAlive(f"the commit of instant {instant} may still land; try again later")
    return attempt


def abandon(ref: TableRef, attempt: Attempt) -> None:
    """Roll back an own attempt that failed, and of which nothing runs any more.

    Failing here changes nothing for the caller: a later recover does the same.
    """
    attempt.heartbeat.stop()
    try:
        with ExitStack() as beating:
            with transaction(ref, "rollback") as txn:
                rollback = _schedule_own(txn, ref, attempt)
                if rollback is not None:
                    beating.callback(rollback.heartbeat.stop)
            if rollback is not None:
                carry_out(ref, rollback)
            elif txn.timeline.find(attempt.instant.requested_time) is None:
                # Others rolled it back, and cannot have seen what it made since.
                sweep_instant(ref, txn.timeline, attempt.instant.requested_time)
    except HoodooError as error:
        log.warning("abandon_failed time=%s error=%s", attempt.instant.requested_time, error)


def _schedule_own(txn: Txn, ref: TableRef, attempt: Attempt) -> Attempt | None:
    time, beat = attempt.instant.requested_time, attempt.heartbeat.attempt
    found = txn.timeline.find(time)
    if found is None or not found.is_pending:
        return None
    if time in load_rollback_targets(ref.env, txn.paths, txn.timeline.pending):
        return None
    try:
        present = read_beat(ref.env, time)
    except NotFound:
        return None
    if present is None or not present.is_same_attempt(beat):
        return None
    return schedule(txn, ref, found, expiry_ms=beat.expiry_ms, own=beat)


def _verdicts(ref: TableRef, timeline: Timeline) -> list[tuple[Verdict, Pulse]]:
    pending = timeline.pending.instants
    pulses = take_pulses(ref, pending)
    targets = load_rollback_targets(ref.env, ref.properties.timeline, pending)
    verdicts = judge_all(pending, pulses, plans=_plans(ref, pending), targets=targets)
    return [(verdict, pulses[verdict.instant.requested_time]) for verdict in verdicts]


def _begin(
    txn: Txn, ref: TableRef, verdict: Verdict, pulse: Pulse, after: InstantTime | None
) -> Attempt | None:
    match verdict.fate:
        case Fate.LEAVE:
            return None
        case Fate.FINISH:
            return _take_over_rollback(txn, ref, verdict.instant)
        case Fate.ROLL_BACK:
            return schedule(txn, ref, verdict.instant, expiry_ms=pulse.expiry_ms, after=after)


def _take_over_rollback(txn: Txn, ref: TableRef, rollback: Instant) -> Attempt:
    with ExitStack() as undo:
        heartbeat = take_over(ref, rollback.requested_time, kind="rollback")
        undo.callback(heartbeat.stop)
        if rollback.state is State.REQUESTED:
            rollback = transitions.start(txn, rollback)
        undo.pop_all()
    return Attempt(rollback, heartbeat)


def _carry_out_all(
    ref: TableRef, begun: Iterable[tuple[Attempt, Verdict]], left: Iterable[Verdict]
) -> Recovered:
    """Every rollback gets its chance; the first failure is raised at the end."""
    done: list[RolledBack] = []
    overtaken: list[Verdict] = []
    failures: list[HoodooError] = []
    for attempt, verdict in begun:
        is_finished = verdict.fate is Fate.FINISH
        try:
            rolled_back = carry_out(ref, attempt)
        except HeartbeatLost as error:
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


def _plans(ref: TableRef, pending: Iterable[Instant]) -> set[InstantTime]:
    """Replace commits that are clusterings, as older writers recorded them."""
    found = set()
    for instant in pending:
        if instant.action is Action.REPLACE_COMMIT:
            try:
                plan = read_plan(ref.env, ref.properties.timeline, instant)
            except NotFound:
                continue
            if isinstance(plan, RequestedReplaceMetadata) and plan.clustering_plan is not None:
                found.add(instant.requested_time)
    return found
