"""A table whose files and instants are made one by one, at times of the test's choosing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from hoodoo.concurrency.transactions.transaction import Txn, load_txn
from hoodoo.format.log import HeaderKey
from hoodoo.format.log.blocks import encode_blocks
from hoodoo.format.log.data import avro_block
from hoodoo.format.parquet.base_file import BaseFileWriter, ParquetOptions
from hoodoo.format.parquet.key_summary import BloomOptions
from hoodoo.format.schema import avro_from_arrow, with_meta_fields
from hoodoo.format.timeline import instant_files as codec
from hoodoo.model.commit import NO_COMMIT, CommitMetadata, ReplaceCommitMetadata, WriteStat
from hoodoo.model.files import FileGroupId
from hoodoo.model.instant import Action, Instant, InstantTime, State
from hoodoo.model.names import BaseFileName, FileId, LogFileName, write_token
from hoodoo.model.paths import PartitionPath, join
from hoodoo.table.create import create_table
from hoodoo.table.ref import TableRef
from hoodoo.table.timeline import instant_path

SCHEMA = pa.schema([("id", pa.string()), ("city", pa.string()), ("v", pa.int64())])
AVRO = avro_from_arrow(SCHEMA, "t")
TOKEN = write_token(partition=0, stage=0, attempt=0)


def at(number: int) -> InstantTime:
    """The instant time number so and so."""
    return InstantTime(f"202601010000{number:05d}")


def group(number: int, city: str = "sf") -> FileGroupId:
    """A file group with an id such as hoodoo gives."""
    file_id = FileId(f"{number:08x}-0000-4000-8000-000000000000-0")
    return FileGroupId(PartitionPath(f"city={city}"), file_id)


class _Held:
    """A lock that is always ours: nobody else is here."""

    def confirm_with_lock(self) -> None: ...

    def check_last_confirmation(self) -> None: ...

    def ensure_publish_window(self) -> None: ...

    def budget_s(self) -> float:
        return 10.0

    def is_unbroken(self) -> bool:
        return True


HELD = _Held()


class HandMade:
    """A table of `id`, `city` (the partition) and `v`."""

    def __init__(self, place: Path | str, kind: str = "mor", **options: object) -> None:
        self.ref: TableRef = create_table(
            str(place),
            schema=SCHEMA,
            record_key="id",
            name="t",
            partition_by="city",
            table_type=kind,
            options=options,
        )

    def txn(self) -> Txn:
        """The table's timeline as it is now, as if under the lock."""
        return load_txn(self.ref, HELD)

    def base(
        self,
        where: FileGroupId,
        time: InstantTime,
        rows: Mapping[str, int],
        *,
        after: InstantTime | None = None,
        bloom: bool = True,
    ) -> WriteStat:
        """A base file with these ids and values, and what a commit says of it."""
        name = BaseFileName(where.file_id, TOKEN, time)
        path = join(where.partition, str(name))
        options = ParquetOptions(bloom=BloomOptions(60_000, 1e-9, 100_000) if bloom else None)
        with self.ref.env.storage.open_write(path) as stream:
            writer = BaseFileWriter(
                stream,
                with_meta_fields(SCHEMA),
                avro_schema=with_meta_fields(AVRO),
                options=options,
            )
            writer.write(_rows(where, time, rows, str(name)))
            writer.close()
            size = stream.tell()
        return _stat(where, path, size, prev_commit=after or NO_COMMIT)

    def log(
        self,
        where: FileGroupId,
        time: InstantTime,
        rows: Mapping[str, int],
        *,
        compacts: tuple[InstantTime, ...] = (),
    ) -> WriteStat:
        """A log file with these ids and values, and what a delta commit says of it."""
        name = LogFileName(where.file_id, time, 1, TOKEN)
        path = join(where.partition, str(name))
        extra = {HeaderKey.COMPACTED_BLOCK_TIMES: ",".join(compacts)} if compacts else None
        block = avro_block(
            _rows(where, time, rows, str(name)),
            instant_time=time,
            schema_json=with_meta_fields(AVRO),
            extra=extra,
        )
        data = encode_blocks([block])
        self.ref.env.storage.create(path, data)
        return _stat(where, path, len(data), prev_commit=time, log_version=1, log_offset=0)

    def pending(
        self,
        time: InstantTime,
        action: Action,
        plan: codec.Metadata | None,
        *,
        started: bool = False,
    ) -> None:
        """A requested instant with its plan, or a write in progress with its workload profile."""
        requested = Instant(time, action, State.REQUESTED)
        inflight = replace(requested, state=State.INFLIGHT)
        if isinstance(plan, CommitMetadata):
            self._put(requested, None)
            self._put(inflight, plan)
            return
        self._put(requested, plan)
        if started:
            self._put(inflight, None)

    def commit(
        self,
        time: InstantTime,
        ended: InstantTime,
        *stats: WriteStat,
        action: Action = Action.DELTA_COMMIT,
        operation: str | None = "UPSERT",
        replaces: tuple[FileGroupId, ...] = (),
        **extra: str,
    ) -> Instant:
        """A completed commit of these files."""
        instant = Instant(time, action.completed_as, State.COMPLETED, ended)
        metadata = commit_metadata(*stats, operation=operation, replaces=replaces, **extra)
        self._put(Instant(time, action, State.REQUESTED), None)
        self._put(Instant(time, action, State.INFLIGHT), None)
        self._put(instant, metadata)
        return instant

    def forget(self, *times: InstantTime) -> None:
        """Take all files of these instants off the active timeline."""
        active = self.ref.properties.timeline_paths.active
        for entry in list(self.ref.env.storage.list(active)):
            if entry.path.rpartition("/")[2].startswith(times):
                self.ref.env.storage.delete(entry.path)

    def _put(self, instant: Instant, metadata: codec.Metadata | None) -> None:
        path = instant_path(self.ref.properties.timeline_paths, instant)
        data = b"" if metadata is None else codec.encode(metadata)
        self.ref.env.storage.create(path, data)


def commit_metadata(
    *stats: WriteStat,
    operation: str | None = "UPSERT",
    replaces: tuple[FileGroupId, ...] = (),
    **extra: str,
) -> CommitMetadata:
    """What a commit of these files says; one that replaces groups is a replace commit."""
    written: dict[PartitionPath, list[WriteStat]] = {}
    for stat in stats:
        assert stat.partition_path is not None
        written.setdefault(stat.partition_path, []).append(stat)
    shared = {
        "partition_to_write_stats": {key: tuple(found) for key, found in written.items()},
        "extra_metadata": {"schema": AVRO, **extra},
        "operation_type": operation,
    }
    if not replaces:
        return CommitMetadata(**shared)
    gone: dict[PartitionPath, list[FileId]] = {}
    for where in replaces:
        gone.setdefault(where.partition, []).append(where.file_id)
    return ReplaceCommitMetadata(
        **shared, partition_to_replace_file_ids={key: tuple(ids) for key, ids in gone.items()}
    )


def _rows(where: FileGroupId, time: InstantTime, rows: Mapping[str, int], file: str) -> pa.Table:
    count, city = len(rows), where.partition.partition("=")[2]
    meta = [
        pa.array([time] * count),
        pa.array([f"{time}_0_{n}" for n in range(count)]),
        pa.array(list(rows), pa.string()),
        pa.array([where.partition] * count),
        pa.array([file] * count),
    ]
    data = [
        pa.array(list(rows), pa.string()),
        pa.array([city] * count),
        pa.array(list(rows.values()), pa.int64()),
    ]
    return pa.table([*meta, *data], schema=with_meta_fields(SCHEMA))


def _stat(where: FileGroupId, path: str, size: int, **fields: object) -> WriteStat:
    return WriteStat(
        file_id=where.file_id,
        path=path,
        partition_path=where.partition,
        file_size_in_bytes=size,
        total_write_bytes=size,
        **fields,
    )
