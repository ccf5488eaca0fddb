"""Data files and how they group: file group -> file slices -> base file and log files."""

from __future__ import annotations

from dataclasses import dataclass

from hoodoo.model.instant import InstantTime
from hoodoo.model.names import BaseFileName, FileId, LogFileName, parse_base_file, parse_log_file
from hoodoo.model.paths import PartitionPath, join


@dataclass(frozen=True, slots=True)
class FileGroupId:
    """Identity of a file group: the same file id in two partitions means two groups."""

    partition: PartitionPath
    file_id: FileId

    def __str__(self) -> str:
        return join(self.partition, self.file_id)


@dataclass(frozen=True, slots=True)
class BaseFile:
    """A Parquet file with all rows of a slice as of one commit."""

    partition: PartitionPath
    name: BaseFileName
    size_bytes: int

    @property
    def path(self) -> str:
        return join(self.partition, str(self.name))


@dataclass(frozen=True, slots=True)
class LogFile:
    """Changes on top of a base file."""

    partition: PartitionPath
    name: LogFileName
    size_bytes: int

    @property
    def path(self) -> str:
        return join(self.partition, str(self.name))


DataFile = BaseFile | LogFile


def made_by(file: DataFile) -> InstantTime:
    """The instant that wrote a data file (in layout 1, a log file tells its base's instead)."""
    return file.name.instant_time if isinstance(file, LogFile) else file.name.requested_time


def parse_data_file(partition: PartitionPath, name: str, size_bytes: int) -> DataFile | None:
    """The data file that a name in a partition stands for, or None for other files."""
    if name.startswith("."):
        log = parse_log_file(name)
        return LogFile(partition, log, size_bytes) if log is not None else None
    base = parse_base_file(name)
    return BaseFile(partition, base, size_bytes) if base is not None else None


@dataclass(frozen=True, slots=True)
class FileSlice:
    """One version of a file group: a base file, if any, and the logs on top of it, in order."""

    group: FileGroupId
    base_time: InstantTime
    base: BaseFile | None
    logs: tuple[LogFile, ...] = ()

    @property
    def size_bytes(self) -> int:
        return (self.base.size_bytes if self.base else 0) + sum(f.size_bytes for f in self.logs)


@dataclass(frozen=True, slots=True)
class FileGroup:
    """All visible versions of a file group, oldest first."""

    id: FileGroupId
    slices: tuple[FileSlice, ...]

    @property
    def latest(self) -> FileSlice:
        return self.slices[-1]
