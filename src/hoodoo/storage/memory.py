"""Objects in this process's memory: for tests, examples and simulations.

`memory://NAME` is one store per process, however often it is opened; paths below it are
shared, so that `memory://NAME/a` sees what `memory://NAME` writes to `a/...`.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hoodoo.errors import ObjectExists, ObjectNotFound, PreconditionFailed, StorageError
from hoodoo.storage.storage import ObjectInfo, ObjectVersion, WriteStream
from hoodoo.storage.uri import TableUri, check_directory, check_path, check_range
from hoodoo.storage.write_streams import BufferedWrite

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class _Object:
    data: bytes
    info: ObjectInfo
    """As a listing from the root of the store has it."""


@dataclass(slots=True)
class _Store:
    """All objects of one name. `keys` is sorted, so that a listing costs what it returns."""

    now_ms: Callable[[], int]
    objects: dict[str, _Object] = field(default_factory=dict)
    keys: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    versions: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def write(self, key: str, data: bytes) -> _Object:
        if key not in self.objects:
            insort(self.keys, key)
        info = ObjectInfo(key, len(data), self.now_ms(), f"v{next(self.versions)}")
        object_ = _Object(bytes(data), info)
        self.objects[key] = object_
        return object_


_stores: dict[str, _Store] = {}
_stores_lock = threading.Lock()


def _system_ms() -> int:
    return time.time_ns() // 1_000_000


class MemoryStorage:
    """One base path of a named store; thread-safe."""

    def __init__(
        self, name: str, path: str = "", *, now_ms: Callable[[], int] = _system_ms
    ) -> None:
        """`now_ms` dates the objects; it counts for the first opening of a name."""
        self._name = name
        self._base = path
        self._prefix = f"{path}/" if path else ""
        with _stores_lock:
            self._store = _stores.setdefault(name, _Store(now_ms))

    @staticmethod
    def forget(name: str) -> None:
        """Drop a name's store; those who have it open keep it."""
        with _stores_lock:
            _stores.pop(name, None)

    def __reduce__(self) -> tuple[object, ...]:
        return (_reopen, (self._name, self._base, os.getpid()))

    @property
    def uri(self) -> str:
        return str(TableUri("memory", self._name, self._base))

    def list(self, prefix: str, *, recursive: bool = False) -> Iterator[ObjectInfo]:
        objects, _ = self._walk(check_directory(prefix), recursive=recursive)
        return iter(objects)

    def list_directories(self, prefix: str) -> Sequence[str]:
        _, directories = self._walk(check_directory(prefix), recursive=False)
        return sorted(directories)

    def stat(self, path: str) -> ObjectInfo:
        return self._below_base(self._get(path).info)

    def exists(self, path: str) -> bool:
        return self._prefix + check_path(path) in self._store.objects

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        check_range(path, start, length)
        data = self._get(path).data
        return data[start:] if length is None else data[start : start + length]

    def read_version(self, path: str) -> ObjectVersion:
        object_ = self._get(path)
        return ObjectVersion(object_.data, object_.info.etag, object_.info.modified_ms)

    def open_read(self, path: str) -> pa.NativeFile:
        import pyarrow as pa

        return pa.BufferReader(self._get(path).data)

    def create(self, path: str, data: bytes, *, within_s: float | None = None) -> ObjectInfo:
        # Done at once, and never tried again: no deadline can pass meanwhile.
        key = self._prefix + check_path(path)
        with self._store.lock:
            if key in self._store.objects:
                raise ObjectExists(path)
            return _make_info(path, self._store.write(key, data))

    def put(self, path: str, data: bytes) -> ObjectInfo:
        key = self._prefix + check_path(path)
        with self._store.lock:
            return _make_info(path, self._store.write(key, data))

    def replace(
        self, path: str, data: bytes, *, if_match: str, within_s: float | None = None
    ) -> ObjectInfo:
        key = self._prefix + check_path(path)
        with self._store.lock:
            present = self._store.objects.get(key)
            if present is None or present.info.etag != if_match:
                raise PreconditionFailed(path)
            return _make_info(path, self._store.write(key, data))

    def delete(self, path: str) -> None:
        key = self._prefix + check_path(path)
        with self._store.lock:
            if self._store.objects.pop(key, None) is not None:
                del self._store.keys[bisect_left(self._store.keys, key)]

    def open_write(self, path: str) -> WriteStream:
        return BufferedWrite(check_path(path), self.create)

    def stale_temporaries(self) -> Sequence[str]:
        """There are none."""
        return ()

    def _get(self, path: str) -> _Object:
        object_ = self._store.objects.get(self._prefix + check_path(path))
        if object_ is None:
            raise ObjectNotFound(path)
        return object_

    def _walk(
        self, directory: str, *, recursive: bool
    ) -> tuple[Sequence[ObjectInfo], Sequence[str]]:
        """Objects below a directory; if not recursive, its own ones and its sub-directories."""
        below = self._prefix + (f"{directory}/" if directory else "")
        objects: list[ObjectInfo] = []
        directories: list[str] = []
        with self._store.lock:
            keys, objects_by_key = self._store.keys, self._store.objects
            at = bisect_left(keys, below)
            end = bisect_left(keys, f"{below[:-1]}0", at) if below else len(keys)
            if recursive:
                return [
                    self._below_base(objects_by_key[key].info) for key in keys[at:end]
                ], directories
            while at < end:
                key = keys[at]
                slash = key.find("/", len(below))
                if slash < 0:
                    objects.append(self._below_base(objects_by_key[key].info))
                    at += 1
                else:
                    directories.append(key[len(below) : slash])
                    at = bisect_left(keys, f"{key[:slash]}0", at)  # "0" follows "/"
        return objects, directories

    def _below_base(self, info: ObjectInfo) -> ObjectInfo:
        """What the store knows of an object, with its path as seen from here."""
        return replace(info, path=info.path[len(self._prefix) :]) if self._prefix else info


def _make_info(path: str, object_: _Object) -> ObjectInfo:
    return ObjectInfo(path, len(object_.data), 0, object_.info.etag)


def _reopen(name: str, path: str, pid: int) -> MemoryStorage:
    if pid != os.getpid():
        uri = str(TableUri("memory", name, path))
        raise StorageError(uri, "a memory store cannot leave the process that holds it")
    return MemoryStorage(name, path)
