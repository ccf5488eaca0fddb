"""`FileIndex`: how a reader finds a table's files: by the metadata table, or else by directories.

This is the one place that decides. The metadata table is used if the table has a complete one and
the settings allow it; if it is damaged, or lacks a commit, directories are listed instead, with a
warning: that is slower, and right.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TypeVar

from hoodoo.config.metadata import METADATA_ENABLE
from hoodoo.engine.engine import Engine
from hoodoo.errors import FormatError, StorageError, Unsupported
from hoodoo.metadata.metadata_table import (
    MetadataTable,
    has_metadata_table,
    open_metadata_table,
)
from hoodoo.model.files import DataFile
from hoodoo.model.lister import Keep, everything
from hoodoo.model.paths import METADATA_TABLE, PartitionPath
from hoodoo.table.listing import DirectoryLister
from hoodoo.table.ref import TableRef
from hoodoo.timeline.timeline import Timeline

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
