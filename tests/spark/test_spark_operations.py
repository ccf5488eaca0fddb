"""What Spark's writes do beyond single rows: files, sizes, duplicates, stats, many partitions."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from support.carriers import CARRIERS, KEYS_IN_SPARK
from support.indexed import (
    BUCKETS,
    FILTERS,
    GLOBAL,
    INDEX,
    KINDS,
    SCHEMA,
    STAYS,
    Row,
    arrow,
    assert_in_buckets,
    read_both,
    rows_in,
)
from support.indexed import create as create_anyhow

import hoodoo
from hoodoo.errors import ConfigError, SchemaMismatch
from hoodoo.model.files import FileSlice
from hoodoo.read.snapshot import take_snapshot
from hoodoo.spark import engine
from hoodoo.spark.session.session import override_settings
from hoodoo.spark.write import stored_keys
from hoodoo.spark.write import stored_keys as join_keys
from hoodoo.table.ref import open_ref
from hoodoo.table.timeline import read_commit

pytestmark = pytest.mark.spark

NO_SMALL_FILES = {"hoodie.parquet.small.file.limit": "0"}
THIN = pytest.mark.thin(2)  # `test_spark_model` has each index on each kind of table
INDEXES = pytest.mark.parametrize(
    "options",
    [{INDEX: "SIMPLE"}, {INDEX: "BLOOM"}, BUCKETS, GLOBAL],
    ids=["simple", "bloom", "bucket", "global"],
)


def create(place: Path, kind: str, options: dict[str, str], ordering: str | None) -> Any:
    """A new table; writes to it are those of large data."""
    return create_anyhow(place, kind, {**KEYS_IN_SPARK, **options}, ordering)


def frame(spark: SparkSession, rows: list[Row], *columns: str) -> DataFrame:
    """Rows as a DataFrame, in all columns or some."""
    return spark.createDataFrame(arrow(rows).select(list(columns or SCHEMA.names)))


def slices(table: hoodoo.Table) -> list[FileSlice]:
    """The file slices that readers see."""
    return take_snapshot(open_ref(table.uri)).slices()


def base_files(table: hoodoo.Table) -> list[Path]:
    """The base files that readers see."""
    place = Path(table.uri.removeprefix("file://"))
    return [place / slice_.base.path for slice_ in slices(table) if slice_.base]


def test_a_frame_tells_the_schema_of_a_new_table(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame([(1, "x")], "id long, part string")
    table = hoodoo.create_table(tmp_path / "t", schema=frame, record_key="id")
    assert table.schema.names == ["id", "part"]


@THIN
@KINDS
@INDEXES
def test_stats_of_a_commit(
    spark: SparkSession, tmp_path: Path, kind: str, options: dict[str, str]
) -> None:
    table = create(tmp_path / "t", kind, options, "ts")
    first = table.insert(frame(spark, [("a", "x", 1, 1), ("b", "x", 1, 2), ("c", "y", 1, 3)]))
    assert (first.stats.inserted, first.stats.updated, first.stats.deleted) == (3, 0, 0)
    second = table.upsert(frame(spark, [("a", "x", 2, 4), ("d", "z", 2, 5)]))
    assert second.stats.inserted + second.stats.updated == 2
    assert second.stats.inserted == 1
    third = table.delete(frame(spark, [("c", "y", 0, 0), ("nobody", "y", 0, 0)], "id", "p"))
    assert third.stats.deleted == 1
    assert {"prepare", "locate", "assign", "begin", "write", "finalize", "commit"} <= set(
        third.timings
    )
    assert read_both(table) == [("a", "x", 2, 4), ("b", "x", 1, 2), ("d", "z", 2, 5)]
    ref = open_ref(table.uri)
    for result, operation in ((first, "INSERT"), (second, "UPSERT"), (third, "DELETE")):
        found = ref.load_timeline().find(result.instant)
        assert found is not None
        metadata = read_commit(ref.env, ref.properties.timeline_paths, found)
        assert metadata.operation == operation
        sizes = [
            (tmp_path / "t" / (stat.path or "")).stat().st_size for _, stat in metadata.stats()
        ]
        assert sum(sizes) == result.stats.bytes
        assert len(sizes) == result.stats.files


@KINDS
def test_inserts_keep_duplicates_and_an_upsert_leaves_one(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    table = create(tmp_path / "t", kind, {}, "ts")
    table.insert(frame(spark, [("a", "x", 1, 1), ("a", "x", 2, 2), ("b", "x", 1, 3)]))
    table.bulk_insert(frame(spark, [("a", "x", 3, 4), ("b", "x", 1, 5)]))
    assert Counter(row[0] for row in read_both(table)) == {"a": 3, "b": 2}
    table.upsert(frame(spark, [("a", "x", 9, 6)]))
    # Of a key that a base file has twice the wheel reads one row more, once a log updates it.
    left = [row for row in rows_in(table.to_arrow()) if row[0] == "a"]
    assert left == [("a", "x", 9, 6)] * 2, "one in each file group that had it"


@pytest.mark.parametrize("operation", ["insert", "bulk_insert", "insert_overwrite"])
def test_inserts_keep_one_row_per_key_when_asked(
    spark: SparkSession, tmp_path: Path, operation: str
) -> None:
    table = create(tmp_path / "t", "cow", {"hoodie.combine.before.insert": "true"}, "ts")
    rows = [("a", "x", 3, 1), ("a", "x", 2, 2), ("b", "x", 1, 3), ("a", "y", 1, 4)]
    getattr(table, operation)(frame(spark, rows).repartition(3))
    assert read_both(table) == [("a", "x", 3, 1), ("a", "y", 1, 4), ("b", "x", 1, 3)]


@THIN
@pytest.mark.parametrize("operation", ["insert", "bulk_insert", "insert_overwrite_table", "upsert"])
@pytest.mark.parametrize("marks", [[True, False, None], ["D", "d", None]], ids=["own", "flagged"])
def test_rows_that_are_marked_as_deleted_are_no_rows(
    spark: SparkSession, tmp_path: Path, operation: str, marks: list[Any]
) -> None:
    values = pa.array(marks)
    name = "_hoodie_is_deleted" if marks[0] is True else "op"
    schema = SCHEMA.append(pa.field(name, values.type))
    flag = {"hoodie.payload.delete.field": "op", "hoodie.payload.delete.marker": "D"}
    table = hoodoo.create_table(
        str(tmp_path / "t"),
        schema=schema,
        record_key="id",
        partition_by="p",
        ordering="ts",
        options={"hoodie.write.spark.driver.max.bytes": "0", **(flag if name == "op" else {})},
    )
    rows = arrow([("a", "x", 1, 1), ("b", "x", 1, 2), ("c", "y", 1, 3)])
    rows = rows.append_column(schema.field(4), values)
    getattr(table, operation)(spark.createDataFrame(rows))
    assert read_both(table) == [("b", "x", 1, 2), ("c", "y", 1, 3)]


# -- files ------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["NONE", "GLOBAL_SORT", "PARTITION_SORT"])
def test_sort_modes_of_bulk_inserts(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    options = {
        "hoodie.bulkinsert.sort.mode": mode,
        "hoodie.bulkinsert.shuffle.parallelism": "3",
    }
    table = create(tmp_path / "t", "cow", options, None)
    many = spark.range(0, 600, 1, 4).select(
        sf.format_string("%04d", (sf.col("id") * 7919) % 600).alias("id"),
        (sf.col("id") % 2).cast("string").alias("p"),
        sf.lit(1).cast("long").alias("ts"),
        sf.col("id").alias("v"),
    )
    table.bulk_insert(many)
    files = [pq.read_table(file) for file in base_files(table)]
    keys = [file["_hoodie_record_key"].to_pylist() for file in files]
    assert sorted(key for some in keys for key in some) == [f"{n:04}" for n in range(600)]
    are_sorted = [some == sorted(some) for some in keys]
    assert all(are_sorted) == (mode != "NONE")
    if mode == "GLOBAL_SORT":
        assert len(files) < 6, "few files: a partition is in neighbouring tasks"
        for path in ("p=0", "p=1"):
            ranges = sorted(
                (some[0], some[-1])
                for some, file in zip(keys, files, strict=True)
                if file["_hoodie_partition_path"][0].as_py() == path
            )
            assert all(one[1] < next_[0] for one, next_ in pairwise(ranges))


def noise(spark: SparkSession, first: int, last: int, partitions: int = 1) -> DataFrame:
    """Rows that do not compress, about 90 bytes each."""
    key = sf.format_string("%08d", sf.col("id"))
    return spark.range(first, last).select(
        key.alias("id"),
        (sf.col("id") % partitions).cast("string").alias("p"),
        sf.lit(1).cast("long").alias("ts"),
        sf.concat(sf.sha2(key, 256), sf.sha2(sf.reverse(key), 256)).alias("v"),
    )


NOISE = SCHEMA.set(3, pa.field("v", pa.string()))
LARGEST, SMALL = 200_000, 120_000


def create_with_file_sizes(place: Path, **more: str) -> hoodoo.Table:
    options = {
        "hoodie.parquet.max.file.size": str(LARGEST),
        "hoodie.parquet.small.file.limit": str(SMALL),
        "hoodie.parquet.block.size": "50000",
        "hoodie.index.bloom.num_entries": "1000",
        **more,
    }
    return hoodoo.create_table(
        str(place), schema=NOISE, record_key="id", partition_by="p", options=options
    )


@pytest.mark.parametrize("operation", ["insert", "bulk_insert", "upsert", "insert_overwrite"])
def test_no_file_outgrows_the_limit(spark: SparkSession, tmp_path: Path, operation: str) -> None:
    table = create_with_file_sizes(tmp_path / "t")
    getattr(table, operation)(noise(spark, 0, 12_000).coalesce(1))
    files = base_files(table)
    assert len(files) >= 4
    assert max(file.stat().st_size for file in files) < 1.5 * LARGEST
    assert len(set(table.to_arrow()["id"].to_pylist())) == table.to_arrow().num_rows == 12_000


def test_small_files_are_filled_first(spark: SparkSession, tmp_path: Path) -> None:
    table = create_with_file_sizes(tmp_path / "t")
    table.insert(noise(spark, 0, 800))
    (small,) = base_files(table)
    assert small.stat().st_size < SMALL
    table.insert(noise(spark, 1_000, 1_200))
    assert len(base_files(table)) == 1, "into the small file"
    table.upsert(noise(spark, 1_100, 4_000))
    files = base_files(table)
    assert len(files) > 1
    assert max(file.stat().st_size for file in files) < 1.5 * LARGEST
    first = [file for file in files if file.name.split("_")[0] == small.name.split("_")[0]]
    assert first[0].stat().st_size > SMALL, "it is not small any more"
    before = {file.name for file in files}
    table.bulk_insert(noise(spark, 5_000, 5_100))
    assert before < {file.name for file in base_files(table)}, "a bulk insert leaves files alone"
    ids = table.to_arrow()["id"].to_pylist()
    assert len(ids) == len(set(ids)) == 800 + 3_000 + 100


def test_parquet_options(spark: SparkSession, tmp_path: Path) -> None:
    table = create_with_file_sizes(tmp_path / "t", **{"hoodie.parquet.compression.codec": "gzip"})
    table.bulk_insert(noise(spark, 0, 1_500).coalesce(1))
    (file,) = base_files(table)
    metadata = pq.read_metadata(file)
    assert metadata.row_group(0).column(0).compression == "GZIP"
    assert metadata.num_row_groups > 1


def test_several_hundred_partitions(spark: SparkSession, tmp_path: Path) -> None:
    table = create(tmp_path / "t", "mor", {}, "ts")
    partitions, updated = 300, 40
    rows = [(f"k{n}", f"p{n % partitions}", 1, n) for n in range(2 * partitions)]
    table.bulk_insert(frame(spark, rows).coalesce(1))
    newer = [(id_, p, 2, v + 1) for id_, p, _, v in rows[:updated]]
    result = table.upsert(frame(spark, newer))
    assert (result.stats.updated, result.stats.files) == (updated, updated)
    assert read_both(table) == sorted(newer + rows[updated:])


# -- partitions and keys ----------------------------------------------------------------------


@THIN
@KINDS
@INDEXES
def test_overwrites_and_dropped_partitions(
    spark: SparkSession, tmp_path: Path, kind: str, options: dict[str, str]
) -> None:
    table = create(tmp_path / "t", kind, options, "ts")
    table.insert(frame(spark, [("a", "x", 1, 1), ("b", "x", 1, 2), ("c", "y", 1, 3)]))
    table.upsert(frame(spark, [("a", "x", 2, 4)]))
    table.insert_overwrite(frame(spark, [("d", "x", 1, 5), ("e", "z", 1, 6)]))
    assert read_both(table) == [("c", "y", 1, 3), ("d", "x", 1, 5), ("e", "z", 1, 6)]
    table.upsert(frame(spark, [("a", "x", 1, 7), ("d", "x", 2, 8)]))
    table.delete_partitions(["p=y"])
    assert read_both(table) == [("a", "x", 1, 7), ("d", "x", 2, 8), ("e", "z", 1, 6)]
    if options is BUCKETS:
        assert_in_buckets(table)
    table.insert_overwrite_table(frame(spark, [("q", "y", 1, 9)]))
    table.upsert(frame(spark, [("q", "y", 3, 10)]))
    assert read_both(table) == [("q", "y", 3, 10)]


@THIN
@KINDS
@pytest.mark.parametrize("ordering", ["ts", None])
def test_a_row_moves_to_another_partition(
    spark: SparkSession, tmp_path: Path, kind: str, ordering: str | None
) -> None:
    table = create(tmp_path / "t", kind, {**GLOBAL, **NO_SMALL_FILES}, ordering)
    table.upsert(frame(spark, [("a", "x", 3, 1), ("b", "x", 3, 2)]))
    table.upsert(frame(spark, [("a", "y", 4, 3), ("b", "y", 2, 4)]))
    late = ("b", "x", 3, 2) if ordering else ("b", "y", 2, 4)
    assert read_both(table) == sorted([("a", "y", 4, 3), late])
    table.upsert(frame(spark, [("a", "x", 5, 5)]))  # and back to where it was deleted
    assert read_both(table) == sorted([("a", "x", 5, 5), late])
    table.delete(frame(spark, [("a", "nowhere", 9, 0)], "id", "p"))
    assert read_both(table) == [late], "a key is one row of the table, in whatever partition"


@KINDS
def test_a_row_stays_in_its_partition(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    table = create(tmp_path / "t", kind, {**STAYS, **NO_SMALL_FILES}, "ts")
    table.upsert(frame(spark, [("a", "x", 3, 1), ("b", "x", 3, 2)]))
    table.upsert(frame(spark, [("a", "y", 4, 3), ("b", "y", 2, 4), ("c", "y", 1, 5)]))
    assert read_both(table) == [("a", "y", 4, 3), ("b", "x", 3, 2), ("c", "y", 1, 5)]
    places = table.to_arrow(columns=["id", "_hoodie_partition_path"]).to_pylist()
    assert {row["id"]: row["_hoodie_partition_path"] for row in places} == {
        "a": "p=x",
        "b": "p=x",
        "c": "p=y",
    }


@THIN
@KINDS
@pytest.mark.parametrize("options", [GLOBAL, STAYS], ids=["moves", "stays"])
def test_a_key_that_comes_twice_is_one_row_of_an_empty_table(
    spark: SparkSession, tmp_path: Path, kind: str, options: dict[str, str]
) -> None:
    table = create(tmp_path / "t", kind, options, "ts")
    table.upsert(frame(spark, [("a", "x", 1, 1), ("a", "y", 2, 2), ("b", "x", 1, 3)]))
    assert read_both(table) == [("a", "y", 2, 2), ("b", "x", 1, 3)]


@KINDS
def test_a_key_in_two_partitions_becomes_one_row(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    table = create(tmp_path / "t", kind, {**GLOBAL, **NO_SMALL_FILES}, "ts")
    table.insert(frame(spark, [("a", "x", 1, 1), ("a", "y", 1, 2), ("a", "z", 1, 3)]))
    table.upsert(frame(spark, [("a", "x", 2, 4)]))
    assert read_both(table) == [("a", "x", 2, 4)]
    table.insert(frame(spark, [("a", "y", 1, 2), ("a", "z", 1, 3)]))
    table.upsert(frame(spark, [("a", "new", 3, 5)]))
    assert read_both(table) == [("a", "new", 3, 5)]


@pytest.mark.parametrize("carrier", CARRIERS)
def test_no_footer_is_opened_where_the_metadata_table_has_the_filters(
    spark: SparkSession, tmp_path: Path, carrier: str
) -> None:
    options = {**FILTERS, **NO_SMALL_FILES, **CARRIERS[carrier]}
    table = create_anyhow(tmp_path / "t", "cow", options, "ts")
    for first in (0, 1):
        rows = [(f"key-{n}", "x", 1, n) for n in range(first, 90, 2)]
        table.insert(frame(spark, rows))
    for file in (tmp_path / "t").rglob("p=*/*.parquet"):
        file.write_bytes(bytes(file.stat().st_size))
    assert table.upsert(frame(spark, [("key-", "x", 1, 1)])).stats.inserted == 1


@pytest.mark.parametrize("options", [{INDEX: "SIMPLE"}, {INDEX: "BLOOM"}], ids=["simple", "bloom"])
def test_a_row_goes_where_its_key_lives_not_where_it_was_deleted(
    spark: SparkSession, tmp_path: Path, options: dict[str, str]
) -> None:
    table = create(tmp_path / "t", "mor", {**options, **NO_SMALL_FILES}, "ts")
    table.insert(frame(spark, [("a", "x", 1, 1), ("b", "x", 1, 2)]))
    table.delete(frame(spark, [("a", "x", 0, 0)], "id", "p"))
    table.insert(frame(spark, [("a", "x", 2, 3)]))  # into a file group of its own
    table.upsert(frame(spark, [("a", "x", 3, 4)]))
    assert read_both(table) == [("a", "x", 3, 4), ("b", "x", 1, 2)]


@THIN
@KINDS
@INDEXES
def test_deletes_of_what_is_not_there_write_nothing(
    spark: SparkSession, tmp_path: Path, kind: str, options: dict[str, str]
) -> None:
    table = create(tmp_path / "t", kind, options, "ts")
    table.insert(frame(spark, [("a", "x", 1, 1)]))
    assert table.delete(frame(spark, [("a", "elsewhere", 0, 0)], "id")).stats.deleted == 1
    before = {path.name for path in (tmp_path / "t").iterdir()}
    table.delete(frame(spark, [("b", "x", 0, 0), ("a", "elsewhere", 0, 0)], "id", "p"))
    assert {path.name for path in (tmp_path / "t").iterdir()} == before, "no partition is made"
    assert read_both(table) == []


def test_buckets_are_as_many_as_they_were(spark: SparkSession, tmp_path: Path) -> None:
    table = create(tmp_path / "t", "cow", BUCKETS, "ts")
    table.insert(frame(spark, [(f"k{n}", "x", 1, n) for n in range(20)]))
    other = hoodoo.open_table(table.uri, {**BUCKETS, "hoodie.bucket.index.num.buckets": "2"})
    for write in (other.upsert, other.insert, other.bulk_insert, other.delete):
        with pytest.raises(ConfigError, match=r"num\.buckets"):
            write(frame(spark, [("k1", "x", 2, 0)]))
    table.bulk_insert(frame(spark, [(f"n{n}", "x", 1, n) for n in range(20)]).repartition(3))
    assert len(read_both(table)) == 40
    assert_in_buckets(table)


# -- columns ----------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{INDEX: "SIMPLE"}, BUCKETS, GLOBAL], ids=str)
def test_any_column_name_will_do(
    spark: SparkSession, tmp_path: Path, options: dict[str, str]
) -> None:
    """Names that a query of ours, or Spark, might use for something else."""
    names = ["low", "high", "count", "read", "bucket", "result", "o0", "key", "position", "from"]
    schema = pa.schema([*SCHEMA, *((name, pa.int64()) for name in names)])
    table = hoodoo.create_table(
        str(tmp_path / "t"),
        schema=schema,
        record_key="id",
        partition_by="p",
        ordering="ts",
        options=options,
    )
    rows = pa.Table.from_pylist(
        [{"id": "a", "p": "x", "ts": 1, "v": 1, **{n: i for i, n in enumerate(names)}}], schema
    )
    for _ in range(2):
        table.upsert(spark.createDataFrame(rows))
    assert table.to_arrow(columns=schema.names).to_pylist() == rows.to_pylist()
    table.bulk_insert(spark.createDataFrame(rows.set_column(0, "id", pa.array(["b"]))))
    table.delete(spark.createDataFrame(rows))
    assert table.to_arrow()["id"].to_pylist() == ["b"]


@THIN
@KINDS
@INDEXES
def test_columns_come_and_numbers_grow(
    spark: SparkSession, tmp_path: Path, kind: str, options: dict[str, str]
) -> None:
    narrow = pa.schema(
        [("id", pa.string()), ("p", pa.string()), ("ts", pa.int32()), ("w", pa.float32())]
    )
    table = hoodoo.create_table(
        str(tmp_path / "t"),
        schema=narrow,
        record_key="id",
        partition_by="p",
        ordering="ts",
        table_type=kind,
        options=options,
    )

    def rows(listed: list[dict[str, Any]], **types: pa.DataType) -> DataFrame:
        known = {field.name: field.type for field in narrow} | types
        names = {name for row in listed for name in row}
        schema = pa.schema([(name, known[name]) for name in known if name in names])
        return spark.createDataFrame(pa.Table.from_pylist(listed, schema))

    table.insert(rows([{"id": "a", "p": "x", "ts": 1, "w": 0.5}, {"id": "b", "p": "x", "ts": 1}]))
    more = [{"id": "a", "p": "x", "ts": 2, "w": 1.5, "note": "hi"}]
    table.upsert(rows(more, note=pa.string()))
    wide = [{"id": "c", "p": "y", "ts": 2**40, "w": 0.1}]
    table.upsert(rows(wide, ts=pa.int64(), w=pa.float64()))
    table.upsert(rows([{"id": "b", "p": "x", "ts": 3, "w": 0.25}]))  # narrow rows still fit
    found = {row["id"]: (row["ts"], row["w"], row["note"]) for row in table.to_arrow().to_pylist()}
    assert found == {"a": (2, 1.5, "hi"), "b": (3, 0.25, None), "c": (2**40, 0.1, None)}
    by_spark = table.read(spark).select("id", "ts", "w", "note").collect()
    assert {row[0]: tuple(row[1:]) for row in by_spark} == found
    with pytest.raises(SchemaMismatch, match="column w"):
        table.upsert(rows([{"id": "a", "p": "x", "ts": 2, "w": "text"}], w=pa.string()))


SETTINGS = {
    "small batches": {"spark.sql.execution.arrow.maxRecordsPerBatch": "2"},
    "large types": {"spark.sql.execution.arrow.useLargeVarTypes": "true"},
    "others": {
        "spark.sql.ansi.enabled": "false",
        "spark.sql.caseSensitive": "true",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.session.timeZone": "Asia/Tokyo",
        "spark.sql.shuffle.partitions": "1",
    },
}


@pytest.mark.thin(3)
@pytest.mark.parametrize("what", SETTINGS)
@pytest.mark.parametrize("options", [{INDEX: "BLOOM"}, BUCKETS, GLOBAL], ids=str)
def test_session_settings_do_not_change_what_is_written(
    spark: SparkSession, tmp_path: Path, what: str, options: dict[str, str]
) -> None:
    table = create(tmp_path / "t", "mor", options, "ts")
    rows = [(f"k{n}", "xy"[n % 2], 1, n) for n in range(12)]
    with override_settings(spark, SETTINGS[what]):
        table.bulk_insert(frame(spark, rows))
        twice = [*((id_, p, 3, v) for id_, p, _, v in rows[:7]), *rows[:7], ("new", "z", 1, 1)]
        table.upsert(frame(spark, twice).coalesce(1))
        table.delete(frame(spark, rows[4:9], "id"))
    expected = [(id_, p, 3, v) for id_, p, _, v in rows[:4]] + rows[9:] + [("new", "z", 1, 1)]
    assert read_both(table) == sorted(expected)


def test_rows_that_were_read_can_be_written_back(spark: SparkSession, tmp_path: Path) -> None:
    table = create(tmp_path / "t", "mor", {}, "ts")
    table.insert(frame(spark, [("a", "x", 1, 1), ("b", "y", 1, 2)]))
    rows = table.read(spark)
    assert "_hoodie_commit_time" in rows.columns
    result = table.upsert(rows)
    assert result.stats.updated == 2
    assert set(table.to_arrow()["_hoodie_commit_time"].to_pylist()) == {result.instant}
    assert read_both(table) == [("a", "x", 1, 1), ("b", "y", 1, 2)]


@KINDS
def test_rows_that_are_too_many_for_a_broadcast(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """The hashes of very many rows are not broadcast; keys are joined with all of the table's."""
    monkeypatch.setattr(join_keys, "MOST_BROADCAST", 1)
    monkeypatch.setattr(stored_keys, "MOST_BROADCAST", 1)
    table = create(tmp_path / "t", kind, {INDEX: "SIMPLE"}, "ts")
    rows = [(f"k{n}", "xy"[n % 2], 1, n) for n in range(20)]
    table.insert(frame(spark, rows))
    table.upsert(frame(spark, [("k3", "y", 2, 33), ("k4", "x", 2, 44), ("new", "x", 1, 0)]))
    table.delete(frame(spark, [("k5", "y", 0, 0), ("nobody", "y", 0, 0)], "id"))
    kept = [row for row in rows if row[0] not in ("k3", "k4", "k5")]
    assert read_both(table) == sorted(
        [*kept, ("k3", "y", 2, 33), ("k4", "x", 2, 44), ("new", "x", 1, 0)]
    )


def test_rows_that_are_too_many_for_a_task(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark has a limit for what it sends with a task; more than that is broadcast."""
    monkeypatch.setattr(engine, "_BROADCAST_BYTES", 6_000)
    table = create_anyhow(tmp_path / "t", "cow", {}, "ts")
    rows = [(f"k{n}", "x" if n % 9 else "y", 1, n) for n in range(500)]
    table.insert(frame(spark, rows))
    table.upsert(frame(spark, [(id_, p, 2, v) for id_, p, _, v in rows]))
    assert read_both(table) == sorted((id_, p, 2, v) for id_, p, _, v in rows)


def test_partitions_are_known_to_those_who_list(spark: SparkSession, tmp_path: Path) -> None:
    """Apache Hudi finds partitions by a file in each."""
    table = create(tmp_path / "t", "cow", {}, "ts")
    for write, p in ((table.insert, "x"), (table.bulk_insert, "y"), (table.upsert, "z")):
        result = write(frame(spark, [("a", p, 1, 1)]))
        text = (tmp_path / "t" / f"p={p}" / ".hoodie_partition_metadata").read_text()
        assert f"commitTime={result.instant}" in text
        assert "partitionDepth=1" in text
