"""The executor side of a clustering: file slices -> new base files with the same rows.

`cluster_group` needs nothing but its task, and runs in this process or on Spark's executors. Rows
keep their meta columns but for the file's name. Without an order, row groups of base files without
logs are copied as bytes, unless they are small, and memory holds a piece of a slice; with one, it
holds the rows of the group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from hoodoo.format.completion import Digest
from hoodoo.format.parquet import OpenParquet, can_copy_to
from hoodoo.model.files import FileGroupId
from hoodoo.model.layout import RowOrder
from hoodoo.model.names import MarkerKind, new_file_id
from hoodoo.model.paths import PartitionPath
from hoodoo.model.stats import RuntimeStats, WriteStat
from hoodoo.rows.curves import sort_rows
from hoodoo.table.read import read_slice_pieces
from hoodoo.table.read_rule import SliceRead, open_base, read_base_pieces
from hoodoo.write.base_files import BaseFiles, CopiedGroup
from hoodoo.write.context import WriteContext
from hoodoo.write.exactly_once import HandleOutput, write_once
from hoodoo.write.meta_columns import stored_schema, to_stored_columns
from hoodoo.write.outputs import Outputs

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
    reads: tuple[SliceRead, ...]
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
        started = clock.monotonic()
        stats = list(_write_files(task, outputs))
        took_ms = int((clock.monotonic() - started) * 1000)
        runtime = RuntimeStats(total_scan_time=0, total_create_time=took_ms, total_upsert_time=0)
        return tuple(replace(stat, runtime_stats=runtime) for stat in stats), task.digest

    return write_once(outputs, task.handle, make, lambda: task.digest)


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
            (written,) = file.end()
            yield written.as_insert(task.partition)


def _new_group(task: ClusterTask, number: int) -> FileGroupId:
    name = f"{task.number}/{number}"
    return FileGroupId(task.partition, new_file_id(task.context.write_id, name))


# -- rows as they come --------------------------------------------------------------------------


def _as_they_come(task: ClusterTask) -> Iterator[Pieces]:
    """The rows of each file to write: those of whole slices, so that sizes are about equal."""
    for reads in spread(task.reads, task.outputs):
        yield _copy_or_read(task.context, reads)


def spread(reads: Sequence[SliceRead], count: int) -> list[list[SliceRead]]:
    """Slices in their order, divided among up to so many files of about the same size."""
    total = max(sum(read.size_bytes for read in reads), 1)
    shares: list[list[SliceRead]] = [[] for _ in range(count)]
    before = 0
    for read in reads:
        middle = before + read.size_bytes / 2
        shares[min(int(middle * count / total), count - 1)].append(read)
        before += read.size_bytes
    return [share for share in shares if share]


def _copy_or_read(context: WriteContext, reads: Iterable[SliceRead]) -> Pieces:
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
