"""Rollback: scheduled inside one transaction, carried out outside the lock, by anyone, any number
of times.

The claim comes first: from then on the instant cannot be committed, whatever its writer does, so
its files may go. A file that is missing already is a success.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace

from hoodoo.concurrency.claims import (
    Claimed,
    claim_rollback,
    is_too_old_to_follow,
    read_claim,
)
from hoodoo.concurrency.gate import Attempt, publish
from hoodoo.concurrency.heartbeat import open_instant
from hoodoo.concurrency.markers import delete_markers
from hoodoo.concurrency.transaction import transaction
from hoodoo.errors import AlreadyCommitted, FormatError
from hoodoo.format import json_object
from hoodoo.model import paths
from hoodoo.model.attempt import Beat, Claim, Ending, Leftovers
from hoodoo.model.commit import InstantInfo, RollbackMetadata, RollbackPartitionMetadata
from hoodoo.model.instant import Action, Instant, InstantTime, State
from hoodoo.model.names import FileId
from hoodoo.model.paths import PartitionPath, join
from hoodoo.model.plan import RollbackPlan, RollbackRequest
from hoodoo.recovery.files import (
    announced,
    delete_files,
    partition_of,
    partitions_of,
    present,
    whole_path,
)
from hoodoo.table.ref import TableRef
from hoodoo.timeline import transitions
from hoodoo.timeline.load import instant_path, read_plan
from hoodoo.timeline.settled import delete_settled
from hoodoo.timeline.txn import Txn

log = logging.getLogger("hoodoo.recovery")


@dataclass(frozen=True, slots=True)
class RolledBack:
    """A rollback that is done."""

    rollback: InstantTime
    instant: InstantTime
    action: str
    files: tuple[str, ...]
    """Paths of the data files that it deleted."""
    is_finished: bool = False
    """Someone else had begun with it."""
    reason: str = ""
    """Why it had to be."""


def schedule(
    txn: Txn,
    ref: TableRef,
    instant: Instant,
    *,
    expiry_ms: int,
    own: Beat | None = None,
    after: InstantTime | None = None,
) -> Attempt | None:
    """Claim a pending instant for rollback and begin that; None if its commit may still land.

    Needs: a Txn, in which the writer of `instant` was found dead, or is this process (`own`).
    Order: rollback's heartbeat; lock confirmed; claim; requested file; inflight file.
    Crash: before the claim a heartbeat is left; after it nobody can commit the instant, and the
    next recover rolls it back; after the requested file anyone may carry the rollback on.
    """
    env, time = ref.env, instant.requested_time
    claimed = read_claim(env, time)
    if claimed is not None and not _is_void(ref, claimed, own, expiry_ms):
        return None
    plan = RollbackPlan(
        instant_to_rollback=InstantInfo(commit_time=time, action=instant.action.value),
        rollback_requests=tuple(_request(ref, path) for path in sorted(announced(env, time))),
    )
    rollback, heartbeat = open_instant(txn, ref, kind="rollback", after=after)
    try:
        beat = heartbeat.attempt
        claim = Claim(beat.owner, beat.epoch, Ending.ROLLBACK, by=rollback)
        txn.fence.confirm()
        if not claim_rollback(env, time, claim, instead_of=claimed):
            heartbeat.end()
            return None
        requested = transitions.request(txn, rollback, Action.ROLLBACK, plan)
        return Attempt(transitions.start(txn, requested), heartbeat)
    except BaseException:
        heartbeat.stop()
        raise


def _is_void(ref: TableRef, claimed: Claimed, own: Beat | None, expiry_ms: int) -> bool:
    """Whether a claim found on an instant that is to be rolled back may be replaced.

    The claim of a rollback that is not on the timeline: it died before it began. A commit's: if
    it is our own, and failed; or if it is so old that no completed file can follow any more.
    """
    claim = claimed.claim
    if claim.ending is Ending.ROLLBACK:
        return True
    if own is not None and (claim.owner, claim.epoch) == (own.owner, own.epoch):
        return True
    return is_too_old_to_follow(ref.env, claimed, expiry_ms)


def _request(ref: TableRef, path: str) -> RollbackRequest:
    """One request per file, as Apache Hudi makes them from markers."""
    return RollbackRequest(
        partition_path=partition_of(path),
        file_id=FileId(""),
        latest_base_instant="",
        files_to_be_deleted=(whole_path(ref, path),),
        log_blocks_to_be_deleted={},
    )


def carry_out(ref: TableRef, attempt: Attempt, *, keep_plan: bool = False) -> RolledBack:
    """Carry a scheduled rollback out, from wherever someone left it.

    Order: planned and announced files deleted; partitions listed, and what appeared meanwhile
    deleted; note for later sweeps; then, in a transaction, through the gate: the instant's
    inflight and requested files deleted, completed rollback; markers; heartbeats.
    Crash: the rollback is pending, or done with leftovers; anyone may repeat all of it.
    """
    env, done = ref.env, _carry_out(ref, attempt, keep_plan=keep_plan)
    delete_markers(env, done.instant)
    delete_settled(env, paths.heartbeat(done.instant))
    attempt.heartbeat.end()
    log.info("rolled_back time=%s by=%s files=%d", done.instant, done.rollback, len(done.files))
    return done


def _carry_out(ref: TableRef, attempt: Attempt, *, keep_plan: bool) -> RolledBack:
    env, rollback = ref.env, attempt.instant.requested_time
    started = env.clock.monotonic()
    plan = _read_plan(ref, attempt.instant)
    target = _target(ref, plan)
    planned = _planned_files(plan)
    deleted = delete_files(env, planned | announced(env, target.requested_time))
    partitions = partitions_of(ref, target, deleted)
    deleted |= delete_files(env, present(env, target.requested_time, sorted(partitions)))
    _note_leftovers(ref, target.requested_time, partitions)

    def settle() -> RollbackMetadata:
        transitions.remove(txn, target, keep_plan=keep_plan)
        took_ms = int((env.clock.monotonic() - started) * 1000)
        return _metadata(ref, rollback, target, deleted, took_ms)

    with transaction(ref, "rollback") as txn:
        found = txn.timeline.find(target.requested_time)
        if found is not None and found.is_completed:
            raise AlreadyCommitted(f"instant {target.requested_time} is completed")
        publish(txn, attempt, settle)
    return RolledBack(rollback, target.requested_time, target.action.value, tuple(sorted(deleted)))


def _read_plan(ref: TableRef, rollback: Instant) -> RollbackPlan:
    plan = read_plan(ref.env, ref.properties.timeline, rollback)
    if not isinstance(plan, RollbackPlan) or plan.instant_to_rollback is None:
        source = instant_path(ref.properties.timeline, replace(rollback, state=State.REQUESTED))
        raise FormatError("no instant to roll back in it", source=source)
    return plan


def _target(ref: TableRef, plan: RollbackPlan) -> Instant:
    """The instant to roll back as it is now, or as it was if it is gone already."""
    info = plan.instant_to_rollback
    assert info is not None
    time = InstantTime(info.commit_time)
    found = ref.load_timeline().find(time)
    return found or Instant(time, Action(info.action), State.REQUESTED)


def _planned_files(plan: RollbackPlan) -> frozenset[str]:
    """Paths in the table; plans name whole paths, which change when a table is moved."""
    return frozenset(
        join(request.partition_path, whole.rpartition("/")[2])
        for request in plan.rollback_requests
        for whole in request.files_to_be_deleted
    )


def _note_leftovers(
    ref: TableRef, instant: InstantTime, partitions: Iterable[PartitionPath]
) -> None:
    """Tasks of a writer that was only cut off may still make files there."""
    note = Leftovers(instant, tuple(sorted(partitions)), rounds=0)
    ref.env.storage.put(paths.leftovers(instant), json_object.encode(note))


def _metadata(
    ref: TableRef, rollback: InstantTime, target: Instant, deleted: Iterable[str], took_ms: int
) -> RollbackMetadata:
    by_partition: dict[PartitionPath, list[str]] = {}
    for path in sorted(deleted):
        by_partition.setdefault(partition_of(path), []).append(whole_path(ref, path))
    info = InstantInfo(commit_time=target.requested_time, action=target.action.value)
    return RollbackMetadata(
        start_rollback_time=rollback,
        time_taken_in_millis=took_ms,
        total_files_deleted=sum(map(len, by_partition.values())),
        commits_rollback=(target.requested_time,),
        partition_metadata={
            partition: RollbackPartitionMetadata(
                partition_path=partition,
                success_delete_files=tuple(files),
                rollback_log_files={},
                log_files_from_failed_commit={},
            )
            for partition, files in by_partition.items()
        },
        instants_rollback=(info,),
    )
