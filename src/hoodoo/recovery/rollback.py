"""Rollback: decided inside one transaction, carried out outside the lock, by anyone, any number
of times.

The decision comes first: once a rollback of it is on the timeline, the instant cannot be committed,
whatever its writer does, so its files may go. A file that is missing already is a success.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

from hoodoo.concurrency.gate import Attempt, publish, request
from hoodoo.concurrency.heartbeat import Heartbeat, open_instant, take_over
from hoodoo.concurrency.markers import delete_markers
from hoodoo.concurrency.removal import withdraw
from hoodoo.concurrency.transaction import transaction
from hoodoo.errors import AlreadyCommitted, FormatError, TimelineError
from hoodoo.format import json_object
from hoodoo.format import timeline as codec
from hoodoo.metadata.delta_commits import roll_back_delta_commit
from hoodoo.metadata.metadata_table import load_metadata_properties
from hoodoo.metadata.recorder import recorded_partitions
from hoodoo.model import paths
from hoodoo.model.attempt import Leftovers
from hoodoo.model.commit import InstantInfo, RollbackMetadata
from hoodoo.model.instant import Action, Instant, InstantTime, State
from hoodoo.model.names import FileId
from hoodoo.model.paths import PartitionPath, join
from hoodoo.model.plan import RollbackPlan, RollbackRequest
from hoodoo.recovery.ending import Ending, drop_cancel, end_target, load_plan_facts
from hoodoo.recovery.files import (
    find_files,
    find_partitions,
    load_announced_paths,
    partition_of,
    whole_path,
)
from hoodoo.table.ref import TableRef
from hoodoo.table.strays import delete_files
from hoodoo.table.writable import reopen_for_writing
from hoodoo.timeline import transitions
from hoodoo.timeline.load import instant_path, load_rollback_targets, read_plan
from hoodoo.timeline.resolve_unknown import delete_surely
from hoodoo.timeline.timeline import Timeline
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
    is_dropped: bool = False
    """It was taken off the timeline, because what it was about stands."""
    reason: str = ""
    """Why it had to be."""
    ending: Ending = Ending.REMOVE
    """What is left of the instant."""


def schedule_rollback(txn: Txn, ref: TableRef, instant: Instant) -> Attempt:
    """Decide that a pending instant is rolled back, and begin with that.

    Needs: a Txn, in which the writer of `instant` was found dead, or is this process. Raises
    `TimelineError` if the instant moved, or was committed, before this was decided.
    Order: rollback's heartbeat; markers read; head; requested file; inflight file.
    Crash: before the head a heartbeat is left; after it nobody can commit the instant, and anyone
    may carry the rollback on.
    """
    time = instant.requested_time
    rollback, heartbeat = open_instant(txn, ref, kind="rollback")
    files = sorted(load_announced_paths(ref.env, time))
    plan = RollbackPlan(
        instant_to_rollback=InstantInfo(commit_time=time, action=instant.action.value),
        rollback_requests=tuple(_make_request(ref, path) for path in files),
    )

    def check() -> None:
        transitions.refuse_moved(txn, instant)
        other = load_rollback_targets(ref.env, txn.paths, txn.timeline.pending).get(time)
        if other is not None:
            raise TimelineError(f"instant {time} is already being rolled back by {other}")

    return _decide(txn, rollback, codec.encode(plan), heartbeat, check)


def resume_rollback(txn: Txn, ref: TableRef, rollback: Instant) -> Attempt:
    """Carry on with a rollback that someone else requested, and that nobody works on any more.

    An engine that knows no head may have requested it, so it is decided here first.

    Needs: a Txn, in which its executor was found dead. Raises `AlreadyCommitted` if what it is
    about is completed: nothing of that may be deleted.
    Order: rollback's heartbeat; head; inflight file.
    Crash: as `schedule_rollback`.
    """
    requested = replace(rollback, state=State.REQUESTED)
    data = ref.env.storage.read(instant_path(txn.paths, requested))

    def check() -> None:
        if txn.timeline.find(rollback.requested_time) != rollback:
            raise TimelineError(f"rollback {rollback.requested_time} changed meanwhile")
        refuse_completed(txn.timeline, _read_plan(ref, rollback))

    check()
    heartbeat = take_over(ref, rollback.requested_time, kind="rollback")
    return _decide(txn, rollback.requested_time, data, heartbeat, check, state=rollback.state)


def _decide(
    txn: Txn,
    rollback: InstantTime,
    plan: bytes,
    heartbeat: Heartbeat,
    check: Callable[[], None],
    *,
    state: State = State.REQUESTED,
) -> Attempt:
    def check_and_return_plan() -> tuple[InstantTime, bytes]:
        check()
        return rollback, plan

    attempt = Attempt(Instant(rollback, Action.ROLLBACK, state), heartbeat)
    try:
        requested = request(txn, Action.ROLLBACK, attempt.owner, check_and_return_plan)
        if state is State.REQUESTED:
            attempt = replace(attempt, instant=transitions.start(txn, requested))
    except TimelineError:
        heartbeat.end()
        raise
    except BaseException:
        heartbeat.stop()
        raise
    return attempt


def drop_moot(txn: Txn, ref: TableRef, rollback: Instant) -> RolledBack | None:
    """Take a pending rollback off the timeline if what it is about is completed, and stands.

    Needs: a Txn, in which its executor was found dead.
    Order: that of `removal.withdraw`; heartbeat.
    """
    plan, time = _read_plan(ref, rollback), rollback.requested_time
    try:
        refuse_completed(txn.timeline, plan)
    except AlreadyCommitted as error:
        reason = str(error)
    else:
        return None

    def check() -> None:
        with suppress(AlreadyCommitted):
            refuse_completed(txn.timeline, plan)
            raise TimelineError(f"the instant of rollback {time} is no longer completed")

    withdraw(txn, rollback, ref.env.ids.uuid(), check)
    delete_surely(ref.env, paths.heartbeat(time))
    return RolledBack(time, time, rollback.action.value, (), is_dropped=True, reason=reason)


def refuse_completed(timeline: Timeline, plan: RollbackPlan) -> None:
    """Fail if the instant that is to be rolled back is completed."""
    assert plan.instant_to_rollback is not None
    time = plan.instant_to_rollback.commit_time
    target = timeline.find(time)
    if target is not None and target.is_completed:
        raise AlreadyCommitted(f"instant {time} is completed: nothing of it is deleted")


def _make_request(ref: TableRef, path: str) -> RollbackRequest:
    """One request per file, as Apache Hudi makes them from markers."""
    return RollbackRequest(
        partition_path=partition_of(path),
        file_id=FileId(""),
        latest_base_instant="",
        files_to_be_deleted=(whole_path(ref, path),),
        log_blocks_to_be_deleted={},
    )


def carry_out_rollback(ref: TableRef, attempt: Attempt) -> RolledBack:
    """Carry a scheduled rollback out, from wherever someone left it.

    Order: timeline read; planned and announced files deleted; partitions listed, and what appeared
    meanwhile deleted; note for later sweeps; then, in a transaction, through the gate: undone in
    the metadata table; the instant ended (see `end_target`), completed rollback; markers; cancel
    request; heartbeats.
    Crash: the rollback is pending, or done with leftovers; anyone may repeat all of it.
    """
    env, done = ref.env, _undo_and_publish(ref, attempt)
    delete_markers(env, done.instant)
    if done.ending is Ending.ABORT:
        drop_cancel(ref, done.instant)
    if done.ending is not Ending.KEEP_PLAN:  # else the next attempt counts on from its epoch
        delete_surely(env, paths.heartbeat(done.instant))
    attempt.heartbeat.end()
    log.info(
        "rolled_back time=%s by=%s files=%d ending=%s",
        done.instant,
        done.rollback,
        len(done.files),
        done.ending.value,
    )
    return done


def _undo_and_publish(ref: TableRef, attempt: Attempt) -> RolledBack:
    env, rollback = ref.env, attempt.instant.requested_time
    started = env.clock.monotonic()
    plan = _read_plan(ref, attempt.instant)
    timeline = ref.load_timeline()
    refuse_completed(timeline, plan)
    target = _find_target(timeline, plan)
    planned = _planned_files(plan)
    deleted = delete_files(env, planned | load_announced_paths(env, target.requested_time))
    partitions = find_partitions(ref, target, deleted)
    deleted |= delete_files(env, find_files(env, target.requested_time, sorted(partitions)))
    _note_leftovers(ref, target.requested_time, partitions)

    endings: list[Ending] = []

    def prepare_metadata() -> RollbackMetadata:
        present = reopen_for_writing(ref)
        refuse_completed(txn.timeline, plan)
        _undo_in_metadata_table(txn, present, target.requested_time, rollback)
        facts = load_plan_facts(ref, target)
        endings.append(facts.ending)
        end_target(txn, target, facts, facts.ending, rollback)
        took_ms = int((env.clock.monotonic() - started) * 1000)
        return _make_metadata(ref, rollback, target, deleted, took_ms)

    with transaction(ref, "rollback") as txn:
        publish(txn, attempt, prepare_metadata)
    return RolledBack(
        rollback,
        target.requested_time,
        target.action.value,
        tuple(sorted(deleted)),
        ending=endings[-1],
    )


def _undo_in_metadata_table(
    txn: Txn, ref: TableRef, target: InstantTime, rollback: InstantTime
) -> None:
    """While the target is pending still: once it is gone, what it wrote there would count."""
    if recorded_partitions(ref.properties):
        where, root = load_metadata_properties(ref.env).timeline, whole_path(ref, "").rstrip("/")
        roll_back_delta_commit(txn, where, target, rollback=rollback, root=root)


def _read_plan(ref: TableRef, rollback: Instant) -> RollbackPlan:
    plan = read_plan(ref.env, ref.properties.timeline, rollback)
    if not isinstance(plan, RollbackPlan) or plan.instant_to_rollback is None:
        source = instant_path(ref.properties.timeline, replace(rollback, state=State.REQUESTED))
        raise FormatError("no instant to roll back in it", source=source)
    return plan


def _find_target(timeline: Timeline, plan: RollbackPlan) -> Instant:
    """The instant to roll back as it is now, or as it was if it is gone already."""
    info = plan.instant_to_rollback
    assert info is not None
    time = InstantTime(info.commit_time)
    target = timeline.find(time)
    return target or Instant(time, Action(info.action), State.REQUESTED)


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


def _make_metadata(
    ref: TableRef, rollback: InstantTime, target: Instant, deleted: Iterable[str], took_ms: int
) -> RollbackMetadata:
    by_partition: dict[PartitionPath, list[str]] = {}
    for path in sorted(deleted):
        by_partition.setdefault(partition_of(path), []).append(whole_path(ref, path))
    info = InstantInfo(commit_time=target.requested_time, action=target.action.value)
    return RollbackMetadata.of(rollback, info, by_partition, took_ms=took_ms)
