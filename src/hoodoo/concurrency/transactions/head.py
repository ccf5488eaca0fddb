"""The head on storage: read with its version, and replaced by condition.

One object per table decides. A decision is taken when a conditional replace of the head lands;
whoever read the head before that, and then was paused for however long, cannot decide any more.
"""

from __future__ import annotations

import base64
import hashlib
import logging
from dataclasses import replace

from hoodoo.errors import (
    FormatError,
    HeadMoved,
    ObjectExists,
    ObjectNotFound,
    OutcomeUnknown,
    PreconditionFailed,
    StorageError,
    add_error_source,
)
from hoodoo.format import json_files
from hoodoo.model import paths
from hoodoo.model.coordination import Decision, DecisionKind, Head
from hoodoo.model.instant import InstantTime
from hoodoo.runtime.env import Env
from hoodoo.storage.storage import Storage

log = logging.getLogger("hoodoo.concurrency")

INLINE_BYTES = 64 * 1024
"""Larger contents are staged: everyone who decides reads the head."""

_ATTEMPTS = 5
_PAUSE_S = 0.2


def read_head(env: Env) -> Head:
    """The head as it is now."""
    try:
        version = env.storage.read_version(paths.HEAD)
    except ObjectNotFound:
        return Head()
    with add_error_source(paths.HEAD):
        return Head(json_files.decode(version.data, Decision), version.etag)


def prepare_decision(
    env: Env,
    head: Head,
    kind: DecisionKind,
    instant_time: InstantTime,
    path: str,
    data: bytes,
    *,
    owner: str,
    latest: InstantTime,
    needs: str | None = None,
    cancels: tuple[InstantTime, ...] = (),
) -> Decision:
    """The decision that is to follow this head; a large content is staged.

    Crash: a staged object that no head names; sweep takes it.
    """
    decision = Decision(
        number=head.number + 1,
        kind=kind,
        instant=instant_time,
        owner=owner,
        path=path,
        latest=max(filter(None, (head.latest, latest))),
        needs=needs,
        sha256=hashlib.sha256(data).hexdigest(),
        cancels=cancels,
    )
    if len(data) <= INLINE_BYTES:
        return replace(decision, content=base64.b64encode(data).decode())
    staged_path = paths.staged_content_path(instant_time, owner)
    env.storage.put(staged_path, data)
    return replace(decision, staged=staged_path)


def read_content(storage: Storage, decision: Decision) -> bytes:
    """What the file of a decision is to hold. Raises `ObjectNotFound` if it was staged, and is
    gone.
    """
    with add_error_source(paths.HEAD):
        if decision.staged is not None:
            data = storage.read(decision.staged)
        else:
            data = base64.b64decode(decision.content or "")
        if hashlib.sha256(data).hexdigest() != decision.sha256:
            raise FormatError(f"the content of decision {decision.number} is damaged")
    return data


def drop_staged(env: Env, decision: Decision) -> None:
    """Remove the staged content of a decision that is carried out; what stays is swept."""
    if decision.staged is None:
        return
    try:
        env.storage.delete(decision.staged)
    except StorageError as error:
        log.warning("staged_left path=%s error=%s", decision.staged, error)


def replace_head(env: Env, head: Head, decision: Decision, *, within_s: float) -> Head:
    """Put a decision in the place of the one that it was made on; the new head.

    Raises `HeadMoved` if someone else has decided: then this decision never lands, or it has
    landed and was finished by whoever came next, as the timeline tells. Raises `OutcomeUnknown`
    once a request was sent whose fate is not known: it may have landed, and may still land. Any
    other error is raised before anything can have landed.
    """
    data, is_sent = json_files.encode(decision), False
    until = env.clock.monotonic() + within_s
    try:
        for attempt in range(_ATTEMPTS):
            if attempt:
                env.clock.sleep(_PAUSE_S * attempt)
            left_s = until - env.clock.monotonic()
            if attempt and left_s <= 0:
                break
            try:
                return Head(decision, _send(env, head, data, within_s=left_s))
            except (PreconditionFailed, ObjectExists):
                if not is_sent:
                    raise HeadMoved(decision.number, may_have_landed=False) from None
            except OutcomeUnknown:
                is_sent = True
            latest_head = _read_after_loss(env)
            if latest_head is None:
                continue
            if latest_head.decision == decision:
                return latest_head
            if latest_head.etag != head.etag:
                raise HeadMoved(decision.number, may_have_landed=True)
    except KeyboardInterrupt as error:  # it may have come while a request was under way
        raise OutcomeUnknown(paths.HEAD, "interrupted; it may have landed") from error
    except (StorageError, FormatError) as error:
        if not is_sent or isinstance(error, OutcomeUnknown):
            raise
        raise OutcomeUnknown(paths.HEAD, f"no answer, and then {error}") from error
    raise OutcomeUnknown(paths.HEAD)


def _send(env: Env, head: Head, data: bytes, *, within_s: float) -> str:
    if head.etag is None:
        return env.storage.create(paths.HEAD, data, within_s=within_s).etag
    return env.storage.replace(paths.HEAD, data, if_match=head.etag, within_s=within_s).etag


def _read_after_loss(env: Env) -> Head | None:
    """The head, after a request that got no answer; None if the store does not tell now."""
    try:
        return read_head(env)
    except StorageError:
        return None
