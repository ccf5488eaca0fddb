"""A bulk insert whose parts run in processes that know nothing of each other.

One process begins it, others write its rows, one commits it or gives it up. What they share is a
`DetachedWrite`, which is pickled, and the heartbeat file: whoever is at work on the write beats. In
between nobody does, so that a pause as long as the heartbeat's expiry is the end of the write.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from hoodoo.concurrency.heartbeats import Heartbeat, resume_heartbeat
from hoodoo.concurrency.transactions.gate import Attempt
from hoodoo.config.write import COMBINE_BEFORE_INSERT, SORT_MODE, SortMode
from hoodoo.errors import (
    CommitUnknown,
    HeartbeatLost,
    HoodooError,
    StorageError,
    TaskStopped,
    UnsupportedFeature,
)
from hoodoo.model import paths
from hoodoo.model.commit import OperationType, WriteStat
from hoodoo.model.coordination import HeartbeatBody
from hoodoo.model.instant import Instant
from hoodoo.recovery.recover import recover_before_write, roll_back_own_attempt
from hoodoo.rows.hashes import text_hashes
from hoodoo.runtime.engine import Engine
from hoodoo.runtime.lost_answers import delete_surely
from hoodoo.table.options import refuse_options
from hoodoo.table.ref import TableRef
from hoodoo.table.writable import reopen_for_writing
from hoodoo.write.commit.begin import StartedWrite, begin
from hoodoo.write.commit.publish import WriteTotals, commit
from hoodoo.write.execute import build_context, delete_markers_and_heartbeat
from hoodoo.write.files.bulk_insert import HASH, StreamTask, write_stream
from hoodoo.write.files.context import WriteContext
from hoodoo.write.files.finalize import finalize
from hoodoo.write.files.outputs import leave_stop_note
from hoodoo.write.index import index_of
from hoodoo.write.planning.assignment import Assignment, WriteTarget
from hoodoo.write.planning.prepare import check_table, prepare

log = logging.getLogger("hoodoo.write")


@dataclass(frozen=True)
class DetachedWrite:
    """A write that has begun, on its way from process to process."""

    instant: Instant
    heartbeat_body: HeartbeatBody
    assignment: Assignment
    context: WriteContext

    @property
    def ref(self) -> TableRef:
        return self.context.ref

    def attempt(self, heartbeat: Heartbeat | None = None) -> Attempt:
        """The attempt with the heartbeat of this process, or with one that does not beat."""
        if heartbeat is None:
            env, time = self.ref.env, self.instant.requested_time
            heartbeat = Heartbeat(
                env, time, self.heartbeat_body, etag="", sent_at=env.clock.monotonic()
            )
        return Attempt(self.instant, heartbeat)


def begin_detached(ref: TableRef, incoming: pa.Schema) -> DetachedWrite:
    """Begin a bulk insert of rows of this schema, for others to carry it on.

    What is wrong with their columns is found here.

    Order: that of `begin`.
    Crash: a pending instant without files, whose heartbeat ages.
    """
    refuse_options(ref.options, ref.properties, ref.uri, OperationType.BULK_INSERT)
    ref = reopen_for_writing(ref)
    _refuse_unsuited(ref)
    recover_before_write(ref)
    snapshot = WriteTarget.load(ref).snapshot
    _, schema = prepare(ref, check_table(incoming.empty_table()), snapshot.schema)
    # The file groups that are there matter no more, and need not travel.
    assignment = Assignment(OperationType.BULK_INSERT, replace(snapshot, groups=()), schema)
    started_write = begin(ref, assignment)
    heartbeat = started_write.attempt.heartbeat
    heartbeat.stop()
    context = replace(build_context(ref, started_write, repeats=True), has_stop_note=True)
    return DetachedWrite(started_write.attempt.instant, heartbeat.body, assignment, context)


def _refuse_unsuited(ref: TableRef) -> None:
    """Rows are written where they are, so nothing can be asked for that moves them."""
    config = ref.config
    if index_of(ref).buckets is not None:
        reason = "with a bucket index, rows must come to the file group of their bucket"
    elif config.get(COMBINE_BEFORE_INSERT):
        reason = f"{COMBINE_BEFORE_INSERT.name}=true: rows of one key must meet"
    elif config.get(SORT_MODE) is not SortMode.NONE:
        reason = f"{SORT_MODE.name}={config.get(SORT_MODE).value}: rows must be sorted"
    else:
        return
    raise UnsupportedFeature(f"{reason}; use table.bulk_insert(df)")


def write_rows(
    write: DetachedWrite, batches: Iterable[pa.RecordBatch], *, number: int, attempt: int
) -> tuple[WriteStat, ...]:
    """Write one part of the rows, as users give them; `number` tells the parts apart.

    The write counts as alive meanwhile, in however many processes this runs at once. No process
    spans the write that could stop it: a task that fails leaves a note, which the others look for
    at each file.

    Order: heartbeat; then that of `write_stream`; a note if it fails.
    Crash: as `write_stream`.
    """
    heartbeat = resume_heartbeat(
        write.ref, write.instant.requested_time, write.heartbeat_body, phase="write"
    )
    try:
        prepared_batches = (
            _prepare_batch(write.context, batch) for batch in batches if batch.num_rows
        )
        return write_stream(StreamTask(write.context, number, attempt), prepared_batches)
    except (StorageError, TaskStopped):  # Spark tries again; there is a note
        raise
    except HoodooError as error:
        leave_stop_note(write.context, str(error))
        raise
    finally:
        heartbeat.stop()


def _prepare_batch(context: WriteContext, batch: pa.RecordBatch) -> pa.Table:
    """Rows in the schema of the table, with what `write_stream` wants beside them."""
    incoming, _ = prepare(context.ref, check_table(batch), context.schema)
    return incoming.rows.append_column(HASH, text_hashes(incoming.keys))


def commit_detached(write: DetachedWrite, stats: Sequence[WriteStat], engine: Engine) -> Instant:
    """Commit a write all of whose rows are written, or roll it back.

    Order: heartbeat; then as `execute` does: finalize, gate, leftovers.
    Crash: as `execute`.
    """
    ref, time = write.ref, write.instant.requested_time
    try:
        heartbeat = resume_heartbeat(ref, time, write.heartbeat_body, phase="finalize")
    except HeartbeatLost:
        abandon_detached(write)
        raise
    started_write = StartedWrite(write.attempt(heartbeat), write.assignment)
    try:
        epoch, schema_json = write.context.epoch, write.context.schema_json
        stats = finalize(ref.env, time, stats, epoch=epoch, repeats=True)
        heartbeat.phase = "commit"
        completed_instant = commit(ref, started_write, engine, stats, schema_json=schema_json)
    except CommitUnknown:
        heartbeat.stop()  # others will look, once it has aged
        raise
    except BaseException:
        roll_back_own_attempt(ref, started_write.attempt)
        raise
    delete_markers_and_heartbeat(ref, started_write, repeats=True)
    operation, totals = write.assignment.operation.value, WriteTotals.of(stats)
    log.info("committed time=%s operation=%s %s", time, operation, totals)
    return completed_instant


def abandon_detached(write: DetachedWrite) -> None:
    """Roll back a write that failed, unless it was committed all the same.

    Whoever tried to commit it may not know how that ended: the head does.
    """
    roll_back_own_attempt(write.ref, write.attempt())
    try:
        delete_surely(write.ref.env, paths.stop_note_path(write.instant.requested_time))
    except StorageError as error:  # a sweep takes it
        log.warning("stop_note_left time=%s error=%s", write.instant.requested_time, error)
