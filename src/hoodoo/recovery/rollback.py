"""Rollback: decided inside one transaction, carried out outside the lock, any number of times.

The decision comes first: once a rollback of it is on the timeline, the instant cannot be committed,
whatever its writer does, so its files may go. A file that is missing already is a success. A crash
leaves a pending rollback, which any process may carry out.

At its end a rolled back write leaves the timeline; a plan may stay, or be aborted.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

from hoodoo.concurrency.heartbeats import Heartbeat, take_over
from hoodoo.concurrency.markers import delete_markers
from hoodoo.concurrency.transactions import instants
from hoodoo.concurrency.transactions.gate import Attempt, publish, request_plan, withdraw_rollback
from hoodoo.concurrency.transactions.instants import open_instant
from hoodoo.concurrency.transactions.transaction import Txn, transaction
from hoodoo.deprecated import find_by_old_name
from hoodoo.errors import AlreadyCommitted, FormatError, ObjectExists, ObjectNotFound, TimelineError
from hoodoo.format import json_files
from hoodoo.format.timeline import instant_files as codec
from hoodoo.metadata_table.delta_commits import roll_back_delta_commit
from hoodoo.metadata_table.recorder import partitions_to_update
from hoodoo.metadata_table.table import load_metadata_properties
from hoodoo.model import paths
from hoodoo.model.commit import InstantInfo, RollbackMetadata
from hoodoo.model.coordination import AbortedPlan, CancelRequest, SweepNote
from hoodoo.model.instant import ACTIONS_WITH_PLANS, Action, Instant, InstantTime, State
from hoodoo.model.names import FileId
from hoodoo.model.paths import PartitionPath, join
from hoodoo.model.plans import (
    CompactionPlan,
    PlanTerms,
    RequestedReplaceMetadata,
    RollbackPlan,
    RollbackRequest,
    read_terms,
)
from hoodoo.recovery.strays import (
    delete_files,
    find_files,
    find_partitions,
    load_announced_paths,
    partition_of,
    whole_path,
)
from hoodoo.runtime.lost_answers import create_once, delete_surely
from hoodoo.table.ref import TableRef
from hoodoo.table.timeline import Timeline, instant_path, load_rollback_targets, read_plan
from hoodoo.table.writable import reopen_for_writing

log = logging.getLogger("hoodoo.recovery")


# -- how an instant leaves the timeline ---------------------------------------------------------


class AfterRollback(Enum):
    """What a rollback leaves of its target."""

    REMOVE = "remove"
    """Nothing: a write, or a plan that is not tried again."""
    KEEP_PLAN = "keep the plan"
    """The plan of a persistent table service, for its next executor."""
    ABORT = "abort"
    """A record and a tombstone: the plan was cancelled."""


@dataclass(frozen=True, slots=True)
class PlanState:
    """A plan as it is on storage, and whether its end was requested."""

    terms: PlanTerms | None
    """None for an instant that is no plan of a table service, or not any more."""
    data: bytes
    cancel: CancelRequest | None
    is_recorded: bool = False
    """It has an aborted record already."""

    @property
    def ending(self) -> AfterRollback:
        """What a rollback leaves of it."""
        if self.cancel is not None or self.is_recorded:
            return AfterRollback.ABORT
        if self.terms is not None and self.terms.is_persistent:
            return AfterRollback.KEEP_PLAN
        return AfterRollback.REMOVE


NO_PLAN = PlanState(None, b"", None)


def load_plan_state(ref: TableRef, instant: Instant) -> PlanState:
    """What decides how an instant ends.

    Order: cancel request; aborted record; requested file.
    """
    if instant.action not in ACTIONS_WITH_PLANS:
        return NO_PLAN
    env, time = ref.env, instant.requested_time
    cancel = read_cancel(ref, time)
    is_recorded = env.storage.exists(paths.aborted_plan_path(time))
    requested_instant = replace(instant, state=State.REQUESTED)
    path = instant_path(ref.properties.timeline_paths, requested_instant)
    try:
        data = env.storage.read(path)
    except ObjectNotFound:
        return PlanState(None, b"", cancel, is_recorded)
    return PlanState(_decode_terms(data, requested_instant), data, cancel, is_recorded)


def read_cancel(ref: TableRef, instant_time: InstantTime) -> CancelRequest | None:
    """The request to cancel a plan, if there is one."""
    try:
        data = ref.env.storage.read(paths.cancel_path(instant_time))
    except ObjectNotFound:
        return None
    try:
        return json_files.decode(data, CancelRequest)
    except FormatError:
        return CancelRequest("unknown", "unknown")


def remove_target(
    txn: Txn, target: Instant, facts: PlanState, ending: AfterRollback, rollback: InstantTime
) -> None:
    """Take a rolled back instant off the timeline.

    Needs: a Txn, and a rollback of it on the timeline.
    Order: aborted record, if it was cancelled; inflight file; requested file, unless the plan
    stays; tombstone of a cancelled one.
    Crash: the rollback is still pending; whoever carries it on repeats all of this.
    """
    env, time = txn.env, target.requested_time
    if ending is AfterRollback.ABORT and facts.data:
        record = AbortedPlan(
            time,
            target.action.value,
            rollback,
            facts.cancel.reason if facts.cancel else "",
            base64.b64encode(facts.data).decode(),
            facts.cancel.cancelled_by if facts.cancel else None,
        )
        with suppress(ObjectExists):
            create_once(env, paths.aborted_plan_path(time), json_files.encode(record))
    instants.delete_pending_files(txn, target, keep_plan=ending is AfterRollback.KEEP_PLAN)
    if ending is AfterRollback.ABORT:
        tombstone = instant_path(txn.timeline_paths, replace(target, state=State.ABORTED))
        with suppress(ObjectExists):
            create_once(env, tombstone, b"")
        log.info("aborted time=%s action=%s", time, target.action.value)


def drop_cancel(ref: TableRef, instant_time: InstantTime) -> None:
    """Remove the cancel request of a plan that has ended."""
    delete_surely(ref.env, paths.cancel_path(instant_time))


def _decode_terms(data: bytes, requested_instant: Instant) -> PlanTerms | None:
    plan = codec.decode(data, requested_instant.action, State.REQUESTED)
    match plan:
        case CompactionPlan():
            return read_terms(plan)
        case RequestedReplaceMetadata(clustering_plan=clustering) if clustering is not None:
            return read_terms(plan)
        case _:
            return None


# -- scheduling and carrying out ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RollbackResult:
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
    ending: AfterRollback = AfterRollback.REMOVE
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
        instants.refuse_changed_state(txn, instant)
        other = load_rollback_targets(ref.env, txn.timeline_paths, txn.timeline.pending).get(time)
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
    requested_instant = replace(rollback, state=State.REQUESTED)
    data = ref.env.storage.read(instant_path(txn.timeline_paths, requested_instant))

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
        requested_instant = request_plan(txn, Action.ROLLBACK, attempt.owner, check_and_return_plan)
        if state is State.REQUESTED:
            attempt = replace(
                attempt, instant=instants.create_inflight_file(txn, requested_instant)
            )
    except TimelineError:
        heartbeat.end()
        raise
    except BaseException:
        heartbeat.stop()
        raise
    return attempt


def drop_moot(txn: Txn, ref: TableRef, rollback: Instant) -> RollbackResult | None:
    """Take a pending rollback off the timeline if what it is about is completed, and stands.

    Needs: a Txn, in which its executor was found dead.
    Order: that of `removal.withdraw_rollback`; heartbeat.
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

    withdraw_rollback(txn, rollback, ref.env.ids.uuid(), check)
    delete_surely(ref.env, paths.heartbeat(time))
    return RollbackResult(time, time, rollback.action.value, (), is_dropped=True, reason=reason)


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


def carry_out_rollback(ref: TableRef, attempt: Attempt) -> RollbackResult:
    """Carry a scheduled rollback out, from wherever someone left it.

    Order: timeline read; planned and announced files deleted; partitions listed, and what appeared
    meanwhile deleted; note for later sweeps; then, in a transaction, through the gate: undone in
    the metadata table; the instant ended (see `remove_target`), completed rollback; markers; cancel
    request; heartbeats.
    Crash: the rollback is pending, or done with leftovers; anyone may repeat all of it.
    """
    env, result = ref.env, _undo_and_publish(ref, attempt)
    delete_markers(env, result.instant)
    if result.ending is AfterRollback.ABORT:
        drop_cancel(ref, result.instant)
    if (
        result.ending is not AfterRollback.KEEP_PLAN
    ):  # else the next attempt counts on from its epoch
        delete_surely(env, paths.heartbeat(result.instant))
    attempt.heartbeat.end()
    log.info(
        "rolled_back time=%s by=%s files=%d ending=%s",
        result.instant,
        result.rollback,
        len(result.files),
        result.ending.value,
    )
    return result


def _undo_and_publish(ref: TableRef, attempt: Attempt) -> RollbackResult:
    env, rollback = ref.env, attempt.instant.requested_time
    start_time = env.clock.monotonic()
    plan = _read_plan(ref, attempt.instant)
    timeline = ref.load_timeline()
    refuse_completed(timeline, plan)
    target = _find_target(timeline, plan)
    planned_files = _planned_files(plan)
    deleted_files = delete_files(
        env, planned_files | load_announced_paths(env, target.requested_time)
    )
    partitions = find_partitions(ref, target, deleted_files)
    deleted_files |= delete_files(env, find_files(env, target.requested_time, sorted(partitions)))
    _note_leftovers(ref, target.requested_time, partitions)

    endings: list[AfterRollback] = []

    def prepare_metadata() -> RollbackMetadata:
        present = reopen_for_writing(ref)
        refuse_completed(txn.timeline, plan)
        _undo_in_metadata_table(txn, present, target.requested_time, rollback)
        facts = load_plan_state(ref, target)
        endings.append(facts.ending)
        remove_target(txn, target, facts, facts.ending, rollback)
        took_ms = int((env.clock.monotonic() - start_time) * 1000)
        return _make_metadata(ref, rollback, target, deleted_files, took_ms)

    with transaction(ref, "rollback") as txn:
        publish(txn, attempt, prepare_metadata)
    return RollbackResult(
        rollback,
        target.requested_time,
        target.action.value,
        tuple(sorted(deleted_files)),
        ending=endings[-1],
    )


def _undo_in_metadata_table(
    txn: Txn, ref: TableRef, target: InstantTime, rollback: InstantTime
) -> None:
    """While the target is pending still: once it is gone, what it wrote there would count."""
    if partitions_to_update(ref.properties):
        where, root = (
            load_metadata_properties(ref.env).timeline_paths,
            whole_path(ref, "").rstrip("/"),
        )
        roll_back_delta_commit(txn, where, target, rollback=rollback, root=root)


def _read_plan(ref: TableRef, rollback: Instant) -> RollbackPlan:
    plan = read_plan(ref.env, ref.properties.timeline_paths, rollback)
    if not isinstance(plan, RollbackPlan) or plan.instant_to_rollback is None:
        source = instant_path(
            ref.properties.timeline_paths, replace(rollback, state=State.REQUESTED)
        )
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
    ref: TableRef, instant_time: InstantTime, partitions: Iterable[PartitionPath]
) -> None:
    """Tasks of a writer that was only cut off may still make files there."""
    note = SweepNote(instant_time, tuple(sorted(partitions)), rounds=0)
    ref.env.storage.put(paths.sweep_note_path(instant_time), json_files.encode(note))


def _make_metadata(
    ref: TableRef,
    rollback: InstantTime,
    target: Instant,
    deleted_paths: Iterable[str],
    took_ms: int,
) -> RollbackMetadata:
    by_partition: dict[PartitionPath, list[str]] = {}
    for path in sorted(deleted_paths):
        by_partition.setdefault(partition_of(path), []).append(whole_path(ref, path))
    info = InstantInfo(commit_time=target.requested_time, action=target.action.value)
    return RollbackMetadata.of(rollback, info, by_partition, took_ms=took_ms)


if not TYPE_CHECKING:  # a type checker knows the names of today only

    def __getattr__(name: str) -> object:
        return find_by_old_name(__name__, name)
