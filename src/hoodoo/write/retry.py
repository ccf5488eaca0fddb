"""Running a write: the dead are rolled back ahead of it, and conflicts retried if asked."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import TypeVar

from hoodoo.concurrency.conflicts.writes_in_progress import drop_losing_writes, load_live_writes
from hoodoo.config.concurrency import CONFLICT_RETRIES
from hoodoo.errors import EarlyConflict, StorageError, WriteConflict
from hoodoo.model.commit import OperationType
from hoodoo.recovery.recover import recover_before_write
from hoodoo.table.options import refuse_options
from hoodoo.table.ref import TableRef
from hoodoo.table.writable import reopen_for_writing
from hoodoo.write.commit.batches import BatchCommitted, find_batch
from hoodoo.write.commit.begin import conflict_strategy
from hoodoo.write.commit.publish import CommitResult, WriteTotals

log = logging.getLogger("hoodoo.write")

_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 10.0
_LONGEST_LOOK_S = 5.0
_TOLD_AFTER_S = 1.6
"""The pause before a look from which on users are told what the write waits for."""


Result = TypeVar("Result", bound=CommitResult | None)


def run_with_retries(
    ref: TableRef, operation: OperationType, write: Callable[[TableRef], Result]
) -> Result | CommitResult:
    """Do a write on the table as it is now; each retry plans anew on the table as it is then.

    A write whose batch is committed already, or by another meanwhile, is skipped.
    """
    refuse_options(ref.options, ref.properties, ref.uri, operation)
    retries, retry = ref.config.get(CONFLICT_RETRIES), 0
    present = reopen_for_writing(ref)
    recover_before_write(present)
    earlier_result = _load_skipped(ref)  # to save the work; the gate decides
    if earlier_result is not None:
        return earlier_result
    while True:
        try:
            return write(present)
        except BatchCommitted:
            earlier_result = _load_skipped(ref)
            if earlier_result is not None:
                return earlier_result
            # The commit that had the batch was taken back since.
        except WriteConflict as conflict:
            earlier_result = _skip_if_lost_to_same_batch(ref, conflict)
            if earlier_result is not None:
                return earlier_result
            if ref.notes.batch is not None and _has_died(ref, conflict):
                recover_before_write(present)  # it was an earlier run of this batch, say
            elif retry == retries:
                raise
            else:
                retry += 1
                log.info("conflict retry=%d of=%d reason=%s", retry, retries, conflict)
                if isinstance(conflict, EarlyConflict):
                    _wait_for(ref, conflict.conflicting_instants)
        pause_s = min(_FIRST_PAUSE_S * 2 ** max(retry - 1, 0), _LONGEST_PAUSE_S)
        # Those who met must not meet again.
        ref.env.clock.sleep(pause_s * (0.5 + ref.env.ids.jitter()))
        present = reopen_for_writing(ref)


def _load_skipped(ref: TableRef) -> CommitResult | None:
    """The commit that has the batch of this write; None if the write is to be done.

    Later batches of the application stand for earlier ones: its numbers only grow.
    """
    batch = ref.notes.batch
    if batch is None:
        return None
    commit = find_batch(ref.env, ref.properties.timeline_paths, ref.load_timeline(), batch)
    if commit is None:
        return None
    log.info("skipped app=%s batch=%d time=%s", batch.app, batch.number, commit.requested_time)
    totals = WriteTotals.of([stat for _, stat in commit.metadata.stats()])
    return CommitResult(commit.requested_time, commit.completion_time, totals, {}, is_skipped=True)


def _skip_if_lost_to_same_batch(ref: TableRef, conflict: WriteConflict) -> CommitResult | None:
    """The commit of the same batch, if that is what the write is in conflict with."""
    if ref.notes.batch is None:
        return None
    if isinstance(conflict, EarlyConflict):
        _wait_for(
            ref, conflict.conflicting_instants
        )  # only when it has ended it is known what it was
    return _load_skipped(ref)


def _has_died(ref: TableRef, conflict: WriteConflict) -> bool:
    """Whether writes in progress that went first have ended, and none of them was committed."""
    completed_times = {instant.requested_time for instant in ref.load_timeline().completed}
    return isinstance(conflict, EarlyConflict) and completed_times.isdisjoint(
        conflict.conflicting_instants
    )


def _wait_for(ref: TableRef, others: Collection[str]) -> None:
    """Wait until the writes that go first have ended, or died, or have lost themselves.

    To plan before that would only meet them again.
    """
    pause_s, is_told = _FIRST_PAUSE_S, False
    while True:
        try:
            timeline = ref.load_timeline()
            peers = [peer for peer in load_live_writes(ref, timeline) if peer.time in others]
            peers = drop_losing_writes(ref, timeline, conflict_strategy(ref), peers)
            if not peers:
                return
            if not is_told and pause_s >= _TOLD_AFTER_S:
                is_told = True
                writers = "; ".join(f"{peer.time} of {peer.status}" for peer in peers)
                log.warning("waiting_for_writes_that_went_first table=%s: %s", ref.uri, writers)
        except StorageError as error:
            log.warning("winner_not_seen others=%s error=%s", others, error)
        ref.env.clock.sleep(pause_s)
        pause_s = min(pause_s * 2, _LONGEST_LOOK_S)
