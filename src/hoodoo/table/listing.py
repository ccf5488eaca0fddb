"""Finding a table's data files by listing its directories."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hoodoo.env import Env
from hoodoo.errors import FormatError
from hoodoo.model.files import DataFile, parse_data_file
from hoodoo.model.keys import KeyRule
from hoodoo.model.lister import Keep, everything
from hoodoo.model.paths import META, PARTITION_METADATA, PartitionPath
from hoodoo.storage.storage import ObjectInfo


class DirectoryLister:
    """Lists directories: right for any table, slow for very large ones."""

    def __init__(self, env: Env, keys: KeyRule) -> None:
        self._storage = env.storage
        self._keys = keys

    def files(self, keep: Keep = everything) -> Iterator[DataFile]:
        """Data files of the partitions that `keep` wants."""
        if not self._keys.is_partitioned:
            yield from data_files(PartitionPath(""), self._storage.list(""))
            return
        for partition, entries in self._by_partition(keep):
            if keep(partition, whole=True):
                yield from data_files(partition, entries)

    def partitions(self) -> list[PartitionPath]:
        """Directories that hold data files or partition metadata, sorted."""
        if not self._keys.is_partitioned:
            return [PartitionPath("")]
        return sorted(partition for partition, _ in self._by_partition(everything))

    def _by_partition(self, keep: Keep) -> Iterator[tuple[PartitionPath, list[ObjectInfo]]]:
        for top in self._storage.list_directories(""):
            if top == META or not keep(PartitionPath(top), whole=False):
                continue
            # Sorted by path, so files of a directory may be interrupted by sub-directories.
            grouped: dict[PartitionPath, list[ObjectInfo]] = {}
            for entry in self._storage.list(top, recursive=True):
                directory, _, name = entry.path.rpartition("/")
                if name.startswith(PARTITION_METADATA) or _is_data(name):
                    grouped.setdefault(PartitionPath(directory), []).append(entry)
            yield from grouped.items()


def _is_data(name: str) -> bool:
    return name.endswith((".parquet", ".orc", ".hfile", ".lance")) or ".log." in name


def data_files(partition: PartitionPath, entries: Iterable[ObjectInfo]) -> Iterator[DataFile]:
    """The data files among the files of one partition's directory."""
    for entry in entries:
        name = entry.path.rpartition("/")[2]
        if name.startswith(PARTITION_METADATA) or name.endswith(".crc"):
            continue
        file = parse_data_file(partition, name, entry.size_bytes)
        if file is not None:
            yield file
        elif name.endswith(".parquet") and not name.startswith("."):
            # Apache Hudi fails on such a file too; passing over it could hide data.
            raise FormatError("a Parquet file whose name is not a base file's", source=entry.path)
