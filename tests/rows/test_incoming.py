"""Rows of every kind that people have become the same Arrow table, or a clear refusal."""

from __future__ import annotations

from datetime import UTC, datetime, time
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from hoodoo.errors import InputError, SchemaMismatch
from hoodoo.rows.incoming import keys_to_arrow, rows_to_arrow, schema_to_arrow

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("city", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        (
            "deep",
            pa.struct([("x", pa.int32()), ("tags", pa.list_(pa.struct([("n", pa.int32())])))]),
        ),
    ]
)
NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
PLAIN = {"id": [1, 2], "city": ["sf", None]}


class Stream:
    """Rows of some other library."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


class OneBatch:
    """The same, as one batch."""

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return pa.RecordBatch.from_pydict(PLAIN).__arrow_c_array__(requested_schema)


@pytest.mark.parametrize(
    "rows",
    [
        pa.table(PLAIN),
        pa.RecordBatch.from_pydict(PLAIN),
        pa.table(PLAIN).to_reader(),
        pd.DataFrame(PLAIN),
        pl.DataFrame(PLAIN),
        Stream(pa.table(PLAIN)),
        OneBatch(),
        [{"id": 1, "city": "sf"}, {"id": 2}],
        ({"id": 1, "city": "sf"}, {"id": 2, "city": None}),
    ],
    ids=lambda rows: type(rows).__name__,
)
def test_rows_of_every_kind_are_the_same_table(rows: object) -> None:
    assert rows_to_arrow(rows, SCHEMA).to_pydict() == PLAIN


@pytest.mark.parametrize(
    ("index", "names"),
    [
        (pd.RangeIndex(2), ["id"]),
        (pd.Index(["x", "y"]), ["id"]),
        (pd.Index(["x", "y"], name="k"), ["id", "k"]),
        (pd.RangeIndex(5, 9, 2, name="k"), ["id", "k"]),
        (pd.MultiIndex.from_tuples([(1, 2), (3, 4)], names=["k", None]), ["id", "k"]),
    ],
)
def test_an_index_of_pandas_is_a_column_if_it_has_a_name(index: pd.Index, names: list[str]) -> None:
    frame = pd.DataFrame({"id": [1, 2]}, index=index)
    rows = rows_to_arrow(frame, None)
    assert rows.column_names == names
    if "k" in names:
        assert rows["k"].to_pylist() == list(index.get_level_values("k"))
    schema: Any = schema_to_arrow(frame)
    assert schema.names == names


def test_a_pandas_column_that_is_named_like_an_index_stays() -> None:
    frame = pd.DataFrame({"__index_level_0__": [7], "id": [1]})
    assert rows_to_arrow(frame, None).column_names == ["__index_level_0__", "id"]


def test_missing_values_of_pandas_are_null() -> None:
    frame = pd.DataFrame({"a": ["x", None], "b": [1.5, float("nan")], "c": [pd.NaT, NOON]})
    assert [column.null_count for column in rows_to_arrow(frame, None)] == [1, 1, 1]


@pytest.mark.parametrize(
    "type_",
    [
        pa.timestamp("ns"),
        pa.timestamp("ns", "UTC"),
        pa.time64("ns"),
        pa.list_(pa.timestamp("ns")),
        pa.large_list(pa.timestamp("ns")),
        pa.struct([("x", pa.timestamp("ns"))]),
        pa.map_(pa.string(), pa.timestamp("ns")),
    ],
)
def test_nanoseconds_become_microseconds_where_nothing_is_lost(type_: pa.DataType) -> None:
    def column(number: int) -> pa.Array:
        leaf = pa.array([number], pa.int64())
        if pa.types.is_list(type_) or pa.types.is_large_list(type_):
            kind = pa.LargeListArray if pa.types.is_large_list(type_) else pa.ListArray
            return kind.from_arrays([0, 1], leaf.cast(type_.value_type))
        if pa.types.is_struct(type_):
            return pa.StructArray.from_arrays([leaf.cast(type_.field(0).type)], ["x"])
        if pa.types.is_map(type_):
            return pa.MapArray.from_arrays([0, 1], ["k"], leaf.cast(type_.item_type))
        return leaf.cast(type_)

    rows = rows_to_arrow(pa.table({"t": column(5_000)}), None)
    assert "ns" not in str(rows.schema)
    assert "us" in str(rows.schema)
    with pytest.raises(SchemaMismatch, match=r"column t: .*00:00:00\.000005001Z? has nanos"):
        rows_to_arrow(pa.table({"t": pa.chunked_array([column(5_000), column(5_001)])}), None)


def test_nanoseconds_of_pandas_and_times_of_polars_keep_their_value() -> None:
    stamps = pd.Series(pd.to_datetime(["2026-01-01T00:00:00.000001"])).astype("datetime64[ns]")
    rows = rows_to_arrow(pd.DataFrame({"t": stamps}), None)
    assert rows["t"].to_pylist() == [datetime(2026, 1, 1, 0, 0, 0, 1)]
    rows = rows_to_arrow(pl.DataFrame({"t": [time(1, 2, 3)]}), None)
    assert rows["t"].to_pylist() == [time(1, 2, 3)]


@pytest.mark.parametrize(
    ("rows", "names"),
    [
        ([{"id": 1, "tip": 2}, {"id": 2, "Toll": 3}], ["'Toll'", "'tip'"]),
        ([{"id": 1, "deep": {"x": 1, "y": 2}}], ["'deep.y'"]),
        ([{"id": 1, "deep": {"tags": [{"n": 1}, {"m": 2}]}}], ["'deep.tags.m'"]),
    ],
)
def test_keys_of_dicts_that_the_table_lacks_are_named(
    rows: list[dict[str, object]], names: list[str]
) -> None:
    with pytest.raises(InputError, match="the table has no column") as told:
        rows_to_arrow(rows, SCHEMA)
    assert f"no column {', '.join(names)};" in str(told.value)


def test_dicts_are_read_in_the_types_of_the_table() -> None:
    rows = rows_to_arrow([{"id": 1, "at": NOON, "deep": {"x": 1}}, {"id": 2}], SCHEMA)
    assert rows.schema.types == [SCHEMA.field(name).type for name in ("id", "at", "deep")]
    assert rows["at"].to_pylist() == [NOON, None]
    assert rows["deep"].to_pylist() == [{"x": 1, "tags": None}, None]


def test_meta_columns_of_dicts_are_left_out() -> None:
    assert rows_to_arrow([{"id": 1, "_hoodie_record_key": "1"}], SCHEMA).column_names == ["id"]


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([{"id": 1}, {"id": "many"}], "column id in row 1: .*many"),
        ([{"id": 1}, 7], "row 1 is no dict, but int"),
        ([1, 2], "not list"),
        ("text", "not str"),
        (None, "not NoneType"),
        (pl.DataFrame(PLAIN).lazy(), r"LazyFrame, which is lazy: collect\(\)"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "DataFrame.* cannot be read: Duplicate"),
        (pd.DataFrame({"a": [1, "x"]}), "DataFrame.* cannot be read: .*column a"),
        (pl.Series([1]), "Series.* cannot be read: .*non-struct"),
    ],
    ids=str,
)
def test_rows_that_are_none_are_refused_in_plain_words(rows: object, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        rows_to_arrow(rows, SCHEMA)


@pytest.mark.parametrize("keys", [[1, 2], pl.Series([1, 2]), pd.Series([1, 2]), pa.array([1, 2])])
def test_keys_to_delete_may_be_a_column(keys: object) -> None:
    given: Any = keys_to_arrow(keys, SCHEMA)
    assert (given if isinstance(given, list) else given.to_pylist()) == [1, 2]


def test_dicts_of_keys_to_delete_must_have_the_same_columns() -> None:
    rows = [{"id": 1, "city": "sf"}, {"id": 2}]
    with pytest.raises(InputError, match="row 1 has others"):
        keys_to_arrow(rows, SCHEMA)
    given: Any = keys_to_arrow(rows[:1], SCHEMA)
    assert given.to_pylist() == rows[:1]


def test_no_rows_in_a_list_are_no_rows_of_the_table() -> None:
    assert rows_to_arrow([], SCHEMA).schema == SCHEMA


def test_a_frame_tells_the_schema_of_a_new_table() -> None:
    schema: Any = schema_to_arrow(pl.DataFrame({"id": [1], "t": [time(1)]}))
    assert (schema.names, schema.field("t").type) == (["id", "t"], pa.time64("us"))
    finer: Any = schema_to_arrow(pa.schema([("t", pa.timestamp("ns"))]))
    assert finer.field(0).type.unit == "us"
    assert schema_to_arrow("avro") == "avro"
