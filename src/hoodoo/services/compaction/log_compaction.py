"""Log compaction: the logs of a file group merged into one log file, beside the base file.

The new log file holds the last word of the merged ones on each key, and says in its header which
instants it stands for. Readers that know the header put it where the newest of those was and pass
over the files that it stands for. Readers that do not know it apply it after them, which changes
nothing: no write that was requested before the log compaction is completed after it was planned
(`concurrency.conflicts.rules` sees to that), so nothing lies between them in any reader's order.

`plan_log_compaction` chooses the file groups from facts alone; the rest schedules and executes the
plan, as for a compaction.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from functools import partial

from hoodoo.concurrency.conflicts.changes_since import load_concurrent_instant
from hoodoo.concurrency.conflicts.rules import InstantKind
from hoodoo.config.compaction import LOG_BLOCKS_THRESHOLD
from hoodoo.config.key import Config
from hoodoo.errors import InputError, UnsupportedFeature
from hoodoo.format.log.blocks import HeaderKey
from hoodoo.format.timeline.instant_files import Metadata
from hoodoo.model.commit import OperationType, WriteStat
from hoodoo.model.files import FileGroupId, FileSlice
from hoodoo.model.instant import Action, Instant, InstantTime
from hoodoo.model.plans import CompactionPlan, CompactionStrategy, PlanTerms
from hoodoo.model.table import TableType
from hoodoo.read.log_files import merge_logs
from hoodoo.read.snapshot import take_snapshot
from hoodoo.runtime.engine import Engine
from hoodoo.services.compaction.compaction import (
    build_slice,
    choose_slices,
    describe_slice,
    digest_of,
    load_file_sizes,
    no_changes,
    read_slice_of_plan,
)
from hoodoo.services.plans.execute import RewriteService, ServiceResult, run_rewrite
from hoodoo.services.plans.pending import (
    find_plans,
    find_yielding_plans,
    groups_in_plans,
    load_plans,
    schedule,
)
from hoodoo.table.ref import TableRef
from hoodoo.table.timeline import Timeline, read_commit
from hoodoo.table.writable import reopen_for_writing
from hoodoo.write.files.context import WriteContext
from hoodoo.write.files.exactly_once import write_handle_once
from hoodoo.write.files.handle import HandleTask
from hoodoo.write.files.log_files import encode_log, write_log
from hoodoo.write.files.outputs import Outputs
from hoodoo.write.index.destinations import FileGroupWrite, WriteKind

log = logging.getLogger("hoodoo.services")


# -- choosing file groups -----------------------------------------------------------------------


_PLAN_VERSION = 2
_EXECUTOR = "org.apache.hudi.table.action.compact.LogCompactionExecutionHelper"


def plan_log_compaction(
    config: Config,
    slices: Iterable[FileSlice],
    *,
    busy: Collection[FileGroupId],
    log_compaction_times: Collection[InstantTime],
    terms: PlanTerms,
) -> CompactionPlan | None:
    """The log compaction of the slices that have enough logs, by the settings; None if none has.

    `busy` are file groups of other pending plans and of writes in progress.
    `log_compaction_times` are the instants of log compactions, whose logs stand for all before
    them.
    """
    least = config.get(LOG_BLOCKS_THRESHOLD)
    candidates = [
        s for s in slices if s.group not in busy and count_logs(s, log_compaction_times) >= least
    ]
    slices_to_compact = choose_slices(config, candidates, 0)
    if not slices_to_compact:
        return None
    return CompactionPlan(
        operations=tuple(describe_slice(each, 0) for each in slices_to_compact),
        extra_metadata=terms.encode(),
        version=_PLAN_VERSION,
        strategy=CompactionStrategy(compactor_class_name=_EXECUTOR, strategy_params={}, version=1),
        preserve_hoodie_metadata=True,
    )


def count_logs(each: FileSlice, log_compaction_times: Collection[InstantTime]) -> int:
    """The log files that a reader of the slice has to read."""
    for count, log in enumerate(reversed(each.logs), start=1):
        if log.name.instant_time in log_compaction_times:
            return count
    return len(each.logs)


# -- scheduling and running ---------------------------------------------------------------------


def schedule_log_compaction(ref: TableRef, *, terms: PlanTerms | None = None) -> Instant | None:
    """Plan a log compaction of the file groups with many logs; None if there are none."""
    ref = reopen_for_writing(ref)
    _refuse_unfit(ref)
    build = partial(_build_plan, ref, terms)
    return schedule(ref, Action.LOG_COMPACTION, build, find_yielding_plans)


def run_log_compaction(
    ref: TableRef,
    instant: str | None,
    engine: Engine,
    progress: Callable[[int, int], None] | None = None,
) -> ServiceResult | None:
    """Execute a log compaction, the oldest pending one if none is named; None if there is none."""
    if instant is None:
        pending = find_plans(ref.load_timeline(), Action.LOG_COMPACTION)
        if not pending:
            return None
        instant = pending[0].requested_time
    return run_rewrite(ref, LOG_COMPACTION, instant, engine, progress)


def _refuse_unfit(ref: TableRef) -> None:
    if ref.properties.type is not TableType.MERGE_ON_READ:
        raise InputError("only merge-on-read tables have logs to compact")
    if not ref.properties.merge.is_ours:
        raise UnsupportedFeature(
            "compacting logs of a table that merges records by a Java class of its own, or "
            "partially (hoodie.record.merge.mode=CUSTOM, hoodie.table.partial.update.mode)"
        )


# -- planning -----------------------------------------------------------------------------------


def _build_plan(ref: TableRef, terms: PlanTerms | None, timeline: Timeline) -> Metadata | None:
    slices = take_snapshot(ref, timeline=timeline).slices()
    many = [s for s in slices if len(s.logs) >= ref.config.get(LOG_BLOCKS_THRESHOLD)]
    if not many:
        return None
    latest = timeline.completed.instants[-1].requested_time
    return plan_log_compaction(
        ref.config,
        many,
        busy=groups_in_plans(load_plans(ref, timeline)) | _groups_being_written(ref, timeline),
        log_compaction_times=_find_log_compactions(ref, timeline, many),
        terms=replace(terms or PlanTerms(), planned_on=latest),
    )


def _groups_being_written(ref: TableRef, timeline: Timeline) -> frozenset[FileGroupId]:
    """File groups of writes in progress: a log compaction of them could not be completed."""
    where = ref.properties.timeline_paths
    others = (load_concurrent_instant(ref.env, where, instant) for instant in timeline.pending)
    writes = (
        other for other in others if other is not None and other.kind is InstantKind.INGESTION
    )
    return frozenset(group for write in writes for group in write.group_effects)


def _find_log_compactions(
    ref: TableRef, timeline: Timeline, slices: list[FileSlice]
) -> frozenset[InstantTime]:
    """Which of these slices' logs were written by log compactions, by the active timeline."""
    times = {log.name.instant_time for each in slices for log in each.logs}
    where = ref.properties.timeline_paths
    return frozenset(
        instant.requested_time
        for instant in timeline.commits
        if instant.requested_time in times
        and read_commit(ref.env, where, instant).operation is OperationType.LOG_COMPACT
    )


# -- executing ----------------------------------------------------------------------------------


def build_tasks(context: WriteContext, plan: Metadata) -> list[HandleTask]:
    """A handle for each operation: the logs of its slice become one."""
    assert isinstance(plan, CompactionPlan)
    sizes = load_file_sizes(context.ref, plan.operations)
    tasks = []
    for number, operation in enumerate(plan.operations):
        slice_ = build_slice(operation, sizes)
        tasks.append(
            HandleTask(
                context,
                FileGroupWrite(number, WriteKind.APPEND, slice_.group, slice_, rolls_over=False),
                no_changes(context),
                read_slice_of_plan(context, slice_),
                digest=digest_of(operation),
            )
        )
    return tasks


def compact_logs(task: HandleTask) -> tuple[WriteStat, ...]:
    """Merge the logs of a slice into one log file, and tell what was written.

    Order: that of `write_handle_once`.
    Crash: as for `run_handle`.
    """
    outputs = task.outputs()
    return write_handle_once(
        outputs, task.handle, lambda: (_merge(task, outputs), task.digest), lambda: task.digest
    )


def _merge(task: HandleTask, outputs: Outputs) -> tuple[WriteStat, ...]:
    context, group, previous = task.context, task.write.group, task.previous
    assert previous is not None
    changes = merge_logs(previous)
    if changes is None:
        log.warning("logs_left group=%s: rows of a partial update need the base file", group)
        return ()
    extra = {HeaderKey.COMPACTED_BLOCK_TIMES: ",".join(changes.times)}
    content = encode_log(context, changes.rows, changes.deletes, extra)
    if not content.data:
        return ()
    logs = previous.slice.logs
    return (
        replace(
            write_log(outputs, group, content),
            total_log_records=content.rows + content.deletes,
            total_log_files_compacted=len(logs),
            total_log_size_compacted=sum(log.size_bytes for log in logs),
        ),
    )


LOG_COMPACTION = RewriteService(
    Action.LOG_COMPACTION,
    InstantKind.LOG_COMPACTION,
    OperationType.LOG_COMPACT,
    build_tasks,
    compact_logs,
)
