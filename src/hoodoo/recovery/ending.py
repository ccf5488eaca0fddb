"""How a rolled back instant leaves the timeline: a write goes, a plan may stay or be aborted."""

from __future__ import annotations

import base64
import logging
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum

from hoodoo.errors import AlreadyExists, FormatError, NotFound
from hoodoo.format import json_object
from hoodoo.format import timeline as codec
from hoodoo.model import paths
from hoodoo.model.attempt import AbortedPlan, CancelRequest
from hoodoo.model.instant import Action, Instant, InstantTime, State
from hoodoo.model.plan import CompactionPlan, RequestedReplaceMetadata
from hoodoo.model.plan_terms import PlanTerms, read_terms
from hoodoo.table.ref import TableRef
from hoodoo.timeline import transitions
from hoodoo.timeline.load import instant_path
from hoodoo.timeline.resolve_unknown import create_once, delete_surely
from hoodoo.timeline.txn import Txn

log = logging.getLogger("hoodoo.recovery")

REWRITES = frozenset(
    {Action.COMPACTION, Action.LOG_COMPACTION, Action.CLUSTERING, Action.REPLACE_COMMIT}
)
"""Actions whose requested file may hold a plan: older writers cluster by replace commits."""


class Ending(Enum):
    """What a rollback leaves of its target."""

    REMOVE = "remove"
    """Nothing: a write, or a plan that is not tried again."""
    KEEP_PLAN = "keep the plan"
    """The plan of a persistent table service, for its next executor."""
    ABORT = "abort"
    """A record and a tombstone: the plan was cancelled."""


@dataclass(frozen=True, slots=True)
class PlanFacts:
    """A plan as it is on storage, and whether its end was requested."""

    terms: PlanTerms | None
    """None for an instant that is no plan of a table service, or not any more."""
    data: bytes
    cancel: CancelRequest | None
    is_recorded: bool = False
    """It has an aborted record already."""

    @property
    def ending(self) -> Ending:
        """What a rollback leaves of it."""
        if self.cancel is not None or self.is_recorded:
            return Ending.ABORT
        if self.terms is not None and self.terms.is_persistent:
            return Ending.KEEP_PLAN
        return Ending.REMOVE


NO_PLAN = PlanFacts(None, b"", None)


def load_plan_facts(ref: TableRef, instant: Instant) -> PlanFacts:
    """What decides how an instant ends.

    Order: cancel request; aborted record; requested file.
    """
    if instant.action not in REWRITES:
        return NO_PLAN
    env, time = ref.env, instant.requested_time
    cancel = read_cancel(ref, time)
    is_recorded = env.storage.exists(paths.aborted(time))
    requested = replace(instant, state=State.REQUESTED)
    path = instant_path(ref.properties.timeline, requested)
    try:
        data = env.storage.read(path)
    except NotFound:
        return PlanFacts(None, b"", cancel, is_recorded)
    return PlanFacts(_decode_terms(data, requested), data, cancel, is_recorded)


def read_cancel(ref: TableRef, instant: InstantTime) -> CancelRequest | None:
    """The request to cancel a plan, if there is one."""
    try:
        data = ref.env.storage.read(paths.cancel(instant))
    except NotFound:
        return None
    try:
        return json_object.decode(data, CancelRequest)
    except FormatError:
        return CancelRequest("unknown", "unknown")


def end_target(
    txn: Txn, target: Instant, facts: PlanFacts, ending: Ending, rollback: InstantTime
) -> None:
    """Take a rolled back instant off the timeline.

    Needs: a Txn, and a rollback of it on the timeline.
    Order: aborted record, if it was cancelled; inflight file; requested file, unless the plan
    stays; tombstone of a cancelled one.
    Crash: the rollback is still pending; whoever carries it on repeats all of this.
    """
    env, time = txn.env, target.requested_time
    if ending is Ending.ABORT and facts.data:
        record = AbortedPlan(
            time,
            target.action.value,
            rollback,
            facts.cancel.reason if facts.cancel else "",
            base64.b64encode(facts.data).decode(),
        )
        with suppress(AlreadyExists):
            create_once(env, paths.aborted(time), json_object.encode(record))
    transitions.remove(txn, target, keep_plan=ending is Ending.KEEP_PLAN)
    if ending is Ending.ABORT:
        tombstone = instant_path(txn.paths, replace(target, state=State.ABORTED))
        with suppress(AlreadyExists):
            create_once(env, tombstone, b"")
        log.info("aborted time=%s action=%s", time, target.action.value)


def drop_cancel(ref: TableRef, instant: InstantTime) -> None:
    """Remove the cancel request of a plan that has ended."""
    delete_surely(ref.env, paths.cancel(instant))


def _decode_terms(data: bytes, requested: Instant) -> PlanTerms | None:
    plan = codec.decode(data, requested.action, State.REQUESTED)
    match plan:
        case CompactionPlan():
            return read_terms(plan)
        case RequestedReplaceMetadata(clustering_plan=clustering) if clustering is not None:
            return read_terms(plan)
        case _:
            return None
