"""Hypothesis strategies for table schemas and rows, shared by tests of several modules."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.types as pt
from hypothesis import strategies as st

NAMES = st.from_regex(r"[a-z_][a-z0-9_]{0,5}", fullmatch=True)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
LEAF_TYPES = st.sampled_from(
    [
        pa.bool_(),
        pa.int32(),
        pa.int64(),
        pa.float32(),
        pa.float64(),
        pa.string(),
        pa.binary(),
        pa.date32(),
        pa.time32("ms"),
        pa.time64("us"),
        pa.timestamp("ms"),
        pa.timestamp("us"),
        pa.timestamp("ms", tz="UTC"),
        pa.timestamp("us", tz="UTC"),
        pa.binary(3),
        pa.binary(16),
    ]
) | st.integers(1, 38).flatmap(
    lambda precision: st.builds(pa.decimal128, st.just(precision), st.integers(0, precision))
)


def _nested(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    element = st.builds(pa.field, st.just("element"), inner, st.booleans())
    value = st.builds(pa.field, st.just("value"), inner, st.booleans())
    return (
        st.builds(pa.list_, element)
        | value.map(lambda field: pa.map_(pa.string(), field))
        | _fields(inner).map(pa.struct)
    )


def _fields(types: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[list[pa.Field]]:
    field = st.builds(pa.field, NAMES, types, st.booleans())
    return st.lists(field, min_size=1, max_size=4, unique_by=lambda one: one.name)


TYPES = st.recursive(LEAF_TYPES, _nested, max_leaves=5)
SCHEMAS = _fields(TYPES).map(pa.schema)


def values(field: pa.Field) -> st.SearchStrategy[Any]:
    """Python values, as numbers where possible, for a field of a table type."""
    made = _values(field.type)
    return st.none() | made if field.nullable else made


def _values(type_: pa.DataType) -> st.SearchStrategy[Any]:
    if pt.is_struct(type_):
        return st.fixed_dictionaries({field.name: values(field) for field in type_})
    if pt.is_map(type_):
        return st.dictionaries(TEXT, values(type_.item_field), max_size=3).map(
            lambda entries: list(entries.items())
        )
    if pt.is_list(type_):
        return st.lists(values(type_.value_field), max_size=3)
    if pt.is_decimal(type_):
        limit = 10**type_.precision - 1
        scale = type_.scale
        # Built from digits: arithmetic would round to the context's 28.
        return st.integers(-limit, limit).map(
            lambda unscaled: Decimal(
                (int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale)
            )
        )
    if pt.is_fixed_size_binary(type_):
        return st.binary(min_size=type_.byte_width, max_size=type_.byte_width)
    if pt.is_floating(type_):
        # Without NaN, so that tables compare.
        return st.floats(width=type_.bit_width, allow_nan=False)
    if pt.is_time(type_):
        return st.integers(0, 86_399_999 if pt.is_time32(type_) else 86_399_999_999)
    if pt.is_int32(type_) or pt.is_date32(type_):
        return st.integers(-(2**31), 2**31 - 1)
    if pt.is_int64(type_) or pt.is_timestamp(type_):
        return st.integers(-(2**63), 2**63 - 1)
    simple = {pa.bool_(): st.booleans(), pa.string(): TEXT, pa.binary(): st.binary(max_size=20)}
    return simple[type_]


def rows(schema: pa.Schema, *, max_size: int = 6) -> st.SearchStrategy[pa.Table]:
    """Tables of a schema."""
    row = st.tuples(*(values(field) for field in schema))

    def table(made: list[tuple[Any, ...]]) -> pa.Table:
        columns = [
            pa.array([one[index] for one in made], field.type) for index, field in enumerate(schema)
        ]
        return pa.Table.from_arrays(columns, schema=schema)

    return st.lists(row, max_size=max_size).map(table)


TABLES = SCHEMAS.flatmap(rows)
