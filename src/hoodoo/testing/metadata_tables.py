"""Makes metadata tables by hand, out of entries: for tests and benchmarks of readers."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from hoodoo.env import Env
from hoodoo.format import properties as properties_codec
from hoodoo.format import timeline as timeline_codec
from hoodoo.format.hfile import Codec, write_hfile
from hoodoo.format.log import encode_first_log, encode_metadata_log
from hoodoo.format.metadata.column_stats import encode_column_stats
from hoodoo.format.metadata.file_lists import encode_file_lists
from hoodoo.format.metadata.record_index import encode_record_index
from hoodoo.format.metadata.schema import schema_json
from hoodoo.metadata.file_changes import file_changes
from hoodoo.metadata.key_changes import split_by_file_group
from hoodoo.metadata.merge import Batch
from hoodoo.metadata.metadata_table import PROPERTIES
from hoodoo.model import metadata_table as parts
from hoodoo.model import paths
from hoodoo.model.commit import CommitMetadata
from hoodoo.model.instant import Action, Instant, InstantTime, State
from hoodoo.model.names import BaseFileName, LogFileName, instant_name, write_token
from hoodoo.model.paths import METADATA_TABLE, PartitionPath, TimelinePaths, join
from hoodoo.model.stats import WriteStat
from hoodoo.table.listing import DirectoryLister
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
        ended: InstantTime,
        groups: int = 1,
        codec: Codec = Codec.GZIP,
    ) -> None:
        """A new partition, with base files of these entries."""
        time = InstantTime(f"{parts.SOLO_TIME}{len(self._groups):03d}")
        self._groups[partition], self._base[partition] = groups, time
        self._write_bases(partition, entries, time, Action.DELTA_COMMIT, ended, codec)

    def compact(
        self, partition: str, entries: pa.Table, *, time: InstantTime, ended: InstantTime
    ) -> None:
        """New base files; `entries` is what the partition's come to."""
        self._base[partition] = time
        self._write_bases(partition, entries, time, Action.COMPACTION, ended)

    def _write_bases(
        self,
        partition: str,
        entries: pa.Table,
        time: InstantTime,
        action: Action,
        ended: InstantTime,
        codec: Codec = Codec.GZIP,
    ) -> None:
        spread = split_by_file_group(partition, Batch(entries), self._groups[partition])
        written = []
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
            written.append((name, data))
            if action is Action.DELTA_COMMIT:
                first = str(LogFileName(file_id, time, 1, _TOKEN))
                written.append((first, encode_first_log(time)))
        self._complete(time, action, {partition: written}, ended)

    def commit(
        self, time: InstantTime, changes: Mapping[str, Batch], *, ended: InstantTime | None
    ) -> None:
        """A delta commit with log files; one that is not `ended` stays inflight."""
        written: dict[str, list[tuple[str, bytes]]] = {}
        for partition, batch in changes.items():
            files = written.setdefault(partition, [])
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
                    deleted_keys=own.deleted,
                )
                named = time if self._layout > 1 else self._base[partition]
                files.append((str(LogFileName(file_id, named, self._next(), _TOKEN)), data))
        self._complete(time, Action.DELTA_COMMIT, written, ended)

    _versions = 0

    def _next(self) -> int:
        """A version for a log file: in layout 1 several are of one base file."""
        self._versions += 1
        return self._versions if self._layout == 1 else 1

    def _complete(
        self,
        time: InstantTime,
        action: Action,
        written: Mapping[str, list[tuple[str, bytes]]],
        ended: InstantTime | None,
    ) -> None:
        storage = self._env.storage
        for partition, files in written.items():
            for name, data in files:
                storage.put(join(METADATA_TABLE, partition, name), data)
        stats = {
            PartitionPath(partition): tuple(
                WriteStat(path=f"{partition}/{name}", file_size_in_bytes=len(data))
                for name, data in files
            )
            for partition, files in written.items()
        }
        for state in (State.REQUESTED, State.INFLIGHT):
            name = instant_name(Instant(time, action, state), layout=self._layout)
            storage.put(f"{self.timeline}/{name}", b"")
        if ended is not None:
            completion = ended if self._layout > 1 else None
            done = Instant(time, action, State.COMPLETED, completion)
            data = timeline_codec.encode(CommitMetadata(partition_to_write_stats=stats))
            storage.put(f"{self.timeline}/{instant_name(done, layout=self._layout)}", data)

    def publish(self) -> None:
        """Tell in the table's properties that its partitions are complete."""
        raw = properties_codec.parse(self._env.storage.read(paths.PROPERTIES))
        raw[_PARTITIONS] = ",".join(sorted(self._groups))
        data = properties_codec.serialise(raw, comment="made by hand")
        self._env.storage.put(paths.PROPERTIES, data)


def make_listing(ref: TableRef, *, version: int = 9) -> HandMadeMetadata:
    """A metadata table that lists what is in the table's directories, and is in use."""
    made = HandMadeMetadata(ref.env, version=version)
    added: dict[PartitionPath, dict[str, int]] = {}
    for file in DirectoryLister(ref.env, ref.properties.keys).files():
        added.setdefault(file.partition, {})[str(file.name)] = file.size_bytes
    entries = file_changes(added).entries
    assert entries is not None
    newest = ref.load_timeline().newest_time or InstantTime("0" * 17)
    made.fill(parts.FILES, entries, ended=newest)
    made.publish()
    return made
