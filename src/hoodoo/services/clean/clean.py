"""Clean: old versions of files, which no promised view needs, are deleted.

Dead writes are rolled back first, in the two steps of `recovery.recover`. Then a plan is put on the
timeline; from then on it is carried out by whoever comes, any number of times.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from hoodoo.concurrency.transactions.gate import publish
from hoodoo.concurrency.transactions.transaction import Txn, transaction
from hoodoo.config.concurrency import FAILED_WRITES, FailedWrites
from hoodoo.config.retention import CLEAN_TRIGGER_COMMITS, CleanPolicy
from hoodoo.deprecated import find_by_old_name, with_old_fields
from hoodoo.errors import (
    AlreadyCommitted,
    CommitUnknown,
    FormatError,
    HeartbeatLost,
    ObjectNotFound,
    PlanInProgress,
    UnusablePath,
)
from hoodoo.format.schema import with_meta_fields, without_meta_fields
from hoodoo.metadata_table.recorder import MetadataTableRecorder
from hoodoo.model.commit import CleanMetadata, CleanPartitionMetadata
from hoodoo.model.instant import Action, Instant, InstantTime
from hoodoo.model.names import named_in_json
from hoodoo.model.paths import PARTITION_METADATA, PartitionPath, join
from hoodoo.model.plans import CleanerPlan
from hoodoo.read.file_listing import data_files
from hoodoo.read.snapshot import take_snapshot
from hoodoo.recovery.recover import finish_decision, roll_back_dead_writes
from hoodoo.recovery.strays import delete_files
from hoodoo.runtime.engine import REQUEST_BYTES, Engine
from hoodoo.runtime.env import Env
from hoodoo.services.clean.facts import (
    load_last_clean,
    load_protected_files,
    load_retention,
    prepare_plan,
)
from hoodoo.services.clean.plan import drop_protected_files, file_name
from hoodoo.services.plans.pending import OwnedPlan, find_plans, own_plan, schedule
from hoodoo.table.ref import TableRef
from hoodoo.table.schema import resolve_schema
from hoodoo.table.timeline import Timeline, instant_path
from hoodoo.table.writable import reopen_for_writing

log = logging.getLogger("hoodoo.services")

_FILES_OF_A_TASK = 500


@with_old_fields
@dataclass(frozen=True, slots=True)
class CleanResult:
    """A clean that is done."""

    instant: InstantTime
    files: tuple[str, ...]
    """Paths of the files that it deleted."""
    earliest_retained_commit: InstantTime | None = field(metadata=named_in_json("earliest"))
    """The earliest commit that it kept."""
    is_resumed: bool = False
    """Someone else had begun with it."""


@dataclass(frozen=True, slots=True)
class DeletePartitionFilesTask:
    """Files of one partition to delete: what a task gets."""

    env: Env
    partition: PartitionPath
    names: tuple[str, ...]

    @property
    def size_bytes(self) -> int:
        """So that an engine knows how much work it is."""
        return len(self.names) * REQUEST_BYTES


def clean(ref: TableRef, engine: Engine) -> list[CleanResult]:
    """Finish cleans that were cut off, then plan one more and carry it out, if there is need.

    Order: dead writes rolled back; cleans that nobody works on; facts; plan; files; completed.
    Crash: a clean is pending; the next one to come here goes on.
    """
    ref = reopen_for_writing(ref)
    if ref.config.get(FAILED_WRITES) is not FailedWrites.NEVER:
        finish_decision(ref)
        roll_back_dead_writes(ref, ref.load_timeline())
    results = [replace(each, is_resumed=True) for each in _finish_pending(ref, engine)]
    clean_instant = schedule_clean(ref, engine)
    if clean_instant is not None and (result := run_clean(ref, engine, clean_instant)) is not None:
        results.append(result)
    return results


def schedule_clean(ref: TableRef, engine: Engine) -> Instant | None:
    """Put the plan of a clean on the timeline; None if there is nothing to clean.

    Files are listed once, outside the lock. What is planned then stays right, whatever is committed
    meanwhile; what came to be needed is taken out, and other cleans and restores make it moot.
    """
    planned_on: Timeline | None = None
    plan: CleanerPlan | None = None

    def build(timeline: Timeline) -> CleanerPlan | None:
        nonlocal planned_on, plan
        if find_plans(timeline, Action.CLEAN):  # someone is at it
            return None
        if planned_on is None:
            planned_on, plan = timeline, prepare_plan(ref, engine, timeline)
        if plan is None or _undoes_or_cleans(timeline) != _undoes_or_cleans(planned_on):
            return None
        return drop_protected_files(plan, load_protected_files(ref, timeline))

    return schedule(ref, Action.CLEAN, build)


def is_clean_due(ref: TableRef, timeline: Timeline) -> bool:
    """Whether enough was committed since the last clean, or one was cut off."""
    if find_plans(timeline, Action.CLEAN):
        return True
    retention = load_retention(ref)
    is_by_commits = retention.policy is CleanPolicy.KEEP_LATEST_COMMITS
    if is_by_commits and len(timeline.commits) <= retention.count:
        return False
    last = load_last_clean(ref, timeline)
    since = (last.last_commit if last else None) or ""
    commits = [c for c in timeline.commits if c.requested_time > since]
    return len(commits) >= ref.config.get(CLEAN_TRIGGER_COMMITS)


def run_clean(ref: TableRef, engine: Engine, instant: Instant) -> CleanResult | None:
    """Carry a clean out, from wherever someone left it; None if someone else does, or has.

    Order: that of `own_plan`; files deleted; then, in a transaction, through the gate: partitions
    without files deleted, completed clean; heartbeat.
    Crash: the clean is pending; anyone may repeat all of it.
    """
    time = instant.requested_time
    try:
        owned_plan = own_plan(ref, time)
    except PlanInProgress as error:
        log.info("clean_left time=%s reason=%s", time, error)
        return None
    if isinstance(owned_plan, Instant):
        return None
    heartbeat = owned_plan.attempt.heartbeat
    try:
        plan = _run(ref, engine, owned_plan)
    except (AlreadyCommitted, HeartbeatLost) as error:
        heartbeat.stop()
        log.info("clean_overtaken time=%s error=%s", time, error)
        return None
    except CommitUnknown:
        heartbeat.stop()
        raise
    except BaseException:
        heartbeat.release()
        raise
    heartbeat.end()
    files = tuple(join(part, name) for part, names in _list_deletions(plan) for name in names)
    log.info("cleaned time=%s files=%d", time, len(files))
    return CleanResult(time, files, _earliest(plan))


def _run(ref: TableRef, engine: Engine, owned_plan: OwnedPlan) -> CleanerPlan:
    start_time, plan = ref.env.clock.monotonic(), owned_plan.plan
    if not isinstance(plan, CleanerPlan):
        path = instant_path(ref.properties.timeline_paths, owned_plan.attempt.instant)
        raise FormatError("no plan of a clean", source=path)
    deletions = [DeletePartitionFilesTask(ref.env, *each) for each in _list_deletions(plan)]
    engine.map(delete_files_of_partition, deletions)

    recorder = MetadataTableRecorder(
        ref.env, ref.config, engine, lambda: _load_schema(ref), epoch=owned_plan.epoch
    )

    def prepare_metadata() -> CleanMetadata:
        present = reopen_for_writing(ref)
        empty_partitions = _delete_partitions(txn, ref, plan)
        took_ms = int((ref.env.clock.monotonic() - start_time) * 1000)
        metadata = _make_metadata(owned_plan.attempt.instant, plan, empty_partitions, took_ms)
        recorder.record_clean(txn, present.properties, owned_plan.time, metadata)
        return metadata

    with transaction(ref, "clean") as txn:
        publish(txn, owned_plan.attempt, prepare_metadata)
    return plan


def _load_schema(ref: TableRef) -> pa.Schema:
    schema = resolve_schema(ref, ref.load_timeline()) or take_snapshot(ref).schema
    return with_meta_fields(without_meta_fields(schema))


def delete_files_of_partition(deletion: DeletePartitionFilesTask) -> None:
    """Delete these files; one that is gone already is fine."""
    delete_files(deletion.env, (join(deletion.partition, name) for name in deletion.names))


def _finish_pending(ref: TableRef, engine: Engine) -> Iterator[CleanResult]:
    for instant in find_plans(ref.load_timeline(), Action.CLEAN):
        result = run_clean(ref, engine, instant)
        if result is not None:
            yield result


def _undoes_or_cleans(timeline: Timeline) -> set[InstantTime]:
    """Cleans and restores: what they are about is not to be planned on an older timeline."""
    kinds = (Action.CLEAN, Action.RESTORE)
    return {instant.requested_time for instant in timeline if instant.action in kinds}


def _list_deletions(plan: CleanerPlan) -> list[tuple[PartitionPath, tuple[str, ...]]]:
    """Names to delete by partition, in pieces; plans of version 1 have bare names."""
    by_partition: dict[PartitionPath, list[str]] = {}
    for partition, infos in (plan.file_paths_to_be_deleted_per_partition or {}).items():
        by_partition.setdefault(partition, []).extend(map(file_name, infos))
    for partition, whole in (plan.files_to_be_deleted_per_partition or {}).items():
        by_partition.setdefault(partition, []).extend(p.rpartition("/")[2] for p in whole)
    return [
        (partition, tuple(names[at : at + _FILES_OF_A_TASK]))
        for partition, names in sorted(by_partition.items())
        for at in range(0, len(names), _FILES_OF_A_TASK)
    ]


def _delete_partitions(txn: Txn, ref: TableRef, plan: CleanerPlan) -> set[str]:
    """Take the mark off directories that hold no data; those that came to be used stay.

    Needs: a Txn: nobody begins a write meanwhile, and whoever does so later makes the mark anew.
    """
    planned_partitions = plan.partitions_to_be_deleted or ()
    if not planned_partitions or any(
        instant.action.writes_data for instant in txn.timeline.pending
    ):
        return set()
    empty_partitions: set[str] = set()
    for partition in map(PartitionPath, planned_partitions):
        try:
            entries = list(ref.env.storage.list(partition))
        except (UnusablePath, ObjectNotFound):
            continue
        if any(True for _ in data_files(partition, entries)):
            continue
        names = (entry.path for entry in entries)
        delete_files(ref.env, [p for p in names if PARTITION_METADATA in p.rpartition("/")[2]])
        empty_partitions.add(partition)
    return empty_partitions


def _make_metadata(
    instant: Instant, plan: CleanerPlan, empty_partitions: set[str], took_ms: int
) -> CleanMetadata:
    by_partition: dict[PartitionPath, tuple[str, ...]] = {
        PartitionPath(partition): () for partition in sorted(empty_partitions)
    }
    for partition, names in _list_deletions(plan):
        by_partition[partition] = (*by_partition.get(partition, ()), *names)
    return CleanMetadata(
        start_clean_time=instant.requested_time,
        time_taken_in_millis=took_ms,
        total_files_deleted=sum(map(len, by_partition.values())),
        earliest_commit_to_retain=_earliest(plan) or "",
        last_completed_commit_timestamp=plan.last_completed_commit_timestamp,
        partition_metadata={
            partition: CleanPartitionMetadata(
                partition_path=partition,
                policy=plan.policy,
                delete_path_patterns=names,
                success_delete_files=names,
                is_partition_deleted=partition in empty_partitions,
            )
            for partition, names in by_partition.items()
        },
        bootstrap_partition_metadata={},
        extra_metadata=plan.extra_metadata,
    )


def _earliest(plan: CleanerPlan) -> InstantTime | None:
    earliest = plan.earliest_instant_to_retain
    return InstantTime(earliest.requested_time) if earliest is not None else None


if not TYPE_CHECKING:  # a type checker knows the names of today only

    def __getattr__(name: str) -> object:
        return find_by_old_name(__name__, name)
