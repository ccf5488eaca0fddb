"""The data files of one instant: where they may be, and how plans name them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hoodoo.concurrency.markers import load_markers
from hoodoo.env import Env
from hoodoo.errors import NotFound, UnusablePath
from hoodoo.model.commit import CommitMetadata
from hoodoo.model.files import made_by
from hoodoo.model.instant import Instant, InstantTime, State
from hoodoo.model.paths import PartitionPath
from hoodoo.table.listing import DirectoryLister, data_files
from hoodoo.table.ref import TableRef
from hoodoo.timeline.load import read_metadata

_LOCAL = "file://"


def whole_path(ref: TableRef, path: str) -> str:
    """A path as Apache Hudi's plans name it: with the table's place, local ones without scheme."""
    return f"{ref.uri.removeprefix(_LOCAL)}/{path}"


def partition_of(path: str) -> PartitionPath:
    """The partition of a data file's path."""
    return PartitionPath(path.rpartition("/")[0])


def load_announced_paths(env: Env, instant: InstantTime) -> frozenset[str]:
    """Paths of the data files that an instant's markers announce."""
    return load_markers(env, instant).paths


def find_files(
    env: Env, instant: InstantTime, partitions: Iterable[PartitionPath]
) -> Iterator[str]:
    """Paths of the data files of an instant that are in these partitions now."""
    for partition in partitions:
        try:
            entries = env.storage.list(partition)
        except UnusablePath:
            continue
        for file in data_files(partition, entries):
            if made_by(file) == instant:
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
        metadata = read_metadata(ref.env, ref.properties.timeline, instant)
    except NotFound:
        return set()
    return set(metadata.partition_to_write_stats) if isinstance(metadata, CommitMetadata) else set()
