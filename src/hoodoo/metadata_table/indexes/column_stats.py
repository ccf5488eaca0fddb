"""Partitions `column_stats` and `partition_stats`, out of the ranges of files' columns.

A bound that is unknown is null, with honest counts; NaN is no bound. Whoever reads tells an
unknown bound from a column of nulls by the counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from hoodoo.errors import InputError
from hoodoo.format.arrow_types import empty_table
from hoodoo.format.avro.encode import decimal_bytes
from hoodoo.format.metadata_table.column_stats import (
    COLUMN_STATS_SCHEMA,
    ColumnType,
    ValueType,
    make_bounds,
)
from hoodoo.format.metadata_table.keys import column_stats_keys, partition_stats_keys
from hoodoo.format.metadata_table.schema import RecordKind, Wrapper
from hoodoo.metadata_table.entries.merge import EntryBatch, merge_column_stats, sort_entries
from hoodoo.model.commit import ColumnRange, FileRanges
from hoodoo.model.paths import PartitionPath


def column_stats(
    files: Iterable[FileRanges], columns: Mapping[str, ColumnType], schema: pa.Schema
) -> pa.Table:
    """Entries of `column_stats`, sorted: one per file and column that is indexed."""
    table, partitions = _stats_of(files, columns, schema)
    keys = column_stats_keys(
        columns=_one(table["column_name"]),
        partitions=partitions,
        file_names=_one(table["file_name"]),
    )
    return sort_entries(table.set_column(0, COLUMN_STATS_SCHEMA.field("key"), keys))


def partition_stats(
    files: Iterable[FileRanges],
    columns: Mapping[str, ColumnType],
    schema: pa.Schema,
    *,
    is_tight: bool,
) -> pa.Table:
    """Entries of `partition_stats`, sorted: one per partition and column.

    They are tight if `files` are all files of the partitions: then they replace what was known.
    """
    table, partitions = _stats_of(files, columns, schema)
    keys = partition_stats_keys(columns=_one(table["column_name"]), partitions=partitions)
    table = _set(table, "key", keys)
    table = _set(table, "file_name", partitions)
    stats = merge_column_stats([EntryBatch(table)])
    kinds = pa.repeat(pa.scalar(int(RecordKind.PARTITION_STATS), pa.int32()), stats.num_rows)
    stats = _set(_set(stats, "kind", kinds), "is_tight_bound", pa.repeat(is_tight, len(kinds)))
    stats = _forget_bounds(stats, pc.is_in(stats["key"], _unknown_keys(table)))
    return _state_types(stats, columns)


def column_stats_deletes(
    files: Mapping[PartitionPath, Sequence[str]], columns: Sequence[str]
) -> pa.Array:
    """The keys of `column_stats` that go when files are cleaned."""
    pairs = [(partition, name) for partition, names in files.items() for name in names]
    every = [(column, *pair) for column in columns for pair in pairs]
    names, partitions, file_names = zip(*every, strict=True) if every else ((), (), ())
    return column_stats_keys(
        columns=pa.array(names, pa.string()),
        partitions=pa.array(partitions, pa.string()),
        file_names=pa.array(file_names, pa.string()),
    )


def partition_stats_deletes(
    partitions: Sequence[PartitionPath], columns: Sequence[str]
) -> pa.Array:
    """The keys of `partition_stats` that go when partitions are dropped."""
    pairs = [(column, partition) for column in columns for partition in partitions]
    names, paths = zip(*pairs, strict=True) if pairs else ((), ())
    return partition_stats_keys(
        columns=pa.array(names, pa.string()), partitions=pa.array(paths, pa.string())
    )


def _stats_of(
    files: Iterable[FileRanges], columns: Mapping[str, ColumnType], schema: pa.Schema
) -> tuple[pa.Table, pa.Array]:
    """Entries without keys, column after column; and the partitions of their files."""
    by_column: dict[str, list[tuple[FileRanges, ColumnRange]]] = {name: [] for name in columns}
    for file in files:
        for one in file.ranges:
            if one.column in by_column:
                by_column[one.column].append((file, one))
    pairs = [pair for own in by_column.values() for pair in own]
    if not pairs:
        return empty_table(COLUMN_STATS_SCHEMA), pa.array([], pa.string())
    files_of, ranges = zip(*pairs, strict=True)
    types = [columns[one.column] for one in ranges]
    has_bounds = [_has_bounds(one) for one in ranges]
    wrapper_codes = [
        int(t.wrapper if k else Wrapper.NULL) for t, k in zip(types, has_bounds, strict=True)
    ]
    wrappers = np.array(wrapper_codes, np.int8)
    ordinals = [
        t.value_type if k else ValueType.NULL for t, k in zip(types, has_bounds, strict=True)
    ]
    infos = [t.info if k else None for t, k in zip(types, has_bounds, strict=True)]
    count = len(pairs)
    table = {
        "key": pa.repeat("", count),
        "kind": pa.repeat(pa.scalar(int(RecordKind.COLUMN_STATS), pa.int32()), count),
        "file_name": pa.array([file.file_name for file in files_of], pa.string()),
        "column_name": pa.array([one.column for one in ranges], pa.string()),
        "min_value": make_bounds(wrappers, _wrap(by_column, columns, schema, "min_value")),
        "max_value": make_bounds(wrappers, _wrap(by_column, columns, schema, "max_value")),
        "value_count": pa.array([one.value_count for one in ranges], pa.int64()),
        "null_count": pa.array([one.null_count for one in ranges], pa.int64()),
        "size_bytes": pa.array([one.size_bytes for one in ranges], pa.int64()),
        "uncompressed_bytes": pa.array([one.uncompressed_bytes for one in ranges], pa.int64()),
        "is_deleted": pa.repeat(False, count),
        "is_tight_bound": pa.repeat(False, count),
        "value_type": pa.array(map(int, ordinals), pa.int32()),
        "value_type_info": pa.array(infos, pa.string()),
    }
    partitions = pa.array([file.partition for file in files_of], pa.string())
    return pa.table(table, COLUMN_STATS_SCHEMA), partitions


def _wrap(
    by_column: Mapping[str, Sequence[tuple[FileRanges, ColumnRange]]],
    columns: Mapping[str, ColumnType],
    schema: pa.Schema,
    bound: str,
) -> dict[Wrapper, pa.Array]:
    """The known bounds of all columns, column after column, by their wrapper."""
    inside: dict[Wrapper, list[pa.Array]] = {}
    for name, pairs in by_column.items():
        present = [getattr(one, bound) for _, one in pairs if _has_bounds(one)]
        if present:
            type_ = columns[name]
            stored_values = _to_stored(present, schema.field(name).type, type_, name)
            inside.setdefault(type_.wrapper, []).append(stored_values)
    return {wrapper: pa.concat_arrays(parts) for wrapper, parts in inside.items()}


def _has_bounds(one: ColumnRange) -> bool:
    bounds = (one.min_value, one.max_value)
    return not any(
        value is None or (isinstance(value, float) and math.isnan(value)) for value in bounds
    )


def _to_stored(values: list[object], kind: pa.DataType, type_: ColumnType, name: str) -> pa.Array:
    """Values of a column as its wrapper has them: numbers of days, of microseconds, ..."""
    try:
        array = pa.array(values, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InputError(f"bounds of column {name} are not of its type {kind}: {error}") from None
    if pt.is_decimal(kind):
        return decimal_bytes(array.cast(pa.decimal128(kind.precision, kind.scale)))
    return array.cast(type_.arrow)


def _unknown_keys(table: pa.Table) -> pa.Array:
    """Keys of entries that have values, and no bounds for them."""
    has_values = pc.greater(table["value_count"], table["null_count"])
    is_unknown = pc.and_(has_values, pc.equal(table["value_type"], int(ValueType.NULL)))
    return _one(table["key"].filter(is_unknown))


def _forget_bounds(table: pa.Table, forgotten: pa.ChunkedArray) -> pa.Table:
    if not pc.any(forgotten).as_py():
        return table
    flags = forgotten.to_numpy()
    empty = make_bounds(np.zeros(1, np.int8), {})
    rows = np.where(flags, table.num_rows, np.arange(table.num_rows))
    for name in ("min_value", "max_value"):
        bounds = pa.concat_arrays([_one(table[name]), empty])
        table = _set(table, name, bounds.take(pa.array(rows)))
    types = pc.if_else(forgotten, pa.scalar(int(ValueType.NULL), pa.int32()), table["value_type"])
    infos = pc.if_else(forgotten, pa.scalar(None, pa.string()), table["value_type_info"])
    return _set(_set(table, "value_type", types), "value_type_info", infos)


def _state_types(table: pa.Table, columns: Mapping[str, ColumnType]) -> pa.Table:
    """Entries without bounds have the type of their column, too.

    Apache Hudi merges the bounds of two entries by the type of the later one, and fails if that
    says that there are none while the earlier one has some.
    """
    names: list[str] = table["column_name"].to_pylist()
    untold = pc.equal(table["value_type"], int(ValueType.NULL))
    types = pa.array([int(columns[name].value_type) for name in names], pa.int32())
    infos = pa.array([columns[name].info for name in names], pa.string())
    table = _set(table, "value_type", pc.if_else(untold, types, table["value_type"]))
    return _set(table, "value_type_info", pc.if_else(untold, infos, table["value_type_info"]))


def _set(table: pa.Table, name: str, column: pa.Array | pa.ChunkedArray) -> pa.Table:
    field = COLUMN_STATS_SCHEMA.field(name)
    return table.set_column(table.column_names.index(name), field, column)


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks()
