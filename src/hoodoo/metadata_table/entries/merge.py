"""Merging entries of a file group: those of its base file and of its logs, in order.

    files                 each file of an entry on its own: a live file takes the larger size; a
                          deletion removes a live file, and is kept where there is none to remove
    column_stats,         a tight or deleted entry, or one after a deleted one, stands for itself;
    partition_stats       others widen the bounds and add to the counts
    all other partitions  the newest entry of a key
    deleted keys          whatever was there is gone; a later entry begins anew

Nothing is folded entry by entry: all entries are put one after another, and sorted by key. Where
bounds are merged, a missing one says nothing, and is passed over. Whole numbers and fractions are
compared after a change of the column's type; where other types meet, the entry is dropped: a file
without statistics is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.format.arrow_types import codes_and_offsets, empty_table
from hoodoo.format.metadata_table.column_stats import ValueType, bounds_in, make_bounds
from hoodoo.format.metadata_table.files import explode, gather
from hoodoo.format.metadata_table.schema import Wrapper

# -- newest entries and file lists --------------------------------------------------------------


Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class EntryBatch:
    """One step: keys that are deleted, and then entries that are written.

    Of a log file, each block is a step; a base file is a step without deleted keys.
    """

    entries: pa.Table | None = None
    deleted_keys: pa.Array | None = None


@dataclass(frozen=True, slots=True)
class Events:
    """All entries of some batches, and which of them no later deletion undoes."""

    entries: pa.Table
    codes: Ints  # of each entry's key
    alive: Flags


def gather_events(batches: Sequence[EntryBatch]) -> Events | None:
    """The entries of all batches in order; None where there are none."""
    tables = [batch.entries for batch in batches if batch.entries is not None]
    tables = [table for table in tables if table.num_rows]
    if not tables:
        return None
    entries = pa.concat_tables(tables).combine_chunks()  # to take rows of one chunk is quick
    parts: list[pa.Array] = []
    steps: list[Ints] = []
    for number, batch in enumerate(batches):
        if batch.entries is not None:
            parts += batch.entries["key"].chunks
            steps.append(np.full(batch.entries.num_rows, number))
    count = entries.num_rows
    deletions = [batch.deleted_keys for batch in batches if batch.deleted_keys is not None]
    keys = pa.chunked_array([*parts, *(keys.cast(pa.string()) for keys in deletions)], pa.string())
    codes = _codes(keys)
    alive = np.ones(count, bool)
    if len(keys) > count:
        deleted_at = np.full(int(codes.max()) + 1, -1)
        at = count
        for number, batch in enumerate(batches):
            if batch.deleted_keys is not None:
                deleted_at[codes[at : at + len(batch.deleted_keys)]] = number
                at += len(batch.deleted_keys)
        # The entries of the step that deletes come after the deletion.
        alive = np.concatenate(steps) >= deleted_at[codes[:count]]
    return Events(entries, codes[:count], alive)


def _codes(keys: pa.ChunkedArray) -> Ints:
    dictionary_keys = keys.combine_chunks().dictionary_encode()
    if isinstance(dictionary_keys, pa.ChunkedArray):
        dictionary_keys = dictionary_keys.unify_dictionaries().combine_chunks()
    codes: Ints = dictionary_keys.indices.to_numpy().astype(np.int64)
    return codes


def merge_newest(batches: Sequence[EntryBatch]) -> pa.Table:
    """Entries of `record_index`, `bloom_filters` or a secondary index: one per key, sorted."""
    only = _only_entries(batches)
    if only is not None and _are_rising(only["key"]):
        return only
    events = gather_events(batches)
    if events is None:
        return empty_entries(batches)
    newest = np.zeros(int(events.codes.max()) + 1, np.int64)
    numbers = np.arange(len(events.codes))
    newest[events.codes] = numbers  # of several, the last one stays
    rows = (events.alive & (newest[events.codes] == numbers)).nonzero()[0]
    return sort_entries(events.entries.take(pa.array(rows)))


def _only_entries(batches: Sequence[EntryBatch]) -> pa.Table | None:
    """The entries of the one batch that has any, if none are deleted: a base file without logs."""
    full = [batch for batch in batches if batch.deleted_keys is not None or _count(batch)]
    return full[0].entries if len(full) == 1 and full[0].deleted_keys is None else None


def _count(batch: EntryBatch) -> int:
    return 0 if batch.entries is None else batch.entries.num_rows


def _are_rising(keys: pa.ChunkedArray) -> bool:
    """Whether keys are sorted, each of them once."""
    whole = keys.combine_chunks()
    return len(whole) < 2 or bool(pc.all(pc.less(whole[:-1], whole[1:])).as_py())


def empty_entries(batches: Iterable[EntryBatch]) -> pa.Table:
    """No entries, in the columns that they would have."""
    schemas = [batch.entries.schema for batch in batches if batch.entries is not None]
    assert schemas, "a merge needs a base, be it empty"
    return empty_table(schemas[0])


def sort_entries(entries: pa.Table) -> pa.Table:
    """Entries by key, as HFiles want them: texts sort like their UTF-8 bytes."""
    keys = entries["key"].combine_chunks()
    return entries.take(pc.sort_indices(keys)).combine_chunks()


def merge_file_lists(batches: Sequence[EntryBatch]) -> pa.Table:
    """Entries of `files`: one per key, sorted, each with all its files."""
    events = gather_events(batches)
    if events is None:
        return empty_entries(batches)
    entries = events.entries.filter(pa.array(events.alive))
    files = explode(entries).combine_chunks()
    keys = pc.unique(entries["key"].combine_chunks())
    if not files.num_rows:
        return gather(files, keys)
    key_codes = _codes(files["key"])
    groups = key_codes * files.num_rows + _codes(files["name"])
    rows, sizes, is_deleted = _fold_files(
        groups, files["size_bytes"].to_numpy(), files["is_deleted"].to_numpy()
    )
    files = files.take(pa.array(rows))
    columns = [files["key"], files["name"], pa.array(sizes), pa.array(is_deleted)]
    return gather(pa.table(columns, files.schema), keys)


def _fold_files(groups: Ints, sizes: Ints, is_deleted: Flags) -> tuple[Ints, Ints, Flags]:
    """Of each group of versions, in order: the last row, the size, and whether it is deleted.

    Groups whose last deletion removed what was there are left out.
    """
    order = np.argsort(groups, kind="stable")
    groups, sizes, is_deleted = groups[order], sizes[order], is_deleted[order]
    count = len(order)
    is_first = np.ones(count, bool)
    is_first[1:] = groups[1:] != groups[:-1]
    changes = is_first.copy()
    changes[1:] |= is_deleted[1:] != is_deleted[:-1]
    is_last = np.ones(count, bool)
    is_last[:-1] = is_first[1:]
    ends = is_last.nonzero()[0]
    # The last versions that are all live, or all deleted, begin here.
    starts = np.maximum.accumulate(np.where(changes, np.arange(count), 0))[ends]
    is_cancelled_out = is_deleted[ends] & (starts == ends) & ~is_first[starts]
    bounds = np.column_stack((starts, ends + 1)).ravel()
    padded_sizes = np.append(sizes, 0)
    largest = np.maximum.reduceat(padded_sizes, bounds)[0::2]
    stays = ~is_cancelled_out
    ends = ends[stays]
    return order[ends], np.where(is_deleted[ends], 0, largest[stays]), is_deleted[ends]


# -- statistics of columns ----------------------------------------------------------------------


_SUMS = ("value_count", "null_count", "size_bytes", "uncompressed_bytes")
_NUMBERS = (Wrapper.INT, Wrapper.LONG, Wrapper.FLOAT, Wrapper.DOUBLE)
_WIDE = {Wrapper.LONG: pa.int64(), Wrapper.DOUBLE: pa.float64()}


def merge_column_stats(batches: Sequence[EntryBatch]) -> pa.Table:
    """Entries of `column_stats` or `partition_stats`: one per key, sorted."""
    events = gather_events(batches)
    if events is None or not events.alive.any():
        return empty_entries(batches)
    order = np.argsort(events.codes, kind="stable")
    order = order[events.alive[order]]
    entries = events.entries.take(pa.array(order)).combine_chunks()
    codes = events.codes[order]
    count = len(order)
    starts = np.ones(count, bool)
    starts[1:] = codes[1:] != codes[:-1]
    is_last = np.append(starts[1:], True)
    is_deleted = _flags(entries["is_deleted"])
    starts |= is_deleted | _flags(entries["is_tight_bound"])
    starts[1:] |= is_deleted[:-1]
    ends = is_last.nonzero()[0]
    begins = np.maximum.accumulate(np.where(starts, np.arange(count), 0))[ends]
    alone = entries.take(pa.array(ends[begins == ends]))
    several = begins < ends
    if not several.any():
        return sort_entries(alone)
    wide_entries = _widen(entries, begins[several], ends[several])
    return sort_entries(pa.concat_tables([alone, wide_entries]))


def _flags(column: pa.ChunkedArray) -> Flags:
    flags: Flags = column.to_numpy().astype(bool)
    return flags


def _widen(entries: pa.Table, begins: Ints, ends: Ints) -> pa.Table:
    """One entry for each run of entries."""
    sizes = ends - begins + 1
    runs = np.repeat(np.arange(len(begins)), sizes)
    firsts = np.cumsum(sizes) - sizes
    rows = np.arange(len(runs)) - np.repeat(firsts, sizes) + np.repeat(begins, sizes)
    entries = entries.take(pa.array(rows)).combine_chunks()
    lasts = pa.array(firsts + sizes - 1)
    columns = {name: entries[name].combine_chunks().take(lasts) for name in entries.column_names}
    for name in _SUMS:
        columns[name] = _add(entries[name].combine_chunks(), firsts)
    type_rows = _pick_types(entries["value_type"].combine_chunks(), firsts, sizes)
    for name in ("value_type", "value_type_info"):
        columns[name] = entries[name].combine_chunks().take(pa.array(type_rows))
    is_decimal = pc.fill_null(pc.equal(entries["value_type"], int(ValueType.DECIMAL)), False)
    fits = np.ones(len(begins), bool)
    for name, order in (("min_value", "ascending"), ("max_value", "descending")):
        bounds = _promote(entries[name].combine_chunks(), runs)
        picks, fit = _pick_bounds(bounds, runs, firsts, _flags(is_decimal), order)
        columns[name] = bounds.take(pa.array(picks))
        fits &= fit
    wide_entries = pa.table([columns[name] for name in entries.column_names], entries.schema)
    return wide_entries.filter(pa.array(fits))


def _add(numbers: pa.Array, firsts: Ints) -> pa.Array:
    totals = np.add.reduceat(numbers.fill_null(0).to_numpy(), firsts)
    has_number = np.logical_or.reduceat(numbers.is_valid().to_numpy(zero_copy_only=False), firsts)
    return pa.array(totals, mask=~has_number)


def _pick_types(types: pa.Array, firsts: Ints, sizes: Ints) -> Ints:
    """For each run the last row that tells a type, or else its last row."""
    tells = pc.fill_null(pc.greater(types, int(ValueType.NULL)), False)
    places = np.where(tells.to_numpy(zero_copy_only=False), np.arange(len(types)), -1)
    last_typed_rows = np.maximum.reduceat(places, firsts)
    return np.where(last_typed_rows < 0, firsts + sizes - 1, last_typed_rows)


def _pick_bounds(
    bounds: pa.Array, runs: Ints, firsts: Ints, is_decimal: Flags, order: str
) -> tuple[Ints, Flags]:
    """For each run the row with the bound that holds for all; and whether there is one."""
    picks = firsts.copy()  # without any bound, all rows are alike
    types = np.zeros(len(firsts), np.int64)
    for wrapper in Wrapper:
        rows, values = bounds_in(bounds, wrapper)
        if wrapper is Wrapper.NULL or not rows.size:
            continue
        if wrapper is Wrapper.ARRAY:
            types[runs[rows]] = 2  # nobody says how arrays compare
            continue
        if wrapper is Wrapper.BYTES:
            values = _comparable(values, is_decimal[rows])
        table = pa.table({"run": pa.array(runs[rows]), "value": values})
        row_order = pc.sort_indices(table, [("run", "ascending"), ("value", order)]).to_numpy()
        mine, first = np.unique(runs[rows][row_order], return_index=True)
        picks[mine] = rows[row_order[first]]
        types[mine] += 1
    return picks, types < 2


def _comparable(values: pa.Array, is_decimal: Flags) -> pa.Array:
    """Bytes that compare like the decimals in them: as long as each other, the sign turned."""
    if not is_decimal.any():
        return values
    texts = values.to_pylist()
    width = max(map(len, texts))
    half = 1 << (8 * width - 1)
    numbers = (int.from_bytes(text, "big", signed=True) + half for text in texts)
    sortable_numbers = [number.to_bytes(width, "big") for number in numbers]
    return pc.if_else(pa.array(is_decimal), pa.array(sortable_numbers, pa.binary()), values)


def _promote(bounds: pa.Array, runs: Ints) -> pa.Array:
    """Bounds of which those in one run, where they are numbers, are in one wrapper."""
    codes, _ = codes_and_offsets(bounds)
    is_number = np.isin(codes, _NUMBERS)
    is_wide = np.isin(codes, (Wrapper.FLOAT, Wrapper.DOUBLE))
    targets = codes.copy()
    differ = _differ(codes[is_number], runs[is_number])
    if not differ.size:
        return bounds
    needs_promotion = is_number & np.isin(runs, differ)
    targets[needs_promotion] = Wrapper.LONG
    targets[needs_promotion & np.isin(runs, runs[is_wide])] = Wrapper.DOUBLE
    values: dict[Wrapper, pa.Array] = {}
    for target in map(Wrapper, np.unique(targets[targets > 0]).tolist()):
        parts, places = [], []
        for wrapper in map(Wrapper, np.unique(codes[targets == target]).tolist()):
            rows, inside = bounds_in(bounds, wrapper)
            has_target = targets[rows] == target
            inside = inside.filter(pa.array(has_target))
            parts.append(inside if wrapper is target else inside.cast(_WIDE[target], safe=False))
            places.append(rows[has_target])
        order = np.argsort(np.concatenate(places))
        values[target] = pa.concat_arrays(parts).take(pa.array(order))
    return make_bounds(targets, values)


def _differ(codes: npt.NDArray[np.int8], runs: Ints) -> Ints:
    """The runs that have several codes."""
    pairs = np.unique(runs * len(Wrapper) + codes)
    numbers, counts = np.unique(pairs // len(Wrapper), return_counts=True)
    return numbers[counts > 1]
