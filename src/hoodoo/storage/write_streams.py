"""Write streams for stores that take an object whole: in memory, or on local disk if large."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from contextlib import suppress
from tempfile import SpooledTemporaryFile

from hoodoo.errors import StorageError
from hoodoo.storage.storage import ObjectInfo, PublishedOnExit

# -- in memory -------------------------------------------------------------------------------------


class BufferedWrite(PublishedOnExit):
    """A `WriteStream` that gathers the object in memory and creates it on close."""

    def __init__(self, path: str, create: Callable[[str, bytes], ObjectInfo]) -> None:
        self._path = path
        self._create = create
        self._parts: list[bytes] = []
        self._written = 0
        self.closed = False

    def write(self, data: bytes | memoryview) -> int:
        if self.closed:
            raise StorageError(self._path, "write to a closed stream")
        part = bytes(data)
        self._parts.append(part)
        self._written += len(part)
        return len(part)

    def flush(self) -> None:
        """Nothing is visible before `close`."""

    def tell(self) -> int:
        return self._written

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        data = b"".join(self._parts)
        self._parts.clear()
        self._create(self._path, data)

    def discard(self) -> None:
        self.closed = True
        self._parts.clear()


# -- on disk ---------------------------------------------------------------------------------------


SPOOL_BYTES = 8 << 20
"""What is larger goes to disk: a task may have hundreds of files open."""


class SpooledWrite(PublishedOnExit):
    """A `WriteStream` that gathers the object, and creates it on close in one request.

    The temporary file has no name, so that nothing is left when the process dies.
    """

    def __init__(self, path: str, create: Callable[[str, bytes | memoryview], ObjectInfo]) -> None:
        self._path = path
        self._create = create
        self._file = SpooledTemporaryFile(max_size=SPOOL_BYTES)  # noqa: SIM115 - it is closed below
        self._written = 0
        self.closed = False

    def write(self, data: bytes | memoryview) -> int:
        if self.closed:
            raise StorageError(self._path, "write to a closed stream")
        try:
            count = self._file.write(data)
        except OSError as error:
            reason = f"no room for it on this machine: {error.strerror}"
            raise StorageError(self._path, reason) from error
        self._written += count
        return count

    def flush(self) -> None:
        """Nothing is visible before `close`."""

    def tell(self) -> int:
        return self._written

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        try:
            self._send()
        finally:
            self._file.close()

    def discard(self) -> None:
        if not self.closed:
            self.closed = True
            self._file.close()

    def _send(self) -> None:
        if self._written <= SPOOL_BYTES:
            self._file.seek(0)
            self._create(self._path, self._file.read())
            return
        try:
            self._file.flush()
            memory_map = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as error:
            raise StorageError(self._path, error.strerror or str(error)) from error
        view = memoryview(memory_map)
        try:
            self._create(self._path, view)
        finally:
            view.release()
            with suppress(BufferError):  # a request that failed may still hold it
                memory_map.close()
