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
from hoodoo.config.key import Config
from hoodoo.config.services import UPKEEP_POLICY
from hoodoo.errors import ObjectNotFound
from hoodoo.model.commit import OperationType
from hoodoo.model.instant import Action, Instant
from hoodoo.model.plans import PlanPolicy, PlanTerms
from hoodoo.model.table import TableType
from hoodoo.runtime.engine import Engine
from hoodoo.services.clustering.clustering import run_clustering, schedule_clustering
from hoodoo.services.compaction.compaction import (
    is_due,
    load_activity_since_compaction,
    run_compaction,
    schedule_compaction,
)
from hoodoo.services.compaction.log_compaction import run_log_compaction, schedule_log_compaction
from hoodoo.services.plans.execute import ServiceResult
from hoodoo.services.plans.pending import build_terms
from hoodoo.table.ref import TableRef
from hoodoo.table.timeline import Timeline, read_commit
from hoodoo.write.index import index_of

RunPlan = Callable[
    [TableRef, str | None, Engine, Callable[[int, int], None] | None], ServiceResult | None
]


@dataclass(frozen=True, slots=True)
class ServiceSwitches:
    """What is done about a service: plans are made, plans are run."""

    plans: bool
    runs: bool


@dataclass(frozen=True, slots=True)
class PlannedService:
    """A service whose plans wait on the timeline for whoever runs them."""

    action: Action
    is_applicable: Callable[[TableRef], bool]
    """Whether the table can need it at all."""
    is_due: Callable[[TableRef, Timeline], bool]
    schedule: Callable[[TableRef, PlanTerms], Instant | None]
    terms: Callable[[Config], PlanTerms]
    """Those of plans that nobody asked for by hand."""
    run: RunPlan
    inline_switches: Callable[[Config], ServiceSwitches]
    """What a writer does about it."""
    standalone_switches: Callable[[Config], ServiceSwitches]
    """What a process of its own does about it."""


def _is_merge_on_read(ref: TableRef) -> bool:
    return ref.properties.type is TableType.MERGE_ON_READ


def _is_compaction_due(ref: TableRef, timeline: Timeline) -> bool:
    return is_due(ref.config, load_activity_since_compaction(ref, timeline))


def _compact_after_commit(config: Config) -> ServiceSwitches:
    only_plans = config.get(SCHEDULE_INLINE)
    inline = config.get(COMPACT_INLINE)
    return ServiceSwitches(plans=inline or only_plans, runs=inline and not only_plans)


def _is_log_compaction_due(ref: TableRef, timeline: Timeline) -> bool:
    """Whether enough was appended since the last compaction of either kind."""
    least = ref.config.get(LOG_BLOCKS_THRESHOLD)
    latest = timeline.commits.instants[-least:]
    return (
        len(latest) == least
        and all(commit.action is Action.DELTA_COMMIT for commit in latest)
        and not any(_is_operation(ref, commit, OperationType.LOG_COMPACT) for commit in latest)
    )


def _log_compact_after_commit(config: Config) -> ServiceSwitches:
    inline = config.get(LOG_COMPACT_INLINE)
    return ServiceSwitches(plans=inline, runs=inline)


def _log_compact_apart(config: Config) -> ServiceSwitches:
    plans = config.get(LOG_COMPACT_INLINE) or config.get(LOG_COMPACT_ENABLE)
    return ServiceSwitches(plans=plans, runs=True)


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
        metadata = read_commit(ref.env, ref.properties.timeline_paths, commit)
    except ObjectNotFound:  # archived meanwhile
        return False
    return metadata.operation is operation


def _cluster_after_commit(config: Config) -> ServiceSwitches:
    runs = config.get(CLUSTER_INLINE)
    return ServiceSwitches(plans=runs or _plans_clusterings(config), runs=runs)


def _cluster_apart(config: Config) -> ServiceSwitches:
    return ServiceSwitches(
        plans=config.get(CLUSTER_INLINE) or _plans_clusterings(config), runs=True
    )


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
        is_applicable=_is_merge_on_read,
        is_due=_is_compaction_due,
        schedule=lambda ref, terms: schedule_compaction(ref, terms=terms),
        terms=lambda config: PlanTerms(),
        run=run_compaction,
        inline_switches=_compact_after_commit,
        standalone_switches=lambda config: ServiceSwitches(plans=True, runs=True),
    ),
    PlannedService(
        Action.LOG_COMPACTION,
        is_applicable=_is_merge_on_read,
        is_due=_is_log_compaction_due,
        schedule=lambda ref, terms: schedule_log_compaction(ref, terms=terms),
        terms=_terms_of_settings,
        run=run_log_compaction,
        inline_switches=_log_compact_after_commit,
        standalone_switches=_log_compact_apart,
    ),
    PlannedService(
        Action.CLUSTERING,
        is_applicable=_has_no_buckets,
        is_due=_is_clustering_due,
        schedule=lambda ref, terms: schedule_clustering(ref, terms=terms),
        terms=_terms_of_settings,
        run=run_clustering,
        inline_switches=_cluster_after_commit,
        standalone_switches=_cluster_apart,
    ),
)
"""In the order in which they run."""
