"""The only code that makes instant files (and, with rollback, deletes them)."""

from __future__ import annotations

import logging
from dataclasses import replace

from hoodoo.errors import AlreadyCommitted, AlreadyExists, IllegalTransition
from hoodoo.format import timeline as codec
from hoodoo.model.instant import LEGAL_TRANSITIONS, Action, Instant, InstantTime, State
from hoodoo.timeline.instants import new_time
from hoodoo.timeline.load import instant_path
from hoodoo.timeline.txn import Txn

log = logging.getLogger("hoodoo.timeline")


def request(txn: Txn, action: Action, plan: codec.Metadata | None = None) -> Instant:
    """Begin an instant.

    Needs: a Txn.
    Order: requested file, put-if-absent.
    Crash: a requested instant without files; rollback removes it.
    """
    instant = Instant(new_time(txn), action, State.REQUESTED)
    _create(txn, instant, plan)
    return instant


def start(txn: Txn, instant: Instant, metadata: codec.Metadata | None = None) -> Instant:
    """Requested -> inflight.

    Needs: a Txn.
    Order: inflight file, put-if-absent.
    """
    inflight = _moved(instant, State.INFLIGHT)
    _create(txn, inflight, metadata)
    return inflight


def complete(
    txn: Txn, instant: Instant, metadata: codec.Metadata, *, after: InstantTime | None = None
) -> Instant:
    """Inflight -> completed: the moment a write becomes visible.

    Needs: a Txn, whose timeline was read inside it.
    Order: completed file, put-if-absent.
    Crash: before it nothing is visible; after it the instant is committed.
    """
    present = txn.timeline.find(instant.requested_time)
    if present is None or present.state is not instant.state:
        if present is not None and present.is_completed:
            raise AlreadyCommitted(f"instant {instant.requested_time} is already completed")
        raise IllegalTransition(
            f"instant {instant.requested_time} is {present.state.value if present else 'gone'}, "
            f"not {instant.state.value}"
        )
    completed = replace(
        _moved(instant, State.COMPLETED),
        action=instant.action.completed_as,
        completion_time=new_time(txn, after=after or instant.requested_time),
    )
    _create(txn, completed, metadata)
    return completed


def _moved(instant: Instant, state: State) -> Instant:
    if (instant.state, state) not in LEGAL_TRANSITIONS:
        raise IllegalTransition(f"{instant} cannot become {state.value}")
    return replace(instant, state=state)


def _create(txn: Txn, instant: Instant, metadata: codec.Metadata | None) -> None:
    path = instant_path(txn.paths, instant)
    data = b"" if metadata is None else codec.encode(metadata)
    try:
        txn.env.storage.create(path, data)
    except AlreadyExists:
        raise IllegalTransition(f"{path} is already there: another writer made it") from None
    log.info(
        "instant time=%s action=%s state=%s",
        instant.requested_time,
        instant.action.value,
        instant.state.value,
    )
