"""Carrying decisions out: by whoever took them, or by whoever finds them unfinished.

Any number of processes may do so, at any time: a file is created if it is absent, and then has
the bytes that the decision names.
"""

from __future__ import annotations

import logging
from contextlib import suppress

from hoodoo.concurrency.transactions.head import read_content
from hoodoo.errors import (
    FormatError,
    IllegalTransition,
    ObjectExists,
    ObjectNotFound,
    PreconditionFailed,
    add_error_source,
)
from hoodoo.format import json_files
from hoodoo.format import properties as properties_codec
from hoodoo.model import paths
from hoodoo.model.coordination import PROPERTIES_DECISION, CancelRequest, Decision, DecisionKind
from hoodoo.model.instant import InstantTime, State
from hoodoo.model.names import parse_instant
from hoodoo.runtime.env import Env
from hoodoo.runtime.lost_answers import create_once, delete_surely, replace_once
from hoodoo.table.timeline import Timeline

log = logging.getLogger("hoodoo.concurrency")


def apply_decision(env: Env, decision: Decision, *, within_s: float | None = None) -> bool:
    """Do what was decided; whether it had not been done before. No request is sent later.

    Order: the one file of the decision is created if absent, replaced by condition, or deleted.
    """
    match decision.kind:
        case DecisionKind.REMOVE:
            delete_surely(env, decision.path)
            return True
        case DecisionKind.PROPERTIES:
            return _replace_properties(env, decision)
        case DecisionKind.REQUEST | DecisionKind.COMPLETE | DecisionKind.CANCEL:
            return _create(env, decision, within_s)


def _create(env: Env, decision: Decision, within_s: float | None) -> bool:
    data = read_content(env.storage, decision)
    try:
        create_once(env, decision.path, data, within_s=within_s)
    except ObjectExists:
        if env.storage.read(decision.path) != data:
            raise IllegalTransition(f"{decision.path} exists with other content") from None
        return False
    log.info("carried_out number=%d kind=%s path=%s", *describe_decision(decision))
    return True


def is_decision_unfinished(env: Env, decision: Decision, timeline: Timeline) -> bool:
    """Whether a decision is to be carried out still, or was, and is not wanted any more."""
    decided_instant = parse_instant(decision.path.rpartition("/")[2], layout=2)
    instant = timeline.find(decision.instant, decided_instant.action if decided_instant else None)
    match decision.kind:
        case DecisionKind.REQUEST:
            is_archived = (
                timeline.oldest_active_write is not None
                and decision.instant < timeline.oldest_active_write
            )
            return instant is None and not is_archived
        case DecisionKind.COMPLETE:
            return instant is not None and instant.state is State.INFLIGHT
        case DecisionKind.REMOVE:
            return env.storage.exists(decision.path)
        case DecisionKind.CANCEL:
            is_pending = instant is not None and instant.is_pending
            return is_pending and not env.storage.exists(decision.path)
        case DecisionKind.PROPERTIES:
            return not _has_properties(env.storage.read(paths.PROPERTIES), decision)


def create_cancels(env: Env, decision: Decision, timeline: Timeline) -> None:
    """Create the cancel requests that come with a decision, once that is carried out.

    Only for plans that are pending still: the request of a plan that has ended is gone for good.
    Order: each cancel request, put-if-absent.
    """
    if not decision.cancels or timeline.find(decision.instant) is None:
        return
    for time in map(InstantTime, decision.cancels):
        plan = timeline.find(time)
        if plan is None or not plan.is_pending or env.storage.exists(paths.cancel_path(time)):
            continue
        data = json_files.encode(CancelRequest.give_way(decision.owner, decision.instant))
        with suppress(ObjectExists):
            create_once(env, paths.cancel_path(time), data)
        log.info("cancel_requested time=%s by=%s", time, decision.instant)


def _has_properties(data: bytes, decision: Decision) -> bool:
    with add_error_source(paths.PROPERTIES):
        number = properties_codec.parse(data).get(PROPERTIES_DECISION, "0")
    return number.isdigit() and int(number) >= decision.number


def _replace_properties(env: Env, decision: Decision) -> bool:
    """Whoever is faster has put the same bytes there, or those of a later decision."""
    data = read_content(env.storage, decision)
    while True:
        try:
            current = env.storage.read_version(paths.PROPERTIES)
        except ObjectNotFound:
            reason = "is gone; restore it from its backup"
            raise FormatError(reason, source=paths.PROPERTIES) from None
        if _has_properties(current.data, decision):
            return False
        try:
            replace_once(env, paths.PROPERTIES, data, if_match=current.etag)
        except PreconditionFailed:
            continue
        return True


def describe_decision(decision: Decision) -> tuple[int, str, str]:
    """What the log says of a decision: number, kind and path."""
    return decision.number, decision.kind.value, decision.path
