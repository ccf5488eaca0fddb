"""A write stream for stores that take an object whole."""

from __future__ import annotations

from collections.abc import Callable

from hoodoo.errors import StorageError
from hoodoo.storage.storage import ObjectInfo, PublishedOnExit


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
