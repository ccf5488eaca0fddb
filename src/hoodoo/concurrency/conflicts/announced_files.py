"""Which file groups writes in progress touch, as far as they have announced it.

`PeerMarkers` reads their markers again and again. A look is one listing, and the batches that
changed since the last one. Names are only cut into partition and file id; those of the file groups
in question are parsed with care. A batch that cannot be read keeps the meaning that it had.

`GroupBlooms` gives a quick no: a Bloom filter per write, made before its first file and never
changed. It has an entry for each file group, for its bucket, and for its partition, so that writes
with a bucket index and overwrites find what they look for. A filter that is absent or unreadable
says nothing, and then markers are read.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from hoodoo.concurrency.conflicts.rules import (
    ConflictRules,
    GroupEffect,
    PublishingInstant,
    identify_by_bucket,
)
from hoodoo.concurrency.markers import is_marker_of
from hoodoo.errors import FormatError, ObjectNotFound, StorageError
from hoodoo.format import markers as codec
from hoodoo.format.parquet.bloom_filter import BloomFilter, FilterType
from hoodoo.model import paths
from hoodoo.model.files import FileGroupId, LogFile, parse_data_file
from hoodoo.model.instant import InstantTime
from hoodoo.model.keys import DIGITS
from hoodoo.model.names import MarkerKind, MarkerName
from hoodoo.model.paths import PartitionPath, marker_directory
from hoodoo.runtime.env import Env
from hoodoo.storage.storage import ObjectInfo

log = logging.getLogger("hoodoo.concurrency")


# -- markers of other writes --------------------------------------------------------------------


_MARKER = b".marker."
_LINE_ENDS = tuple(_MARKER + kind.value.encode() + b"\n" for kind in MarkerKind)
_Name = tuple[bytes, bytes, bytes]
"""A marker's whole name, its partition, its file id."""


@dataclass(frozen=True, slots=True)
class MarkerFilter:
    """The file groups that a marker may be about to be of interest, and whole partitions."""

    groups: frozenset[tuple[bytes, bytes]]
    partitions: frozenset[bytes] | None = frozenset()
    """None is all of them."""
    digits: int | None = None
    """How much of a file id counts; None is all of it."""

    @classmethod
    def of(cls, publishing: PublishingInstant, strategy: ConflictRules) -> MarkerFilter:
        """Whatever could be a conflict of an instant by the rules of a strategy."""
        digits = DIGITS if strategy.group_identity is identify_by_bucket else None
        groups = frozenset(
            (group.partition.encode(), group.file_id.encode()[:digits])
            for group in publishing.group_effects
        )
        if publishing.overwrites is None:
            return cls(groups, None, digits)
        return cls(groups, frozenset(name.encode() for name in publishing.overwrites), digits)

    def select(self, names: Iterable[_Name]) -> list[bytes]:
        """Those of these markers that are wanted."""
        groups, partitions, digits = self.groups, self.partitions, self.digits
        if partitions is None:
            return [name for name, _, _ in names]
        return [
            name
            for name, partition, file_id in names
            if (partition, file_id[:digits]) in groups or partition in partitions
        ]


@dataclass(frozen=True, slots=True)
class _MarkerNames:
    """The names in one batch or listing; those of an odd form are always parsed."""

    names: list[_Name]
    odd: tuple[MarkerName, ...] = ()

    def select(self, marker_filter: MarkerFilter) -> Iterator[MarkerName]:
        for name in marker_filter.select(self.names):
            marker = codec.parse_path(name.decode(errors="replace"))
            if marker is not None:
                yield marker
        yield from self.odd


def _scan_names(names: list[str]) -> _MarkerNames:
    return _MarkerNames(_cut(name.encode(errors="replace") for name in names))


def _scan(data: bytes) -> _MarkerNames:
    """The names in a batch: one on each line, or whatever else Apache Hudi reads as names."""
    lines = data.count(b"\n")
    is_usual = (
        data.endswith(b"\n")
        and sum(map(data.count, _LINE_ENDS)) == lines == data.count(_MARKER)
        and b"," not in data
        and b"\r" not in data
    )
    if not is_usual:
        return _MarkerNames([], codec.decode_batch(data).markers)
    return _MarkerNames(_cut(data[:-1].split(b"\n")))


def _cut(names: Iterable[bytes]) -> list[_Name]:
    """Ids of file groups have no underscore; a log file's name starts with a dot."""
    cut = []
    for name in names:
        partition, _, file = name.rpartition(b"/")
        cut.append((name, partition, file.partition(b"_")[0].lstrip(b".")))
    return cut


@dataclass
class _MarkerCache:
    """What the markers of one write said when they were last looked at, in whole."""

    batches: dict[str, tuple[tuple[str, int, int], _MarkerNames]] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    """Of direct markers."""
    direct: _MarkerNames = field(default_factory=lambda: _MarkerNames([]))


class PeerMarkers:
    """The markers of other writes, as far as they were read."""

    def __init__(self, env: Env) -> None:
        self._env = env
        self._known: dict[InstantTime, _MarkerCache] = {}
        self.failures = 0
        """How often something could not be read."""

    def find_touches(
        self,
        instant_time: InstantTime,
        marker_filter: MarkerFilter,
        partitions: Collection[PartitionPath] | None = None,
    ) -> dict[FileGroupId, GroupEffect]:
        """What a write does to file groups, as far as it has announced it and that is wanted.

        `partitions`: the only ones whose direct markers are listed; batches have all.
        Order: listing; batches that changed.
        """
        cache = self._known.setdefault(instant_time, _MarkerCache())
        direct = cache.direct
        try:
            entries = list(self._list(marker_directory(instant_time), partitions))
        except StorageError as error:
            self._count_failure(instant_time, error)
        else:
            direct = self._update(cache, instant_time, entries, is_whole=partitions is None)
        touches: dict[FileGroupId, GroupEffect] = {}
        for names in (direct, *(batch for _, batch in cache.batches.copy().values())):
            for marker in names.select(marker_filter):
                touch = effect_of_marker(marker) if is_marker_of(marker, instant_time) else None
                if touch is not None:
                    group, how = touch
                    touches[group] = max(how, touches.get(group, how))
        return touches

    def _list(
        self, directory: str, partitions: Collection[PartitionPath] | None
    ) -> Iterator[ObjectInfo]:
        storage = self._env.storage
        if partitions is None:
            yield from storage.list(directory, recursive=True)
            return
        yield from storage.list(directory)
        for partition in partitions:
            if partition:
                yield from storage.list(f"{directory}/{partition}")

    def _update(
        self,
        cache: _MarkerCache,
        instant_time: InstantTime,
        entries: list[ObjectInfo],
        *,
        is_whole: bool,
    ) -> _MarkerNames:
        """Read the batches that changed; what the direct markers of a listing say.

        Tasks look from several threads: they share what batches say, and nothing else.
        """
        start = len(marker_directory(instant_time)) + 1
        names, batches = [], {}
        for entry in entries:
            name = entry.path[start:]
            if codec.is_batch(name):
                batches[name] = entry
            elif name != codec.TYPE_FILE:
                names.append(name)
        for batch_name in cache.batches.keys() - batches.keys():
            cache.batches.pop(batch_name, None)
        for name, entry in batches.items():
            version = (entry.etag, entry.size_bytes, entry.modified_ms)
            if cache.batches.get(name, ("",))[0] != version:
                self._read(cache, instant_time, name, entry, version)
        if not is_whole:
            return _scan_names(names)
        if tuple(names) != cache.names:
            cache.names, cache.direct = tuple(names), _scan_names(names)
        return cache.direct

    def _read(
        self,
        cache: _MarkerCache,
        instant_time: InstantTime,
        name: str,
        entry: ObjectInfo,
        version: tuple[str, int, int],
    ) -> None:
        try:
            cache.batches[name] = (version, _scan(self._env.storage.read(entry.path)))
        except ObjectNotFound:  # the write has ended
            cache.batches.pop(name, None)
        except StorageError as error:
            self._count_failure(instant_time, error)

    def _count_failure(self, instant_time: InstantTime, error: StorageError) -> None:
        self.failures += 1
        log.warning("markers_not_read time=%s failures=%d %s", instant_time, self.failures, error)


def effect_of_marker(marker: MarkerName) -> tuple[FileGroupId, GroupEffect] | None:
    """The file group that a marker is about, and what is done to it."""
    partition, _, name = marker.data_file.rpartition("/")
    file = parse_data_file(PartitionPath(partition), name, 0)
    if file is None:
        return None
    group = FileGroupId(file.partition, file.name.file_id)
    if isinstance(file, LogFile) or marker.kind is MarkerKind.APPEND:
        return group, GroupEffect.APPEND
    return group, GroupEffect.REWRITE if marker.kind is MarkerKind.MERGE else GroupEffect.CREATE


# -- Bloom filters of other writes --------------------------------------------------------------


_FALSE_POSITIVE_RATE = 1e-6


def write_group_bloom(env: Env, instant_time: InstantTime, groups: Iterable[FileGroupId]) -> None:
    """Tell which file groups a write touches, all of them.

    Needs: the write makes no file yet. Failing here changes nothing: markers tell the same.
    """
    names = set()
    for group in groups:
        partition = f"{group.partition}/"
        names |= {partition, f"{partition}{group.file_id}", f"{partition}{group.file_id[:DIGITS]}"}
    if not names:
        return
    entries = pa.array(sorted(names), pa.string())
    bloom = BloomFilter.build(
        entries,
        type=FilterType.SIMPLE,
        entries=len(names),
        false_positive_rate=_FALSE_POSITIVE_RATE,
    )
    try:
        env.storage.put(paths.group_bloom(instant_time), bloom.encode().encode())
    except StorageError as error:
        log.warning("bloom_not_written time=%s error=%s", instant_time, error)


class GroupBlooms:
    """The filters of other writes, each read once."""

    def __init__(self, env: Env) -> None:
        self._env = env
        self._blooms: dict[InstantTime, BloomFilter | None] = {}

    def may_touch(self, instant_time: InstantTime, marker_filter: MarkerFilter) -> bool:
        """Whether a write may touch what is wanted; only a filter that was read says no."""
        if instant_time not in self._blooms:
            self._blooms[instant_time] = self._read(instant_time)
        bloom = self._blooms[instant_time]
        if bloom is None or marker_filter.partitions is None:
            return True
        names = [partition + b"/" + file_id for partition, file_id in marker_filter.groups]
        names += [partition + b"/" for partition in marker_filter.partitions]
        entries = pa.array([name.decode() for name in names], pa.string())
        return bool(bloom.might_contain(entries).any())

    def _read(self, instant_time: InstantTime) -> BloomFilter | None:
        try:
            data = self._env.storage.read(paths.group_bloom(instant_time))
            return BloomFilter.decode(data, FilterType.SIMPLE.value)
        except ObjectNotFound:
            return None
        except (StorageError, FormatError) as error:
            log.warning("bloom_not_read time=%s error=%s", instant_time, error)
            return None
