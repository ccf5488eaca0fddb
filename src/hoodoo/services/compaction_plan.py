"""Which file groups of a merge-on-read table are compacted, and whether it is time to: pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

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
from hoodoo.config.resolve import Config
from hoodoo.errors import ConfigError
from hoodoo.model.files import FileGroupId, FileSlice
from hoodoo.model.paths import PartitionPath
from hoodoo.model.plan import CompactionOperation, CompactionPlan, CompactionStrategy
from hoodoo.model.plan_terms import PlanTerms

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
_UNBOUNDED = frozenset({CompactionChoice.ALL, CompactionChoice.UNBOUNDED_DAYS})
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
    chosen = _choose(config, _select_partitions(config, candidates), file_bytes)
    if not chosen:
        return None
    choice = config.get(COMPACTION_CHOICE)
    name = _STRATEGY_CLASSES.get(choice, _STRATEGY_CLASSES[CompactionChoice.LOG_SIZE])
    return CompactionPlan(
        operations=tuple(describe_slice(each, file_bytes) for each in chosen),
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
        kept = frozenset(latest[: config.get(TARGET_PARTITIONS)])
        slices = [s for s in slices if s.group.partition in kept]
    return slices


def _by_day(partition: PartitionPath) -> str:
    """Partitions named by day sort by the digits of their names."""
    return re.sub(r"\D", "", partition)


def _choose(config: Config, slices: Sequence[FileSlice], file_bytes: int) -> list[FileSlice]:
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
    if choice in _UNBOUNDED:
        return list(slices)
    return _take_within(slices, config.get(TARGET_IO_MB), file_bytes)


def _log_bytes(each: FileSlice) -> int:
    return sum(log.size_bytes for log in each.logs)


def _take_within(slices: Iterable[FileSlice], budget_mb: int, file_bytes: int) -> list[FileSlice]:
    """The first slices until the bound on bytes is reached; one at least."""
    taken, left = [], float(budget_mb)
    for each in slices:
        if left <= 0:
            break
        taken.append(each)
        left -= _measure(each, file_bytes)["TOTAL_IO_MB"]
    return taken
