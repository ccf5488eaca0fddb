"""Filters pushed to the data source: rows for which they are true to Spark are never left out."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import datasource

import hoodoo
from hoodoo.read.scan import select_slices
from hoodoo.runtime.engine import LocalEngine
from hoodoo.table.ref import open_ref

if not hasattr(datasource, "Filter"):
    pytest.skip("Spark pushes filters down to Python sources from 4.1 on", allow_module_level=True)

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    Not,
    StringContains,
)

from hoodoo.spark.datasource.read import narrow_selection

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("city", pa.string()),
        ("fare", pa.decimal128(8, 2)),
        ("score", pa.float64()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("deep", pa.struct([("x", pa.int32())])),
    ]
)
CITIES = ("sf", "la", "ny")


def row(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "city": CITIES[number % 3],
        "fare": Decimal(number) / 4,
        "score": float("nan") if number % 4 == 0 else float(number),
        "day": date(2026, 1, 1 + number) if number % 5 else None,
        "at": datetime(2026, 1, 1, number, tzinfo=UTC),
        "deep": {"x": number},
    }


ROWS = [row(number) for number in range(20)]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pushdown") / "t"
    options = {"schema": SCHEMA, "record_key": "id", "partition_by": "city"}
    hoodoo.create_table(str(path), **options).insert(pa.Table.from_pylist(ROWS, SCHEMA))
    return path


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
EXACT: list[tuple[Filter, Any]] = [
    (EqualTo(("city",), "la"), lambda r: r["city"] == "la"),
    (EqualTo(("fare",), Decimal("1.25")), lambda r: r["fare"] == Decimal("1.25")),
    (In(("id",), (1, 2, 30)), lambda r: r["id"] in (1, 2)),
    (Not(In(("id",), (1, 2, 30))), lambda r: r["id"] not in (1, 2)),
    (Not(EqualTo(("city",), "la")), lambda r: r["city"] != "la"),
    (IsNull(("day",)), lambda r: r["day"] is None),
    (IsNotNull(("day",)), lambda r: r["day"] is not None),
    (EqualNullSafe(("day",), None), lambda r: r["day"] is None),
    (Not(EqualNullSafe(("day",), None)), lambda r: r["day"] is not None),
    (GreaterThan(("day",), date(2026, 1, 9)), lambda r: r["day"] and r["day"] > date(2026, 1, 9)),
    (LessThan(("at",), NOON), lambda r: r["at"] < NOON),
    (GreaterThanOrEqual(("at",), NOON), lambda r: r["at"] >= NOON),
    (IsNotNull(("score",)), lambda r: True),
]
PASSED_OVER = [
    GreaterThan(("score",), 3.0),  # NaN is larger to Spark
    Not(LessThan(("score",), 3.0)),
    StringContains(("city",), "a"),
    Not(StringContains(("city",), "a")),
    EqualTo(("deep", "x"), 3),
    EqualTo(("nothing",), 3),
    EqualTo(("fare",), "many"),
]


@pytest.mark.parametrize(("given", "is_true"), EXACT)
def test_rows_that_match_are_found_and_no_others(place: Path, given: Filter, is_true: Any) -> None:
    chosen = narrow_selection(
        select_slices(open_ref(str(place)), columns=["id"]), [given, *PASSED_OVER]
    )
    found = chosen.read(LocalEngine(threads=1))["id"].to_pylist()
    assert sorted(found) == [r["id"] for r in ROWS if is_true(r)]


@pytest.mark.parametrize("given", PASSED_OVER, ids=str)
def test_filters_that_mean_something_else_to_arrow_leave_all(place: Path, given: Filter) -> None:
    chosen = select_slices(open_ref(str(place)))
    assert narrow_selection(chosen, [given]) is chosen


def test_partitions_are_left_out_and_other_filters_stay(place: Path) -> None:
    chosen = select_slices(open_ref(str(place)), filter="id < 9")
    pushed = narrow_selection(chosen, [EqualTo(("city",), "la")])
    assert [each.group.partition for each in pushed.slices] == ["city=la"]
    assert sorted(pushed.read(LocalEngine(threads=1))["id"].to_pylist()) == [1, 4, 7]
