"""Markers: a write announces each data file before it makes it, so that others can undo it.

Two layouts, both Apache Hudi's, in the instant's own directory `.hoodie/.temp/<T>`: an empty file
per data file, or batches of names. `docs/format/markers.md` describes both. Reading takes whatever
is there, whatever the settings say. Nothing else of ours may be in these directories: with direct
markers, one foreign file makes Apache Hudi roll back without deleting anything.

`MarkerBatches` keeps all markers of a write in a few files that are rewritten as markers come. It
has no threads of its own: a caller that has threads may write several batches at once, each to a
file of its own. `begin` and `end` are for one thread at a time; `write` is for any. Files are
rewritten under a condition, never blindly: a plain write whose answer got lost could land after a
later one, and take acknowledged markers back. What another server put into a file stays in it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Protocol

from hoodoo.config.concurrency import MarkerType
from hoodoo.errors import InputError, ObjectExists, ObjectNotFound, PreconditionFailed, StorageError
from hoodoo.format import markers as codec
from hoodoo.model.files import instant_of_file, parse_data_file
from hoodoo.model.instant import InstantTime
from hoodoo.model.names import MarkerKind, MarkerName
from hoodoo.model.paths import META, PartitionPath, marker_directory
from hoodoo.runtime.env import Env
from hoodoo.runtime.lost_answers import create_once, delete_surely, replace_once
from hoodoo.storage.uri import is_text

log = logging.getLogger("hoodoo.concurrency")


# -- announcing and reading ---------------------------------------------------------------------


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
        self, env: Env, instant_time: InstantTime, markers: Sequence[MarkerName], *, number: int
    ) -> None:
        """Tell of data files as `announce` does. Raises `EarlyConflict` if the write is lost."""


def announce(
    env: Env,
    instant_time: InstantTime,
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
    directory = marker_directory(instant_time)
    if type is MarkerType.DIRECT:
        for marker in markers:
            _ensure(env, f"{directory}/{marker}", b"")
        return
    data = codec.encode_batch(markers)
    _ensure(env, f"{directory}/{codec.TYPE_FILE}", codec.TYPE)
    for free in count(number):
        with suppress(ObjectExists):
            create_once(env, f"{directory}/{codec.batch_name(free)}", data)
            return


def _ensure(env: Env, path: str, data: bytes) -> None:
    with suppress(ObjectExists):
        create_once(env, path, data)


def load_markers(env: Env, instant_time: InstantTime) -> Markers:
    """The files that an instant announced, in whichever layout: one listing, and the batches."""
    directory = marker_directory(instant_time)
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
    wrong = {marker for marker in markers if not is_marker_of(marker, instant_time)}
    foreign += (f"{directory}: {marker}" for marker in wrong)
    if foreign:
        log.warning("foreign_markers time=%s found=%s", instant_time, sorted(foreign))
    files = sorted(markers - wrong, key=str)
    return Markers(tuple(files), tuple(sorted(foreign)))


def _is_checksum(name: str) -> bool:
    """Hadoop leaves these on local disks."""
    return name.rpartition("/")[2].startswith(".") and name.endswith(".crc")


def _read_batch(env: Env, path: str) -> codec.MarkerBatch:
    try:
        return codec.decode_batch(env.storage.read(path))
    except ObjectNotFound:  # deleted meanwhile: the instant has ended
        return codec.MarkerBatch(())


def is_marker_of(marker: MarkerName, instant_time: InstantTime) -> bool:
    """Whether a marker announces a data file of the instant: others are not its to delete."""
    segments = marker.data_file.split("/")
    if segments[0] == META or any(segment in ("", ".", "..") for segment in segments):
        return False
    file = parse_data_file(PartitionPath("/".join(segments[:-1])), segments[-1], 0)
    if file is None or marker.kind is MarkerKind.APPEND:
        return file is not None
    return instant_of_file(file) == instant_time


def delete_markers(env: Env, instant_time: InstantTime) -> None:
    """Remove the marker directory of an instant, with whatever is in it.

    Needs: the instant is completed, or none of its files is left.
    Order: foreign files, which disturb Apache Hudi; markers and batches; MARKERS.type, without
    which it would take the batches for direct markers.
    Crash: the rest of the directory, which reads as fewer markers; the next sweep takes it.
    """
    directory = marker_directory(instant_time)
    paths = [entry.path for entry in env.storage.list(directory, recursive=True)]
    for path in sorted(paths, key=lambda path: (_turn(path.removeprefix(f"{directory}/")), path)):
        delete_surely(env, path)


def _turn(name: str) -> int:
    if name == codec.TYPE_FILE:
        return 2
    return 1 if codec.is_batch(name) or codec.parse_path(name) else 0


# -- batches of markers -------------------------------------------------------------------------


_ATTEMPTS = 5  # against someone else who changes the same file
_SMALL_BYTES = 16 * 1024  # below this a file is as cheap to rewrite as an empty one


@dataclass(slots=True)
class _File:
    """One file of the write: the bytes that are surely in it, if any were written."""

    path: str
    data: bytes = b""
    etag: str | None = None
    is_busy: bool = False


@dataclass(frozen=True, slots=True)
class PendingMarkers:
    """Markers on their way into one file."""

    markers: tuple[MarkerName, ...]
    file: _File


class MarkerBatches:
    """The markers of one write, and the batch files that hold them."""

    def __init__(self, env: Env, instant_time: InstantTime, *, files: int) -> None:
        """`files` is how many files there may be: `MARKERS0` and those that follow."""
        directory = marker_directory(instant_time)
        self._env = env
        self._instant = instant_time
        self._type_path = f"{directory}/{codec.TYPE_FILE}"
        self._has_type = False
        self._files = [_File(f"{directory}/{codec.batch_name(i)}") for i in range(files)]
        self._announced: set[MarkerName] = set()

    @property
    def markers(self) -> tuple[MarkerName, ...]:
        """The markers that are durable, sorted."""
        return tuple(sorted(self._announced, key=str))

    @property
    def has_free_file(self) -> bool:
        """Whether another batch can begin."""
        return any(not file.is_busy for file in self._files)

    def begin(self, markers: Iterable[MarkerName]) -> PendingMarkers | None:
        """The next batch, with a file for it; None if all these markers are durable already.

        Needs: a free file.
        """
        new = tuple(dict.fromkeys(m for m in markers if m not in self._announced))
        if not new:
            return None
        free = [file for file in self._files if not file.is_busy]
        # Few files for those who read them, but none that is long to rewrite each time.
        small = (file for file in free if len(file.data) < _SMALL_BYTES)
        file = next(small, None) or min(free, key=lambda file: len(file.data))
        file.is_busy = True
        return PendingMarkers(new, file)

    def write(self, batch: PendingMarkers) -> None:
        """Bring a batch to the store. Raises `StorageError`; some of it may be there then.

        Order: MARKERS.type, once; the file with all that was in it.
        Crash: markers of files that are not there, which means nothing.
        """
        file = batch.file
        if not self._has_type:
            self._write_type()
        data = file.data + codec.encode_batch(batch.markers)
        for _ in range(_ATTEMPTS):
            if data != file.data:
                try:
                    etag = self._write_file(file, data)
                except (ObjectExists, PreconditionFailed):
                    data = self._take_over(file, batch.markers)
                    continue
                file.data, file.etag = data, etag
            return
        raise StorageError(file.path, "someone else keeps changing it")

    def end(self, batch: PendingMarkers, *, is_durable: bool) -> None:
        """Give the file of a batch back; its markers count as announced only if it was written."""
        batch.file.is_busy = False
        if is_durable:
            self._announced.update(batch.markers)

    def announce(self, markers: Iterable[MarkerName]) -> None:
        """All three steps at once."""
        batch = self.begin(markers)
        if batch is None:
            return
        is_durable = False
        try:
            self.write(batch)
            is_durable = True
        finally:
            self.end(batch, is_durable=is_durable)

    def delete(self) -> None:
        """Remove the marker directory. Needs: no batch is under way."""
        self._has_type = False
        self._announced.clear()
        for file in self._files:
            file.data, file.etag = b"", None
        delete_markers(self._env, self._instant)

    def _write_type(self) -> None:
        with suppress(ObjectExists):
            create_once(self._env, self._type_path, codec.TYPE)
        self._has_type = True

    def _write_file(self, file: _File, data: bytes) -> str:
        if file.etag is None:
            return create_once(self._env, file.path, data)
        return replace_once(self._env, file.path, data, if_match=file.etag)

    def _take_over(self, file: _File, markers: tuple[MarkerName, ...]) -> bytes:
        """The bytes to write after a refusal: what is there now, and what is missing in it."""
        ours = codec.decode_batch(file.data).markers + markers
        try:
            version = self._env.storage.read_version(file.path)
        except (
            ObjectNotFound
        ):  # the directory was deleted, by someone who takes this write for dead
            file.data, file.etag = b"", None
            self._write_type()
            return codec.encode_batch(dict.fromkeys(ours))
        file.data, file.etag = version.data, version.etag
        there = set(codec.decode_batch(version.data).markers)
        missing = [marker for marker in dict.fromkeys(ours) if marker not in there]
        if not missing:
            return version.data
        gap = b"" if version.data.endswith(b"\n") or not version.data else b"\n"
        return version.data + gap + codec.encode_batch(missing)


def parse_announced(text: str, instant_time: InstantTime) -> MarkerName:
    """The marker that a text names, of a data file that the instant may make in this table.

    Raises `InputError`: nobody may have others' files deleted by announcing them.
    """
    marker = codec.parse_path(text)
    if marker is None or not _is_line(text):
        raise InputError(f"not a marker in one line of text: {text!r}")
    segments = marker.data_file.split("/")
    if segments[0] == META or any(segment in ("", ".", "..") for segment in segments):
        raise InputError(f"the marker is not of a data file in this table: {text!r}")
    file = parse_data_file(PartitionPath("/".join(segments[:-1])), segments[-1], 0)
    if file is None or instant_of_file(file) != instant_time or marker.kind is MarkerKind.APPEND:
        raise InputError(f"the marker is not of a new data file of {instant_time}: {text!r}")
    return marker


def _is_line(text: str) -> bool:
    return is_text(text) and not any(char in text for char in "\r\n\0")
