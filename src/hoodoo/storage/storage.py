"""The storage seam: the few verbs through which hoodoo touches a table.

Paths are relative to the table's base path, with `/`, never empty, never with `..`.
Every verb is atomic: it happens whole or not at all, and a reader never sees half an object.
There is no rename, no append and no mkdir, because object stores have none.

Each verb raises only `StorageError`s: those named in its docstring, `OutcomeUnknown` where a
write got no answer, `UnusablePath` where no object can have the path, and plain `StorageError`
for what retrying cannot mend (permissions, ...).

A deadline says until when a write may begin: a write that publishes must not be sent long after
its check.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Self

from hoodoo.errors import StorageError

if TYPE_CHECKING:
    import pyarrow as pa


# -- the protocol ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """What a store knows of one object.

    `etag` changes with the object's content; stores that hash (S3) give equal bytes equal etags.
    `modified_ms` is 0 in the answer of a write, which object stores do not date: ask `stat`.
    """

    path: str
    size_bytes: int
    modified_ms: int
    etag: str


@dataclass(frozen=True, slots=True)
class ObjectVersion:
    """One version of an object: its bytes, and what the store says of exactly these bytes."""

    data: bytes
    etag: str
    modified_ms: int


class WriteStream(Protocol):
    """A large new object in the making: visible after `close`, gone after `discard`.

    Leaving a `with` block closes it, or discards it when an exception passes through; one that
    is dropped without either is discarded. It also serves pyarrow as a file object to write to
    (`write`, `flush`, `tell`, `closed`).
    """

    @property
    def closed(self) -> bool: ...

    def write(self, data: bytes | memoryview) -> int: ...

    def flush(self) -> None: ...

    def tell(self) -> int: ...

    def close(self) -> None:
        """Publish. Raises `ObjectExists` if the object is there, `OutcomeUnknown`."""

    def discard(self) -> None:
        """Leave nothing behind; does nothing after `close`."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...


class PublishedOnExit(ABC):
    """The `with` of a write stream: closed at the end, or discarded by an exception."""

    @abstractmethod
    def close(self) -> None:
        """Publish."""

    @abstractmethod
    def discard(self) -> None:
        """Leave nothing behind."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        if exc[0] is None:
            self.close()
        else:
            self.discard()


class Storage(Protocol):
    """One table's files."""

    @property
    def uri(self) -> str:
        """The table's base path as a URI (`file:///...`, `s3://...`, `memory://...`)."""

    def list(self, prefix: str, *, recursive: bool = False) -> Iterator[ObjectInfo]:
        """Objects below the directory `prefix` ("" is the base), sorted by path.

        Not recursive: only direct children. An absent directory is empty.
        """

    def list_directories(self, prefix: str) -> Sequence[str]:
        """Names of the direct sub-directories of `prefix`, sorted; a disk may name empty ones."""

    def stat(self, path: str) -> ObjectInfo:
        """Raises `ObjectNotFound`."""

    def exists(self, path: str) -> bool: ...

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """The bytes from `start`, at most `length`, none after the end. Raises `ObjectNotFound`."""

    def read_version(self, path: str) -> ObjectVersion:
        """Bytes and etag of one and the same version, in one request. Raises `ObjectNotFound`."""

    def open_read(self, path: str) -> pa.NativeFile:
        """Random access to an object that nobody rewrites (data files). Raises `ObjectNotFound`."""

    def create(self, path: str, data: bytes, *, within_s: float | None = None) -> ObjectInfo:
        """Make a new object. Raises `ObjectExists`, `OutcomeUnknown`.

        No request is begun later than `within_s` seconds after the call, which is counted while
        the machine sleeps, too. If none got through until then: plain `StorageError`, as nothing
        was done. What was begun in time ends within the store's own time-out.
        """

    def put(self, path: str, data: bytes) -> ObjectInfo:
        """Make or overwrite an object. Raises `OutcomeUnknown`."""

    def replace(
        self, path: str, data: bytes, *, if_match: str, within_s: float | None = None
    ) -> ObjectInfo:
        """Overwrite the version with this etag; `within_s` is that of `create`.

        Raises `PreconditionFailed` (another version, or none), `OutcomeUnknown`.
        """

    def delete(self, path: str) -> None:
        """Remove an object; an absent one is fine. Raises `OutcomeUnknown`."""

    def open_write(self, path: str) -> WriteStream:
        """Stream a large new object; object stores get it when it is closed."""

    def stale_temporaries(self) -> Sequence[str]:
        """Paths of temporary files that dead writers left, where the store has such files."""


# -- deadlines of writes ---------------------------------------------------------------------------


def monotonic() -> float:
    """Seconds that also count while the machine is suspended: leases run out meanwhile."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment of the monotonic clock; `math.inf` is never."""

    at: float = math.inf

    @classmethod
    def within(cls, seconds: float | None) -> Deadline:
        """So long after now; None is never."""
        return NEVER if seconds is None else cls(monotonic() + seconds)

    def left_s(self) -> float:
        """How long it is until then; negative once it has passed."""
        return self.at - monotonic() if self.at < math.inf else math.inf

    def check(self, path: str) -> None:
        """Refuse to begin a write too late. Raises plain `StorageError`: nothing was done."""
        if self.left_s() < 0:
            raise StorageError(path, "not written: the time for it ran out before it was sent")


NEVER = Deadline()
