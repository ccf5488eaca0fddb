"""Data files and how they group: file group -> file slices -> base file and log files.

They are tuples: a listing makes tens of thousands of each, and tuples are made, hashed and compared
several times as fast as dataclasses. `parse_data_files` reads all names of a listing at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import NamedTuple

from hoodoo.model.instant import InstantTime
from hoodoo.model.names import (
    BaseFileName,
    FileId,
    LogFileName,
    parse_base_file,
    parse_base_files,
    parse_log_file,
    parse_log_files,
)
from hoodoo.model.paths import PartitionPath, join


class FileGroupId(NamedTuple):
    """Identity of a file group: the same file id in two partitions means two groups."""

    partition: PartitionPath
    file_id: FileId

    def __str__(self) -> str:
        return join(self.partition, self.file_id)


class BaseFile(NamedTuple):
    """A Parquet file with all rows of a slice as of one commit."""

    partition: PartitionPath
    name: BaseFileName
    size_bytes: int

    @property
    def path(self) -> str:
        return join(self.partition, str(self.name))


class LogFile(NamedTuple):
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


def parse_data_files(
    partitions: Iterable[PartitionPath], names: Sequence[str], sizes: Iterable[int]
) -> list[DataFile | None]:
    """What `parse_data_file` says of each name, in one pass over all names of a kind."""
    of_bases = parse_base_files(names)
    if of_bases is not None:
        return list(
            map(tuple.__new__, repeat(BaseFile), zip(partitions, of_bases, sizes, strict=True))
        )
    of_bases = parse_base_files([name for name in names if name[:1] != "."])
    of_logs = parse_log_files([name for name in names if name[:1] == "."])
    if of_bases is None or of_logs is None:
        return list(map(parse_data_file, partitions, names, sizes))
    bases, logs = iter(of_bases), iter(of_logs)
    return [
        LogFile(partition, next(logs), size)
        if name[:1] == "."
        else BaseFile(partition, next(bases), size)
        for partition, name, size in zip(partitions, names, sizes, strict=True)
    ]


class FileSlice(NamedTuple):
    """One version of a file group: a base file, if any, and the logs on top of it, in order."""

    group: FileGroupId
    base_time: InstantTime
    base: BaseFile | None
    logs: tuple[LogFile, ...] = ()

    @property
    def size_bytes(self) -> int:
        return (self.base.size_bytes if self.base else 0) + sum(f.size_bytes for f in self.logs)


class FileGroup(NamedTuple):
    """All visible versions of a file group, oldest first."""

    id: FileGroupId
    slices: tuple[FileSlice, ...]

    @property
    def latest(self) -> FileSlice:
        return self.slices[-1]
