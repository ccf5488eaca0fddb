"""Partitions `record_index` and `bloom_filters`, and the way of entries to their file groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
    columns = [keys, partitions, file_ids, instants, pa.nulls(count, pa.int64())]
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
    entries = batch.entries
    deleted = batch.deleted if batch.deleted is not None else pa.array([], pa.string())
    written = np.empty(0, np.int64)
    if entries is not None:
        entries = sort_entries(entries)
        written = _numbers(partition, entries["key"].combine_chunks(), count)
    deleted = deleted.take(pc.sort_indices(deleted))
    removed = _numbers(partition, deleted, count)
    parts = {}
    for number in np.union1d(written, removed).tolist():
        own = None
        if entries is not None:
            own = entries.take(pa.array((written == number).nonzero()[0]))
        gone = deleted.take(pa.array((removed == number).nonzero()[0]))
        parts[number] = Batch(own, gone)
    return parts


def _numbers(partition: str, keys: pa.Array, count: int) -> Ints:
    if partition.startswith(SECONDARY_INDEX_PREFIX):  # one value, one file group
        keys = secondary_values(keys)
    return file_group_numbers(keys, count)
