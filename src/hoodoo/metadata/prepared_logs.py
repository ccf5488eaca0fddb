"""The log files of a delta commit, ready to be sent: what takes long is done without the lock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hoodoo.metadata.key_changes import split_by_file_group
from hoodoo.metadata.log_writer import encode_log
from hoodoo.metadata.merge import Batch
from hoodoo.model.instant import InstantTime, to_wall_ms
from hoodoo.model.metadata_table import SOLO_TIME
from hoodoo.model.names import FileId, LogFileName, WriteToken
from hoodoo.model.paths import METADATA_TABLE, PartitionPath, join
from hoodoo.model.stats import WriteStat


@dataclass(frozen=True, slots=True)
class PreparedLog:
    """One log file: where it goes, its bytes, and what the commit says of it."""

    path: str
    data: bytes
    stat: WriteStat


def prepare_logs(
    partition: str, batch: Batch, groups: Sequence[FileId], time: InstantTime, *, epoch: int
) -> list[PreparedLog]:
    """The log files of what an instant changes in a partition, one for each file group."""
    token = WriteToken(f"0-{epoch}-0")
    parts = split_by_file_group(partition, batch, len(groups))
    return [
        _prepare_log(partition, own, LogFileName(groups[number], time, 1, token))
        for number, own in parts.items()
    ]


def _moment_of(time: InstantTime) -> int:
    """When a log file is said to be made; the time of a build is before all that clocks show."""
    return 0 if time.startswith(SOLO_TIME) else to_wall_ms(time)


def _prepare_log(partition: str, own: Batch, name: LogFileName) -> PreparedLog:
    time = name.instant_time
    data = encode_log(partition, own, instant_time=time, created_ms=_moment_of(time))
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
