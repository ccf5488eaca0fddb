"""A storage that writes down what is asked of it: for tests, simulations and benchmarks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from hoodoo.errors import StorageError
from hoodoo.storage.storage import ObjectInfo, ObjectVersion, PublishedOnExit, Storage, WriteStream

if TYPE_CHECKING:
    import pyarrow as pa

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class TracedOperation:
    """One verb that was carried out, or failed."""

    verb: str
    path: str
    size_bytes: int = 0
    """Bytes read or written; of an `open_read`, the size of the file."""
    failure: str | None = None
    """The class of the error that it raised."""


class TracedStorage:
    """Any storage, with a record of its operations in the order in which they ended.

    A write stream counts once, as `open_write`, when it is closed or discarded. `read_version`
    counts as the `read` that it costs.
    """

    def __init__(
        self, inner: Storage, *, before: Callable[[str, str], None] = lambda verb, path: None
    ) -> None:
        """`before` is called with verb and path ahead of each operation, and may raise."""
        self._inner = inner
        self._before = before
        self.operations: list[TracedOperation] = []

    def counts(self) -> Counter[str]:
        """How often each verb was used."""
        return Counter(operation.verb for operation in self.operations)

    def clear(self) -> None:
        """Forget the operations so far."""
        self.operations.clear()

    def __reduce__(self) -> tuple[object, ...]:
        return (TracedStorage, (self._inner,))

    @property
    def uri(self) -> str:
        return self._inner.uri

    def list(self, prefix: str, *, recursive: bool = False) -> Iterator[ObjectInfo]:
        def list_inner() -> Iterator[ObjectInfo]:
            return self._inner.list(prefix, recursive=recursive)

        return self._do("list", prefix, list_inner)

    def list_directories(self, prefix: str) -> Sequence[str]:
        return self._do("list_directories", prefix, lambda: self._inner.list_directories(prefix))

    def stat(self, path: str) -> ObjectInfo:
        return self._do("stat", path, lambda: self._inner.stat(path))

    def exists(self, path: str) -> bool:
        return self._do("exists", path, lambda: self._inner.exists(path))

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        return self._do("read", path, lambda: self._inner.read(path, start, length), len)

    def read_version(self, path: str) -> ObjectVersion:
        return self._do(
            "read", path, lambda: self._inner.read_version(path), lambda version: len(version.data)
        )

    def open_read(self, path: str) -> pa.NativeFile:
        return self._do(
            "open_read", path, lambda: self._inner.open_read(path), lambda file: int(file.size())
        )

    def create(self, path: str, data: bytes, *, within_s: float | None = None) -> ObjectInfo:
        def create_inner() -> ObjectInfo:
            return self._inner.create(path, data, within_s=within_s)

        return self._do("create", path, create_inner, _size)

    def put(self, path: str, data: bytes) -> ObjectInfo:
        return self._do("put", path, lambda: self._inner.put(path, data), _size)

    def replace(
        self, path: str, data: bytes, *, if_match: str, within_s: float | None = None
    ) -> ObjectInfo:
        def replace_inner() -> ObjectInfo:
            return self._inner.replace(path, data, if_match=if_match, within_s=within_s)

        return self._do("replace", path, replace_inner, _size)

    def delete(self, path: str) -> None:
        self._do("delete", path, lambda: self._inner.delete(path))

    def open_write(self, path: str) -> WriteStream:
        return _TracedWrite(self, path, self._inner.open_write(path))

    def stale_temporaries(self) -> Sequence[str]:
        return self._inner.stale_temporaries()

    def _do(
        self,
        verb: str,
        path: str,
        action: Callable[[], Result],
        size: Callable[[Result], int] = lambda result: 0,
    ) -> Result:
        self._before(verb, path)
        try:
            result = action()
        except StorageError as error:
            self.operations.append(TracedOperation(verb, path, failure=type(error).__name__))
            raise
        self.operations.append(TracedOperation(verb, path, size(result)))
        return result


class _TracedWrite(PublishedOnExit):
    def __init__(self, storage: TracedStorage, path: str, inner: WriteStream) -> None:
        self._storage = storage
        self._path = path
        self._inner = inner

    @property
    def closed(self) -> bool:
        return self._inner.closed

    def write(self, data: bytes | memoryview) -> int:
        return self._inner.write(data)

    def flush(self) -> None:
        self._inner.flush()

    def tell(self) -> int:
        return self._inner.tell()

    def close(self) -> None:
        if not self._inner.closed:
            size = self._inner.tell()
            self._storage._do("open_write", self._path, self._inner.close, lambda _: size)

    def discard(self) -> None:
        if not self._inner.closed:
            self._inner.discard()
            self._storage.operations.append(
                TracedOperation("open_write", self._path, 0, "discarded")
            )


def _size(info: ObjectInfo) -> int:
    return info.size_bytes
