"""What became of rows between two snapshots: inserted, updated, deleted. On whole columns.

Rows are matched by their identity: the record key, and the partition where keys are unique within
one only. A key that a snapshot has twice is matched row by row, in any order. `have_same_values`
compares two tables of the same columns row by row.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from hoodoo.format.schema import (
    COMMIT_SEQNO,
    COMMIT_TIME,
    META_FIELDS,
    OPERATION,
    PARTITION_PATH,
    RECORD_KEY,
)
from hoodoo.rows.arrays import Flags, Numbers, one_array, to_flags

# -- comparing values ---------------------------------------------------------------------------


def have_same_values(first: pa.Table, second: pa.Table) -> Flags:
    """Which rows are the same; null is the same as null, and NaN as NaN."""
    same = np.ones(first.num_rows, bool)
    for here, there in zip(first.columns, second.columns, strict=True):
        if not same.any():
            break
        same &= _compare(one_array(here), one_array(there))
    return same


def _compare(first: pa.Array, second: pa.Array) -> Flags:
    first_is_valid, second_is_valid = to_flags(pc.is_valid(first)), to_flags(pc.is_valid(second))
    same = ~first_is_valid & ~second_is_valid
    both = first_is_valid & second_is_valid
    if not both.any():
        return same
    if not both.all():
        here, there = first.filter(pa.array(both)), second.filter(pa.array(both))
        same[both] = _compare_values(here, there)
        return same
    return _compare_values(first, second)


def _compare_values(first: pa.Array, second: pa.Array) -> Flags:
    """The same of values of which none is null."""
    kind = first.type
    if pt.is_map(kind):
        pairs = pa.list_(pa.struct([kind.key_field, kind.item_field]))
        return _compare_lists(first.cast(pairs), second.cast(pairs))
    if pt.is_list(kind) or pt.is_large_list(kind):
        return _compare_lists(first, second)
    if pt.is_struct(kind):
        same = np.ones(len(first), bool)
        for here, there in zip(first.flatten(), second.flatten(), strict=True):
            same &= _compare(here, there)
        return same
    same = to_flags(pc.equal(first, second))
    if pt.is_floating(kind):
        same |= to_flags(pc.and_(pc.is_nan(first), pc.is_nan(second)))
    return same


def _compare_lists(first: pa.Array, second: pa.Array) -> Flags:
    """Lists are the same if they are of one length and so are their elements, in order."""
    lengths = pc.list_value_length(first).to_numpy(zero_copy_only=False)
    same: Flags = lengths == pc.list_value_length(second).to_numpy(zero_copy_only=False)
    places = np.flatnonzero(same)
    owners = np.repeat(places, lengths[places])
    elements = (one.take(pa.array(places)).flatten() for one in (first, second))
    same[owners[~_compare(*elements)]] = False
    return same


# -- matching rows ------------------------------------------------------------------------------


CHANGE_TYPE = "_change_type"
"""The column that says what became of a row."""
INSERT, DELETE = "insert", "delete"
UPDATE_BEFORE, UPDATE_AFTER = "update_preimage", "update_postimage"

VERSION_COLUMNS = (RECORD_KEY, COMMIT_TIME, COMMIT_SEQNO)
"""The columns that tell versions of a row apart, wherever a row is."""

IS_AFTER = "_hoodoo_is_after"
"""Of which snapshot a row is, where rows of both are in one table."""


def find_new_versions(before: pa.Table, after: pa.Table) -> tuple[Flags, Flags]:
    """Rows of each that the other does not have in the same version; of `VERSION_COLUMNS` each.

    Of versions that are there several times, all count as new: values are compared later.
    """
    is_gone, is_new = np.ones(before.num_rows, bool), np.ones(after.num_rows, bool)
    if not before.num_rows or not after.num_rows:
        return is_gone, is_new
    olds = one_array(before[COMMIT_SEQNO])
    positions = one_array(pc.index_in(one_array(after[COMMIT_SEQNO]), value_set=olds))
    match_rows = np.flatnonzero(to_flags(pc.is_valid(positions)))
    targets = positions.drop_null().to_numpy().astype(np.int64)
    is_same = np.ones(len(match_rows), bool)
    for name in (RECORD_KEY, COMMIT_TIME):
        here = one_array(after[name]).take(pa.array(match_rows))
        there = one_array(before[name]).take(pa.array(targets))
        is_same &= to_flags(pc.fill_null(pc.equal(here, there), False))
    is_same &= np.bincount(targets, minlength=before.num_rows)[targets] == 1
    is_new[match_rows[is_same]] = False
    is_gone[targets[is_same]] = False
    return is_gone, is_new


def diff_rows(
    rows: pa.Table, columns: Sequence[str], *, by_partition: bool, with_before: bool
) -> pa.Table:
    """The changes that lead from the rows before to those after, in these columns and the type.

    `rows` has whole rows of both snapshots, told apart by `IS_AFTER`. Of an update, the row before
    comes too if it is asked for. Rows that are the same in all columns are no change.
    """
    is_after = to_flags(rows[IS_AFTER])
    identity = _number_identities(rows, by_partition=by_partition)
    old, new = _match(identity, is_after)
    compared_columns = [n for n in rows.column_names if n not in _NOT_COMPARED]
    values = rows.select(compared_columns)
    is_same = have_same_values(values.take(pa.array(old)), values.take(pa.array(new)))
    is_matched = np.zeros(rows.num_rows, bool)
    is_matched[old] = is_matched[new] = True
    changes = {
        INSERT: np.flatnonzero(~is_matched & is_after),
        UPDATE_BEFORE: old[~is_same] if with_before else old[:0],
        UPDATE_AFTER: new[~is_same],
        DELETE: np.flatnonzero(~is_matched & ~is_after),
    }
    places = np.concatenate(list(changes.values()))
    types = np.repeat(list(changes), [len(positions) for positions in changes.values()])
    changed_rows = rows.select(list(columns)).take(pa.array(places))
    return changed_rows.append_column(change_field(), pa.array(types, pa.string()))


_NOT_COMPARED = frozenset({*META_FIELDS, OPERATION, IS_AFTER} - {PARTITION_PATH})


def change_field() -> pa.Field:
    """The column that says what became of a row."""
    return pa.field(CHANGE_TYPE, pa.string())


def _number_identities(rows: pa.Table, *, by_partition: bool) -> Numbers:
    """A number for each row, the same for those of one identity."""
    numbers = _number_values(rows[RECORD_KEY])
    if by_partition and rows.num_rows:
        partitions = _number_values(rows[PARTITION_PATH])
        numbers = numbers * (int(partitions.max()) + 1) + partitions
    return numbers


def _number_values(column: pa.ChunkedArray) -> Numbers:
    indices = one_array(column).dictionary_encode("encode").indices
    numbers: Numbers = indices.to_numpy().astype(np.int64)
    return numbers


def _match(identity: Numbers, is_after: Flags) -> tuple[Numbers, Numbers]:
    """Rows before and after that belong together; of several of one identity, in their order."""
    order = np.lexsort((is_after, identity))
    starts = _find_starts(identity[order], is_after[order])
    number = np.empty(len(order), np.int64)  # of a row among those of its identity and side
    number[order] = np.arange(len(order)) - starts
    order = np.lexsort((is_after, number, identity))
    same = (identity[order][1:] == identity[order][:-1]) & (number[order][1:] == number[order][:-1])
    first = np.flatnonzero(same)
    return order[first], order[first + 1]


def _find_starts(*columns: Flags | Numbers) -> Numbers:
    """Where the run of equal values begins that each position is in."""
    count = len(columns[0])
    begins = np.zeros(count, np.int64)
    for column in columns:
        change_places = np.flatnonzero(column[1:] != column[:-1]) + 1
        begins[change_places] = change_places
    starts: Numbers = np.maximum.accumulate(begins) if count else begins
    return starts
