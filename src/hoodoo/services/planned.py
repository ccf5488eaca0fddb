"""The services that plan first and run later, as upkeep sees them: when, and by which switches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hoodoo.config.clustering import (
    CLUSTER_ASYNC,
    CLUSTER_INLINE,
    CLUSTER_MAX_COMMITS,
    CLUSTER_SCHEDULE_INLINE,
)
from hoodoo.config.compaction import (
    COMPACT_INLINE,
    LOG_BLOCKS_THRESHOLD,
    LOG_COMPACT_ENABLE,
    LOG_COMPACT_INLINE,
    SCHEDULE_INLINE,
)
from hoodoo.config.resolve import Config
from hoodoo.config.services import UPKEEP_POLICY
from hoodoo.engine.engine import Engine
from hoodoo.errors import NotFound
from hoodoo.index import index_of
from hoodoo.model.commit import OperationType
from hoodoo.model.instant import Action, Instant
from hoodoo.model.plan import PlanPolicy
from hoodoo.model.plan_terms import PlanTerms
from hoodoo.model.table import TableType
from hoodoo.services.clustering import run_clustering, schedule_clustering
from hoodoo.services.compaction import look_back, run_compaction, schedule_compaction
from hoodoo.services.compaction_plan import is_due
from hoodoo.services.log_compaction import run_log_compaction, schedule_log_compaction
from hoodoo.services.rewrite import ServiceResult
from hoodoo.services.terms import build_terms
from hoodoo.table.ref import TableRef
from hoodoo.timeline.load import read_commit
from hoodoo.timeline.timeline import Timeline

RunPlan = Callable[
    [TableRef, str | None, Engine, Callable[[int, int], None] | None], ServiceResult | None
]


@dataclass(frozen=True, slots=True)
class Switches:
    """What is done about a service: plans are made, plans are run."""

    plans: bool
    runs: bool


@dataclass(frozen=True, slots=True)
class PlannedService:
    """A service whose plans wait on the timeline for whoever runs them."""

    action: Action
    suits: Callable[[TableRef], bool]
    """Whether the table can need it at all."""
    is_due: Callable[[TableRef, Timeline], bool]
    schedule: Callable[[TableRef, PlanTerms], Instant | None]
    terms: Callable[[Config], PlanTerms]
    """Those of plans that nobody asked for by hand."""
    run: RunPlan
    after_commit: Callable[[Config], Switches]
    """What a writer does about it."""
    apart: Callable[[Config], Switches]
    """What a process of its own does about it."""


def _is_merge_on_read(ref: TableRef) -> bool:
    return ref.properties.type is TableType.MERGE_ON_READ


def _is_compaction_due(ref: TableRef, timeline: Timeline) -> bool:
    return is_due(ref.config, look_back(ref, timeline))


def _compact_after_commit(config: Config) -> Switches:
    only_plans = config.get(SCHEDULE_INLINE)
    inline = config.get(COMPACT_INLINE)
    return Switches(plans=inline or only_plans, runs=inline and not only_plans)


def _is_log_compaction_due(ref: TableRef, timeline: Timeline) -> bool:
    """Whether enough was appended since the last compaction of either kind."""
    least = ref.config.get(LOG_BLOCKS_THRESHOLD)
    latest = timeline.commits.instants[-least:]
    return (
        len(latest) == least
        and all(commit.action is Action.DELTA_COMMIT for commit in latest)
        and not any(_is_operation(ref, commit, OperationType.LOG_COMPACT) for commit in latest)
    )


def _log_compact_after_commit(config: Config) -> Switches:
    inline = config.get(LOG_COMPACT_INLINE)
    return Switches(plans=inline, runs=inline)


def _log_compact_apart(config: Config) -> Switches:
    plans = config.get(LOG_COMPACT_INLINE) or config.get(LOG_COMPACT_ENABLE)
    return Switches(plans=plans, runs=True)


def _has_no_buckets(ref: TableRef) -> bool:
    return index_of(ref).buckets is None


def _is_clustering_due(ref: TableRef, timeline: Timeline) -> bool:
    """Whether enough was committed since the last clustering."""
    least = ref.config.get(CLUSTER_MAX_COMMITS)
    latest = timeline.commits.instants[-least:]
    return len(latest) == least and not any(
        commit.action is Action.REPLACE_COMMIT and _is_operation(ref, commit, OperationType.CLUSTER)
        for commit in latest
    )


def _is_operation(ref: TableRef, commit: Instant, operation: OperationType) -> bool:
    try:
        metadata = read_commit(ref.env, ref.properties.timeline, commit)
    except NotFound:  # archived meanwhile
        return False
    return metadata.operation is operation


def _cluster_after_commit(config: Config) -> Switches:
    runs = config.get(CLUSTER_INLINE)
    return Switches(plans=runs or _plans_clusterings(config), runs=runs)


def _cluster_apart(config: Config) -> Switches:
    return Switches(plans=config.get(CLUSTER_INLINE) or _plans_clusterings(config), runs=True)


def _plans_clusterings(config: Config) -> bool:
    return config.get(CLUSTER_SCHEDULE_INLINE) or config.get(CLUSTER_ASYNC)


def _terms_of_settings(config: Config) -> PlanTerms:
    policy = config.get(UPKEEP_POLICY)
    return build_terms(
        cancellable=policy is PlanPolicy.CANCELLABLE, removable=policy is PlanPolicy.REMOVABLE
    )


PLANNED_SERVICES = (
    PlannedService(
        Action.COMPACTION,
        suits=_is_merge_on_read,
        is_due=_is_compaction_due,
        schedule=lambda ref, terms: schedule_compaction(ref, terms=terms),
        terms=lambda config: PlanTerms(),
        run=run_compaction,
        after_commit=_compact_after_commit,
        apart=lambda config: Switches(plans=True, runs=True),
    ),
    PlannedService(
        Action.LOG_COMPACTION,
        suits=_is_merge_on_read,
        is_due=_is_log_compaction_due,
        schedule=lambda ref, terms: schedule_log_compaction(ref, terms=terms),
        terms=_terms_of_settings,
        run=run_log_compaction,
        after_commit=_log_compact_after_commit,
        apart=_log_compact_apart,
    ),
    PlannedService(
        Action.CLUSTERING,
        suits=_has_no_buckets,
        is_due=_is_clustering_due,
        schedule=lambda ref, terms: schedule_clustering(ref, terms=terms),
        terms=_terms_of_settings,
        run=run_clustering,
        after_commit=_cluster_after_commit,
        apart=_cluster_apart,
    ),
)
"""In the order in which they run."""
