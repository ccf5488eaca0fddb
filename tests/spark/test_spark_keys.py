"""Record keys, partition paths and buckets are spelled alike by Spark and without it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import hoodoo
from hoodoo.format.schema import PARTITION_PATH, RECORD_KEY
from hoodoo.read.snapshot import take_snapshot
from hoodoo.spark.schema import spark_schema
from hoodoo.spark.session.session import override_settings
from hoodoo.spark.write.prepare import prepare as prepare_by_spark
from hoodoo.table.ref import open_ref
from hoodoo.write.index import index_of
from hoodoo.write.planning.assignment import WriteTarget
from hoodoo.write.planning.prepare import check_table
from hoodoo.write.planning.prepare import prepare as prepare_here

pytestmark = pytest.mark.spark

UTC, EAST = dt.UTC, dt.timezone(dt.timedelta(hours=9))
HIVE = "hoodie.datasource.write.hive_style_partitioning"
ENCODE = "hoodie.datasource.write.partitionpath.urlencode"
TIMED = "hoodie.keygen.timebased."

VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "text": (pa.string(), ["a", "ä b", "中,文:1", "\U0001f600", "__null__", "a'b\"c\\d"]),
    "byte": (pa.int8(), [-128, 0, 127]),
    "short": (pa.int16(), [-(2**15), 7, 2**15 - 1]),
    "int": (pa.int32(), [-(2**31), 0, 2**31 - 1]),
    "long": (pa.int64(), [-(2**63), 0, 2**63 - 1]),
    "flag": (pa.bool_(), [True, False]),
    "day": (pa.date32(), [dt.date(2024, 2, 29), dt.date(1969, 12, 31), dt.date(1, 1, 1)]),
    "at": (
        pa.timestamp("us", "UTC"),
        [
            dt.datetime(2024, 1, 15, 10, 30, 0, 123456, UTC),
            dt.datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
        ],
    ),
    "local": (pa.timestamp("us"), [dt.datetime(2024, 3, 10, 2, 30), dt.datetime(1582, 10, 4)]),
    "price": (pa.decimal128(20, 4), [Decimal("12.5000"), Decimal("-0.0001"), Decimal(0)]),
    "whole": (pa.decimal128(38, 0), [Decimal(10**37), Decimal(-1)]),
    "real": (pa.float32(), [0.1, 1e10, -0.0, 3.4e38, 1e-40]),
    "double": (pa.float64(), [1e-7, 123456789.125, -0.0, 1e300, 0.001, 1e7, 5e-324]),
}


@dataclass(frozen=True)
class Case:
    """Rows and the table that they are for; `made` are types of the table where they differ."""

    columns: dict[str, tuple[pa.DataType, list[Any]]]
    record_key: tuple[str, ...] = ("id",)
    partition_by: tuple[str, ...] = ()
    options: dict[str, str] = field(default_factory=dict)
    made: dict[str, pa.DataType] = field(default_factory=dict)

    def rows(self) -> pa.Table:
        """The rows, with a plain key and an ordering column."""
        count = len(next(iter(self.columns.values()))[1])
        base = {"id": pa.array([f"k{n}" for n in range(count)]), "ts": pa.array(range(count))}
        columns = {name: pa.array(values, kind) for name, (kind, values) in self.columns.items()}
        return pa.table({**base, **columns})


def _case_of_type(name: str, *, key: bool) -> Case:
    """A column as the key, or as the partition, of rows that have all its values."""
    kind, values = VALUES[name]
    if key:
        return Case({name: (kind, values)}, record_key=(name,))
    return Case({name: (kind, [*values, None])}, partition_by=(name,))


PARTS = {"a": (pa.string(), ["x", "", None, "b:1,c"]), "b": (pa.int32(), [1, None, 3, None])}
ODD = ["a b", "a/b", "naïve 中", "%41", None, "x:y=z?", "p%2Fq", "{}[]^'*#\"", "tab\t", "dot.dot"]
MILLIS = [1705314600000, 1705401000001, -1, None]
TEXTS = ["2024-01-15T10:30:00+0000", "2024-01-16T23:30:00-0500", None]
MOMENTS = [dt.datetime(2024, 1, 15, 23, 30, tzinfo=UTC), dt.datetime(1969, 12, 31, 1, tzinfo=EAST)]


def _case_of_time(kind: pa.DataType, values: list[Any], **settings: str) -> Case:
    options = {f"{TIMED}{name.replace('__', '.')}": value for name, value in settings.items()}
    options |= {"hoodie.table.keygenerator.type": "TIMESTAMP"}
    return Case({"at": (kind, values)}, partition_by=("at",), options=options)


CASES = {
    **{f"key {name}": _case_of_type(name, key=True) for name in VALUES if name != "flag"},
    "key flag": Case({"flag": (pa.bool_(), [True, False])}, record_key=("flag",)),
    **{f"partition {name}": _case_of_type(name, key=False) for name in VALUES if name != "text"},
    "partition text": Case({"p": (pa.string(), ["a b", "x:y=z", "", None])}, partition_by=("p",)),
    "partition plain": Case(
        {"p": (pa.string(), ["a b", "a/b", "", None])}, partition_by=("p",), options={HIVE: "false"}
    ),
    "partition encoded": Case(
        {"p": (pa.string(), ODD)}, partition_by=("p",), options={ENCODE: "true"}
    ),
    "partition encoded plain": Case(
        {"p": (pa.string(), ODD)}, partition_by=("p",), options={ENCODE: "true", HIVE: "false"}
    ),
    "no partition": Case({"p": (pa.string(), ["x", None])}),
    "composite": Case(PARTS, record_key=("a", "b", "id"), partition_by=("b", "a")),
    "composite of all types": Case(
        {name: (kind, values[:2]) for name, (kind, values) in VALUES.items()},
        record_key=("id", *VALUES),
        partition_by=tuple(VALUES),
    ),
    "complex of one": Case(
        PARTS,
        partition_by=("a",),
        options={"hoodie.table.keygenerator.type": "COMPLEX"},
    ),
    "times from millis": _case_of_time(
        pa.int64(), MILLIS, timestamp__type="EPOCHMILLISECONDS", output__dateformat="yyyy/MM/dd"
    ),
    "times from texts": _case_of_time(
        pa.string(),
        TEXTS,
        timestamp__type="DATE_STRING",
        input__dateformat="yyyy-MM-dd'T'HH:mm:ssZ",
        output__dateformat="yyyy-MM-dd",
    ),
    "times from timestamps": _case_of_time(
        pa.timestamp("us", "UTC"),
        MOMENTS,
        timestamp__type="EPOCHMICROSECONDS",
        output__dateformat="yyyy-MM-dd-HH",
        timezone="Asia/Tokyo",
    ),
    "times from days": _case_of_time(
        pa.date32(),
        [dt.date(2024, 1, 15), dt.date(1969, 12, 31), None],
        timestamp__type="SCALAR",
        timestamp__scalar__time__unit="days",
        output__dateformat="yyyy/MM/dd",
    ),
    "times from clocks": _case_of_time(
        pa.timestamp("us"),
        [dt.datetime(2024, 1, 15, 23, 30), None],
        timestamp__type="UNIX_TIMESTAMP",  # the year 54041238, as in Apache Hudi
        output__dateformat="yyyy/MM/dd",
    ),
    # What comes is not quite what the table has, and is written as the table has it.
    "int for a long": Case({"n": (pa.int32(), [1, 2])}, ("n",), ("n",), made={"n": pa.int64()}),
    "int for a double": Case(
        {"n": (pa.int32(), [1, 20_000_000])}, ("n",), ("n",), made={"n": pa.float64()}
    ),
    "float for a double": Case(
        {"n": (pa.float32(), [0.1, 0.5])}, ("n",), ("n",), made={"n": pa.float64()}
    ),
    "decimal for a longer one": Case(
        {"n": (pa.decimal128(5, 1), [Decimal("1.5"), Decimal("-2.0")])},
        ("n",),
        ("n",),
        made={"n": pa.decimal128(12, 4)},
    ),
}


def _table(place: Path, case: Case) -> hoodoo.Table:
    rows = case.rows()
    fields = [pa.field(f.name, case.made.get(f.name, f.type)) for f in rows.schema]
    return hoodoo.create_table(
        str(place),
        schema=pa.schema(fields),
        record_key=case.record_key,
        partition_by=case.partition_by or None,
        ordering="ts",
        options=case.options,
    )


@contextmanager
def _zone(spark: SparkSession, zone: str) -> Iterator[None]:
    with override_settings(spark, {"spark.sql.session.timeZone": zone}):
        yield


def _frame(spark: SparkSession, rows: pa.Table) -> Any:
    """The rows in Spark, whatever the session's zone is: times keep their meaning."""
    with _zone(spark, "UTC"):
        return spark.createDataFrame(rows, spark_schema(rows.schema))


@pytest.mark.parametrize("what", CASES)
def test_keys_and_paths_are_spelled_alike(spark: SparkSession, tmp_path: Path, what: str) -> None:
    case = CASES[what]
    table = _table(tmp_path / "t", case)
    ref = open_ref(table.uri)
    snapshot = take_snapshot(ref)
    here, _ = prepare_here(ref, check_table(case.rows()), snapshot.schema)
    expected = sorted(zip(here.keys.to_pylist(), here.partitions.to_pylist(), strict=True))
    frame = _frame(spark, case.rows())
    for zone in ("UTC", "America/Los_Angeles"):
        with _zone(spark, zone):
            made = prepare_by_spark(
                WriteTarget(snapshot, index_of(snapshot.ref)), frame
            ).frame.select(RECORD_KEY, PARTITION_PATH)
            assert sorted(map(tuple, made.collect())) == expected, zone


@pytest.mark.thin(2)
@pytest.mark.parametrize(
    "what",
    [
        "composite of all types",
        "partition encoded",
        "times from timestamps",
        "float for a double",
    ],
)
@pytest.mark.parametrize("options", [{}, {"hoodie.index.type": "BUCKET"}], ids=["simple", "bucket"])
def test_turns_of_spark_and_of_this_process(
    spark: SparkSession, tmp_path: Path, what: str, options: dict[str, str]
) -> None:
    """One writes, the other updates the same rows: none is there twice, wherever it belongs."""
    case = CASES[what]
    options = {**case.options, **options, "hoodie.bucket.index.num.buckets": "3"}
    rows = case.rows()
    newer = rows.set_column(1, "ts", pa.array([99] * rows.num_rows))
    with _zone(spark, "America/Los_Angeles"):
        for first, second in ((rows, _frame(spark, newer)), (_frame(spark, rows), newer)):
            name = "second" if first is rows else "first"
            table = _table(tmp_path / name, Case(**{**vars(case), "options": options}))
            table.upsert(first)
            keys = sorted(table.to_arrow()[RECORD_KEY].to_pylist())
            result = table.upsert(second)
            assert (result.stats.updated, result.stats.inserted) == (rows.num_rows, 0)
            found = table.to_arrow()
            assert sorted(found[RECORD_KEY].to_pylist()) == keys
            assert set(found["ts"].to_pylist()) == {99}
