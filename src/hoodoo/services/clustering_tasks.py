"""From a clustering plan to tasks: the slices that it names, as they are in the table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256

from hoodoo.errors import FormatError, PlanNotExecutable, Unsupported
from hoodoo.format.completion import Digest
from hoodoo.format.timeline import Metadata
from hoodoo.model.files import FileGroupId, FileSlice
from hoodoo.model.layout import RowOrder
from hoodoo.model.names import FileId
from hoodoo.model.paths import PartitionPath
from hoodoo.model.plan import ClusteringGroup, ClusteringPlan, RequestedReplaceMetadata, SliceInfo
from hoodoo.services.cluster_group import ClusterTask
from hoodoo.services.clustering_plan import check_order, read_order, refuse_buckets
from hoodoo.table.read import slice_reads
from hoodoo.table.snapshot import Snapshot, take_snapshot
from hoodoo.write.context import WriteContext
from hoodoo.write.meta_columns import SAME_FOR_ALL

_MOVES_BUCKETS = "ConsistentBucket", "ConsistentHashing"


def clustering_plan_of(requested: Metadata | None) -> ClusteringPlan:
    """The plan that the requested file of a clustering holds."""
    match requested:
        case RequestedReplaceMetadata(clustering_plan=plan) if plan is not None:
            return plan
    raise FormatError("no clustering plan in it")


def build_tasks(context: WriteContext, requested: Metadata) -> list[ClusterTask]:
    """One task for each group of a plan. Raises `PlanNotExecutable`, `Unsupported`."""
    ref, plan = context.ref, clustering_plan_of(requested)
    refuse_buckets(ref)
    _refuse_strategy(plan)
    snapshot, order = take_snapshot(ref), read_order(plan, ref.config)
    check_order(snapshot, order)
    known = {group.id: group.slices for group in snapshot.groups}
    return [
        _build_task(context, snapshot, number, group, order, known)
        for number, group in enumerate(plan.input_groups)
        if group.slices
    ]


def _refuse_strategy(plan: ClusteringPlan) -> None:
    """Fail on plans to split or merge buckets: other rows of a table go by them."""
    strategy = (plan.strategy.strategy_class_name if plan.strategy else None) or ""
    if any(name in strategy for name in _MOVES_BUCKETS):
        raise Unsupported(f"a clustering by {strategy.rpartition('.')[2]} is not executed")


def _build_task(
    context: WriteContext,
    snapshot: Snapshot,
    number: int,
    group: ClusteringGroup,
    order: RowOrder,
    known: Mapping[FileGroupId, tuple[FileSlice, ...]],
) -> ClusterTask:
    slices = [_find_slice(info, known) for info in group.slices]
    rule = context.read_rule
    columns = tuple(name for name in rule.columns if name not in SAME_FOR_ALL)
    return ClusterTask(
        context=context,
        number=number,
        partition=slices[0].group.partition,
        reads=tuple(slice_reads(snapshot, replace(rule, columns=columns), slices)),
        outputs=max(group.num_output_file_groups or 1, 1),
        order=order,
        digest=_digest(group, order),
    )


def _find_slice(info: SliceInfo, known: Mapping[FileGroupId, tuple[FileSlice, ...]]) -> FileSlice:
    """The slice with the files that a plan names, and no others: logs may have come since."""
    if info.file_id is None:
        raise FormatError("a clustering plan with a slice that has no file id")
    group = FileGroupId(info.partition_path or PartitionPath(""), info.file_id)
    base, *logs = _file_names(info)
    for slice_ in known.get(group, ()):
        planned = tuple(log for log in slice_.logs if str(log.name) in logs)
        is_base = (str(slice_.base.name) if slice_.base else "") == base
        if is_base and len(planned) == len(logs):
            return FileSlice(group, slice_.base_time, slice_.base, planned)
    raise PlanNotExecutable(f"files of {group} that the plan names are gone: plan it anew")


def _file_names(info: SliceInfo) -> list[str]:
    """The name of the base file, "" for none, then those of the log files."""
    files = (info.data_file_path or "", *(info.delta_file_paths or ()))
    return [path.rpartition("/")[2] for path in files]


def _digest(group: ClusteringGroup, order: RowOrder) -> Digest:
    """What a task was asked to do, in two numbers: the slices, and a hash of all that counts."""
    files = [[info.file_id, *_file_names(info)] for info in group.slices]
    text = repr((str(order), group.num_output_file_groups, files))
    return Digest(len(files), int.from_bytes(sha256(text.encode()).digest()[:8], "little"))


def replaced_groups(requested: Metadata) -> dict[PartitionPath, tuple[FileId, ...]]:
    """The file groups that are gone once a clustering is completed."""
    file_ids: dict[PartitionPath, list[FileId]] = {}
    groups = clustering_plan_of(requested).file_groups()
    for group in sorted(groups, key=lambda each: (each.partition, each.file_id)):
        file_ids.setdefault(group.partition, []).append(group.file_id)
    return {partition: tuple(ids) for partition, ids in file_ids.items()}
