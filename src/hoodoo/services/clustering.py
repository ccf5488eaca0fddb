"""Clustering: rows of many small files become few large ones, in an order that helps readers.

Nobody who reads the table sees a difference but in speed: not now, not as of an earlier instant,
and not in what changed since one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hoodoo.concurrency.conflict import Kind, Mine, collect_touches
from hoodoo.concurrency.gate import Attempt, publish, request
from hoodoo.concurrency.heartbeat import take_over
from hoodoo.concurrency.others import load_other
from hoodoo.concurrency.transaction import transaction
from hoodoo.config.clustering import CLUSTER_LAYOUT, CLUSTER_SORT_COLUMNS
from hoodoo.engine.engine import Engine
from hoodoo.errors import InputError, NotFound
from hoodoo.format import timeline as codec
from hoodoo.format.schema import avro_from_arrow, with_meta_fields, without_meta_fields
from hoodoo.model.commit import SCHEMA_KEY, OperationType, ReplaceCommitMetadata
from hoodoo.model.files import FileGroupId
from hoodoo.model.instant import Action, Instant, InstantTime, State
from hoodoo.model.layout import Layout, RowOrder
from hoodoo.model.plan import RequestedReplaceMetadata
from hoodoo.model.stats import by_partition
from hoodoo.services.cluster_group import cluster_group
from hoodoo.services.clustering_plan import plan_clustering, read_order
from hoodoo.services.clustering_tasks import build_tasks, clustering_plan_of, replaced_groups
from hoodoo.table.read_rule import build_read_rule
from hoodoo.table.ref import TableRef
from hoodoo.table.snapshot import Snapshot, take_snapshot
from hoodoo.table.writable import reopen_for_writing
from hoodoo.timeline import transitions
from hoodoo.timeline.load import read_plan
from hoodoo.timeline.timeline import Timeline
from hoodoo.timeline.txn import new_time
from hoodoo.write.begin import check_conflicts
from hoodoo.write.context import WriteContext
from hoodoo.write.finalize import finalize


def choose_order(
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
        known = ", ".join(each.value for each in Layout)
        raise InputError(f"layout is one of {known}, not {layout!r}") from None


def make_plan(
    snapshot: Snapshot, order: RowOrder, policy: Mapping[str, str] | None = None
) -> RequestedReplaceMetadata | None:
    """What a requested clustering holds, by the table as it is; None if there is nothing to gain."""
    ref, timeline = snapshot.ref, snapshot.timeline
    plan = plan_clustering(
        snapshot,
        order,
        busy=load_busy_groups(ref, timeline),
        ordered_by=_find_ordered(ref, timeline, order),
        policy=policy,
        now_ms=ref.env.clock.now_ms(),
    )
    if plan is None:
        return None
    return RequestedReplaceMetadata(
        operation_type=OperationType.CLUSTER, clustering_plan=plan, extra_metadata={}
    )


def load_busy_groups(ref: TableRef, timeline: Timeline) -> frozenset[FileGroupId]:
    """File groups that pending plans are about, and those that writes in progress update."""
    busy: set[FileGroupId] = set()
    for instant in timeline.pending:
        try:
            other = load_other(ref.env, ref.properties.timeline, instant)
        except NotFound:  # it has ended meanwhile: the gate decides
            continue
        busy.update(other.touches if other else ())
    return frozenset(busy)


def _find_ordered(ref: TableRef, timeline: Timeline, order: RowOrder) -> set[InstantTime]:
    """Clusterings of the active timeline whose files have this order: their plans tell."""
    found = set()
    for instant in timeline.commits if order.columns else ():
        if instant.action is not Action.REPLACE_COMMIT:
            continue
        requested = Instant(instant.requested_time, Action.CLUSTERING, State.REQUESTED)
        try:
            plan = read_plan(ref.env, ref.properties.timeline, requested)
        except NotFound:  # no clustering, or archived meanwhile
            continue
        if read_order(clustering_plan_of(plan), ref.config) == order:
            found.add(instant.requested_time)
    return found


# -- until the life of plans is there -----------------------------------------------------------


def schedule_clustering(
    ref: TableRef,
    *,
    order_by: str | Sequence[str] | None = None,
    layout: str | None = None,
    policy: Mapping[str, str] | None = None,
) -> InstantTime | None:
    """Plan a clustering; None if there is nothing to gain."""
    ref = reopen_for_writing(ref)
    order = choose_order(ref, order_by, layout)
    with transaction(ref, "schedule clustering") as txn:
        requested = make_plan(take_snapshot(ref, timeline=txn.timeline), order, policy)
        if requested is None:
            return None
        data = codec.encode(requested)
        instant = request(txn, Action.CLUSTERING, ref.env.ids.uuid(), lambda: (new_time(txn), data))
        return instant.requested_time


def run_clustering(ref: TableRef, instant: str | None, engine: Engine) -> Instant:
    """Execute a plan."""
    ref = reopen_for_writing(ref)
    with transaction(ref, "clustering") as txn:
        waiting = [each for each in txn.timeline.pending if each.action is Action.CLUSTERING]
        found = next(each for each in waiting if instant in (None, each.requested_time))
        heartbeat = take_over(ref, found.requested_time, kind="clustering")
        inflight = transitions.start(txn, found)
    requested = read_plan(ref.env, ref.properties.timeline, found)
    assert requested is not None
    time, body = found.requested_time, heartbeat.body
    schema = without_meta_fields(take_snapshot(ref).schema)
    full = with_meta_fields(schema)
    context = WriteContext(
        ref=ref,
        requested_time=time,
        by_key=False,
        schema=schema,
        schema_json=avro_from_arrow(schema, ref.properties.name),
        read_rule=build_read_rule(ref.properties, full, tuple(full.names)),
        epoch=body.epoch,
        repeats=True,
        write_id=time,
    )
    tasks = build_tasks(context, requested)
    stats: Sequence = [stat for written in engine.map(cluster_group, tasks) for stat in written]
    stats = finalize(ref.env, time, stats, epoch=body.epoch, repeats=True)
    metadata = ReplaceCommitMetadata(
        partition_to_write_stats=by_partition(stats),
        extra_metadata={SCHEMA_KEY: context.schema_json},
        operation_type=OperationType.CLUSTER,
        partition_to_replace_file_ids=replaced_groups(requested),
    )

    def prepare_metadata() -> ReplaceCommitMetadata:
        mine = Mine(time, Kind.CLUSTERING, collect_touches(metadata))
        check_conflicts(txn, ref, mine, planned_on=txn.timeline.ended_until(time))
        return metadata

    with transaction(ref, "commit") as txn:
        completed = publish(txn, Attempt(inflight, heartbeat), prepare_metadata)
    heartbeat.end()
    return completed
