"""Merging statistics of columns: the bounds that hold for several entries, and their sums.

A bound that is not there says nothing, and is passed over. Whole numbers and fractions are
compared after a change of the column's type; where other types meet, the entry is dropped: a file
without statistics is read.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.format.metadata.column_stats import bounds_in, make_bounds
from hoodoo.format.metadata.schema import Wrapper
from hoodoo.format.metadata.value_types import ValueType
from hoodoo.format.unions import codes_and_offsets
from hoodoo.metadata.merge import Batch, empty_entries, gather_events, sort_entries

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_SUMS = ("value_count", "null_count", "size_bytes", "uncompressed_bytes")
_NUMBERS = (Wrapper.INT, Wrapper.LONG, Wrapper.FLOAT, Wrapper.DOUBLE)
_WIDE = {Wrapper.LONG: pa.int64(), Wrapper.DOUBLE: pa.float64()}


def merge_column_stats(batches: Sequence[Batch]) -> pa.Table:
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
    deleted = _flags(entries["is_deleted"])
    starts |= deleted | _flags(entries["is_tight_bound"])
    starts[1:] |= deleted[:-1]
    ends = is_last.nonzero()[0]
    begins = np.maximum.accumulate(np.where(starts, np.arange(count), 0))[ends]
    alone = entries.take(pa.array(ends[begins == ends]))
    several = begins < ends
    if not several.any():
        return sort_entries(alone)
    widened = _widen(entries, begins[several], ends[several])
    return sort_entries(pa.concat_tables([alone, widened]))


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
    merged = {name: entries[name].combine_chunks().take(lasts) for name in entries.column_names}
    for name in _SUMS:
        merged[name] = _add(entries[name].combine_chunks(), firsts)
    told = _pick_types(entries["value_type"].combine_chunks(), firsts, sizes)
    for name in ("value_type", "value_type_info"):
        merged[name] = entries[name].combine_chunks().take(pa.array(told))
    is_decimal = pc.fill_null(pc.equal(entries["value_type"], int(ValueType.DECIMAL)), False)
    fits = np.ones(len(begins), bool)
    for name, order in (("min_value", "ascending"), ("max_value", "descending")):
        bounds = _promote(entries[name].combine_chunks(), runs)
        picks, fit = _pick_bounds(bounds, runs, firsts, _flags(is_decimal), order)
        merged[name] = bounds.take(pa.array(picks))
        fits &= fit
    made = pa.table([merged[name] for name in entries.column_names], entries.schema)
    return made.filter(pa.array(fits))


def _add(numbers: pa.Array, firsts: Ints) -> pa.Array:
    totals = np.add.reduceat(numbers.fill_null(0).to_numpy(), firsts)
    known = np.logical_or.reduceat(numbers.is_valid().to_numpy(zero_copy_only=False), firsts)
    return pa.array(totals, mask=~known)


def _pick_types(types: pa.Array, firsts: Ints, sizes: Ints) -> Ints:
    """For each run the last row that tells a type, or else its last row."""
    tells = pc.fill_null(pc.greater(types, int(ValueType.NULL)), False)
    places = np.where(tells.to_numpy(zero_copy_only=False), np.arange(len(types)), -1)
    told = np.maximum.reduceat(places, firsts)
    return np.where(told < 0, firsts + sizes - 1, told)


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
        sorted_ = pc.sort_indices(table, [("run", "ascending"), ("value", order)]).to_numpy()
        mine, first = np.unique(runs[rows][sorted_], return_index=True)
        picks[mine] = rows[sorted_[first]]
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
    turned = [number.to_bytes(width, "big") for number in numbers]
    return pc.if_else(pa.array(is_decimal), pa.array(turned, pa.binary()), values)


def _promote(bounds: pa.Array, runs: Ints) -> pa.Array:
    """Bounds of which those in one run, where they are numbers, are in one wrapper."""
    codes, _ = codes_and_offsets(bounds)
    is_number = np.isin(codes, _NUMBERS)
    is_wide = np.isin(codes, (Wrapper.FLOAT, Wrapper.DOUBLE))
    targets = codes.copy()
    differ = _differ(codes[is_number], runs[is_number])
    if not differ.size:
        return bounds
    mixed = is_number & np.isin(runs, differ)
    targets[mixed] = Wrapper.LONG
    targets[mixed & np.isin(runs, runs[is_wide])] = Wrapper.DOUBLE
    values: dict[Wrapper, pa.Array] = {}
    for target in map(Wrapper, np.unique(targets[targets > 0]).tolist()):
        parts, places = [], []
        for wrapper in map(Wrapper, np.unique(codes[targets == target]).tolist()):
            rows, inside = bounds_in(bounds, wrapper)
            chosen = targets[rows] == target
            inside = inside.filter(pa.array(chosen))
            parts.append(inside if wrapper is target else inside.cast(_WIDE[target], safe=False))
            places.append(rows[chosen])
        order = np.argsort(np.concatenate(places))
        values[target] = pa.concat_arrays(parts).take(pa.array(order))
    return make_bounds(targets, values)


def _differ(codes: npt.NDArray[np.int8], runs: Ints) -> Ints:
    """The runs that have several codes."""
    pairs = np.unique(runs * len(Wrapper) + codes)
    numbers, counts = np.unique(pairs // len(Wrapper), return_counts=True)
    return numbers[counts > 1]
