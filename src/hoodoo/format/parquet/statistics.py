"""Statistics of Parquet row groups, read from the footer's own structs.

pyarrow is not asked: its objects for column chunks and for statistics end the whole process when
a footer is damaged (an exception in C++ that nothing catches; seen with 26.0).

    FileMetaData    2 schema   4 row groups   7 column orders, one per column: {1} is by type
    RowGroup        1 column chunks   3 number of rows
    ColumnChunk     3 metadata
    ColumnMetaData  1 physical type   3 path, a list of names   5 number of values
                    6 uncompressed bytes   7 bytes   12 statistics
    Statistics      3 null count   5 max value   6 min value
"""

from __future__ import annotations

import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from hoodoo.errors import FormatError
from hoodoo.format.parquet.thrift import Struct, read_struct
from hoodoo.model.commit import ColumnRange
from hoodoo.model.predicate import ValueRange

_SIZES = {0: 1, 1: 4, 2: 8, 4: 4, 5: 8}  # physical types of fixed size, but INT96
_FLOATS = {4: "<f", 5: "<d"}


def value_ranges(footer: bytes, schema: pa.Schema) -> list[dict[str, ValueRange]]:
    """For each row group, what a file's footer tells of the values of top-level columns.

    All values but NaN lie within the bounds, which need not be values themselves: writers may cut
    long texts and round outwards. Bounds that Python has no value for are unknown. So are those
    without a stated order (of very old writers) and those of INT96.
    """
    return _ranges_of(read_struct(footer), schema)


def _ranges_of(metadata: Struct, schema: pa.Schema) -> list[dict[str, ValueRange]]:
    types = {field.name: field.type for field in schema}
    try:
        orders = [1 in order for order in metadata.get(7, ())]
        return [_group_ranges(group, types, orders) for group in metadata.get(4, ())]
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        raise FormatError("Parquet footer lacks a field, or has it with another type") from None


def column_ranges(footer: bytes, schema: pa.Schema) -> tuple[ColumnRange, ...]:
    """What a file's footer tells of each top-level column, all row groups taken together.

    A column is left out if nulls were not counted everywhere. Bounds say nothing about NaN.
    """
    metadata = read_struct(footer)
    groups = _ranges_of(metadata, schema)
    counts: dict[str, list[tuple[int, int, int, int]]] = {}
    try:
        for group in metadata.get(4, ()):
            for chunk in group[1]:
                column = chunk[3]
                nulls = column.get(12, {}).get(3)
                if len(column[3]) == 1 and nulls is not None:
                    numbers = (nulls, column[5], column[7], column[6])
                    counts.setdefault(column[3][0].decode(), []).append(numbers)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        raise FormatError("Parquet footer lacks a field, or has it with another type") from None
    return tuple(
        _whole_range(name, numbers, [group[name] for group in groups])
        for name, numbers in counts.items()
        if len(numbers) == len(groups) and all(name in group for group in groups)
    )


def _whole_range(
    name: str, numbers: list[tuple[int, int, int, int]], ranges: list[ValueRange]
) -> ColumnRange:
    nulls, values, size_bytes, uncompressed_bytes = map(sum, zip(*numbers, strict=True))
    known_ranges = [one for one in ranges if one.may_have_values]
    is_known = known_ranges and all(
        one.low is not None and one.high is not None for one in known_ranges
    )
    return ColumnRange(
        column=name,
        min_value=min(one.low for one in known_ranges) if is_known else None,
        max_value=max(one.high for one in known_ranges) if is_known else None,
        null_count=nulls,
        value_count=values,
        size_bytes=size_bytes,
        uncompressed_bytes=uncompressed_bytes,
    )


def _group_ranges(
    group: Struct, types: dict[str, pa.DataType], orders: list[bool]
) -> dict[str, ValueRange]:
    ranges = {}
    for number, chunk in enumerate(group[1]):
        column = chunk[3]
        statistics, path = column.get(12), [name.decode() for name in column[3]]
        if statistics is None or len(path) != 1 or path[0] not in types:
            continue
        low = high = None
        if number < len(orders) and orders[number]:
            low, high = (
                _value(statistics.get(key), column[1], types[path[0]], path[0]) for key in (6, 5)
            )
        nulls = statistics.get(3)
        ranges[path[0]] = ValueRange(
            low,
            high,
            may_be_null=nulls is None or nulls != 0,
            may_have_values=nulls is None or nulls != group[3],
        )
    return ranges


def _value(raw: bytes | None, physical: int, arrow: pa.DataType, name: str) -> Any:
    """A bound as the Python value that Arrow has for it; None where it is not known."""
    if raw is None:
        return None
    size = _SIZES.get(physical)
    if size is not None and len(raw) != size:
        raise FormatError(f"Parquet statistics of column {name} have {len(raw)} bytes, not {size}")
    try:
        if pt.is_decimal(arrow):
            unscaled_value = int.from_bytes(raw, "little" if size else "big", signed=True)
            return Decimal(f"{unscaled_value}E{-arrow.scale}")
        if physical == 0:
            return raw != b"\0"
        if physical in (1, 2):
            is_signed = not pt.is_unsigned_integer(arrow)
            number = int.from_bytes(raw, "little", signed=is_signed)
            return number if pt.is_integer(arrow) else _moment(number, physical, arrow)
        if physical in _FLOATS:
            return struct.unpack(_FLOATS[physical], raw)[0]
        if pt.is_string(arrow):
            return raw.decode()
    except (OverflowError, ValueError, pa.ArrowException):
        return None  # a day beyond the year 9999; a text that is none
    return raw if pt.is_binary(arrow) or pt.is_fixed_size_binary(arrow) else None


def _moment(number: int, physical: int, arrow: pa.DataType) -> Any:
    width = pa.int32() if physical == 1 else pa.int64()
    return pa.scalar(number, width).cast(arrow).as_py()
