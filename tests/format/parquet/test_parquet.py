"""Base files: what is written is what others read; footers, statistics, damage."""

from __future__ import annotations

import io
import random
from collections.abc import Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.arrow_rows import SCHEMAS, TEXT, rows
from support.fixtures import fixture_tables

from hoodoo.errors import FormatError
from hoodoo.format.parquet.base_file import (
    BaseFileWriter,
    OpenParquet,
    ParquetOptions,
    open_parquet,
    read_footer,
    read_rows,
    row_groups_that_may_match,
)
from hoodoo.format.parquet.bloom_filter import BloomFilter, FilterType
from hoodoo.format.parquet.key_summary import BloomOptions, key_bounds
from hoodoo.format.parquet.statistics import value_ranges
from hoodoo.format.schema import (
    META_FIELDS,
    RECORD_KEY,
    arrow_from_avro,
    avro_from_arrow,
    with_meta_fields,
    without_meta_fields,
)
from hoodoo.model.predicate import Compare, IsNull, ValueRange
from hoodoo.rows.conform import conform

BLOOM = BloomOptions(entries=60_000, fpp=1e-9, max_entries=100_000)


def with_keys(data: pa.Table, keys: Sequence[str | None] | None = None) -> pa.Table:
    """The rows with meta columns: those keys, and something in the others."""
    count = data.num_rows
    texts = keys if keys is not None else [f"key-{index:06d}" for index in range(count)]
    meta = {name: pa.array([name] * count, pa.string()) for name in META_FIELDS}
    meta[RECORD_KEY] = pa.array(texts, pa.string())
    columns = [*meta.values(), *data.columns]
    return pa.Table.from_arrays(columns, schema=with_meta_fields(data.schema))


def write_file(
    table: pa.Table, options: ParquetOptions | None = None, *, batches: int = 1
) -> bytes:
    out = io.BytesIO()
    avro = with_meta_fields(avro_from_arrow(without_meta_fields(table.schema), "t"))
    writer = BaseFileWriter(
        out, table.schema, avro_schema=avro, options=options or ParquetOptions()
    )
    size = max(1, -(-table.num_rows // batches))
    for start in range(0, table.num_rows, size):
        writer.write(table.slice(start, size))
    writer.close()
    return out.getvalue()


def open_bytes(data: bytes) -> OpenParquet:
    return open_parquet(pa.BufferReader(data))


@settings(max_examples=30)
@given(st.data())
def test_rows_survive_the_round_trip(data: st.DataObject) -> None:
    schema = data.draw(SCHEMAS)
    table = with_keys(data.draw(rows(schema)))
    file = open_bytes(write_file(table))
    made = conform(read_rows(file, table.schema.names), table.schema)
    assert made.equals(table)
    footer = read_footer(file.metadata)
    assert footer.avro_schema is not None
    assert arrow_from_avro(footer.avro_schema) == table.schema


def test_physical_types_are_those_of_the_format() -> None:
    schema = pa.schema(
        [
            ("d10", pa.decimal128(10, 2)),
            ("d18", pa.decimal128(18, 0)),
            ("d38", pa.decimal128(38, 9)),
            ("us", pa.timestamp("us", tz="UTC")),
            ("ms", pa.timestamp("ms", tz="UTC")),
            ("local", pa.timestamp("us")),
            ("day", pa.date32()),
            ("l", pa.list_(pa.int32())),
            ("m", pa.map_(pa.string(), pa.float64())),
        ]
    )
    file = open_bytes(write_file(with_keys(schema.empty_table())))
    found = {
        column.path: (column.physical_type, column.length, str(column.logical_type))
        for column in (file.schema.column(index) for index in range(len(file.schema)))
    }
    assert found["d10"] == ("FIXED_LEN_BYTE_ARRAY", 5, "Decimal(precision=10, scale=2)")
    assert found["d18"] == ("FIXED_LEN_BYTE_ARRAY", 8, "Decimal(precision=18, scale=0)")
    assert found["d38"] == ("FIXED_LEN_BYTE_ARRAY", 16, "Decimal(precision=38, scale=9)")
    for name, utc, unit in (
        ("us", "true", "micro"),
        ("ms", "true", "milli"),
        ("local", "false", "micro"),
    ):
        assert found[name][0] == "INT64"
        assert f"isAdjustedToUTC={utc}, timeUnit={unit}seconds" in found[name][2]
    assert found["day"][::2] == ("INT32", "Date")
    assert found["l.list.element"][0] == "INT32"
    assert {"m.key_value.key", "m.key_value.value"} <= set(found)
    assert found[RECORD_KEY][::2] == ("BYTE_ARRAY", "String")
    assert b"ARROW:schema" not in (file.metadata.metadata or {})


def test_footer_of_a_base_file() -> None:
    keys = ["b", "é", "a", "c"]
    table = with_keys(pa.table({"x": [1, 2, 3, 4]}), keys)
    footer = read_footer(
        open_bytes(write_file(table, ParquetOptions(bloom=BLOOM), batches=2)).metadata
    )
    assert (footer.min_key, footer.max_key) == ("a", "é")
    assert footer.bloom is not None
    assert footer.bloom.might_contain(pa.array(keys)).all()
    assert not footer.bloom.might_contain(pa.array(["d", "aa"])).any()
    assert footer.bloom.type is FilterType.DYNAMIC
    bare = read_footer(open_bytes(write_file(table)).metadata)
    assert (bare.min_key, bare.max_key, bare.bloom) == ("a", "é", None)


def test_files_without_rows_and_without_keys() -> None:
    empty = with_keys(pa.schema([("x", pa.int64())]).empty_table())
    file = open_bytes(write_file(empty, ParquetOptions(bloom=BLOOM)))
    assert read_rows(file, empty.schema.names).equals(empty)
    footer = read_footer(file.metadata)
    assert (footer.min_key, footer.max_key) == (None, None)
    assert footer.bloom == BloomFilter.build(pa.array([], pa.string()), entries=1_000)
    # A table that keeps no meta fields: the column is there, and null.
    keyless = with_keys(pa.table({"x": [1, 2]}), [None, None])
    footer = read_footer(open_bytes(write_file(keyless, ParquetOptions(bloom=BLOOM))).metadata)
    assert (footer.min_key, footer.max_key, footer.bloom) == (None, None, None)
    assert footer.avro_schema is not None


@settings(max_examples=80)
@given(st.lists(TEXT, min_size=1, max_size=8))
def test_key_bounds_are_in_java_s_order(keys: list[str]) -> None:
    ordered = sorted(keys, key=lambda text: text.encode("utf-16-be"))
    assert key_bounds(pa.chunked_array([keys])) == (ordered[0], ordered[-1])


def test_key_bounds_where_utf_8_and_utf_16_differ() -> None:
    assert key_bounds(pa.chunked_array([["\U0001f600", "\uffee"]])) == ("\U0001f600", "\uffee")


def test_row_groups_and_pages_have_the_size_asked_for() -> None:
    table = with_keys(pa.table({"x": pa.array(range(20_000), pa.int64())}))
    options = ParquetOptions(codec="uncompressed", row_group_bytes=table.nbytes // 4)
    data = write_file(table, options, batches=20)
    file = open_bytes(data)
    sizes = [file.metadata.row_group(n).num_rows for n in range(file.metadata.num_row_groups)]
    assert sum(sizes) == 20_000
    assert 3 <= len(sizes) <= 5
    assert max(sizes) <= 8_000
    one_call = open_bytes(write_file(table, options)).metadata
    assert 3 <= one_call.num_row_groups <= 5
    assert file.metadata.row_group(0).column(0).compression == "UNCOMPRESSED"
    for codec in ("snappy", "gzip", "zstd"):
        made = open_bytes(write_file(table, ParquetOptions(codec=codec)))
        assert made.metadata.row_group(0).column(0).compression == codec.upper()


def test_size_while_writing_is_near_the_size_of_the_file() -> None:
    numbers = random.Random(3)
    table = with_keys(pa.table({"x": [numbers.random() for _ in range(30_000)]}))
    out = io.BytesIO()
    avro = avro_from_arrow(table.schema, "t")
    options = ParquetOptions(row_group_bytes=table.nbytes // 6)
    writer = BaseFileWriter(out, table.schema, avro_schema=avro, options=options)
    for start in range(0, table.num_rows, 1_000):
        writer.write(table.slice(start, 1_000))
    told = writer.size_bytes
    writer.close()
    assert 0.5 < told / len(out.getvalue()) < 1.5


def test_columns_that_the_file_lacks_are_left_out() -> None:
    table = with_keys(pa.table({"x": [1, 2], "y": ["a", "b"]}))
    file = open_bytes(write_file(table))
    assert read_rows(file, ["y", "z", "x"]).to_pydict() == {"y": ["a", "b"], "x": [1, 2]}
    assert read_rows(file, ["x"], []).num_rows == 0
    assert read_rows(file, ["x"]).schema.metadata is None


# ----- statistics


def ranges_in(file: OpenParquet) -> list[dict[str, ValueRange]]:
    return value_ranges(file.footer, file.schema_arrow)


def ranges_of(values: list[Any], type_: pa.DataType) -> Any:
    table = with_keys(pa.table({"c": pa.array(values, type_)}))
    return ranges_in(open_bytes(write_file(table)))[0].get("c")


@pytest.mark.parametrize(
    ("values", "type_", "low", "high"),
    [
        ([3, 1, None], pa.int32(), 1, 3),
        (["b", "é", "a"], pa.string(), "a", "é"),
        ([b"\xff", b"a"], pa.binary(), b"a", b"\xff"),
        ([True, False], pa.bool_(), False, True),
        (
            [Decimal("-1.50"), Decimal("2.25")],
            pa.decimal128(9, 2),
            Decimal("-1.50"),
            Decimal("2.25"),
        ),
        ([1, 0], pa.date32(), date(1970, 1, 1), date(1970, 1, 2)),
        ([1, 0], pa.timestamp("us"), datetime(1970, 1, 1), datetime(1970, 1, 1, 0, 0, 0, 1)),
        ([1.5, float("nan"), -2.0], pa.float64(), -2.0, 1.5),
        # Python has no such day.
        ([2**31 - 1, 0], pa.date32(), date(1970, 1, 1), None),
        ([2**62, -(2**62)], pa.timestamp("us", tz="UTC"), None, None),
        ([2**32 - 1, 0], pa.uint32(), 0, 2**32 - 1),
        ([-3, 200], pa.int16(), -3, 200),
        ([1, 0], pa.time32("ms"), time(0), time(0, 0, 0, 1000)),
        (["a", "é" * 3000], pa.string(), "a", None),
    ],
)
def test_ranges(values: list[Any], type_: pa.DataType, low: Any, high: Any) -> None:
    found = ranges_of(values, type_)
    assert (found.low, found.high) == (low, high)
    assert found.may_be_null == (None in values)
    assert found.may_have_values


def test_ranges_of_nulls_and_of_nested_columns() -> None:
    found = ranges_of([None, None], pa.int64())
    assert (found.low, found.high) == (None, None)
    assert found.may_be_null
    assert not found.may_have_values
    assert ranges_of([{"x": 1}], pa.struct([("x", pa.int64())])) is None
    assert ranges_of([[1]], pa.list_(pa.int64())) is None
    only_nan = ranges_of([float("nan")], pa.float64())
    assert only_nan.low is None or only_nan.low != only_nan.low


def test_row_groups_that_cannot_match_are_left_out() -> None:
    table = with_keys(pa.table({"x": pa.array(range(4_000), pa.int64())}))
    options = ParquetOptions(row_group_bytes=table.nbytes // 4)
    file = open_bytes(write_file(table, options, batches=4))
    groups = file.metadata.num_row_groups
    assert groups == 4
    assert row_groups_that_may_match(file, Compare("x", "<", 500)) == [0]
    assert row_groups_that_may_match(file, Compare("x", ">=", 3_500)) == [groups - 1]
    assert row_groups_that_may_match(file, Compare("x", "=", 9_999)) == []
    assert row_groups_that_may_match(file, IsNull("x")) == []
    assert row_groups_that_may_match(file, Compare("other", "=", 1)) == list(range(groups))
    retyped = pa.schema([pa.field("x", pa.float64())])
    assert row_groups_that_may_match(file, Compare("x", "<", 500), file.schema_arrow) == [0]
    assert row_groups_that_may_match(file, Compare("x", "<", 500), retyped) == list(range(groups))


@settings(max_examples=60)
@given(
    st.lists(st.none() | st.floats(width=32) | st.integers(-5, 5), min_size=1, max_size=12),
    st.sampled_from(["=", "!=", "<", "<=", ">", ">="]),
    st.integers(-6, 6),
)
def test_no_matching_row_is_ever_pruned(values: list[float | None], op: str, literal: int) -> None:
    numbers = [None if value is None else float(value) for value in values]
    table = with_keys(pa.table({"c": pa.array(numbers, pa.float64())}))
    file = open_bytes(write_file(table))
    compare = {
        "=": float.__eq__,
        "!=": float.__ne__,
        "<": float.__lt__,
        "<=": float.__le__,
        ">": float.__gt__,
        ">=": float.__ge__,
    }[op]
    if any(compare(one, float(literal)) for one in numbers if one is not None):
        assert row_groups_that_may_match(file, Compare("c", op, float(literal))) == [0]


# ----- damage


def sample() -> bytes:
    table = with_keys(
        pa.table({"x": [1, 2, None], "s": ["a", "b" * 30, None], "l": [[1], [], None]})
    )
    return write_file(table, ParquetOptions(bloom=BloomOptions(3, 0.01, 3)))


@pytest.mark.parametrize(
    "data",
    [b"", b"PAR1", b"PAR1PAR1", b"\0" * 100, b"PAR1" + b"x" * 50 + b"PAR1", sample()[:-1]],
    ids=lambda data: f"{len(data)} bytes",
)
def test_non_parquet_bytes_raise_format_error(data: bytes) -> None:
    with pytest.raises(FormatError, match="not a Parquet file"):
        open_bytes(data)


def test_flipped_bits_in_pages_are_found() -> None:
    data = bytearray(sample())
    place = open_bytes(bytes(data)).metadata.row_group(0).column(5).dictionary_page_offset
    assert place is not None
    data[place + 30] ^= 1
    file = open_bytes(bytes(data))
    with pytest.raises(FormatError, match="damaged Parquet file"):
        read_rows(file, file.schema_arrow.names)


@settings(max_examples=200)
@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=4))
def test_damaged_files_are_format_errors_or_rows(changes: list[tuple[int, int]]) -> None:
    data = bytearray(sample())
    for place, byte in changes:
        data[place % len(data)] = byte
    try:
        file = open_bytes(bytes(data))
        read_footer(file.metadata)
        row_groups_that_may_match(file, Compare("x", ">", 1))
        read_rows(file, [*META_FIELDS, "x", "s", "l"])
    except FormatError:
        return


def test_footer_values_that_are_not_text() -> None:
    out = io.BytesIO()
    with pq.ParquetWriter(out, pa.schema([("a", pa.int32())]), store_schema=False) as writer:
        writer.add_key_value_metadata({b"hoodie_min_record_key": b"\xff"})
    with pytest.raises(FormatError, match="hoodie_min_record_key"):
        read_footer(open_bytes(out.getvalue()).metadata)


# ----- what Apache Hudi wrote


def ranges_by_pyarrow(metadata: pq.FileMetaData) -> list[dict[str, ValueRange]]:
    """The same by pyarrow's own objects, which are safe with files that are whole."""
    made = []
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        columns = (group.column(index) for index in range(group.num_columns))
        flat = {column.path_in_schema: column.statistics for column in columns}
        made.append(
            {
                name: ValueRange(
                    found.min if found.has_min_max else None,
                    found.max if found.has_min_max else None,
                    may_be_null=found.null_count > 0,
                    may_have_values=found.null_count < group.num_rows,
                )
                for name, found in flat.items()
                if "." not in name and found is not None
            }
        )
    return made


@pytest.mark.parametrize("name", fixture_tables())
def test_base_files_of_fixtures(name: str, unpack: Any) -> None:
    for path in sorted(unpack(name).rglob("*.parquet")):
        if ".hoodie" in path.parts:
            continue
        file = open_parquet(pa.OSFile(str(path), "rb"))
        read = read_rows(file, file.schema_arrow.names)
        footer = read_footer(file.metadata)
        assert ranges_in(file) == ranges_by_pyarrow(file.metadata)
        if footer.avro_schema is not None:
            schema = arrow_from_avro(footer.avro_schema)
            conformed = conform(read, schema)
            assert conformed.schema == schema
            assert conformed.to_pylist() == read.to_pylist()
        if footer.min_key is not None:
            keys = read.column(RECORD_KEY)
            assert key_bounds(keys) == (footer.min_key, footer.max_key)
            assert footer.bloom is not None
            assert footer.bloom.might_contain(keys).all()
