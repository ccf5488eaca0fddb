"""Rows brought to another schema, and what a table's schema becomes."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from support.arrow_rows import TABLES

from hoodoo.errors import SchemaMismatch
from hoodoo.rows.conform import conform, evolve

INT, LONG, FLOAT, DOUBLE = pa.int32(), pa.int64(), pa.float32(), pa.float64()
TEXT, BYTES = pa.string(), pa.binary()
UTC_MS, UTC_US = pa.timestamp("ms", tz="UTC"), pa.timestamp("us", tz="UTC")


def one_column(values: list[Any], type_: pa.DataType) -> pa.Table:
    return pa.table({"c": pa.array(values, type_)})


def conform_column(values: list[Any], source: pa.DataType, target: pa.DataType) -> pa.Array:
    made = conform(one_column(values, source), pa.schema([("c", target)]))
    assert made.schema == pa.schema([("c", target)])
    made.validate(full=True)
    return made.column("c").combine_chunks()


@pytest.mark.parametrize(
    ("values", "source", "target", "expected"),
    [
        ([1, None], INT, LONG, [1, None]),
        ([2**24 + 1, None], INT, FLOAT, [float(2**24), None]),
        ([7], INT, DOUBLE, [7.0]),
        ([2**53 + 1], LONG, DOUBLE, [float(2**53)]),
        ([1.5, None], FLOAT, DOUBLE, [1.5, None]),
        ([-7, None], INT, TEXT, ["-7", None]),
        ([2**40], LONG, TEXT, [str(2**40)]),
        (["é", None], TEXT, BYTES, ["é".encode(), None]),
        (["é".encode(), None], BYTES, TEXT, ["é", None]),
        (["a"], pa.large_string(), TEXT, ["a"]),
        (["a"], pa.string_view(), TEXT, ["a"]),
        (["a", None, "a"], pa.dictionary(pa.int8(), TEXT), TEXT, ["a", None, "a"]),
        ([3], pa.int8(), LONG, [3]),
        ([3], pa.uint32(), LONG, [3]),
        ([[1], None, []], pa.large_list(pa.int16()), pa.list_(LONG), [[1], None, []]),
        ([[1, 2]], pa.list_(INT, 2), pa.list_(LONG), [[1, 2]]),
        ([[("k", 1)], None], pa.map_(TEXT, INT), pa.map_(TEXT, LONG), [[("k", 1)], None]),
        ([None, None], pa.null(), pa.list_(INT), [None, None]),
        (
            [Decimal("1.50")],
            pa.decimal128(5, 2),
            pa.decimal128(9, 3),
            [Decimal("1.500")],
        ),
    ],
    ids=str,
)
def test_values_are_promoted_to_wider_types(
    values: list[Any], source: pa.DataType, target: pa.DataType, expected: list[Any]
) -> None:
    assert conform_column(values, source, target).to_pylist() == expected


@pytest.mark.parametrize(
    ("number", "source", "target", "expected"),
    [
        (5, UTC_MS, UTC_US, 5000),
        (5000, UTC_US, UTC_MS, 5),
        (5000, pa.timestamp("ns"), UTC_US, 5),
        (5, pa.timestamp("us"), UTC_US, 5),
        (5, pa.timestamp("us", tz="Europe/Paris"), UTC_US, 5),
        (5, LONG, UTC_US, 5),
        (5, LONG, pa.timestamp("us"), 5),
        (5, LONG, pa.time64("us"), 5),
        (5, INT, pa.date32(), 5),
        (5, pa.time32("ms"), pa.time64("us"), 5000),
    ],
    ids=str,
)
def test_timestamps_keep_their_moment_in_other_units(
    number: int, source: pa.DataType, target: pa.DataType, expected: int
) -> None:
    made = conform_column([number], source, target)
    width = INT if target.bit_width == 32 else LONG
    assert made.view(width).to_pylist() == [expected]


@pytest.mark.parametrize(
    ("values", "source", "target"),
    [
        ([1], LONG, INT),
        ([1.0], DOUBLE, FLOAT),
        ([1.0], DOUBLE, LONG),
        (["1"], TEXT, LONG),
        ([1.0], DOUBLE, TEXT),
        ([True], pa.bool_(), INT),
        ([1], pa.uint64(), LONG),
        ([1], UTC_US, LONG),
        ([1], UTC_US, pa.timestamp("us")),
        ([1], pa.date32(), UTC_US),
        ([Decimal("1.50")], pa.decimal128(5, 2), pa.decimal128(5, 1)),
        ([Decimal("1.50")], pa.decimal128(5, 2), pa.decimal128(5, 3)),
        ([1], INT, pa.decimal128(12, 0)),
        ([b"abc"], pa.binary(3), BYTES),
        ([[1]], pa.list_(LONG), pa.list_(INT)),
        ([[1]], pa.list_view(INT), pa.list_(INT)),
        ([[("k", 1)]], pa.map_(TEXT, LONG), pa.map_(TEXT, INT)),
        ([{"a": 1}], pa.struct([("a", LONG)]), pa.struct([("a", INT)])),
        ([{"a": 1}], pa.struct([("a", LONG)]), pa.struct([pa.field("b", LONG, nullable=False)])),
        ([{"a": 1}], pa.struct([("a", LONG)]), pa.map_(TEXT, LONG)),
        ([None], INT, pa.struct([("a", INT)])),
        # Types that fit, values that do not.
        ([2**62], UTC_MS, UTC_US),
        ([1], UTC_US, UTC_MS),
        ([b"\xff"], BYTES, TEXT),
    ],
    ids=str,
)
def test_what_does_not_fit_names_column_and_types(
    values: list[Any], source: pa.DataType, target: pa.DataType
) -> None:
    with pytest.raises(SchemaMismatch, match=r"column c\b.* does not fit ") as caught:
        conform_column(values, source, target)
    if not (pa.types.is_nested(source) or pa.types.is_nested(target)):
        assert f"{source} does not fit {target}" in str(caught.value)


def test_columns_are_added_dropped_and_put_in_order() -> None:
    table = pa.table({"b": [1, 2], "gone": ["x", "y"], "a": ["p", None]})
    made = conform(table, pa.schema([("a", TEXT), ("new", pa.list_(INT)), ("b", LONG)]))
    assert made.to_pydict() == {"a": ["p", None], "new": [None, None], "b": [1, 2]}


def test_nested_fields_match_by_name() -> None:
    old = pa.struct([("x", INT), ("gone", TEXT)])
    new = pa.struct([("added", TEXT), ("x", LONG)])
    row = {"x": 1, "gone": "g"}
    changed = {"added": None, "x": 1}
    assert conform_column([row, None], old, new).to_pylist() == [changed, None]
    lists = conform_column([[row, None], None, []], pa.list_(old), pa.list_(new))
    assert lists.to_pylist() == [[changed, None], None, []]
    maps = conform_column([[("k", row)], None], pa.map_(TEXT, old), pa.map_(TEXT, new))
    assert maps.to_pylist() == [[("k", changed)], None]
    deep = conform_column(
        [{"s": [row]}], pa.struct([("s", pa.list_(old))]), pa.struct([("s", pa.list_(new))])
    )
    assert deep.to_pylist() == [{"s": [changed]}]


def test_slices_and_chunks_keep_their_rows() -> None:
    old, new = pa.struct([("x", INT)]), pa.struct([("y", TEXT), ("x", LONG)])
    array = pa.array([[{"x": 1}], None, [{"x": 2}, None], []], pa.list_(old))
    table = pa.table({"c": pa.chunked_array([array[2:], array[:2]])})
    made = conform(table.slice(1, 2), pa.schema([("c", pa.list_(new))]))
    assert made.column("c").to_pylist() == [[], [{"y": None, "x": 1}]]


def test_nulls_where_none_may_be() -> None:
    must = pa.schema([pa.field("c", INT, nullable=False)])
    assert conform(one_column([1], INT), must).schema == must
    with pytest.raises(SchemaMismatch, match="column c: 1 nulls"):
        conform(one_column([None, 1], INT), must)
    with pytest.raises(SchemaMismatch, match="column c: missing"):
        conform(pa.table({"a": [1]}), must)
    with pytest.raises(SchemaMismatch, match="column c occurs 2 times"):
        conform(pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["c", "c"]), must)


@settings(max_examples=40)
@given(TABLES)
def test_an_equal_schema_copies_nothing(table: pa.Table) -> None:
    assert conform(table, table.schema) is table
    wider = pa.schema([pa.field("_new", TEXT), *table.schema])
    made = conform(table, wider)
    for name in table.schema.names:
        if name != "_new" and table.num_rows:
            source, target = table.column(name).chunk(0), made.column(name).chunk(0)
            assert [a and a.address for a in source.buffers()] == [
                b and b.address for b in target.buffers()
            ]


# ----- evolve


def evolve_types(old: pa.DataType, new: pa.DataType) -> pa.DataType:
    return evolve(pa.schema([("c", old)]), pa.schema([("c", new)])).field("c").type


@pytest.mark.parametrize(
    ("table", "incoming", "result"),
    [
        (INT, INT, INT),
        (LONG, INT, LONG),
        (INT, LONG, LONG),
        (INT, DOUBLE, DOUBLE),
        (DOUBLE, INT, DOUBLE),
        (FLOAT, DOUBLE, DOUBLE),
        (DOUBLE, FLOAT, DOUBLE),
        (INT, pa.int8(), INT),
        (INT, pa.uint32(), LONG),
        (TEXT, pa.large_string(), TEXT),
        (BYTES, TEXT, BYTES),
        (UTC_US, UTC_MS, UTC_US),
        (UTC_MS, pa.timestamp("s", tz="Asia/Tokyo"), UTC_MS),
        (pa.time64("us"), pa.time32("ms"), pa.time64("us")),
        (pa.decimal128(10, 2), pa.decimal128(12, 2), pa.decimal128(12, 2)),
        (pa.decimal128(10, 4), pa.decimal128(5, 2), pa.decimal128(10, 4)),
        (pa.list_(INT), pa.list_(LONG), pa.list_(LONG)),
        (pa.map_(TEXT, INT), pa.map_(TEXT, LONG), pa.map_(TEXT, LONG)),
        (
            pa.struct([("x", INT), ("y", TEXT)]),
            pa.struct([pa.field("z", TEXT, nullable=False), ("x", LONG)]),
            pa.struct([("x", LONG), ("y", TEXT), ("z", TEXT)]),
        ),
        (INT, pa.null(), INT),
    ],
    ids=str,
)
def test_evolved_types(table: pa.DataType, incoming: pa.DataType, result: pa.DataType) -> None:
    assert evolve_types(table, incoming) == result


@pytest.mark.parametrize(
    ("table", "incoming"),
    [
        (LONG, DOUBLE),
        (DOUBLE, LONG),
        (INT, FLOAT),
        (FLOAT, INT),
        (TEXT, BYTES),
        (TEXT, INT),
        (INT, TEXT),
        (UTC_MS, UTC_US),
        (UTC_US, pa.timestamp("us")),
        (pa.timestamp("us"), UTC_US),
        (LONG, UTC_US),
        (pa.decimal128(10, 2), pa.decimal128(12, 4)),
        (pa.decimal128(10, 2), pa.decimal128(10, 3)),
        (pa.list_(INT), INT),
        (pa.struct([("x", INT)]), pa.struct([("x", TEXT)])),
        (pa.struct([("x", INT)]), pa.struct([("X", INT)])),
        (pa.list_(TEXT), pa.list_(INT)),
        (pa.map_(TEXT, TEXT), pa.map_(TEXT, INT)),
        (INT, pa.uint64()),
        (UTC_US, pa.timestamp("ns", tz="UTC")),
    ],
    ids=str,
)
def test_types_that_do_not_evolve(table: pa.DataType, incoming: pa.DataType) -> None:
    with pytest.raises(SchemaMismatch, match=r"column c\b"):
        evolve_types(table, incoming)


def test_columns_evolve() -> None:
    table = pa.schema([pa.field("id", TEXT, nullable=False), ("a", INT)])
    incoming = pa.schema([pa.field("new", LONG, nullable=False), ("id", TEXT)])
    assert evolve(table, incoming) == pa.schema(
        [pa.field("id", TEXT, nullable=False), ("a", INT), ("new", LONG)]
    )
    with pytest.raises(SchemaMismatch, match="column id: missing"):
        evolve(table, pa.schema([("a", INT)]))
    with pytest.raises(SchemaMismatch, match="column A: the table spells it a"):
        evolve(table, pa.schema([("id", TEXT), ("A", INT)]))
    with pytest.raises(SchemaMismatch, match=r"column new: .* no type"):
        evolve(table, pa.schema([("id", TEXT), ("new", pa.null())]))
    with pytest.raises(SchemaMismatch, match="column a b"):
        evolve(table, pa.schema([("id", TEXT), ("a b", INT)]))


def test_a_new_table_takes_the_first_schema_as_it_is() -> None:
    incoming = pa.schema([pa.field("id", TEXT, nullable=False), ("a", pa.large_string())])
    assert evolve(pa.schema([]), incoming) == pa.schema(
        [pa.field("id", TEXT, nullable=False), ("a", TEXT)]
    )


def test_comments_of_the_table_stay() -> None:
    table = pa.schema([pa.field("a", INT, metadata={b"comment": b"kept"})])
    made = evolve(table, pa.schema([("a", LONG)]))
    assert made.field("a").metadata == {b"comment": b"kept"}
    assert made.field("a").type == LONG


@settings(max_examples=40)
@given(TABLES)
def test_rows_fit_the_schema_that_they_evolve(table: pa.Table) -> None:
    schema = evolve(table.schema, table.schema)
    assert schema == table.schema
    started = evolve(pa.schema([]), table.schema)
    assert conform(table, started).schema == started
