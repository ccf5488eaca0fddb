"""Claims: one file per instant whose creation decides how the instant ends.

A completed file's name contains its completion time, so creating it cannot stop a second
completion under another name; and a rollback must not delete files that a commit is about to
publish. Whoever wants to end an instant claims it first, and put-if-absent lets one through,
even when the table's lock is broken.
"""

from __future__ import annotations

from dataclasses import dataclass

from hoodoo.concurrency.liveness import store_time_ms
from hoodoo.env import Env
from hoodoo.errors import AlreadyExists, NotFound, PreconditionFailed, naming
from hoodoo.format import json_object
from hoodoo.model import paths
from hoodoo.model.attempt import Claim, Ending
from hoodoo.model.instant import InstantTime
from hoodoo.timeline.settled import create_settled, replace_settled


@dataclass(frozen=True, slots=True)
class Claimed:
    """A claim as it is on storage."""

    claim: Claim
    etag: str
    modified_ms: int


def read_claim(env: Env, instant: InstantTime) -> Claimed | None:
    """Who claimed an instant, if anyone did."""
    path = paths.claim(instant)
    try:
        info = env.storage.stat(path)
        data = env.storage.read(path)
    except NotFound:
        return None
    with naming(path):
        return Claimed(json_object.decode(data, Claim), info.etag, info.modified_ms)


def claim_commit(env: Env, instant: InstantTime, claim: Claim, *, expiry_ms: int) -> Claim | None:
    """Claim an instant for its commit; if another's claim stands, that one.

    Needs: a transaction, in which the instant was found pending and this attempt its owner.
    Order: claim file, put-if-absent; that of a dead attempt before is replaced by condition.
    Crash: a claim without a completed file; rollback, or the next epoch, replaces it.
    """
    assert claim.ending is Ending.COMMIT
    path, data = paths.claim(instant), json_object.encode(claim)
    try:
        create_settled(env, path, data)
    except AlreadyExists:
        pass
    else:
        return None
    present = read_claim(env, instant)
    if present is None:
        raise AlreadyExists(path, "was claimed, and is not any more")
    is_commit = present.claim.ending is Ending.COMMIT
    if not is_commit or not is_too_old_to_follow(env, present, expiry_ms):
        return present.claim
    try:
        replace_settled(env, path, data, if_match=present.etag)
    except PreconditionFailed:
        return present.claim
    return None


def is_too_old_to_follow(env: Env, claimed: Claimed, expiry_ms: int) -> bool:
    """Whether no completed file can follow this commit's claim any more: its owner would be dead.

    Its owner publishes at once after claiming, so what was sent has long landed, or never will.
    """
    return store_time_ms(env) - claimed.modified_ms > expiry_ms


def claim_rollback(
    env: Env, instant: InstantTime, claim: Claim, *, instead_of: Claimed | None
) -> bool:
    """Claim an instant for its rollback, in place of a dead owner's claim; False if another won.

    Needs: a transaction, in which the owner of `instead_of` was found dead and the instant
    pending.
    Order: claim file, put-if-absent, or replaced by condition.
    Crash: the instant can no longer be committed; the next recover rolls it back.
    """
    assert claim.ending is Ending.ROLLBACK
    path, data = paths.claim(instant), json_object.encode(claim)
    try:
        if instead_of is None:
            create_settled(env, path, data)
        else:
            replace_settled(env, path, data, if_match=instead_of.etag)
    except (AlreadyExists, PreconditionFailed):
        return False
    return True
