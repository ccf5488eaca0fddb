"""`FileIndex`: how a reader finds a table's files: by the metadata table, or else by directories.

This is the one place that decides. The metadata table is used if the table has a complete one and
the settings allow it; if it is damaged, or lacks a commit, directories are listed instead, with a
warning: that is slower, and right.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from hoodoo.config.metadata import DATA_SKIPPING, METADATA_ENABLE
from hoodoo.engine.engine import Engine
from hoodoo.errors import FormatError, StorageError, Unsupported
from hoodoo.metadata.metadata_table import (
    MetadataTable,
    has_metadata_table,
    open_metadata_table,
)
from hoodoo.model.files import DataFile, FileSlice
from hoodoo.model.lister import Keep, everything
from hoodoo.model.metadata_table import COLUMN_STATS, PARTITION_STATS
from hoodoo.model.paths import METADATA_TABLE, PartitionPath
from hoodoo.model.predicate import Predicate
from hoodoo.table.listing import DirectoryLister
from hoodoo.table.ref import TableRef
from hoodoo.timeline.timeline import Timeline

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger("hoodoo.table")

Answer = TypeVar("Answer")


class FileIndex:
    """Finds the files of a table as of a timeline. It opens the metadata table at most once."""

    def __init__(self, ref: TableRef, timeline: Timeline, engine: Engine | None = None) -> None:
        """`timeline` is the whole active timeline, loaded before."""
        self._ref = ref
        self._timeline = timeline
        self._engine = engine
        self._table: MetadataTable | None = None
        self._usable = ref.config.get(METADATA_ENABLE) and has_metadata_table(ref.properties)

    def files(self, keep: Keep = everything) -> Iterable[DataFile]:
        """Data files of the partitions that `keep` wants."""

        def by_metadata(table: MetadataTable) -> Iterable[DataFile]:
            from hoodoo.metadata.lister import MetadataLister  # imports Arrow

            partitioned = self._ref.properties.keys.is_partitioned
            return MetadataLister(table, is_partitioned=partitioned, engine=self._engine).files(
                keep
            )

        listed = self.ask(by_metadata)
        return self._directories.files(keep) if listed is None else listed

    def partitions(self) -> list[PartitionPath]:
        """The partitions, sorted."""

        def by_metadata(table: MetadataTable) -> list[PartitionPath]:
            from hoodoo.metadata.lister import MetadataLister  # imports Arrow

            partitioned = self._ref.properties.keys.is_partitioned
            return MetadataLister(table, is_partitioned=partitioned).partitions()

        listed = self.ask(by_metadata)
        return self._directories.partitions() if listed is None else listed

    def prune(
        self, slices: list[FileSlice], predicate: Predicate, schema: pa.Schema, view: Timeline
    ) -> list[FileSlice]:
        """The slices of a view that may have rows for which a bound predicate is true."""
        available = self._ref.properties.metadata_partitions
        wanted = self._ref.config.get(DATA_SKIPPING) and len(slices) > 1
        if not wanted or not {COLUMN_STATS, PARTITION_STATS}.intersection(available):
            return slices

        def by_metadata(table: MetadataTable) -> list[FileSlice]:
            from hoodoo.metadata.pruning import find_matching_partitions, prune_slices

            left, engine = slices, self._engine
            partitions = sorted({one.group.partition for one in left})
            # Statistics of partitions are those of their newest files.
            if PARTITION_STATS in available and partitions[1:] and not table.is_ahead_of(view):
                kept = set(
                    find_matching_partitions(table, partitions, predicate, schema, engine=engine)
                )
                left = [one for one in left if one.group.partition in kept]
            if COLUMN_STATS in available and left:
                left = prune_slices(table, left, predicate, schema, engine=engine)
            return left

        left = self.ask(by_metadata)
        return slices if left is None else left

    def ask(self, question: Callable[[MetadataTable], Answer]) -> Answer | None:
        """The metadata table's answer; None if there is none to be had."""
        if not self._usable:
            return None
        try:
            if self._table is None:
                self._table = open_current(self._ref, self._timeline)
            return question(self._table)
        except (FormatError, StorageError, Unsupported) as error:
            self._usable = False
            log.warning("metadata_table_not_used table=%s reason=%s", self._ref.uri, error)
            return None

    @property
    def _directories(self) -> DirectoryLister:
        return DirectoryLister(self._ref.env, self._ref.properties.keys)


def open_current(ref: TableRef, timeline: Timeline) -> MetadataTable:
    """The metadata table, if it has all that the timeline of the table completed.

    Raises `FormatError` if it cannot be read, or lacks a commit.
    """
    table = open_metadata_table(ref.env, timeline)
    lag = table.find_lag(timeline)
    if lag is not None:
        raise FormatError(f"{lag} is not in the metadata table", source=METADATA_TABLE)
    return table
