"""(instants, files) -> file groups with their visible slices. Pure.

Versions 8 and 9 decide by completion time: a log file belongs to the newest base file requested
no later than the log's commit completed. Version 6 decides by name: a log file carries the
instant of its base file. In both, a log file with no base file of its own joins the slice before
it; that is also how logs written under a pending compaction are read before it completes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache

from hoodoo.model.files import BaseFile, DataFile, FileGroup, FileGroupId, FileSlice, LogFile
from hoodoo.model.instant import InstantTime


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

    def completion_of(self, requested: InstantTime) -> InstantTime | None:
        """When this instant completed, or None if the view does not see it."""
        completion = self.completions.get(requested)
        if completion is not None:
            return completion
        if self.archived_before is None or requested >= self.archived_before:
            return None
        if self.until is not None and requested > self.until:
            return None
        return self.archived_completions.get(requested, requested)

    def sees(self, requested: InstantTime) -> bool:
        return self.completion_of(requested) is not None


EVERYTHING = Visibility({}, archived_before=InstantTime("9" * 17))
"""A view to which every instant is committed."""


def file_groups(
    files: Iterable[DataFile], visibility: Visibility, *, by_completion: bool
) -> list[FileGroup]:
    """Group data files into file groups, each with its visible slices, oldest first."""
    grouped: dict[FileGroupId, list[DataFile]] = {}
    for file in files:
        grouped.setdefault(FileGroupId(file.partition, file.name.file_id), []).append(file)
    sees = cache(visibility.sees)  # many files are of few instants
    groups = []
    for group, members in grouped.items():
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
    placed: list[list[LogFile]] = [[] for _ in visible]
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
        (placed[position] if position >= 0 else before_any).append(log)
    slices = []
    if before_any:
        first = before_any[0].name.instant_time
        slices.append(FileSlice(group, first, None, tuple(before_any)))
    for base, its_logs in zip(visible, placed, strict=True):
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
