"""What indexes need to know of new data files: ranges of columns, and bloom filters.

It is read from the files themselves, on the engine, before the lock is taken: of a base file its
footer, of a log file its rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.errors import FormatError, add_error_source
from hoodoo.format.log import BlockType, decode_data, read_blocks
from hoodoo.format.parquet.base_file import OpenParquet, open_parquet, read_rows
from hoodoo.format.parquet.key_summary import BLOOM, BLOOM_TYPE
from hoodoo.format.parquet.statistics import column_ranges
from hoodoo.metadata_table.indexes.bloom_filters import FileFilter
from hoodoo.model.commit import ColumnRange, FileRanges, WriteStat
from hoodoo.model.files import LogFile, parse_data_file
from hoodoo.model.paths import PartitionPath
from hoodoo.runtime.engine import REQUEST_BYTES, Engine
from hoodoo.runtime.env import Env

_DATA = frozenset({BlockType.PARQUET_DATA, BlockType.AVRO_DATA})


@dataclass(frozen=True, slots=True)
class FileStatisticsTask:
    """A data file to look at, and what is wanted: what a task gets."""

    env: Env
    partition: PartitionPath
    path: str
    schema: pa.Schema
    """Of the columns whose ranges are wanted."""
    wants_filter: bool

    @property
    def size_bytes(self) -> int:
        """So that an engine knows how much work it is."""
        return 2 * REQUEST_BYTES

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class FileStatistics:
    """What is known of some data files."""

    ranges: tuple[FileRanges, ...] = ()
    filters: tuple[FileFilter, ...] = ()


def read_file_statistics(
    env: Env,
    engine: Engine,
    files: Iterable[tuple[PartitionPath, str]],
    schema: pa.Schema,
    *,
    wants_filters: bool,
) -> FileStatistics:
    """Look at data files (partition and path): ranges of these columns, and filters if wanted."""
    items = [
        FileStatisticsTask(env, partition, path, schema, wants_filters) for partition, path in files
    ]
    statistics = engine.map(read_facts, items)
    return FileStatistics(
        tuple(ranges for one in statistics for ranges in one.ranges),
        tuple(each for one in statistics for each in one.filters),
    )


def written_files(stats: Iterable[WriteStat]) -> Iterator[tuple[PartitionPath, str]]:
    """The data files that a commit names."""
    for stat in stats:
        if stat.path:
            yield stat.partition_path or PartitionPath(""), stat.path


def read_facts(item: FileStatisticsTask) -> FileStatistics:
    """The facts of one file: made for the tasks of an engine."""
    with add_error_source(item.path):
        file = parse_data_file(item.partition, item.name, 0)
        if isinstance(file, LogFile):
            ranges = () if file.name.is_cdc else _ranges_of_log(item)
            return _make(item, ranges, None)
        with item.env.storage.open_read(item.path) as source:
            parquet = open_parquet(source)
            return _make(item, _ranges_of_base(parquet, item.schema), _filter_of(parquet, item))


def _make(
    item: FileStatisticsTask, ranges: Sequence[ColumnRange], filter_: FileFilter | None
) -> FileStatistics:
    file_ranges = FileRanges(partition=item.partition, file_name=item.name, ranges=tuple(ranges))
    return FileStatistics((file_ranges,) if ranges else (), (filter_,) if filter_ else ())


def _ranges_of_base(file: OpenParquet, schema: pa.Schema) -> list[ColumnRange]:
    """From the footer; columns whose bounds it leaves out are read.

    To a reader of statistics, bounds that are not there look as if all values were null.
    """
    if not schema.names:
        return []
    ranges = []
    for one in column_ranges(file.footer, schema):
        has_values = one.value_count > one.null_count
        if one.column in schema.names and has_values and one.min_value is None:
            (column_range,) = ranges_of_rows(
                read_rows(file, [one.column]), pa.schema([schema.field(one.column)])
            )
            sizes = (one.size_bytes, one.uncompressed_bytes)
            ranges.append(_with_sizes(column_range, *sizes))
        elif one.column in schema.names:
            ranges.append(one)
    return ranges


def _with_sizes(one: ColumnRange, size_bytes: int, uncompressed_bytes: int) -> ColumnRange:
    return ColumnRange(
        column=one.column,
        min_value=one.min_value,
        max_value=one.max_value,
        null_count=one.null_count,
        value_count=one.value_count,
        size_bytes=size_bytes,
        uncompressed_bytes=uncompressed_bytes,
    )


def _ranges_of_log(item: FileStatisticsTask) -> list[ColumnRange]:
    """Of the rows in it; deletes have none, and a file of deletes has no values."""
    if not item.schema.names:
        return []
    read = read_blocks(item.env.storage.read(item.path))
    if read.corrupt:
        raise FormatError(f"a damaged log file: {read.corrupt[0].reason}")
    tables = [
        _conform(decode_data(block, columns=item.schema.names), item.schema)
        for block in read.blocks
        if block.type in _DATA
    ]
    return ranges_of_rows(pa.concat_tables([item.schema.empty_table(), *tables]), item.schema)


def _conform(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    columns = [
        rows[field.name].cast(field.type)
        if field.name in rows.column_names
        else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def ranges_of_rows(rows: pa.Table, schema: pa.Schema) -> list[ColumnRange]:
    """The range of each column of `schema`, which has their types; NaN lies outside of all."""
    ranges = []
    for field in schema:
        column = rows[field.name].cast(field.type)
        bounds = _bounds(column)
        ranges.append(
            ColumnRange(
                column=field.name,
                min_value=bounds[0],
                max_value=bounds[1],
                null_count=column.null_count,
                value_count=len(column),
            )
        )
    return ranges


def _bounds(column: pa.ChunkedArray) -> tuple[object, object]:
    if pa.types.is_floating(column.type):
        column = column.filter(pc.invert(pc.is_nan(column)))  # NaN is no bound
    bounds = pc.min_max(column).as_py()
    return bounds["min"], bounds["max"]


def _filter_of(file: OpenParquet, item: FileStatisticsTask) -> FileFilter | None:
    """As the footer has it: entries keep its text."""
    values = (file.metadata.metadata or {}) if item.wants_filter else {}
    text = values.get(BLOOM.encode())
    if text is None:
        return None
    type_code = values.get(BLOOM_TYPE.encode(), b"SIMPLE")
    return FileFilter(item.partition, item.name, type_code.decode(), text.decode())
