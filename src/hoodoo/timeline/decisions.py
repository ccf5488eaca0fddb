"""Carrying decisions out: by whoever took them, or by whoever finds them unfinished.

Any number of processes may do so, at any time: a file is created if it is absent, and then has
the bytes that the decision names.
"""

from __future__ import annotations

import logging

from hoodoo.env import Env
from hoodoo.errors import AlreadyExists, FormatError, IllegalTransition, NotFound
from hoodoo.format import properties as properties_codec
from hoodoo.model import paths
from hoodoo.model.decision import Decision, DecisionKind, Head
from hoodoo.model.instant import State
from hoodoo.model.paths import TimelinePaths
from hoodoo.timeline.head import content_of, read_head
from hoodoo.timeline.load import load_rollback_targets, load_timeline
from hoodoo.timeline.settled import create_settled, delete_settled, replace_settled
from hoodoo.timeline.timeline import Timeline

log = logging.getLogger("hoodoo.timeline")

PROPERTIES_DECISION = "hoodoo.properties.decision"
"""The property that tells which decision wrote `hoodie.properties`."""


def load_decided(env: Env, where: TimelinePaths) -> tuple[Head, Timeline]:
    """The head, and the timeline with everything on it that was decided up to that head.

    Needs: the table's lock, if engines that know no head may be at work.
    Order: head read; timeline listed; an unfinished decision carried out, and listed again.
    Crash: the decision stays unfinished; the next one who looks goes on.
    """
    head = read_head(env)
    timeline = load_timeline(env, where)
    decision = head.decision
    if decision is None or not _is_unfinished(env, where, decision, timeline):
        return head, timeline
    log.warning("finishing number=%d kind=%s path=%s", *_told(decision))
    try:
        is_made = carry_out(env, decision)
    except NotFound:  # staged, and finished meanwhile
        return load_decided(env, where)
    if is_made and decision.kind is DecisionKind.COMPLETE:
        _withdraw_if_void(env, where, head)
    return head, load_timeline(env, where)


def carry_out(env: Env, decision: Decision, *, within_s: float | None = None) -> bool:
    """Do what was decided; whether it had not been done before. No request is sent later.

    Order: the one file of the decision is created if absent, replaced by condition, or deleted.
    """
    match decision.kind:
        case DecisionKind.TAKE_BACK:
            delete_settled(env, decision.path)
            return True
        case DecisionKind.PROPERTIES:
            return _replace_properties(env, decision)
        case DecisionKind.REQUEST | DecisionKind.COMPLETE:
            return _create(env, decision, within_s)


def _create(env: Env, decision: Decision, within_s: float | None) -> bool:
    data = content_of(env.storage, decision)
    try:
        create_settled(env, decision.path, data, within_s=within_s)
    except AlreadyExists:
        if env.storage.read(decision.path) != data:
            raise IllegalTransition(f"{decision.path} is there, with another content") from None
        return False
    log.info("carried_out number=%d kind=%s path=%s", *_told(decision))
    return True


def _is_unfinished(env: Env, where: TimelinePaths, decision: Decision, timeline: Timeline) -> bool:
    """Whether a decision is to be carried out still.

    One about an instant that an engine which knows no head took off the timeline, or is about to
    roll back, is void: nobody was told that it holds.
    """
    found = timeline.find(decision.instant)
    match decision.kind:
        case DecisionKind.REQUEST:
            is_archived = timeline.start is not None and decision.instant < timeline.start
            return found is None and not is_archived
        case DecisionKind.COMPLETE:
            is_inflight = found is not None and found.state is State.INFLIGHT
            return is_inflight and not _is_rolled_back(env, where, decision, timeline)
        case DecisionKind.TAKE_BACK:
            return found is not None and found.is_completed
        case DecisionKind.PROPERTIES:
            return not _has_properties(env, decision)


def _is_rolled_back(env: Env, where: TimelinePaths, decision: Decision, timeline: Timeline) -> bool:
    """Whether a foreign rollback is about the instant.

    Others go through the head: whoever took this decision would have seen them.
    """
    later = (other for other in timeline.pending if other.requested_time > decision.instant)
    return decision.instant in load_rollback_targets(env, where, later)


def _withdraw_if_void(env: Env, where: TimelinePaths, head: Head) -> None:
    """Take away what was finished for another, if the table had gone on without it.

    Whoever decides next finishes this decision, or finds it void. So if the head has moved, and
    the instant was rolled back, its completed file came too late.
    """
    decision = head.decision
    assert decision is not None
    if read_head(env).etag == head.etag:
        return
    is_void = decision.needs is not None and not env.storage.exists(decision.needs)
    if is_void or _is_rolled_back(env, where, decision, load_timeline(env, where)):
        log.error("withdrawn number=%d kind=%s path=%s", *_told(decision))
        delete_settled(env, decision.path)


def _has_properties(env: Env, decision: Decision) -> bool:
    try:
        raw = properties_codec.parse(env.storage.read(paths.PROPERTIES))
    except NotFound:
        return False
    number = raw.get(PROPERTIES_DECISION, "0")
    return number.isdigit() and int(number) >= decision.number


def _replace_properties(env: Env, decision: Decision) -> bool:
    if _has_properties(env, decision):
        return False
    data = content_of(env.storage, decision)
    try:
        etag = env.storage.stat(paths.PROPERTIES).etag
    except NotFound:
        raise FormatError("is gone; restore it from its backup", source=paths.PROPERTIES) from None
    replace_settled(env, paths.PROPERTIES, data, if_match=etag)
    return True


def _told(decision: Decision) -> tuple[int, str, str]:
    return decision.number, decision.kind.value, decision.path
