"""What a Spark session does with hoodoo tables by options and by SQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession
from support.sessions import local_session

import hoodoo

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session of the Spark suite, if it runs in this process, else one of its own."""
    running = SparkSession.getActiveSession()
    session = running or local_session(tmp_path_factory.mktemp("spark"))
    hoodoo.register(session)
    yield session
    if running is None:
        session.stop()


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> Iterator[hoodoo.Table]:
    """A table of two commits, with the name `trips` in SQL."""
    table = hoodoo.create_table(
        str(tmp_path / "t"),
        schema=pa.schema([("id", pa.int64()), ("v", pa.string())]),
        record_key="id",
        options={"hoodie.parquet.small.file.limit": 0},
    )
    table.insert([{"id": key, "v": "x"} for key in range(3)])
    table.insert([{"id": key, "v": "x"} for key in range(3, 5)])
    spark.sql("DROP TABLE IF EXISTS trips")
    spark.sql(f"CREATE TABLE trips USING hoodoo LOCATION '{tmp_path / 't'}'")
    yield table
    spark.sql("DROP TABLE trips")


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="25.9: options of Apache Hudi that ask for an incremental read are ignored, and the "
    "whole table is read",
)
def test_incremental_read_by_options_of_hudi_is_honoured_or_refused(
    spark: SparkSession, table: hoodoo.Table
) -> None:
    first = min(each.completion_time for each in table.history() if each.completion_time)
    reader = spark.read.format("hoodoo").options(
        **{
            "hoodie.datasource.query.type": "incremental",
            "hoodie.datasource.read.begin.instanttime": first,
        }
    )
    try:
        rows = reader.load(table.uri).count()
    except PySparkException:
        return
    assert rows == 2


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="29.2: a SELECT reads all columns by Python workers instead of Spark's Parquet scan",
)
def test_select_reads_the_columns_that_it_names(spark: SparkSession, table: hoodoo.Table) -> None:
    assert table.count() == 5
    query = spark.sql("SELECT v FROM trips")
    assert [row.v for row in query.collect()] == ["x"] * 5
    plan = query._jdf.queryExecution().executedPlan().toString()
    assert "ReadSchema: struct<v:string>" in plan


@pytest.mark.xfail(
    strict=True,
    raises=AnalysisException,
    reason="29.6: there is no SQL for indexes",
)
def test_index_is_created_shown_and_dropped_by_sql(
    spark: SparkSession, table: hoodoo.Table
) -> None:
    spark.sql("CREATE INDEX by_key ON trips USING record_index (id)")
    assert "record_index" in {each.name for each in table.inspect.indexes()}
    assert "record_index" in str(spark.sql("SHOW INDEXES FROM trips").collect())
    spark.sql("DROP INDEX record_index ON trips")
    assert "record_index" not in {each.name for each in table.inspect.indexes()}


@pytest.mark.xfail(
    strict=True,
    raises=AnalysisException,
    reason="29.6: no table service can be called by SQL",
)
def test_clustering_is_called_by_sql(spark: SparkSession, table: hoodoo.Table) -> None:
    spark.sql("CALL run_clustering(table => 'trips')")
    assert "replacecommit" in {each.action for each in table.timeline()}
