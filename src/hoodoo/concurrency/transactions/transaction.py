"""Transactions: the table's lock is held, and everything that was decided is on the timeline.

A `Txn` is proof that the caller holds the table's lock: what must run under the lock takes a `Txn`
as its first argument, so the type shows that the lock is held. `new_time` draws instant times that
only ever grow, even when a clock jumps back or an hour comes twice.

`transaction` is the only maker of `Txn`. It first finishes the decision that stands at the head,
which a crash may have left, unless the decision is void: an engine that knows no head has gone on
without it. That is safe, as no decision is acknowledged before it is carried out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from hoodoo.concurrency.locks.lock import Fence
from hoodoo.concurrency.locks.table_lock import hold_lock
from hoodoo.concurrency.transactions.decisions import (
    apply_decision,
    create_cancels,
    describe_decision,
    is_decision_unfinished,
)
from hoodoo.concurrency.transactions.head import read_content, read_head
from hoodoo.concurrency.transactions.other_engines import find_overtaker
from hoodoo.errors import ObjectNotFound, add_error_source
from hoodoo.format.timeline import instant_files as codec
from hoodoo.model.coordination import Decision, DecisionKind, Head
from hoodoo.model.instant import (
    InstantTime,
    State,
    TimelineZone,
    from_wall_ms,
    next_time,
    to_wall_ms,
)
from hoodoo.model.names import parse_instant
from hoodoo.model.paths import TimelinePaths
from hoodoo.runtime.env import Env
from hoodoo.runtime.lost_answers import delete_surely
from hoodoo.table.ref import TableRef
from hoodoo.table.timeline import Timeline, load_rollback_targets, load_timeline, now_wall_ms

log = logging.getLogger("hoodoo.concurrency")


# -- proof of the lock --------------------------------------------------------------------------


MAX_AHEAD_MS = 10 * 60_000
REMIND_S = 3600.0

_CAUSES = {
    TimelineZone.UTC: "check the clock and the time zone of this machine and of other writers",
    TimelineZone.LOCAL: "check the clock and the time zone (TZ) of this process and of other "
    "writers: instants of this table are in local time (hoodie.table.timeline.timezone=LOCAL), so "
    "all its writers must run in one time zone; harmless only in the hour that the end of summer "
    "time repeats",
}
_warned_at: dict[str, float] = {}


@dataclass
class Txn:
    """A transaction in progress: the world, the lock, and what is decided about the table.

    The head was read before the timeline: who decides by this timeline takes the place of this
    head, or of none.
    """

    env: Env
    timeline_paths: TimelinePaths
    fence: Fence
    head: Head
    timeline: Timeline
    load_head_and_timeline: Callable[[], tuple[Head, Timeline]]
    """Loads head and timeline, with everything that is decided."""

    def reload(self) -> None:
        """Look at head and timeline again: someone else has decided."""
        self.head, self.timeline = self.load_head_and_timeline()

    @property
    def newest_time(self) -> InstantTime | None:
        """The latest time that any instant of the table is known to have, archived ones too."""
        times = filter(None, (self.timeline.newest_time, self.head.latest))
        return max(times, default=None)


def new_time(txn: Txn, *, after: InstantTime | None = None) -> InstantTime:
    """A time later than every time on the timeline, and than `after`.

    Needs: a Txn, so that nobody else draws a time meanwhile.
    """
    newest = max(filter(None, (txn.newest_time, after)), default=None)
    now_ms = now_wall_ms(txn.env.clock, txn.timeline_paths.zone)
    if newest is not None and newest > from_wall_ms(now_ms + MAX_AHEAD_MS):
        _warn(txn, newest, ahead_ms=to_wall_ms(newest) - now_ms)
    return next_time(now_ms, after=newest)


def _warn(txn: Txn, newest: InstantTime, *, ahead_ms: int) -> None:
    """Tell that someone's clock is wrong; of one table at most once an hour."""
    table, now_s = txn.env.storage.uri, txn.env.clock.monotonic()
    if now_s - _warned_at.get(table, float("-inf")) < REMIND_S:
        return
    _warned_at[table] = now_s
    log.warning(
        "newest_instant_ahead_of_clock table=%s newest=%s ahead_minutes=%d: new times follow it; "
        "ages and retention by hours are off until the clock catches up; %s",
        table,
        newest,
        ahead_ms // 60_000,
        _CAUSES[txn.timeline_paths.zone],
    )


# -- beginning a transaction --------------------------------------------------------------------


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
    where = ref.properties.timeline_paths
    look = partial(load_head_and_timeline, ref.env, where)
    return Txn(ref.env, where, lock, *look(), look)


def load_head_and_timeline(env: Env, timeline_paths: TimelinePaths) -> tuple[Head, Timeline]:
    """The head, and the timeline with everything on it that was decided up to that head.

    Needs: the table's lock, if engines that know no head may be at work.
    Order: head read; timeline listed; an unfinished decision carried out, and listed again.
    Crash: the decision stays unfinished; the next one who looks goes on.
    """
    head = read_head(env)
    timeline = load_timeline(env, timeline_paths)
    decision = head.decision
    if decision is None:
        return head, timeline
    if not is_decision_unfinished(env, decision, timeline):
        create_cancels(env, decision, timeline)
        return head, timeline
    try:
        if _is_void(env, timeline_paths, decision, timeline):
            return head, timeline
        log.warning("finishing number=%d kind=%s path=%s", *describe_decision(decision))
        is_made = apply_decision(env, decision)
    except ObjectNotFound:  # staged, and finished meanwhile
        return load_head_and_timeline(env, timeline_paths)
    if is_made and decision.kind is DecisionKind.COMPLETE:
        _withdraw_if_void(env, timeline_paths, head, decision)
    timeline = load_timeline(env, timeline_paths)
    create_cancels(env, decision, timeline)
    return head, timeline


def _is_void(
    env: Env, timeline_paths: TimelinePaths, decision: Decision, timeline: Timeline
) -> bool:
    """Whether an engine that knows no head rolls the instant back, or has overtaken it.

    Rollbacks that go through the head were seen by whoever took the decision.
    """
    if decision.kind is not DecisionKind.COMPLETE:
        return False
    later = (other for other in timeline.pending if other.requested_time > decision.instant)
    if decision.instant in load_rollback_targets(env, timeline_paths, later):
        return True
    completed_instant = parse_instant(
        decision.path.rpartition("/")[2], layout=timeline_paths.layout
    )
    assert completed_instant is not None
    with add_error_source(decision.path):
        data = read_content(env.storage, decision)
        metadata = codec.decode(data, completed_instant.action, State.COMPLETED)
    assert metadata is not None
    overtaker = find_overtaker(
        env, timeline_paths, completed_instant.completion_or_requested_time, metadata, timeline
    )
    if overtaker is not None:
        log.warning(
            "void number=%d kind=%s path=%s overtaken_by=%s",
            *describe_decision(decision),
            overtaker,
        )
    return overtaker is not None


def _withdraw_if_void(
    env: Env, timeline_paths: TimelinePaths, head: Head, decision: Decision
) -> None:
    """Take away what was finished for another, if the table had gone on without it.

    Whoever decides next finishes this decision, or finds it void. So if the head has moved, and
    the instant was rolled back or overtaken, its completed file came too late.
    """
    if read_head(env).etag == head.etag:
        return
    is_gone = decision.needs is not None and not env.storage.exists(decision.needs)
    if is_gone or _is_void(env, timeline_paths, decision, load_timeline(env, timeline_paths)):
        log.error("withdrawn number=%d kind=%s path=%s", *describe_decision(decision))
        delete_surely(env, decision.path)
