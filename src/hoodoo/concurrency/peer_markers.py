"""What the markers of writes in progress say about some file groups, looked at again and again.

A look is one listing, and the batches that changed since the last one. Names are only cut into
partition and file id, and those that are about the file groups in question are parsed with care.
What cannot be read keeps the meaning that it had.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from hoodoo.concurrency.conflict import Mine, Strategy, Touch, by_bucket
from hoodoo.concurrency.markers import is_marker_of
from hoodoo.env import Env
from hoodoo.errors import NotFound, StorageError
from hoodoo.format import markers as codec
from hoodoo.model.buckets import DIGITS
from hoodoo.model.files import FileGroupId, LogFile, parse_data_file
from hoodoo.model.instant import InstantTime
from hoodoo.model.names import MarkerKind, MarkerName
from hoodoo.model.paths import PartitionPath, marker_directory
from hoodoo.storage.storage import ObjectInfo

log = logging.getLogger("hoodoo.concurrency")

_MARKER = b".marker."
_LINE_ENDS = tuple(_MARKER + kind.value.encode() + b"\n" for kind in MarkerKind)
_Name = tuple[bytes, bytes, bytes]
"""A marker's whole name, its partition, its file id."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The file groups that a marker may be about to be of interest, and whole partitions."""

    groups: frozenset[tuple[bytes, bytes]]
    partitions: frozenset[bytes] | None = frozenset()
    """None is all of them."""
    digits: int | None = None
    """How much of a file id counts; None is all of it."""

    @classmethod
    def of(cls, mine: Mine, strategy: Strategy) -> Wanted:
        """Whatever could be a conflict of an instant by the rules of a strategy."""
        digits = DIGITS if strategy.same_as is by_bucket else None
        groups = frozenset(
            (group.partition.encode(), group.file_id.encode()[:digits]) for group in mine.touches
        )
        if mine.overwrites is None:
            return cls(groups, None, digits)
        return cls(groups, frozenset(name.encode() for name in mine.overwrites), digits)

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
class _Scanned:
    """The names in one batch or listing; those of an odd form are always parsed."""

    names: list[_Name]
    odd: tuple[MarkerName, ...] = ()

    def select(self, wanted: Wanted) -> Iterator[MarkerName]:
        for name in wanted.select(self.names):
            marker = codec.parse_path(name.decode(errors="replace"))
            if marker is not None:
                yield marker
        yield from self.odd


def _scan_names(names: list[str]) -> _Scanned:
    return _Scanned(_cut(name.encode(errors="replace") for name in names))


def _scan(data: bytes) -> _Scanned:
    """The names in a batch: one on each line, or whatever else Apache Hudi reads as names."""
    lines = data.count(b"\n")
    is_usual = (
        data.endswith(b"\n")
        and sum(map(data.count, _LINE_ENDS)) == lines == data.count(_MARKER)
        and b"," not in data
        and b"\r" not in data
    )
    if not is_usual:
        return _Scanned([], codec.decode_batch(data).markers)
    return _Scanned(_cut(data[:-1].split(b"\n")))


def _cut(names: Iterable[bytes]) -> list[_Name]:
    """Ids of file groups have no underscore; a log file's name starts with a dot."""
    cut = []
    for name in names:
        partition, _, file = name.rpartition(b"/")
        cut.append((name, partition, file.partition(b"_")[0].lstrip(b".")))
    return cut


@dataclass
class _Known:
    """What the markers of one write said when they were last looked at, in whole."""

    batches: dict[str, tuple[tuple[str, int, int], _Scanned]] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    """Of direct markers."""
    direct: _Scanned = field(default_factory=lambda: _Scanned([]))


class PeerMarkers:
    """The markers of other writes, as far as they were read."""

    def __init__(self, env: Env) -> None:
        self._env = env
        self._known: dict[InstantTime, _Known] = {}
        self.failures = 0
        """How often something could not be read."""

    def find_touches(
        self,
        instant: InstantTime,
        wanted: Wanted,
        partitions: Collection[PartitionPath] | None = None,
    ) -> dict[FileGroupId, Touch]:
        """What a write does to file groups, as far as it has announced it and that is wanted.

        `partitions`: the only ones whose direct markers are listed; batches have all.
        Order: listing; batches that changed.
        """
        known = self._known.setdefault(instant, _Known())
        direct = known.direct
        try:
            entries = list(self._list(marker_directory(instant), partitions))
        except StorageError as error:
            self._count_failure(instant, error)
        else:
            direct = self._update(known, instant, entries, is_whole=partitions is None)
        touches: dict[FileGroupId, Touch] = {}
        for scanned in (direct, *(batch for _, batch in known.batches.copy().values())):
            for marker in scanned.select(wanted):
                touch = touch_of(marker) if is_marker_of(marker, instant) else None
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
        self, known: _Known, instant: InstantTime, entries: list[ObjectInfo], *, is_whole: bool
    ) -> _Scanned:
        """Read the batches that changed; what the direct markers of a listing say.

        Tasks look from several threads: they share what batches say, and nothing else.
        """
        start = len(marker_directory(instant)) + 1
        names, batches = [], {}
        for entry in entries:
            name = entry.path[start:]
            if codec.is_batch(name):
                batches[name] = entry
            elif name != codec.TYPE_FILE:
                names.append(name)
        for gone in known.batches.keys() - batches.keys():
            known.batches.pop(gone, None)
        for name, entry in batches.items():
            version = (entry.etag, entry.size_bytes, entry.modified_ms)
            if known.batches.get(name, ("",))[0] != version:
                self._read(known, instant, name, entry, version)
        if not is_whole:
            return _scan_names(names)
        if tuple(names) != known.names:
            known.names, known.direct = tuple(names), _scan_names(names)
        return known.direct

    def _read(
        self,
        known: _Known,
        instant: InstantTime,
        name: str,
        entry: ObjectInfo,
        version: tuple[str, int, int],
    ) -> None:
        try:
            known.batches[name] = (version, _scan(self._env.storage.read(entry.path)))
        except NotFound:  # the write has ended
            known.batches.pop(name, None)
        except StorageError as error:
            self._count_failure(instant, error)

    def _count_failure(self, instant: InstantTime, error: StorageError) -> None:
        self.failures += 1
        log.warning("markers_not_read time=%s failures=%d %s", instant, self.failures, error)


def touch_of(marker: MarkerName) -> tuple[FileGroupId, Touch] | None:
    """The file group that a marker is about, and what is done to it."""
    partition, _, name = marker.data_file.rpartition("/")
    file = parse_data_file(PartitionPath(partition), name, 0)
    if file is None:
        return None
    group = FileGroupId(file.partition, file.name.file_id)
    if isinstance(file, LogFile) or marker.kind is MarkerKind.APPEND:
        return group, Touch.APPEND
    return group, Touch.REWRITE if marker.kind is MarkerKind.MERGE else Touch.CREATE
