"""Ordering values of deletes: a union that keeps, per delete, which wrapper the value came in.

On disk the value is an Avro union of records with one field each; here it is an Arrow dense union
whose type codes are `OrderingKind`. A delete whose value is null or Integer 0 has no event time: it
wins over whatever came before, in every merge mode. Long 0 is an ordinary value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from hoodoo.errors import InputError
from hoodoo.format.unions import codes_and_offsets


class OrderingKind(IntEnum):
    """The wrapper of an ordering value; up to ARRAY, its branch of the union on disk."""

    NULL = 0
    BOOLEAN = 1
    INT = 2
    LONG = 3
    FLOAT = 4
    DOUBLE = 5
    BYTES = 6
    STRING = 7
    DATE = 8
    DECIMAL = 9
    TIME_MICROS = 10
    TIMESTAMP_MICROS = 11
    ARRAY = 12  # several ordering fields
    LOCAL_DATE = 13  # only inside an array, where it is branch 12


K = OrderingKind

DECIMAL_TYPE = pa.decimal128(30, 15)
_SCALARS: Mapping[OrderingKind, pa.DataType] = {
    K.NULL: pa.null(),
    K.BOOLEAN: pa.bool_(),
    K.INT: pa.int32(),
    K.LONG: pa.int64(),
    K.FLOAT: pa.float32(),
    K.DOUBLE: pa.float64(),
    K.BYTES: pa.binary(),
    K.STRING: pa.string(),
    K.DATE: pa.date32(),
    K.DECIMAL: DECIMAL_TYPE,
    K.TIME_MICROS: pa.time64("us"),
    K.TIMESTAMP_MICROS: pa.timestamp("us", tz="UTC"),
}


def _union_type(types: Mapping[OrderingKind, pa.DataType]) -> pa.DataType:
    fields = [pa.field(kind.name.lower(), type_) for kind, type_ in types.items()]
    return pa.dense_union(fields, type_codes=[int(kind) for kind in types])


ELEMENT_TYPES: Mapping[OrderingKind, pa.DataType] = {**_SCALARS, K.LOCAL_DATE: pa.date32()}
ELEMENT = _union_type(ELEMENT_TYPES)
ORDERING_TYPES: Mapping[OrderingKind, pa.DataType] = {**_SCALARS, K.ARRAY: pa.list_(ELEMENT)}
ORDERING = _union_type(ORDERING_TYPES)


def union_of(
    kinds: npt.NDArray[np.int8],
    children: Mapping[OrderingKind, pa.Array],
    types: Mapping[OrderingKind, pa.DataType] = ORDERING_TYPES,
) -> pa.Array:
    """A union array; `children` holds the values of each kind in row order, NULL left out."""
    offsets = np.zeros(len(kinds), dtype=np.int32)
    arrays: list[pa.Array] = []
    for kind, type_ in types.items():
        rows = kinds == kind
        number = int(np.count_nonzero(rows))
        offsets[rows] = np.arange(number, dtype=np.int32)
        if kind is K.NULL:
            arrays.append(pa.nulls(number))
        else:
            arrays.append(children[kind] if kind in children else pa.nulls(0, type_))
    return pa.UnionArray.from_dense(
        pa.array(kinds, pa.int8()),
        pa.array(offsets, pa.int32()),
        arrays,
        [kind.name.lower() for kind in types],
        [int(kind) for kind in types],
    )


def whole(column: pa.Array | pa.ChunkedArray, type_: pa.DataType) -> pa.Array:
    """The column as one array of this type."""
    if isinstance(column, pa.ChunkedArray):
        if column.num_chunks == 0 and type_ == ORDERING:
            return union_of(np.empty(0, dtype=np.int8), {})
        column = column.combine_chunks()
    return column if column.type == type_ else column.cast(type_)


def child(union: pa.Array, kind: OrderingKind) -> pa.Array:
    """The values of one kind, to be indexed by the offsets of the rows that have it."""
    index = [field.name for field in union.type].index(kind.name.lower())
    return union.field(index)


def kinds_in(ordering: pa.Array | pa.ChunkedArray) -> frozenset[OrderingKind]:
    """The kinds of the ordinary values: those that `is_special` does not cover."""
    union = whole(ordering, ORDERING)
    codes, _ = codes_and_offsets(union)
    ordinary = ~np.asarray(is_special(union))
    return frozenset(OrderingKind(int(code)) for code in np.unique(codes[ordinary]))


def is_special(ordering: pa.Array | pa.ChunkedArray) -> pa.BooleanArray:
    """Per delete, whether it has no event time and so always wins: null, or Integer 0."""
    union = whole(ordering, ORDERING)
    codes, offsets = codes_and_offsets(union)
    special = codes == K.NULL
    ints = codes == K.INT
    if ints.any():
        values = child(union, K.INT).to_numpy(zero_copy_only=False)
        special[ints] = values[offsets[ints]] == 0
    return pa.array(special)


def values_of(ordering: pa.Array | pa.ChunkedArray, kind: OrderingKind) -> pa.Array:
    """The values of one kind as an array as long as the column; null for all other deletes."""
    union = whole(ordering, ORDERING)
    codes, offsets = codes_and_offsets(union)
    return child(union, kind).take(pa.array(offsets, mask=codes != kind))


def wrap(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Ordering values of one ordering column as a union, in the wrapper that fits its type."""
    array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if pat.is_null(array.type):
        return union_of(np.zeros(len(array), dtype=np.int8), {})
    kind = _kind_of(array.type)
    try:
        present = array.drop_null().cast(ORDERING_TYPES[kind])
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InputError(f"ordering values do not fit {kind.name}: {error}") from None
    kinds = np.where(np.asarray(array.is_valid()), np.int8(kind), np.int8(K.NULL))
    return union_of(kinds, {kind: present})


def always_wins(count: int) -> pa.Array:
    """Ordering values of deletes that win regardless of event time: Integer 0, as Spark writes."""
    zeros = pa.array(np.zeros(count, dtype=np.int32))
    return union_of(np.full(count, K.INT, dtype=np.int8), {K.INT: zeros})


def _kind_of(type_: pa.DataType) -> OrderingKind:
    if pat.is_dictionary(type_):
        return _kind_of(type_.value_type)
    if pat.is_integer(type_):
        return K.INT if type_.bit_width < 32 or type_ == pa.int32() else K.LONG
    for check, kind in _FITTING:
        if check(type_):
            return kind
    raise InputError(f"a column of type {type_} cannot order deletes")


def _is_text(type_: pa.DataType) -> bool:
    return type_ in (pa.string(), pa.large_string(), pa.string_view())


def _is_bytes(type_: pa.DataType) -> bool:
    views = (pa.binary(), pa.large_binary(), pa.binary_view())
    return type_ in views or bool(pat.is_fixed_size_binary(type_))


_FITTING: tuple[tuple[Callable[[pa.DataType], bool], OrderingKind], ...] = (
    (pat.is_boolean, K.BOOLEAN),
    (pat.is_float64, K.DOUBLE),
    (pat.is_floating, K.FLOAT),
    (_is_text, K.STRING),
    (pat.is_date, K.DATE),
    (pat.is_decimal, K.DECIMAL),
    (_is_bytes, K.BYTES),
    (pat.is_time, K.TIME_MICROS),
    (pat.is_timestamp, K.TIMESTAMP_MICROS),
)
