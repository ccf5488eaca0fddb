"""Executing a plan that rewrites data files: compaction, log compaction, clustering.

The same handles, markers and gate as those of a write. What a dead attempt at the plan has finished
is adopted: its completion markers tell, and the files must be there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

import pyarrow as pa

from hoodoo.concurrency.conflict import Kind, Mine, collect_touches
from hoodoo.concurrency.gate import publish
from hoodoo.concurrency.markers import delete_markers
from hoodoo.concurrency.others import WRITER_KEY
from hoodoo.concurrency.transaction import transaction
from hoodoo.engine.engine import Engine
from hoodoo.engine.stop import Stop
from hoodoo.errors import (
    Cancelled,
    CommitFailed,
    CommitUnknown,
    HeartbeatLost,
    HoodooError,
    LeaseLost,
    NotFound,
    StorageError,
    WriteConflict,
)
from hoodoo.format.completion import Completion, Digest
from hoodoo.format.schema import avro_from_arrow, with_meta_fields, without_meta_fields
from hoodoo.format.timeline import Metadata
from hoodoo.metadata.recorder import PrepareOutside, Recorder
from hoodoo.model import paths
from hoodoo.model.commit import (
    SCHEMA_KEY,
    CommitMetadata,
    OperationType,
    ReplaceCommitMetadata,
)
from hoodoo.model.instant import Action, Instant, InstantTime
from hoodoo.model.names import FileId
from hoodoo.model.paths import PartitionPath
from hoodoo.model.stats import WriteStat, by_partition
from hoodoo.recovery.cancel import execute_cancel, request_cancel
from hoodoo.recovery.recover import abandon
from hoodoo.services.early import detect_conflicts, strategy_of
from hoodoo.services.pending import OwnedPlan, own_plan
from hoodoo.table.read_rule import build_read_rule
from hoodoo.table.ref import TableRef
from hoodoo.table.schema import resolve_schema
from hoodoo.table.snapshot import take_snapshot
from hoodoo.table.writable import reopen_for_writing
from hoodoo.timeline.load import read_commit
from hoodoo.write.begin import check_conflicts
from hoodoo.write.commit import WriteTotals
from hoodoo.write.completion import delete_completions, load_completions
from hoodoo.write.context import WriteContext
from hoodoo.write.finalize import finalize
from hoodoo.write.index_keys import read_commit_keys

log = logging.getLogger("hoodoo.services")

_LOCKS = 3
"""How often the lock may be lost in the gate before an attempt gives up."""


class Task(Protocol):
    """One item of a plan: what a handle does, once, wherever it runs."""

    @property
    def handle(self) -> str:
        """Names it, in every attempt at the plan."""

    @property
    def digest(self) -> Digest | None:
        """What it reads, so that another attempt's result is known to be of the same."""


T = TypeVar("T", bound=Task)


@dataclass(frozen=True)
class Rewrite(Generic[T]):
    """A service that rewrites data files: how its plan becomes tasks, and its stats a commit."""

    action: Action
    kind: Kind
    operation: OperationType
    build_tasks: Callable[[WriteContext, Metadata], Sequence[T]]
    run_task: Callable[[T], tuple[WriteStat, ...]]
    replaced: Callable[[Metadata], Mapping[PartitionPath, tuple[FileId, ...]]] = lambda plan: {}


@dataclass(frozen=True, slots=True)
class ServiceResult:
    """A plan that is completed."""

    instant: InstantTime
    completion_time: InstantTime
    action: str
    stats: WriteTotals
    adopted: int = 0
    """Items that an earlier attempt had finished."""
    was_done: bool = False
    """Someone else had completed it."""


@dataclass
class _Run(Generic[T]):
    """One attempt at a plan."""

    ref: TableRef
    service: Rewrite[T]
    owned: OwnedPlan
    engine: Engine
    progress: Callable[[int, int], None] | None
    stop: Stop = field(default_factory=Stop)
    adopted: int = 0


def run_rewrite(
    ref: TableRef,
    service: Rewrite[T],
    instant: str,
    engine: Engine,
    progress: Callable[[int, int], None] | None = None,
) -> ServiceResult:
    """Execute a plan, or tell how it was completed.

    `progress` is told how many items are done, and of how many. Raises `PlanInProgress`,
    `PlanNotExecutable`, `Cancelled`, `WriteConflict`, and whatever a task raises.
    Order: that of `own_plan`; handles; that of `finalize`, of `gate.publish`; markers; heartbeat.
    Crash: the heartbeat ages. The next attempt at a persistent plan adopts what is finished; other
    plans are removed.
    """
    ref = reopen_for_writing(ref)
    try:
        owned = own_plan(ref, instant)
    except Cancelled:
        _execute_cancel(ref, InstantTime(instant))
        raise
    if isinstance(owned, Instant):
        return _describe_done(ref, service, owned)
    run = _Run(ref, service, owned, engine, progress)
    with _watch(run):
        try:
            with detect_conflicts(ref, owned, service.kind, run.stop):
                completed, stats = _write_and_commit(run)
        except BaseException as error:
            _end_failed_attempt(run, error)
            raise
    _delete_traces(run)
    assert completed.completion_time is not None
    totals = WriteTotals.of(stats)
    log.info("completed time=%s action=%s %s", owned.time, service.action.value, totals)
    return ServiceResult(
        owned.time, completed.completion_time, service.action.value, totals, run.adopted
    )


def _describe_done(ref: TableRef, service: Rewrite[T], completed: Instant) -> ServiceResult:
    metadata = read_commit(ref.env, ref.properties.timeline, completed)
    assert completed.completion_time is not None
    return ServiceResult(
        completed.requested_time,
        completed.completion_time,
        service.action.value,
        WriteTotals.of([stat for _, stat in metadata.stats()]),
        was_done=True,
    )


# -- one attempt --------------------------------------------------------------------------------


def _write_and_commit(run: _Run[T]) -> tuple[Instant, Sequence[WriteStat]]:
    ref, owned, heartbeat = run.ref, run.owned, run.owned.attempt.heartbeat
    heartbeat.phase = "write"
    context = _build_context(ref, owned)
    tasks = run.service.build_tasks(context, owned.plan)
    finished = _load_finished(ref, owned, tasks)
    run.adopted = len(finished)
    rest = [task for task in tasks if task.handle not in finished]
    done = _count_from(run, total=len(tasks))
    made = run.engine.map(run.service.run_task, rest, stop=run.stop, done=done)
    stats = [stat for completion in finished.values() for stat in completion.stats]
    stats += [stat for written in made for stat in written]
    run.stop.check()
    heartbeat.check()
    heartbeat.phase = "finalize"
    stats = list(finalize(ref.env, owned.time, stats, epoch=owned.epoch, repeats=True))
    heartbeat.phase = "commit"
    return _commit(run, stats, context), stats


def _count_from(run: _Run[T], *, total: int) -> Callable[[int], None] | None:
    progress, first = run.progress, run.adopted
    if progress is None:
        return None
    progress(first, total)
    return lambda done: progress(first + done, total)


def _load_finished(
    ref: TableRef, owned: OwnedPlan, tasks: Sequence[Task]
) -> Mapping[str, Completion]:
    """What earlier attempts have finished: the same input, and every file is there."""
    digests = {task.handle: task.digest for task in tasks}
    finished = {}
    for epoch in range(owned.epoch - 1, 0, -1):
        for handle, completion in load_completions(ref.env, owned.time, epoch).items():
            is_same = handle in digests and completion.digest == digests[handle]
            if is_same and handle not in finished and _has_files(ref, completion):
                finished[handle] = completion
    if finished:
        log.info("adopted time=%s items=%d of=%d", owned.time, len(finished), len(tasks))
    return finished


def _has_files(ref: TableRef, completion: Completion) -> bool:
    for stat in completion.stats:
        assert stat.path is not None
        try:
            info = ref.env.storage.stat(stat.path)
        except NotFound:
            return False
        if info.size_bytes != stat.file_size_in_bytes:
            return False
    return True


def _build_context(ref: TableRef, owned: OwnedPlan) -> WriteContext:
    """What all handles of the attempt share; ids of new file groups are those of every attempt."""
    schema = without_meta_fields(_load_schema(ref))
    full = with_meta_fields(schema)
    return WriteContext(
        ref=ref,
        requested_time=owned.time,
        by_key=False,
        schema=schema,
        schema_json=avro_from_arrow(schema, ref.properties.name),
        read_rule=build_read_rule(ref.properties, full, tuple(full.names)),
        epoch=owned.epoch,
        repeats=True,
        write_id=owned.time,
    )


def _load_schema(ref: TableRef) -> pa.Schema:
    schema = resolve_schema(ref, ref.load_timeline())
    if schema is None:
        schema = take_snapshot(ref).schema
    return schema


def _commit(run: _Run[T], stats: Sequence[WriteStat], context: WriteContext) -> Instant:
    """Publish through the gate. A plan that yields looks for writes in progress as well."""
    ref, owned, service = run.ref, run.owned, run.service
    metadata = _metadata(ref, owned, service, stats, context.schema_json)
    schema = with_meta_fields(context.schema)
    recorder = Recorder(
        *(ref.env, ref.config, run.engine, lambda: schema, stats, owned.epoch),
        read_keys=lambda: read_commit_keys(
            *(take_snapshot(ref), run.engine, context.schema, owned.time),
            *(service.operation, stats, service.replaced(owned.plan)),
        ),
    )
    recorder.prepare(ref.properties, owned.time)
    mine = Mine(owned.time, service.kind, collect_touches(metadata))
    strategy = strategy_of(ref, owned)

    def prepare_metadata() -> CommitMetadata:
        present = reopen_for_writing(ref)
        planned_on = txn.timeline.ended_until(owned.time)
        check_conflicts(txn, ref, mine, planned_on=planned_on, strategy=strategy)
        recorder.record_commit(txn, present.properties, owned.time, metadata)
        return metadata

    locks_left = _LOCKS
    while True:
        try:
            with transaction(ref, "commit") as txn:
                return publish(txn, owned.attempt, prepare_metadata)
        except PrepareOutside as need:
            recorder.prepare(need.properties, owned.time)
        except LeaseLost as error:
            locks_left -= 1
            if error.is_taken_back or not locks_left:
                raise


def _metadata(
    ref: TableRef,
    owned: OwnedPlan,
    service: Rewrite[T],
    stats: Sequence[WriteStat],
    schema_json: str,
) -> CommitMetadata:
    extra = {SCHEMA_KEY: schema_json, WRITER_KEY: str(ref.env.ids.process())}
    if service.kind is Kind.CLUSTERING:
        return ReplaceCommitMetadata(
            partition_to_write_stats=by_partition(stats),
            extra_metadata=extra,
            operation_type=service.operation,
            partition_to_replace_file_ids=service.replaced(owned.plan),
        )
    return CommitMetadata(
        partition_to_write_stats=by_partition(stats),
        compacted=True,
        extra_metadata=extra,
        operation_type=service.operation,
    )


# -- ends ---------------------------------------------------------------------------------------


@contextmanager
def _watch(run: _Run[T]) -> Iterator[None]:
    """Stop the work at once if the plan is lost or cancelled."""
    env, time, heartbeat = run.ref.env, run.owned.time, run.owned.attempt.heartbeat

    def look() -> None:
        try:
            is_cancelled = env.storage.exists(paths.cancel(time))
        except StorageError as error:
            log.warning("cancel_not_seen time=%s error=%s", time, error)
            return
        if is_cancelled:
            run.stop.request(Cancelled(f"plan {time} was cancelled"))

    heartbeat.on_loss = run.stop.request
    timer = env.clock.every(heartbeat.body.interval_ms, look)
    try:
        yield
    finally:
        timer.stop()


def _end_failed_attempt(run: _Run[T], error: BaseException) -> None:
    """What becomes of the plan, by why the attempt failed and by the plan's terms.

    A plan that lost against a completed write can never be completed: it is cancelled, whatever its
    terms. Tasks of Spark may outlive their job: then the heartbeat ages.
    """
    ref, owned, heartbeat = run.ref, run.owned, run.owned.attempt.heartbeat
    if isinstance(error, CommitUnknown | HeartbeatLost):
        heartbeat.stop()
    elif isinstance(error, Cancelled | WriteConflict):
        heartbeat.release()
        _cancel(ref, owned.time, str(error))
    elif owned.terms.is_cancellable:
        heartbeat.release()
        _cancel(ref, owned.time, f"its execution failed: {error}")
    elif not owned.terms.is_persistent:
        abandon(ref, owned.attempt)
    elif run.engine.repeats and not isinstance(error, CommitFailed):
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


def _delete_traces(run: _Run[T]) -> None:
    """The plan is completed: what is left of it is harmless, and a sweep takes it."""
    env, time = run.ref.env, run.owned.time
    try:
        delete_markers(env, time)
        delete_completions(env, time)
    except StorageError as error:
        log.warning("markers_left time=%s error=%s", time, error)
    finally:
        run.owned.attempt.heartbeat.end()
