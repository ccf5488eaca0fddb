"""Partitions `record_index` and `bloom_filters`, and the way of entries to their file groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.format.metadata.keys import (
    Ints,
    bloom_filter_keys,
    file_group_numbers,
    secondary_values,
)
from hoodoo.format.metadata.record_index import LOCATIONS
from hoodoo.format.metadata.small_records import BLOOM_FILTERS
from hoodoo.metadata.merge import Batch, merge_newest, sort_entries
from hoodoo.model.instant import InstantTime
from hoodoo.model.metadata_table import SECONDARY_INDEX_PREFIX
from hoodoo.model.paths import PartitionPath

Rows = TypeVar("Rows", pa.Table, pa.Array)


class KeyChanges(Protocol):
    """Keys that are in these file groups by now, and keys that left one."""

    @property
    def keys(self) -> pa.Array: ...

    @property
    def partitions(self) -> pa.Array: ...

    @property
    def file_ids(self) -> pa.Array: ...

    @property
    def deleted(self) -> pa.Array: ...


def record_index_changes(
    *,
    keys: pa.Array | pa.ChunkedArray,
    partitions: pa.Array | pa.ChunkedArray,
    file_ids: pa.Array | pa.ChunkedArray,
    instant_ms: int,
    deleted: pa.Array | None = None,
) -> Batch:
    """Where inserted and moved records are by now, and the keys of records that are gone.

    Of a key that comes several times, the last one counts; one that is also deleted is not.
    """
    count = len(keys)
    instants = pa.repeat(pa.scalar(instant_ms, pa.int64()), count)
    texts = [column.cast(pa.string()) for column in (keys, partitions, file_ids)]
    columns = [*texts, instants, pa.nulls(count, pa.int64())]
    entries = merge_newest([Batch(pa.table(columns, LOCATIONS))])
    gone = pa.array([], pa.string()) if deleted is None else pc.unique(deleted.cast(pa.string()))
    gone = gone.filter(pc.invert(pc.is_in(gone, entries["key"].combine_chunks())))
    return Batch(entries, gone.take(pc.sort_indices(gone)))


@dataclass(frozen=True, slots=True)
class FileFilter:
    """The bloom filter of a base file, as its footer has it."""

    partition: PartitionPath
    file_name: str
    type_code: str
    text: str


def bloom_filter_entries(filters: Sequence[FileFilter], *, instant_time: InstantTime) -> pa.Table:
    """Entries of `bloom_filters`, sorted; log files have no filter."""
    count = len(filters)
    keys = bloom_filter_keys(
        partitions=pa.array([one.partition for one in filters], pa.string()),
        file_names=pa.array([one.file_name for one in filters], pa.string()),
    )
    columns = [
        keys,
        pa.array([one.type_code for one in filters], pa.string()),
        pa.repeat(pa.scalar(str(instant_time)), count),
        pa.array([one.text.encode() for one in filters], pa.binary()),
        pa.repeat(False, count),
    ]
    return sort_entries(pa.table(columns, BLOOM_FILTERS))


def split_by_file_group(partition: str, batch: Batch, count: int) -> dict[int, Batch]:
    """What goes to each file group of a partition that has `count` of them, sorted by key."""
    entries, deleted = batch.entries, batch.deleted
    written, removed = np.zeros(count + 1, np.int64), np.zeros(count + 1, np.int64)
    if entries is not None:
        entries, written = _order(partition, entries, entries["key"].combine_chunks(), count)
    if deleted is not None:
        deleted, removed = _order(partition, deleted, deleted, count)
    parts = {}
    for number in ((np.diff(written) > 0) | (np.diff(removed) > 0)).nonzero()[0].tolist():
        first, last = written[number : number + 2].tolist()
        own = entries[first:last] if entries is not None else None
        first, last = removed[number : number + 2].tolist()
        parts[number] = Batch(own, deleted[first:last] if deleted is not None else None)
    return parts


def _order(partition: str, rows: Rows, keys: pa.Array, count: int) -> tuple[Rows, Ints]:
    """Rows by file group and key, and where each group begins and ends."""
    order = pc.sort_indices(keys).to_numpy()
    numbers = _numbers(partition, keys, count)[order]
    by_group = np.argsort(numbers, kind="stable")
    bounds = np.searchsorted(numbers[by_group], np.arange(count + 1))
    return rows.take(pa.array(order[by_group])), bounds


def _numbers(partition: str, keys: pa.Array, count: int) -> Ints:
    if partition.startswith(SECONDARY_INDEX_PREFIX):  # one value, one file group
        keys = secondary_values(keys)
    return file_group_numbers(keys, count)
