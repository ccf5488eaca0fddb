"""Recording an action of a table in its metadata table.

What takes long (looking at the new files, reading keys, making the bytes of log files) is done
before the lock is taken; which partitions there are, and of which file groups, is asked again
inside it. A gate that finds an index which is not prepared is left, and entered again. So writers
follow an index that comes or goes, and never fail for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from hoodoo.concurrency.transactions.transaction import Txn
from hoodoo.config.key import Config
from hoodoo.config.metadata_table import COLUMN_LIST, MAX_COLUMNS
from hoodoo.errors import FormatError, ObjectNotFound, add_error_source
from hoodoo.format.json_files import source_fields
from hoodoo.format.metadata_table.column_stats import indexed_columns
from hoodoo.metadata_table.changes import (
    IndexedColumns,
    clean_changes,
    index_changes,
    restore_changes,
)
from hoodoo.metadata_table.delta_commits import (
    PartitionGroups,
    PreparedLog,
    list_groups,
    prepare_logs,
    write_delta_commit,
)
from hoodoo.metadata_table.entries.merge import EntryBatch
from hoodoo.metadata_table.indexes.file_facts import (
    FileStatistics,
    read_file_statistics,
    written_files,
)
from hoodoo.metadata_table.indexes.files import MetadataLister, changes_of_commit
from hoodoo.metadata_table.indexes.record_index import KeyChanges, record_index_changes
from hoodoo.metadata_table.table import load_metadata_properties, open_metadata_table
from hoodoo.model.commit import CleanMetadata, CommitMetadata, WriteStat
from hoodoo.model.instant import InstantTime
from hoodoo.model.metadata_table import (
    BLOOM_FILTERS,
    COLUMN_STATS,
    DEFINITIONS_PATH_KEY,
    FILES,
    INDEX_DEFINITIONS,
    PARTITION_STATS,
    RECORD_INDEX,
)
from hoodoo.model.paths import PartitionPath, TimelinePaths
from hoodoo.model.table import TableProperties
from hoodoo.runtime.engine import Engine, request_threads
from hoodoo.runtime.env import Env
from hoodoo.table.timeline import moment_of

_WITH_RANGES = frozenset({COLUMN_STATS, PARTITION_STATS})
NO_COLUMNS = IndexedColumns({}, pa.schema([]))


def partitions_to_update(properties: TableProperties) -> frozenset[str]:
    """The partitions of the metadata table that an action writes to, those in the making too."""
    return frozenset((*properties.metadata_partitions, *properties.metadata_partitions_inflight))


class PrepareOutsideLock(Exception):
    """An index came: give the lock back, call `Recorder.prepare` with these, and try again."""

    def __init__(self, properties: TableProperties) -> None:
        super().__init__("an index came")
        self.properties = properties


@dataclass
class MetadataTableRecorder:
    """Records one action; its owner makes one, and asks it as often as the gate starts over."""

    env: Env
    config: Config
    engine: Engine
    schema: Callable[[], pa.Schema]
    """The table's schema, with meta fields."""
    stats: Sequence[WriteStat] = ()
    epoch: int = 1
    read_keys: Callable[[], KeyChanges] | None = None
    """How the action changes the record index; None for those that never do."""
    _timeline_paths: TimelinePaths | None = None
    _columns: IndexedColumns | None = None
    _facts: dict[tuple[bool, bool], FileStatistics] = field(default_factory=dict)
    _keys: EntryBatch | None = None
    _logs: dict[str, tuple[PartitionGroups, Sequence[PreparedLog]]] = field(default_factory=dict)
    """Of each index, the log files, and the file groups that they are for."""
    _rounds: int = 3
    """How often the gate may be left to have something prepared."""

    def prepare(self, properties: TableProperties, time: InstantTime) -> None:
        """Make the log files of the indexes that the table has, as far as they are not made.

        Without the lock: an index that is just being dropped is left to the gate.
        """
        partitions = partitions_to_update(properties)
        for partition in sorted(partitions - {FILES}):
            try:
                groups = list_groups(self.env, partition)
            except FormatError:
                continue
            self._prepare_logs(properties, partitions, partition, groups, time)

    def record_commit(
        self, txn: Txn, properties: TableProperties, time: InstantTime, commit: CommitMetadata
    ) -> None:
        """Write what a commit changes, if the table has a metadata table by now.

        Needs: a Txn, and the table's properties as they are in it. Raises `PrepareOutsideLock`, a
        few times at most; nothing is written then.
        Order: file groups listed; what `prepare` did, if an index came meanwhile and no round is
        left; that of `write_delta_commit`.
        Crash: that of `write_delta_commit`.
        """
        partitions = partitions_to_update(properties)
        if not partitions:
            return
        indexes = sorted(partitions - {FILES})
        threads = request_threads(self.engine)
        groups = dict(
            zip(indexes, threads.map(partial(list_groups, self.env), indexes), strict=True)
        )
        if self._rounds and any(not self._is_prepared(p, groups[p]) for p in indexes):
            self._rounds -= 1
            raise PrepareOutsideLock(properties)
        prepared_logs: list[PreparedLog] = []
        for partition in indexes:
            logs = self._prepare_logs(properties, partitions, partition, groups[partition], time)
            prepared_logs += logs
        changes = {FILES: changes_of_commit(commit)} if FILES in partitions else {}
        self._write(txn, time, changes, partitions, prepared_logs)

    def record_clean(
        self, txn: Txn, properties: TableProperties, time: InstantTime, clean: CleanMetadata
    ) -> None:
        """The same for a clean."""
        partitions = partitions_to_update(properties)
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
        stored_files: Mapping[PartitionPath, Mapping[str, int]],
    ) -> None:
        """The same for a restore: what makes the listing equal to the files that are stored.

        Order: the listing read; that of `write_delta_commit`.
        """
        partitions = partitions_to_update(properties)
        if not partitions:
            return
        table = open_metadata_table(self.env, txn.timeline)
        is_partitioned = properties.keys.is_partitioned
        recorded_files: dict[PartitionPath, dict[str, int]] = {}
        for file in MetadataLister(table, is_partitioned=is_partitioned).files():
            recorded_files.setdefault(file.partition, {})[str(file.name)] = file.size_bytes
        columns = self._load_columns(properties, partitions)
        changes = restore_changes(partitions, recorded_files, stored_files, columns)
        self._write(txn, time, changes, partitions)

    def _write(
        self,
        txn: Txn,
        time: InstantTime,
        changes: Mapping[str, EntryBatch],
        partitions: frozenset[str],
        prepared_logs: Sequence[PreparedLog] = (),
    ) -> None:
        write_delta_commit(
            txn,
            self._load_timeline_paths(),
            time,
            changes,
            covers=partitions,
            epoch=self.epoch,
            prepared_logs=prepared_logs,
            engine=request_threads(self.engine),
        )

    def _is_prepared(self, partition: str, groups: PartitionGroups) -> bool:
        """Whether log files are made for these file groups: an index may be built anew."""
        return partition in self._logs and self._logs[partition][0] == groups

    def _prepare_logs(
        self,
        properties: TableProperties,
        partitions: frozenset[str],
        partition: str,
        groups: PartitionGroups,
        time: InstantTime,
    ) -> Sequence[PreparedLog]:
        if not self._is_prepared(partition, groups):
            if partition in self._logs and partition in _WITH_RANGES:  # maybe of other columns now
                self._columns = None
                self._facts.clear()
            batch = self._make_changes(properties, partitions, partition, time)
            logs = prepare_logs(partition, batch, groups.ids, time, epoch=self.epoch)
            self._logs[partition] = (groups, logs)
        return self._logs[partition][1]

    def _make_changes(
        self,
        properties: TableProperties,
        partitions: frozenset[str],
        partition: str,
        time: InstantTime,
    ) -> EntryBatch:
        if partition == RECORD_INDEX:
            return self._gather_keys(properties, time)
        facts = self._gather(properties, partitions)
        columns = self._load_columns(properties, partitions)
        return index_changes([partition], time, facts, columns).get(partition, EntryBatch())

    def _gather_keys(self, properties: TableProperties, time: InstantTime) -> EntryBatch:
        if self._keys is None:
            assert self.read_keys is not None, "an action that writes rows knows their keys"
            changes = self.read_keys()
            self._keys = record_index_changes(
                keys=changes.keys,
                partitions=changes.partitions,
                file_ids=changes.file_ids,
                instant_ms=moment_of(self.env.clock, properties.timeline_zone, time),
                deleted_keys=changes.deleted_keys,
            )
        return self._keys

    def _gather(self, properties: TableProperties, partitions: frozenset[str]) -> FileStatistics:
        wants = (bool(partitions & _WITH_RANGES), BLOOM_FILTERS in partitions)
        if not any(wants):
            return FileStatistics()
        if wants not in self._facts:
            columns = self._load_columns(properties, partitions)
            self._facts[wants] = read_file_statistics(
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

    def _load_timeline_paths(self) -> TimelinePaths:
        if self._timeline_paths is None:
            self._timeline_paths = load_metadata_properties(self.env).timeline_paths
        return self._timeline_paths


def load_indexed_columns(
    env: Env, config: Config, properties: TableProperties, schema: pa.Schema
) -> IndexedColumns:
    """The columns that have statistics: by the definition of the index, or else by the settings."""
    defined_columns = load_defined_columns(env, properties)
    if defined_columns is not None:
        types = indexed_columns(schema, configured=defined_columns)
        types = {name: type_ for name, type_ in types.items() if name in defined_columns}
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
    except ObjectNotFound:
        return None
    with add_error_source(path):
        return source_fields(data, COLUMN_STATS)
