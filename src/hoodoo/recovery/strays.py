"""Strays: data files that no commit names.

The functions find the data files of an instant, by markers, plans and listings; its strays, which a
rollback or a sweep deletes; and strays anywhere in the table, however they came to be there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress

from hoodoo.concurrency.heartbeats import SETTLED_EXPIRIES, default_expiry_ms, store_time_ms
from hoodoo.concurrency.markers import load_markers
from hoodoo.errors import ObjectNotFound, UnusablePath
from hoodoo.model.commit import WRITER_KEY, CommitMetadata
from hoodoo.model.files import DataFile, instant_of_file
from hoodoo.model.instant import Instant, InstantTime, State
from hoodoo.model.paths import PartitionPath
from hoodoo.read.file_listing import DirectoryLister, data_files
from hoodoo.runtime.env import Env
from hoodoo.runtime.lost_answers import delete_surely
from hoodoo.table.history import load_history
from hoodoo.table.ref import TableRef
from hoodoo.table.timeline import Timeline, read_commit, read_metadata

# -- data files of an instant -------------------------------------------------------------------


_LOCAL = "file://"


def whole_path(ref: TableRef, path: str) -> str:
    """A path as Apache Hudi's plans name it: with the table's place, local ones without scheme."""
    return f"{ref.uri.removeprefix(_LOCAL)}/{path}"


def partition_of(path: str) -> PartitionPath:
    """The partition of a data file's path."""
    return PartitionPath(path.rpartition("/")[0])


def load_announced_paths(env: Env, instant_time: InstantTime) -> frozenset[str]:
    """Paths of the data files that an instant's markers announce."""
    return load_markers(env, instant_time).paths


def find_files(
    env: Env, instant_time: InstantTime, partitions: Iterable[PartitionPath]
) -> Iterator[str]:
    """Paths of the data files of an instant that are in these partitions now."""
    for partition in partitions:
        try:
            entries = env.storage.list(partition)
        except UnusablePath:
            continue
        for file in data_files(partition, entries):
            if instant_of_file(file) == instant_time:
                yield file.path


def find_partitions(ref: TableRef, instant: Instant, files: Iterable[str]) -> set[PartitionPath]:
    """Where a pending instant may have files, or may still make some.

    By its workload profile and its markers; by listing the table if it has neither.
    """
    partitions = {partition_of(path) for path in files} | _load_profile_partitions(ref, instant)
    if not partitions and instant.state is State.INFLIGHT:
        partitions.update(DirectoryLister(ref.env, ref.properties.keys).partitions())
    return partitions


def _load_profile_partitions(ref: TableRef, instant: Instant) -> set[PartitionPath]:
    if instant.state is not State.INFLIGHT:
        return set()
    try:
        metadata = read_metadata(ref.env, ref.properties.timeline_paths, instant)
    except ObjectNotFound:
        return set()
    return set(metadata.partition_to_write_stats) if isinstance(metadata, CommitMetadata) else set()


# -- strays of an instant -----------------------------------------------------------------------


def find_strays_of_instant(
    ref: TableRef, timeline: Timeline, instant_time: InstantTime, files: Iterable[str]
) -> list[str]:
    """Of the files of an instant, those that no commit names.

    Needs: it is not pending on `timeline`.
    """
    in_timeline = timeline.find(instant_time)
    if in_timeline is not None and in_timeline.is_completed:
        metadata = read_commit(ref.env, ref.properties.timeline_paths, in_timeline)
        named_paths = {stat.path for _, stat in metadata.stats()}
        return [path for path in files if path not in named_paths]
    history = load_history(ref.env, ref.properties.timeline_paths, since=instant_time)
    if any(past_instant.requested_time == instant_time for past_instant in history):
        return []  # what it named is no longer at hand
    return list(files)


def delete_files(env: Env, files: Iterable[str]) -> set[str]:
    """Delete these, and tell which they were; one that is gone already is fine.

    So is one that cannot exist: whoever announced it failed to make it.
    """
    deleted_paths = set()
    for path in sorted(set(files)):
        with suppress(UnusablePath):
            delete_surely(env, path)
            deleted_paths.add(path)
    return deleted_paths


# -- strays anywhere in the table ---------------------------------------------------------------


def find_strays(ref: TableRef, now_ms: int) -> list[str]:
    """Paths of old data files that no commit names.

    Files below the active timeline count as committed. Of commits of other engines, which may name
    their files in ways of their own, none are.

    Order: files, then the timeline, so that the instant of each file is on it unless it has ended.
    """
    old: dict[InstantTime, list[str]] = defaultdict(list)
    least_ms = SETTLED_EXPIRIES * default_expiry_ms(ref)
    for file, modified_ms in _list_files(ref):
        if now_ms - modified_ms > least_ms:
            old[instant_of_file(file)].append(file.path)
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
    is_archived = timeline.oldest_active_write is None or time < timeline.oldest_active_write
    return [] if is_archived else files


def _select_unnamed(ref: TableRef, commit: Instant, files: list[str]) -> list[str]:
    try:
        metadata = read_commit(ref.env, ref.properties.timeline_paths, commit)
    except ObjectNotFound:  # archived meanwhile
        return []
    if WRITER_KEY not in metadata.extra_metadata:
        return []
    named_paths = {stat.path for _, stat in metadata.stats()}
    return [path for path in files if path not in named_paths]
