"""Filters mean the same to Spark's own scans as to Arrow."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator
from decimal import Decimal
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from support.frame_checks import is_merged, plan_of

import hoodoo

pytestmark = pytest.mark.spark

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("n", pa.int32()),
        ("x", pa.float64()),
        ("f", pa.float32()),
        ("s", pa.string()),
        ("b", pa.binary()),
        ("flag", pa.bool_()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("ms", pa.timestamp("ms", "UTC")),
        ("local", pa.timestamp("us")),
        ("d", pa.decimal128(12, 3)),
        ("fixed", pa.binary(2)),
    ]
)
UTC = dt.UTC
ROWS: list[tuple[Any, ...]] = [
    (0, -1, -1.5, 0.1, "a_b", b"a", True, dt.date(2026, 1, 1)),
    (1, 0, -0.0, 0.0, "a%b", b"\xff", False, dt.date(1582, 10, 4)),
    (2, 7, math.nan, math.nan, "", b"", True, dt.date(2026, 3, 8)),
    (3, None, None, None, None, None, None, None),
    (4, 10**7, math.inf, 1.5, "Ünï\U0001f600x", b"ab", False, dt.date(9999, 12, 31)),
    (5, 2, 0.1, -math.inf, "it's\nb", b"abc", True, dt.date(1, 1, 1)),
]
MOMENTS = [
    dt.datetime(2026, 3, 8, 6, 30),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999999),
    dt.datetime(2026, 3, 8, 7, 0),
    None,
    dt.datetime(1, 1, 1),
    dt.datetime(2026, 11, 1, 5, 30, 0, 1),
]
FILTERS: list[Any] = [
    "n > 0",
    "n >= 1.5",
    "n != 7",
    f"n < {2**40}",
    "n in (2, 7, null)",
    "n not in (2, 7)",
    "n not in (2, null)",
    "n is null or s is not null",
    "not (n > 0 and x > 0)",
    "x > 0",
    "x >= -0.5",
    "x < 1e400",
    "x != 0.1",
    "x = 0.0",
    "x >= 0",
    "x <= -0.0",
    "f = 0",
    "not x > 0",
    "f = 0.1",
    "f < 1.0",
    "x in (0.1, 7.5)",
    "s = 'a_b'",
    "s like 'a\\_b'",
    "s like 'a_b'",
    "s like '%b'",
    "s like '___\U0001f600_'",
    "s not like 'a%'",
    "s = 'it''s\nb'",
    "s > 'a%b' and s <= 'z'",
    "s = ''",
    "flag = true",
    "flag < true",
    "day = '2026-03-08'",
    "day > date '1582-10-10'",
    "day in (date '0001-01-01', date '9999-12-31')",
    "at = '2026-03-08 06:30:00'",
    "at >= timestamp '1969-12-31 23:59:59.999999+00:00'",
    "ms > timestamp '2026-03-08 06:30:00+00:00'",
    "local = timestamp '2026-11-01 05:30:00.000001'",
    "local < '2026-03-08 07:00:00'",
    "d = 1.5",
    "d between -1.5 and 1",
    [("x", "=", math.nan)],
    [("x", "!=", math.nan)],
    [("n", "<", math.nan)],
    [("b", "=", b"\xff")],
    [("b", ">", b"a")],
    [("fixed", "=", b"zz")],
    [("n", "in", [])],
    [[("n", "=", 2)], [("s", "=", "")]],
    [("day", ">=", dt.date(2026, 1, 1)), ("at", "<", dt.datetime(2026, 3, 8, 6, 45, tzinfo=UTC))],
    pc.field("n") * 2 > 4,
    pc.field("s").is_null(nan_is_null=True),
]
BY_ARROW = ("in (0.1", "like 'a\\", "fixed", "nan_is_null", "multiply", "* 2")


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, hoodoo.Table]:
    """The same rows in base files, and in logs that change a base file."""
    listed = []
    for row, moment in zip(ROWS, MOMENTS, strict=True):
        zoned = moment.replace(tzinfo=UTC) if moment else None
        whole = zoned.replace(microsecond=0) if zoned else None
        number = row[0]
        price = None if moment is None else Decimal(number) / 2
        fixed = None if moment is None else b"zz" if number == 5 else b"aa"
        listed.append(
            dict(zip(SCHEMA.names, (*row, zoned, whole, moment, price, fixed), strict=True))
        )
    made = {}
    for kind in ("cow", "mor"):
        place = tmp_path_factory.mktemp("filters") / kind
        table = hoodoo.create_table(str(place), schema=SCHEMA, record_key="id", table_type=kind)
        table.insert(pa.Table.from_pylist(listed, SCHEMA))
        if kind == "mor":
            table.upsert(pa.Table.from_pylist(listed[::2], SCHEMA))
        made[kind] = table
    return made


@pytest.fixture
def far_away(spark: SparkSession) -> Iterator[SparkSession]:
    """The session in another time zone than the rows."""
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    yield spark
    spark.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_spark_filters_find_the_same_rows_as_arrow(
    far_away: SparkSession, tables: dict[str, hoodoo.Table], kind: str
) -> None:
    table = tables[kind]
    frames = [
        table.read(far_away, columns=["id"], filter=condition).select(sf.lit(number), "id")
        for number, condition in enumerate(FILTERS)
    ]
    found: dict[int, list[int]] = {number: [] for number in range(len(FILTERS))}
    for number, key in reduce(DataFrame.unionAll, frames).collect():  # one job for all
        found[number].append(key)
    wrong = {}
    for number, condition in enumerate(FILTERS):
        expected = table.to_arrow(columns=["id"], filter=condition)["id"].to_pylist()
        if sorted(found[number]) != sorted(expected):
            wrong[str(condition)] = (found[number], expected)
    assert not wrong


def test_only_filters_that_spark_lacks_are_left_to_arrow(
    spark: SparkSession, tables: dict[str, hoodoo.Table]
) -> None:
    for condition in FILTERS:
        frame = tables["cow"].read(spark, filter=condition)
        assert is_merged(frame) is any(part in str(condition) for part in BY_ARROW), condition


@pytest.mark.parametrize(
    ("condition", "pushed"),
    [
        ("n > 5", "GreaterThan(n,5)"),
        ("s = 'x' and flag = true", "EqualTo(s,x), EqualTo(flag,true)"),
        ("day = '2026-03-08'", "EqualTo(day,2026-03-08)"),
        ("at < '2026-03-08 06:30:00'", "LessThan(at,"),
        ("local < '2026-03-08 06:30:00'", "LessThan(local,2026-03-08T06:30)"),
        ("d = 1.5", "EqualTo(d,1.500)"),
        ("x < 2.5", "LessThan(x,2.5)"),
    ],
)
def test_filters_are_pushed(
    spark: SparkSession, tables: dict[str, hoodoo.Table], condition: str, pushed: str
) -> None:
    spark.conf.set("spark.sql.maxMetadataStringLength", "1000")
    plan = plan_of(tables["cow"].read(spark, filter=condition))
    assert pushed in plan.partition("PushedFilters")[2]
