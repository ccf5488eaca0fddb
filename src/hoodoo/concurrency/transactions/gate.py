"""The commit gate: the only way to complete an instant, or to put a plan on the timeline.

Inside the lock the gate reads again all that it depends on, and decides by replacing the head of
the table. If the head has changed meanwhile, the replace fails, and the gate looks at everything
anew. Only what is decided is carried out, and only what is carried out is acknowledged. A removal
decides in the same way that a file leaves the timeline: a moot rollback, a commit, a savepoint.

A crash after the decision leaves the head ahead of the timeline; the next transaction carries the
decision out. A crash before it leaves nothing that counts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace

from hoodoo.concurrency.heartbeats import Heartbeat, read_heartbeat
from hoodoo.concurrency.transactions import instants
from hoodoo.concurrency.transactions.decisions import apply_decision
from hoodoo.concurrency.transactions.head import (
    drop_staged,
    prepare_decision,
    read_head,
    replace_head,
)
from hoodoo.concurrency.transactions.other_engines import find_void_reason
from hoodoo.concurrency.transactions.transaction import Txn, new_time
from hoodoo.errors import (
    CommitFailed,
    CommitUnknown,
    FormatError,
    HeadMoved,
    HeartbeatLost,
    HoodooError,
    IllegalTransition,
    LockLost,
    ObjectNotFound,
    OutcomeUnknown,
    PlanCancelled,
)
from hoodoo.format import json_files
from hoodoo.format.timeline import instant_files as codec
from hoodoo.format.timeline.instant_files import Metadata
from hoodoo.model import paths
from hoodoo.model.coordination import CancelRequest, Decision, DecisionKind
from hoodoo.model.instant import (
    REWRITE_ACTIONS,
    SERVICE_ACTIONS,
    Action,
    Instant,
    InstantTime,
    State,
)
from hoodoo.model.table import TableProperties
from hoodoo.runtime.lost_answers import delete_surely
from hoodoo.table.properties import build_changed_properties, decode_properties, read_properties
from hoodoo.table.timeline import Timeline, instant_path, load_rollback_targets

log = logging.getLogger("hoodoo.concurrency")


# -- taking a file off the timeline -------------------------------------------------------------


_WITHIN_S = 10.0


def withdraw_rollback(txn: Txn, rollback: Instant, owner: str, check: Callable[[], None]) -> None:
    """Take a rollback that must not be carried out off the timeline.

    Needs: a Txn. `check` fails if it is to be carried out all the same.
    Order: inflight file deleted; head; requested file deleted.
    Crash: before the head it is a requested rollback again; after it whoever comes next goes on.
    """

    def reason() -> str:
        check()
        delete_surely(
            txn.env, instant_path(txn.timeline_paths, replace(rollback, state=State.INFLIGHT))
        )
        return "it is moot"

    decide_removal(txn, replace(rollback, state=State.REQUESTED), owner, reason)


def remove_completed_file(
    txn: Txn, instant: Instant, owner: str, check: Callable[[], None]
) -> None:
    """Take the completed file of an instant off the timeline: a restore, or a savepoint's end.

    Needs: a Txn; a commit was decided at least two expiries ago, so that nobody's late request can
    bring its file back. `check` fails if it is to stay all the same.
    Order: head; completed file deleted.
    Crash: before the head nothing happened; after it whoever comes next goes on.
    """

    def reason() -> str | None:
        check()
        return "it is taken back" if instant in txn.timeline.instants else None

    decide_removal(txn, instant, owner, reason)


def decide_removal(
    txn: Txn, instant: Instant, owner: str, reason: Callable[[], str | None]
) -> str | None:
    """Decide that the file of an instant in this state goes, as long as there is a reason.

    Order: head and timeline read again; reason; head; file deleted.
    """
    while True:
        txn.reload()
        why = reason()
        if why is None:
            return None
        decision = prepare_decision(
            txn.env,
            txn.head,
            DecisionKind.REMOVE,
            instant.requested_time,
            instant_path(txn.timeline_paths, instant),
            b"",
            owner=owner,
            latest=instant.completion_or_requested_time,
        )
        try:
            txn.head = replace_head(txn.env, txn.head, decision, within_s=_WITHIN_S)
        except HeadMoved:
            continue
        apply_decision(txn.env, decision)
        return why


# -- completing an instant ----------------------------------------------------------------------


@dataclass(frozen=True)
class Attempt:
    """An instant in the state that its owner left it in, and the owner's heartbeat."""

    instant: Instant
    heartbeat: Heartbeat

    @property
    def owner(self) -> str:
        """Tells the decisions of this attempt from those of all others."""
        body = self.heartbeat.body
        return f"{body.owner}.{body.epoch}"


def publish(
    txn: Txn,
    attempt: Attempt,
    prepare_metadata: Callable[[], Metadata],
    find_plans_to_cancel: Callable[[], tuple[InstantTime, ...]] = tuple,
) -> Instant:
    """Complete an instant, or leave nothing visible.

    Needs: a Txn. `prepare_metadata` makes the checks that depend on what is published (conflicts,
    metadata table) by the timeline of the Txn, and returns the metadata to publish; then
    `find_plans_to_cancel` tells which pending plans end with this very decision. Both are called
    again if someone else decides meanwhile. Raises `CommitFailed`, and `CommitUnknown` once the
    decision was sent, unless it is proven that it did not land and never will.
    Order: state; rollbacks; cancel request; owner; metadata prepared; lock ensured; head; completed
    file; cancel requests of others; lock looked at.
    Crash: before the head nothing happened; after it whoever comes next creates the completed
    file.
    """

    def prepare_as_owner() -> Metadata:
        _refuse_taken_over(txn, attempt)
        return prepare_metadata()

    return complete_instant(
        txn, attempt.instant, attempt.owner, prepare_as_owner, find_plans_to_cancel
    )


def complete_instant(
    txn: Txn,
    instant: Instant,
    owner: str,
    prepare_metadata: Callable[[], Metadata],
    find_plans_to_cancel: Callable[[], tuple[InstantTime, ...]] = tuple,
) -> Instant:
    """The same for an instant that has no heartbeat: its whole life is in one transaction."""
    sent_instant: Instant | None = None
    while sent_instant is None or sent_instant not in txn.timeline.instants:
        completed_instant = _check_pending(txn, instant)
        _refuse_rolled_back(txn, instant)
        _refuse_cancelled(txn, instant)
        try:
            metadata, decision_timeline = prepare_metadata(), txn.timeline
        except FormatError:
            if not _is_overtaken(txn):
                raise
            txn.reload()  # what it looked at was dropped by whoever decided meanwhile
            continue
        pending = instant_path(txn.timeline_paths, instant)
        data = codec.encode(metadata)
        cancels = find_plans_to_cancel()
        decision = _prepare_decision(
            txn, owner, completed_instant, data, needs=pending, cancels=cancels
        )
        try:
            _take_head(txn, decision)
        except HeadMoved as moved:
            sent_instant = completed_instant if moved.may_have_landed else None
            with _report_as_unknown(completed_instant) if sent_instant else nullcontext():
                txn.reload()
        except OutcomeUnknown as error:
            raise _make_unknown_error(completed_instant, error) from error
        else:
            with _report_as_unknown(completed_instant):
                if _carry_out(txn, decision):  # else someone who knows the head has finished it
                    _refuse_overtaken(
                        txn, instant, owner, completed_instant, metadata, decision_timeline
                    )
            break
    return completed_instant


def request_plan(
    txn: Txn,
    action: Action,
    owner: str,
    plan: Callable[[], tuple[InstantTime, bytes]],
    find_plans_to_cancel: Callable[[], tuple[InstantTime, ...]] = tuple,
) -> Instant:
    """Put a plan or a rollback on the timeline, so that everyone who decides later knows of it.

    One that is there already is decided again: that stops whoever decides by an older head.

    Needs: a Txn. `plan` makes all checks by the timeline of the Txn, and gives the time of the
    instant and what its requested file holds; `find_plans_to_cancel` then tells which pending plans
    end with this decision. Both are asked again if someone else decides meanwhile. Raises what they
    raise, and `StorageError`: then the plan may be on the timeline, or may still appear there, for
    whoever comes next.
    Order: checks; lock ensured; head; requested file.
    Crash: before the head nothing happened; after it whoever comes next creates the requested
    file.
    """
    while True:
        time, data = plan()
        instant = Instant(time, action, State.REQUESTED)
        decision = _prepare_decision(txn, owner, instant, data, cancels=find_plans_to_cancel())
        try:
            _take_head(txn, decision)
        except HeadMoved as moved:
            txn.reload()
            if moved.may_have_landed and txn.timeline.find(time) is not None:
                return instant  # it had landed, and was finished by whoever decided next
        else:
            _carry_out(txn, decision)
            return instant


def decide_cancel(
    txn: Txn, time: InstantTime, request: CancelRequest, check: Callable[[], bool]
) -> None:
    """Decide that a pending plan is never completed. Nobody can take that back.

    Needs: a Txn. `check` fails if the plan cannot be cancelled, and is false if it is already.
    Order: checks; lock ensured; head; cancel request.
    Crash: before the head nothing happened; after it whoever comes next creates the request.
    """
    data = json_files.encode(request)
    while check():
        decision = prepare_decision(
            txn.env,
            txn.head,
            DecisionKind.CANCEL,
            time,
            paths.cancel_path(time),
            data,
            owner=request.by,
            latest=time,
        )
        try:
            _take_head(txn, decision)
        except HeadMoved:
            txn.reload()
        else:
            _carry_out(txn, decision)
            return


def change_properties(
    txn: Txn,
    changes: Mapping[str, str | None] | Callable[[], Mapping[str, str | None]],
    *,
    after: InstantTime | None = None,
) -> TableProperties:
    """Change properties of the table; None removes a key.

    Needs: a Txn. What has to be done by the timeline of the Txn before the properties change is
    done by `changes`; it is called again if someone else decides meanwhile. The time of the
    decision, which is then the head's latest, is later than `after`.
    Order: changes; properties read; lock ensured; head; `hoodie.properties` replaced by condition.
    Crash: before the head nothing happened; after it whoever comes next replaces the file.
    """
    env, owner = txn.env, txn.env.ids.uuid()
    while True:
        try:
            property_changes = changes() if callable(changes) else changes
        except FormatError:
            if not _is_overtaken(txn):
                raise
            txn.reload()
            continue
        number, now_ms = txn.head.number + 1, env.clock.now_ms()
        data = build_changed_properties(
            read_properties(env), property_changes, decision=number, now_ms=now_ms
        )
        kind, time = DecisionKind.PROPERTIES, new_time(txn, after=after)
        decision = prepare_decision(
            env, txn.head, kind, time, paths.PROPERTIES, data, owner=owner, latest=time
        )
        try:
            _take_head(txn, decision)
        except HeadMoved:
            txn.reload()
        else:
            _carry_out(txn, decision)
            return decode_properties(data, source=paths.PROPERTIES)


# -- the checks ---------------------------------------------------------------------------------


def _check_pending(txn: Txn, instant: Instant) -> Instant:
    try:
        return instants.build_completed_instant(txn, instant)
    except IllegalTransition as error:
        raise HeartbeatLost(f"{error}: it was rolled back meanwhile") from None


def _refuse_rolled_back(txn: Txn, instant: Instant) -> None:
    """Completed rollbacks took their target off the timeline; pending ones still have it there."""
    time = instant.requested_time
    later = (other for other in txn.timeline.pending if other.requested_time > time)
    rollback = load_rollback_targets(txn.env, txn.timeline_paths, later).get(time)
    if rollback is not None:
        raise HeartbeatLost(f"instant {time} is being rolled back by {rollback}")


def _refuse_taken_over(txn: Txn, attempt: Attempt) -> None:
    """Whoever takes a plan over beats first, and then moves the head."""
    instant = attempt.instant
    if instant.action not in SERVICE_ACTIONS:
        return
    try:
        body = read_heartbeat(txn.env, instant.requested_time)
    except ObjectNotFound:
        body = None
    if body is None or not body.is_same_attempt(attempt.heartbeat.body):
        owner = body or "someone who ended it"
        raise HeartbeatLost(f"instant {instant.requested_time} was taken over by {owner}")


def _refuse_cancelled(txn: Txn, instant: Instant) -> None:
    """Only plans that rewrite data are cancelled."""
    time = instant.requested_time
    if instant.action in REWRITE_ACTIONS and txn.env.storage.exists(paths.cancel_path(time)):
        raise PlanCancelled(f"instant {time} was cancelled")


# -- the decision -------------------------------------------------------------------------------


def _prepare_decision(
    txn: Txn,
    owner: str,
    instant: Instant,
    data: bytes,
    *,
    needs: str | None = None,
    cancels: tuple[InstantTime, ...] = (),
) -> Decision:
    """That the file of an instant in this state is to be created."""
    return prepare_decision(
        txn.env,
        txn.head,
        DecisionKind.COMPLETE if instant.is_completed else DecisionKind.REQUEST,
        instant.requested_time,
        instant_path(txn.timeline_paths, instant),
        data,
        owner=owner,
        latest=instant.completion_or_requested_time,
        needs=needs,
        cancels=cancels,
    )


def _take_head(txn: Txn, decision: Decision) -> None:
    """Decide, if nobody else has since the Txn was loaded. Raises as `replace_head`, `LockLost`."""
    txn.fence.ensure_publish_window()
    txn.head = replace_head(txn.env, txn.head, decision, within_s=txn.fence.budget_s())


def _is_overtaken(txn: Txn) -> bool:
    """Whether someone else has decided since the Txn was loaded."""
    return read_head(txn.env).etag != txn.head.etag


def _carry_out(txn: Txn, decision: Decision) -> bool:
    is_made = apply_decision(txn.env, decision, within_s=txn.fence.budget_s())
    if decision.cancels:
        try:
            txn.reload()  # creates the cancel requests
        except HoodooError as error:  # whoever decides next creates them first
            log.warning("cancels_left number=%d error=%s", decision.number, error)
    drop_staged(txn.env, decision)
    return is_made


@contextmanager
def _report_as_unknown(completed_instant: Instant) -> Iterator[None]:
    """Once the decision may have landed, whatever goes wrong leaves its outcome open."""
    try:
        yield
    except CommitFailed:
        raise
    except (HoodooError, KeyboardInterrupt) as error:
        raise _make_unknown_error(completed_instant, error) from error


def _make_unknown_error(completed_instant: Instant, error: BaseException) -> CommitUnknown:
    time = completed_instant.requested_time
    reason = str(error) or type(error).__name__
    return CommitUnknown(
        f"it is not known whether instant {time} is committed ({reason}). Do not write its rows "
        f"again before you know: run `hoodoo recover` and look whether `hoodoo timeline` shows "
        f"{time} as completed",
        instant=time,
    )


# -- beside engines that know no head -----------------------------------------------------------


def _refuse_overtaken(
    txn: Txn,
    inflight: Instant,
    owner: str,
    completed_instant: Instant,
    metadata: Metadata,
    decision_timeline: Timeline,
) -> None:
    """Take a commit back if the lock was lost, and an engine that knows no head came between.

    Such an engine goes by the lock alone. Nobody was told of the commit yet. Raises `LockLost`.
    """
    if _has_lock(txn):
        return
    time = completed_instant.requested_time

    def check() -> str | None:
        return find_void_reason(
            txn.env, txn.timeline_paths, inflight, metadata, decision_timeline=decision_timeline
        )

    reason = decide_removal(txn, completed_instant, owner, check)
    if reason is not None:
        log.error("taken_back time=%s reason=%s", time, reason)
        raise LockLost(
            f"instant {time} was taken back: the lock was lost, and {reason}", was_withdrawn=True
        )


def _has_lock(txn: Txn) -> bool:
    """Whether the lock is still ours; if nobody tells, it may be lost."""
    try:
        return txn.fence.is_unbroken()
    except HoodooError as error:
        log.warning("lock_not_seen error=%s", error)
        return False
