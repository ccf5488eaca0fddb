"""Markers: a write announces each data file before it makes it, so that others can undo it.

Two layouts, both Apache Hudi's, in the instant's own directory `.hoodie/.temp/<T>`: an empty file
per data file, or batches of names. `docs/format/markers.md` tells of both. Reading takes
whatever is there, whatever the settings say. Nothing else of ours may be in these directories:
with direct markers, one foreign file makes Apache Hudi roll back without deleting anything.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Protocol

from hoodoo.config.concurrency import MarkerType
from hoodoo.env import Env
from hoodoo.errors import AlreadyExists, NotFound
from hoodoo.format import markers as codec
from hoodoo.model.files import made_by, parse_data_file
from hoodoo.model.instant import InstantTime
from hoodoo.model.names import MarkerKind, MarkerName
from hoodoo.model.paths import META, PartitionPath, marker_directory
from hoodoo.timeline.resolve_unknown import create_once, delete_surely

log = logging.getLogger("hoodoo.concurrency")


@dataclass(frozen=True, slots=True)
class Markers:
    """What the marker directory of an instant says; both layouts say it in the same way."""

    files: tuple[MarkerName, ...] = ()
    """Sorted, each once."""
    foreign: tuple[str, ...] = ()
    """Paths and lines that announce no data file of the instant; nobody acts on them."""

    @property
    def paths(self) -> frozenset[str]:
        """The data files that the instant may have made.

        APPEND (tables below version 8) names a file slice, not a file that was new.
        """
        return frozenset(m.data_file for m in self.files if m.kind is not MarkerKind.APPEND)


class Announcer(Protocol):
    """Whom tasks give their markers to, if not to the store; pickles to executors."""

    def announce(
        self, env: Env, instant: InstantTime, markers: Sequence[MarkerName], *, number: int
    ) -> None:
        """Tell of data files as `announce` does. Raises `EarlyConflict` if the write is lost."""


def announce(
    env: Env,
    instant: InstantTime,
    markers: Sequence[MarkerName],
    *,
    type: MarkerType,
    number: int = 0,
) -> None:
    """Tell of data files that are about to be made; when this returns, anyone can undo them.

    `number` is where a batch looks for a free file of its own; those who announce beside each
    other start at different ones. Announcing a file twice does no harm.

    Order: direct: the marker files. Batched: MARKERS.type, then the batch.
    Crash: markers of files that are not there, which means nothing.
    """
    if not markers:
        return
    directory = marker_directory(instant)
    if type is MarkerType.DIRECT:
        for marker in markers:
            _ensure(env, f"{directory}/{marker}", b"")
        return
    data = codec.encode_batch(markers)
    _ensure(env, f"{directory}/{codec.TYPE_FILE}", codec.TYPE)
    for free in count(number):
        with suppress(AlreadyExists):
            create_once(env, f"{directory}/{codec.batch_name(free)}", data)
            return


def _ensure(env: Env, path: str, data: bytes) -> None:
    with suppress(AlreadyExists):
        create_once(env, path, data)


def load_markers(env: Env, instant: InstantTime) -> Markers:
    """The files that an instant announced, in whichever layout: one listing, and the batches."""
    directory = marker_directory(instant)
    markers: set[MarkerName] = set()
    foreign: list[str] = []
    for entry in env.storage.list(directory, recursive=True):
        name = entry.path.removeprefix(f"{directory}/")
        marker = codec.parse_path(name)
        if marker is not None:
            markers.add(marker)
        elif codec.is_batch(name):
            batch = _read_batch(env, entry.path)
            markers.update(batch.markers)
            foreign += (f"{entry.path}: {text}" for text in batch.unreadable)
        elif name != codec.TYPE_FILE and not _is_checksum(name):
            foreign.append(entry.path)
    wrong = {marker for marker in markers if not is_marker_of(marker, instant)}
    foreign += (f"{directory}: {marker}" for marker in wrong)
    if foreign:
        log.warning("foreign_markers time=%s found=%s", instant, sorted(foreign))
    files = sorted(markers - wrong, key=str)
    return Markers(tuple(files), tuple(sorted(foreign)))


def _is_checksum(name: str) -> bool:
    """Hadoop leaves these on local disks."""
    return name.rpartition("/")[2].startswith(".") and name.endswith(".crc")


def _read_batch(env: Env, path: str) -> codec.Batch:
    try:
        return codec.decode_batch(env.storage.read(path))
    except NotFound:  # deleted meanwhile: the instant has ended
        return codec.Batch(())


def is_marker_of(marker: MarkerName, instant: InstantTime) -> bool:
    """Whether a marker announces a data file of the instant: others are not its to delete."""
    segments = marker.data_file.split("/")
    if segments[0] == META or any(segment in ("", ".", "..") for segment in segments):
        return False
    file = parse_data_file(PartitionPath("/".join(segments[:-1])), segments[-1], 0)
    if file is None or marker.kind is MarkerKind.APPEND:
        return file is not None
    return made_by(file) == instant


def delete_markers(env: Env, instant: InstantTime) -> None:
    """Remove the marker directory of an instant, with whatever is in it.

    Needs: the instant is completed, or none of its files is left.
    Order: foreign files, which disturb Apache Hudi; markers and batches; MARKERS.type, without
    which it would take the batches for direct markers.
    Crash: the rest of the directory, which reads as fewer markers; the next sweep takes it.
    """
    directory = marker_directory(instant)
    paths = [entry.path for entry in env.storage.list(directory, recursive=True)]
    for path in sorted(paths, key=lambda path: (_turn(path.removeprefix(f"{directory}/")), path)):
        delete_surely(env, path)


def _turn(name: str) -> int:
    if name == codec.TYPE_FILE:
        return 2
    return 1 if codec.is_batch(name) or codec.parse_path(name) else 0
