"""Reads and changes on Spark give the rows that `to_arrow` and the `hudi` wheel give."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from support.fixtures import fixture_tables
from support.frame_checks import is_merged, is_scanned, rows_in, same_rows
from support.wheel import rows_of, wheel_rows

import hoodoo
from hoodoo.errors import InputError, TimelineError, UnsupportedFeature
from hoodoo.table.ref import open_ref

pytestmark = pytest.mark.spark

Unpack = Callable[[str], Path]

SCHEMA = pa.schema(
    [("id", pa.string()), ("city", pa.string()), ("ts", pa.int64()), ("v", pa.float64())]
)


def rows(*given: tuple[Any, ...], schema: pa.Schema = SCHEMA) -> pa.Table:
    return pa.Table.from_pylist(
        [dict(zip(schema.names, row, strict=True)) for row in given], schema
    )


def make(path: Path, kind: str, **arguments: Any) -> hoodoo.Table:
    arguments = {"record_key": "id", "partition_by": "city", "ordering": "ts", **arguments}
    return hoodoo.create_table(
        str(path / "trips"), schema=arguments.pop("schema", SCHEMA), table_type=kind, **arguments
    )


@pytest.mark.parametrize("name", fixture_tables())
def test_tables_of_apache_hudi(spark: SparkSession, name: str, unpack: Unpack) -> None:
    path = unpack(name)
    table = hoodoo.open_table(str(path))
    frame = table.read(spark)
    same_rows(frame, table.to_arrow())
    assert rows_in(frame) == wheel_rows(path)


def test_tables_of_apache_hudi_in_the_past(spark: SparkSession, unpack: Unpack) -> None:
    for name in ("cow/v9_txns_simple_nometa", "mor-avro/v9_txns_nonpart_meta"):
        path = unpack(name)
        table = hoodoo.open_table(str(path))
        first, *_, last = open_ref(str(path)).load_timeline().commits
        for instant in (first, last):
            time = instant.requested_time
            assert rows_in(table.read(spark, as_of=time)) == wheel_rows(path, as_of=time)
        changed = table.changes(spark, since=first.requested_time)
        assert rows_in(changed) == rows_of(table.changes(since=first.requested_time))


@pytest.mark.thin(2)
@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("ordering", ["ts", None])
def test_spark_reads_the_same_rows_as_to_arrow_after_each_write(
    spark: SparkSession, tmp_path: Path, kind: str, ordering: str | None
) -> None:
    table = make(tmp_path, kind, ordering=ordering)
    same_rows(table.read(spark), table.to_arrow())
    assert table.read(spark).count() == 0
    given = [(f"k{n}", f"c{n % 3}", 5, float(n)) for n in range(30)]
    first = table.insert(rows(*given))
    second = table.upsert(rows(("k1", "c1", 6, 100.0), ("k4", "c1", 1, 200.0), ("n", "c0", 1, 3.0)))
    third = table.delete(["k7", "k2", "n"])
    fourth = table.upsert(rows(("k7", "c1", 4, 7.5), ("late", "c2", 0, 1.0)))
    frame = table.read(spark)
    same_rows(frame, table.to_arrow())
    assert rows_in(frame) == wheel_rows(table.uri)
    assert is_merged(frame) is (kind == "mor")
    expected = {row["id"]: row["v"] for row in rows(*given).to_pylist()}
    expected |= {"k1": 100.0, "late": 1.0, "k7": 7.5}
    del expected["k2"]
    if ordering is None:
        expected["k4"] = 200.0
    assert {row["id"]: row["v"] for row in rows_in(frame)} == expected
    for commit in (first, second, third, fourth):
        same_rows(table.read(spark, as_of=commit.instant), table.to_arrow(as_of=commit.instant))
        same_rows(table.changes(spark, since=commit.instant), table.changes(since=commit.instant))
    window: dict[str, Any] = {"since": first.instant, "until": second.instant}
    changed = table.changes(spark, **window, columns=["id", "v"])
    same_rows(changed, table.changes(**window, columns=["id", "v"]))
    assert changed.count() == (2 if ordering else 3)


def test_read_optimized_reads_base_files_by_sparks_own_scan(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = make(tmp_path, "mor")
    table.insert(rows(("a", "sf", 1, 1.0), ("b", "ny", 1, 2.0)))
    table.upsert(rows(("a", "sf", 2, 9.0)))
    optimized = table.read(spark, mode="read_optimized")
    same_rows(optimized, table.to_arrow(mode="read_optimized"))
    assert {row["v"] for row in rows_in(optimized)} == {1.0, 2.0}
    assert is_scanned(optimized)
    assert not is_merged(optimized)


def test_slices_with_and_without_logs_together(spark: SparkSession, tmp_path: Path) -> None:
    table = make(tmp_path, "mor")
    table.insert(rows(("a", "sf", 1, 1.0), ("b", "ny", 1, 2.0), ("c", None, 1, 3.0)))
    table.upsert(rows(("a", "sf", 2, 9.0)))
    frame = table.read(spark)
    assert is_scanned(frame)
    assert is_merged(frame)
    same_rows(frame, table.to_arrow())
    assert all(field.nullable for field in frame.schema)
    few = table.read(spark, columns=["v", "id"], filter="v > 2.5")
    assert few.columns == ["v", "id"]
    assert sorted(map(tuple, few.collect())) == [(3.0, "c"), (9.0, "a")]
    assert frame.filter("v > 2.5").select("id").count() == 2
    assert frame.where("city is null").select("v").collect()[0].v == 3.0


def test_dataframe_reads_snapshot_of_read_call(spark: SparkSession, tmp_path: Path) -> None:
    table = make(tmp_path, "mor")
    table.insert(rows(("a", "sf", 1, 1.0), ("b", "ny", 1, 1.0)))
    frame = table.read(spark)
    table.upsert(rows(("a", "sf", 2, 9.0), ("c", "ny", 1, 1.0)))
    assert {row["v"] for row in rows_in(frame)} == {1.0}
    assert frame.count() == 2


def test_many_small_slices_share_tasks(spark: SparkSession, tmp_path: Path) -> None:
    table = make(tmp_path, "mor")
    given = [(f"k{n}", f"c{n:02}", 1, float(n)) for n in range(50)]
    table.insert(rows(*given))
    table.upsert(rows(*((key, city, 2, v + 0.5) for key, city, _, v in given[:40])))
    frame = table.read(spark)
    same_rows(frame, table.to_arrow())
    merged = table.read(spark, filter=pc.field("v") > -1)
    same_rows(merged, table.to_arrow())
    assert merged.rdd.getNumPartitions() == 4 * spark.sparkContext.defaultParallelism


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_schemas_that_grew(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    narrow = pa.schema(
        [
            ("id", pa.string()),
            ("city", pa.string()),
            ("n", pa.int32()),
            ("x", pa.float32()),
            ("d", pa.decimal128(6, 2)),
            ("s", pa.struct([("a", pa.int32())])),
        ]
    )
    wide = pa.schema(
        [
            ("id", pa.string()),
            ("city", pa.string()),
            ("n", pa.int64()),
            ("x", pa.float64()),
            ("d", pa.decimal128(20, 2)),
            ("s", pa.struct([("a", pa.int64()), ("b", pa.string())])),
            ("note", pa.string()),
        ]
    )
    table = make(tmp_path, kind, schema=narrow, ordering=None)
    old = {"city": "sf", "n": 7, "x": 0.1, "d": "1.25", "s": {"a": 1}}
    cast = pa.array(["1.25"]).cast(pa.decimal128(6, 2))[0].as_py()
    before = [{**old, "id": key, "city": city, "d": cast} for key, city in ("as", "by", "cz")]
    table.insert(pa.Table.from_pylist(before, narrow))
    after = {**old, "id": "b", "city": "y", "n": 2**40, "d": cast, "s": {"a": 2**40, "b": "q"}}
    table.upsert(pa.Table.from_pylist([{**after, "note": "hi"}], wide))
    frame = table.read(spark)
    same_rows(frame, table.to_arrow())
    assert is_scanned(frame)
    for condition in ("n = 7", f"n = {2**40}", "n < 100", "d = 1.25", "note is null", "x < 0.2"):
        wanted = rows_of(table.to_arrow(filter=condition))
        assert rows_in(table.read(spark, filter=condition)) == wanted, condition
        assert rows_in(frame.filter(condition)) == wanted, condition
    assert frame.filter(f"n > {2**35}").count() == 1
    assert table.read(spark, columns=["note"]).count() == 3


def test_reads_that_make_no_sense_fail_with_a_reason(spark: SparkSession, tmp_path: Path) -> None:
    table = make(tmp_path, "cow")
    instant = table.insert(rows(("a", "sf", 1, 1.0))).instant
    for wrong in (None, "spark", 7):
        with pytest.raises(InputError, match="session"):
            table.read(wrong)  # type: ignore[arg-type]  # the point of it
    with pytest.raises(InputError, match="session"):
        table.changes("spark", since=instant)  # type: ignore[call-overload]  # the point of it
    for arguments in ({"columns": ["nothing"]}, {"columns": []}, {"filter": "v >"}, {"mode": "x"}):
        with pytest.raises(InputError):
            table.read(spark, **arguments)
    with pytest.raises(InputError):
        table.read(spark, columns="id")
    with pytest.raises(InputError):
        table.changes(spark, since=instant, until="20200101000000000")
    with pytest.raises((InputError, TimelineError)):
        table.read(spark, as_of="not a time")
    memory = hoodoo.create_table("memory://spark-reads/t", schema=SCHEMA, record_key="id")
    with pytest.raises(UnsupportedFeature, match="to_arrow"):
        memory.read(spark)


def test_spark_connect_is_refused(tmp_path: Path) -> None:
    class Remote:
        """Has what a session of Spark Connect has, and nothing of the JVM."""

        def range(self) -> None: ...

    table = make(tmp_path, "cow")
    with pytest.raises(UnsupportedFeature, match="Connect"):
        table.read(Remote())  # type: ignore[arg-type]  # it stands for one


def test_damaged_file_raises_hoodoo_error_naming_it(spark: SparkSession, tmp_path: Path) -> None:
    table = make(tmp_path, "mor")
    table.insert(rows(("a", "sf", 1, 1.0)))
    table.upsert(rows(("a", "sf", 2, 2.0)))
    log = next((tmp_path / "trips").glob("city=sf/.*.log.*"))
    sound = log.read_bytes()
    damaged = bytearray(sound)
    damaged[len(damaged) // 2] ^= 0xFF
    log.write_bytes(damaged)
    with pytest.raises(PySparkException) as caught:
        table.read(spark).collect()
    assert "hoodoo.errors." in str(caught.value)
    assert log.name in str(caught.value)
    log.write_bytes(sound)
    frames = [table.read(spark), table.read(spark, mode="read_optimized")]
    base = next((tmp_path / "trips").glob("city=sf/*.parquet"))
    base.unlink()
    spark.conf.set("spark.sql.files.ignoreMissingFiles", "true")  # does not make rows vanish
    for frame in frames:  # lost, or cleaned, between the call and the evaluation
        with pytest.raises((PySparkException, Py4JError)) as caught:
            frame.collect()
        assert base.name in str(caught.value)
    spark.conf.unset("spark.sql.files.ignoreMissingFiles")
