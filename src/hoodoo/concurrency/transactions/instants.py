"""Moves of an instant that need no decision: its beginning, and its end once that is decided."""

from __future__ import annotations

import logging
from dataclasses import replace

from hoodoo.concurrency.heartbeats import Heartbeat, create_heartbeat, first_body
from hoodoo.concurrency.transactions.transaction import Txn, new_time
from hoodoo.errors import AlreadyCommitted, IllegalTransition, ObjectExists
from hoodoo.format.timeline import instant_files as codec
from hoodoo.model.instant import LEGAL_TRANSITIONS, Action, Instant, InstantTime, State
from hoodoo.runtime.lost_answers import create_once, delete_surely
from hoodoo.table.ref import TableRef
from hoodoo.table.timeline import instant_path

log = logging.getLogger("hoodoo.concurrency")


def create_requested_file(
    txn: Txn, time: InstantTime, action: Action, plan: codec.Metadata | None = None
) -> Instant:
    """Begin an instant at a time that was drawn in this transaction.

    Needs: a Txn.
    Order: requested file, put-if-absent.
    Crash: a requested instant without files; rollback removes it.
    """
    instant = Instant(time, action, State.REQUESTED)
    _create(txn, instant, plan)
    return instant


def create_inflight_file(
    txn: Txn, instant: Instant, metadata: codec.Metadata | None = None
) -> Instant:
    """Requested -> inflight.

    Needs: a Txn.
    Order: inflight file, put-if-absent.
    """
    inflight = _change_state(instant, State.INFLIGHT)
    _create(txn, inflight, metadata)
    return inflight


def start_savepoint(txn: Txn, time: InstantTime) -> Instant:
    """Begin a savepoint of the commit of this time: it has no requested file.

    Needs: a Txn.
    Order: inflight file, put-if-absent.
    Crash: an inflight savepoint, which protects nothing.
    """
    inflight = Instant(time, Action.SAVEPOINT, State.INFLIGHT)
    _create(txn, inflight, None)
    return inflight


def build_completed_instant(txn: Txn, instant: Instant) -> Instant:
    """What a pending instant will be once completed; its completion time is drawn here.

    Needs: a Txn, whose timeline was read inside it.
    """
    refuse_changed_state(txn, instant)
    return replace(
        _change_state(instant, State.COMPLETED),
        action=instant.action.completed_as,
        completion_time=new_time(txn, after=instant.requested_time),
    )


def delete_pending_files(txn: Txn, instant: Instant, *, keep_plan: bool = False) -> None:
    """Take a pending instant off the timeline, or only its attempt if its plan is kept.

    Needs: a Txn, and a rollback of the instant on the timeline.
    Order: inflight file, then requested file.
    Crash: a requested instant is left; the rollback that removes it is still pending.
    """
    delete_surely(txn.env, instant_path(txn.timeline_paths, replace(instant, state=State.INFLIGHT)))
    if not keep_plan:
        delete_surely(
            txn.env, instant_path(txn.timeline_paths, replace(instant, state=State.REQUESTED))
        )
    log.info("removed time=%s action=%s", instant.requested_time, instant.action.value)


def refuse_changed_state(txn: Txn, instant: Instant) -> None:
    """Fail unless an instant is on the timeline in the state that the caller knows."""
    current = txn.timeline.find(instant.requested_time, instant.action)
    if current is not None and current.is_completed:
        raise AlreadyCommitted(f"instant {instant.requested_time} is already completed")
    if current is None or current.state is not instant.state:
        raise IllegalTransition(
            f"instant {instant.requested_time} is {current.state.value if current else 'gone'}, "
            f"not {instant.state.value}"
        )


def _change_state(instant: Instant, state: State) -> Instant:
    if (instant.state, state) not in LEGAL_TRANSITIONS:
        raise IllegalTransition(f"{instant} cannot become {state.value}")
    return replace(instant, state=state)


def _create(txn: Txn, instant: Instant, metadata: codec.Metadata | None) -> None:
    path = instant_path(txn.timeline_paths, instant)
    data = b"" if metadata is None else codec.encode(metadata)
    try:
        create_once(txn.env, path, data)
    except ObjectExists:
        raise IllegalTransition(f"{path} is already there: another writer made it") from None
    log.info(
        "instant time=%s action=%s state=%s",
        instant.requested_time,
        instant.action.value,
        instant.state.value,
    )


def open_instant(
    txn: Txn, ref: TableRef, *, kind: str, after: InstantTime | None = None
) -> tuple[InstantTime, Heartbeat]:
    """A new instant time, and its heartbeat, which beats from now on.

    Needs: a Txn.
    Order: heartbeat file, put-if-absent: no two writers get one time, lock or no lock.
    Crash: a heartbeat without an instant; sweep takes it.
    """
    while True:
        time = new_time(txn, after=after)
        try:
            return time, create_heartbeat(ref.env, time, first_body(ref, kind))
        except ObjectExists:
            after = time
