"""Makes metadata tables by hand, out of entries: for tests and benchmarks of readers."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from hoodoo.format import properties as properties_codec
from hoodoo.format.hfile import HFileCodec, write_hfile
from hoodoo.format.log import encode_first_log, encode_metadata_log
from hoodoo.format.metadata_table.column_stats import encode_column_stats
from hoodoo.format.metadata_table.files import encode_file_lists
from hoodoo.format.metadata_table.record_index import encode_record_index
from hoodoo.format.metadata_table.schema import schema_json
from hoodoo.format.timeline import instant_files as timeline_codec
from hoodoo.metadata_table.entries.encode import split_by_file_group
from hoodoo.metadata_table.entries.merge import EntryBatch
from hoodoo.metadata_table.indexes.files import file_changes
from hoodoo.model import metadata_table as parts
from hoodoo.model import paths
from hoodoo.model.commit import CommitMetadata, WriteStat
from hoodoo.model.instant import Action, Instant, InstantTime, State
from hoodoo.model.metadata_table import PROPERTIES
from hoodoo.model.names import BaseFileName, LogFileName, instant_name, write_token
from hoodoo.model.paths import METADATA_TABLE, PartitionPath, TimelinePaths, join
from hoodoo.read.file_listing import DirectoryLister
from hoodoo.runtime.env import Env
from hoodoo.table.ref import TableRef

_ENCODE = {
    parts.FILES: encode_file_lists,
    parts.COLUMN_STATS: encode_column_stats,
    parts.PARTITION_STATS: encode_column_stats,
    parts.RECORD_INDEX: encode_record_index,
}
_TOKEN = write_token(partition=0, stage=0, attempt=0)
_PARTITIONS = "hoodie.table.metadata.partitions"


class HandMadeMetadata:
    """The metadata table of a table: filled by partition, then added to commit by commit."""

    def __init__(self, env: Env, *, version: int = 9) -> None:
        """Its properties; `version` 6 is of timeline layout 1."""
        self._env = env
        self._layout = 1 if version == 6 else 2
        self._groups: dict[str, int] = {}
        self._base: dict[str, InstantTime] = {}
        own = TimelinePaths.of(self._layout)
        self.timeline = f"{METADATA_TABLE}/{own.active}"
        raw = {
            "hoodie.table.name": "made_metadata",
            "hoodie.table.type": "MERGE_ON_READ",
            "hoodie.table.version": str(version),
            "hoodie.timeline.layout.version": str(self._layout),
            "hoodie.table.base.file.format": "HFILE",
            "hoodie.table.recordkey.fields": "key",
            "hoodie.populate.meta.fields": "false",
        }
        raw[properties_codec.CHECKSUM_KEY] = str(properties_codec.checksum(raw))
        env.storage.put(PROPERTIES, properties_codec.serialise(raw, comment="made by hand"))

    def fill(
        self,
        partition: str,
        entries: pa.Table,
        *,
        completion_time: InstantTime,
        groups: int = 1,
        codec: HFileCodec = HFileCodec.GZIP,
    ) -> None:
        """A new partition, with base files of these entries."""
        time = InstantTime(f"{parts.SOLO_TIME}{len(self._groups):03d}")
        self._groups[partition], self._base[partition] = groups, time
        self._write_bases(partition, entries, time, Action.DELTA_COMMIT, completion_time, codec)

    def compact(
        self, partition: str, entries: pa.Table, *, time: InstantTime, completion_time: InstantTime
    ) -> None:
        """New base files; `entries` is what the partition's come to."""
        self._base[partition] = time
        self._write_bases(partition, entries, time, Action.COMPACTION, completion_time)

    def _write_bases(
        self,
        partition: str,
        entries: pa.Table,
        time: InstantTime,
        action: Action,
        completion_time: InstantTime,
        codec: HFileCodec = HFileCodec.GZIP,
    ) -> None:
        spread = split_by_file_group(partition, EntryBatch(entries), self._groups[partition])
        new_files = []
        for number in range(self._groups[partition]):
            file_id = parts.file_group_id(partition, number)
            own = spread.get(number)
            rows = entries.slice(0, 0) if own is None or own.entries is None else own.entries
            name = str(BaseFileName(file_id, _TOKEN, time, ".hfile"))
            data = write_hfile(
                rows["key"],
                _ENCODE[partition](rows),
                info={b"schema": schema_json().encode()},
                codec=codec,
            )
            new_files.append((name, data))
            if action is Action.DELTA_COMMIT:
                first = str(LogFileName(file_id, time, 1, _TOKEN))
                new_files.append((first, encode_first_log(time)))
        self._complete(time, action, {partition: new_files}, completion_time)

    def commit(
        self,
        time: InstantTime,
        changes: Mapping[str, EntryBatch],
        *,
        completion_time: InstantTime | None,
    ) -> None:
        """A delta commit with log files; one that is not `completion_time` stays inflight."""
        files_by_partition: dict[str, list[tuple[str, bytes]]] = {}
        for partition, batch in changes.items():
            files = files_by_partition.setdefault(partition, [])
            spread = split_by_file_group(partition, batch, self._groups[partition])
            for number, own in spread.items():
                file_id = parts.file_group_id(partition, number)
                keys = pa.array([], pa.string()) if own.entries is None else own.entries["key"]
                data = encode_metadata_log(
                    instant_time=time,
                    partition=partition,
                    schema_json=schema_json(),
                    keys=keys,
                    values=keys if own.entries is None else _ENCODE[partition](own.entries),
                    deleted_keys=own.deleted_keys,
                )
                log_time = time if self._layout > 1 else self._base[partition]
                files.append((str(LogFileName(file_id, log_time, self._next(), _TOKEN)), data))
        self._complete(time, Action.DELTA_COMMIT, files_by_partition, completion_time)

    _versions = 0

    def _next(self) -> int:
        """A version for a log file: in layout 1 several are of one base file."""
        self._versions += 1
        return self._versions if self._layout == 1 else 1

    def _complete(
        self,
        time: InstantTime,
        action: Action,
        files_by_partition: Mapping[str, list[tuple[str, bytes]]],
        completion_time: InstantTime | None,
    ) -> None:
        storage = self._env.storage
        for partition, files in files_by_partition.items():
            for name, data in files:
                storage.put(join(METADATA_TABLE, partition, name), data)
        stats = {
            PartitionPath(partition): tuple(
                WriteStat(path=f"{partition}/{name}", file_size_in_bytes=len(data))
                for name, data in files
            )
            for partition, files in files_by_partition.items()
        }
        for state in (State.REQUESTED, State.INFLIGHT):
            name = instant_name(Instant(time, action, state), layout=self._layout)
            storage.put(f"{self.timeline}/{name}", b"")
        if completion_time is not None:
            completion = completion_time if self._layout > 1 else None
            instant = Instant(time, action, State.COMPLETED, completion)
            data = timeline_codec.encode(CommitMetadata(partition_to_write_stats=stats))
            storage.put(f"{self.timeline}/{instant_name(instant, layout=self._layout)}", data)

    def publish(self) -> None:
        """Tell in the table's properties that its partitions are complete."""
        raw = properties_codec.parse(self._env.storage.read(paths.PROPERTIES))
        raw[_PARTITIONS] = ",".join(sorted(self._groups))
        data = properties_codec.serialise(raw, comment="made by hand")
        self._env.storage.put(paths.PROPERTIES, data)


def make_listing(ref: TableRef, *, version: int = 9) -> HandMadeMetadata:
    """A metadata table that lists what is in the table's directories, and is in use."""
    metadata_table = HandMadeMetadata(ref.env, version=version)
    sizes_by_partition: dict[PartitionPath, dict[str, int]] = {}
    for file in DirectoryLister(ref.env, ref.properties.keys).files():
        sizes_by_partition.setdefault(file.partition, {})[str(file.name)] = file.size_bytes
    entries = file_changes(sizes_by_partition).entries
    assert entries is not None
    newest = ref.load_timeline().newest_time or InstantTime("0" * 17)
    metadata_table.fill(parts.FILES, entries, completion_time=newest)
    metadata_table.publish()
    return metadata_table
