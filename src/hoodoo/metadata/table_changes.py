"""What an action of the table changes in each partition of its metadata table. Pure.

commit, delta commit,    files, statistics and bloom filters of the files that it wrote; the ranges
replace commit           of a partition are widened by those of the files, never narrowed; keys that
                         are in other file groups by now, and keys that are gone
clean                    files, statistics and bloom filters of the files that it deleted; no keys
restore                  the difference of the listing and of what is stored
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from hoodoo.format.metadata.keys import bloom_filter_keys
from hoodoo.format.metadata.value_types import ColumnType
from hoodoo.metadata.column_changes import (
    column_stats,
    column_stats_deletes,
    partition_stats,
    partition_stats_deletes,
)
from hoodoo.metadata.file_changes import changes_of_clean, changes_of_restore
from hoodoo.metadata.file_facts import FileFacts
from hoodoo.metadata.key_changes import bloom_filter_entries
from hoodoo.metadata.merge import Batch
from hoodoo.model.commit import CleanMetadata
from hoodoo.model.instant import InstantTime
from hoodoo.model.metadata_table import BLOOM_FILTERS, COLUMN_STATS, FILES, PARTITION_STATS
from hoodoo.model.paths import PartitionPath


@dataclass(frozen=True, slots=True)
class IndexedColumns:
    """The columns that have statistics, and how bounds of each are written."""

    types: Mapping[str, ColumnType]
    schema: pa.Schema
    """Of these columns."""


def index_changes(
    partitions: Collection[str], time: InstantTime, facts: FileFacts, columns: IndexedColumns
) -> dict[str, Batch]:
    """What new files add to the indexes among these partitions."""
    changes = {}
    if COLUMN_STATS in partitions:
        changes[COLUMN_STATS] = Batch(column_stats(facts.ranges, columns.types, columns.schema))
    if PARTITION_STATS in partitions:
        # Not tight: merging widens what is known. Tight bounds would take a look at all files of
        # the partition under the lock.
        stats = partition_stats(facts.ranges, columns.types, columns.schema, is_tight=False)
        changes[PARTITION_STATS] = Batch(stats)
    if BLOOM_FILTERS in partitions:
        entries = bloom_filter_entries(facts.filters, instant_time=time)
        changes[BLOOM_FILTERS] = Batch(entries)
    return {partition: batch for partition, batch in changes.items() if not _is_empty(batch)}


def clean_changes(
    partitions: Collection[str], clean: CleanMetadata, columns: IndexedColumns
) -> dict[str, Batch]:
    """What a clean takes out."""
    deleted = {
        partition: [path.rpartition("/")[2] for path in part.delete_path_patterns]
        for partition, part in clean.partition_metadata.items()
    }
    dropped = [
        partition
        for partition, part in clean.partition_metadata.items()
        if part.is_partition_deleted
    ]
    changes = {FILES: changes_of_clean(clean)} if FILES in partitions else {}
    return changes | index_deletes(partitions, deleted, columns, dropped=dropped)


def restore_changes(
    partitions: Collection[str],
    listed: Mapping[PartitionPath, Mapping[str, int]],
    stored: Mapping[PartitionPath, Mapping[str, int]],
    columns: IndexedColumns,
) -> dict[str, Batch]:
    """What a restore changes: the difference of the listing and of what is stored."""
    gone = {
        partition: [name for name in names if name not in stored.get(partition, {})]
        for partition, names in listed.items()
    }
    dropped = [partition for partition in listed if partition not in stored]
    changes = {FILES: changes_of_restore(listed, stored)} if FILES in partitions else {}
    return changes | index_deletes(partitions, gone, columns, dropped=dropped)


def index_deletes(
    partitions: Collection[str],
    deleted: Mapping[PartitionPath, Collection[str]],
    columns: IndexedColumns,
    *,
    dropped: Iterable[PartitionPath] = (),
) -> dict[str, Batch]:
    """What goes from the indexes with these files, and with partitions that are dropped."""
    names = list(columns.types)
    changes = {}
    if COLUMN_STATS in partitions:
        lists = {partition: list(files) for partition, files in deleted.items()}
        changes[COLUMN_STATS] = Batch(deleted=column_stats_deletes(lists, names))
    if PARTITION_STATS in partitions:
        changes[PARTITION_STATS] = Batch(deleted=partition_stats_deletes(list(dropped), names))
    if BLOOM_FILTERS in partitions:
        pairs = [(one, name) for one, files in deleted.items() for name in files]
        keys = bloom_filter_keys(
            partitions=pa.array([one for one, _ in pairs], pa.string()),
            file_names=pa.array([name for _, name in pairs], pa.string()),
        )
        changes[BLOOM_FILTERS] = Batch(deleted=keys)
    return {partition: batch for partition, batch in changes.items() if not _is_empty(batch)}


def _is_empty(batch: Batch) -> bool:
    has_entries = batch.entries is not None and batch.entries.num_rows
    return not has_entries and not (batch.deleted is not None and len(batch.deleted))
