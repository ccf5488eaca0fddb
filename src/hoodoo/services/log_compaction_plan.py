"""Which file groups have their logs compacted: pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from hoodoo.config.compaction import LOG_BLOCKS_THRESHOLD
from hoodoo.config.resolve import Config
from hoodoo.model.files import FileGroupId, FileSlice
from hoodoo.model.instant import InstantTime
from hoodoo.model.plan import CompactionPlan, CompactionStrategy
from hoodoo.model.plan_terms import PlanTerms
from hoodoo.services.compaction_plan import choose_slices, describe_slice

_PLAN_VERSION = 2
_EXECUTOR = "org.apache.hudi.table.action.compact.LogCompactionExecutionHelper"


def plan_log_compaction(
    config: Config,
    slices: Iterable[FileSlice],
    *,
    busy: Collection[FileGroupId],
    compacted: Collection[InstantTime],
    terms: PlanTerms,
) -> CompactionPlan | None:
    """The log compaction of the slices that have enough logs, by the settings; None if none has.

    `busy` are file groups of other pending plans and of writes in progress. `compacted` are the
    instants of log compactions, whose logs stand for all before them.
    """
    least = config.get(LOG_BLOCKS_THRESHOLD)
    candidates = [s for s in slices if s.group not in busy and count_logs(s, compacted) >= least]
    chosen = choose_slices(config, candidates, 0)
    if not chosen:
        return None
    return CompactionPlan(
        operations=tuple(describe_slice(each, 0) for each in chosen),
        extra_metadata=terms.encode(),
        version=_PLAN_VERSION,
        strategy=CompactionStrategy(compactor_class_name=_EXECUTOR, strategy_params={}, version=1),
        preserve_hoodie_metadata=True,
    )


def count_logs(each: FileSlice, compacted: Collection[InstantTime]) -> int:
    """The log files that a reader of the slice has to read."""
    for count, log in enumerate(reversed(each.logs), start=1):
        if log.name.instant_time in compacted:
            return count
    return len(each.logs)
