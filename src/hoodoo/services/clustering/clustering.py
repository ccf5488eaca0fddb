"""Clustering: rows of many small files become few large ones, in an order that helps readers.

Nobody who reads the table sees a difference but in speed: not now, not as of an earlier instant,
and not in what changed since one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from hoodoo.concurrency.conflicts.changes_since import load_concurrent_instant
from hoodoo.concurrency.conflicts.rules import ConcurrentInstant, InstantKind
from hoodoo.config.clustering import CLUSTER_LAYOUT, CLUSTER_SORT_COLUMNS
from hoodoo.errors import InputError, ObjectNotFound
from hoodoo.format.timeline.instant_files import Metadata
from hoodoo.model.commit import OperationType
from hoodoo.model.files import FileGroupId
from hoodoo.model.instant import Action, Instant, InstantTime, State
from hoodoo.model.plans import Layout, PlanTerms, RequestedReplaceMetadata, RowOrder
from hoodoo.read.snapshot import take_snapshot
from hoodoo.runtime.engine import Engine
from hoodoo.services.clustering.plan import plan_clustering, read_order, refuse_buckets
from hoodoo.services.clustering.tasks import (
    build_tasks,
    cluster_group,
    clustering_plan_of,
    replaced_groups,
)
from hoodoo.services.plans.cancel import count_cancels, find_hot_groups
from hoodoo.services.plans.execute import RewriteService, ServiceResult, run_rewrite
from hoodoo.services.plans.pending import find_plans, find_yielding_plans, schedule
from hoodoo.table.ref import TableRef
from hoodoo.table.timeline import Timeline, read_plan
from hoodoo.table.writable import reopen_for_writing

CLUSTERING = RewriteService(
    Action.CLUSTERING,
    InstantKind.CLUSTERING,
    OperationType.CLUSTER,
    build_tasks,
    cluster_group,
    replaced_groups,
)


def schedule_clustering(
    ref: TableRef,
    *,
    order_by: str | Sequence[str] | None = None,
    layout: str | None = None,
    terms: PlanTerms | None = None,
) -> Instant | None:
    """Plan a clustering; None if there is nothing to gain.

    `order_by` and `layout` are those of the settings, unless they are given. File groups that
    other plans are about, and those that writes in progress update, are left alone; only plans
    that may be cancelled yield to one that is there to stay.
    """
    ref = reopen_for_writing(ref)
    refuse_buckets(ref)
    order, mine = _choose_order(ref, order_by, layout), terms or PlanTerms()
    build = partial(_build_plan, ref, order, mine)
    if not mine.is_persistent:
        return schedule(ref, Action.CLUSTERING, build)
    return schedule(ref, Action.CLUSTERING, build, find_yielding_plans)


def run_clustering(
    ref: TableRef,
    instant: str | None,
    engine: Engine,
    progress: Callable[[int, int], None] | None = None,
) -> ServiceResult | None:
    """Execute a clustering, the oldest pending one if none is named; None if there is none."""
    if instant is None:
        pending = find_plans(ref.load_timeline(), Action.CLUSTERING)
        if not pending:
            return None
        instant = pending[0].requested_time
    return run_rewrite(ref, CLUSTERING, instant, engine, progress)


def _choose_order(
    ref: TableRef, order_by: str | Sequence[str] | None, layout: str | None
) -> RowOrder:
    """The order that a caller asks for, or else the settings. Raises `InputError`."""
    names = (order_by,) if isinstance(order_by, str) else order_by
    columns = ref.config.get(CLUSTER_SORT_COLUMNS) if names is None else tuple(names)
    if layout is None:
        return RowOrder(columns, ref.config.get(CLUSTER_LAYOUT))
    try:
        return RowOrder(columns, Layout(layout.lower()))
    except ValueError:
        layout_names = ", ".join(each.value for each in Layout)
        raise InputError(f"layout is one of {layout_names}, not {layout!r}") from None


def _build_plan(
    ref: TableRef, order: RowOrder, terms: PlanTerms, timeline: Timeline
) -> Metadata | None:
    """What the requested file of a clustering holds."""
    latest = timeline.completed.instants[-1].requested_time if timeline.completed else None
    plan = plan_clustering(
        take_snapshot(ref, timeline=timeline),
        order,
        busy=_find_busy_groups(ref, timeline, terms),
        ordered_by=_find_ordered(ref, timeline, order),
        policy=replace(terms, planned_on=latest).encode(),
        now_ms=ref.env.clock.now_ms(),
    )
    if plan is None:
        return None
    return RequestedReplaceMetadata(
        operation_type=OperationType.CLUSTER, clustering_plan=plan, extra_metadata={}
    )


def _find_busy_groups(
    ref: TableRef, timeline: Timeline, terms: PlanTerms
) -> frozenset[FileGroupId]:
    """File groups that this plan is to leave alone; one that yields also those that are hot."""
    others = [_load_pending(ref, instant) for instant in timeline.pending]
    busy = frozenset(
        group
        for other in others
        if other is not None and not (terms.is_persistent and other.is_cancellable)
        for group in other.group_effects
    )
    if not terms.is_cancellable:
        return busy
    return busy | find_hot_groups(ref, count_cancels(ref, timeline))


def _load_pending(ref: TableRef, instant: Instant) -> ConcurrentInstant | None:
    try:
        return load_concurrent_instant(ref.env, ref.properties.timeline_paths, instant)
    except ObjectNotFound:  # it has ended: then the plan is made again, as the table has moved
        return None


def _find_ordered(ref: TableRef, timeline: Timeline, order: RowOrder) -> set[InstantTime]:
    """Clusterings of the active timeline whose files have this order: their plans tell."""
    clustering_times = set()
    for instant in timeline.commits if order.columns else ():
        if instant.action is not Action.REPLACE_COMMIT:
            continue
        requested_instant = Instant(instant.requested_time, Action.CLUSTERING, State.REQUESTED)
        try:
            plan = read_plan(ref.env, ref.properties.timeline_paths, requested_instant)
        except ObjectNotFound:  # no clustering, or archived meanwhile
            continue
        if read_order(clustering_plan_of(plan), ref.config) == order:
            clustering_times.add(instant.requested_time)
    return clustering_times
