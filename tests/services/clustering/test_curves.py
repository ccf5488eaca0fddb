"""Orders of rows: by columns, and along curves."""

from __future__ import annotations

import itertools
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from hoodoo.model.plans import Layout
from hoodoo.services.clustering.row_order import (
    hilbert_transpose,
    interleave,
    is_sortable,
    sort_rows,
)

CURVES = (Layout.ZORDER, Layout.HILBERT)


def grid(side: int, dimensions: int) -> list[tuple[int, ...]]:
    return list(itertools.product(range(side), repeat=dimensions))


def columns_of(points: list[tuple[int, ...]]) -> list[np.ndarray]:
    return [np.array(axis, np.uint64) for axis in zip(*points, strict=True)]


def interleave_slowly(point: tuple[int, ...], bits: int) -> int:
    text = "".join(format(value, f"0{bits}b")[bit] for bit in range(bits) for value in point)
    return int(text, 2)


@pytest.mark.parametrize(("dimensions", "bits"), [(1, 16), (2, 16), (3, 16), (5, 12), (64, 1)])
def test_interleaved_bits_are_those_of_the_texts(dimensions: int, bits: int) -> None:
    numbers = np.random.default_rng(7).integers(0, 1 << bits, (200, dimensions))
    points = [tuple(int(value) for value in row) for row in numbers]
    keys = interleave(columns_of(points), bits)
    assert keys.tolist() == [interleave_slowly(point, bits) for point in points]


@pytest.mark.parametrize(("dimensions", "bits"), [(2, 4), (3, 3), (4, 2)])
def test_hilbert_curve_visits_each_point_once_in_steps_of_one(dimensions: int, bits: int) -> None:
    points = grid(1 << bits, dimensions)
    distances = interleave(hilbert_transpose(columns_of(points), bits), bits).tolist()
    assert sorted(distances) == list(range(len(points)))
    path = [point for _, point in sorted(zip(distances, points, strict=True))]
    for here, there in itertools.pairwise(path):
        assert sum(abs(a - b) for a, b in zip(here, there, strict=True)) == 1


COLUMNS = {
    "text": pa.array(["b", None, "a", "zz", "", "b"]),
    "bytes": pa.array([b"b", None, b"a", b"\xff", b"", b"b"]),
    "decimal": pa.array([Decimal("1.50"), None, Decimal("-2.00"), Decimal("9"), Decimal(0), None]),
    "moment": pa.array([5, None, -7, 10**15, 0, 5], pa.timestamp("us", "UTC")),
    "day": pa.array([5, None, -7, 20_000, 0, 5], pa.date32()),
    "flag": pa.array([True, None, False, True, False, None]),
    "float": pa.array([1.5, None, float("nan"), float("-inf"), -0.0, 1.5]),
}


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("layout", Layout)
def test_values_ascend_and_nulls_come_last(name: str, layout: Layout) -> None:
    column = COLUMNS[name]
    chunks = pa.chunked_array([column.slice(0, 2), column.slice(2)])
    same = pa.array([1] * len(column))
    order = sort_rows(pa.table({"x": chunks, "same": same}), layout)
    values = column.take(order).to_pylist()
    present = [value for value in values if value is not None]
    assert values[len(present) :] == [None] * column.null_count
    numbers = [value for value in present if value == value]
    assert numbers == sorted(numbers)


def test_linear_order_goes_by_the_first_column_then_the_next() -> None:
    rows = pa.table({"a": [2, 1, 2, 1], "b": ["x", "y", "a", "b"]})
    ordered = rows.take(sort_rows(rows, Layout.LINEAR)).to_pylist()
    assert [tuple(row.values()) for row in ordered] == [(1, "b"), (1, "y"), (2, "a"), (2, "x")]


@pytest.mark.parametrize("layout", Layout)
def test_equal_rows_stay_as_they_are(layout: Layout) -> None:
    rows = pa.table({"a": [1] * 100, "b": ["x"] * 100})
    assert sort_rows(rows, layout).to_pylist() == list(range(100))


@pytest.mark.parametrize("layout", CURVES)
def test_pieces_of_a_curve_are_narrow_in_every_column(layout: Layout) -> None:
    rng = np.random.default_rng(3)
    rows = pa.table({"a": rng.exponential(1.0, 65_536), "b": rng.integers(0, 10**12, 65_536)})
    ordered = rows.take(sort_rows(rows, layout))
    for name in rows.column_names:
        ranks = np.argsort(np.argsort(ordered.column(name).to_numpy()))
        widths = [np.ptp(piece) / len(ranks) for piece in np.split(ranks, 64)]
        assert np.mean(widths) < 0.2  # 64 pieces, two columns: an eighth is the least


@pytest.mark.parametrize("layout", Layout)
def test_no_rows_have_an_order_too(layout: Layout) -> None:
    rows = pa.schema([("a", pa.int64()), ("b", pa.string())]).empty_table()
    assert sort_rows(rows, layout).to_pylist() == []


def test_types_without_an_order_are_told_apart() -> None:
    assert not is_sortable(pa.list_(pa.int64()))
    assert not is_sortable(pa.struct([("x", pa.int64())]))
    assert is_sortable(pa.decimal128(10, 2))
