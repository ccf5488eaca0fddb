"""Ranges of whole files out of Parquet footers."""

from __future__ import annotations

import io
from collections.abc import Iterable
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hoodoo.errors import FormatError
from hoodoo.format.parquet.base_file import footer_bytes
from hoodoo.format.parquet.statistics import column_ranges
from hoodoo.metadata_table.indexes.file_facts import ranges_of_rows
from hoodoo.model.commit import ColumnRange


def written(table: pa.Table, **options: Any) -> tuple[bytes, pq.FileMetaData]:
    out = io.BytesIO()
    pq.write_table(table, out, **options)
    return footer_bytes(pa.BufferReader(out.getvalue())), pq.read_metadata(out)


def by_name(ranges: Iterable[ColumnRange]) -> dict[str, ColumnRange]:
    return {one.column: one for one in ranges}


ROWS = pa.table(
    {
        "whole": pa.array([3, None, 1, 7], pa.int32()),
        "text": pa.array(["b", "a", "é", None], pa.string()),
        "day": pa.array([date(2024, 1, 2), None, None, date(1969, 1, 1)], pa.date32()),
        "price": pa.array([Decimal("1.50"), Decimal("-2.25"), None, None], pa.decimal128(9, 2)),
        "empty": pa.nulls(4, pa.int64()),
        "struct": pa.array([{"a": 1}] * 4),
    }
)


def test_ranges_of_row_groups_are_put_together() -> None:
    footer, metadata = written(ROWS, row_group_size=2)
    assert metadata.num_row_groups == 2
    ranges = by_name(column_ranges(footer, ROWS.schema))
    assert set(ranges) == set(ROWS.column_names) - {"struct"}
    for name, one in by_name(ranges_of_rows(ROWS, ROWS.select(list(ranges)).schema)).items():
        found = ranges[name]
        assert (found.min_value, found.max_value) == (one.min_value, one.max_value)
        assert (found.null_count, found.value_count) == (one.null_count, one.value_count)
        chunks = [
            metadata.row_group(group).column(ROWS.column_names.index(name)) for group in (0, 1)
        ]
        assert found.size_bytes == sum(chunk.total_compressed_size for chunk in chunks)
        assert found.uncompressed_bytes == sum(chunk.total_uncompressed_size for chunk in chunks)


def test_a_column_without_statistics_has_no_range() -> None:
    footer, _ = written(ROWS, write_statistics=["whole"])
    assert set(by_name(column_ranges(footer, ROWS.schema))) == {"whole"}
    empty, _ = written(ROWS[:0])
    assert all(one.value_count == 0 for one in column_ranges(empty, ROWS.schema))


def test_a_damaged_footer_is_a_format_error() -> None:
    footer, _ = written(ROWS)
    with pytest.raises(FormatError):
        column_ranges(footer[: len(footer) // 2], ROWS.schema)
