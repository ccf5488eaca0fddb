"""Strays anywhere in the table: data files that no commit names, however they came to be there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from hoodoo.concurrency.liveness import default_expiry_ms, store_time_ms
from hoodoo.concurrency.others import WRITER_KEY
from hoodoo.errors import NotFound, UnusablePath
from hoodoo.model.files import DataFile, made_by
from hoodoo.model.instant import Instant, InstantTime
from hoodoo.table.listing import DirectoryLister, data_files
from hoodoo.table.ref import TableRef
from hoodoo.table.strays import delete_files
from hoodoo.timeline.load import read_commit
from hoodoo.timeline.timeline import Timeline

_EXPIRIES = 2
"""A file so old cannot be of a task that is still at work."""


def find_strays(ref: TableRef, now_ms: int) -> list[str]:
    """Paths of old data files that no commit names.

    Files below the active timeline count as committed. Of commits of other engines, which may name
    their files in ways of their own, none are.

    Order: files, then the timeline, so that the instant of each file is on it unless it has ended.
    """
    old: dict[InstantTime, list[str]] = defaultdict(list)
    least_ms = _EXPIRIES * default_expiry_ms(ref)
    for file, modified_ms in _list_files(ref):
        if now_ms - modified_ms > least_ms:
            old[made_by(file)].append(file.path)
    timeline = ref.load_timeline()
    return sorted(
        path for time, files in old.items() for path in _select_strays(ref, timeline, time, files)
    )


def delete_strays(ref: TableRef) -> list[str]:
    """Delete them; tells which they were.

    Crash: the others are found again.
    """
    return sorted(delete_files(ref.env, find_strays(ref, store_time_ms(ref.env))))


def _list_files(ref: TableRef) -> Iterator[tuple[DataFile, int]]:
    for partition in DirectoryLister(ref.env, ref.properties.keys).partitions():
        try:
            entries = {entry.path: entry for entry in ref.env.storage.list(partition)}
        except UnusablePath:
            continue
        for file in data_files(partition, entries.values()):
            yield file, entries[file.path].modified_ms


def _select_strays(
    ref: TableRef, timeline: Timeline, time: InstantTime, files: list[str]
) -> list[str]:
    instant = timeline.find(time)
    if instant is not None:
        return _select_unnamed(ref, instant, files) if instant.is_completed else []
    is_archived = timeline.start is None or time < timeline.start
    return [] if is_archived else files


def _select_unnamed(ref: TableRef, commit: Instant, files: list[str]) -> list[str]:
    try:
        metadata = read_commit(ref.env, ref.properties.timeline, commit)
    except NotFound:  # archived meanwhile
        return []
    if WRITER_KEY not in metadata.extra_metadata:
        return []
    named = {stat.path for _, stat in metadata.stats()}
    return [path for path in files if path not in named]
