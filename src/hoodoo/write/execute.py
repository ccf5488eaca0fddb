"""Carrying a planned write out: begin, handles, finalize, commit."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from hoodoo.concurrency.conflicts.early_detection import TaskConflictCheck
from hoodoo.concurrency.markers import delete_markers
from hoodoo.errors import CommitUnknown, StorageError
from hoodoo.format.schema import avro_from_arrow, with_meta_fields
from hoodoo.model.commit import OperationType, WriteStat
from hoodoo.model.instant import Instant
from hoodoo.model.progress import OnProgress, Progress
from hoodoo.read.base_files import SliceReadTask, build_read_rule
from hoodoo.read.scan import slice_reads
from hoodoo.recovery.recover import roll_back_own_attempt
from hoodoo.runtime.engine import Engine, StopSignal
from hoodoo.runtime.env import Env
from hoodoo.table.ref import TableRef
from hoodoo.write.commit.begin import StartedWrite, begin, delete_bloom, detect_conflicts
from hoodoo.write.commit.publish import CommitResult, WriteTotals, commit
from hoodoo.write.files.context import WriteContext
from hoodoo.write.files.exactly_once import delete_completions
from hoodoo.write.files.finalize import finalize
from hoodoo.write.files.handle import HandleTask, announce_all, run_handle
from hoodoo.write.index.destinations import FileGroupWrite
from hoodoo.write.planning.assignment import Assignment
from hoodoo.write.planning.locate import RoutedWrite

log = logging.getLogger("hoodoo.write")

_BY_KEY = frozenset({OperationType.UPSERT, OperationType.DELETE})


@dataclass
class PhaseTimer:
    """Seconds per phase of a write, and who is told of them."""

    env: Env
    on_progress: OnProgress | None = None
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Add the time of this block to a phase."""
        if self.on_progress is not None:
            self.on_progress(Progress(name))
        start_time = self.env.clock.monotonic()
        yield
        took = self.env.clock.monotonic() - start_time
        self.seconds[name] = self.seconds.get(name, 0.0) + took

    def count_files(self, phase: str, total: int) -> Callable[[int], None] | None:
        """What is to be told of files that are done in a phase; None if nobody looks."""
        tell = self.on_progress
        if tell is None:
            return None
        tell(Progress(phase, 0, total))
        return lambda finished_files: tell(Progress(phase, finished_files, total))

    def tell_committed(self) -> None:
        """Tell that the commit is there; an error of the listener can no longer undo it."""
        if self.on_progress is not None:
            try:
                self.on_progress(Progress("commit", 1, 1))
            except Exception as error:
                log.warning("progress_not_told error=%r", error)


Stage = Callable[[WriteContext, StopSignal], Sequence[WriteStat]]
"""Writes the files of a write, wherever that is done, and tells what was written.

It ends at once, with the error of the `StopSignal`, if that is requested.
"""


def execute(
    ref: TableRef, assignment: Assignment, stage: Stage, engine: Engine, phases: PhaseTimer
) -> CommitResult:
    """Carry a planned write out, from its instant to its commit.

    A write that fails is rolled back at once, unless it may have been committed all the same.
    """
    with phases.timed("begin"):
        started_write = begin(ref, assignment)
    try:
        completed_instant, stats = _write_and_commit(ref, started_write, stage, engine, phases)
    except CommitUnknown:
        started_write.attempt.heartbeat.stop()  # others will look, once it has aged
        raise
    except BaseException:
        roll_back_own_attempt(ref, started_write.attempt)  # the stage has no task running any more
        raise
    delete_markers_and_heartbeat(ref, started_write, repeats=engine.may_repeat_tasks)
    phases.tell_committed()
    assert completed_instant.completion_time is not None
    totals = WriteTotals.of(stats)
    log.info(
        "committed time=%s operation=%s %s %s",
        completed_instant.requested_time,
        assignment.operation.value,
        totals,
        " ".join(f"{phase}_s={took:.3f}" for phase, took in phases.seconds.items()),
    )
    return CommitResult(
        completed_instant.requested_time, completed_instant.completion_time, totals, phases.seconds
    )


def _write_and_commit(
    ref: TableRef, started_write: StartedWrite, stage: Stage, engine: Engine, phases: PhaseTimer
) -> tuple[Instant, Sequence[WriteStat]]:
    heartbeat = started_write.attempt.heartbeat
    with phases.timed("write"):
        heartbeat.phase = "write"
        stop = StopSignal()
        heartbeat.on_loss = stop.request
        with detect_conflicts(ref, started_write, stop) as early:
            context = build_context(
                ref, started_write, repeats=engine.may_repeat_tasks, early=early
            )
            stats = stage(context, stop)
    heartbeat.check()  # whoever lost the instant need not go on
    with phases.timed("finalize"):
        heartbeat.phase = "finalize"
        stats = finalize(
            ref.env, started_write.time, stats, epoch=context.epoch, repeats=context.repeats
        )
    with phases.timed("commit"):
        heartbeat.phase = "commit"
        completed_instant = commit(
            ref, started_write, engine, stats, schema_json=context.schema_json
        )
    return completed_instant, stats


def delete_markers_and_heartbeat(
    ref: TableRef, started_write: StartedWrite, *, repeats: bool
) -> None:
    """The write is committed: what is left of it is harmless, and a sweep takes it.

    The finalize marker stays: tasks that come late look for it, and the sweep for their files.
    """
    try:
        delete_markers(ref.env, started_write.time)
        delete_bloom(ref, started_write)
        if repeats:
            delete_completions(ref.env, started_write.time)
    except StorageError as error:
        log.warning("markers_left time=%s error=%s", started_write.time, error)
    finally:
        started_write.attempt.heartbeat.end()


def write_files_locally(routed_write: RoutedWrite, engine: Engine, phases: PhaseTimer) -> Stage:
    """The stage of a write whose rows are at hand: a handle for each file group, on the engine."""

    def write(context: WriteContext, stop: StopSignal) -> list[WriteStat]:
        tasks = [
            HandleTask(context, write, routed_write.changes[write.index], read)
            for write, read in read_previous_slices(routed_write.assignment, context)
        ]
        if not engine.may_repeat_tasks:  # else each attempt has files of its own to announce
            tasks = announce_all(tasks)
        count_file = phases.count_files("write", len(tasks))
        stats_by_task = engine.map(run_handle, tasks, stop=stop, report_count=count_file)
        return [stat for stats in stats_by_task for stat in stats]

    return write


def read_previous_slices(
    assignment: Assignment, context: WriteContext
) -> Iterator[tuple[FileGroupWrite, SliceReadTask | None]]:
    """Each file group to write, with how to read what it holds so far."""
    for write in assignment.writes:
        read = None
        if write.previous is not None:
            read = slice_reads(assignment.snapshot, context.read_rule, [write.previous])[0]
        yield write, read


def build_context(
    ref: TableRef,
    started_write: StartedWrite,
    *,
    repeats: bool,
    early: TaskConflictCheck | None = None,
) -> WriteContext:
    """What all handles of a write share, once it has its instant."""
    assignment, attempt = started_write.assignment, started_write.attempt.heartbeat.body
    full = with_meta_fields(assignment.schema)
    return WriteContext(
        ref=ref,
        requested_time=started_write.time,
        by_key=assignment.operation in _BY_KEY,
        schema=assignment.schema,
        schema_json=avro_from_arrow(assignment.schema, ref.properties.name),
        # Old rows are read in the schema of the new file.
        read_rule=build_read_rule(ref.properties, full, tuple(full.names)),
        epoch=attempt.epoch,
        repeats=repeats,
        write_id=f"{started_write.time}/{attempt.owner}",
        early=early,
    )
