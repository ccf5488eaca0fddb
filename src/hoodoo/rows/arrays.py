"""Tables that come piece by piece."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc


def combine_pieces(pieces: Iterable[pa.Table], bytes_at_once: int) -> Iterator[pa.Table]:
    """Pieces put together to larger ones: looking values up has a price for each piece."""
    pending: list[pa.Table] = []
    pending_bytes = 0
    for piece in pieces:
        pending.append(piece)
        pending_bytes += piece.nbytes
        if pending_bytes >= bytes_at_once:
            yield pa.concat_tables(pending)
            pending, pending_bytes = [], 0
    if pending:
        yield pa.concat_tables(pending)


_FEW = 256
"""Up to one value in so many is put in without copying the others: pieces have their price."""

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def one_array(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """A column as one contiguous array."""
    if isinstance(column, pa.Array):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    array = column.combine_chunks()
    return array if isinstance(array, pa.Array) else pa.concat_arrays(array.chunks)


def to_flags(column: pa.Array | pa.ChunkedArray) -> Flags:
    """A column of booleans without nulls, for numpy."""
    flags: Flags = one_array(column).to_numpy(zero_copy_only=False).astype(bool)
    return flags


def dense_ranks(columns: Sequence[pa.Array]) -> Numbers:
    """Ranks from 0 by the columns in turn; equal values share a rank, nulls come first."""
    table = pa.table(
        {
            name: values
            for i, column in enumerate(columns)
            for name, values in ((f"known{i}", pc.is_valid(column)), (f"value{i}", column))
        }
    )
    keys = [(name, "ascending") for name in table.column_names]
    order = pc.sort_indices(table, sort_keys=keys).to_numpy()
    steps = np.zeros(len(order), bool)
    for column in columns:
        codes = column.dictionary_encode("encode").indices.to_numpy()[order]
        steps[1:] |= codes[1:] != codes[:-1]
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.cumsum(steps)
    return ranks


def are_greater(columns: Sequence[pa.Array], other_columns: Sequence[pa.Array]) -> Flags:
    """Where rows of `columns` are greater, by the columns in turn; null is the smallest."""
    greater = np.zeros(len(columns[0]), bool)
    equal = np.ones(len(columns[0]), bool)
    for here, there in zip(columns, other_columns, strict=True):
        above = pc.and_(pc.coalesce(pc.greater(here, there), pc.is_null(there)), pc.is_valid(here))
        both_null = pc.and_(pc.is_null(here), pc.is_null(there))
        greater |= equal & to_flags(above)
        equal &= to_flags(pc.coalesce(pc.equal(here, there), both_null))
    return greater


def put(column: pa.ChunkedArray, positions: Numbers, values: pa.Array) -> pa.ChunkedArray:
    """A column, which may be a dictionary, with other values at some positions, which ascend."""
    mask = np.zeros(len(column), bool)
    mask[positions] = True
    if pa.types.is_dictionary(column.type):
        both = pa.chunked_array([*column.chunks, values.dictionary_encode()], column.type)
        *old, new = both.unify_dictionaries().chunks
        indices = pa.concat_arrays([chunk.indices for chunk in old])
        codes = pc.replace_with_mask(indices, pa.array(mask), new.indices)
        return pa.chunked_array([pa.DictionaryArray.from_arrays(codes, new.dictionary)])
    if len(positions) * _FEW <= len(column):
        pieces, begin = [], 0
        for number, position in enumerate(positions.tolist()):
            pieces += [*column.slice(begin, position - begin).chunks, values.slice(number, 1)]
            begin = position + 1
        return pa.chunked_array([*pieces, *column.slice(begin).chunks], column.type)
    if pa.types.is_nested(column.type):
        source = np.arange(len(column), dtype=np.int64)
        source[positions] = np.arange(len(column), len(column) + len(positions))
        both = pa.chunked_array([*column.chunks, values], column.type)
        return both.take(pa.array(source))
    return pc.replace_with_mask(column, pa.array(mask), values)
