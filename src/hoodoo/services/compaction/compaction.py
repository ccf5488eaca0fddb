"""Compaction: the logs of a file group are merged with its base file into a new base file.

The first part decides, without reading anything, which file groups of a merge-on-read table are
compacted, and whether a compaction is due. The second schedules plans and executes them by
`services.plans`. A crash leaves a pending plan, which the next executor resumes.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from hoodoo.concurrency.conflicts.rules import InstantKind
from hoodoo.config.compaction import (
    COMPACTION_CHOICE,
    COMPACTION_TRIGGER,
    LOG_COUNT_THRESHOLD,
    LOG_SIZE_THRESHOLD,
    MAX_DELTA_COMMITS,
    MAX_DELTA_SECONDS,
    PARTITION_REGEX,
    TARGET_IO_MB,
    TARGET_PARTITIONS,
    CompactionChoice,
    CompactionTrigger,
)
from hoodoo.config.key import Config
from hoodoo.config.write import MAX_FILE_SIZE
from hoodoo.errors import CommitFailed, ConfigError, InputError
from hoodoo.format.markers import Digest
from hoodoo.format.schema import RECORD_KEY
from hoodoo.format.timeline.instant_files import Metadata
from hoodoo.model.commit import OperationType
from hoodoo.model.files import (
    EVERYTHING,
    BaseFile,
    FileGroupId,
    FileSlice,
    LogFile,
    Visibility,
    parse_data_file,
)
from hoodoo.model.instant import Action, Instant, InstantTime, to_wall_ms
from hoodoo.model.paths import PartitionPath
from hoodoo.model.plans import CompactionOperation, CompactionPlan, CompactionStrategy, PlanTerms
from hoodoo.model.table import TableType
from hoodoo.read.base_files import SliceReadTask
from hoodoo.read.file_listing import data_files
from hoodoo.read.snapshot import take_snapshot
from hoodoo.rows import merge
from hoodoo.runtime.engine import Engine
from hoodoo.services.plans.execute import RewriteService, ServiceResult, run_rewrite
from hoodoo.services.plans.pending import (
    find_plans,
    find_yielding_plans,
    groups_in_plans,
    load_plans,
    schedule,
)
from hoodoo.table.ref import TableRef
from hoodoo.table.timeline import Timeline, now_wall_ms
from hoodoo.table.writable import reopen_for_writing
from hoodoo.write.files.context import WriteContext
from hoodoo.write.files.handle import HandleTask, run_handle
from hoodoo.write.index.destinations import FileGroupWrite, WriteKind

# -- choosing file groups -----------------------------------------------------------------------


_MB = 1024 * 1024
_PLAN_VERSION = 2
_STRATEGY_CLASSES = {
    CompactionChoice.LOG_SIZE: "LogFileSizeBasedCompactionStrategy",
    CompactionChoice.LOG_COUNT: "LogFileNumBasedCompactionStrategy",
    CompactionChoice.BOUNDED_IO: "BoundedIOCompactionStrategy",
    CompactionChoice.ALL: "UnBoundedCompactionStrategy",
    CompactionChoice.DAYS: "DayBasedCompactionStrategy",
    CompactionChoice.BOUNDED_DAYS: "BoundedPartitionAwareCompactionStrategy",
    CompactionChoice.UNBOUNDED_DAYS: "UnBoundedPartitionAwareCompactionStrategy",
}
_PACKAGE = "org.apache.hudi.table.action.compact.strategy"
_UNBOUNDED_CHOICES = frozenset({CompactionChoice.ALL, CompactionChoice.UNBOUNDED_DAYS})
_BY_DAYS = frozenset({CompactionChoice.DAYS, CompactionChoice.BOUNDED_DAYS})


@dataclass(frozen=True, slots=True)
class SinceCompaction:
    """What happened since the last compaction, or since the first delta commit."""

    delta_commits: int
    after_last_request: int
    """Delta commits since a compaction was requested, completed or not."""
    seconds: float


def is_due(config: Config, since: SinceCompaction) -> bool:
    """Whether a table is to be compacted, by the trigger of the settings."""
    is_many = since.delta_commits >= config.get(MAX_DELTA_COMMITS)
    is_long = since.delta_commits > 0 and since.seconds >= config.get(MAX_DELTA_SECONDS)
    match config.get(COMPACTION_TRIGGER):
        case CompactionTrigger.NUM_COMMITS:
            return is_many
        case CompactionTrigger.NUM_COMMITS_AFTER_LAST_REQUEST:
            return since.after_last_request >= config.get(MAX_DELTA_COMMITS)
        case CompactionTrigger.TIME_ELAPSED:
            return is_long
        case CompactionTrigger.NUM_AND_TIME:
            return is_many and is_long
        case CompactionTrigger.NUM_OR_TIME:
            return is_many or is_long


def plan_compaction(
    config: Config,
    slices: Iterable[FileSlice],
    *,
    busy: Collection[FileGroupId],
    terms: PlanTerms,
    file_bytes: int,
) -> CompactionPlan | None:
    """The compaction of these slices that have logs, by the settings; None if none is worth it.

    `busy` are file groups of other pending plans. `file_bytes` is how large a base file gets, for
    file groups that have only logs.
    """
    candidates = [s for s in slices if s.logs and s.group not in busy]
    slices_to_compact = choose_slices(config, candidates, file_bytes)
    if not slices_to_compact:
        return None
    choice = config.get(COMPACTION_CHOICE)
    name = _STRATEGY_CLASSES.get(choice, _STRATEGY_CLASSES[CompactionChoice.LOG_SIZE])
    return CompactionPlan(
        operations=tuple(describe_slice(each, file_bytes) for each in slices_to_compact),
        extra_metadata=terms.encode(),
        version=_PLAN_VERSION,
        strategy=CompactionStrategy(
            compactor_class_name=f"{_PACKAGE}.{name}", strategy_params={}, version=1
        ),
        preserve_hoodie_metadata=True,
    )


def describe_slice(each: FileSlice, file_bytes: int) -> CompactionOperation:
    """A slice as plans name it."""
    return CompactionOperation(
        base_instant_time=each.base_time,
        delta_file_paths=tuple(str(log.name) for log in each.logs),
        data_file_path=str(each.base.name) if each.base else None,
        file_id=each.group.file_id,
        partition_path=each.group.partition,
        metrics=_measure(each, file_bytes),
    )


def _measure(each: FileSlice, file_bytes: int) -> Mapping[str, float]:
    log_bytes = sum(log.size_bytes for log in each.logs)
    base_bytes = each.base.size_bytes if each.base else 0
    read_mb = (base_bytes + log_bytes) // _MB
    write_mb = (base_bytes or file_bytes) // _MB
    return {
        "TOTAL_LOG_FILES": float(len(each.logs)),
        "TOTAL_LOG_FILES_SIZE": float(log_bytes),
        "TOTAL_IO_READ_MB": float(read_mb),
        "TOTAL_IO_WRITE_MB": float(write_mb),
        "TOTAL_IO_MB": float(read_mb + write_mb),
    }


def _select_partitions(config: Config, slices: Sequence[FileSlice]) -> Sequence[FileSlice]:
    pattern = config.get(PARTITION_REGEX)
    if pattern:
        try:
            matches = re.compile(pattern).fullmatch
        except re.error as error:
            raise ConfigError(key=PARTITION_REGEX.name, value=pattern, reason=str(error)) from None
        slices = [s for s in slices if matches(s.group.partition)]
    if config.get(COMPACTION_CHOICE) in _BY_DAYS:
        latest = sorted({s.group.partition for s in slices}, key=_by_day, reverse=True)
        target_partitions = frozenset(latest[: config.get(TARGET_PARTITIONS)])
        slices = [s for s in slices if s.group.partition in target_partitions]
    return slices


def _by_day(partition: PartitionPath) -> str:
    """Partitions named by day sort by the digits of their names."""
    return re.sub(r"\D", "", partition)


def choose_slices(config: Config, slices: Sequence[FileSlice], file_bytes: int) -> list[FileSlice]:
    """Those of the partitions that are wanted, the first in line, within the bound."""
    slices = _select_partitions(config, slices)
    choice = config.get(COMPACTION_CHOICE)
    if choice is CompactionChoice.LOG_SIZE:
        least = config.get(LOG_SIZE_THRESHOLD)
        slices = [s for s in slices if _log_bytes(s) >= least]
        slices = sorted(slices, key=_log_bytes, reverse=True)
    elif choice is CompactionChoice.LOG_COUNT:
        least = config.get(LOG_COUNT_THRESHOLD)
        slices = [s for s in slices if len(s.logs) >= least]
        slices = sorted(slices, key=lambda s: len(s.logs), reverse=True)
    elif choice is CompactionChoice.AGE:
        slices = sorted(slices, key=lambda s: s.base_time)
    if choice in _UNBOUNDED_CHOICES:
        return list(slices)
    return _take_within(slices, config.get(TARGET_IO_MB), file_bytes)


def _log_bytes(each: FileSlice) -> int:
    return sum(log.size_bytes for log in each.logs)


def _take_within(slices: Iterable[FileSlice], budget_mb: int, file_bytes: int) -> list[FileSlice]:
    """The first slices until the bound on bytes is reached; one at least."""
    affordable_slices, budget_left_mb = [], float(budget_mb)
    for each in slices:
        if budget_left_mb <= 0:
            break
        affordable_slices.append(each)
        budget_left_mb -= _measure(each, file_bytes)["TOTAL_IO_MB"]
    return affordable_slices


# -- scheduling and running ---------------------------------------------------------------------


def schedule_compaction(ref: TableRef, *, terms: PlanTerms | None = None) -> Instant | None:
    """Plan a compaction of the file groups that have logs; None if there is nothing to compact."""
    ref = reopen_for_writing(ref)
    _refuse_without_logs(ref)
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


def load_activity_since_compaction(ref: TableRef, timeline: Timeline) -> SinceCompaction:
    """Delta commits, and the time, since the last compaction."""
    compactions = [
        i
        for i in timeline
        if i.action is Action.COMPACTION or (i.is_completed and i.action is Action.COMMIT)
    ]
    completed_compactions = [i for i in compactions if i.is_completed]
    last_done = (
        completed_compactions[-1].requested_time if completed_compactions else InstantTime("")
    )
    last_requested = compactions[-1].requested_time if compactions else InstantTime("")
    deltas = [i for i in timeline.commits if i.action is Action.DELTA_COMMIT]
    since = [i for i in deltas if i.completion_or_requested_time > last_done]
    began = last_done or (since[0].requested_time if since else None)
    elapsed_ms = (
        now_wall_ms(ref.env.clock, ref.properties.timeline_zone) - to_wall_ms(began) if began else 0
    )
    return SinceCompaction(
        delta_commits=len(since),
        after_last_request=sum(i.completion_or_requested_time > last_requested for i in deltas),
        seconds=elapsed_ms / 1000,
    )


# -- executing ----------------------------------------------------------------------------------


def build_tasks(context: WriteContext, plan: Metadata) -> list[HandleTask]:
    """A handle for each operation: the rows of its slice become the group's next base file."""
    assert isinstance(plan, CompactionPlan)
    sizes = load_file_sizes(context.ref, plan.operations)
    return [
        _build_task(context, number, operation, sizes)
        for number, operation in enumerate(plan.operations)
    ]


def load_file_sizes(ref: TableRef, operations: Iterable[CompactionOperation]) -> dict[str, int]:
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


def read_slice_of_plan(context: WriteContext, slice_: FileSlice) -> SliceReadTask:
    """How to read a slice all of whose logs count."""
    times = {log.name.instant_time for log in slice_.logs}
    visibility = Visibility({time: time for time in times})
    if context.ref.properties.has_appended_logs:  # blocks are of other instants than in the name
        visibility = EVERYTHING
    return SliceReadTask(context.ref.env, slice_, context.read_rule, visibility)


def digest_of(operation: CompactionOperation) -> Digest:
    """Of the files that an operation reads: they never change."""
    names = "\n".join(filter(None, (operation.data_file_path, *(operation.delta_file_paths or ()))))
    return Digest(len(operation.delta_file_paths or ()), zlib.crc32(names.encode()))


def no_changes(context: WriteContext) -> merge.Changes:
    """What a handle of a service merges in: nothing."""
    schema = context.schema.append(pa.field(RECORD_KEY, pa.string()))
    rows = schema.empty_table()
    return merge.upserts(rows, rows.column(RECORD_KEY), context.ref.properties.merge)


COMPACTION = RewriteService(
    Action.COMPACTION, InstantKind.COMPACTION, OperationType.COMPACT, build_tasks, run_handle
)
