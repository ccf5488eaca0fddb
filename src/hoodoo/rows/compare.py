"""Where two tables of the same columns have the same values, row by row, on whole columns."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from hoodoo.rows.merge import Flags, one_array, to_flags


def have_same_values(left: pa.Table, right: pa.Table) -> Flags:
    """Which rows are the same; null is the same as null, and NaN as NaN."""
    same = np.ones(left.num_rows, bool)
    for here, there in zip(left.columns, right.columns, strict=True):
        if not same.any():
            break
        same &= _compare(one_array(here), one_array(there))
    return same


def _compare(left: pa.Array, right: pa.Array) -> Flags:
    known, also_known = to_flags(pc.is_valid(left)), to_flags(pc.is_valid(right))
    same = ~known & ~also_known
    both = known & also_known
    if not both.any():
        return same
    if not both.all():
        here, there = left.filter(pa.array(both)), right.filter(pa.array(both))
        same[both] = _compare_values(here, there)
        return same
    return _compare_values(left, right)


def _compare_values(left: pa.Array, right: pa.Array) -> Flags:
    """The same of values of which none is null."""
    kind = left.type
    if pt.is_map(kind):
        pairs = pa.list_(pa.struct([kind.key_field, kind.item_field]))
        return _compare_lists(left.cast(pairs), right.cast(pairs))
    if pt.is_list(kind) or pt.is_large_list(kind):
        return _compare_lists(left, right)
    if pt.is_struct(kind):
        same = np.ones(len(left), bool)
        for here, there in zip(left.flatten(), right.flatten(), strict=True):
            same &= _compare(here, there)
        return same
    same = to_flags(pc.equal(left, right))
    if pt.is_floating(kind):
        same |= to_flags(pc.and_(pc.is_nan(left), pc.is_nan(right)))
    return same


def _compare_lists(left: pa.Array, right: pa.Array) -> Flags:
    """Lists are the same if they are of one length and so are their elements, in order."""
    lengths = pc.list_value_length(left).to_numpy(zero_copy_only=False)
    same: Flags = lengths == pc.list_value_length(right).to_numpy(zero_copy_only=False)
    places = np.flatnonzero(same)
    owners = np.repeat(places, lengths[places])
    elements = (one.take(pa.array(places)).flatten() for one in (left, right))
    same[owners[~_compare(*elements)]] = False
    return same
