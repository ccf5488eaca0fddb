"""The data source `hoodoo`: what Spark reads and writes through it is what the table holds."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StringType, StructField, StructType
from support.frame_checks import rows_in
from support.wheel import rows_of, wheel_rows

import hoodoo
from hoodoo.errors import SchemaMismatch
from hoodoo.format.schema import META_FIELDS
from hoodoo.spark.datasource.source import TableSource

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("interpreted")]

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("city", pa.string()),
        ("ts", pa.int64()),
        ("fare", pa.decimal128(8, 2)),
        ("score", pa.float64()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("tags", pa.list_(pa.string())),
    ]
)
NIGHTLY = pytest.mark.nightly  # CI: the other cases of the same test run the same lines
PUSHING = "spark.sql.python.filterPushdown.enabled"


def row(number: int, city: str, ts: int = 1) -> dict[str, Any]:
    return {
        "id": f"k{number}",
        "city": city,
        "ts": ts,
        "fare": Decimal(number) / 4,
        "score": float("nan") if number % 3 == 0 else number / 2,
        "day": date(2026, 1, 1 + number % 28) if number % 5 else None,
        "at": datetime(2026, 1, 1, number % 24, tzinfo=UTC),
        "tags": ["a", None] if number % 2 else None,
    }


def rows(first: int, count: int, city: str, ts: int = 1) -> pa.Table:
    return pa.Table.from_pylist([row(n, city, ts) for n in range(first, first + count)], SCHEMA)


def make(place: Path, kind: str = "cow", **options: Any) -> hoodoo.Table:
    return hoodoo.create_table(
        str(place / "trips"),
        schema=SCHEMA,
        record_key="id",
        partition_by="city",
        ordering="ts",
        table_type=kind,
        options=options,
    )


@pytest.fixture
def mor(tmp_path: Path) -> hoodoo.Table:
    """Three partitions; one has a log file."""
    table = make(tmp_path, "mor")
    for number, city in enumerate(("sf", "la", "ny")):
        table.insert(rows(10 * number, 10, city))
    table.upsert(rows(3, 4, "sf", ts=2))
    return table


@pytest.fixture(autouse=True)
def source(spark: SparkSession) -> None:
    hoodoo.register(spark)


def same_rows(frame: DataFrame, expected: pa.Table) -> None:
    """As texts, in which NaN equals itself."""
    assert frame.columns == expected.column_names
    assert repr(rows_in(frame)) == repr(rows_of(expected))


def load(spark: SparkSession, table: hoodoo.Table, **options: str) -> DataFrame:
    return spark.read.format("hoodoo").options(**options).load(table.uri)


# -- reads ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_source_reads_the_same_rows_as_to_arrow(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    table = make(tmp_path, kind)
    same_rows(load(spark, table), table.to_arrow())
    table.insert(rows(0, 20, "sf"))
    table.upsert(pa.concat_tables([rows(5, 5, "sf", ts=2), rows(20, 5, "la")]))
    frame = load(spark, table)
    same_rows(frame, table.to_arrow())
    same_rows(frame.filter("fare > 3 and score > 2").drop(*META_FIELDS), _by_spark(spark, table))


def _by_spark(spark: SparkSession, table: hoodoo.Table) -> pa.Table:
    """The same question about a DataFrame that has nothing to do with the source."""
    held = spark.createDataFrame(table.to_arrow(columns=SCHEMA.names))
    return held.filter("fare > 3 and score > 2").toArrow()


def test_a_dataframe_keeps_what_it_was_made_of(spark: SparkSession, mor: hoodoo.Table) -> None:
    before, frame = mor.to_arrow(), load(spark, mor)
    mor.upsert(rows(0, 30, "sf", ts=9))
    same_rows(frame, before)
    same_rows(load(spark, mor), mor.to_arrow())


def test_options_say_which_rows(spark: SparkSession, mor: hoodoo.Table) -> None:
    first, *_, last = [report.requested_time for report in mor.timeline()]
    same_rows(load(spark, mor, as_of=first), mor.to_arrow(as_of=first))
    same_rows(load(spark, mor, mode="read_optimized"), mor.to_arrow(mode="read_optimized"))
    wanted = ["ts", "id"]
    same_rows(load(spark, mor, columns="ts, id"), mor.to_arrow(columns=wanted))
    condition = "city = 'sf' and fare < 2"
    same_rows(load(spark, mor, FILTER=condition), mor.to_arrow(filter=condition))
    changed = load(spark, mor, since=first, until=last, columns="id,ts")
    same_rows(changed, mor.changes(since=first, until=last, columns=["id", "ts"]))
    assert {r.id for r in load(spark, mor, since=first, filter="city = 'la'").collect()} == {
        f"k{n}" for n in range(10, 20)
    }


def test_a_schema_of_the_user_s_chooses_columns(spark: SparkSession, mor: hoodoo.Table) -> None:
    reader = spark.read.format("hoodoo").schema("fare decimal(8,2), id string, tags array<string>")
    same_rows(reader.load(mor.uri), mor.to_arrow(columns=["fare", "id", "tags"]))


STRICT = pa.schema(
    [
        pa.field("id", pa.string(), False),
        pa.field("n", pa.int64()),
        pa.field("list", pa.list_(pa.field("element", pa.int64(), False)), False),
        pa.field("map", pa.map_(pa.string(), pa.field("value", pa.int32(), False)), False),
        pa.field("at", pa.struct([pa.field("ms", pa.timestamp("ms", "UTC"), False)]), False),
        pa.field("code", pa.binary(2), False),
    ]
)


@pytest.fixture(params=["cow", "mor"])
def strict(tmp_path: Path, request: pytest.FixtureRequest) -> hoodoo.Table:
    """A table whose columns are NOT NULL, down to their elements."""
    table = hoodoo.create_table(
        str(tmp_path / "strict"), schema=STRICT, record_key="id", table_type=request.param
    )
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    values = {"list": [1], "map": [("k", 1)], "at": {"ms": moment}, "code": b"ab"}
    for number in (1, None):
        table.upsert(pa.Table.from_pylist([{"id": "a", "n": number, **values}], STRICT))
    return table


def batches_for(table: hoodoo.Table, schema: StructType | None = None) -> Iterator[pa.RecordBatch]:
    """What Spark gets from the source in a task, checked as PySpark 4.3 does."""
    source = TableSource({"path": table.uri})
    declared = schema or source.schema()
    reader = source.reader(declared)
    task = pickle.loads(pickle.dumps(reader))
    for partition in reader.partitions():
        for batch in task.read(partition):
            assert to_arrow_schema(declared).equals(batch.schema)
            yield batch


def test_batches_have_the_declared_schema_down_to_nullability(strict: hoodoo.Table) -> None:
    assert sum(batch.num_rows for batch in batches_for(strict)) == 1
    not_null = StructType([StructField("id", StringType(), False), StructField("n", LongType())])
    assert sum(batch.num_rows for batch in batches_for(strict, not_null)) == 1
    nulls = StructType([StructField("n", LongType(), False)])
    with pytest.raises(SchemaMismatch, match="'n' with null values"):
        list(batches_for(strict, nulls))


def test_columns_that_are_not_null(spark: SparkSession, strict: hoodoo.Table) -> None:
    same_rows(load(spark, strict), strict.to_arrow())
    reader = spark.read.format("hoodoo").schema("id string not null, n bigint")
    same_rows(reader.load(strict.uri), strict.to_arrow(columns=["id", "n"]))


@pytest.mark.parametrize(
    ("schema", "options", "told"),
    [
        ("id string, nothing int", {}, "unknown column 'nothing'"),
        ("fare double", {}, r"SchemaMismatch: column fare is decimal\(8,2\), not double"),
        (None, {"mode": "fast"}, "mode is one of"),
        (None, {"as_of": "someday"}, "neither an instant time"),
        (None, {"until": "20260101000000000"}, "changes are asked for by"),
        (None, {"asof": "20260101000000000"}, "file storage has no options"),
        (None, {"hoodie.index.type": "none"}, "hoodie.index.type='none'"),
    ],
)
def test_invalid_read_options_fail_with_a_reason(
    spark: SparkSession, mor: hoodoo.Table, schema: str | None, options: dict[str, str], told: str
) -> None:
    reader = spark.read.format("hoodoo").options(**options)
    with pytest.raises(PySparkException, match=told):
        (reader.schema(schema) if schema else reader).load(mor.uri).collect()


def test_no_table_and_no_path(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PySparkException, match="NoSuchTable: no table at"):
        spark.read.format("hoodoo").load(str(tmp_path))
    with pytest.raises(PySparkException, match="one path is needed"):
        spark.read.format("hoodoo").load()
    with pytest.raises(PySparkException, match="one path is needed"):
        spark.read.format("hoodoo").load([str(tmp_path), str(tmp_path)])


# -- pushed filters ---------------------------------------------------------------------------


@pytest.fixture
def pushing(spark: SparkSession) -> Iterator[None]:
    if not hasattr(__import__("pyspark.sql.datasource", fromlist=["Filter"]), "Filter"):
        pytest.skip("Spark pushes filters down to Python sources from 4.1 on")
    spark.conf.set(PUSHING, "true")
    yield
    spark.conf.unset(PUSHING)


CONDITIONS = [
    "city in ('la', 'sf') and id <> 'k4' and fare >= 1.25 and ts < 2.5",
    "score > 3 and not (id in ('k1', 'k2'))",  # NaN is larger to Spark
    "day > date'2026-01-08' and at <= timestamp'2026-01-01 05:00:00' and id like 'k%'",
]


def test_filters_are_pushed_where_the_session_pushes_them(
    spark: SparkSession, mor: hoodoo.Table, pushing: None
) -> None:
    held = spark.createDataFrame(mor.to_arrow())
    for condition in CONDITIONS:
        found = held.filter(condition).toArrow()
        assert found.num_rows
        same_rows(load(spark, mor).filter(condition), found)
    same_rows(load(spark, mor), mor.to_arrow())
    assert load(spark, mor).rdd.getNumPartitions() == 3
    assert load(spark, mor).filter("city = 'la'").rdd.getNumPartitions() == 1
    narrow = spark.read.format("hoodoo").schema("id string").load(mor.uri)
    assert narrow.filter("id = 'k4'").count() == 1


def test_filters_work_where_the_session_does_not(spark: SparkSession, mor: hoodoo.Table) -> None:
    assert spark.conf.get(PUSHING, "false") == "false"
    assert load(spark, mor).filter("city = 'la'").count() == 10
    assert load(spark, mor).filter("city = 'la'").rdd.getNumPartitions() == 3


# -- writes -----------------------------------------------------------------------------------


def append(frame: DataFrame, table: hoodoo.Table, **options: str) -> None:
    frame.write.format("hoodoo").mode("append").options(**options).save(table.uri)


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_append_adds_rows_in_one_bulk_insert(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    table = make(tmp_path, kind)
    expected = pa.concat_tables([rows(0, 30, "sf"), rows(30, 20, "la")])
    append(spark.createDataFrame(expected).repartition(3, "id"), table)
    assert repr(rows_of(table.to_arrow(columns=SCHEMA.names))) == repr(rows_of(expected))
    assert repr(wheel_rows(tmp_path / "trips")) == repr(rows_of(table.to_arrow()))
    [report] = table.timeline()
    assert (report.operation, report.state) == ("BULK_INSERT", "completed")
    assert report.owner is not None
    assert report.owner.startswith("Spark data source on ")
    append(load(spark, table, filter="id = 'k1'"), table)  # meta columns are made anew
    assert table.to_arrow(filter="id = 'k1'").num_rows == 2
    left = [path for path in (tmp_path / "trips" / ".hoodie").rglob("*") if path.is_file()]
    assert not [path for path in left if {".heartbeat", ".temp", "completion"} & set(path.parts)]


def test_an_empty_frame_and_a_new_column(spark: SparkSession, tmp_path: Path) -> None:
    table = make(tmp_path)
    append(spark.createDataFrame(rows(0, 4, "sf")).filter("false"), table)
    assert table.to_arrow().num_rows == 0
    wider = rows(0, 4, "sf").append_column("extra", pa.array([1, 2, None, 4]))
    append(spark.createDataFrame(wider), table, **{"hoodie.parquet.compression.codec": "gzip"})
    assert repr(rows_of(table.to_arrow(columns=wider.column_names))) == repr(rows_of(wider))


def test_other_modes_name_the_call_to_use(spark: SparkSession, tmp_path: Path) -> None:
    table = make(tmp_path)
    frame = spark.createDataFrame(rows(0, 2, "sf"))
    with pytest.raises(PySparkException, match=r"table\.insert_overwrite_table\(df\)"):
        frame.write.format("hoodoo").mode("overwrite").save(table.uri)
    with pytest.raises(PySparkException, match='"Append"'):
        frame.write.format("hoodoo").save(table.uri)
    with pytest.raises(PySparkException, match="partitioning"):
        frame.write.format("hoodoo").mode("append").partitionBy("id").save(table.uri)
    with pytest.raises(PySparkException, match="'filter' is for reading"):
        append(frame, table, filter="ts > 1")
    with pytest.raises(PySparkException, match=r"create it first, by hoodoo\.create_table"):
        frame.write.format("hoodoo").mode("append").save(str(tmp_path / "nowhere"))
    assert table.timeline() == []


# CI: `test_bad_values_fail_the_write_and_leave_nothing` has each value that nights have here
@pytest.mark.parametrize(
    ("column", "value", "told"),
    [
        ("id", "if(id = 'k13', null, id)", "InputError: record key id is null or empty"),
        pytest.param(
            "ts",
            "if(id = 'k13', null, ts)",
            "InputError: ordering column ts is null",
            marks=NIGHTLY,
        ),
        ("city", "if(id = 'k13', '../x', city)", "InputError: .* cannot be a directory name"),
        pytest.param(
            "city",
            "if(id = 'k13', 'x/.hoodie', city)",
            "InputError: .* cannot be used",
            marks=NIGHTLY,
        ),
        pytest.param(
            "city",
            "if(id = 'k13', repeat('x', 300), city)",
            "InputError: .* at most 255 bytes",
            marks=NIGHTLY,
        ),
        pytest.param(
            "city",
            "if(id = 'k13', concat('a', char(0)), city)",
            "InputError: .* NUL",
            marks=NIGHTLY,
        ),
        ("_hoodoo_hash", "1", "InputError: .* hoodoo's own"),
        ("ts", "tags", "SchemaMismatch"),
        ("id", "if(id = 'k13', raise_error('on purpose'), id)", "on purpose"),
    ],
)
def test_bad_rows_leave_nothing_visible(
    spark: SparkSession, tmp_path: Path, column: str, value: str, told: str
) -> None:
    table = make(tmp_path)
    table.insert(rows(100, 1, "sf"))
    frame = spark.createDataFrame(rows(0, 20, "sf")).repartition(2)
    with pytest.raises(PySparkException, match=told):
        append(frame.withColumn(column, expr(value)), table)
    assert table.to_arrow(columns=["id"])["id"].to_pylist() == ["k100"]
    assert len(list((tmp_path / "trips").glob("city=*/*.parquet"))) == 1
    assert [report.state for report in table.timeline() if report.state != "completed"] == []


def test_tables_that_an_append_cannot_serve(spark: SparkSession, tmp_path: Path) -> None:
    frame, buckets = spark.createDataFrame(rows(0, 2, "sf")), {"hoodie.index.type": "BUCKET"}
    with pytest.raises(PySparkException, match=r"bucket index.*table\.bulk_insert\(df\)"):
        append(frame, make(tmp_path), **buckets)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("write.operation", "upsert", r"ConfigError: .*use table\.upsert\(rows\)"),
        pytest.param("write.operation", "DELETE", r"use table\.delete\(rows\)", marks=NIGHTLY),
        pytest.param(
            "write.operation",
            "insert_overwrite_table",
            r"table\.insert_overwrite_table\(rows\)",
            marks=NIGHTLY,
        ),
        ("write.operation", "bootstrap", r"use one of table\.insert\(rows\)"),
        ("write.insert.drop.duplicates", "true", "looks for no keys: call upsert"),
        pytest.param("insert.dup.policy", "drop", "looks for no keys: call upsert", marks=NIGHTLY),
        ("write.recordkey.field", "id,ts", "ConfigError: .*the table has 'id'"),
        pytest.param(
            "write.table.type", "MERGE_ON_READ", "the table has 'COPY_ON_WRITE'", marks=NIGHTLY
        ),
        ("hive_sync.enable", "true", "hoodoo has no catalog sync yet"),
        ("write.hive_style_partitioning", "false", "the table has 'true'"),
    ],
)
def test_options_that_an_append_cannot_honour_are_refused_before_it_begins(
    spark: SparkSession, tmp_path: Path, name: str, value: str, message: str
) -> None:
    table = make(tmp_path)
    table.insert(rows(0, 2, "sf"))
    with pytest.raises(PySparkException, match=message):
        append(
            spark.createDataFrame(rows(0, 2, "sf")), table, **{f"hoodie.datasource.{name}": value}
        )
    assert len(table.timeline()) == 1
    assert table.to_arrow().num_rows == 2


def test_strict_makes_an_unknown_option_an_error_of_reads_and_appends(
    spark: SparkSession, tmp_path: Path
) -> None:
    table, wrong = make(tmp_path), {"hoodie.parquet.max.filesize": "1000000"}
    frame = spark.createDataFrame(rows(0, 2, "sf"))
    append(frame, table, **wrong)
    for use in (load, lambda *_, **options: append(frame, table, **options)):
        with pytest.raises(PySparkException, match=r"'hoodie\.parquet\.max\.file\.size'\?"):
            use(spark, table, **wrong, **{"hoodoo.strict": "true"})
    assert table.to_arrow().num_rows == 2


def test_operations_that_append_and_options_that_say_what_the_table_is(
    spark: SparkSession, tmp_path: Path
) -> None:
    table, frame = make(tmp_path), spark.createDataFrame(rows(0, 2, "sf"))
    same = {
        "recordkey.field": "id",
        "partitionpath.field": "city:SIMPLE",
        "precombine.field": "ts",
        "table.type": "copy_on_write",
        "insert.drop.duplicates": "false",
    }
    options = {f"hoodie.datasource.write.{name}": value for name, value in same.items()}
    for number, operation in enumerate(("Bulk_Insert", "INSERT"), start=1):
        append(frame, table, **options, **{"hoodie.datasource.write.operation": operation})
        assert table.to_arrow().num_rows == 2 * number


def test_inserting_into_a_view_appends(spark: SparkSession, tmp_path: Path) -> None:
    """Spark asks for the same writer as for an append, so that the source cannot tell."""
    table = make(tmp_path)
    table.insert(rows(0, 2, "sf"))
    load(spark, table).createOrReplaceTempView("trips")
    spark.sql("INSERT INTO trips (id, city, ts) VALUES ('k0', 'sf', 5)")
    found = table.to_arrow(filter="id = 'k0'", columns=["ts"])
    assert sorted(found["ts"].to_pylist()) == [1, 5]
    assert [report.operation for report in table.timeline()] == ["INSERT", "BULK_INSERT"]
    with pytest.raises(PySparkException, match=r"table\.insert_overwrite_table\(df\)"):
        spark.sql("INSERT OVERWRITE trips SELECT * FROM trips")
    load(spark, table, filter="ts > 1").createOrReplaceTempView("late")
    with pytest.raises(PySparkException, match="'filter' is for reading"):
        spark.sql("INSERT INTO late (id, city, ts) VALUES ('k9', 'sf', 5)")
    assert len(table.timeline()) == 2


# -- how Spark finds it -----------------------------------------------------------------------

FOUND = """
import os
import sys
from pathlib import Path

from support.sessions import local_session

path, place = sys.argv[1:]
spark = local_session(Path(place), master="local[2,3]")  # a task may fail twice
frame = spark.read.format("hoodoo").load(path)


def fail_once(batches):
    yield from batches
    try:
        os.close(os.open(f"{place}/failed", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    raise RuntimeError("on purpose, when all rows of the task are written")


frame.mapInArrow(fail_once, frame.schema).write.format("hoodoo").mode("append").save(path)
print("rows", spark.read.format("hoodoo").load(path).count())
spark.stop()
"""


def test_unregistered_source_is_found_and_survives_a_failed_task(
    tmp_path: Path, mor: hoodoo.Table
) -> None:
    here = str(Path(__file__).resolve().parents[1])
    ran = subprocess.run(
        [sys.executable, "-c", FOUND, mor.uri, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([here, *_paths()])},
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split() == ["rows", "60"]
    assert (tmp_path / "failed").exists()
    assert mor.to_arrow().num_rows == len(wheel_rows(tmp_path / "trips")) == 60


def _paths() -> list[str]:
    return [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]


def test_connect_is_refused() -> None:
    with pytest.raises(hoodoo.HoodooError, match="a Spark session is needed"):
        hoodoo.register("spark")
