"""Executing a plan that rewrites data files: compaction, log compaction, clustering.

`run_rewrite` uses the same handles, markers and gate as a write. What a dead attempt at the plan
has finished is adopted: its completion markers name the files, and the files must be there. While
tasks run, `detect_conflicts` looks for writes that the plan would lose to, and stops a lost plan
early.

A crash leaves the plan pending, with completion markers that the next attempt adopts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

import pyarrow as pa

from hoodoo.concurrency.conflicts.early_detection import (
    DetectionSettings,
    EarlyConflictDetector,
    watch,
)
from hoodoo.concurrency.conflicts.rules import (
    GroupEffect,
    InstantKind,
    PublishingInstant,
    collect_group_effects,
)
from hoodoo.concurrency.markers import delete_markers
from hoodoo.concurrency.transactions.gate import publish
from hoodoo.concurrency.transactions.transaction import transaction
from hoodoo.config.concurrency import ConflictStrategy
from hoodoo.deprecated import with_old_fields
from hoodoo.errors import (
    CommitFailed,
    CommitUnknown,
    HeartbeatLost,
    HoodooError,
    LockLost,
    ObjectNotFound,
    PlanCancelled,
    StorageError,
    WriteConflict,
)
from hoodoo.format.markers import CompletionMarker, Digest
from hoodoo.format.schema import avro_from_arrow, with_meta_fields, without_meta_fields
from hoodoo.format.timeline.instant_files import Metadata
from hoodoo.metadata_table.recorder import MetadataTableRecorder, PrepareOutsideLock
from hoodoo.model import paths
from hoodoo.model.commit import (
    SCHEMA_KEY,
    WRITER_KEY,
    CommitMetadata,
    OperationType,
    ReplaceCommitMetadata,
    WriteStat,
    by_partition,
)
from hoodoo.model.instant import Action, Instant, InstantTime
from hoodoo.model.names import FileId, named_in_json
from hoodoo.model.paths import PartitionPath
from hoodoo.read.base_files import build_read_rule
from hoodoo.read.snapshot import take_snapshot
from hoodoo.recovery.recover import roll_back_own_attempt
from hoodoo.runtime.engine import Engine, StopSignal
from hoodoo.services.plans.cancel import execute_cancel, request_cancel
from hoodoo.services.plans.pending import OwnedPlan, own_plan, plan_groups
from hoodoo.table.ref import TableRef
from hoodoo.table.schema import resolve_schema
from hoodoo.table.timeline import read_commit
from hoodoo.table.writable import reopen_for_writing
from hoodoo.write.commit.begin import check_conflicts, conflict_strategy
from hoodoo.write.commit.publish import WriteTotals
from hoodoo.write.commit.record_index_changes import CommitKeyChanges, read_commit_keys
from hoodoo.write.files.context import WriteContext
from hoodoo.write.files.exactly_once import delete_completions, load_completions
from hoodoo.write.files.finalize import finalize

log = logging.getLogger("hoodoo.services")


# -- stopping a plan that has lost --------------------------------------------------------------


def strategy_of(ref: TableRef, owned_plan: OwnedPlan) -> ConflictStrategy:
    """By which rules a plan is completed."""
    return choose_strategy(conflict_strategy(ref), is_cancellable=owned_plan.terms.is_cancellable)


def choose_strategy(of_table: ConflictStrategy, *, is_cancellable: bool) -> ConflictStrategy:
    """The rules for a plan: a cancellable one gives way to writes in progress. Pure."""
    return ConflictStrategy.PREFER_WRITER if is_cancellable else of_table


@contextmanager
def detect_conflicts(
    ref: TableRef, owned_plan: OwnedPlan, kind: InstantKind, stop: StopSignal
) -> Iterator[None]:
    """Ask the question of the gate, each period, while a plan is executed in the block."""
    detection = DetectionSettings.of(ref)
    if detection is None:
        yield
        return
    how = GroupEffect.REPLACE if kind is InstantKind.CLUSTERING else GroupEffect.REWRITE
    mine = PublishingInstant(
        owned_plan.time, kind, dict.fromkeys(plan_groups(owned_plan.plan), how)
    )
    planned_on = ref.load_timeline().completed_by(owned_plan.time)
    detector = EarlyConflictDetector(
        ref, mine, strategy_of(ref, owned_plan), detection, planned_on=planned_on
    )
    with watch(ref, detector, detection, stop):
        yield


# -- services and their results -----------------------------------------------------------------


_LOCKS = 3
"""How often the lock may be lost in the gate before an attempt gives up."""


class RewriteTask(Protocol):
    """One item of a plan: what a handle does, once, wherever it runs."""

    @property
    def handle(self) -> str:
        """Names it, in every attempt at the plan."""

    @property
    def digest(self) -> Digest | None:
        """What it reads, so that another attempt's result is known to be of the same."""


T = TypeVar("T", bound=RewriteTask)


@dataclass(frozen=True)
class RewriteService(Generic[T]):
    """A service that rewrites data files: how its plan becomes tasks, and its stats a commit."""

    action: Action
    kind: InstantKind
    operation: OperationType
    build_tasks: Callable[[WriteContext, Metadata], Sequence[T]]
    run_task: Callable[[T], tuple[WriteStat, ...]]
    find_replaced_files: Callable[[Metadata], Mapping[PartitionPath, tuple[FileId, ...]]] = (
        lambda plan: {}
    )


@with_old_fields
@dataclass(frozen=True, slots=True)
class ServiceResult:
    """A plan that is completed."""

    instant: InstantTime
    completion_time: InstantTime
    action: str
    stats: WriteTotals
    reused_items: int = field(default=0, metadata=named_in_json("adopted"))
    """Items that an earlier attempt had finished."""
    completed_by_other: bool = field(default=False, metadata=named_in_json("was_done"))
    """Someone else had completed it."""


@dataclass
class _PlanExecution(Generic[T]):
    """One attempt at a plan."""

    ref: TableRef
    service: RewriteService[T]
    owned_plan: OwnedPlan
    engine: Engine
    progress: Callable[[int, int], None] | None
    stop: StopSignal = field(default_factory=StopSignal)
    adopted_count: int = 0


def run_rewrite(
    ref: TableRef,
    service: RewriteService[T],
    instant: str,
    engine: Engine,
    progress: Callable[[int, int], None] | None = None,
) -> ServiceResult:
    """Execute a plan, or tell how it was completed.

    `progress` is told how many items are done, and of how many. Raises `PlanInProgress`,
    `PlanNotExecutable`, `PlanCancelled`, `WriteConflict`, and whatever a task raises.
    Order: that of `own_plan`; handles; that of `finalize`, of `gate.publish`; markers; heartbeat.
    Crash: the heartbeat ages. The next attempt at a persistent plan adopts what is finished; other
    plans are removed.
    """
    ref = reopen_for_writing(ref)
    try:
        owned_plan = own_plan(ref, instant)
    except PlanCancelled:
        _execute_cancel(ref, InstantTime(instant))
        raise
    if isinstance(owned_plan, Instant):
        return _describe_done(ref, service, owned_plan)
    run = _PlanExecution(ref, service, owned_plan, engine, progress)
    with _watch(run):
        try:
            with detect_conflicts(ref, owned_plan, service.kind, run.stop):
                completed_instant, stats = _write_and_commit(run)
        except BaseException as error:
            _end_failed_attempt(run, error)
            raise
    _delete_traces(run)
    assert completed_instant.completion_time is not None
    totals = WriteTotals.of(stats)
    log.info("completed time=%s action=%s %s", owned_plan.time, service.action.value, totals)
    return ServiceResult(
        owned_plan.time,
        completed_instant.completion_time,
        service.action.value,
        totals,
        run.adopted_count,
    )


def _describe_done(
    ref: TableRef, service: RewriteService[T], completed_instant: Instant
) -> ServiceResult:
    metadata = read_commit(ref.env, ref.properties.timeline_paths, completed_instant)
    assert completed_instant.completion_time is not None
    return ServiceResult(
        completed_instant.requested_time,
        completed_instant.completion_time,
        service.action.value,
        WriteTotals.of([stat for _, stat in metadata.stats()]),
        completed_by_other=True,
    )


# -- one attempt --------------------------------------------------------------------------------


def _write_and_commit(run: _PlanExecution[T]) -> tuple[Instant, Sequence[WriteStat]]:
    ref, owned_plan, heartbeat = run.ref, run.owned_plan, run.owned_plan.attempt.heartbeat
    heartbeat.phase = "write"
    context = _build_context(ref, owned_plan)
    tasks = run.service.build_tasks(context, owned_plan.plan)
    completions = _load_finished(ref, owned_plan, tasks)
    run.adopted_count = len(completions)
    rest = [task for task in tasks if task.handle not in completions]
    count_task = _count_from(run, total=len(tasks))
    stats_by_task = run.engine.map(
        run.service.run_task, rest, stop=run.stop, report_count=count_task
    )
    stats = [stat for completion in completions.values() for stat in completion.stats]
    stats += [stat for task_stats in stats_by_task for stat in task_stats]
    run.stop.check()
    heartbeat.check()
    heartbeat.phase = "finalize"
    stats = list(finalize(ref.env, owned_plan.time, stats, epoch=owned_plan.epoch, repeats=True))
    heartbeat.phase = "commit"
    return _commit(run, stats, context), stats


def _count_from(run: _PlanExecution[T], *, total: int) -> Callable[[int], None] | None:
    progress, first = run.progress, run.adopted_count
    if progress is None:
        return None
    progress(first, total)
    return lambda count: progress(first + count, total)


def _load_finished(
    ref: TableRef, owned_plan: OwnedPlan, tasks: Sequence[RewriteTask]
) -> Mapping[str, CompletionMarker]:
    """What earlier attempts have finished: the same input, and every file is there."""
    digests = {task.handle: task.digest for task in tasks}
    completions = {}
    for epoch in range(owned_plan.epoch - 1, 0, -1):
        for handle, completion in load_completions(ref.env, owned_plan.time, epoch).items():
            is_same = handle in digests and completion.digest == digests[handle]
            if is_same and handle not in completions and _has_files(ref, completion):
                completions[handle] = completion
    if completions:
        log.info("adopted time=%s items=%d of=%d", owned_plan.time, len(completions), len(tasks))
    return completions


def _has_files(ref: TableRef, completion: CompletionMarker) -> bool:
    for stat in completion.stats:
        assert stat.path is not None
        try:
            info = ref.env.storage.stat(stat.path)
        except ObjectNotFound:
            return False
        if info.size_bytes != stat.file_size_in_bytes:
            return False
    return True


def _build_context(ref: TableRef, owned_plan: OwnedPlan) -> WriteContext:
    """What all handles of the attempt share; ids of new file groups are those of every attempt."""
    schema = without_meta_fields(_load_schema(ref))
    full = with_meta_fields(schema)
    return WriteContext(
        ref=ref,
        requested_time=owned_plan.time,
        by_key=False,
        schema=schema,
        schema_json=avro_from_arrow(schema, ref.properties.name),
        read_rule=build_read_rule(ref.properties, full, tuple(full.names)),
        epoch=owned_plan.epoch,
        repeats=True,
        write_id=owned_plan.time,
    )


def _load_schema(ref: TableRef) -> pa.Schema:
    schema = resolve_schema(ref, ref.load_timeline())
    if schema is None:
        schema = take_snapshot(ref).schema
    return schema


def _commit(run: _PlanExecution[T], stats: Sequence[WriteStat], context: WriteContext) -> Instant:
    """Publish through the gate. A plan that yields looks for writes in progress as well."""
    ref, owned_plan, service = run.ref, run.owned_plan, run.service
    metadata = _metadata(ref, owned_plan, service, stats, context.schema_json)
    schema = with_meta_fields(context.schema)

    def read_keys() -> CommitKeyChanges:
        snapshot, replaced_files = take_snapshot(ref), service.find_replaced_files(owned_plan.plan)
        return read_commit_keys(
            snapshot,
            run.engine,
            context.schema,
            owned_plan.time,
            service.operation,
            stats,
            replaced_files,
        )

    recorder = MetadataTableRecorder(
        ref.env,
        ref.config,
        run.engine,
        lambda: schema,
        stats,
        owned_plan.epoch,
        read_keys=read_keys,
    )
    recorder.prepare(ref.properties, owned_plan.time)
    mine = PublishingInstant(owned_plan.time, service.kind, collect_group_effects(metadata))
    strategy = strategy_of(ref, owned_plan)

    def prepare_metadata() -> CommitMetadata:
        present = reopen_for_writing(ref)
        planned_on = txn.timeline.completed_by(owned_plan.time)
        check_conflicts(txn, ref, mine, planned_on=planned_on, strategy=strategy)
        recorder.record_commit(txn, present.properties, owned_plan.time, metadata)
        return metadata

    locks_left = _LOCKS
    while True:
        try:
            with transaction(ref, "commit") as txn:
                return publish(txn, owned_plan.attempt, prepare_metadata)
        except PrepareOutsideLock as need:
            recorder.prepare(need.properties, owned_plan.time)
        except LockLost as error:
            locks_left -= 1
            if error.was_withdrawn or not locks_left:
                raise


def _metadata(
    ref: TableRef,
    owned_plan: OwnedPlan,
    service: RewriteService[T],
    stats: Sequence[WriteStat],
    schema_json: str,
) -> CommitMetadata:
    extra = {SCHEMA_KEY: schema_json, WRITER_KEY: str(ref.env.ids.process())}
    if service.kind is InstantKind.CLUSTERING:
        return ReplaceCommitMetadata(
            partition_to_write_stats=by_partition(stats),
            extra_metadata=extra,
            operation_type=service.operation,
            partition_to_replace_file_ids=service.find_replaced_files(owned_plan.plan),
        )
    return CommitMetadata(
        partition_to_write_stats=by_partition(stats),
        compacted=True,
        extra_metadata=extra,
        operation_type=service.operation,
    )


# -- ends ---------------------------------------------------------------------------------------


@contextmanager
def _watch(run: _PlanExecution[T]) -> Iterator[None]:
    """Stop the work at once if the plan is lost or cancelled."""
    env, time, heartbeat = run.ref.env, run.owned_plan.time, run.owned_plan.attempt.heartbeat

    def look() -> None:
        try:
            is_cancelled = env.storage.exists(paths.cancel_path(time))
        except StorageError as error:
            log.warning("cancel_not_seen time=%s error=%s", time, error)
            return
        if is_cancelled:
            run.stop.request(PlanCancelled(f"plan {time} was cancelled"))

    heartbeat.on_loss = run.stop.request
    timer = env.clock.every(heartbeat.body.interval_ms, look)
    try:
        yield
    finally:
        timer.stop()


def _end_failed_attempt(run: _PlanExecution[T], error: BaseException) -> None:
    """What becomes of the plan, by why the attempt failed and by the plan's terms.

    A plan that lost against a completed write can never be completed: it is cancelled, whatever its
    terms. Tasks of Spark may outlive their job: then the heartbeat ages.
    """
    ref, owned_plan, heartbeat = run.ref, run.owned_plan, run.owned_plan.attempt.heartbeat
    if isinstance(error, CommitUnknown | HeartbeatLost):
        heartbeat.stop()
    elif isinstance(error, PlanCancelled | WriteConflict):
        heartbeat.release()
        _cancel(ref, owned_plan.time, str(error))
    elif owned_plan.terms.is_cancellable:
        heartbeat.release()
        _cancel(ref, owned_plan.time, f"its execution failed: {error}")
    elif not owned_plan.terms.is_persistent:
        roll_back_own_attempt(ref, owned_plan.attempt)
    elif run.engine.may_repeat_tasks and not isinstance(error, CommitFailed):
        heartbeat.stop()
    else:
        heartbeat.release()


def _cancel(ref: TableRef, time: InstantTime, reason: str) -> None:
    try:
        request_cancel(ref, time, reason=reason, force=True)
    except HoodooError as error:
        log.warning("cancel_failed time=%s error=%s", time, error)
    else:
        _execute_cancel(ref, time)


def _execute_cancel(ref: TableRef, time: InstantTime) -> None:
    """Failing here changes nothing for the caller: a later clean does the same."""
    try:
        execute_cancel(ref, time)
    except HoodooError as error:
        log.warning("cancel_failed time=%s error=%s", time, error)


def _delete_traces(run: _PlanExecution[T]) -> None:
    """The plan is completed: what is left of it is harmless, and a sweep takes it."""
    env, time = run.ref.env, run.owned_plan.time
    try:
        delete_markers(env, time)
        delete_completions(env, time)
    except StorageError as error:
        log.warning("markers_left time=%s error=%s", time, error)
    finally:
        run.owned_plan.attempt.heartbeat.end()
