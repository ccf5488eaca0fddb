"""What the entries of a file group come to: those of its base file and of its logs, in order.

    files                 each file of an entry on its own: a live file takes the larger size; a
                          deletion removes a live file, and is kept where there is none to remove
    column_stats,         a tight or deleted entry, or one after a deleted one, stands for itself;
    partition_stats       others widen the bounds and add to the counts
    all other partitions  the newest entry of a key
    deleted keys          whatever was there is gone; a later entry begins anew

Nothing is folded entry by entry: all entries are put one after another, and sorted by key.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.format.metadata.file_lists import explode, gather
from hoodoo.format.unions import empty_table

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Batch:
    """One step: keys that are deleted, and then entries that are written.

    Of a log file, each block is a step; a base file is a step without deleted keys.
    """

    entries: pa.Table | None = None
    deleted: pa.Array | None = None


@dataclass(frozen=True, slots=True)
class Events:
    """All entries of some batches, and which of them no later deletion undoes."""

    entries: pa.Table
    codes: Ints  # of each entry's key
    alive: Flags


def gather_events(batches: Sequence[Batch]) -> Events | None:
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
    deletions = [batch.deleted for batch in batches if batch.deleted is not None]
    keys = pa.chunked_array([*parts, *(keys.cast(pa.string()) for keys in deletions)], pa.string())
    codes = _codes(keys)
    alive = np.ones(count, bool)
    if len(keys) > count:
        deleted_at = np.full(int(codes.max()) + 1, -1)
        at = count
        for number, batch in enumerate(batches):
            if batch.deleted is not None:
                deleted_at[codes[at : at + len(batch.deleted)]] = number
                at += len(batch.deleted)
        # The entries of the step that deletes come after the deletion.
        alive = np.concatenate(steps) >= deleted_at[codes[:count]]
    return Events(entries, codes[:count], alive)


def _codes(keys: pa.ChunkedArray) -> Ints:
    encoded = keys.combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.unify_dictionaries().combine_chunks()
    codes: Ints = encoded.indices.to_numpy().astype(np.int64)
    return codes


def merge_newest(batches: Sequence[Batch]) -> pa.Table:
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


def _only_entries(batches: Sequence[Batch]) -> pa.Table | None:
    """The entries of the one batch that has any, if none are deleted: a base file without logs."""
    full = [batch for batch in batches if batch.deleted is not None or _count(batch)]
    return full[0].entries if len(full) == 1 and full[0].deleted is None else None


def _count(batch: Batch) -> int:
    return 0 if batch.entries is None else batch.entries.num_rows


def _are_rising(keys: pa.ChunkedArray) -> bool:
    """Whether keys are sorted, each of them once."""
    whole = keys.combine_chunks()
    return len(whole) < 2 or bool(pc.all(pc.less(whole[:-1], whole[1:])).as_py())


def empty_entries(batches: Iterable[Batch]) -> pa.Table:
    """No entries, in the columns that they would have."""
    schemas = [batch.entries.schema for batch in batches if batch.entries is not None]
    assert schemas, "a merge needs a base, be it empty"
    return empty_table(schemas[0])


def sort_entries(entries: pa.Table) -> pa.Table:
    """Entries by key, as HFiles want them: texts sort like their UTF-8 bytes."""
    keys = entries["key"].combine_chunks()
    return entries.take(pc.sort_indices(keys)).combine_chunks()


def merge_file_lists(batches: Sequence[Batch]) -> pa.Table:
    """Entries of `files`: one per key, sorted, each with all its files."""
    events = gather_events(batches)
    if events is None:
        return empty_entries(batches)
    entries = events.entries.filter(pa.array(events.alive))
    listed = explode(entries).combine_chunks()
    keys = pc.unique(entries["key"].combine_chunks())
    if not listed.num_rows:
        return gather(listed, keys)
    key_codes = _codes(listed["key"])
    groups = key_codes * listed.num_rows + _codes(listed["name"])
    rows, sizes, deleted = _fold_files(
        groups, listed["size_bytes"].to_numpy(), listed["is_deleted"].to_numpy()
    )
    listed = listed.take(pa.array(rows))
    columns = [listed["key"], listed["name"], pa.array(sizes), pa.array(deleted)]
    return gather(pa.table(columns, listed.schema), keys)


def _fold_files(groups: Ints, sizes: Ints, deleted: Flags) -> tuple[Ints, Ints, Flags]:
    """Of each group of versions, in order: the last row, the size, and whether it is deleted.

    Groups whose last deletion removed what was there are left out.
    """
    order = np.argsort(groups, kind="stable")
    groups, sizes, deleted = groups[order], sizes[order], deleted[order]
    count = len(order)
    is_first = np.ones(count, bool)
    is_first[1:] = groups[1:] != groups[:-1]
    changes = is_first.copy()
    changes[1:] |= deleted[1:] != deleted[:-1]
    is_last = np.ones(count, bool)
    is_last[:-1] = is_first[1:]
    ends = is_last.nonzero()[0]
    # The last versions that are all live, or all deleted, begin here.
    starts = np.maximum.accumulate(np.where(changes, np.arange(count), 0))[ends]
    gone = deleted[ends] & (starts == ends) & ~is_first[starts]
    bounds = np.column_stack((starts, ends + 1)).ravel()
    padded = np.append(sizes, 0)
    largest = np.maximum.reduceat(padded, bounds)[0::2]
    kept = ~gone
    ends = ends[kept]
    return order[ends], np.where(deleted[ends], 0, largest[kept]), deleted[ends]
