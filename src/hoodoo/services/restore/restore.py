"""Restore: the table goes back to what it was when a commit had completed.

The plan is decided first: once a restore is on the timeline, nobody commits anything until it is
completed. Then commits are taken back, newest first. A commit is invisible before the first of its
files is deleted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hoodoo.concurrency.heartbeats import (
    SETTLED_EXPIRIES,
    WriterStatus,
    default_expiry_ms,
    load_writer_statuses,
    store_time_ms,
)
from hoodoo.concurrency.markers import delete_markers
from hoodoo.concurrency.transactions import instants as transitions
from hoodoo.concurrency.transactions.gate import Attempt, publish, remove_completed_file
from hoodoo.concurrency.transactions.transaction import transaction
from hoodoo.config.retention import CleanPolicy
from hoodoo.deprecated import find_by_old_name
from hoodoo.errors import CommitUnknown, FormatError, InputError, ObjectNotFound, TimelineError
from hoodoo.format import json_files
from hoodoo.metadata_table.recorder import MetadataTableRecorder
from hoodoo.metadata_table.table import has_metadata_table
from hoodoo.model import paths
from hoodoo.model.commit import (
    CleanMetadata,
    CommitMetadata,
    InstantInfo,
    RestoreMetadata,
    RollbackMetadata,
)
from hoodoo.model.coordination import SweepNote
from hoodoo.model.instant import Action, Instant, InstantTime, State
from hoodoo.model.names import parse_log_file
from hoodoo.model.paths import PartitionPath
from hoodoo.model.plans import CleanerPlan, RestorePlan
from hoodoo.recovery.recover import finish_decision, roll_back_dead_writes
from hoodoo.recovery.strays import (
    delete_files,
    find_files,
    find_partitions,
    load_announced_paths,
    whole_path,
)
from hoodoo.runtime.engine import Engine
from hoodoo.runtime.env import Env
from hoodoo.runtime.lost_answers import delete_surely
from hoodoo.services.indexing.drop import abort_builds
from hoodoo.services.indexing.entries import list_stored, load_schema
from hoodoo.services.plans.pending import OwnedPlan, find_plans, own_plan, schedule
from hoodoo.services.restore.indexes import (
    drop_narrow_indexes,
    rebuild_indexes,
    take_back_in_metadata_table,
)
from hoodoo.services.restore.plan import EMPTY_TABLE, RestoreFacts, find_previous, plan_restore
from hoodoo.table.history import load_history
from hoodoo.table.ref import TableRef
from hoodoo.table.timeline import Timeline, instant_path, read_commit, read_metadata, read_plan
from hoodoo.table.writable import reopen_for_writing

log = logging.getLogger("hoodoo.services")


@dataclass(frozen=True, slots=True)
class RestoreResult:
    """A restore that is done."""

    restore: InstantTime
    target: InstantTime
    """The commit that the table is at again."""
    instants: tuple[InstantTime, ...]
    """What was taken back, newest first."""
    files: tuple[str, ...]
    """Paths of the data files that were deleted."""


@dataclass(frozen=True, slots=True)
class DeleteInstantFilesTask:
    """Files of an instant in one partition to delete: what a task gets."""

    env: Env
    instant: InstantTime
    partition: PartitionPath


def restore(ref: TableRef, engine: Engine, target: str, *, wait: bool = True) -> RestoreResult:
    """Take the table back to a commit, by preference one with a savepoint.

    Commits that are younger than two expiries of heartbeats are waited for: until then, a late
    message could bring one back. Without `wait`, that is a `TimelineError`.
    Raises `WriterAlive`, `TimelineError`, `InputError`.
    """

    def choose(timeline: Timeline) -> Instant:
        commit = timeline.commits.find(target)
        if commit is None:
            raise InputError(f"{target} is not a completed commit of the active timeline")
        return commit

    return _restore(ref, engine, choose, wait=wait)


def roll_back_latest(
    ref: TableRef, engine: Engine, latest: str, *, wait: bool = True
) -> RestoreResult:
    """Take the latest completed commit back; errors and `wait` as of `restore`."""
    return _restore(ref, engine, lambda timeline: find_previous(timeline, latest), wait=wait)


def _restore(
    ref: TableRef, engine: Engine, choose: Callable[[Timeline], Instant | None], *, wait: bool
) -> RestoreResult:
    """Order: dead writes rolled back; a restore that was cut off; facts; plan; carried out."""
    ref = reopen_for_writing(ref)
    finish_decision(ref)
    roll_back_dead_writes(ref, ref.load_timeline())
    pending = find_plans(ref.load_timeline(), Action.RESTORE)
    if pending:
        return run_restore(ref, engine, pending[0])

    def build(timeline: Timeline) -> RestorePlan:
        plan = plan_restore(load_facts(ref, timeline, choose(timeline)))
        _refuse_appended(ref, timeline, plan)
        if not wait:
            _refuse_young(ref, timeline, plan)
        return plan

    plan_instant = schedule(ref, Action.RESTORE, build)
    assert plan_instant is not None
    return run_restore(ref, engine, plan_instant)


def load_facts(ref: TableRef, timeline: Timeline, target: Instant | None) -> RestoreFacts:
    """What decides about a restore; the timeline is that of a Txn."""
    writes = [instant for instant in timeline.pending if instant.action.writes_data]
    pulses = load_writer_statuses(ref, writes)
    alive = {
        instant.requested_time: str(pulses[instant.requested_time])
        for instant in writes
        if _is_alive(instant, pulses[instant.requested_time])
    }
    cleaned_below, versions_cleaned_at = _load_cleans(ref, timeline)
    target_completion_time = (
        target.completion_or_requested_time if target is not None else EMPTY_TABLE
    )
    history = load_history(ref.env, ref.properties.timeline_paths)
    return RestoreFacts(
        timeline,
        target,
        alive,
        cleaned_below,
        versions_cleaned_at,
        tuple(
            past_instant.requested_time
            for past_instant in history
            if past_instant.action.writes_data
            and (past_instant.completion_time or past_instant.requested_time)
            > target_completion_time
            and timeline.commits.find(past_instant.requested_time) is None
        ),
    )


def _is_alive(instant: Instant, pulse: WriterStatus) -> bool:
    """Whether somebody is at work; a plan that waits for an executor has no heartbeat."""
    is_plan = instant.action.completed_as is not instant.action
    waits = is_plan and instant.state is State.REQUESTED and not pulse.has_heartbeat
    return not pulse.is_dead and not waits


def _load_cleans(
    ref: TableRef, timeline: Timeline
) -> tuple[InstantTime | None, InstantTime | None]:
    """Below which commit cleans, pending ones too, delete files; when one last went by versions."""
    env, layout = ref.env, ref.properties.timeline_paths
    below: list[InstantTime] = []
    by_versions: list[InstantTime] = []
    for instant in timeline:
        if instant.action is not Action.CLEAN:
            continue
        read = read_metadata if instant.is_completed else read_plan
        match read(env, layout, instant):
            case CleanMetadata(earliest_commit_to_retain="", partition_metadata=cleaned):
                if cleaned:
                    by_versions.append(instant.completion_or_requested_time)
            case CleanMetadata() as done:
                below.append(InstantTime(done.floor))
            case CleanerPlan(earliest_instant_to_retain=kept) if kept is not None:
                below.append(InstantTime(kept.requested_time))
            case CleanerPlan(policy=CleanPolicy.KEEP_LATEST_FILE_VERSIONS.value):
                by_versions.append(instant.requested_time)
    return max(below, default=None) or None, max(by_versions, default=None)


# -- carrying it out ----------------------------------------------------------------------------


def run_restore(ref: TableRef, engine: Engine, instant: Instant) -> RestoreResult:
    """Carry a restore out, from wherever someone left it. Raises `PlanInProgress`.

    Order: that of `own_plan`; each instant, newest first, as `_undo`; then, through the gate:
    completed restore; heartbeat.
    Crash: the restore is pending, and nobody commits; restoring again goes on.
    """
    owned_plan = own_plan(ref, instant.requested_time)
    if isinstance(owned_plan, Instant):
        raise TimelineError(f"restore {instant.requested_time} was completed by someone else")
    heartbeat = owned_plan.attempt.heartbeat
    try:
        plan, undone = _run(ref, engine, owned_plan)
    except CommitUnknown:
        heartbeat.stop()
        raise
    except BaseException:
        heartbeat.release()
        raise
    heartbeat.end()
    target = InstantTime(plan.savepoint_to_restore_timestamp or EMPTY_TABLE)
    log.info("restored time=%s target=%s instants=%d", owned_plan.time, target, len(undone))
    files = tuple(sorted(file for deleted_files in undone.values() for file in deleted_files))
    return RestoreResult(
        owned_plan.time, target, tuple(InstantTime(i.commit_time) for i in undone), files
    )


def _run(
    ref: TableRef, engine: Engine, owned_plan: OwnedPlan
) -> tuple[RestorePlan, dict[InstantInfo, set[str]]]:
    start_time, plan = ref.env.clock.monotonic(), owned_plan.plan
    if not isinstance(plan, RestorePlan):
        path = instant_path(ref.properties.timeline_paths, owned_plan.attempt.instant)
        raise FormatError("no plan of a restore", source=path)
    aborted_builds = abort_builds(ref)
    dropped_partitions = (*aborted_builds, *drop_narrow_indexes(ref))
    undone = {
        info: _undo(ref, engine, owned_plan.attempt, info) for info in plan.instants_to_rollback
    }
    recorder = MetadataTableRecorder(
        env=ref.env,
        config=ref.config,
        engine=engine,
        schema=lambda: load_schema(ref, txn.timeline),
        epoch=owned_plan.epoch,
    )

    def prepare_metadata() -> RestoreMetadata:
        took_ms = int((ref.env.clock.monotonic() - start_time) * 1000)
        metadata = _make_metadata(ref, owned_plan.attempt.instant, undone, took_ms)
        present = ref.reopen()
        if has_metadata_table(present.properties):
            stored_files = list_stored(ref, txn.timeline)
            recorder.record_restore(txn, present.properties, owned_plan.time, stored_files)
        return metadata

    with transaction(ref, "restore") as txn:
        publish(txn, owned_plan.attempt, prepare_metadata)
    rebuild_indexes(ref, engine, dropped_partitions)
    return plan, undone


def _undo(ref: TableRef, engine: Engine, attempt: Attempt, info: InstantInfo) -> set[str]:
    """Take one instant back; one that is gone already was taken back by an earlier attempt.

    Order: the time passes in which it could come back; note of its partitions, also for later
    sweeps; completed file, through the head; data files; what it wrote to the metadata table;
    inflight and requested file; markers.
    Crash: it is completed, or pending with a note; or it is gone.
    """
    env, time = ref.env, InstantTime(info.commit_time)
    instant = ref.load_timeline().find(time, Action(info.action))
    if instant is None:
        return set()
    if instant.is_completed:
        _wait_until_settled(ref, instant)
    partitions = _note_partitions(ref, instant)
    if instant.is_completed:
        with transaction(ref, "restore") as txn:
            remove_completed_file(txn, instant, attempt.owner, attempt.heartbeat.check)
    removals = [DeleteInstantFilesTask(env, time, partition) for partition in partitions]
    deleted_files = set().union(*engine.map(delete_files_of_instant, removals))
    with transaction(ref, "restore") as txn:
        take_back_in_metadata_table(txn, ref, time)
        for action in Action:
            if action.completed_as is instant.action.completed_as:
                transitions.delete_pending_files(txn, Instant(time, action, State.INFLIGHT))
    delete_markers(env, time)
    for path in (paths.cancel_path(time), paths.heartbeat(time)):
        delete_surely(env, path)
    log.info("taken_back time=%s files=%d", time, len(deleted_files))
    return deleted_files


def delete_files_of_instant(removal: DeleteInstantFilesTask) -> set[str]:
    """Delete the files of an instant that are in a partition now."""
    file_paths = find_files(removal.env, removal.instant, [removal.partition])
    return delete_files(removal.env, file_paths)


def _note_partitions(ref: TableRef, instant: Instant) -> Sequence[PartitionPath]:
    """Where an instant has files: by what it says, or by what an earlier attempt noted."""
    env, path = ref.env, paths.sweep_note_path(instant.requested_time)
    try:
        note = json_files.decode(env.storage.read(path), SweepNote)
        return [PartitionPath(partition) for partition in note.partitions]
    except ObjectNotFound:
        pass
    if instant.is_completed:
        metadata: CommitMetadata = read_commit(env, ref.properties.timeline_paths, instant)
        partitions = set(metadata.partition_to_write_stats)
    else:
        files = load_announced_paths(env, instant.requested_time)
        partitions = find_partitions(ref, instant, files)
    note = SweepNote(instant.requested_time, tuple(sorted(partitions)), rounds=0)
    env.storage.put(path, json_files.encode(note))
    return sorted(partitions)


def _wait_until_settled(ref: TableRef, instant: Instant) -> None:
    """Let the time pass in which a late message could bring a completed file back."""
    while (left_ms := _unsettled_ms(ref, instant)) > 0:
        log.info("restore_waits time=%s seconds=%.0f", instant.requested_time, left_ms / 1000)
        ref.env.clock.sleep(left_ms / 1000)


def _refuse_appended(ref: TableRef, timeline: Timeline, plan: RestorePlan) -> None:
    """Rows that were appended to the log file of another commit cannot be taken back.

    Only tables that were upgraded from version 6 have such files.
    """
    if not ref.properties.has_appended_logs:
        return
    for info in plan.instants_to_rollback:
        instant = timeline.commits.find(info.commit_time)
        if instant is None:
            continue
        for _, stat in read_commit(ref.env, ref.properties.timeline_paths, instant).stats():
            name = parse_log_file((stat.path or "").rpartition("/")[2])
            if name is not None and name.instant_time != instant.requested_time:
                raise TimelineError(
                    f"commit {instant.requested_time} cannot be taken back: it was written before "
                    f"the table was upgraded, into a log file of several commits, {stat.path}"
                )


def _refuse_young(ref: TableRef, timeline: Timeline, plan: RestorePlan) -> None:
    for info in plan.instants_to_rollback:
        instant = timeline.commits.find(info.commit_time)
        left_ms = _unsettled_ms(ref, instant) if instant is not None else 0
        if left_ms > 0:
            raise TimelineError(
                f"commit {info.commit_time} is too young: in {left_ms / 1000:.0f} s nothing can "
                "bring it back any more; wait, or let the restore wait"
            )


def _unsettled_ms(ref: TableRef, instant: Instant) -> int:
    """For how long yet a late message could bring a completed file back."""
    path = instant_path(ref.properties.timeline_paths, instant)
    try:
        modified_ms = ref.env.storage.stat(path).modified_ms
    except ObjectNotFound:
        return 0
    age_ms = store_time_ms(ref.env) - modified_ms
    return SETTLED_EXPIRIES * default_expiry_ms(ref) + 1 - age_ms


def _make_metadata(
    ref: TableRef, instant: Instant, undone: dict[InstantInfo, set[str]], took_ms: int
) -> RestoreMetadata:
    return RestoreMetadata(
        start_restore_time=instant.requested_time,
        time_taken_in_millis=took_ms,
        instants_to_rollback=tuple(info.commit_time for info in undone),
        rollbacks={
            info.commit_time: (_describe(ref, instant.requested_time, info, files),)
            for info, files in undone.items()
        },
        restore_instant_info=tuple(undone),
    )


def _describe(
    ref: TableRef, restore_time: InstantTime, info: InstantInfo, files: set[str]
) -> RollbackMetadata:
    by_partition: dict[PartitionPath, list[str]] = {}
    for path in sorted(files):
        partition = PartitionPath(path.rpartition("/")[0])
        by_partition.setdefault(partition, []).append(whole_path(ref, path))
    return RollbackMetadata.of(restore_time, info, by_partition)


if not TYPE_CHECKING:  # a type checker knows the names of today only

    def __getattr__(name: str) -> object:
        return find_by_old_name(__name__, name)
