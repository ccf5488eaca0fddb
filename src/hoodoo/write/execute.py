"""Carrying a planned write out: begin, handles, finalize, commit."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from hoodoo.concurrency.early import TaskCheck
from hoodoo.concurrency.markers import delete_markers
from hoodoo.engine.engine import Engine
from hoodoo.engine.stop import Stop
from hoodoo.env import Env
from hoodoo.errors import CommitUnknown, StorageError
from hoodoo.format.schema import avro_from_arrow, with_meta_fields
from hoodoo.model.commit import OperationType
from hoodoo.model.file_group_write import FileGroupWrite
from hoodoo.model.instant import Instant
from hoodoo.model.progress import OnProgress, Progress
from hoodoo.model.stats import WriteStat
from hoodoo.recovery.recover import abandon
from hoodoo.table.read import slice_reads
from hoodoo.table.read_rule import SliceRead, build_read_rule
from hoodoo.table.ref import TableRef
from hoodoo.write.assignment import Assignment
from hoodoo.write.begin import BegunWrite, begin
from hoodoo.write.commit import CommitResult, WriteTotals, commit
from hoodoo.write.completion import delete_completions
from hoodoo.write.detect import delete_bloom, detect_conflicts
from hoodoo.write.finalize import finalize
from hoodoo.write.handle import HandleTask, WriteContext, announce_all, run_handle
from hoodoo.write.plan import PlannedWrite

log = logging.getLogger("hoodoo.write")

_BY_KEY = frozenset({OperationType.UPSERT, OperationType.DELETE})


@dataclass
class Phases:
    """Seconds per phase of a write, and who is told of them."""

    env: Env
    on_progress: OnProgress | None = None
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Add the time of this block to a phase."""
        if self.on_progress is not None:
            self.on_progress(Progress(name))
        started = self.env.clock.monotonic()
        yield
        took = self.env.clock.monotonic() - started
        self.seconds[name] = self.seconds.get(name, 0.0) + took

    def count_files(self, phase: str, total: int) -> Callable[[int], None] | None:
        """What is to be told of files that are done in a phase; None if nobody looks."""
        tell = self.on_progress
        if tell is None:
            return None
        tell(Progress(phase, 0, total))
        return lambda done: tell(Progress(phase, done, total))

    def tell_committed(self) -> None:
        """Tell that the commit is there; an error of the listener can no longer undo it."""
        if self.on_progress is not None:
            try:
                self.on_progress(Progress("commit", 1, 1))
            except Exception as error:
                log.warning("progress_not_told error=%r", error)


Stage = Callable[[WriteContext, Stop], Sequence[WriteStat]]
"""Writes the files of a write, wherever that is done, and tells what was written.

It ends at once, with the error of the `Stop`, if that is requested.
"""


def execute(
    ref: TableRef, assignment: Assignment, stage: Stage, engine: Engine, phases: Phases
) -> CommitResult:
    """Carry a planned write out, from its instant to its commit.

    A write that fails is rolled back at once, unless it may have been committed all the same.
    """
    with phases.timed("begin"):
        begun = begin(ref, assignment)
    try:
        completed, stats = _write_and_commit(ref, begun, stage, engine, phases)
    except CommitUnknown:
        begun.attempt.heartbeat.stop()  # others will look, once it has aged
        raise
    except BaseException:
        abandon(ref, begun.attempt)  # the stage has no task running any more
        raise
    delete_markers_and_heartbeat(ref, begun, repeats=engine.repeats)
    phases.tell_committed()
    assert completed.completion_time is not None
    totals = WriteTotals.of(stats)
    log.info(
        "committed time=%s operation=%s %s %s",
        completed.requested_time,
        assignment.operation.value,
        totals,
        " ".join(f"{phase}_s={took:.3f}" for phase, took in phases.seconds.items()),
    )
    return CommitResult(completed.requested_time, completed.completion_time, totals, phases.seconds)


def _write_and_commit(
    ref: TableRef, begun: BegunWrite, stage: Stage, engine: Engine, phases: Phases
) -> tuple[Instant, Sequence[WriteStat]]:
    heartbeat = begun.attempt.heartbeat
    with phases.timed("write"):
        heartbeat.phase = "write"
        stop = Stop()
        heartbeat.on_loss = stop.request
        with detect_conflicts(ref, begun, stop) as early:
            context = build_context(ref, begun, repeats=engine.repeats, early=early)
            stats = stage(context, stop)
    heartbeat.check()  # whoever lost the instant need not go on
    with phases.timed("finalize"):
        heartbeat.phase = "finalize"
        stats = finalize(ref.env, begun.time, stats, epoch=context.epoch, repeats=context.repeats)
    with phases.timed("commit"):
        heartbeat.phase = "commit"
        completed = commit(ref, begun, engine, stats, schema_json=context.schema_json)
    return completed, stats


def delete_markers_and_heartbeat(ref: TableRef, begun: BegunWrite, *, repeats: bool) -> None:
    """The write is committed: what is left of it is harmless, and a sweep takes it.

    The finalize marker stays: tasks that come late look for it, and the sweep for their files.
    """
    try:
        delete_markers(ref.env, begun.time)
        delete_bloom(ref, begun)
        if repeats:
            delete_completions(ref.env, begun.time)
    except StorageError as error:
        log.warning("markers_left time=%s error=%s", begun.time, error)
    finally:
        begun.attempt.heartbeat.end()


def local_stage(planned: PlannedWrite, engine: Engine, phases: Phases) -> Stage:
    """The stage of a write whose rows are at hand: a handle for each file group, on the engine."""

    def write(context: WriteContext, stop: Stop) -> list[WriteStat]:
        tasks = [
            HandleTask(context, write, planned.changes[write.index], read)
            for write, read in read_previous_slices(planned.assignment, context)
        ]
        if not engine.repeats:  # else each attempt has files of its own to announce
            tasks = announce_all(tasks)
        done = phases.count_files("write", len(tasks))
        made = engine.map(run_handle, tasks, stop=stop, done=done)
        return [stat for written in made for stat in written]

    return write


def read_previous_slices(
    assignment: Assignment, context: WriteContext
) -> Iterator[tuple[FileGroupWrite, SliceRead | None]]:
    """Each file group to write, with how to read what it holds so far."""
    for write in assignment.writes:
        read = None
        if write.previous is not None:
            read = slice_reads(assignment.snapshot, context.read_rule, [write.previous])[0]
        yield write, read


def build_context(
    ref: TableRef, begun: BegunWrite, *, repeats: bool, early: TaskCheck | None = None
) -> WriteContext:
    """What all handles of a write share, once it has its instant."""
    assignment, attempt = begun.assignment, begun.attempt.heartbeat.body
    full = with_meta_fields(assignment.schema)
    return WriteContext(
        ref=ref,
        requested_time=begun.time,
        by_key=assignment.operation in _BY_KEY,
        schema=assignment.schema,
        schema_json=avro_from_arrow(assignment.schema, ref.properties.name),
        # Old rows are read in the schema of the new file.
        read_rule=build_read_rule(ref.properties, full, tuple(full.names)),
        epoch=attempt.epoch,
        repeats=repeats,
        write_id=f"{begun.time}/{attempt.owner}",
        early=early,
    )
