"""Partition `files` of the metadata table: reading a table's listing from it, and changing it.

`MetadataLister` reads partitions and data files. Whether a file counts is decided by its instant,
as for files of a directory. A small listing is read as a whole; of a large one, only the partitions
that the reader asks for. The other functions make the entries by which an action changes the
listing:

    commit        the partitions that it wrote to, and its files; replaced files stay until cleaned
    clean         its files as deleted; a partition that is gone: its key, and its name as deleted
    rollback      nothing: the log files of the instant are deleted from the metadata table
    restore       the difference between the listing and what is on storage
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.errors import FormatError, InputError
from hoodoo.format.metadata_table.files import LISTED_FILES, explode, gather
from hoodoo.format.metadata_table.keys import ALL_PARTITIONS, ROOT, partition_name, partition_path
from hoodoo.metadata_table.entries.merge import EntryBatch
from hoodoo.metadata_table.entries.read import find_entries, read_entries
from hoodoo.metadata_table.table import MetadataTable, PartitionFiles
from hoodoo.model.commit import CleanMetadata, CommitMetadata
from hoodoo.model.files import DataFile, PartitionPredicate, all_partitions, parse_data_files
from hoodoo.model.metadata_table import FILES
from hoodoo.model.paths import METADATA_TABLE, PartitionPath, join
from hoodoo.runtime.engine import Engine

# -- reading the listing ------------------------------------------------------------------------


_READ_WHOLE_BYTES = 2 << 20  # in about the time of a second request


class MetadataLister:
    """Lists by the metadata table; `FormatError` or `ObjectNotFound` where it is damaged."""

    def __init__(
        self, table: MetadataTable, *, is_partitioned: bool, engine: Engine | None = None
    ) -> None:
        self._table = table
        self._is_partitioned = is_partitioned
        self._engine = engine

    def files(self, keep: PartitionPredicate = all_partitions) -> list[DataFile]:
        """Data files of the partitions that `keep` wants."""
        source = self._table.load_partition(FILES)
        if not self._is_partitioned:
            lists = self._find(source, [ALL_PARTITIONS, ROOT])
        elif keep is all_partitions or _size(source) <= _READ_WHOLE_BYTES:
            lists = read_entries(self._table, source, engine=self._engine)
        else:
            lists = self._find(source, [ALL_PARTITIONS])
            names = [partition_name(path) for path in _partitions(lists)]
            partition_names = [name for name in names if _is_wanted(name, keep)]
            lists = pa.concat_tables([lists, self._find(source, partition_names)])
        stored_names = {partition_name(path) for path in _partitions(lists)}
        partition_names = sorted(
            name for name in stored_names if not self._is_partitioned or _is_wanted(name, keep)
        )
        return _data_files(
            lists.filter(pc.is_in(lists["key"], pa.array(partition_names, pa.string())))
        )

    def partitions(self) -> list[PartitionPath]:
        """The partitions, sorted; one without a name if the table has none."""
        if not self._is_partitioned:
            return [PartitionPath("")]
        source = self._table.load_partition(FILES)
        return sorted(_partitions(self._find(source, [ALL_PARTITIONS])))

    def _find(self, source: PartitionFiles, keys: list[str]) -> pa.Table:
        key_array = pa.array(keys, pa.string())
        return find_entries(self._table, source, key_array, engine=self._engine)


def _size(source: PartitionFiles) -> int:
    return sum(one.size_bytes for one in source.slices)


def _is_wanted(name: str, keep: PartitionPredicate) -> bool:
    return keep(PartitionPath(partition_path(name)), whole=True)


def _partitions(lists: pa.Table) -> list[PartitionPath]:
    partition_lists = lists.filter(pc.equal(lists["key"], ALL_PARTITIONS))
    if not partition_lists.num_rows:
        place = join(METADATA_TABLE, FILES)
        raise FormatError(f"there is no entry {ALL_PARTITIONS} in it", source=place)
    live = explode(partition_lists)
    live = live.filter(pc.invert(live["is_deleted"]))
    return [PartitionPath(partition_path(name)) for name in live["name"].to_pylist()]


def _data_files(lists: pa.Table) -> list[DataFile]:
    """The live files of these entries."""
    file_rows = explode(lists)
    if pc.any(file_rows["is_deleted"]).as_py():
        file_rows = file_rows.filter(pc.invert(file_rows["is_deleted"]))
    keys = file_rows["key"].combine_chunks().dictionary_encode()
    paths = [PartitionPath(partition_path(key)) for key in keys.dictionary.to_pylist()]
    names = _texts(file_rows["name"])
    sizes: list[int] = file_rows["size_bytes"].to_numpy().tolist()
    files = parse_data_files(map(paths.__getitem__, keys.indices.to_numpy().tolist()), names, sizes)
    if None not in files:
        return cast(list[DataFile], files)
    for name, file in zip(names, files, strict=True):
        if file is None and name.endswith(".parquet"):
            place = join(METADATA_TABLE, FILES)
            raise FormatError(f"{name!r} is not the name of a data file", source=place)
    return [file for file in files if file is not None]


def _texts(names: pa.ChunkedArray) -> list[str]:
    """The names; Python cuts a long text more quickly than it takes texts from Arrow."""
    array = names.combine_chunks()
    whole = pa.ListArray.from_arrays(pa.array([0, len(array)], pa.int32()), array)
    texts: list[str] = pc.binary_join(whole, "\n")[0].as_py().split("\n")
    return texts if len(texts) == len(array) else names.to_pylist()


# -- changing the listing -----------------------------------------------------------------------


def file_changes(
    new_files: Mapping[PartitionPath, Mapping[str, int]],
    deleted_files: Mapping[PartitionPath, Iterable[str]] | None = None,
    *,
    dropped_partitions: Iterable[PartitionPath] = (),
    lists_partitions: bool = True,
) -> EntryBatch:
    """Entries for new files with their sizes, deleted ones, and partitions that are dropped."""
    dropped_names = [partition_name(partition) for partition in dropped_partitions]
    rows: list[tuple[str, str, int, bool]] = []
    keys: dict[str, None] = {}
    if lists_partitions or dropped_names:
        keys[ALL_PARTITIONS] = None
        rows += ((ALL_PARTITIONS, partition_name(one), 0, False) for one in new_files)
        rows += ((ALL_PARTITIONS, name, 0, True) for name in dropped_names)
    for partition, sizes in new_files.items():
        key = partition_name(partition)
        keys[key] = None
        for name, size in sizes.items():
            if size <= 0:
                raise InputError(f"file {name} of partition {key} has {size} bytes")
            rows.append((key, name, size, False))
    for partition, names in (deleted_files or {}).items():
        key = partition_name(partition)
        if key not in dropped_names:  # an entry would bring its key back
            keys[key] = None
            rows += ((key, name, 0, True) for name in names)
    columns = list(zip(*rows, strict=True)) or [()] * len(LISTED_FILES)
    file_rows = pa.table(
        [pa.array(c, f.type) for c, f in zip(columns, LISTED_FILES, strict=True)], LISTED_FILES
    )
    return EntryBatch(
        gather(file_rows, pa.array(list(keys), pa.string())), pa.array(dropped_names, pa.string())
    )


def changes_of_commit(commit: CommitMetadata) -> EntryBatch:
    """What a commit of any kind adds."""
    new_files: dict[PartitionPath, dict[str, int]] = {}
    for partition, stats in commit.partition_to_write_stats.items():
        sizes = new_files.setdefault(partition, {})
        for stat in stats:
            sizes_by_path = dict(stat.cdc_stats or {})
            if stat.path:
                sizes_by_path[stat.path] = stat.file_size_in_bytes
            for path, size in sizes_by_path.items():
                name = path.rpartition("/")[2]
                sizes[name] = max(size, sizes.get(name, 0))
    return file_changes(new_files)


def changes_of_clean(clean: CleanMetadata) -> EntryBatch:
    """What a clean takes out: all that it set out to delete, whether it could or not."""
    deleted_files: dict[PartitionPath, dict[str, None]] = {}
    dropped_partitions = []
    for partition, part in clean.partition_metadata.items():
        paths = (*part.delete_path_patterns, *part.success_delete_files)
        deleted_files[partition] = dict.fromkeys(path.rpartition("/")[2] for path in paths)
        if part.is_partition_deleted:
            dropped_partitions.append(partition)
    return file_changes(
        {}, deleted_files, dropped_partitions=dropped_partitions, lists_partitions=False
    )


def changes_of_restore(
    recorded_files: Mapping[PartitionPath, Mapping[str, int]],
    stored_files: Mapping[PartitionPath, Mapping[str, int]],
) -> EntryBatch:
    """What makes a listing of live files equal to the files that storage has."""
    new_files: dict[PartitionPath, dict[str, int]] = {}
    deleted_files: dict[PartitionPath, list[str]] = {}
    for partition, files in stored_files.items():
        recorded_sizes = recorded_files.get(partition, {})
        missing = {name: size for name, size in files.items() if recorded_sizes.get(name, 0) < size}
        if missing or partition not in recorded_files:
            new_files[partition] = missing
    for partition, recorded_sizes in recorded_files.items():
        deleted_names = [
            name for name in recorded_sizes if name not in stored_files.get(partition, {})
        ]
        if deleted_names:
            deleted_files[partition] = deleted_names
    dropped_partitions = [
        partition for partition in recorded_files if partition not in stored_files
    ]
    return file_changes(new_files, deleted_files, dropped_partitions=dropped_partitions)
