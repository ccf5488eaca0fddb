"""`MarkerBatches`: all markers of a write, in a few files that are rewritten as markers come.

Without threads of its own: whoever has threads may write several batches at once, each to a file
of its own, in three steps. `begin` and `end` are for one thread at a time; `write` is for any.

Files are rewritten under a condition, never blindly: a plain write whose answer got lost could
land after a later one, and take markers back that were acknowledged. What someone else put into
a file (a server before this one) stays in it.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from hoodoo.concurrency.markers import delete_markers
from hoodoo.env import Env
from hoodoo.errors import (
    AlreadyExists,
    InputError,
    NotFound,
    PreconditionFailed,
    StorageError,
)
from hoodoo.format import markers as codec
from hoodoo.model.files import made_by, parse_data_file
from hoodoo.model.instant import InstantTime
from hoodoo.model.names import MarkerKind, MarkerName
from hoodoo.model.paths import META, PartitionPath, marker_directory
from hoodoo.storage.uri import is_text
from hoodoo.timeline.resolve_unknown import create_once, replace_once

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
class Batch:
    """Markers on their way into one file."""

    markers: tuple[MarkerName, ...]
    file: _File


class MarkerBatches:
    """The markers of one write, and the batch files that hold them."""

    def __init__(self, env: Env, instant: InstantTime, *, files: int) -> None:
        """`files` is how many files there may be: `MARKERS0` and those that follow."""
        directory = marker_directory(instant)
        self._env = env
        self._instant = instant
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

    def begin(self, markers: Iterable[MarkerName]) -> Batch | None:
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
        return Batch(new, file)

    def write(self, batch: Batch) -> None:
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
                except (AlreadyExists, PreconditionFailed):
                    data = self._take_over(file, batch.markers)
                    continue
                file.data, file.etag = data, etag
            return
        raise StorageError(file.path, "someone else keeps changing it")

    def end(self, batch: Batch, *, is_durable: bool) -> None:
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
        with suppress(AlreadyExists):
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
        except NotFound:  # the directory was deleted, by someone who takes this write for dead
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


def parse_announced(text: str, instant: InstantTime) -> MarkerName:
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
    if file is None or made_by(file) != instant or marker.kind is MarkerKind.APPEND:
        raise InputError(f"the marker is not of a new data file of {instant}: {text!r}")
    return marker


def _is_line(text: str) -> bool:
    return is_text(text) and not any(char in text for char in "\r\n\0")
