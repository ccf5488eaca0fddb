"""The order of rows in files: by columns, or along a curve through several columns at once.

Along a curve (z-order, hilbert) rows that are near each other in every column are near each other
in the files, so that a filter on any of the columns leaves most row groups out. A column counts by
the rank of its values, not by the values themselves: each then has the same say, however its values
are spread, and every type that can be sorted can be used. Nulls come last.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.model.plans import Layout

Numbers = npt.NDArray[np.uint64]

_KEY_BITS = 64
MOST_COLUMNS = _KEY_BITS
"""That a curve can go through."""
_MOST_BITS = 16
"""Of each column: to tell more than 65,536 ranges apart gains nothing."""
_BYTE = 256


def is_sortable(kind: pa.DataType) -> bool:
    """Whether rows can be ordered by a column of this type."""
    return not (pa.types.is_nested(kind) or pa.types.is_null(kind))


def sort_rows(columns: pa.Table, layout: Layout) -> pa.Array:
    """Positions of rows in the order of a layout; equal rows stay as they are."""
    if layout is Layout.LINEAR or columns.num_columns == 1:
        keys = [(name, "ascending") for name in columns.column_names]
        return pc.sort_indices(columns, sort_keys=keys)
    ranks = _rank_columns(columns)
    bits = _bits_per_column(columns.num_columns)
    places = hilbert_transpose(ranks, bits) if layout is Layout.HILBERT else ranks
    return pa.array(np.argsort(interleave(places, bits), kind="stable"))


def _bits_per_column(columns: int) -> int:
    return max(1, min(_MOST_BITS, _KEY_BITS // columns))


def _rank_columns(columns: pa.Table) -> list[Numbers]:
    """The rank of each value in its column, as a number of so many bits."""
    scale = np.uint64(1 << _bits_per_column(columns.num_columns))
    count = np.uint64(max(columns.num_rows, 1))
    ranks = []
    for column in columns.itercolumns():
        rank = pc.rank(column, tiebreaker="min").to_numpy()
        ranks.append((rank.astype(np.uint64) - np.uint64(1)) * scale // count)
    return ranks


def interleave(columns: Sequence[Numbers], bits: int) -> Numbers:
    """One number per row: the highest bit of each column, then the next bit of each, and so on."""
    count = len(columns)
    key = np.zeros(len(columns[0]), np.uint64)
    spread = _spread_byte(count)
    for number, column in enumerate(columns):
        place = count - 1 - number
        for low in range(0, bits, 8):
            byte = (column >> np.uint64(low)) & np.uint64(_BYTE - 1)
            key |= spread[byte] << np.uint64(low * count + place)
    return key


def _spread_byte(step: int) -> Numbers:
    """For each byte, its bits with `step - 1` places left free between them, as far as they fit."""
    values = np.arange(_BYTE, dtype=np.uint64)
    spread = np.zeros(_BYTE, np.uint64)
    for bit in range(8):
        if bit * step < _KEY_BITS:
            spread |= ((values >> np.uint64(bit)) & np.uint64(1)) << np.uint64(bit * step)
    return spread


def hilbert_transpose(columns: Sequence[Numbers], bits: int) -> list[Numbers]:
    """Points whose interleaved numbers are the distances of the given ones along a Hilbert curve.

    J. Skilling, Programming the Hilbert curve (2004): flips and swaps of axes from the highest bit
    down, then a Gray code over all of them.
    """
    axes = [column.copy() for column in columns]
    one = np.uint64(1)
    for bit in range(bits - 1, 0, -1):
        high, below = one << np.uint64(bit), (one << np.uint64(bit)) - one
        for axis in axes:
            is_set = (axis & high) != 0
            swap_bits = np.where(is_set, np.uint64(0), (axes[0] ^ axis) & below)
            axes[0] ^= np.where(is_set, below, swap_bits)
            if axis is not axes[0]:
                axis ^= swap_bits
    for before, axis in pairwise(axes):
        axis ^= before
    flips = np.zeros_like(axes[0])
    for bit in range(bits - 1, 0, -1):
        high = one << np.uint64(bit)
        flips ^= np.where((axes[-1] & high) != 0, high - one, np.uint64(0))
    return [axis ^ flips for axis in axes]
