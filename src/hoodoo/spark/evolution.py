"""Whether Spark's own Parquet reader takes files for what the table's schema says of them.

It widens numbers much like `rows.conform`, but not all of them, and takes no plain number for a
timestamp, as very old writers left them. Files that it cannot take are read by Arrow.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache

import pyarrow as pa
import pyarrow.types as pt

from hoodoo.model.files import BaseFile, FileSlice
from hoodoo.table.read_rule import open_base
from hoodoo.table.ref import TableRef

_WIDENED = {
    (pa.int8(), pa.int32()),
    (pa.int16(), pa.int32()),
    (pa.int32(), pa.int64()),
    (pa.int32(), pa.float64()),
    (pa.int32(), pa.date32()),
    (pa.float32(), pa.float64()),
    (pa.string(), pa.binary()),
    (pa.binary(), pa.string()),
}


def are_readable(ref: TableRef, slices: Sequence[FileSlice], columns: pa.Schema) -> bool:
    """Whether Spark reads the base files of these slices as rows of this schema.

    Few footers are read: types only ever widen, so that of each column the oldest file that has
    it tells; the newest tells whether another writer has come since.
    """
    by_time = {slice_.base_time: slice_.base for slice_ in slices if slice_.base}
    files: list[BaseFile] = [by_time[time] for time in sorted(by_time)]

    @cache
    def schema_of(number: int) -> pa.Schema:
        with open_base(ref.env, files[number]) as file:
            return file.schema_arrow

    found = list(first_types(columns.names, len(files), schema_of))
    found += [(f.name, f.type) for f in schema_of(len(files) - 1) if f.name in columns.names]
    return all(takes(type_, columns.field(name).type) for name, type_ in found)


def first_types(
    names: Iterable[str], count: int, schema_of: Callable[[int], pa.Schema]
) -> Iterator[tuple[str, pa.DataType]]:
    """The type of each column in the first of `count` schemas that has it; a column stays."""
    missing, first = set(names), 0

    def has_one(number: int) -> bool:
        return not missing.isdisjoint(schema_of(number).names)

    while missing:
        first = bisect_left(range(count), True, lo=first, key=has_one)
        if first == count:
            return
        there = missing.intersection(schema_of(first).names)
        yield from ((name, schema_of(first).field(name).type) for name in there)
        missing -= there


def takes(file: pa.DataType, column: pa.DataType) -> bool:
    """Whether Spark reads a file's column of one type as a table's column of the other."""
    if pt.is_struct(column) and pt.is_struct(file):
        common = [field for field in column if file.get_field_index(field.name) >= 0]
        return all(takes(file.field(field.name).type, field.type) for field in common)
    if pt.is_map(column) and pt.is_map(file):
        return takes(file.key_type, column.key_type) and takes(file.item_type, column.item_type)
    if pt.is_list(column) and pt.is_list(file):
        return takes(file.value_type, column.value_type)
    if pt.is_timestamp(column):
        return bool(pt.is_timestamp(file))
    if pt.is_decimal(column) and pt.is_decimal(file):
        digits = column.precision - column.scale, file.precision - file.scale
        return bool(column.scale >= file.scale and digits[0] >= digits[1])
    return column == file or (file, column) in _WIDENED
