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
from hoodoo.model.instant import Action, Instant, State
from hoodoo.model.names import instant_name, parse_instant
from hoodoo.model.plan import RollbackPlan
from hoodoo.timeline import transitions
from hoodoo.timeline.load import instant_path, read_metadata
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
        _refuse_overtaken(txn, instant, completed, claim)
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
    for rollback in txn.timeline.pending:
        if rollback.action is Action.ROLLBACK and rollback.requested_time > time:
            plan = read_metadata(txn.env, txn.paths, _requested(rollback))
            if targets(plan, instant):
                raise HeartbeatLost(
                    f"instant {time} is being rolled back by {rollback.requested_time}"
                )


def targets(plan: Metadata | None, instant: Instant) -> bool:
    """Whether a rollback plan is about this instant."""
    return (
        isinstance(plan, RollbackPlan)
        and plan.instant_to_rollback is not None
        and plan.instant_to_rollback.commit_time == instant.requested_time
    )


def _requested(instant: Instant) -> Instant:
    return Instant(instant.requested_time, instant.action, State.REQUESTED)


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


def _refuse_overtaken(txn: Txn, instant: Instant, completed: Instant, claim: Claim) -> None:
    """Take back what landed after the lock had gone to others, and they had published.

    No store can be told to refuse a plain create that comes too late, so the last one to land
    looks around. If the lock is still ours, nobody can have acted. If not, and others landed
    before us, they did not know of us: our rows may be missing in what they merged. Or files of
    ours were deleted, if the claim is not ours any more. Nobody was told of our commit yet.
    """
    env, time = txn.env, completed.requested_time
    try:
        if txn.fence.is_unbroken():
            return
        others = _landed_before(txn, completed)
        is_ours = _is_claim_ours(txn, instant, claim)
    except (StorageError, FormatError) as error:  # it was published in time, as far as we know
        log.warning("unverified time=%s error=%s", time, error)
        return
    if others or not is_ours:
        log.error("taken_back time=%s others=%s", time, others)
        delete_settled(env, instant_path(txn.paths, completed))
        raise LeaseLost(f"instant {time} was overtaken while it was published: the lock was lost")


def _is_claim_ours(txn: Txn, instant: Instant, claim: Claim) -> bool:
    """Whether it is, or was until it was swept, because the instant had ended as we claimed.

    A rollback takes the inflight file away before its claim can be swept.
    """
    claimed = read_claim(txn.env, instant.requested_time)
    if claimed is not None:
        return claimed.claim == claim
    return txn.env.storage.exists(instant_path(txn.paths, instant))


def _landed_before(txn: Txn, completed: Instant) -> list[str]:
    """Instants that were completed since the transaction began, and before this one."""
    known = {instant.requested_time for instant in txn.timeline.completed}
    landed = {}
    for entry in txn.env.storage.list(txn.paths.active):
        instant = parse_instant(entry.path.rpartition("/")[2], layout=txn.paths.layout)
        if instant is not None and instant.is_completed and instant.requested_time not in known:
            landed[instant.requested_time] = entry.modified_ms
    ours_ms = landed.pop(completed.requested_time, 0)
    return [time for time, landed_ms in landed.items() if landed_ms <= ours_ms]
