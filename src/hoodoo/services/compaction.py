"""Compaction: base files with their logs merged into them, file group by file group."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

import pyarrow as pa

from hoodoo.concurrency.conflict import Kind
from hoodoo.config.write import MAX_FILE_SIZE
from hoodoo.engine.engine import Engine
from hoodoo.errors import CommitFailed, InputError
from hoodoo.format.completion import Digest
from hoodoo.format.schema import RECORD_KEY
from hoodoo.format.timeline import Metadata
from hoodoo.model.commit import OperationType
from hoodoo.model.file_group_write import FileGroupWrite, WriteKind
from hoodoo.model.files import BaseFile, FileGroupId, FileSlice, LogFile, parse_data_file
from hoodoo.model.instant import Action, Instant, InstantTime, to_wall_ms
from hoodoo.model.paths import PartitionPath
from hoodoo.model.plan import CompactionOperation, CompactionPlan
from hoodoo.model.plan_terms import PlanTerms
from hoodoo.model.slices import EVERYTHING, Visibility
from hoodoo.model.table import TableType
from hoodoo.rows import merge
from hoodoo.services.compaction_plan import SinceCompaction, is_due, plan_compaction
from hoodoo.services.pending import (
    find_plans,
    find_yielding_plans,
    groups_in_plans,
    load_plans,
    schedule,
)
from hoodoo.services.rewrite import Rewrite, ServiceResult, run_rewrite
from hoodoo.table.listing import data_files
from hoodoo.table.read_rule import SliceRead
from hoodoo.table.ref import TableRef
from hoodoo.table.snapshot import take_snapshot
from hoodoo.table.writable import reopen_for_writing
from hoodoo.timeline.timeline import Timeline
from hoodoo.timeline.zone import now_wall_ms
from hoodoo.write.context import WriteContext
from hoodoo.write.handle import HandleTask, run_handle


def schedule_compaction(
    ref: TableRef, *, terms: PlanTerms | None = None, only_if_due: bool = False
) -> Instant | None:
    """Plan a compaction of the file groups that have logs; None if there is nothing to compact."""
    ref = reopen_for_writing(ref)
    _refuse_without_logs(ref)
    if only_if_due and not is_due(ref.config, look_back(ref, ref.load_timeline())):
        return None
    return schedule(ref, Action.COMPACTION, partial(_build_plan, ref, terms), find_yielding_plans)


def run_compaction(
    ref: TableRef,
    instant: str | None,
    engine: Engine,
    progress: Callable[[int, int], None] | None = None,
) -> ServiceResult | None:
    """Execute a compaction, the oldest pending one if none is named; None if there is none."""
    if instant is None:
        pending = find_plans(ref.load_timeline(), Action.COMPACTION)
        if not pending:
            return None
        instant = pending[0].requested_time
    return run_rewrite(ref, COMPACTION, instant, engine, progress)


def _refuse_without_logs(ref: TableRef) -> None:
    if ref.properties.type is not TableType.MERGE_ON_READ:
        raise InputError("only merge-on-read tables have logs to compact")


# -- planning -----------------------------------------------------------------------------------


def _build_plan(ref: TableRef, terms: PlanTerms | None, timeline: Timeline) -> Metadata | None:
    snapshot = take_snapshot(ref, timeline=timeline)
    latest = timeline.completed.instants[-1].requested_time if timeline.completed else None
    return plan_compaction(
        ref.config,
        snapshot.slices(),
        busy=groups_in_plans(load_plans(ref, timeline)),
        terms=replace(terms or PlanTerms(), planned_on=latest),
        file_bytes=ref.config.get(MAX_FILE_SIZE),
    )


def look_back(ref: TableRef, timeline: Timeline) -> SinceCompaction:
    """Delta commits, and the time, since the last compaction."""
    compactions = [
        i
        for i in timeline
        if i.action is Action.COMPACTION or (i.is_completed and i.action is Action.COMMIT)
    ]
    completed = [i for i in compactions if i.is_completed]
    last_done = completed[-1].requested_time if completed else InstantTime("")
    last_requested = compactions[-1].requested_time if compactions else InstantTime("")
    deltas = [i for i in timeline.commits if i.action is Action.DELTA_COMMIT]
    since = [i for i in deltas if i.ended_at > last_done]
    began = last_done or (since[0].requested_time if since else None)
    elapsed_ms = (
        now_wall_ms(ref.env.clock, ref.properties.timeline_zone) - to_wall_ms(began) if began else 0
    )
    return SinceCompaction(
        delta_commits=len(since),
        after_last_request=sum(i.ended_at > last_requested for i in deltas),
        seconds=elapsed_ms / 1000,
    )


# -- executing ----------------------------------------------------------------------------------


def build_tasks(context: WriteContext, plan: Metadata) -> list[HandleTask]:
    """A handle for each operation: the rows of its slice become the group's next base file."""
    assert isinstance(plan, CompactionPlan)
    sizes = load_sizes(context.ref, plan.operations)
    return [
        _build_task(context, number, operation, sizes)
        for number, operation in enumerate(plan.operations)
    ]


def load_sizes(ref: TableRef, operations: Iterable[CompactionOperation]) -> dict[str, int]:
    """Bytes of the data files, by path, in the partitions that a plan names."""
    partitions = {PartitionPath(operation.partition_path or "") for operation in operations}
    return {
        file.path: file.size_bytes
        for partition in sorted(partitions)
        for file in data_files(partition, ref.env.storage.list(partition))
    }


def build_slice(operation: CompactionOperation, sizes: dict[str, int]) -> FileSlice:
    """The slice that an operation names. Raises `CommitFailed` if a file of it is gone."""
    assert operation.file_id is not None
    group = FileGroupId(PartitionPath(operation.partition_path or ""), operation.file_id)
    base, logs = None, []
    for name in filter(None, (operation.data_file_path, *(operation.delta_file_paths or ()))):
        plain = name.rpartition("/")[2]
        file = parse_data_file(group.partition, plain, 0)
        if file is None or file.path not in sizes:
            raise CommitFailed(f"{group}: the plan names {name}, which is not there")
        file = parse_data_file(group.partition, plain, sizes[file.path])
        if isinstance(file, BaseFile):
            base = file
        elif isinstance(file, LogFile):
            logs.append(file)
    base_time = base.name.requested_time if base else InstantTime(operation.base_instant_time or "")
    return FileSlice(group, base_time, base, tuple(logs))


def _build_task(
    context: WriteContext, number: int, operation: CompactionOperation, sizes: dict[str, int]
) -> HandleTask:
    slice_ = build_slice(operation, sizes)
    write = FileGroupWrite(number, WriteKind.MERGE, slice_.group, slice_, rolls_over=False)
    return HandleTask(
        context,
        write,
        no_changes(context),
        read_slice_of_plan(context, slice_),
        digest=digest_of(operation),
    )


def read_slice_of_plan(context: WriteContext, slice_: FileSlice) -> SliceRead:
    """How to read a slice all of whose logs count."""
    times = {log.name.instant_time for log in slice_.logs}
    visibility = Visibility({time: time for time in times})
    if context.ref.properties.has_appended_logs:  # blocks are of other instants than in the name
        visibility = EVERYTHING
    return SliceRead(context.ref.env, slice_, context.read_rule, visibility)


def digest_of(operation: CompactionOperation) -> Digest:
    """Of the files that an operation reads: they never change."""
    names = "\n".join(filter(None, (operation.data_file_path, *(operation.delta_file_paths or ()))))
    return Digest(len(operation.delta_file_paths or ()), zlib.crc32(names.encode()))


def no_changes(context: WriteContext) -> merge.Changes:
    """What a handle of a service merges in: nothing."""
    schema = context.schema.append(pa.field(RECORD_KEY, pa.string()))
    rows = schema.empty_table()
    return merge.upserts(rows, rows.column(RECORD_KEY), context.ref.properties.merge)


COMPACTION = Rewrite(
    Action.COMPACTION, Kind.COMPACTION, OperationType.COMPACT, build_tasks, run_handle
)
