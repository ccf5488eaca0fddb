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

from hoodoo.format.metadata_table.column_stats import ColumnType
from hoodoo.format.metadata_table.keys import bloom_filter_keys
from hoodoo.metadata_table.entries.merge import EntryBatch
from hoodoo.metadata_table.indexes.bloom_filters import bloom_filter_entries
from hoodoo.metadata_table.indexes.column_stats import (
    column_stats,
    column_stats_deletes,
    partition_stats,
    partition_stats_deletes,
)
from hoodoo.metadata_table.indexes.file_facts import FileStatistics
from hoodoo.metadata_table.indexes.files import changes_of_clean, changes_of_restore
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
    partitions: Collection[str], time: InstantTime, facts: FileStatistics, columns: IndexedColumns
) -> dict[str, EntryBatch]:
    """What new files add to the indexes among these partitions."""
    changes = {}
    if COLUMN_STATS in partitions:
        changes[COLUMN_STATS] = EntryBatch(
            column_stats(facts.ranges, columns.types, columns.schema)
        )
    if PARTITION_STATS in partitions:
        # Not tight: merging widens what is known. Tight bounds would take a look at all files of
        # the partition under the lock.
        stats = partition_stats(facts.ranges, columns.types, columns.schema, is_tight=False)
        changes[PARTITION_STATS] = EntryBatch(stats)
    if BLOOM_FILTERS in partitions:
        entries = bloom_filter_entries(facts.filters, instant_time=time)
        changes[BLOOM_FILTERS] = EntryBatch(entries)
    return {partition: batch for partition, batch in changes.items() if not _is_empty(batch)}


def clean_changes(
    partitions: Collection[str], clean: CleanMetadata, columns: IndexedColumns
) -> dict[str, EntryBatch]:
    """What a clean takes out."""
    deleted_files = {
        partition: [path.rpartition("/")[2] for path in part.delete_path_patterns]
        for partition, part in clean.partition_metadata.items()
    }
    dropped_partitions = [
        partition
        for partition, part in clean.partition_metadata.items()
        if part.is_partition_deleted
    ]
    changes = {FILES: changes_of_clean(clean)} if FILES in partitions else {}
    return changes | index_deletes(
        partitions, deleted_files, columns, dropped_partitions=dropped_partitions
    )


def restore_changes(
    partitions: Collection[str],
    recorded_files: Mapping[PartitionPath, Mapping[str, int]],
    stored_files: Mapping[PartitionPath, Mapping[str, int]],
    columns: IndexedColumns,
) -> dict[str, EntryBatch]:
    """What a restore changes: the difference of the listing and of what is stored."""
    deleted_files = {
        partition: [name for name in names if name not in stored_files.get(partition, {})]
        for partition, names in recorded_files.items()
    }
    dropped_partitions = [
        partition for partition in recorded_files if partition not in stored_files
    ]
    changes = (
        {FILES: changes_of_restore(recorded_files, stored_files)} if FILES in partitions else {}
    )
    return changes | index_deletes(
        partitions, deleted_files, columns, dropped_partitions=dropped_partitions
    )


def index_deletes(
    partitions: Collection[str],
    deleted_files: Mapping[PartitionPath, Collection[str]],
    columns: IndexedColumns,
    *,
    dropped_partitions: Iterable[PartitionPath] = (),
) -> dict[str, EntryBatch]:
    """What goes from the indexes with these files, and with partitions that are dropped."""
    names = list(columns.types)
    changes = {}
    if COLUMN_STATS in partitions:
        lists = {partition: list(files) for partition, files in deleted_files.items()}
        changes[COLUMN_STATS] = EntryBatch(deleted_keys=column_stats_deletes(lists, names))
    if PARTITION_STATS in partitions:
        changes[PARTITION_STATS] = EntryBatch(
            deleted_keys=partition_stats_deletes(list(dropped_partitions), names)
        )
    if BLOOM_FILTERS in partitions:
        pairs = [(one, name) for one, files in deleted_files.items() for name in files]
        keys = bloom_filter_keys(
            partitions=pa.array([one for one, _ in pairs], pa.string()),
            file_names=pa.array([name for _, name in pairs], pa.string()),
        )
        changes[BLOOM_FILTERS] = EntryBatch(deleted_keys=keys)
    return {partition: batch for partition, batch in changes.items() if not _is_empty(batch)}


def _is_empty(batch: EntryBatch) -> bool:
    has_entries = batch.entries is not None and batch.entries.num_rows
    return not has_entries and not (batch.deleted_keys is not None and len(batch.deleted_keys))
