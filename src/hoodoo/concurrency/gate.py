"""The commit gate: the only way to complete an instant.

Inside the lock it reads again all that it depends on, and publishes last. Each check names the
way in which an attempt can have lost its right to publish; any failure leaves nothing visible.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from hoodoo.concurrency.claims import claim_commit, read_claim
from hoodoo.concurrency.heartbeat import Heartbeat
from hoodoo.errors import (
    AlreadyExists,
    Cancelled,
    CommitFailed,
    CommitUnknown,
    FormatError,
    HeartbeatLost,
    IllegalTransition,
    LeaseLost,
    OutcomeUnknown,
    StorageError,
)
from hoodoo.format.timeline import Metadata
from hoodoo.model import paths
from hoodoo.model.attempt import Claim, Ending
from hoodoo.model.instant import Instant
from hoodoo.model.names import instant_name
from hoodoo.timeline import transitions
from hoodoo.timeline.load import instant_path, load_rollback_targets
from hoodoo.timeline.settled import delete_settled
from hoodoo.timeline.txn import Txn

log = logging.getLogger("hoodoo.concurrency")


@dataclass(frozen=True)
class Attempt:
    """An instant in the state that its owner left it in, and the owner's heartbeat."""

    instant: Instant
    heartbeat: Heartbeat


def publish(txn: Txn, attempt: Attempt, settle: Callable[[], Metadata]) -> Instant:
    """Complete an instant, or leave nothing visible.

    Needs: a Txn. `settle` makes the checks that depend on what is published (conflicts, metadata
    table), and returns the metadata to publish.
    Order: state; heartbeat; rollbacks; cancel request; settle; lock confirmed; claim; completed
    file; lock looked at.
    Crash: before the claim nothing happened; after it, until the completed file, the instant is
    pending and its claim is replaced by the rollback; after that it is committed.
    """
    env, instant, heartbeat = txn.env, attempt.instant, attempt.heartbeat
    completed = _pending(txn, instant)
    heartbeat.confirm()
    _refuse_rolled_back(txn, instant)
    if env.storage.exists(paths.cancel(instant.requested_time)):
        raise Cancelled(f"instant {instant.requested_time} was cancelled")
    metadata = settle()
    txn.fence.confirm()
    claim = _claim(txn, attempt, completed)

    def refuse_late() -> None:
        txn.fence.check()
        heartbeat.check()

    refuse_late()
    try:
        transitions.complete(txn, completed, metadata, before_retry=refuse_late)
        _refuse_fenced(txn, instant, completed, claim)
    except OutcomeUnknown as error:
        raise CommitUnknown(
            f"the store does not tell whether instant {instant.requested_time} was committed "
            f"({error}); look at the timeline before doing it again"
        ) from error
    return completed


def _pending(txn: Txn, instant: Instant) -> Instant:
    try:
        return transitions.completion(txn, instant)
    except IllegalTransition as error:
        raise HeartbeatLost(f"{error}: it was rolled back meanwhile") from None


def _refuse_rolled_back(txn: Txn, instant: Instant) -> None:
    """Completed rollbacks took their target off the timeline; pending ones still have it there."""
    time = instant.requested_time
    later = (other for other in txn.timeline.pending if other.requested_time > time)
    rollback = load_rollback_targets(txn.env, txn.paths, later).get(time)
    if rollback is not None:
        raise HeartbeatLost(f"instant {time} is being rolled back by {rollback}")


def _claim(txn: Txn, attempt: Attempt, completed: Instant) -> Claim:
    beat, time = attempt.heartbeat.attempt, attempt.instant.requested_time
    name = instant_name(completed, layout=txn.paths.layout)
    claim = Claim(beat.owner, beat.epoch, Ending.COMMIT, by=name)
    try:
        winner = claim_commit(txn.env, time, claim, expiry_ms=beat.expiry_ms)
    except (
        OutcomeUnknown,
        AlreadyExists,
    ) as error:  # it may have landed, but nothing is published under it
        raise CommitFailed(f"instant {time} could not be claimed: {error}") from error
    if winner is not None:
        raise HeartbeatLost(f"instant {time} is claimed: {winner.ending.value} {winner.by}")
    return claim


def _refuse_fenced(txn: Txn, instant: Instant, completed: Instant, claim: Claim) -> None:
    """Take back what landed after others had claimed the instant to roll it back.

    No store can be told to refuse a plain create that comes too late, so whoever lost the lock
    looks at its claim once more. Other writers need no look: they do not commit over a claim.
    """
    env, time = txn.env, completed.requested_time
    try:
        if txn.fence.is_unbroken() or _is_claim_ours(txn, instant, claim):
            return
    except (StorageError, FormatError) as error:  # it was published in time, as far as we know
        log.warning("unverified time=%s error=%s", time, error)
        return
    log.error("taken_back time=%s", time)
    delete_settled(env, instant_path(txn.paths, completed))
    raise LeaseLost(f"instant {time} was rolled back while it was published: the lock was lost")


def _is_claim_ours(txn: Txn, instant: Instant, claim: Claim) -> bool:
    """Whether it is, or was until it was swept, because the instant had ended as we claimed.

    A rollback takes the inflight file away before its claim can be swept.
    """
    claimed = read_claim(txn.env, instant.requested_time)
    if claimed is not None:
        return claimed.claim == claim
    return txn.env.storage.exists(instant_path(txn.paths, instant))
