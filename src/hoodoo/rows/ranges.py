"""Statistics of the columns of rows in memory: what a log file's entry in an index says."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from hoodoo.model.stats import ColumnRange


def ranges_of_rows(rows: pa.Table, columns: Iterable[str]) -> tuple[ColumnRange, ...]:
    """The range of each of these columns; without bounds where there is a NaN among the values."""
    return tuple(_range_of(name, rows[name]) for name in columns)


def _range_of(name: str, column: pa.ChunkedArray) -> ColumnRange:
    low = high = None
    has_nan = pt.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py()
    if not has_nan and column.null_count < len(column):
        bounds = pc.min_max(column)
        low, high = bounds["min"].as_py(), bounds["max"].as_py()
    return ColumnRange(
        column=name,
        min_value=low,
        max_value=high,
        null_count=column.null_count,
        value_count=len(column),
    )
