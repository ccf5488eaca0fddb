"""The Arrow types that a table column may have, and how others are brought to them.

Several Arrow types hold the same values (large, view and dictionary types; small integers).
A table has one of each kind, so that schemas compare equal when their values are alike:

    bool  int32  int64  float  double  string  binary  fixed_size_binary(n)  decimal128(p, s)
    date32  time32[ms]  time64[us]  timestamp[ms|us]  timestamp[ms|us, UTC]
    list<element: x>  map<string, x>  struct<...>

Dense unions, which metadata tables and ordering values use, hold per row a type code, and a place
among the values that have the code.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from hoodoo.errors import SchemaMismatch

# -- types of table columns ------------------------------------------------------------------------


MAX_PRECISION = 38

COMMENT = b"comment"
_AVRO_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")

_SAME = (
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
)
_EXACT = {
    pa.int8(): pa.int32(),
    pa.int16(): pa.int32(),
    pa.uint8(): pa.int32(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.float16(): pa.float32(),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
    pa.date64(): pa.date32(),
    pa.time32("s"): pa.time32("ms"),
    **{type_: type_ for type_ in _SAME},
}


def normalise(schema: pa.Schema) -> pa.Schema:
    """The schema that a table gets for rows of this one; `SchemaMismatch` if there is none.

    Every value keeps its meaning exactly: a type that no table type holds is refused. So are
    names that Avro forbids (Apache Hudi refuses them too) and names that differ only in case
    (Spark cannot tell them apart). Of the metadata only column comments stay.
    """
    return pa.schema(_fields(list(schema), ""))


def normalise_type(type_: pa.DataType, path: str) -> pa.DataType:
    """The table type for values of `type_`; `path` names the column in errors."""
    if type_ in _EXACT:
        return _EXACT[type_]
    if pt.is_dictionary(type_):
        return normalise_type(type_.value_type, path)
    if pt.is_timestamp(type_) and type_.unit != "ns":
        unit = "us" if type_.unit == "us" else "ms"
        return pa.timestamp(unit, tz="UTC" if type_.tz is not None else None)
    if pt.is_decimal(type_) and 0 <= type_.scale <= type_.precision <= MAX_PRECISION:
        return pa.decimal128(type_.precision, type_.scale)
    if pt.is_fixed_size_binary(type_) and type_.byte_width > 0:
        return type_
    if pt.is_struct(type_) and type_.num_fields:
        return pa.struct(_fields(list(type_), f"{path}."))
    if pt.is_list(type_) or pt.is_large_list(type_) or pt.is_fixed_size_list(type_):
        element = normalise_type(type_.value_type, f"{path}[]")
        return pa.list_(pa.field("element", element, type_.value_field.nullable))
    if pt.is_map(type_) and normalise_type(type_.key_type, f"{path}{{}}") == pa.string():
        value = normalise_type(type_.item_type, f"{path}{{}}")
        return pa.map_(pa.string(), pa.field("value", value, type_.item_field.nullable))
    raise SchemaMismatch(f"column {path}: a table cannot hold {type_}{_advice(type_)}")


def fixed_size_of(precision: int) -> int:
    """The fewest bytes whose two's complement holds every decimal of this many digits."""
    return int(10**precision - 1).bit_length() // 8 + 1


def _advice(type_: pa.DataType) -> str:
    if pt.is_timestamp(type_) or pt.is_time(type_):
        return "; cast it to microseconds"
    if pt.is_uint64(type_):
        return "; cast it to int64 or decimal128(20, 0)"
    if pt.is_map(type_):
        return "; map keys must be strings"
    return ""


def _fields(fields: list[pa.Field], path: str) -> list[pa.Field]:
    name_by_lower: dict[str, str] = {}
    new_fields = []
    for field in fields:
        name = field.name
        if not _AVRO_NAME.match(name):
            raise SchemaMismatch(
                f"column {path}{name}: a name is made of letters, digits and _, no digit first"
            )
        if name.lower() in name_by_lower:
            raise SchemaMismatch(
                f"columns {path}{name_by_lower[name.lower()]} and {path}{name} have the same name"
                " (case does not count)"
            )
        name_by_lower[name.lower()] = name
        comment = (field.metadata or {}).get(COMMENT)
        type_ = normalise_type(field.type, f"{path}{name}")
        metadata = {COMMENT: comment} if comment else None
        new_fields.append(pa.field(name, type_, field.nullable, metadata))
    return new_fields


# -- dense unions ----------------------------------------------------------------------------------


Codes = npt.NDArray[np.int8]
Offsets = npt.NDArray[np.int32]


def codes_and_offsets(union: pa.Array) -> tuple[Codes, Offsets]:
    """Per row, its type code and its place among the values of that code."""
    # UnionArray.type_codes and .offsets forget that the array may be a slice: read the buffers.
    _, codes, offsets, *_ = union.buffers()
    rows = slice(union.offset, union.offset + len(union))
    if len(union) == 0:
        return np.empty(0, dtype=np.int8), np.empty(0, dtype=np.int32)
    return np.frombuffer(codes, dtype=np.int8)[rows], np.frombuffer(offsets, dtype=np.int32)[rows]


def dense_union(
    type_: pa.DataType, codes: npt.NDArray[np.integer], children: Sequence[pa.Array]
) -> pa.Array:
    """A union whose codes count its fields; each child holds the values of its code, in order."""
    offsets = np.zeros(len(codes), np.int32)
    for code in np.unique(codes).tolist():
        rows = (codes == code).nonzero()[0]
        offsets[rows] = np.arange(len(rows), dtype=np.int32)
    return pa.UnionArray.from_dense(
        pa.array(codes.astype(np.int8)),
        pa.array(offsets),
        list(children),
        [field.name for field in type_],
        list(range(len(children))),
    )


def values_of_code(union: pa.Array, code: int) -> tuple[npt.NDArray[np.int64], pa.Array]:
    """The rows that have a code, and their values."""
    codes, offsets = codes_and_offsets(union)
    rows = (codes == code).nonzero()[0]
    return rows, union.field(code).take(pa.array(offsets[rows]))


def empty_table(schema: pa.Schema) -> pa.Table:
    """A table without rows; pyarrow's own does not know unions."""
    return pa.table([pa.nulls(0, field.type) for field in schema], schema)
