"""Between a clustering plan and its executors: the tasks of a plan, and the commit of its results."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from hashlib import sha256

from hoodoo.concurrency.others import WRITER_KEY
from hoodoo.errors import FormatError, PlanNotExecutable, Unsupported
from hoodoo.format.completion import Digest
from hoodoo.format.schema import avro_from_arrow, with_meta_fields, without_meta_fields
from hoodoo.model.commit import SCHEMA_KEY, OperationType, ReplaceCommitMetadata
from hoodoo.model.files import FileGroupId, FileSlice
from hoodoo.model.instant import InstantTime
from hoodoo.model.layout import RowOrder
from hoodoo.model.names import FileId
from hoodoo.model.paths import PartitionPath
from hoodoo.model.plan import ClusteringGroup, ClusteringPlan, SliceInfo
from hoodoo.model.stats import WriteStat, by_partition
from hoodoo.services.cluster_group import ClusterTask
from hoodoo.services.clustering_plan import ORDER_KEY, check_order, read_order, refuse_buckets
from hoodoo.table.read import slice_reads
from hoodoo.table.read_rule import build_read_rule
from hoodoo.table.snapshot import Snapshot
from hoodoo.write.context import WriteContext
from hoodoo.write.meta_columns import SAME_FOR_ALL

_KEEPS_BUCKETS = "ConsistentBucket", "ConsistentHashing"


def build_context(
    snapshot: Snapshot, time: InstantTime, *, epoch: int, owner: str, repeats: bool
) -> WriteContext:
    """What all groups of a clustering share: rows are read and written in the table's schema."""
    ref, schema = snapshot.ref, without_meta_fields(snapshot.schema)
    full = with_meta_fields(schema)
    columns = tuple(name for name in full.names if name not in SAME_FOR_ALL)
    return WriteContext(
        ref=ref,
        requested_time=time,
        by_key=False,
        schema=schema,
        schema_json=avro_from_arrow(schema, ref.properties.name),
        read_rule=build_read_rule(ref.properties, full, columns),
        epoch=epoch,
        repeats=repeats,
        write_id=f"{time}/{owner}",
    )


def build_tasks(
    snapshot: Snapshot, plan: ClusteringPlan, context: WriteContext
) -> list[ClusterTask]:
    """One task for each group of a plan. Raises `PlanNotExecutable`, `Unsupported`."""
    ref = snapshot.ref
    refuse_buckets(ref)
    strategy = (plan.strategy.strategy_class_name if plan.strategy else None) or ""
    if any(name in strategy for name in _KEEPS_BUCKETS):
        raise Unsupported(f"a clustering by {strategy.rpartition('.')[2]} is not executed")
    order = read_order(plan, ref.config)
    check_order(snapshot, order)
    find = _SliceFinder(snapshot)
    tasks = []
    for number, group in enumerate(plan.input_groups):
        slices = [find(info) for info in group.slices]
        if not slices:
            continue
        task = ClusterTask(
            context=context,
            number=number,
            partition=slices[0].group.partition,
            reads=tuple(slice_reads(snapshot, context.read_rule, slices)),
            outputs=max(group.num_output_file_groups or 1, 1),
            order=order,
            digest=_digest(group, order),
        )
        tasks.append(task)
    return tasks


class _SliceFinder:
    """Finds the slices of a plan among those of a table."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._slices = {group.id: group.slices for group in snapshot.groups}

    def __call__(self, info: SliceInfo) -> FileSlice:
        """The slice with the files that a plan names, and no others."""
        partition = info.partition_path or PartitionPath("")
        if info.file_id is None:
            raise FormatError("a clustering plan with a slice that has no file id")
        base, logs = _file_name(info.data_file_path), set(map(_file_name, info.delta_file_paths or ()))
        group = FileGroupId(partition, info.file_id)
        for slice_ in self._slices.get(group, ()):
            is_base = (str(slice_.base.name) if slice_.base else "") == base
            known = tuple(log for log in slice_.logs if str(log.name) in logs)
            if is_base and len(known) == len(logs):
                return FileSlice(group, slice_.base_time, slice_.base, known)
        raise PlanNotExecutable(f"files of {group} that the plan names are gone: plan it anew")


def _file_name(path: str | None) -> str:
    return (path or "").rpartition("/")[2]


def _digest(group: ClusteringGroup, order: RowOrder) -> Digest:
    """What a task was asked to do, in two numbers: the slices, and a hash of all that counts."""
    files = [
        [info.file_id or "", _file_name(info.data_file_path), *map(_file_name, info.delta_file_paths or ())]
        for info in group.slices
    ]
    text = repr((str(order), group.num_output_file_groups, files))
    return Digest(len(files), int.from_bytes(sha256(text.encode()).digest()[:8], "little"))


def build_metadata(
    context: WriteContext, plan: ClusteringPlan, stats: Iterable[WriteStat]
) -> ReplaceCommitMetadata:
    """The commit of a clustering: the files that it wrote, the file groups that it replaces."""
    order, ref = read_order(plan, context.ref.config), context.ref
    extra = {SCHEMA_KEY: context.schema_json, WRITER_KEY: str(ref.env.ids.process())}
    if order.columns:
        extra[ORDER_KEY] = str(order)
    return ReplaceCommitMetadata(
        partition_to_write_stats=by_partition(stats),
        extra_metadata=extra,
        operation_type=OperationType.CLUSTER,
        partition_to_replace_file_ids=_group_by_partition(plan.file_groups()),
    )


def _group_by_partition(
    groups: Collection[FileGroupId],
) -> dict[PartitionPath, tuple[FileId, ...]]:
    file_ids: dict[PartitionPath, list[FileId]] = {}
    for group in sorted(groups, key=lambda each: (each.partition, each.file_id)):
        file_ids.setdefault(group.partition, []).append(group.file_id)
    return {partition: tuple(ids) for partition, ids in file_ids.items()}
