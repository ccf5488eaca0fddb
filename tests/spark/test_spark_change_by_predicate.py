"""Delete, update and merge by predicate on Spark: few rows by the driver, many where they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from support.change_model import ChangedTable, make
from support.indexed import BUCKETS, GLOBAL, RECORD
from support.record_indexed import check_index

import hoodoo
from hoodoo.api.table import Table
from hoodoo.config.write import DRIVER_MAX_BYTES
from hoodoo.errors import HoodooError, InputError, WriteConflict
from hoodoo.runtime.env import Env
from hoodoo.spark.row_changes.operations import matching
from hoodoo.storage.traced import TracedStorage
from hoodoo.table.ref import open_ref
from hoodoo.write.planning.assignment import WriteTarget

pytestmark = pytest.mark.spark

DEFAULT = DRIVER_MAX_BYTES.default
DRIVER_PLANS_NOTHING = {DRIVER_MAX_BYTES.name: "0"}
SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int32()), ("c", pa.string())])


@pytest.mark.parametrize(
    ("kind", "index", "most_bytes"),
    [
        # CI: the same history on mor, and on cow with fewer bytes
        pytest.param("cow", {}, DEFAULT, marks=pytest.mark.nightly),
        ("mor", {}, DEFAULT),
        ("cow", {}, 2_000),  # some changes fit, and others do not
        # CI: the same history with buckets, which differs in where new rows go
        pytest.param("mor", {}, 0, marks=pytest.mark.nightly),
        ("mor", BUCKETS, 0),
        ("cow", GLOBAL, 0),
        ("mor", RECORD, 0),
    ],
    ids=lambda value: str(value.get("hoodie.index.type", "")) if isinstance(value, dict) else None,
)
def test_histories_of_changes_leave_what_a_dict_holds(
    spark: SparkSession, tmp_path: Path, kind: str, index: dict[str, str], most_bytes: int
) -> None:
    made = make(tmp_path, kind, dict(index))
    table = hoodoo.open_table(made.uri, {**index, DRIVER_MAX_BYTES.name: most_bytes})
    changed = ChangedTable(table, seed=3, carry=spark.createDataFrame, spark=spark)
    changed.fill(40)
    changed.run(5)
    if index is RECORD:
        check_index(table)


def small(path: Path, **options: str) -> hoodoo.Table:
    table = hoodoo.create_table(path / "t", schema=SCHEMA, record_key="k", options=options)
    table.insert(pa.table([["a", "b", "c"], [1, 2, 3], ["x", "y", None]], schema=SCHEMA))
    return table


def rows(table: hoodoo.Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.to_arrow(columns=SCHEMA.names).to_pylist())


@pytest.mark.parametrize("many", [False, True])
def test_conditions_and_values_are_all_that_spark_knows(
    spark: SparkSession, tmp_path: Path, *, many: bool
) -> None:
    table = small(tmp_path)
    if many:
        table = hoodoo.open_table(table.uri, DRIVER_PLANS_NOTHING)
    table.update({"c": "repeat(k, n)", "n": 7}, where="length(k) = 1 and n > 1", spark=spark)
    assert rows(table) == [("a", 1, "x"), ("b", 7, "bb"), ("c", 7, "ccc")]
    table.delete(where=sf.col("c").startswith("b"), spark=spark)
    table.update({"n": sf.col("n") + 1}, spark=spark)
    assert rows(table) == [("a", 2, "x"), ("c", 8, "ccc")]
    assert table.delete(where="n > 100", spark=spark) is None
    assert len(table.timeline()) == 4


@pytest.mark.parametrize("many", [False, True])
def test_a_source_with_two_rows_for_one_row_or_one_key_is_refused(
    spark: SparkSession, tmp_path: Path, *, many: bool
) -> None:
    table = small(tmp_path)
    if many:
        table = hoodoo.open_table(table.uri, DRIVER_PLANS_NOTHING)
    twice = spark.createDataFrame([("a", 5, "u"), ("a", 6, "v")], ["k", "n", "c"])
    with pytest.raises(InputError, match="several rows of the source"):
        table.merge(twice, on="k", when_matched_update=True)
    new = twice.withColumn("k", sf.lit("new"))
    with pytest.raises(InputError, match="same record key"):
        table.merge(new, on="k", when_not_matched_insert=True)
    with pytest.raises(InputError, match="in the table already"):
        table.merge(twice.filter("n = 5"), on="n", when_not_matched_insert=True)
    other = new.filter("n = 5").withColumn("c", sf.lit("x"))
    with pytest.raises(InputError, match="cannot change the record key"):
        table.merge(other, on="c", when_matched_update=True)
    assert len(table.timeline()) == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t, s: t.update({"n": "no_such(n)"}, spark=s), "no_such"),
        (lambda t, s: t.update({"n": "1 +"}, spark=s), "refuses an expression"),
        (lambda t, s: t.delete(where="price > 1", spark=s), "price"),
        (lambda t, s: t.update({"k": "'z'"}, spark=s), "record key"),
        (lambda t, s: t.merge(s.range(1), on="k", when_matched_update=True), "source has only"),
    ],
)
def test_bad_input_is_one_clear_message_and_changes_nothing(
    spark: SparkSession, tmp_path: Path, call: Any, message: str
) -> None:
    table = small(tmp_path)
    with pytest.raises(InputError, match=message):
        call(table, spark)
    assert len(table.timeline()) == 1


def test_a_value_that_does_not_fit_its_column_fails(spark: SparkSession, tmp_path: Path) -> None:
    table = small(tmp_path)
    with pytest.raises(InputError, match="OVERFLOW"):
        table.update({"n": "3000000000"}, spark=spark)
    assert len(table.timeline()) == 1


def test_files_that_cannot_match_are_not_read(spark: SparkSession, tmp_path: Path) -> None:
    options = {"hoodie.metadata.index.column.stats.enable": "true"}
    table = hoodoo.create_table(tmp_path / "t", schema=SCHEMA, record_key="k", options=options)
    for n in range(4):
        table.bulk_insert(pa.table([[f"k{n}"], [n], ["x"]], schema=SCHEMA))
    target = WriteTarget.load(open_ref(table.uri))
    assert len(matching(spark, target, "n >= 2").inputFiles()) == 2
    assert len(matching(spark, target, "abs(n) >= 2").inputFiles()) == 4
    before = {row["k"]: row["_hoodie_file_name"] for row in table.to_arrow().to_pylist()}
    table.update({"c": "'y'"}, where="n >= 2", spark=spark)
    after = {row["k"]: row["_hoodie_file_name"] for row in table.to_arrow().to_pylist()}
    assert {key for key in before if before[key] != after[key]} == {"k2", "k3"}


def test_two_changes_of_the_same_rows_at_once_conflict(spark: SparkSession, tmp_path: Path) -> None:
    table = small(tmp_path)
    left = [1]

    def before(verb: str, path: str) -> None:
        if left and path.endswith(".parquet") and not path.startswith(".hoodie"):
            left.pop()
            hoodoo.open_table(table.uri).update({"n": 50}, where="k = 'a'")

    storage = TracedStorage(Env.of(table.uri).storage, before=before)
    late = Table(open_ref(table.uri, None, Env(storage)))
    with pytest.raises(WriteConflict):
        late.update({"n": "n + 1"}, where="k = 'b'", spark=spark)
    assert rows(table)[:2] == [("a", 50, "x"), ("b", 2, "y")]


TYPED = {
    "l": "9000000000L",
    "i": "7",
    "d": "date '2024-02-29'",
    "t": "timestamp '2024-02-29 12:30:00.25'",
    "m": "cast(12.50 as decimal(9, 2))",
    "b": "cast('ab' as binary)",
    "f": "1.5D",
}


@pytest.mark.thin(2)
@pytest.mark.parametrize("most_bytes", [DEFAULT, 0])
def test_rows_match_by_columns_of_each_type_as_spark_casts_them(
    spark: SparkSession, tmp_path: Path, most_bytes: int
) -> None:
    values = ", ".join(f"{value} as {name}" for name, value in TYPED.items())
    frame = spark.sql(f"select 'a' as k, 0 as n, {values}")
    empty = ", ".join(f"cast(null as {kind}) as {name}" for name, kind in frame.dtypes[2:])
    rows = frame.unionByName(spark.sql(f"select 'b' as k, 0 as n, {empty}"))
    table = hoodoo.create_table(
        tmp_path / "t",
        schema=rows.schema,
        record_key="k",
        options={DRIVER_MAX_BYTES.name: most_bytes},
    )
    table.insert(rows)
    for number, name in enumerate(TYPED, 1):
        kind = dict(frame.dtypes)[name]
        source = frame.select(sf.col(name).cast("string" if kind != "binary" else kind))
        done = table.merge(source, on=name, when_matched_update={"n": "target.n + 1"})
        assert done is not None
        assert done.stats.updated == 1, name
        assert table.to_arrow(columns=["k", "n"], filter="k = 'a'")["n"].to_pylist() == [number]
        nulls = spark.createDataFrame([(None,)], f"{name} {kind}")
        assert table.merge(nulls, on=name, when_matched_delete=True) is None, name


@pytest.mark.thin(2)
@pytest.mark.parametrize("most_bytes", [DEFAULT, 700, 0])
@pytest.mark.parametrize("kind", ["int", "long"])
def test_a_merge_without_expressions_takes_rows_over_as_they_are(
    spark: SparkSession, tmp_path: Path, kind: str, most_bytes: int
) -> None:
    table = small(tmp_path, **{DRIVER_MAX_BYTES.name: str(most_bytes)})
    source = spark.createDataFrame(
        [("b", 20, "B"), ("c", None, None), ("d", 40, "D"), (None, 50, "E")],
        f"k string, n {kind}, c string",
    )
    done = table.merge(
        source.filter("k is not null"),
        on="k",
        when_matched_update=True,
        when_not_matched_insert=True,
    )
    assert done is not None
    assert (done.stats.inserted, done.stats.updated) == (1, 2)
    after = [("a", 1, "x"), ("b", 20, "B"), ("c", None, None), ("d", 40, "D")]
    assert rows(table) == after
    with pytest.raises(InputError, match="several rows of the source"):
        table.merge(source.unionAll(source), on="k", when_matched_update=True)
    with pytest.raises(HoodooError):  # a row without a record key
        table.merge(source, on="k", when_not_matched_insert=True)
    assert rows(table) == after
    gone = table.merge(source, on="k", when_matched_delete=True)
    assert gone is not None
    assert gone.stats.deleted == 3
    assert rows(table) == after[:1]


def test_a_column_needs_a_session(spark: SparkSession, tmp_path: Path) -> None:
    table = small(tmp_path)
    with pytest.raises(InputError, match="spark="):
        table.update({"n": sf.col("n") + 1})
    with pytest.raises(InputError, match="spark="):
        table.delete(where=sf.col("n") > 1)
    with pytest.raises(InputError, match="where="):
        table.delete(sf.col("n") > 1)
