"""A table's files and file groups, found by the metadata table, or else by directories.

`FileFinder` is the one place that decides. The metadata table is used if the table has a complete
one and the settings allow it; if it is damaged, or lacks a commit, `DirectoryLister` lists
directories instead, with a warning: that is slower, and right. `visible_groups` makes the file
groups as of a timeline; it needs no schema, and so no Arrow.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, TypeVar

from hoodoo.config.metadata_table import DATA_SKIPPING, METADATA_ENABLE
from hoodoo.errors import FormatError, StorageError, UnsupportedFeature
from hoodoo.metadata_table.table import MetadataTable, has_metadata_table, open_metadata_table
from hoodoo.model.files import (
    DataFile,
    FileGroup,
    FileGroupId,
    FileSlice,
    Lister,
    PartitionPredicate,
    Visibility,
    all_partitions,
    build_file_groups,
    depends_on_history,
    parse_data_file,
)
from hoodoo.model.instant import Action, Instant
from hoodoo.model.keys import KeyRule
from hoodoo.model.metadata_table import COLUMN_STATS, PARTITION_STATS
from hoodoo.model.paths import META, METADATA_TABLE, PARTITION_METADATA, PartitionPath
from hoodoo.model.predicate import Predicate
from hoodoo.runtime.engine import Engine
from hoodoo.runtime.env import Env
from hoodoo.storage.storage import ObjectInfo
from hoodoo.table.ref import TableRef
from hoodoo.table.timeline import Timeline, read_commit

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger("hoodoo.read")


# -- listing directories ------------------------------------------------------------------------


class DirectoryLister:
    """Lists directories: right for any table, slow for very large ones."""

    def __init__(self, env: Env, keys: KeyRule) -> None:
        self._storage = env.storage
        self._keys = keys

    def files(self, keep: PartitionPredicate = all_partitions) -> Iterator[DataFile]:
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
        return sorted(partition for partition, _ in self._by_partition(all_partitions))

    def _by_partition(
        self, keep: PartitionPredicate
    ) -> Iterator[tuple[PartitionPath, list[ObjectInfo]]]:
        for top in self._storage.list_directories(""):
            if top == META or not keep(PartitionPath(top), whole=False):
                continue
            # Sorted by path, so files of a directory may be interrupted by sub-directories.
            entries_by_partition: dict[PartitionPath, list[ObjectInfo]] = {}
            for entry in self._storage.list(top, recursive=True):
                directory, _, name = entry.path.rpartition("/")
                if name.startswith(PARTITION_METADATA) or _is_data(name):
                    entries_by_partition.setdefault(PartitionPath(directory), []).append(entry)
            yield from entries_by_partition.items()


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


# -- choosing the way to list -------------------------------------------------------------------


Answer = TypeVar("Answer")


class FileFinder:
    """Finds the files of a table as of a timeline. It opens the metadata table at most once."""

    def __init__(self, ref: TableRef, timeline: Timeline, engine: Engine | None = None) -> None:
        """`timeline` is the whole active timeline, loaded before."""
        self._ref = ref
        self._timeline = timeline
        self._engine = engine
        self._table: MetadataTable | None = None
        self._usable = ref.config.get(METADATA_ENABLE) and has_metadata_table(ref.properties)

    def files(self, keep: PartitionPredicate = all_partitions) -> Iterable[DataFile]:
        """Data files of the partitions that `keep` wants."""

        def by_metadata(table: MetadataTable) -> Iterable[DataFile]:
            from hoodoo.metadata_table.indexes.files import MetadataLister  # imports Arrow

            is_partitioned = self._ref.properties.keys.is_partitioned
            return MetadataLister(table, is_partitioned=is_partitioned, engine=self._engine).files(
                keep
            )

        files = self.try_metadata_table(by_metadata)
        return self._directories.files(keep) if files is None else files

    def partitions(self) -> list[PartitionPath]:
        """The partitions, sorted."""

        def by_metadata(table: MetadataTable) -> list[PartitionPath]:
            from hoodoo.metadata_table.indexes.files import MetadataLister  # imports Arrow

            is_partitioned = self._ref.properties.keys.is_partitioned
            return MetadataLister(table, is_partitioned=is_partitioned).partitions()

        partitions = self.try_metadata_table(by_metadata)
        return self._directories.partitions() if partitions is None else partitions

    def prune(
        self, slices: list[FileSlice], predicate: Predicate, schema: pa.Schema, view: Timeline
    ) -> list[FileSlice]:
        """The slices of a view that may have rows for which a bound predicate is true."""
        available = self._ref.properties.metadata_partitions
        uses_statistics = self._ref.config.get(DATA_SKIPPING) and len(slices) > 1
        if not uses_statistics or not {COLUMN_STATS, PARTITION_STATS}.intersection(available):
            return slices

        def by_metadata(table: MetadataTable) -> list[FileSlice]:
            from hoodoo.metadata_table.indexes.data_skipping import (
                find_matching_partitions,
                prune_slices,
            )

            matching_slices, engine = slices, self._engine
            partitions = sorted({one.group.partition for one in matching_slices})
            # Statistics of partitions are those of their newest files.
            if PARTITION_STATS in available and partitions[1:] and not table.is_ahead_of(view):
                matching_partitions = set(
                    find_matching_partitions(table, partitions, predicate, schema, engine=engine)
                )
                matching_slices = [
                    one for one in matching_slices if one.group.partition in matching_partitions
                ]
            if COLUMN_STATS in available and matching_slices:
                matching_slices = prune_slices(
                    table, matching_slices, predicate, schema, engine=engine
                )
            return matching_slices

        matching_slices = self.try_metadata_table(by_metadata)
        return slices if matching_slices is None else matching_slices

    def try_metadata_table(self, question: Callable[[MetadataTable], Answer]) -> Answer | None:
        """The metadata table's answer; None if there is none to be had."""
        if not self._usable:
            return None
        try:
            if self._table is None:
                self._table = open_current_metadata_table(self._ref, self._timeline)
            return question(self._table)
        except (FormatError, StorageError, UnsupportedFeature) as error:
            self._usable = False
            log.warning("metadata_table_not_used table=%s reason=%s", self._ref.uri, error)
            return None

    @property
    def _directories(self) -> DirectoryLister:
        return DirectoryLister(self._ref.env, self._ref.properties.keys)


def open_current_metadata_table(ref: TableRef, timeline: Timeline) -> MetadataTable:
    """The metadata table, if it has all that the timeline of the table completed.

    Raises `FormatError` if it cannot be read, or lacks a commit.
    """
    table = open_metadata_table(ref.env, timeline)
    lag = table.find_lag(timeline)
    if lag is not None:
        raise FormatError(f"{lag} is not in the metadata table", source=METADATA_TABLE)
    return table


# -- file groups of a view ----------------------------------------------------------------------


def visible_groups(
    ref: TableRef,
    view: Timeline,
    visibility: Visibility | None = None,
    keep: PartitionPredicate = all_partitions,
    lister: Lister | None = None,
) -> tuple[FileGroup, ...]:
    """File groups that a reader of this timeline sees, by partition and file id.

    `visibility` is that of the whole timeline unless a part of it is meant; then `lister` should
    know the whole one.
    """
    if visibility is None:
        visibility = view.visibility(start=view.oldest_active_write)
    files = list((lister or FileFinder(ref, view)).files(keep))
    groups, _ = group_files(ref, files, visibility)
    replaced_groups = find_replaced(ref, view)
    visible = [group for group in groups if group.id not in replaced_groups]
    return tuple(sorted(visible, key=attrgetter("id")))


def group_files(
    ref: TableRef, files: Sequence[DataFile], visibility: Visibility
) -> tuple[list[FileGroup], Visibility]:
    """File groups with their visible slices, replaced ones too; and what decided about that."""
    by_completion = ref.properties.version.slices_by_completion
    if by_completion and depends_on_history(files, visibility):
        from hoodoo.table.history import add_history  # imports Arrow, and is rarely needed

        visibility = add_history(ref.env, ref.properties.timeline_paths, visibility)
    return build_file_groups(files, visibility, by_completion=by_completion), visibility


def find_replaced(ref: TableRef, view: Timeline) -> dict[FileGroupId, Instant]:
    """File groups that a completed replace commit took out, and which one did."""
    replaced_groups: dict[FileGroupId, Instant] = {}
    for instant in view.commits:
        if instant.action is Action.REPLACE_COMMIT:
            commit = read_commit(ref.env, ref.properties.timeline_paths, instant)
            for group in commit.replaced_file_groups():
                replaced_groups.setdefault(group, instant)
    return replaced_groups
