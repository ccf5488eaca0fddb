"""Arrow dense unions: per row a type code, and a place among the values that have the code."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

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
