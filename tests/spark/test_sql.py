"""docs/sql.md says what SQL statements do: every row of its table and every example is run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import hoodoo

PAGE = Path(__file__).resolve().parents[2] / "docs" / "sql.md"
TIME = "2026-01-05T12:00:00"
"""Stands on the page for the time of the first commit."""
NAMES = ("trips", "fares", "sf_fares", "strange")
COLUMNS = "trip_id string, city string, fare double, ts long"
FIRST = [("t1", "sf", 19.1, 1), ("t2", "oslo", 7.5, 1)]
NOW = {("t1", 19.1), ("t2", 7.5), ("t3", 8.4)}
CHANGED = {("t3", 8.4)}
THEN = NOW - CHANGED

IS_4_0 = pyspark.__version__.startswith("4.0.")
BEFORE_4_1 = "Spark 4.0 wants all columns in an INSERT and caches nothing, as the page says"

pytestmark = pytest.mark.spark


@dataclass
class World:
    """A table with two commits, and its names in SQL, made before the second one."""

    spark: SparkSession
    root: Path
    table: hoodoo.Table
    first: str

    def localize(self, text: str) -> str:
        """What the page shows, for the table of this test."""
        return text.replace("/data/", f"{self.root}/").replace(TIME, self.first)

    def sql(self, statement: str) -> DataFrame:
        return self.spark.sql(self.localize(statement))

    def commits(self) -> list[str | None]:
        return [report.operation for report in self.table.timeline()]


@pytest.fixture
def clean(spark: SparkSession) -> Iterator[None]:
    hoodoo.register(spark)
    yield
    for name in filter(spark.catalog.tableExists, NAMES):
        for kind in ("TEMPORARY VIEW", "TABLE", "VIEW"):
            if spark.catalog.tableExists(name):
                _drop(spark, name, kind)
    spark.catalog.dropTempView("trips_view")


def _drop(spark: SparkSession, name: str, kind: str) -> None:
    if kind == "TEMPORARY VIEW":
        spark.catalog.dropTempView(name)
        return
    try:
        spark.sql(f"DROP {kind} {name}")
    except PySparkException:  # it is of the other kind
        assert kind == "TABLE"


@pytest.fixture(scope="module")
def first_rows(spark: SparkSession) -> pa.Table:
    """The rows of the first commit: a job of Spark's, once."""
    return spark.createDataFrame(FIRST, COLUMNS).toArrow()


@pytest.fixture
def world(spark: SparkSession, tmp_path: Path, clean: None, first_rows: pa.Table) -> World:
    table = hoodoo.create_table(
        str(tmp_path / "trips"),
        schema=first_rows.schema,
        record_key="trip_id",
        partition_by="city",
        ordering="ts",
    )
    first = table.insert(first_rows).instant
    made = World(spark, tmp_path, table, first)
    made.sql("CREATE TABLE trips USING hoodoo LOCATION '/data/trips'")
    made.sql("CREATE TEMPORARY VIEW trips_view USING hoodoo OPTIONS (path '/data/trips')")
    table.insert([{"trip_id": "t3", "city": "sf", "fare": 8.4, "ts": 1}])
    return made


# -- the table of statements ------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    statement: str
    outcome: str
    call: str


def _cells(line: str) -> Row:
    statement, outcome, call = (cell.strip() for cell in line.strip("|\n ").split(" | "))
    quoted = re.fullmatch(r"(`+) ?(.+?) ?\1", statement)
    assert quoted
    return Row(quoted[2], outcome, call.strip("`"))


def _rows() -> list[Row]:
    section = PAGE.read_text().split("## Statement by statement")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [_cells(line) for line in lines[2:]]


ROWS = _rows()


def _reads(expected: set[tuple[str, float]]) -> Callable[[World, str], None]:
    def check(world: World, statement: str) -> None:
        assert {tuple(row) for row in world.sql(statement).collect()} == expected

    return check


def _names_a_table(world: World, statement: str) -> None:
    world.sql(statement)
    found = world.spark.sql("SELECT trip_id, fare FROM fares").collect()
    assert {tuple(row) for row in found} == NOW


def _drops_the_name(world: World, statement: str) -> None:
    world.sql(statement)
    assert not world.spark.catalog.tableExists("trips")
    assert hoodoo.open_table(world.table.uri).count() == len(NOW)


def _renames(world: World, statement: str) -> None:
    world.sql(statement)
    assert not world.spark.catalog.tableExists("trips")
    assert world.spark.table("fares").count() == hoodoo.open_table(world.table.uri).count() == 3


def _has_no_effect(world: World, statement: str) -> None:
    world.sql(statement)
    _reads(THEN)(world, "SELECT trip_id, fare FROM trips_view")


def _tells_columns(world: World, statement: str) -> None:
    wider = world.spark.createDataFrame([("t9", "sf", 1.0, 1, 2.0)], f"{COLUMNS}, tip double")
    world.table.upsert(wider.toArrow())
    names = [row[0] for row in world.sql(statement).collect()]
    assert names[-4:] == ["trip_id", "city", "fare", "ts"]
    world.sql("CREATE OR REPLACE TABLE trips USING hoodoo LOCATION '/data/trips'")
    assert [row[0] for row in world.sql(statement).collect()][-1] == "tip"


def _appends(world: World, statement: str) -> None:
    world.sql(statement)
    rows = world.table.to_arrow(filter="trip_id = 't1'", columns=["ts"])
    assert sorted(rows["ts"].to_pylist()) == [1, 9]
    assert world.commits() == ["INSERT", "INSERT", "BULK_INSERT"]


OUTCOMES: dict[str, Callable[[World, str], None]] = {
    "a name for an existing table": _names_a_table,
    "the name goes, the table stays": _drops_the_name,
    "the name changes, the table stays": _renames,
    "rows as they are now": _reads(NOW),
    "rows as of that time": _reads(THEN),
    "rows changed since that time": _reads(CHANGED),
    "rows as of when the view was made": _reads(THEN),
    "rows as of when the view was made: Spark ignores the option": _reads(THEN),
    "no effect": _has_no_effect,
    "columns as of `CREATE TABLE`": _tells_columns,
    "an append: keys may be there twice": _appends,
}
ERROR = re.compile(r"(?:Spark's e|e)rror(?: `(.+)`)?")
BROKEN = re.compile(r"a name that reads fail on: `(.+)`")


def _fails(world: World, statement: str, message: str, *, by_spark: bool) -> None:
    tables = world.spark.catalog.listTables()
    with pytest.raises(Exception, match=re.escape(message)) as raised:
        world.sql(statement).collect()
    assert ("hoodoo.errors." in str(raised.value)) is not by_spark
    assert world.commits() == ["INSERT", "INSERT"]
    assert world.spark.catalog.listTables() == tables


def _breaks(world: World, statement: str, message: str) -> None:
    world.sql(statement)
    name = statement.split()[2]
    with pytest.raises(PySparkException, match=re.escape(message)):
        world.spark.table(name).collect()
    assert world.commits() == ["INSERT", "INSERT"]


def test_the_page_has_the_statements_that_people_try() -> None:
    statements = " ".join(row.statement for row in ROWS)
    assert len(ROWS) >= 35
    for word in (
        "MERGE INTO",
        "UPDATE",
        "DELETE FROM",
        "INSERT OVERWRITE",
        "CREATE TABLE",
        "ALTER",
    ):
        assert word in statements


@pytest.mark.parametrize("row", ROWS, ids=[row.statement for row in ROWS])
def test_statement_does_what_the_page_says(world: World, row: Row) -> None:
    if "INSERT INTO" in row.statement and " REPLACE " not in row.statement and IS_4_0:
        pytest.skip(BEFORE_4_1)
    error, broken = ERROR.fullmatch(row.outcome), BROKEN.fullmatch(row.outcome)
    if error:
        by_spark = row.outcome.startswith("Spark's")
        _fails(world, row.statement, error[1] or "", by_spark=by_spark)
    elif broken:
        _breaks(world, row.statement, broken[1])
    else:
        OUTCOMES[row.outcome](world, row.statement)


@pytest.mark.parametrize("call", sorted({row.call for row in ROWS} - {"the same"}))
def test_call_that_the_page_names_runs(world: World, call: str) -> None:
    names: dict[str, Any] = {
        "hoodoo": hoodoo,
        "spark": world.spark,
        "table": world.table,
        "df": world.spark.createDataFrame(FIRST, COLUMNS),
    }
    result = eval(world.localize(call), names)
    if isinstance(result, DataFrame):
        result.collect()


# -- what lies behind it ----------------------------------------------------------------------


@pytest.mark.skipif(IS_4_0, reason=BEFORE_4_1)
def test_examples_of_the_page_run(
    spark: SparkSession, tmp_path: Path, clean: None, capfd: pytest.CaptureFixture[str]
) -> None:
    blocks = re.findall(r"^ *```(python|sql)\n(.*?)^ *```", PAGE.read_text(), re.M | re.S)
    assert [language for language, _ in blocks] == ["python", "sql", "sql", "sql"]
    names: dict[str, Any] = {}
    counts = []
    for language, text in blocks:
        shown = text.replace("/data/", f"{tmp_path}/")
        if language == "python":
            exec(compile(shown, str(PAGE), "exec"), names)
            continue
        for statement in shown.replace(TIME, names["first"].instant).split(";\n"):
            if statement.strip():
                counts.append(spark.sql(statement).count())
    assert "oslo" in capfd.readouterr().out
    # the CREATE; as of and since the first commit; no key twice; the INSERT
    assert counts == [0, 2, 1, 0, 0]
    assert names["table"].count() == 4


def test_catalog_entries_keep_their_options_and_take_those_of_a_query(world: World) -> None:
    world.sql(
        "CREATE TABLE fares USING hoodoo "
        "OPTIONS (path '/data/trips', columns 'trip_id,fare', filter 'fare > 8')"
    )
    assert {tuple(row) for row in world.sql("SELECT * FROM fares").collect()} == NOW - {("t2", 7.5)}
    narrower = world.sql("SELECT * FROM fares WITH (filter = 'fare > 9')").collect()
    assert [tuple(row) for row in narrower] == [("t1", 19.1)]
    with pytest.raises(PySparkException, match="option 'columns' is for CREATE TABLE"):
        world.sql("SELECT * FROM fares WITH (columns = 'fare')").collect()


def test_secrets_do_not_get_into_the_catalog(world: World) -> None:
    with pytest.raises(PySparkException, match="'aws_secret_access_key' cannot be kept"):
        world.sql(
            "CREATE TABLE fares USING hoodoo "
            "OPTIONS (path '/data/trips', aws_secret_access_key 'secret')"
        )
    assert not world.spark.catalog.tableExists("fares")


def test_rows_of_one_table_do_not_get_into_another(world: World, tmp_path: Path) -> None:
    """Columns remember the table that they were read from; a write must not take it for its own."""
    world.sql("CREATE TABLE strange (trip_id string, fare double) USING hoodoo LOCATION '/data/x'")
    with pytest.raises(PySparkException, match="Spark does not tell which table"):
        world.sql("INSERT INTO strange SELECT trip_id, fare FROM trips")
    copy = hoodoo.create_table(
        str(tmp_path / "copy"), schema=world.table.schema, record_key="trip_id"
    )
    rows = world.spark.table("trips")
    rows.write.format("hoodoo").mode("append").save(copy.uri)
    assert copy.count() == world.table.count() == 3
    assert world.commits() == ["INSERT", "INSERT"]


def test_a_path_with_spaces_and_percent_signs(world: World, tmp_path: Path) -> None:
    odd = tmp_path / "a b%20c"
    table = hoodoo.create_table(
        str(odd), name="odd", schema=world.table.schema, record_key="trip_id"
    )
    table.insert([{"trip_id": "x", "city": "sf", "fare": 1.0, "ts": 1}])
    world.spark.sql(f"CREATE TABLE fares USING hoodoo LOCATION '{odd}'")
    assert world.spark.table("fares").count() == 1


@pytest.mark.skipif(IS_4_0, reason=BEFORE_4_1)
def test_a_cached_table_is_read_again_after_refresh(world: World) -> None:
    world.sql("CACHE TABLE trips")
    world.table.insert([{"trip_id": "t4", "city": "sf", "fare": 1.0, "ts": 1}])
    assert world.spark.table("trips").count() == 3
    world.sql("REFRESH TABLE trips")
    assert world.spark.table("trips").count() == 4
    world.sql("UNCACHE TABLE trips")


def test_a_stream_follows_a_table_by_its_name(world: World, tmp_path: Path) -> None:
    world.sql(
        "CREATE TABLE fares USING hoodoo OPTIONS (path '/data/trips', columns 'trip_id,fare')"
    )
    seen: list[set[tuple[Any, ...]]] = []
    query = (
        world.spark.readStream.table("fares")
        .writeStream.foreachBatch(lambda df, _: seen.append({tuple(r) for r in df.collect()}))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    assert set().union(*seen) == NOW
