"""Partition `files`: what an action of the table adds to its listing, and takes out of it.

commit        the partitions that it wrote to, and its files; replaced files stay until cleaned
clean         its files as deleted; a partition that is gone: its key, and its name as deleted
rollback      nothing: the log files of the instant are deleted from the metadata table
restore       the difference between the listing and what is on storage
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa

from hoodoo.errors import InputError
from hoodoo.format.metadata.file_lists import LISTED_FILES, gather
from hoodoo.format.metadata.keys import ALL_PARTITIONS, partition_name
from hoodoo.metadata.merge import Batch
from hoodoo.model.commit import CleanMetadata, CommitMetadata
from hoodoo.model.paths import PartitionPath


def file_changes(
    added: Mapping[PartitionPath, Mapping[str, int]],
    deleted: Mapping[PartitionPath, Iterable[str]] | None = None,
    *,
    dropped: Iterable[PartitionPath] = (),
    lists_partitions: bool = True,
) -> Batch:
    """Entries for new files with their sizes, deleted ones, and partitions that are dropped."""
    gone = [partition_name(partition) for partition in dropped]
    rows: list[tuple[str, str, int, bool]] = []
    keys: dict[str, None] = {}
    if lists_partitions or gone:
        keys[ALL_PARTITIONS] = None
        rows += ((ALL_PARTITIONS, partition_name(one), 0, False) for one in added)
        rows += ((ALL_PARTITIONS, name, 0, True) for name in gone)
    for partition, sizes in added.items():
        key = partition_name(partition)
        keys[key] = None
        for name, size in sizes.items():
            if size <= 0:
                raise InputError(f"file {name} of partition {key} has {size} bytes")
            rows.append((key, name, size, False))
    for partition, names in (deleted or {}).items():
        key = partition_name(partition)
        if key not in gone:  # an entry would bring its key back
            keys[key] = None
            rows += ((key, name, 0, True) for name in names)
    columns = list(zip(*rows, strict=True)) or [()] * len(LISTED_FILES)
    listed = pa.table(
        [pa.array(c, f.type) for c, f in zip(columns, LISTED_FILES, strict=True)], LISTED_FILES
    )
    return Batch(gather(listed, pa.array(list(keys), pa.string())), pa.array(gone, pa.string()))


def changes_of_commit(commit: CommitMetadata) -> Batch:
    """What a commit of any kind adds."""
    added: dict[PartitionPath, dict[str, int]] = {}
    for partition, stats in commit.partition_to_write_stats.items():
        sizes = added.setdefault(partition, {})
        for stat in stats:
            written = dict(stat.cdc_stats or {})
            if stat.path:
                written[stat.path] = stat.file_size_in_bytes
            for path, size in written.items():
                name = path.rpartition("/")[2]
                sizes[name] = max(size, sizes.get(name, 0))
    return file_changes(added)


def changes_of_clean(clean: CleanMetadata) -> Batch:
    """What a clean takes out: all that it set out to delete, whether it could or not."""
    deleted: dict[PartitionPath, dict[str, None]] = {}
    dropped = []
    for partition, part in clean.partition_metadata.items():
        paths = (*part.delete_path_patterns, *part.success_delete_files)
        deleted[partition] = dict.fromkeys(path.rpartition("/")[2] for path in paths)
        if part.is_partition_deleted:
            dropped.append(partition)
    return file_changes({}, deleted, dropped=dropped, lists_partitions=False)


def changes_of_restore(
    listed: Mapping[PartitionPath, Mapping[str, int]],
    stored: Mapping[PartitionPath, Mapping[str, int]],
) -> Batch:
    """What makes a listing of live files equal to the files that storage has."""
    added: dict[PartitionPath, dict[str, int]] = {}
    deleted: dict[PartitionPath, list[str]] = {}
    for partition, files in stored.items():
        known = listed.get(partition, {})
        missing = {name: size for name, size in files.items() if known.get(name, 0) < size}
        if missing or partition not in listed:
            added[partition] = missing
    for partition, known in listed.items():
        gone = [name for name in known if name not in stored.get(partition, {})]
        if gone:
            deleted[partition] = gone
    dropped = [partition for partition in listed if partition not in stored]
    return file_changes(added, deleted, dropped=dropped)
