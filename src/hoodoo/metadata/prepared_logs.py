"""The log files of a delta commit, ready to be sent: what takes long is done without the lock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hoodoo.metadata.key_changes import split_by_file_group
from hoodoo.metadata.log_writer import encode_log
from hoodoo.metadata.merge import Batch
from hoodoo.model.instant import InstantTime, to_wall_ms
from hoodoo.model.names import FileId, LogFileName, WriteToken
from hoodoo.model.paths import METADATA_TABLE, PartitionPath, join
from hoodoo.model.stats import WriteStat


@dataclass(frozen=True, slots=True)
class PreparedLog:
    """One log file: where it goes, its bytes, and what the commit says of it."""

    path: str
    data: bytes
    stat: WriteStat


@dataclass(frozen=True, slots=True)
class PreparedLogs:
    """The log files of one partition; they fit it as long as it has these file groups."""

    groups: Sequence[FileId]
    logs: Sequence[PreparedLog]


def prepare_logs(
    partition: str, batch: Batch, groups: Sequence[FileId], time: InstantTime, *, epoch: int
) -> PreparedLogs:
    """The log files of what an instant changes in a partition, one for each file group."""
    token = WriteToken(f"0-{epoch}-0")
    parts = split_by_file_group(partition, batch, len(groups))
    logs = [
        _prepare_log(partition, own, LogFileName(groups[number], time, 1, token))
        for number, own in parts.items()
    ]
    return PreparedLogs(groups, logs)


def _prepare_log(partition: str, own: Batch, name: LogFileName) -> PreparedLog:
    time = name.instant_time
    data = encode_log(partition, own, instant_time=time, created_ms=to_wall_ms(time))
    written = own.entries.num_rows if own.entries is not None else 0
    stat = WriteStat(
        file_id=name.file_id,
        path=join(partition, str(name)),
        prev_commit=time,
        num_writes=written,
        num_update_writes=written,
        num_deletes=len(own.deleted) if own.deleted is not None else 0,
        total_write_bytes=len(data),
        file_size_in_bytes=len(data),
        partition_path=PartitionPath(partition),
        log_version=1,
        log_offset=0,
        base_file="",
        log_files=(str(name),),
    )
    return PreparedLog(join(METADATA_TABLE, partition, str(name)), data, stat)
