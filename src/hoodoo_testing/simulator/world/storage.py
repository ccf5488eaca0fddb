"""The store as one simulated process sees it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from hoodoo.storage.storage import ObjectInfo, ObjectVersion, Storage, WriteStream
from hoodoo.storage.write_streams import BufferedWrite
from hoodoo_testing.simulator.world.network import Network
from hoodoo_testing.simulator.world.stage import SimProcess

if TYPE_CHECKING:
    import pyarrow as pa


class SimStorage:
    """A storage all of whose operations go by the network of a simulation."""

    def __init__(self, inner: Storage, network: Network, process: SimProcess) -> None:
        self._inner = inner
        self._network = network
        self._process = process

    @property
    def uri(self) -> str:
        return self._inner.uri

    def list(self, prefix: str, *, recursive: bool = False) -> Iterator[ObjectInfo]:
        def list_objects() -> Iterator[ObjectInfo]:
            return iter(tuple(self._inner.list(prefix, recursive=recursive)))

        return self._network.carry(self._process, "list", prefix, list_objects)

    def list_directories(self, prefix: str) -> Sequence[str]:
        def list_names() -> Sequence[str]:
            return self._inner.list_directories(prefix)

        return self._network.carry(self._process, "list_directories", prefix, list_names)

    def stat(self, path: str) -> ObjectInfo:
        return self._network.carry(self._process, "stat", path, lambda: self._inner.stat(path))

    def exists(self, path: str) -> bool:
        return self._network.carry(self._process, "exists", path, lambda: self._inner.exists(path))

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        def read() -> bytes:
            return self._inner.read(path, start, length)

        return self._network.carry(self._process, "read", path, read)

    def read_version(self, path: str) -> ObjectVersion:
        def read() -> ObjectVersion:
            return self._inner.read_version(path)

        return self._network.carry(self._process, "read", path, read)

    def open_read(self, path: str) -> pa.NativeFile:
        def open_file() -> pa.NativeFile:
            return self._inner.open_read(path)

        return self._network.carry(self._process, "open_read", path, open_file)

    def create(self, path: str, data: bytes, *, within_s: float | None = None) -> ObjectInfo:
        # The network never sends a request again: none is begun later than now.
        return self._create("create", path, data)

    def put(self, path: str, data: bytes) -> ObjectInfo:
        def put() -> ObjectInfo:
            return self._inner.put(path, data)

        return self._network.carry(self._process, "put", path, put)

    def replace(
        self, path: str, data: bytes, *, if_match: str, within_s: float | None = None
    ) -> ObjectInfo:
        def replace_object() -> ObjectInfo:
            return self._inner.replace(path, data, if_match=if_match)

        return self._network.carry(self._process, "replace", path, replace_object)

    def delete(self, path: str) -> None:
        self._network.carry(self._process, "delete", path, lambda: self._inner.delete(path))

    def open_write(self, path: str) -> WriteStream:
        self._network.stage.enter(self._process)
        self._inner.open_write(path).discard()  # refuses what is no path
        return BufferedWrite(path, lambda path, data: self._create("open_write", path, data))

    def stale_temporaries(self) -> Sequence[str]:
        """There are none."""
        return ()

    def _create(self, verb: str, path: str, data: bytes) -> ObjectInfo:
        def create_object() -> ObjectInfo:
            return self._inner.create(path, data)

        return self._network.carry(self._process, verb, path, create_object)
