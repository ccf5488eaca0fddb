"""What Spark cannot write is refused in one clear line, and leaves nothing behind."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import InheritableThread
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from support.carriers import CARRIERS, from_files
from support.indexed import BUCKETS, GLOBAL, arrow, read_both
from support.indexed import create as create_anyhow

import hoodoo
from hoodoo.errors import (
    ConfigError,
    EngineFailed,
    HoodooError,
    InputError,
    NoSuchTable,
    SchemaMismatch,
)

pytestmark = pytest.mark.spark

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("p", pa.string()),
        ("ts", pa.int64()),
        pa.field("v", pa.int64(), nullable=False),
    ]
)


OPTIONS: dict[str, str] = {}


@pytest.fixture(autouse=True, params=["rows_in_driver", "keys_in_spark"])
def carrier(request: pytest.FixtureRequest) -> None:
    """However rows are written, they are refused in the same words."""
    OPTIONS.clear()
    OPTIONS.update(CARRIERS[request.param])


def make(place: Path, **more: Any) -> hoodoo.Table:
    arguments = {"record_key": "id", "partition_by": "p", "ordering": "ts", **more}
    arguments["options"] = {**OPTIONS, **more.get("options", {})}
    return hoodoo.create_table(str(place), schema=SCHEMA, **arguments)


def create(place: Path, kind: str, options: dict[str, str], ordering: str | None) -> Any:
    return create_anyhow(place, kind, {**OPTIONS, **options}, ordering)


def good(spark: SparkSession, *ids: str) -> DataFrame:
    return one_task(spark, arrow([(id_, "x", 1, 1) for id_ in ids or ("a",)]))


def one_task(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """Rows in one task: where another one fails, Spark may kill the Python worker of the next."""
    return spark.createDataFrame(rows).coalesce(1)


@contextmanager
def expect_untouched(table: hoodoo.Table) -> Iterator[None]:
    """The block leaves no data file, no pending instant and no row behind."""
    place = Path(table.uri.removeprefix("file://"))

    def state() -> tuple[Any, ...]:
        files = {path.relative_to(place) for path in place.rglob("*") if path.is_file()}
        # A partition that was begun stays a partition, without files.
        data = {path for path in files if not str(path.name).startswith(".hoodie")}
        data = {path for path in data if path.parts[0] != ".hoodie"}
        return data, sorted(map(repr, table.to_arrow().to_pylist()))

    before = state()
    yield
    assert state() == before
    instants = hoodoo.open_table(table.uri).timeline()
    assert [one for one in instants if not one.completion_time] == []
    assert not list((place / ".hoodie").rglob("*.marker.*"))
    assert not list((place / ".hoodie" / ".heartbeat").glob("[0-9]*"))


def expect_refusal(
    table: hoodoo.Table, write: Callable[[], object], kind: type[HoodooError], *words: str
) -> None:
    """The write fails with this error and these words, in one line, and nothing of it stays."""
    with expect_untouched(table), pytest.raises(kind) as caught:
        write()
    text = str(caught.value)
    assert "\n" not in text
    assert "py4j" not in text
    for word in words:
        assert word in text


def with_values(**columns: Any) -> Callable[[SparkSession], DataFrame]:
    """Two good rows, and a third with these values."""

    def build(spark: SparkSession) -> DataFrame:
        rows = [{"id": id_, "p": "x", "ts": 1, "v": 1} for id_ in "abc"]
        rows[2] |= columns
        plain = pa.schema([field.with_nullable(True) for field in SCHEMA])
        return one_task(spark, pa.Table.from_pylist(rows, plain))

    return build


def select_from_good(*columns: str) -> Callable[[SparkSession], DataFrame]:
    """A good row, seen through some expressions."""
    return lambda spark: good(spark).selectExpr(*columns)


DIRECTORY = ("partition value", "of p cannot be a directory name")
UNUSABLE = ("partition path", "(of p) cannot be used")
BAD_VALUES: dict[str, tuple[Callable[[SparkSession], DataFrame], type[HoodooError], list[str]]] = {
    "a null key": (with_values(id=None), InputError, ["record key id is null or empty"]),
    "an empty key": (with_values(id=""), InputError, ["record key id is null or empty"]),
    "a null ordering value": (with_values(ts=None), InputError, ["ordering column ts is null"]),
    "a null in a required column": (with_values(v=None), SchemaMismatch, ["column v", "null"]),
    "a text that is not UTF-8": (
        lambda spark: good(spark).selectExpr("cast(X'61FF62' as string) id", "p", "ts", "v"),
        InputError,
        ["column", "is not UTF-8"],
    ),
    "a slash at the end": (with_values(p="x/"), InputError, ["'x/'", *DIRECTORY]),
    "a slash at the beginning": (with_values(p="/x"), InputError, ["'/x'", *DIRECTORY]),
    "an empty level": (with_values(p="x//y"), InputError, ["'x//y'", *DIRECTORY]),
    "the directory above": (with_values(p=".."), InputError, ["'..'", *DIRECTORY]),
    "the table's own directory": (
        with_values(p="x/.hoodie"),
        InputError,
        ["'p=x/.hoodie'", *UNUSABLE],
    ),
    "a NUL": (with_values(p="a\0b"), InputError, ["NUL", *UNUSABLE]),
    "a long name": (with_values(p="x" * 254), InputError, ["at most 255 bytes", *UNUSABLE]),
    "out of the table": (with_values(p="x/../../y"), InputError, ["'x/../../y'", *DIRECTORY]),
}
BAD_COLUMNS: dict[str, tuple[Callable[[SparkSession], Any], type[HoodooError], list[str]]] = {
    "no key column": (select_from_good("p", "ts", "v"), InputError, ["no column 'id' in the rows"]),
    "no partition column": (select_from_good("id", "ts", "v"), InputError, ["no column 'p'"]),
    "no ordering column": (select_from_good("id", "p", "v"), InputError, ["no column 'ts'"]),
    "no required column": (
        select_from_good("id", "p", "ts"),
        SchemaMismatch,
        ["column v: missing"],
    ),
    "no columns": (select_from_good(), InputError, ["no column 'id' in the rows"]),
    "a column twice": (
        select_from_good("*", "id"),
        InputError,
        ["duplicate column name", "'id'"],
    ),
    "a column twice but for case": (
        select_from_good("*", "1 as TS"),
        InputError,
        ["duplicate column name", "'TS'"],
    ),
    "a key spelled otherwise": (
        select_from_good("id as ID", "p", "ts", "v"),
        InputError,
        ["no column 'id'"],
    ),
    "a column spelled otherwise": (
        select_from_good("id", "p", "ts", "v as V"),
        SchemaMismatch,
        ["column V: the table spells it v"],
    ),
    "a name of our own": (
        select_from_good("*", "1 as _hoodoo_hash"),
        InputError,
        ["column '_hoodoo_hash': the name is hoodoo's own"],
    ),
    "a name of our own but for case": (
        select_from_good("*", "1 as _HOODOO_Group"),
        InputError,
        ["column '_HOODOO_Group': the name is hoodoo's own"],
    ),
    "a meta column but for case": (
        select_from_good("*", "'k' as _Hoodie_Record_Key"),
        InputError,
        ["column '_Hoodie_Record_Key': the name is hoodoo's own"],
    ),
    "a text for a number": (
        select_from_good("id", "p", "ts", "'one' as v"),
        SchemaMismatch,
        ["column v: string does not fit int64"],
    ),
    "a number for a key": (
        select_from_good("1 as id", "p", "ts", "v"),
        SchemaMismatch,
        ["column id: int32 does not fit string"],
    ),
    "a fraction for a whole number": (
        select_from_good("id", "p", "ts", "1.5D as v"),
        SchemaMismatch,
        ["column v: double does not fit int64"],
    ),
    "an interval": (
        select_from_good("*", "interval 1 day as d"),
        SchemaMismatch,
        ["column d: a table cannot hold Spark's interval"],
    ),
    "a map by numbers": (
        select_from_good("*", "map(1, 2) as m"),
        SchemaMismatch,
        ["column m", "map keys must be strings"],
    ),
    "a column without a type": (
        select_from_good("*", "null as n"),
        SchemaMismatch,
        ["column n: a table cannot hold null"],
    ),
    "a name that Avro forbids": (
        select_from_good("*", "1 as `a b`"),
        SchemaMismatch,
        ["column a b: a name is made of"],
    ),
    "a stream": (
        lambda spark: spark.readStream.format("rate").load(),
        InputError,
        ["stream", "foreachBatch"],
    ),
    "no DataFrame": (lambda spark: good(spark).groupBy("id"), InputError, ["GroupedData"]),
    "a session": (lambda spark: spark, InputError, ["SparkSession"]),
}


@pytest.mark.thin(2)
@pytest.mark.parametrize("operation", ["upsert", "bulk_insert"])
@pytest.mark.parametrize("what", BAD_VALUES)
def test_bad_values_fail_the_write_and_leave_nothing(
    spark: SparkSession, tmp_path: Path, what: str, operation: str
) -> None:
    rows, kind, words = BAD_VALUES[what]
    table = make(tmp_path / "t")
    expect_refusal(table, lambda: getattr(table, operation)(rows(spark)), kind, *words)
    getattr(table, operation)(good(spark))
    assert table.to_arrow()["id"].to_pylist() == ["a"], "the next write works"


@pytest.mark.thin(2)
@pytest.mark.parametrize("options", [{}, BUCKETS], ids=["simple", "bucket"])
def test_bad_values_in_files(spark: SparkSession, tmp_path: Path, options: dict[str, str]) -> None:
    """Such rows are not kept, but read again for each purpose, each time other columns of them."""
    table = make(tmp_path / "t", options=options)
    for rows, kind, words in BAD_VALUES.values():
        bad = from_files(spark, rows(spark).toArrow(), tmp_path / "files")
        for write in (table.upsert, table.insert):
            expect_refusal(table, lambda write=write, bad=bad: write(bad), kind, *words)
    table.upsert(from_files(spark, good(spark).toArrow(), tmp_path / "files"))
    assert table.to_arrow()["id"].to_pylist() == ["a"], "the next write works"


@pytest.mark.thin(2)  # columns are looked at before it is decided how rows are written
@pytest.mark.parametrize("what", BAD_COLUMNS)
def test_bad_columns_fail_the_write_and_leave_nothing(
    spark: SparkSession, tmp_path: Path, what: str
) -> None:
    rows, kind, words = BAD_COLUMNS[what]
    table = make(tmp_path / "t")
    given = rows(spark)
    for write in (table.upsert, table.insert, table.bulk_insert, table.insert_overwrite_table):
        expect_refusal(table, lambda write=write: write(given), kind, *words)
    assert table.timeline() == [], "nothing was begun"


@pytest.mark.thin(2)
@pytest.mark.parametrize("options", [{}, BUCKETS, GLOBAL], ids=["simple", "bucket", "global"])
def test_bad_keys_to_delete(spark: SparkSession, tmp_path: Path, options: dict[str, str]) -> None:
    table = make(tmp_path / "t", options=options)
    table.upsert(good(spark, "a", "b"))
    delete = table.delete
    for rows, kind, word in (
        (with_values(id=None)(spark), InputError, "record key id is null or empty"),
        (with_values(p="../x")(spark), InputError, "cannot be a directory name"),
        (select_from_good("p", "ts")(spark), InputError, "no column 'id'"),
        (select_from_good("1 as id")(spark), SchemaMismatch, "column id"),
        (select_from_good("id", "id")(spark), InputError, "duplicate column name"),
    ):
        if options is GLOBAL and "directory" in word:
            continue  # partitions do not matter there
        expect_refusal(table, lambda rows=rows: delete(rows), kind, word)
    expect_refusal(
        table, lambda: table.delete_partitions(good(spark)), InputError, "a list of partition"
    )
    delete(good(spark))
    assert table.to_arrow()["id"].to_pylist() == ["b"]


@pytest.mark.parametrize("rule", [["id", "v"], ["id"]])
def test_keys_of_which_nothing_is_there(
    spark: SparkSession, tmp_path: Path, rule: list[str]
) -> None:
    """Of several parts some may be missing, not all."""
    schema = pa.schema([("id", pa.float64()), ("p", pa.string()), ("v", pa.int64())])
    table = hoodoo.create_table(
        str(tmp_path / "t"), schema=schema, record_key=rule, partition_by="p"
    )
    rows = pa.Table.from_pylist([{"id": 1.5, "p": "x"}, {"p": "x"}], schema)
    word = "all parts of the record key id,v" if len(rule) > 1 else "record key id is null"
    for write in (table.upsert, table.bulk_insert):
        expect_refusal(table, lambda write=write: write(one_task(spark, rows)), InputError, word)
    table.upsert(one_task(spark, rows.slice(0, 1)))
    assert table.to_arrow().num_rows == 1


@pytest.mark.thin(2)
@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("options", [{}, BUCKETS, GLOBAL], ids=["simple", "bucket", "global"])
def test_nothing_to_write_is_a_commit_without_files(
    spark: SparkSession, tmp_path: Path, kind: str, options: dict[str, str]
) -> None:
    table = create(tmp_path / "t", kind, options, "ts")
    none = good(spark).limit(0)
    for write in (table.upsert, table.bulk_insert, table.delete, table.insert_overwrite):
        assert write(none).stats.files == 0
    table.upsert(good(spark, "a", "b"))
    for write in (table.upsert, table.insert, table.bulk_insert, table.insert_overwrite):
        result = write(none)
        assert (result.stats.files, result.stats.inserted) == (0, 0)
    assert len(read_both(table)) == 2, "no partition occurs in no rows"
    table.insert_overwrite_table(none)
    assert read_both(table) == []
    assert [one.state for one in table.timeline() if not one.completion_time] == []


def test_a_slash_inside_makes_levels(spark: SparkSession, tmp_path: Path) -> None:
    table = create(tmp_path / "t", "cow", {}, "ts")
    rows = [("a", "2024/01", 1, 1), ("b", "2024/02", 1, 2)]
    table.upsert(spark.createDataFrame(arrow(rows)))
    table.upsert(spark.createDataFrame(arrow([("a", "2024/01", 2, 3)])))
    assert read_both(table) == [("a", "2024/01", 2, 3), ("b", "2024/02", 1, 2)]
    assert sorted(map(tuple, table.read(spark).select("id", "p").collect())) == [
        ("a", "2024/01"),
        ("b", "2024/02"),
    ]


def test_a_table_that_vanished(spark: SparkSession, tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    table.upsert(good(spark))
    shutil.rmtree(tmp_path / "t")
    for write in (table.upsert, table.bulk_insert, table.delete):
        with pytest.raises(NoSuchTable):
            write(good(spark))
    assert not (tmp_path / "t").exists()


# -- failures of the user's own code, and cancelled jobs --------------------------------------


@pytest.mark.thin(2)
@pytest.mark.parametrize("operation", ["upsert", "bulk_insert", "delete"])
def test_rows_that_cannot_be_computed(spark: SparkSession, tmp_path: Path, operation: str) -> None:
    table = make(tmp_path / "t")
    table.upsert(good(spark))

    @sf.udf("string")
    def fails(_: str) -> str:
        raise ValueError("no such luck")

    bad = good(spark).withColumn("id", fails("id"))
    expect_refusal(
        table, lambda: getattr(table, operation)(bad), EngineFailed, "ValueError: no such luck"
    )
    divided = good(spark).withColumn("ts", sf.expr("ts div 0"))
    expect_refusal(
        table, lambda: getattr(table, operation)(divided), EngineFailed, "DIVIDE_BY_ZERO"
    )


@pytest.mark.parametrize("operation", ["upsert", "bulk_insert"])
def test_a_write_that_is_cancelled(spark: SparkSession, tmp_path: Path, operation: str) -> None:
    """An upsert is cancelled over its input, a bulk insert over its write stage."""
    table = make(tmp_path / "t")
    table.upsert(good(spark))
    started, released = tmp_path / "started", tmp_path / "released"
    waits = sf.udf(_waiting(str(started), str(released)), "string")
    rows = good(spark, "b", "c").withColumn("id", waits("id"))
    caught: list[BaseException] = []

    def write() -> None:
        spark.sparkContext.setJobGroup("mine", "to be cancelled")
        try:
            getattr(table, operation)(rows)
        except BaseException as error:
            caught.append(error)

    with expect_untouched(table):
        writer = InheritableThread(target=write, daemon=True)
        writer.start()
        try:
            _wait_for(started.exists)
            spark.sparkContext.cancelJobGroup("mine")
            writer.join(60)
        finally:
            released.touch()
        assert not writer.is_alive()
    (error,) = caught
    assert isinstance(error, EngineFailed)
    assert "cancelled" in str(error)
    assert "\n" not in str(error)
    table.upsert(good(spark, "b"))
    assert sorted(table.to_arrow()["id"].to_pylist()) == ["a", "b"]


def _waiting(started: str, released: str) -> Callable[[str], str]:
    """A function that tells that it runs, and goes on when it is told to."""

    def wait(value: str) -> str:
        Path(started).touch()
        end = time.monotonic() + 60
        while not Path(released).exists() and time.monotonic() < end:
            threading.Event().wait(0.05)
        return value

    return wait


def _wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        threading.Event().wait(0.05)


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("hoodie.metadata.index.expression.enable", "true", "hoodoo has no index of that kind yet"),
        ("hoodie.datasource.write.operation", "insert", "kind upsert"),
        ("hoodie.datasource.write.recordkey.field", "ts", "the table has 'id' there"),
    ],
)
def test_options_that_ask_for_another_write_are_refused(
    spark: SparkSession, tmp_path: Path, key: str, value: str, reason: str
) -> None:
    make(tmp_path / "t").upsert(good(spark))
    table = hoodoo.open_table(tmp_path / "t", {**OPTIONS, key: value})
    expect_refusal(table, lambda: table.upsert(good(spark, "b")), ConfigError, key, reason)
    assert table.read(spark).count() == 1
