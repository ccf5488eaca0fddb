"""Rows for the tables of both sides."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal

import pyarrow as pa

FIRST = ("a sf 1 10", "b sf 1 20", "c la 1 30", "d la 1 40", "e ny 1 50")
# Partition values that need care on their way into a path and back.
ODD = ["a b", "a/b", "naïve 中", "%41", None, "x:y=z?", "p%2Fq", "{}[]^'*#\"", "tab\t", "dot.dot"]


def trips(*lines: str) -> pa.Table:
    """Rows from words: id, city, ts, fare. `-` is a null."""
    cells = [[None if word == "-" else word for word in line.split()] for line in lines]
    ids, cities, times, fares = (list(column) for column in zip(*cells, strict=True))
    return pa.table(
        {
            "id": pa.array(ids, pa.string()),
            "city": pa.array(cities, pa.string()),
            "ts": pa.array([t and int(t) for t in times], pa.int64()),
            "fare": pa.array([f and float(f) for f in fares], pa.float64()),
        }
    )


def two_level(*lines: str) -> pa.Table:
    """Rows from words: id, n, city, year, fare."""
    cells = [[None if word == "-" else word for word in line.split()] for line in lines]
    ids, numbers, cities, years, fares = (list(column) for column in zip(*cells, strict=True))
    return pa.table(
        {
            "id": pa.array(ids, pa.string()),
            "n": pa.array([n and int(n) for n in numbers], pa.int64()),
            "city": pa.array(cities, pa.string()),
            "year": pa.array([int(year) for year in years], pa.int32()),
            "ts": pa.array([1] * len(ids), pa.int64()),
            "fare": pa.array([float(fare) for fare in fares], pa.float64()),
        }
    )


def narrow(*lines: str) -> pa.Table:
    """`trips` with an int and a float, to be widened later."""
    wide = trips(*lines)
    if max(wide["ts"].to_pylist()) > 2**31:
        return wide
    return wide.cast(
        pa.schema({"id": pa.string(), "city": pa.string(), "ts": pa.int32(), "fare": pa.float32()})
    )


def typed(start: int, stop: int) -> pa.Table:
    """A row of every column type per number; every fourth row is null but for its key."""
    numbers = range(start, stop)
    day = dt.date(1969, 12, 30)
    moment = dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, dt.UTC)
    columns: dict[str, tuple[pa.DataType, Callable[[int], object]]] = {
        "flag": (pa.bool_(), lambda n: n % 2 == 0),
        "small": (pa.int32(), lambda n: -(2**31) + n),
        "big": (pa.int64(), lambda n: 2**63 - 1 - n),
        "real": (pa.float32(), lambda n: n / 8),
        "double": (pa.float64(), lambda n: [0.1, float("inf"), -0.0, 1e300][n % 4]),
        "text": (pa.string(), lambda n: ["", "naïve", "中文", "a\nb"][n % 4]),
        "raw": (pa.binary(), lambda n: bytes([0, 255, n])),
        "price": (pa.decimal128(10, 2), lambda n: Decimal(n - 3) + Decimal("0.05")),
        "huge": (pa.decimal128(38, 10), lambda n: Decimal(f"-{n + 1}.0000000001")),
        "day": (pa.date32(), lambda n: day + dt.timedelta(days=n)),
        "at": (pa.timestamp("us", "UTC"), lambda n: moment + dt.timedelta(microseconds=n)),
        "tags": (pa.list_(pa.string()), lambda n: [["x", "z"], [], ["y"]][n % 3]),
        "counts": (pa.map_(pa.string(), pa.int64()), lambda n: [("k", n), ("l", None)][: n % 3]),
        "spot": (
            pa.struct({"x": pa.float64(), "inner": pa.struct({"names": pa.list_(pa.string())})}),
            lambda n: {"x": n / 2, "inner": {"names": ["p", "q"][: n % 3]} if n % 2 else None},
        ),
        "legs": (
            pa.list_(pa.struct({"to": pa.string(), "km": pa.int64()})),
            lambda n: [{"to": "sf", "km": n}, {"to": None, "km": None}][: n % 3],
        ),
    }
    data = {
        name: pa.array([None if n % 4 == 3 else make(n) for n in numbers], kind)
        for name, (kind, make) in columns.items()
    }
    return pa.table(
        {
            "id": pa.array([f"k{n}" for n in numbers]),
            "city": pa.array(["sf" if n % 2 else "la" for n in numbers]),
            "ts": pa.array([start + 1] * len(numbers), pa.int64()),
            **data,
        }
    )
