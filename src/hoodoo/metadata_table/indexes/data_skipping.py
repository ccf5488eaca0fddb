"""Data skipping: leave out file slices in which no row can match a filter, by column statistics.

The first part turns entries of `column_stats` and `partition_stats` into ranges of values. A bound
is used only where it surely holds for the column as it is read now: a missing bound stands for
anything; a NaN makes both bounds worthless; a column may have had another type when they were made.

The second part prunes. A slice with log files is left out only if each of its files has statistics
that exclude it, term by term: a row may have one column from the base file and another from a log.
Where anything is not known, the slice stays.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from hoodoo.format.metadata_table.column_stats import ValueType as V
from hoodoo.format.metadata_table.column_stats import bounds_in
from hoodoo.format.metadata_table.keys import column_stats_keys, partition_stats_keys
from hoodoo.format.metadata_table.schema import Wrapper
from hoodoo.metadata_table.entries.read import find_entries
from hoodoo.metadata_table.table import MetadataTable
from hoodoo.model.files import DataFile, FileSlice, LogFile
from hoodoo.model.metadata_table import COLUMN_STATS, PARTITION_STATS
from hoodoo.model.paths import PartitionPath
from hoodoo.model.predicate import (
    All,
    AnyOf,
    Compare,
    In,
    Like,
    Predicate,
    ValueRange,
    columns_of,
    may_match,
)
from hoodoo.runtime.engine import Engine

# -- ranges from entries ------------------------------------------------------------------------


_NUMBERS = {V.INT, V.LONG}
_FLOATS = {V.FLOAT, V.DOUBLE}
_INSTANTS = {V.TIMESTAMP_MILLIS: "ms", V.TIMESTAMP_MICROS: "us"}
_LOCAL = {V.LOCAL_TIMESTAMP_MILLIS: "ms", V.LOCAL_TIMESTAMP_MICROS: "us"}
# What old entries, which do not tell the type, say by their wrapper.
_BY_WRAPPER = {
    Wrapper.BOOLEAN: V.BOOLEAN,
    Wrapper.INT: V.INT,
    Wrapper.LONG: V.LONG,
    Wrapper.FLOAT: V.FLOAT,
    Wrapper.DOUBLE: V.DOUBLE,
    Wrapper.STRING: V.STRING,
    Wrapper.DATE: V.DATE,
    Wrapper.LOCAL_DATE: V.DATE,
    Wrapper.TIMESTAMP_MICROS: V.TIMESTAMP_MICROS,
}
_WRAPPERS = {
    V.BOOLEAN: {Wrapper.BOOLEAN},
    V.INT: {Wrapper.INT, Wrapper.LONG},
    V.LONG: {Wrapper.INT, Wrapper.LONG},
    V.FLOAT: {Wrapper.FLOAT, Wrapper.DOUBLE},
    V.DOUBLE: {Wrapper.FLOAT, Wrapper.DOUBLE},
    V.STRING: {Wrapper.STRING},
    V.DECIMAL: {Wrapper.BYTES},
    V.DATE: {Wrapper.INT, Wrapper.DATE, Wrapper.LOCAL_DATE},
    **{kind: {Wrapper.LONG, Wrapper.TIMESTAMP_MICROS} for kind in (*_INSTANTS, *_LOCAL)},
}
_FIRST_SURROGATE = "\ud800"


def has_ranges(kind: pa.DataType) -> bool:
    """Whether bounds of a column of this type can be compared with a filter's values."""
    plain = (pt.is_integer, pt.is_boolean, pt.is_date32, pt.is_decimal, pt.is_timestamp)
    return any(fits(kind) for fits in (*plain, pt.is_floating, pt.is_string, pt.is_large_string))


def always_has_bounds(kind: pa.DataType) -> bool:
    """Whether every file with values of this type has bounds for them.

    Long texts, NaN and timestamps of old Parquet files have none. The bounds of a partition pass
    over such files, and so say nothing of them.
    """
    return any(fits(kind) for fits in (pt.is_integer, pt.is_boolean, pt.is_date32, pt.is_decimal))


def is_comparable(predicate: Predicate, column: str) -> bool:
    """Whether texts that a predicate compares a column with sort alike in UTF-8 and in UTF-16.

    Java's bounds are those of the latter order. It differs above the surrogates only.
    """
    texts = (value for value in _values(predicate, column) if isinstance(value, str))
    return all(char < _FIRST_SURROGATE for text in texts for char in text)


def _values(predicate: Predicate, column: str) -> Iterator[Any]:
    match predicate:
        case All(terms) | AnyOf(terms):
            for term in terms:
                yield from _values(term, column)
        case Compare(name, _, value) if name == column:
            yield value
        case In(name, values, _) if name == column:
            yield from values
        case Like(name, pattern, _) if name == column:
            yield pattern


def to_ranges(entries: pa.Table, kind: pa.DataType) -> list[ValueRange | None]:
    """The range of each entry, of a column that has this type now; None for a deleted entry."""
    entries = entries.combine_chunks()
    lows = _to_values(entries, "min_value", kind)
    highs = _to_values(entries, "max_value", kind)
    columns = (entries[name].to_pylist() for name in ("value_count", "null_count", "is_deleted"))
    ranges: list[ValueRange | None] = []
    for low, high, values, nulls, is_deleted in zip(lows, highs, *columns, strict=True):
        if is_deleted:
            ranges.append(None)
            continue
        if _is_nan(low) or _is_nan(high):
            low = high = None
        # A count below zero means that it is not known.
        is_empty = values == 0 and nulls == 0 and low is None and high is None
        may_be_null = nulls != 0 or not values
        ranges.append(
            ValueRange(
                low, high, may_be_null=may_be_null and not is_empty, may_have_values=not is_empty
            )
        )
    return ranges


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _to_values(entries: pa.Table, name: str, kind: pa.DataType) -> list[Any]:
    """A bound of each entry as a filter's literals are; None where it is not known."""
    bound_values: list[Any] = [None] * entries.num_rows
    if not bound_values:
        return bound_values
    bounds = entries[name].chunk(0)
    types = entries["value_type"].fill_null(int(V.V1)).to_numpy()
    infos = entries["value_type_info"].chunk(0)
    for wrapper in Wrapper:
        rows, inside = bounds_in(bounds, wrapper)
        if wrapper in (Wrapper.NULL, Wrapper.ARRAY) or not rows.size:
            continue
        for code in np.unique(types[rows]).tolist():
            at = (types[rows] == code).nonzero()[0]
            own = inside.take(pa.array(at))
            type_infos = infos.take(pa.array(rows[at])).to_pylist()
            values = _read(own, _value_type(code, wrapper), type_infos, wrapper, kind)
            for row, value in zip(rows[at].tolist(), values, strict=True):
                bound_values[row] = value
    return bound_values


def _value_type(code: int, wrapper: Wrapper) -> V | None:
    if code == V.V1:
        return _BY_WRAPPER.get(wrapper)
    try:
        return V(code)
    except ValueError:  # of a later version
        return None


def _read(
    values: pa.Array, type_: V | None, infos: list[str | None], wrapper: Wrapper, kind: pa.DataType
) -> list[Any]:
    unknown: list[Any] = [None] * len(values)
    if type_ is None or wrapper not in _WRAPPERS.get(type_, ()):
        return unknown
    target = _target(type_, kind)
    try:
        if type_ is V.DECIMAL and pt.is_decimal(kind):
            pairs = zip(values.to_pylist(), infos, strict=True)
            return [_decimal(data, info) for data, info in pairs]
        if target is None:
            return unknown
        numbers: list[Any] = values.cast(target).to_pylist()
        return [float(value) for value in numbers] if pt.is_floating(kind) else numbers
    except (pa.ArrowException, ValueError, OverflowError):  # beyond what Python's types have
        return unknown


def _target(type_: V, kind: pa.DataType) -> pa.DataType | None:
    """The type in which bounds of `type_` compare with literals of a column; None: they do not."""
    if pt.is_boolean(kind) and type_ is V.BOOLEAN:
        return kind
    if type_ in _NUMBERS and (pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind)):
        return pa.int64()
    if type_ in _FLOATS and pt.is_floating(kind):
        return pa.float64()
    if type_ is V.STRING and (pt.is_string(kind) or pt.is_large_string(kind)):
        return pa.string()
    if type_ is V.DATE and pt.is_date32(kind):
        return kind
    if pt.is_timestamp(kind):
        units = _LOCAL if kind.tz is None else _INSTANTS
        return pa.timestamp(units[type_], kind.tz) if type_ in units else None
    return None


def _decimal(data: bytes, info: str | None) -> Decimal | None:
    _, comma, scale = (info or "").partition(",")
    if not comma or not scale.strip().isdigit():
        return None
    number = int.from_bytes(data, "big", signed=True)
    sign, digits = int(number < 0), tuple(map(int, str(abs(number))))
    return Decimal((sign, digits, -int(scale)))


# -- pruning slices and partitions --------------------------------------------------------------


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
    ranges_by_file = _find_file_ranges(table, files, columns, engine)
    return [one for one in slices if _slice_may_match(table, one, predicate, ranges_by_file)]


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
    ranges_by_column = _find_ranges(table, PARTITION_STATS, keys, list(columns.values()), engine)
    matching_partitions = []
    for number, partition in enumerate(partitions):
        # Files from before a column was added are read as nulls, and are not in its statistics.
        ranges = {
            name: replace(one, may_be_null=True)
            for name, column in zip(columns, ranges_by_column, strict=True)
            if (one := column[number]) is not None
        }
        if may_match(predicate, ranges):
            matching_partitions.append(partition)
    return matching_partitions


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
    ranges_by_column = _find_ranges(table, COLUMN_STATS, keys, list(columns.values()), engine)
    ranges_by_file: dict[DataFile, dict[str, ValueRange]] = {file: {} for file in files}
    for name, ranges in zip(columns, ranges_by_column, strict=True):
        for file, one in zip(files, ranges, strict=True):
            if one is None:
                continue
            if not one.may_have_values and not isinstance(file, LogFile):
                one = ValueRange()  # logs may hold nothing but deletes; an empty base file is odd
            ranges_by_file[file][name] = one
    return ranges_by_file


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
    ranges_by_column = []
    for number, kind in enumerate(kinds):
        own = places.slice(number * per_column, per_column)
        present = own.drop_null()
        present_ranges = iter(to_ranges(entries.take(present), kind) if len(present) else ())
        ranges_by_column.append(
            [next(present_ranges) if place is not None else None for place in own.to_pylist()]
        )
    return ranges_by_column


def _slice_may_match(
    table: MetadataTable,
    one: FileSlice,
    predicate: Predicate,
    ranges_by_file: Mapping[DataFile, Ranges],
) -> bool:
    ranges = [ranges_by_file[file] for file in _files_of(table, one)]
    return not ranges or _some_may_match(predicate, ranges)


def _some_may_match(predicate: Predicate, ranges: Sequence[Ranges]) -> bool:
    """Whether each term may be true in some file."""
    if isinstance(predicate, All):
        return all(_some_may_match(term, ranges) for term in predicate.terms)
    if isinstance(predicate, AnyOf):
        return any(_some_may_match(term, ranges) for term in predicate.terms)
    return any(may_match(predicate, one) for one in ranges)
