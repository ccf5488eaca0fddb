"""The executor side of a clustering: file slices -> new base files with the same rows.

`build_tasks` finds the slices that a plan names, as they are in the table. `cluster_group` needs
nothing but its task, and runs in this process or on Spark's executors. Rows keep their meta columns
but for the file's name. Without an order, row groups of base files without logs are copied as
bytes, unless they are small, and memory holds a piece of a slice; with an order, it holds the rows
of the group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

import pyarrow as pa

from hoodoo.errors import FormatError, PlanNotExecutable, UnsupportedFeature
from hoodoo.format.markers import Digest
from hoodoo.format.parquet.base_file import OpenParquet, can_copy_to
from hoodoo.format.timeline.instant_files import Metadata
from hoodoo.model.commit import RuntimeStats, WriteStat
from hoodoo.model.files import FileGroupId, FileSlice
from hoodoo.model.names import FileId, MarkerKind, new_file_id
from hoodoo.model.paths import PartitionPath
from hoodoo.model.plans import (
    ClusteringGroup,
    ClusteringPlan,
    RequestedReplaceMetadata,
    RowOrder,
    SliceInfo,
)
from hoodoo.read.base_files import SliceReadTask, open_base, read_base_pieces
from hoodoo.read.scan import read_slice_pieces, slice_reads
from hoodoo.read.snapshot import Snapshot, take_snapshot
from hoodoo.services.clustering.plan import check_order, read_order, refuse_buckets
from hoodoo.services.clustering.row_order import sort_rows
from hoodoo.write.files.base_files import BaseFiles, CopiedGroup
from hoodoo.write.files.context import WriteContext
from hoodoo.write.files.exactly_once import HandleOutput, write_handle_once
from hoodoo.write.files.meta_columns import SAME_FOR_ALL, stored_schema, to_stored_columns
from hoodoo.write.files.outputs import Outputs

# -- one group of slices ------------------------------------------------------------------------


_ROWS_AT_ONCE = 131_072
_MOST_BYTES_OF_SHORT_TEXTS = 1 << 31
"""Beyond that, texts of one array need wide offsets."""

_SMALL = 8
"""Row groups smaller than this part of what a row group may have are put together."""

Pieces = Iterator[pa.Table | CopiedGroup]


@dataclass(frozen=True, slots=True)
class ClusterTask:
    """Slices of one partition whose rows become about `outputs` base files.

    `number` tells the groups of a plan apart, `attempt` the attempts at one; `digest` stands for
    what the plan says of the group, so that nobody adopts what was made by another plan.
    """

    context: WriteContext
    number: int
    partition: PartitionPath
    reads: tuple[SliceReadTask, ...]
    outputs: int
    order: RowOrder
    digest: Digest
    attempt: int = 0

    def at_attempt(self, number: int) -> ClusterTask:
        """The task for one of several attempts."""
        return replace(self, attempt=number)

    @property
    def size_bytes(self) -> int:
        """The bytes of the files that are read."""
        return sum(read.size_bytes for read in self.reads)

    @property
    def handle(self) -> str:
        """The name of its completion marker."""
        return f"cluster-{self.number}"


def cluster_group(task: ClusterTask) -> tuple[WriteStat, ...]:
    """Write the rows of some slices to new file groups and tell what was written.

    Order and crash: as `run_handle`.
    """
    outputs = Outputs(task.context, index=task.number, attempt=task.attempt)

    def make() -> HandleOutput:
        clock = task.context.ref.env.clock
        start_time = clock.monotonic()
        stats = list(_write_files(task, outputs))
        took_ms = int((clock.monotonic() - start_time) * 1000)
        runtime = RuntimeStats(total_scan_time=0, total_create_time=took_ms, total_upsert_time=0)
        return tuple(replace(stat, runtime_stats=runtime) for stat in stats), task.digest

    return write_handle_once(outputs, task.handle, make, lambda: task.digest)


def _write_files(task: ClusterTask, outputs: Outputs) -> Iterator[WriteStat]:
    """The base files of a group, one after the other; what has no rows has no file."""
    copies = not task.order.columns
    contents = _as_they_come(task) if copies else _in_order(task)
    for number, pieces in enumerate(contents):
        file = None
        for piece in pieces:
            if file is None:
                outputs.ensure_partition(task.partition)
                group = _new_group(task, number)
                file = BaseFiles(outputs, group, MarkerKind.CREATE, rolls_over=False, copies=copies)
            if isinstance(piece, CopiedGroup):
                file.copy(piece)
            else:
                file.write(to_stored_columns(task.context.schema, piece, task.partition))
        if file is not None:
            (output,) = file.end()
            yield output.as_insert(task.partition)


def _new_group(task: ClusterTask, number: int) -> FileGroupId:
    name = f"{task.number}/{number}"
    return FileGroupId(task.partition, new_file_id(task.context.write_id, name))


# -- rows as they come --------------------------------------------------------------------------


def _as_they_come(task: ClusterTask) -> Iterator[Pieces]:
    """The rows of each file to write: those of whole slices, so that sizes are about equal."""
    for reads in spread(task.reads, task.outputs):
        yield _copy_or_read(task.context, reads)


def spread(reads: Sequence[SliceReadTask], count: int) -> list[list[SliceReadTask]]:
    """Slices in their order, divided among up to so many files of about the same size."""
    total = max(sum(read.size_bytes for read in reads), 1)
    shares: list[list[SliceReadTask]] = [[] for _ in range(count)]
    before = 0
    for read in reads:
        middle = before + read.size_bytes / 2
        shares[min(int(middle * count / total), count - 1)].append(read)
        before += read.size_bytes
    return [share for share in shares if share]


def _copy_or_read(context: WriteContext, reads: Iterable[SliceReadTask]) -> Pieces:
    for read in reads:
        base = read.slice.base
        if base is None or read.slice.logs:
            yield from read_slice_pieces(read)
            continue
        with open_base(read.env, base) as file:
            copies = can_copy_to(file, stored_schema(context.schema))
            for group in range(file.metadata.num_row_groups):
                if copies and _is_large(context, file, group):
                    yield CopiedGroup(file, group, _keep)
                else:
                    columns = read.rule.columns_to_read(merging=False)
                    pieces = read_base_pieces(file, base, columns, groups=[group], whole=False)
                    yield from (rows for _, rows in pieces)


def _is_large(context: WriteContext, file: OpenParquet, group: int) -> bool:
    size = int(file.metadata.row_group(group).total_byte_size)
    return size * _SMALL >= context.parquet_options().row_group_bytes


def _keep(column: str) -> None:
    """What a column of a row group that is copied becomes: it stays."""


# -- rows in an order ---------------------------------------------------------------------------


def _in_order(task: ClusterTask) -> Iterator[Pieces]:
    """The rows of each file to write: as many in each, in the order asked for."""
    rows = _load_rows(task)
    order = sort_rows(rows.select(task.order.columns), task.order.layout)
    schema, rows = rows.schema, _in_one_piece(rows)
    per_file = -(-len(order) // task.outputs)
    for start in range(0, len(order), max(per_file, 1)):
        yield _take_pieces(rows, order.slice(start, per_file), schema)


def _load_rows(task: ClusterTask) -> pa.Table:
    rule = task.reads[0].rule
    empty = pa.schema([rule.schema.field(name) for name in rule.columns]).empty_table()
    pieces = (piece for read in task.reads for piece in read_slice_pieces(read))
    return pa.concat_tables([*pieces, empty])


def _in_one_piece(rows: pa.Table) -> pa.Table:
    """Rows as single arrays, which are far faster to take from than many."""
    columns = [_widen_offsets(column).combine_chunks() for column in rows.itercolumns()]
    return pa.table(columns, names=rows.column_names)


def _widen_offsets(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if column.nbytes < _MOST_BYTES_OF_SHORT_TEXTS:
        return column
    wide = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}
    return column.cast(wide.get(column.type, column.type))


def _take_pieces(rows: pa.Table, positions: pa.Array, schema: pa.Schema) -> Iterator[pa.Table]:
    for start in range(0, len(positions), _ROWS_AT_ONCE):
        yield rows.take(positions.slice(start, _ROWS_AT_ONCE)).cast(schema)


# -- from a plan to tasks -----------------------------------------------------------------------


_MOVES_BUCKETS = "ConsistentBucket", "ConsistentHashing"


def clustering_plan_of(request_metadata: Metadata | None) -> ClusteringPlan:
    """The plan that the requested file of a clustering holds."""
    match request_metadata:
        case RequestedReplaceMetadata(clustering_plan=plan) if plan is not None:
            return plan
    raise FormatError("no clustering plan in it")


def build_tasks(context: WriteContext, request_metadata: Metadata) -> list[ClusterTask]:
    """One task for each group of a plan. Raises `PlanNotExecutable`, `UnsupportedFeature`."""
    ref, plan = context.ref, clustering_plan_of(request_metadata)
    refuse_buckets(ref)
    _refuse_strategy(plan)
    snapshot, order = take_snapshot(ref), read_order(plan, ref.config)
    check_order(snapshot, order)
    slices_by_group = {group.id: group.slices for group in snapshot.groups}
    return [
        _build_task(context, snapshot, number, group, order, slices_by_group)
        for number, group in enumerate(plan.input_groups)
        if group.slices
    ]


def _refuse_strategy(plan: ClusteringPlan) -> None:
    """Fail on plans to split or merge buckets: other rows of a table go by them."""
    strategy = (plan.strategy.strategy_class_name if plan.strategy else None) or ""
    if any(name in strategy for name in _MOVES_BUCKETS):
        raise UnsupportedFeature(f"a clustering by {strategy.rpartition('.')[2]} is not executed")


def _build_task(
    context: WriteContext,
    snapshot: Snapshot,
    number: int,
    group: ClusteringGroup,
    order: RowOrder,
    slices_by_group: Mapping[FileGroupId, tuple[FileSlice, ...]],
) -> ClusterTask:
    slices = [_find_slice(info, slices_by_group) for info in group.slices]
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


def _find_slice(
    info: SliceInfo, slices_by_group: Mapping[FileGroupId, tuple[FileSlice, ...]]
) -> FileSlice:
    """The slice with the files that a plan names, and no others: logs may have come since."""
    if info.file_id is None:
        raise FormatError("a clustering plan with a slice that has no file id")
    group = FileGroupId(info.partition_path or PartitionPath(""), info.file_id)
    base, *logs = _file_names(info)
    for slice_ in slices_by_group.get(group, ()):
        planned_logs = tuple(log for log in slice_.logs if str(log.name) in logs)
        is_base = (str(slice_.base.name) if slice_.base else "") == base
        if is_base and len(planned_logs) == len(logs):
            return FileSlice(group, slice_.base_time, slice_.base, planned_logs)
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


def replaced_groups(request_metadata: Metadata) -> dict[PartitionPath, tuple[FileId, ...]]:
    """The file groups that are gone once a clustering is completed."""
    file_ids: dict[PartitionPath, list[FileId]] = {}
    groups = clustering_plan_of(request_metadata).file_groups()
    for group in sorted(groups, key=lambda each: (each.partition, each.file_id)):
        file_ids.setdefault(group.partition, []).append(group.file_id)
    return {partition: tuple(ids) for partition, ids in file_ids.items()}
