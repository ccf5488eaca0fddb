"""Leaves out file slices in which no row can match a filter, by the statistics of their columns.

A slice with log files is left out only if each of its files has statistics that exclude it, term
by term: a row may have one column from the base file and another from a log. Where anything is not
known, the slice stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.engine.engine import Engine
from hoodoo.format.metadata.keys import column_stats_keys, partition_stats_keys
from hoodoo.metadata.bounds import always_has_bounds, has_ranges, is_comparable, to_ranges
from hoodoo.metadata.entries import find_entries
from hoodoo.metadata.metadata_table import MetadataTable
from hoodoo.model.files import DataFile, FileSlice, LogFile
from hoodoo.model.metadata_table import COLUMN_STATS, PARTITION_STATS
from hoodoo.model.paths import PartitionPath
from hoodoo.model.predicate import All, AnyOf, Predicate, ValueRange, columns_of, may_match

Ranges = Mapping[str, ValueRange]


def prune_slices(
    table: MetadataTable,
    slices: Sequence[FileSlice],
    predicate: Predicate,
    schema: pa.Schema,
    *,
    engine: Engine | None = None,
) -> list[FileSlice]:
    """The slices that may have rows for which a bound predicate is true; `column_stats` says."""
    columns = _usable_columns(predicate, schema)
    if not columns:
        return list(slices)
    files = [file for one in slices for file in _files_of(table, one)]
    known = _find_file_ranges(table, files, columns, engine)
    return [one for one in slices if _slice_may_match(table, one, predicate, known)]


def find_matching_partitions(
    table: MetadataTable,
    partitions: Sequence[PartitionPath],
    predicate: Predicate,
    schema: pa.Schema,
    *,
    engine: Engine | None = None,
) -> list[PartitionPath]:
    """The partitions that may have such rows in their newest files; `partition_stats` says."""
    columns = {
        name: kind
        for name, kind in _usable_columns(predicate, schema).items()
        if always_has_bounds(kind)
    }
    if not columns:
        return list(partitions)
    names = pa.array([name for name in columns for _ in partitions], pa.string())
    paths = pa.array(list(partitions) * len(columns), pa.string())
    keys = partition_stats_keys(columns=names, partitions=paths)
    found = _find_ranges(table, PARTITION_STATS, keys, list(columns.values()), engine)
    kept = []
    for number, partition in enumerate(partitions):
        # Files from before a column was added are read as nulls, and are not in its statistics.
        ranges = {
            name: replace(one, may_be_null=True)
            for name, column in zip(columns, found, strict=True)
            if (one := column[number]) is not None
        }
        if may_match(predicate, ranges):
            kept.append(partition)
    return kept


def _usable_columns(predicate: Predicate, schema: pa.Schema) -> dict[str, pa.DataType]:
    kinds = {name: schema.field(name).type for name in sorted(columns_of(predicate))}
    return {
        name: kind
        for name, kind in kinds.items()
        if has_ranges(kind) and is_comparable(predicate, name)
    }


def _files_of(table: MetadataTable, one: FileSlice) -> tuple[DataFile, ...]:
    """The files to ask about; none where the answer would not help.

    What old versions append to a log file may have bounds that nobody knew, and nobody can tell.
    """
    if one.logs and table.properties.version.appends_to_logs:
        return ()
    return one.logs if one.base is None else (one.base, *one.logs)


def _find_file_ranges(
    table: MetadataTable,
    files: Sequence[DataFile],
    columns: Mapping[str, pa.DataType],
    engine: Engine | None,
) -> dict[DataFile, dict[str, ValueRange]]:
    """What is known of the columns of each file."""
    keys = column_stats_keys(
        columns=pa.array([name for name in columns for _ in files], pa.string()),
        partitions=pa.array([file.partition for file in files] * len(columns), pa.string()),
        file_names=pa.array([str(file.name) for file in files] * len(columns), pa.string()),
    )
    found = _find_ranges(table, COLUMN_STATS, keys, list(columns.values()), engine)
    known: dict[DataFile, dict[str, ValueRange]] = {file: {} for file in files}
    for name, ranges in zip(columns, found, strict=True):
        for file, one in zip(files, ranges, strict=True):
            if one is None:
                continue
            if not one.may_have_values and not isinstance(file, LogFile):
                one = ValueRange()  # logs may hold nothing but deletes; an empty base file is odd
            known[file][name] = one
    return known


def _find_ranges(
    table: MetadataTable,
    partition: str,
    keys: pa.Array,
    kinds: Sequence[pa.DataType],
    engine: Engine | None,
) -> list[list[ValueRange | None]]:
    """For each column, in whose order the keys are, what the entries of its keys say."""
    entries = find_entries(table, table.load_partition(partition), keys, engine=engine)
    places = pc.index_in(keys, value_set=entries["key"].combine_chunks())
    per_column = len(keys) // len(kinds)
    made = []
    for number, kind in enumerate(kinds):
        own = places.slice(number * per_column, per_column)
        present = own.drop_null()
        told = iter(to_ranges(entries.take(present), kind) if len(present) else ())
        made.append([next(told) if place is not None else None for place in own.to_pylist()])
    return made


def _slice_may_match(
    table: MetadataTable,
    one: FileSlice,
    predicate: Predicate,
    known: Mapping[DataFile, Ranges],
) -> bool:
    ranges = [known[file] for file in _files_of(table, one)]
    return not ranges or _some_may_match(predicate, ranges)


def _some_may_match(predicate: Predicate, ranges: Sequence[Ranges]) -> bool:
    """Whether each term may be true in some file."""
    if isinstance(predicate, All):
        return all(_some_may_match(term, ranges) for term in predicate.terms)
    if isinstance(predicate, AnyOf):
        return any(_some_may_match(term, ranges) for term in predicate.terms)
    return any(may_match(predicate, one) for one in ranges)
