"""Timestamp-based partitions, written in turns: a row stays in the partition that Hudi gave it."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from compat.peer_client import Peer, PeerError
from compat.peer_rows import trips
from compat.peer_tables import HIVE, KEYGEN, OPERATION, PARTITION, TIMEBASED
from compat.same_rows import assert_same_rows
from compat.shared_table import ALONE
from pyspark.sql import DataFrame, SparkSession

import hoodoo
from hoodoo.config.table import KEY_GENERATOR
from hoodoo.config.write import DRIVER_MAX_BYTES
from hoodoo.spark.schema import spark_schema

ON_EXECUTORS = {DRIVER_MAX_BYTES.name: "0"}
"""DataFrames get their keys on executors, however small they are."""
MOMENT = dt.datetime(2024, 1, 15, 10, 30, 0, 123456)
BEFORE = dt.datetime(1969, 12, 31, 23, 59, 59, 999_999)
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int": (pa.int32(), [19737, None, -1]),
    "long": (pa.int64(), [1705314600123, None, -1]),
    "float": (pa.float32(), [1705314600.75, None, -1.5]),
    "double": (pa.float64(), [1705314600.75, None, -1.5]),
    "decimal": (pa.decimal128(20, 2), [Decimal("1705314600.75"), None, Decimal("-1.50")]),
    "date": (pa.date32(), [MOMENT.date(), None, BEFORE.date()]),
    "zoneless": (pa.timestamp("us"), [MOMENT, None, BEFORE]),
    "timestamp": (pa.timestamp("us", "UTC"), [MOMENT, None, BEFORE]),
    "text": (pa.string(), ["2024-01-15 23:30", None, "1969-12-31 23:59"]),
}
NUMBERS = [name for name in COLUMNS if name not in ("timestamp", "text")]
TYPES = {
    "UNIX_TIMESTAMP": NUMBERS,
    "EPOCHMILLISECONDS": NUMBERS,
    "EPOCHMICROSECONDS": [*NUMBERS, "timestamp"],
    "SCALAR": NUMBERS,
    "DATE_STRING": ["text"],
    "MIXED": ["text"],
}
CASES = [(kind, column) for kind, columns in TYPES.items() for column in columns]


def settings(kind: str) -> dict[str, str]:
    """What makes a table's partitions; values are far apart, and so are the zones."""
    chosen = {"timestamp.type": kind, "output.dateformat": "yyyy-MM-dd-HH"}
    chosen |= {"timestamp.scalar.time.unit": "days", "input.dateformat": "yyyy-MM-dd HH:mm"}
    chosen |= {"output.timezone": "Asia/Tokyo", "input.timezone": "GMT+8"}
    return {HIVE: "false", **{TIMEBASED + name: value for name, value in chosen.items()}}


def rows(column: str, fare: int) -> pa.Table:
    kind, values = COLUMNS[column]
    plain = trips(*(f"{key} - {fare} {fare}" for key in "abc"))
    return plain.append_column("at", pa.array(values, kind))


def theirs(hudi: Peer, place: Path, kind: str, given: pa.Table, **options: str) -> None:
    """Hudi upserts rows."""
    keys = {KEYGEN: "org.apache.hudi.keygen.TimestampBasedKeyGenerator", PARTITION: "at"}
    hudi.write(place, given, ALONE | settings(kind) | keys | {OPERATION: "upsert"} | options)


def ours(place: Path, kind: str, given: pa.Table) -> hoodoo.Table:
    """A new table of ours."""
    return hoodoo.create_table(
        str(place),
        schema=given.schema,
        name="trips",
        record_key="id",
        partition_by="at",
        ordering="ts",
        options={KEY_GENERATOR.name: "TIMESTAMP", **settings(kind)},
    )


def check(hudi: Peer, place: Path, fare: int) -> list[tuple[str, str]]:
    """One row per key, the same for both, with this fare; where it is."""
    table, found = hoodoo.open_table(str(place)).to_arrow(), hudi.read(place)
    assert_same_rows(table, found, besides=("at",))  # which Hudi reads as a text
    assert sorted(found["id"].to_pylist()) == ["a", "b", "c"]
    assert found["fare"].to_pylist() == [fare] * 3
    return places(found)


def places(found: pa.Table) -> list[tuple[str, str]]:
    """Keys and their partitions."""
    names = ("id", "_hoodie_partition_path")
    return sorted(zip(*(found[name].to_pylist() for name in names), strict=True))


def frame(spark: SparkSession, given: pa.Table) -> DataFrame:
    return spark.createDataFrame(given, spark_schema(given.schema))


@pytest.mark.parametrize(("kind", "column"), CASES)
def test_rows_stay_in_hudis_partition(
    hudi: Peer, spark: SparkSession, tmp_path: Path, kind: str, column: str
) -> None:
    place = tmp_path / "t"
    theirs(hudi, place, kind, rows(column, 1))
    table = hoodoo.open_table(str(place), ON_EXECUTORS)
    placed = places(table.to_arrow())
    table.upsert(rows(column, 2))
    assert places(table.to_arrow()) == placed
    table.upsert(frame(spark, rows(column, 3)))
    assert check(hudi, place, 3) == placed


@pytest.mark.parametrize(
    ("kind", "column"), [(kind, columns[-1]) for kind, columns in TYPES.items()]
)
def test_rows_stay_in_our_partition(hudi: Peer, tmp_path: Path, kind: str, column: str) -> None:
    place = tmp_path / "t"
    table = ours(place, kind, rows(column, 1))
    table.insert(rows(column, 1))
    placed = places(table.to_arrow())
    theirs(hudi, place, kind, rows(column, 2))
    assert check(hudi, place, 2) == placed


@pytest.mark.parametrize(
    ("kind", "column"), [("UNIX_TIMESTAMP", "text"), ("DATE_STRING", "long"), ("MIXED", "date")]
)
def test_what_hudi_cannot_take_for_a_time_is_refused(
    hudi: Peer, tmp_path: Path, kind: str, column: str
) -> None:
    with pytest.raises(PeerError):
        theirs(hudi, tmp_path / "theirs", kind, rows(column, 1))
    with pytest.raises(hoodoo.HoodooError, match=r"timebased\.timestamp\.type"):
        ours(tmp_path / "ours", kind, rows(column, 1))


@pytest.mark.parametrize("kind", ["EPOCHMILLISECONDS", "DATE_STRING"])
def test_timestamps_that_hudi_places_by_its_options_are_refused(
    hudi: Peer, spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    name = "hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled"
    place, given = tmp_path / "t", rows("timestamp", 1)
    theirs(hudi, place, kind, given, **{name: "true"})
    table = hoodoo.open_table(str(place), ON_EXECUTORS)
    files = sorted(path for path in place.rglob("*"))
    for more in (given, frame(spark, given)):
        for write in (table.upsert, table.bulk_insert, table.delete):
            with pytest.raises(hoodoo.HoodooError, match="EPOCHMICROSECONDS"):
                write(more)
    assert sorted(path for path in place.rglob("*")) == files
    if kind == "EPOCHMILLISECONDS":
        theirs(hudi, place, kind, given)
        assert hudi.read(place).num_rows == 5  # two of three keys are there twice
    else:
        with pytest.raises(PeerError, match="not specified"):
            theirs(hudi, place, kind, given)
