"""Taking part in the life of a plan: it is put on the timeline, owned by one attempt, and run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hoodoo.concurrency.gate import Attempt, request
from hoodoo.concurrency.heartbeat import Heartbeat, open_instant, take_over
from hoodoo.concurrency.liveness import read_pulse, store_time_ms
from hoodoo.concurrency.transaction import transaction
from hoodoo.errors import HeartbeatLost, TimelineError
from hoodoo.format import timeline as codec
from hoodoo.format.timeline import Metadata
from hoodoo.model.instant import Action, Instant, InstantTime, State
from hoodoo.table.ref import TableRef
from hoodoo.timeline import transitions
from hoodoo.timeline.txn import Txn


class Moot(TimelineError):
    """Somebody else came first: there is nothing left to plan."""


def begin(
    ref: TableRef, action: Action, make_plan: Callable[[Txn], Metadata | None]
) -> Attempt | None:
    """Put a plan on the timeline, and begin with it; None if there is nothing to do.

    `make_plan` makes all checks by the timeline of the Txn, each time that is read.
    Order: plan made; heartbeat; head; requested file; inflight file.
    Crash: a heartbeat is left, or a plan that anyone may take over.
    """
    kind = action.value
    with transaction(ref, kind) as txn:
        if make_plan(txn) is None:
            return None
        time, heartbeat = open_instant(txn, ref, kind=kind)

        def plan() -> tuple[InstantTime, bytes]:
            made = make_plan(txn)
            if made is None:
                raise Moot(f"{kind} {time} is not needed any more")
            return time, codec.encode(made)

        attempt = Attempt(Instant(time, action, State.REQUESTED), heartbeat)
        try:
            requested = request(txn, action, attempt.owner, plan)
            return replace(attempt, instant=transitions.start(txn, requested))
        except Moot:
            heartbeat.end()
            return None
        except TimelineError:
            heartbeat.end()
            raise
        except BaseException:
            heartbeat.stop()
            raise


def resume(ref: TableRef, instant: Instant) -> Attempt | None:
    """Own a pending plan that nobody is at work on; None if somebody is, or has ended it.

    Order: in a transaction: timeline; heartbeat looked at, then taken over; inflight file.
    Crash: a heartbeat that ages.
    """
    with transaction(ref, instant.action.value) as txn:
        current = txn.timeline.find(instant.requested_time, instant.action)
        if current is None or not current.is_pending:
            return None
        heartbeat = _take(ref, current)
        if heartbeat is None:
            return None
        try:
            if current.state is State.REQUESTED:
                current = transitions.start(txn, current)
        except BaseException:
            heartbeat.stop()
            raise
        return Attempt(current, heartbeat)


def _take(ref: TableRef, instant: Instant) -> Heartbeat | None:
    pulse = read_pulse(ref, instant, store_time_ms(ref.env))
    if pulse is None:
        return None
    waits = instant.state is State.REQUESTED and not pulse.has_heartbeat
    if not pulse.is_dead and not waits:
        return None
    try:
        return take_over(ref, instant.requested_time, kind=instant.action.value)
    except HeartbeatLost:
        return None
