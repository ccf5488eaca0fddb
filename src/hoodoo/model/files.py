"""Data files and how they group: file group -> file slices -> base file and log files.

`build_file_groups` makes groups of files, with the slices that a reader may see, and is pure.
Versions 8 and 9 decide by completion time: a log file belongs to the newest base file requested no
later than the log's commit completed. Version 6 decides by name: a log file carries the instant of
its base file. In both, a log file with no base file of its own joins the slice before it; that is
also how logs written under a pending compaction are read before it completes.

Files and slices are tuples: a listing makes tens of thousands of each, and tuples are made, hashed
and compared several times as fast as dataclasses. `parse_data_files` reads all names of a listing
at once.

A `Lister` lists a table's data files, by directories or by the metadata table.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import repeat
from typing import NamedTuple, Protocol

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

# -- data files ------------------------------------------------------------------------------------


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


def instant_of_file(file: DataFile) -> InstantTime:
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


# -- file groups and their visible slices ----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Visibility:
    """Which instants a view of the table sees, and when each of them completed.

    Instants requested before `archived_before` have left the active timeline: they count as
    committed, unless `until` (a requested time) excludes them.
    """

    completions: Mapping[InstantTime, InstantTime]
    archived_before: InstantTime | None = None
    until: InstantTime | None = None
    archived_completions: Mapping[InstantTime, InstantTime] = field(default_factory=dict)

    def completion_of(self, requested_time: InstantTime) -> InstantTime | None:
        """When this instant completed, or None if the view does not see it."""
        completion = self.completions.get(requested_time)
        if completion is not None:
            return completion
        if self.archived_before is None or requested_time >= self.archived_before:
            return None
        if self.until is not None and requested_time > self.until:
            return None
        return self.archived_completions.get(requested_time, requested_time)

    def sees(self, requested_time: InstantTime) -> bool:
        return self.completion_of(requested_time) is not None


EVERYTHING = Visibility({}, archived_before=InstantTime("9" * 17))
"""A view to which every instant is committed."""


def build_file_groups(
    files: Iterable[DataFile], visibility: Visibility, *, by_completion: bool
) -> list[FileGroup]:
    """Group data files into file groups, each with its visible slices, oldest first."""
    files_by_group: dict[FileGroupId, list[DataFile]] = {}
    for file in files:
        files_by_group.setdefault(FileGroupId(file.partition, file.name.file_id), []).append(file)
    sees = cache(visibility.sees)  # many files are of few instants
    groups = []
    for group, members in files_by_group.items():
        only = members[0]
        if len(members) == 1 and isinstance(only, BaseFile):  # most file groups of most tables
            time = only.name.requested_time
            if sees(time):
                groups.append(FileGroup(group, (FileSlice(group, time, only),)))
            continue
        bases = [file for file in members if isinstance(file, BaseFile)]
        logs = [file for file in members if isinstance(file, LogFile) and not file.name.is_cdc]
        slices = _slices(group, bases, logs, visibility, by_completion=by_completion)
        if slices:
            groups.append(FileGroup(group, tuple(slices)))
    return groups


def _slices(
    group: FileGroupId,
    bases: list[BaseFile],
    logs: list[LogFile],
    visibility: Visibility,
    *,
    by_completion: bool,
) -> list[FileSlice]:
    visible = [base for base in bases if visibility.sees(base.name.requested_time)]
    visible.sort(key=lambda base: (base.name.requested_time, base.name.token))
    times = [base.name.requested_time for base in visible]
    logs_by_base: list[list[LogFile]] = [[] for _ in visible]
    before_any: list[LogFile] = []
    for log in sorted(logs, key=_log_order):
        moment = (
            visibility.completion_of(log.name.instant_time)
            if by_completion
            else log.name.instant_time
        )
        if moment is None:
            continue
        position = bisect_right(times, moment) - 1
        (logs_by_base[position] if position >= 0 else before_any).append(log)
    slices = []
    if before_any:
        first = before_any[0].name.instant_time
        slices.append(FileSlice(group, first, None, tuple(before_any)))
    for base, its_logs in zip(visible, logs_by_base, strict=True):
        slices.append(FileSlice(group, base.name.requested_time, base, tuple(its_logs)))
    return slices


def _log_order(log: LogFile) -> tuple[str, int, str]:
    return (log.name.instant_time, log.name.version, log.name.token or "")


def depends_on_history(files: Iterable[DataFile], visibility: Visibility) -> bool:
    """Whether slicing needs completion times of archived instants.

    It does when an archived log is older than a base file of its group: only the completion
    time tells on which side of that base file the log falls.
    """
    if visibility.archived_before is None:
        return False
    files = list(files)
    archived_logs = [
        file
        for file in files
        if isinstance(file, LogFile)
        and file.name.instant_time < visibility.archived_before
        and file.name.instant_time not in visibility.completions
    ]
    if not archived_logs:
        return False
    newest_base: dict[FileGroupId, InstantTime] = {}
    for file in files:
        if isinstance(file, BaseFile):
            group = FileGroupId(file.partition, file.name.file_id)
            time = file.name.requested_time
            newest_base[group] = max(time, newest_base.get(group, time))
    return any(
        log.name.instant_time < newest_base.get(FileGroupId(log.partition, log.name.file_id), "")
        for log in archived_logs
    )


# -- the protocol of listings ----------------------------------------------------------------------


class PartitionPredicate(Protocol):
    """Says which partitions matter; `whole` is false for the leading part of their paths."""

    def __call__(self, path: PartitionPath, *, whole: bool) -> bool: ...


class Lister(Protocol):
    """Tells a table's data files."""

    def files(self, keep: PartitionPredicate) -> Iterable[DataFile]:
        """Data files of the partitions that `keep` wants."""

    def partitions(self) -> list[PartitionPath]:
        """The partitions, sorted."""


def all_partitions(path: PartitionPath, *, whole: bool) -> bool:
    """Keep every partition."""
    return True
