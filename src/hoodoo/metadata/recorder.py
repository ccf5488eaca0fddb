"""Recording an action of a table in its metadata table.

What takes long (looking at the new files) is done before the lock is taken; which partitions there
are is asked again inside it. So writers follow an index that comes or goes, and never fail for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from hoodoo.config.metadata import COLUMN_LIST, MAX_COLUMNS
from hoodoo.config.resolve import Config
from hoodoo.engine.engine import Engine
from hoodoo.env import Env
from hoodoo.errors import NotFound, naming
from hoodoo.format.index_definitions import source_fields
from hoodoo.format.metadata.value_types import indexed_columns
from hoodoo.metadata.delta_commits import write_delta_commit
from hoodoo.metadata.file_facts import FileFacts, gather_facts, written_files
from hoodoo.metadata.lister import MetadataLister
from hoodoo.metadata.merge import Batch
from hoodoo.metadata.metadata_table import load_metadata_properties, open_metadata_table
from hoodoo.metadata.table_changes import (
    IndexedColumns,
    clean_changes,
    commit_changes,
    restore_changes,
)
from hoodoo.model.commit import CleanMetadata, CommitMetadata
from hoodoo.model.instant import InstantTime
from hoodoo.model.metadata_table import BLOOM_FILTERS, COLUMN_STATS, PARTITION_STATS
from hoodoo.model.paths import PartitionPath, TimelinePaths
from hoodoo.model.stats import WriteStat
from hoodoo.model.table import TableProperties
from hoodoo.timeline.txn import Txn

INDEX_DEFINITIONS = ".hoodie/.index_defs/index.json"
DEFINITIONS_PATH_KEY = "hoodie.table.index.defs.path"

_WITH_RANGES = frozenset({COLUMN_STATS, PARTITION_STATS})
NO_COLUMNS = IndexedColumns({}, pa.schema([]))


def recorded_partitions(properties: TableProperties) -> frozenset[str]:
    """The partitions of the metadata table that an action writes to, those in the making too."""
    return frozenset((*properties.metadata_partitions, *properties.metadata_partitions_inflight))


@dataclass
class Recorder:
    """Records one action; its owner makes one, and asks it as often as the gate starts over."""

    env: Env
    config: Config
    engine: Engine
    schema: Callable[[], pa.Schema]
    """The table's schema, with meta fields."""
    stats: Sequence[WriteStat] = ()
    epoch: int = 1
    _where: TimelinePaths | None = None
    _columns: IndexedColumns | None = None
    _facts: dict[tuple[bool, bool], FileFacts] = field(default_factory=dict)

    def prepare(self, properties: TableProperties) -> None:
        """Look at the new files, as far as the indexes of the table need that."""
        partitions = recorded_partitions(properties)
        if partitions:
            self._load_where()
            self._gather(properties, partitions)

    def record_commit(
        self, txn: Txn, properties: TableProperties, time: InstantTime, commit: CommitMetadata
    ) -> None:
        """Write what a commit changes, if the table has a metadata table by now.

        Needs: a Txn, and the table's properties as they are in it.
        Order: what `prepare` did, if an index came meanwhile; that of `write_delta_commit`.
        Crash: that of `write_delta_commit`.
        """
        partitions = recorded_partitions(properties)
        if not partitions:
            return
        facts = self._gather(properties, partitions)
        columns = self._load_columns(properties, partitions)
        changes = commit_changes(partitions, time, commit, facts, columns)
        self._write(txn, time, changes, partitions)

    def record_clean(
        self, txn: Txn, properties: TableProperties, time: InstantTime, clean: CleanMetadata
    ) -> None:
        """The same for a clean."""
        partitions = recorded_partitions(properties)
        if not partitions:
            return
        columns = self._load_columns(properties, partitions)
        changes = clean_changes(partitions, clean, columns)
        self._write(txn, time, changes, partitions)

    def record_restore(
        self,
        txn: Txn,
        properties: TableProperties,
        time: InstantTime,
        stored: Mapping[PartitionPath, Mapping[str, int]],
    ) -> None:
        """The same for a restore: what makes the listing equal to the files that are stored.

        Order: the listing read; that of `write_delta_commit`.
        """
        partitions = recorded_partitions(properties)
        if not partitions:
            return
        table = open_metadata_table(self.env, txn.timeline)
        is_partitioned = properties.keys.is_partitioned
        listed: dict[PartitionPath, dict[str, int]] = {}
        for file in MetadataLister(table, is_partitioned=is_partitioned).files():
            listed.setdefault(file.partition, {})[str(file.name)] = file.size_bytes
        columns = self._load_columns(properties, partitions)
        changes = restore_changes(partitions, listed, stored, columns)
        self._write(txn, time, changes, partitions)

    def _write(
        self,
        txn: Txn,
        time: InstantTime,
        changes: Mapping[str, Batch],
        partitions: frozenset[str],
    ) -> None:
        where = self._load_where()
        write_delta_commit(txn, where, time, changes, covers=partitions, epoch=self.epoch)

    def _gather(self, properties: TableProperties, partitions: frozenset[str]) -> FileFacts:
        wants = (bool(partitions & _WITH_RANGES), BLOOM_FILTERS in partitions)
        if not any(wants):
            return FileFacts()
        if wants not in self._facts:
            columns = self._load_columns(properties, partitions)
            self._facts[wants] = gather_facts(
                self.env,
                self.engine,
                written_files(self.stats),
                columns.schema,
                wants_filters=wants[1],
            )
        return self._facts[wants]

    def _load_columns(
        self, properties: TableProperties, partitions: frozenset[str]
    ) -> IndexedColumns:
        if not partitions & _WITH_RANGES:
            return NO_COLUMNS
        if self._columns is None:
            self._columns = load_indexed_columns(self.env, self.config, properties, self.schema())
        return self._columns

    def _load_where(self) -> TimelinePaths:
        if self._where is None:
            self._where = load_metadata_properties(self.env).timeline
        return self._where


def load_indexed_columns(
    env: Env, config: Config, properties: TableProperties, schema: pa.Schema
) -> IndexedColumns:
    """The columns that have statistics: by the definition of the index, or else by the settings."""
    defined = load_defined_columns(env, properties)
    if defined is not None:
        types = indexed_columns(schema, configured=defined)
        types = {name: type_ for name, type_ in types.items() if name in defined}
    else:
        types = indexed_columns(
            schema, configured=config.get(COLUMN_LIST), limit=config.get(MAX_COLUMNS)
        )
    return IndexedColumns(types, pa.schema([schema.field(name) for name in types]))


def load_defined_columns(env: Env, properties: TableProperties) -> tuple[str, ...] | None:
    """The columns that the definition of `column_stats` names; None if there is none."""
    path = properties.raw.get(DEFINITIONS_PATH_KEY) or INDEX_DEFINITIONS
    try:
        data = env.storage.read(path)
    except NotFound:
        return None
    with naming(path):
        return source_fields(data, COLUMN_STATS)
