"""Carrying a planned write out: begin, handles, finalize, commit."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa

from hoodoo.concurrency.markers import delete_markers
from hoodoo.engine.base import Engine
from hoodoo.env import Env
from hoodoo.errors import CommitUnknown, StorageError
from hoodoo.format.schema import avro_from_arrow, with_meta_fields
from hoodoo.model.commit import OperationType
from hoodoo.model.instant import Instant
from hoodoo.model.stats import WriteStat
from hoodoo.recovery.recover import abandon
from hoodoo.table.base import ReadRule, rule_of
from hoodoo.table.read import slice_reads
from hoodoo.table.ref import TableRef
from hoodoo.write.assign import Bucket
from hoodoo.write.begin import Begun, begin
from hoodoo.write.commit import CommitResult, WriteTotals, commit
from hoodoo.write.finalize import finalize
from hoodoo.write.handle import HandleTask, WriteContext, announce_all, run_handle
from hoodoo.write.plan import Work

log = logging.getLogger("hoodoo.write")

_BY_KEY = frozenset({OperationType.UPSERT, OperationType.DELETE})


@dataclass
class Phases:
    """Seconds per phase of a write."""

    env: Env
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Add the time of this block to a phase."""
        started = self.env.clock.monotonic()
        yield
        took = self.env.clock.monotonic() - started
        self.seconds[name] = self.seconds.get(name, 0.0) + took


def execute(ref: TableRef, work: Work, engine: Engine, phases: Phases) -> CommitResult:
    """Carry a planned write out, from its instant to its commit.

    A write that fails is rolled back at once, unless it may have been committed all the same.
    """
    with phases.timed("begin"):
        begun = begin(ref, work)
    try:
        completed, stats = _write_and_commit(ref, begun, engine, phases)
    except CommitUnknown:
        begun.attempt.heartbeat.stop()  # others will look, once it has aged
        raise
    except BaseException:
        abandon(ref, begun.attempt)  # the engine has no task running any more
        raise
    _tidy_up(ref, begun)
    assert completed.completion_time is not None
    totals = WriteTotals.of(stats)
    log.info("committed time=%s operation=%s %s", completed.requested_time, work.operation, totals)
    return CommitResult(completed.requested_time, completed.completion_time, totals, phases.seconds)


def _write_and_commit(
    ref: TableRef, begun: Begun, engine: Engine, phases: Phases
) -> tuple[Instant, list[WriteStat]]:
    work, heartbeat = begun.work, begun.attempt.heartbeat
    schema_json = avro_from_arrow(work.schema, ref.properties.name)
    with phases.timed("write"):
        heartbeat.phase = "write"
        rule = _read_rule(ref, work.schema)
        by_key = work.operation in _BY_KEY
        context = WriteContext(ref, begun.time, by_key, work.schema, schema_json, rule)
        tasks = announce_all([_task(work, context, bucket) for bucket in work.buckets])
        stats = [stat for written in engine.map(run_handle, tasks) for stat in written]
    heartbeat.check()  # whoever lost the instant need not go on
    with phases.timed("finalize"):
        heartbeat.phase = "finalize"
        finalize(ref.env, begun.time, stats)
    with phases.timed("commit"):
        heartbeat.phase = "commit"
        completed = commit(ref, begun, engine, stats, schema_json=schema_json)
    return completed, stats


def _tidy_up(ref: TableRef, begun: Begun) -> None:
    """The write is committed: what is left of it is harmless, and a sweep takes it."""
    try:
        delete_markers(ref.env, begun.time)
    except StorageError as error:
        log.warning("markers_left time=%s error=%s", begun.time, error)
    finally:
        begun.attempt.heartbeat.end()


def _task(work: Work, context: WriteContext, bucket: Bucket) -> HandleTask:
    previous = None
    if bucket.previous is not None:
        previous = slice_reads(work.snapshot, context.read_rule, [bucket.previous])[0]
    return HandleTask(context, bucket, work.changes[bucket.index], previous)


def _read_rule(ref: TableRef, schema: pa.Schema) -> ReadRule:
    """Old rows are read in the schema of the new file."""
    full = with_meta_fields(schema)
    return rule_of(ref.properties, full, tuple(full.names))
