"""Transactions: the table's lock is held, and everything that was decided is on the timeline.

The only maker of `Txn`. Whoever begins one finishes the decision that stands at the head, unless it
is void: an engine that knows no head has gone on without it. That is safe, as nobody is told that a
decision holds before it is carried out.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from hoodoo.concurrency.foreign import find_overtaker
from hoodoo.concurrency.locks import hold_lock
from hoodoo.env import Env
from hoodoo.errors import NotFound, naming
from hoodoo.format import timeline as codec
from hoodoo.model.decision import Decision, DecisionKind, Head
from hoodoo.model.instant import State
from hoodoo.model.names import parse_instant
from hoodoo.model.paths import TimelinePaths
from hoodoo.table.ref import TableRef
from hoodoo.timeline.decisions import carry_out, create_cancels, describe_decision, is_unfinished
from hoodoo.timeline.head import read_content, read_head
from hoodoo.timeline.load import load_rollback_targets, load_timeline
from hoodoo.timeline.resolve_unknown import delete_surely
from hoodoo.timeline.timeline import Timeline
from hoodoo.timeline.txn import Fence, Txn

log = logging.getLogger("hoodoo.concurrency")


@contextmanager
def transaction(ref: TableRef, purpose: str) -> Iterator[Txn]:
    """A transaction on a table: its lock held, its head and its timeline as they are then.

    Order: lock taken; head and timeline read, an unfinished decision finished; the caller's work;
    lock given back.
    Crash: the lock stays until its lease or session ends.
    """
    with hold_lock(ref, purpose) as lock:
        yield load_txn(ref, lock)


def load_txn(ref: TableRef, lock: Fence) -> Txn:
    """The transaction of whoever holds this lock."""
    where = ref.properties.timeline
    look = partial(load_head_and_timeline, ref.env, where)
    return Txn(ref.env, where, lock, *look(), look)


def load_head_and_timeline(env: Env, where: TimelinePaths) -> tuple[Head, Timeline]:
    """The head, and the timeline with everything on it that was decided up to that head.

    Needs: the table's lock, if engines that know no head may be at work.
    Order: head read; timeline listed; an unfinished decision carried out, and listed again.
    Crash: the decision stays unfinished; the next one who looks goes on.
    """
    head = read_head(env)
    timeline = load_timeline(env, where)
    decision = head.decision
    if decision is None:
        return head, timeline
    if not is_unfinished(env, decision, timeline):
        create_cancels(env, decision, timeline)
        return head, timeline
    try:
        if _is_void(env, where, decision, timeline):
            return head, timeline
        log.warning("finishing number=%d kind=%s path=%s", *describe_decision(decision))
        is_made = carry_out(env, decision)
    except NotFound:  # staged, and finished meanwhile
        return load_head_and_timeline(env, where)
    if is_made and decision.kind is DecisionKind.COMPLETE:
        _withdraw_if_void(env, where, head, decision)
    timeline = load_timeline(env, where)
    create_cancels(env, decision, timeline)
    return head, timeline


def _is_void(env: Env, where: TimelinePaths, decision: Decision, timeline: Timeline) -> bool:
    """Whether an engine that knows no head rolls the instant back, or has overtaken it.

    Rollbacks that go through the head were seen by whoever took the decision.
    """
    if decision.kind is not DecisionKind.COMPLETE:
        return False
    later = (other for other in timeline.pending if other.requested_time > decision.instant)
    if decision.instant in load_rollback_targets(env, where, later):
        return True
    completed = parse_instant(decision.path.rpartition("/")[2], layout=where.layout)
    assert completed is not None
    with naming(decision.path):
        data = read_content(env.storage, decision)
        metadata = codec.decode(data, completed.action, State.COMPLETED)
    assert metadata is not None
    overtaker = find_overtaker(env, where, completed.ended_at, metadata, timeline)
    if overtaker is not None:
        log.warning(
            "void number=%d kind=%s path=%s overtaken_by=%s",
            *describe_decision(decision),
            overtaker,
        )
    return overtaker is not None


def _withdraw_if_void(env: Env, where: TimelinePaths, head: Head, decision: Decision) -> None:
    """Take away what was finished for another, if the table had gone on without it.

    Whoever decides next finishes this decision, or finds it void. So if the head has moved, and
    the instant was rolled back or overtaken, its completed file came too late.
    """
    if read_head(env).etag == head.etag:
        return
    is_gone = decision.needs is not None and not env.storage.exists(decision.needs)
    if is_gone or _is_void(env, where, decision, load_timeline(env, where)):
        log.error("withdrawn number=%d kind=%s path=%s", *describe_decision(decision))
        delete_surely(env, decision.path)
