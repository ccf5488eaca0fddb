"""Filtered reads that leave files out by statistics: never a row less, and really fewer files."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.fixtures import fixture_tables
from support.metadata_tables import with_metadata
from support.wheel import rows_of

import hoodoo
from hoodoo.format.metadata_table.column_stats import (
    COLUMN_STATS_SCHEMA,
    ValueType,
    column_type,
    indexed_columns,
    make_bounds,
)
from hoodoo.format.metadata_table.schema import RecordKind, Wrapper
from hoodoo.metadata_table.indexes.column_stats import column_stats, partition_stats
from hoodoo.metadata_table.indexes.data_skipping import has_ranges, is_comparable, to_ranges
from hoodoo.model.commit import ColumnRange, FileRanges
from hoodoo.model.files import LogFile
from hoodoo.model.instant import InstantTime
from hoodoo.model.metadata_table import COLUMN_STATS, PARTITION_STATS
from hoodoo.model.predicate import All, AnyOf, Compare, In, IsNull, Like, Predicate, ValueRange
from hoodoo.read.file_listing import DirectoryLister, FileFinder
from hoodoo.read.scan import scan, select_slices
from hoodoo.read.snapshot import take_snapshot
from hoodoo.rows.filter import bind, expression
from hoodoo.runtime.engine import LocalEngine
from hoodoo.runtime.env import Env
from hoodoo.storage.traced import TracedStorage
from hoodoo.table.ref import open_ref
from hoodoo_testing.tables.metadata_tables import make_listing

pytestmark = pytest.mark.slow

Unpack = Callable[[str], Path]
SKIP = {"hoodie.enable.data.skipping": "false"}
TABLES = [name for name in with_metadata() if name in fixture_tables()]


# -- on tables of Apache Hudi -------------------------------------------------------------------


def values_by_column(rows: pa.Table) -> dict[str, list[Any]]:
    """Values of the columns that a filter may ask, with some that are not there."""
    made = {}
    for field in rows.schema:
        if not has_ranges(field.type):
            continue
        present = [v for v in rows[field.name].unique().to_pylist() if v is not None]
        if pa.types.is_string(field.type):
            present += ["", "zzz", "A", "\U0001f600", "\uffee"]
        elif pa.types.is_integer(field.type):
            present += [-1, 0, 10**18]
        made[field.name] = present[:12] or [None]
    return made


def predicates(columns: dict[str, list[Any]], schema: pa.Schema) -> st.SearchStrategy[Predicate]:
    def leaf(name: str) -> st.SearchStrategy[Predicate]:
        value = st.sampled_from(columns[name])
        ops = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
        leaves = [
            st.builds(Compare, st.just(name), ops, value),
            st.builds(
                In, st.just(name), st.lists(value, min_size=1, max_size=3).map(tuple), st.booleans()
            ),
            st.builds(IsNull, st.just(name), st.booleans()),
        ]
        if pa.types.is_string(schema.field(name).type):
            patterns = value.map(lambda text: text[:3] + "%")
            leaves.append(st.builds(Like, st.just(name), patterns, st.booleans()))
        return st.one_of(leaves)

    return st.recursive(
        st.sampled_from(sorted(columns)).flatmap(leaf),
        lambda inner: st.one_of(
            st.lists(inner, min_size=1, max_size=3).map(lambda terms: All(tuple(terms))),
            st.lists(inner, min_size=1, max_size=3).map(lambda terms: AnyOf(tuple(terms))),
        ),
        max_leaves=4,
    )


@pytest.mark.parametrize("table", TABLES)
def test_slices_that_are_left_out_have_no_row_for_the_filter(table: str, unpack: Unpack) -> None:
    engine = LocalEngine(1)
    ref = open_ref(str(unpack(table)))
    index = FileFinder(ref, ref.load_timeline())
    every = select_slices(ref)
    rows_by_slice = {one: replace(every, slices=(one,)).read(engine) for one in every.slices}
    rows = pa.concat_tables(rows_by_slice.values())
    left_out = 0

    @settings(max_examples=40)
    @given(predicates(values_by_column(rows), rows.schema))
    def check(predicate: Predicate) -> None:
        nonlocal left_out
        bound = bind(predicate, rows.schema)
        slices = list(every.slices)
        chosen = index.prune(slices, bound, rows.schema, every.snapshot.timeline)
        condition = expression(bound, rows.schema)
        for one in set(slices) - set(chosen):
            left_out += 1
            assert not rows_by_slice[one].filter(condition).num_rows

    check()
    assert left_out or len(every.slices) < 2


def opened_files(path: Path, options: dict[str, str] | None, filter_: str, **what: Any) -> set[str]:
    storage = TracedStorage(Env.of(str(path)).storage)
    scan(open_ref(str(path), options, Env(storage)), LocalEngine(1), filter=filter_, **what)
    names = {o.path for o in storage.operations if o.verb in ("open_read", "read")}
    return {name for name in names if not name.startswith(".hoodie")}


@pytest.mark.parametrize("table", ["cow/v9_txns_simple_meta", "mor-avro/v9_txns_simple_meta"])
def test_files_that_cannot_match_are_not_opened(table: str, unpack: Unpack) -> None:
    path = unpack(table)
    where = "txn_id = 'TXN-001'"
    few, every = opened_files(path, None, where), opened_files(path, SKIP, where)
    assert few < every
    assert opened_files(path, None, "txn_id = 'nobody'") == set()
    optimized = opened_files(path, None, where, mode="read_optimized")
    assert optimized <= few


@pytest.mark.parametrize("table", ["cow/v9_txns_simple_overwrite", "mor-avro/v9_txns_simple_meta"])
def test_time_travel_with_a_filter_sees_what_was_there(table: str, unpack: Unpack) -> None:
    path = str(unpack(table))
    with_stats, without = open_ref(path), open_ref(path, SKIP)
    engine = LocalEngine(1)
    for instant in with_stats.load_timeline().commits:
        time = instant.requested_time
        rows = scan(without, engine, as_of=time)
        for name, values in list(values_by_column(rows).items())[::4]:
            where = Compare(name, "=", values[0])
            ours = scan(with_stats, engine, filter=where, as_of=time)
            assert rows_of(ours) == rows_of(scan(without, engine, filter=where, as_of=time))


def test_damaged_statistics_are_not_used(
    unpack: Unpack, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = Path(shutil.copytree(unpack("cow/v9_txns_simple_meta"), tmp_path / "t"))
    where = "txn_id = 'TXN-001'"
    before = rows_of(hoodoo.open_table(str(path), SKIP).to_arrow(filter=where))
    for file in (path / ".hoodie/metadata" / COLUMN_STATS).glob("*.hfile"):
        file.write_bytes(file.read_bytes()[:-1])
    with caplog.at_level(logging.WARNING, "hoodoo.table"):
        assert rows_of(hoodoo.open_table(str(path)).to_arrow(filter=where)) == before
    assert len(caplog.records) == 1


# -- on tables made here ------------------------------------------------------------------------

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("p", pa.string()),
        ("n", pa.int64()),
        ("f", pa.float64()),
        ("s", pa.string()),
    ]
)


BARE = {"hoodie.metadata.enable": False}
"""The metadata table is made by hand."""


def make_table(path: Path, batches: list[dict[str, list[Any]]]) -> hoodoo.Table:
    table = hoodoo.create_table(
        str(path), schema=SCHEMA, record_key="id", partition_by="p", options=BARE
    )
    for columns in batches:
        table.bulk_insert(pa.table(columns, schema=SCHEMA))
    return table


def add_statistics(
    path: Path, *, changed: Callable[[FileRanges], FileRanges] | None = None
) -> None:
    """A metadata table with statistics of all files, as they are or changed."""
    ref = open_ref(str(path))
    made = make_listing(ref)
    files = []
    for file in DirectoryLister(ref.env, ref.properties.keys).files():
        rows = pa.parquet.read_table(path / file.path, partitioning=None)
        ranges = tuple(range_of(name, rows[name].to_pylist()) for name in SCHEMA.names)
        one = FileRanges(partition=file.partition, file_name=str(file.name), ranges=ranges)
        files.append(changed(one) if changed else one)
    newest = ref.load_timeline().newest_time or InstantTime("")
    columns = indexed_columns(SCHEMA)
    made.fill(COLUMN_STATS, column_stats(files, columns, SCHEMA), completion_time=newest, groups=2)
    newest_names = {str(one.base.name) for one in take_snapshot(ref).slices() if one.base}
    current = [one for one in files if one.file_name in newest_names]
    whole = partition_stats(current, columns, SCHEMA, is_tight=True)
    made.fill(PARTITION_STATS, whole, completion_time=newest)
    made.publish()


def range_of(name: str, values: list[Any]) -> ColumnRange:
    present = [value for value in values if value is not None]
    has_nan = any(value != value for value in present)
    low, high = (None, None) if has_nan or not present else (min(present), max(present))
    return ColumnRange(
        column=name,
        min_value=low,
        max_value=high,
        value_count=len(values),
        null_count=len(values) - len(present),
        size_bytes=1,
        uncompressed_bytes=1,
    )


def batch(partition: str, numbers: range, f: float = 0.0, s: str = "x") -> dict[str, list[Any]]:
    count = len(numbers)
    ids = [f"{partition}-{number}" for number in numbers]
    return {
        "id": ids,
        "p": [partition] * count,
        "n": list(numbers),
        "f": [f] * count,
        "s": [s] * count,
    }


def count_slices(path: Path, where: str) -> tuple[int, int]:
    """How many slices are read, and how many rows they have for the filter."""
    selection = select_slices(open_ref(str(path)), filter=where)
    return len(selection.slices), selection.read(LocalEngine(1)).num_rows


def test_partitions_are_left_out_by_their_own_statistics(tmp_path: Path) -> None:
    path = tmp_path / "t"
    make_table(path, [batch(f"p{n}", range(10 * n, 10 * n + 10)) for n in range(5)])
    add_statistics(path)
    assert count_slices(path, "n = 25") == (1, 1)
    assert count_slices(path, "n > 1000") == (0, 0)
    shutil.rmtree(path / ".hoodie/metadata" / COLUMN_STATS)
    storage = TracedStorage(Env.of(str(path)).storage)
    ref = open_ref(str(path), None, Env(storage))
    chosen = select_slices(ref, filter="n = 25")  # column_stats are lost, and nothing is left out
    assert len(chosen.slices) == 5


def test_statistics_of_a_partition_are_not_used_for_an_older_view(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = make_table(path, [batch("a", range(10)), batch("b", range(10, 20))])
    before = open_ref(str(path)).load_timeline().commits.instants[-1].requested_time
    table.upsert(pa.table(batch("a", range(10), f=1.0) | {"n": [99] * 10}, schema=SCHEMA))
    add_statistics(path)
    engine, ref = LocalEngine(1), open_ref(str(path))
    assert scan(ref, engine, filter="n = 5").num_rows == 0
    assert scan(ref, engine, filter="n = 5", as_of=before).num_rows == 1


def test_nan_and_unknown_bounds_keep_their_file(tmp_path: Path) -> None:
    path = tmp_path / "t"
    mixed = batch("a", range(4)) | {"f": [1.0, float("nan"), 5.0, None]}
    make_table(path, [mixed, batch("b", range(10, 14), f=9.0)])
    add_statistics(path)
    assert count_slices(path, "f = 5.0") == (1, 1)
    assert count_slices(path, "f > 6.0") == (2, 4)
    assert count_slices(path, "f is null") == (1, 1)
    assert count_slices(path, "n = 2 and f = 9.0") == (1, 0)


def test_texts_that_java_sorts_otherwise_keep_their_file(tmp_path: Path) -> None:
    path = tmp_path / "t"
    one = batch("a", range(2)) | {"s": ["a", "\uffee"]}
    other = batch("b", range(2)) | {"s": ["b", "\U0001f600"]}

    def as_java(file: FileRanges) -> FileRanges:
        ranges = list(file.ranges)
        (at,) = (n for n, one in enumerate(ranges) if one.column == "s")
        texts = sorted((ranges[at].min_value, ranges[at].max_value), key=utf16)
        ranges[at] = range_of("s", texts)
        return replace(file, ranges=tuple(ranges))

    make_table(path, [one | {"s": ["\uffee", "\U0001f600"]}, other])
    add_statistics(path, changed=as_java)
    for text in ("\uffee", "\U0001f600", "\U0001f601"):
        rows = hoodoo.open_table(str(path), SKIP).to_arrow(filter=[("s", "=", text)])
        ours = hoodoo.open_table(str(path)).to_arrow(filter=[("s", "=", text)])
        assert rows_of(ours) == rows_of(rows)
    assert count_slices(path, "s = 'a'")[0] == 0


def utf16(text: str) -> bytes:
    return text.encode("utf-16-be")


def test_a_file_without_statistics_stays(tmp_path: Path) -> None:
    path = tmp_path / "t"
    make_table(path, [batch("a", range(10)), batch("b", range(10, 20))])

    def forget(file: FileRanges) -> FileRanges:
        kept = tuple(one for one in file.ranges if one.column != "n" or file.partition == "p=b")
        return replace(file, ranges=kept)

    add_statistics(path, changed=forget)
    assert count_slices(path, "n = 1000") == (1, 0)
    assert count_slices(path, "n = 5") == (1, 1)


@pytest.mark.parametrize("knows_log", [True, False])
def test_a_slice_with_logs_is_left_out_if_all_its_files_exclude_the_filter(
    tmp_path: Path, knows_log: bool
) -> None:
    path = str(tmp_path / "t")
    table = hoodoo.create_table(
        path, schema=SCHEMA, record_key="id", partition_by="p", table_type="mor", options=BARE
    )
    table.bulk_insert(pa.table(batch("a", range(10)), schema=SCHEMA))
    table.bulk_insert(pa.table(batch("b", range(50, 60)), schema=SCHEMA))
    changed = batch("a", range(3)) | {"n": [100, 101, 102], "f": [7.0] * 3}
    table.upsert(pa.table(changed, schema=SCHEMA))
    ref = open_ref(path)
    made = make_listing(ref)
    files = []
    for file in DirectoryLister(ref.env, ref.properties.keys).files():
        if isinstance(file, LogFile):
            columns = changed
            if not knows_log:
                continue
        else:
            columns = (
                batch("a", range(10)) if file.partition == "p=a" else batch("b", range(50, 60))
            )
        ranges = tuple(range_of(name, columns[name]) for name in SCHEMA.names)
        files.append(FileRanges(partition=file.partition, file_name=str(file.name), ranges=ranges))
    entries = column_stats(files, indexed_columns(SCHEMA), SCHEMA)
    made.fill(COLUMN_STATS, entries, completion_time=ref.load_timeline().newest_time, groups=2)
    made.publish()
    where = Path(path)
    assert count_slices(where, "n = 5") == (1, 1)
    assert count_slices(where, "n = 101") == (1, 1)
    assert count_slices(where, "n = 55") == (1 if knows_log else 2, 1)
    assert count_slices(where, "n = 30") == (0 if knows_log else 1, 0)
    # One term is excluded by the base file, the other one by the log: a row may mix the two.
    assert count_slices(where, "n = 5 and f = 7.0") == (1, 0)


# -- single entries -----------------------------------------------------------------------------


def entry(
    value_type: ValueType | None,
    wrapper: Wrapper,
    low: pa.Scalar,
    high: pa.Scalar,
    *,
    info: str | None = None,
    counts: tuple[int | None, int | None] = (10, 0),
) -> pa.Table:
    bounds = [
        make_bounds(
            np.array([wrapper], np.int8),
            {} if wrapper is Wrapper.NULL else {wrapper: pa.array([one.as_py()], one.type)},
        )
        for one in (low, high)
    ]
    columns = {
        "key": pa.array(["k"]),
        "kind": pa.array([int(RecordKind.COLUMN_STATS)], pa.int32()),
        "file_name": pa.array(["f"]),
        "column_name": pa.array(["c"]),
        "min_value": bounds[0],
        "max_value": bounds[1],
        "value_count": pa.array([counts[0]], pa.int64()),
        "null_count": pa.array([counts[1]], pa.int64()),
        "size_bytes": pa.array([1], pa.int64()),
        "uncompressed_bytes": pa.array([1], pa.int64()),
        "is_deleted": pa.array([False]),
        "is_tight_bound": pa.array([False]),
        "value_type": pa.array([None if value_type is None else int(value_type)], pa.int32()),
        "value_type_info": pa.array([info], pa.string()),
    }
    return pa.table(columns, COLUMN_STATS_SCHEMA)


def long(value: int) -> pa.Scalar:
    return pa.scalar(value, pa.int64())


def int_(value: int) -> pa.Scalar:
    return pa.scalar(value, pa.int32())


UTC_US = pa.timestamp("us", "UTC")
V, W = ValueType, Wrapper
KNOWN = [
    (V.LONG, W.LONG, long(1), long(2), pa.int64(), 1, 2),
    (V.INT, W.INT, int_(1), int_(2), pa.int64(), 1, 2),
    (V.INT, W.INT, int_(1), int_(2), pa.float64(), 1.0, 2.0),
    (V.DATE, W.INT, int_(0), int_(1), pa.date32(), date(1970, 1, 1), date(1970, 1, 2)),
    (V.TIMESTAMP_MICROS, W.LONG, long(0), long(10**6), UTC_US, 0, 1),
    (V.TIMESTAMP_MILLIS, W.LONG, long(0), long(10**3), UTC_US, 0, 1),
    (None, W.TIMESTAMP_MICROS, long(0), long(10**6), UTC_US, 0, 1),
    (None, W.LONG, long(7), long(8), pa.int64(), 7, 8),
    (V.STRING, W.STRING, pa.scalar("a"), pa.scalar("b"), pa.string(), "a", "b"),
]


@pytest.mark.parametrize(("type_", "wrapper", "low", "high", "kind", "least", "most"), KNOWN)
def test_bounds_are_read_as_the_column_is(
    type_: ValueType | None,
    wrapper: Wrapper,
    low: pa.Scalar,
    high: pa.Scalar,
    kind: pa.DataType,
    least: Any,
    most: Any,
) -> None:
    if pa.types.is_timestamp(kind):
        least, most = (datetime.fromtimestamp(second, UTC) for second in (least, most))
    (made,) = to_ranges(entry(type_, wrapper, low, high), kind)
    assert made == ValueRange(least, most, may_be_null=False)


UNKNOWN = [
    (V.TIMESTAMP_NANOS, W.LONG, long(0), long(1), UTC_US),
    (V.LOCAL_TIMESTAMP_MICROS, W.LONG, long(0), long(1), UTC_US),
    (V.LONG, W.LONG, long(0), long(1), UTC_US),
    (V.LONG, W.LONG, long(0), long(1), pa.string()),
    (V.INT, W.INT, int_(0), int_(1), pa.date32()),
    (V.DOUBLE, W.DOUBLE, pa.scalar(0.0), pa.scalar(float("nan")), pa.float64()),
    (V.DOUBLE, W.DOUBLE, pa.scalar(0.5), pa.scalar(1.5), pa.int64()),
    (V.TIMESTAMP_MICROS, W.LONG, long(0), long(2**62), UTC_US),
]


@pytest.mark.parametrize(("type_", "wrapper", "low", "high", "kind"), UNKNOWN)
def test_bounds_that_do_not_compare_are_unknown(
    type_: ValueType, wrapper: Wrapper, low: pa.Scalar, high: pa.Scalar, kind: pa.DataType
) -> None:
    (made,) = to_ranges(entry(type_, wrapper, low, high), kind)
    assert made is not None
    assert made.high is None
    assert made.may_have_values


def test_decimals_have_the_scale_that_they_were_written_with() -> None:
    low, high = (pa.scalar(v.to_bytes(2, "big", signed=True)) for v in (-1250, 99))
    made = entry(V.DECIMAL, W.BYTES, low, high, info="15,2")
    (range_,) = to_ranges(made, pa.decimal128(20, 4))
    assert range_ == ValueRange(Decimal("-12.50"), Decimal("0.99"), may_be_null=False)
    (bare,) = to_ranges(entry(V.DECIMAL, W.BYTES, low, high), pa.decimal128(20, 4))
    assert bare is not None
    assert bare.low is None


def test_counts_tell_of_nulls_and_of_nothing_more() -> None:
    null = pa.scalar(None)
    (all_null,) = to_ranges(entry(V.NULL, W.NULL, null, null, counts=(9, 9)), pa.int64())
    assert all_null == ValueRange()  # a writer without statistics says the same
    (nothing,) = to_ranges(entry(V.NULL, W.NULL, null, null, counts=(0, 0)), pa.int64())
    assert nothing == ValueRange(may_be_null=False, may_have_values=False)
    for counts in ((9, None), (9, -1), (9, 3)):
        (some,) = to_ranges(entry(V.LONG, W.LONG, long(1), long(2), counts=counts), pa.int64())
        assert some is not None
        assert some.may_be_null


def test_only_texts_below_the_surrogates_sort_alike() -> None:
    assert is_comparable(Compare("s", "=", "München"), "s")
    assert not is_comparable(All((Compare("s", "=", "a"), In("s", ("\uffee",)))), "s")
    assert is_comparable(In("t", ("\uffee",)), "s")
    assert not is_comparable(AnyOf((Like("s", "\U0001f600%"),)), "s")
    assert column_type(pa.string()) is not None
