"""A table's files for people: file groups, their slices, sizes, and how sizes spread."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hoodoo.config.write import MIB, SMALL_FILE_LIMIT
from hoodoo.errors import InputError
from hoodoo.model.files import DataFile, FileGroup, FileSlice
from hoodoo.model.instant import InstantTime
from hoodoo.model.paths import PartitionPath
from hoodoo.read.file_listing import FileFinder, visible_groups
from hoodoo.table.ref import TableRef

_BOUNDS = (0, 64 * 1024, MIB, 16 * MIB, 64 * MIB, 128 * MIB, 512 * MIB)


@dataclass(frozen=True, slots=True)
class FileReport:
    """One data file."""

    path: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class SliceReport:
    """One version of a file group."""

    base_time: InstantTime
    base_file: FileReport | None
    log_files: tuple[FileReport, ...]
    size_bytes: int


@dataclass(frozen=True, slots=True)
class GroupReport:
    """A file group with its slices, oldest first; readers see the last one."""

    partition: PartitionPath
    file_id: str
    slices: tuple[SliceReport, ...]


@dataclass(frozen=True, slots=True)
class SizeBucket:
    """How many current files are at least `from_bytes` and smaller than `below_bytes`."""

    from_bytes: int
    below_bytes: int | None
    base_files: int
    log_files: int


@dataclass(frozen=True, slots=True)
class FileTotals:
    """Counts and sizes. Current files are those of each group's newest slice."""

    partitions: int
    file_groups: int
    base_files: int
    log_files: int
    current_bytes: int
    older_slices: int
    older_bytes: int
    small_files: int
    small_file_limit_bytes: int


@dataclass(frozen=True, slots=True)
class FilesReport:
    """The files that a reader of the table's present state may need."""

    totals: FileTotals
    histogram: tuple[SizeBucket, ...]
    groups: tuple[GroupReport, ...]


def report_files(ref: TableRef, *, partition: str | None = None) -> FilesReport:
    """The files of the table, or of one partition and those below it."""
    partition = partition.rstrip("/") if partition is not None else None
    timeline = ref.load_timeline()
    index = FileFinder(ref, timeline)
    groups = visible_groups(ref, timeline, keep=_Within(partition), lister=index)
    groups = tuple(group for group in groups if _is_within(group.id.partition, partition))
    if not groups and partition is not None:
        _check_partition(index, partition)
    return FilesReport(
        totals=totals_of(ref, groups),
        histogram=_histogram(group.latest for group in groups),
        groups=tuple(_group_report(group) for group in groups),
    )


def totals_of(ref: TableRef, groups: tuple[FileGroup, ...]) -> FileTotals:
    """Counts and sizes of these file groups."""
    current = [group.latest for group in groups]
    older = [slice_ for group in groups for slice_ in group.slices[:-1]]
    bases = [slice_.base for slice_ in current if slice_.base is not None]
    limit = ref.config.get(SMALL_FILE_LIMIT)
    return FileTotals(
        partitions=len({group.id.partition for group in groups}),
        file_groups=len(groups),
        base_files=len(bases),
        log_files=sum(len(slice_.logs) for slice_ in current),
        current_bytes=sum(slice_.size_bytes for slice_ in current),
        older_slices=len(older),
        older_bytes=sum(slice_.size_bytes for slice_ in older),
        small_files=sum(base.size_bytes < limit for base in bases),
        small_file_limit_bytes=limit,
    )


@dataclass(frozen=True, slots=True)
class _Within:
    """Keeps a partition and those below it, and the directories on the way to them."""

    partition: str | None

    def __call__(self, path: PartitionPath, *, whole: bool) -> bool:
        on_the_way = f"{self.partition}/".startswith(f"{path}/")
        return on_the_way or _is_within(path, self.partition)


def _is_within(path: PartitionPath, partition: str | None) -> bool:
    return partition is None or f"{path}/".startswith(f"{partition}/")


def _check_partition(index: FileFinder, partition: str) -> None:
    partitions = index.partitions()
    if any(_is_within(path, partition) for path in partitions):
        return  # there, but without visible files
    some = ", ".join(repr(str(path)) for path in partitions[:5]) + (
        ", ..." if partitions[5:] else ""
    )
    raise InputError(f"no partition {partition!r}; there are {some or 'none'}")


def _histogram(slices: Iterable[FileSlice]) -> tuple[SizeBucket, ...]:
    bases = [0] * len(_BOUNDS)
    logs = [0] * len(_BOUNDS)
    for slice_ in slices:
        if slice_.base is not None:
            bases[_bucket(slice_.base)] += 1
        for log in slice_.logs:
            logs[_bucket(log)] += 1
    ends = (*_BOUNDS[1:], None)
    return tuple(map(SizeBucket, _BOUNDS, ends, bases, logs))


def _bucket(file: DataFile) -> int:
    return sum(file.size_bytes >= bound for bound in _BOUNDS[1:])


def _group_report(group: FileGroup) -> GroupReport:
    slices = tuple(
        SliceReport(
            slice_.base_time,
            _file_report(slice_.base) if slice_.base is not None else None,
            tuple(_file_report(log) for log in slice_.logs),
            slice_.size_bytes,
        )
        for slice_ in group.slices
    )
    return GroupReport(group.id.partition, group.id.file_id, slices)


def _file_report(file: DataFile) -> FileReport:
    return FileReport(file.path, file.size_bytes)
