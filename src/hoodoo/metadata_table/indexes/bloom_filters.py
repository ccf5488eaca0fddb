"""Partitions `record_index` and `bloom_filters`, and the way of entries to their file groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from hoodoo.format.metadata_table.bloom_filters import BLOOM_FILTERS
from hoodoo.format.metadata_table.keys import bloom_filter_keys
from hoodoo.metadata_table.entries.merge import sort_entries
from hoodoo.model.instant import InstantTime
from hoodoo.model.paths import PartitionPath


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
