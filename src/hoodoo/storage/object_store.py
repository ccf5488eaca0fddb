"""Object stores (S3, Google Cloud Storage, Azure) through obstore; see `object_client` for retries.

Reads give random access in few requests, as Parquet and log readers need it. The end of an object
is fetched when it is opened: it tells the size, and it holds a Parquet
file's footer, or the whole of a small file. After that, small reads fetch ahead, and large ones
are cut into parts that travel side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

from hoodoo.errors import ObjectNotFound, PreconditionFailed
from hoodoo.storage.object_client import (
    SMALL_TIMEOUT_S,
    Client,
    EmptyRange,
    large_timeout_s,
    reader,
    run_read_request,
    run_write_request,
    writer,
)
from hoodoo.storage.storage import NEVER, Deadline, ObjectInfo, ObjectVersion, WriteStream
from hoodoo.storage.uri import (
    TableUri,
    check_object_directory,
    check_object_path,
    check_range,
    parse_uri,
)
from hoodoo.storage.write_streams import SpooledWrite

if TYPE_CHECKING:
    import pyarrow as pa


# -- random access in few requests -----------------------------------------------------------------


TAIL_BYTES = 1 << 20
"""How much of an object's end its opening should bring."""

_AHEAD_BYTES = 1 << 20
_PART_BYTES = 8 << 20

Range: TypeAlias = tuple[int, int]
Fetch: TypeAlias = Callable[[Sequence[Range]], Sequence[memoryview]]


class RangeReader:
    """A readable file for `pyarrow.PythonFile`, over a function that fetches byte ranges."""

    def __init__(self, fetch: Fetch, *, size_bytes: int, tail: memoryview) -> None:
        self._fetch = fetch
        self._size = size_bytes
        self._tail_start = size_bytes - len(tail)
        self._tail = tail
        self._block_start = 0
        self._block = memoryview(b"")
        self._at = 0
        self.closed = False

    def size(self) -> int:
        return self._size

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = 0) -> int:
        """Move to an offset from the start (0), from here (1) or from the end (2)."""
        base = (0, self._at, self._size)[whence]
        self._at = max(0, base + offset)
        return self._at

    def read(self, length: int | None = None) -> bytes | memoryview:
        """The next bytes, fewer only at the end."""
        count = self._size if length is None or length < 0 else length
        start = min(self._at, self._size)
        end = min(start + count, self._size)
        data = self._get(start, end)
        self._at = end
        return data

    def _get(self, start: int, end: int) -> bytes | memoryview:
        if start == end:
            return b""
        if start >= self._tail_start:
            return self._tail[start - self._tail_start : end - self._tail_start]
        if end > self._tail_start:
            return b"".join((self._get(start, self._tail_start), self._get(self._tail_start, end)))
        if self._block_start <= start and end <= self._block_start + len(self._block):
            return self._block[start - self._block_start : end - self._block_start]
        if end - start < _AHEAD_BYTES:
            ahead = min(start + _AHEAD_BYTES, self._tail_start)
            self._block_start, self._block = start, self._fetch([(start, ahead)])[0]
            return self._block[: end - start]
        cuts = [*range(start, end, _PART_BYTES), end]
        parts = self._fetch(list(pairwise(cuts)))
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def close(self) -> None:
        self.closed = True
        self._tail = self._block = memoryview(b"")


# -- the store -------------------------------------------------------------------------------------


_LARGE_BYTES = 8 << 20
_LIST_CHUNK = 1000


class ObjectStorage:
    """One prefix of a bucket."""

    def __init__(
        self,
        place: TableUri,
        options: Mapping[str, str],
        *,
        upload_limit_s: float | None = None,
    ) -> None:
        """Connects to nothing yet. Raises `ConfigError`.

        `upload_limit_s`: how long the upload of a large object may take, unless the options set
        a time-out: between that of small writes and 15 minutes, whatever is asked for.
        """
        self._place = place
        self._options = dict(options)
        self._upload_limit_s = upload_limit_s
        self._reads = reader(place, self._options)

    @cached_property
    def _writes(self) -> Client:
        return writer(self._place, self._options, SMALL_TIMEOUT_S)

    @cached_property
    def _large_writes(self) -> Client:
        return writer(self._place, self._options, large_timeout_s(self._upload_limit_s))

    def __reduce__(self) -> tuple[object, ...]:
        return (_reopen, (self.uri, self._options, self._upload_limit_s))

    @property
    def uri(self) -> str:
        return str(self._place)

    def list(self, prefix: str, *, recursive: bool = False) -> Iterator[ObjectInfo]:
        below = check_object_directory(prefix) or None
        if recursive:
            metas = run_read_request(
                prefix, lambda: self._reads.list(below, chunk_size=_LIST_CHUNK).collect()
            )
        else:
            metas = run_read_request(prefix, lambda: self._reads.list_with_delimiter(below))[
                "objects"
            ]
        return iter(sorted(_objects(prefix, metas), key=lambda info: info.path))

    def list_directories(self, prefix: str) -> Sequence[str]:
        below = check_object_directory(prefix) or None
        listing = run_read_request(prefix, lambda: self._reads.list_with_delimiter(below))
        return sorted(path.rpartition("/")[2] for path in listing["common_prefixes"])

    def stat(self, path: str) -> ObjectInfo:
        check_object_path(path)
        return _info(run_read_request(path, lambda: self._reads.head(path)))

    def exists(self, path: str) -> bool:
        try:
            self.stat(path)
        except ObjectNotFound:
            return False
        return True

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        check_range(check_object_path(path), start, length)
        if length == 0:
            self.stat(path)
            return b""
        options: Any = {}
        if length is not None:
            options["range"] = (start, start + length)
        elif start:
            options["range"] = {"offset": start}
        try:
            return run_read_request(
                path, lambda: bytes(self._reads.get(path, options=options).bytes())
            )
        except EmptyRange:
            return b""

    def read_version(self, path: str) -> ObjectVersion:
        check_object_path(path)

        def get() -> ObjectVersion:
            # Head and body of one answer; when it breaks off, both are asked for anew.
            got = self._reads.get(path)
            info = _info(got.meta)
            return ObjectVersion(bytes(got.bytes()), info.etag, info.modified_ms)

        return run_read_request(path, get)

    def open_read(self, path: str) -> pa.NativeFile:
        import pyarrow as pa

        size_bytes, tail = self._tail(check_object_path(path))

        def fetch(ranges: Sequence[Range]) -> Sequence[memoryview]:
            starts, ends = zip(*ranges, strict=True)
            parts = run_read_request(
                path,
                lambda: self._reads.get_ranges(path, starts=starts, ends=ends, coalesce=0),
            )
            return [memoryview(part) for part in parts]

        return pa.PythonFile(RangeReader(fetch, size_bytes=size_bytes, tail=tail), mode="r")

    def create(self, path: str, data: bytes, *, within_s: float | None = None) -> ObjectInfo:
        deadline = Deadline.within(within_s)
        return self._put(check_object_path(path), data, mode="create", deadline=deadline)

    def put(self, path: str, data: bytes) -> ObjectInfo:
        return self._put(check_object_path(path), data, mode="overwrite")

    def replace(
        self, path: str, data: bytes, *, if_match: str, within_s: float | None = None
    ) -> ObjectInfo:
        deadline = Deadline.within(within_s)
        version: dict[str, str | None] = {"e_tag": if_match}
        try:
            if self._place.scheme == "gs":
                # Google's condition is on the generation, which a listing does not tell.
                meta = run_read_request(path, lambda: self._reads.head(check_object_path(path)))
                if _etag(meta) != if_match:
                    raise PreconditionFailed(path)
                version["version"] = meta["version"]
            return self._put(check_object_path(path), data, mode=version, deadline=deadline)
        except ObjectNotFound:
            raise PreconditionFailed(path) from None

    def delete(self, path: str) -> None:
        check_object_path(path)
        try:
            run_write_request(path, lambda: self._writes.delete(path))
        except ObjectNotFound:
            return

    def open_write(self, path: str) -> WriteStream:
        # Gathered here and sent in one conditional request: obstore's multipart upload would
        # overwrite, and a killed process would leave parts that cost money and nobody sees.
        return SpooledWrite(check_object_path(path), partial(self._put, mode="create"))

    def stale_temporaries(self) -> Sequence[str]:
        """There are none."""
        return ()

    def _put(
        self, path: str, data: bytes | memoryview, *, mode: Any, deadline: Deadline = NEVER
    ) -> ObjectInfo:
        client = self._writes if len(data) < _LARGE_BYTES else self._large_writes

        def put() -> Any:
            return client.put(path, data, mode=mode, use_multipart=False)

        result = run_write_request(path, put, deadline)
        return ObjectInfo(path, len(data), 0, _etag(result))

    def _tail(self, path: str) -> tuple[int, memoryview]:
        """Size and last bytes of an object, in one request where the store can."""
        if self._place.scheme in ("s3", "gs"):
            options: Any = {"range": {"suffix": TAIL_BYTES}}
            try:
                got = run_read_request(path, lambda: self._reads.get(path, options=options))
                return got.meta["size"], memoryview(run_read_request(path, got.bytes))
            except EmptyRange:
                return 0, memoryview(b"")
        size_bytes = self.stat(path).size_bytes
        tail = self.read(path, max(0, size_bytes - TAIL_BYTES))
        return size_bytes, memoryview(tail)


def _objects(prefix: str, metas: Iterable[Mapping[str, Any]]) -> list[ObjectInfo]:
    """The objects of a listing, without the empty ones that Hadoop makes to mark directories.

    A marker's key ends with a slash, which obstore drops: it is known by what lies below it.
    """
    infos = [_info(meta) for meta in metas]
    if all(info.size_bytes for info in infos):
        return infos
    directories = {"", prefix}
    for info in infos:
        parent = info.path.rpartition("/")[0]
        while parent not in directories:
            directories.add(parent)
            parent = parent.rpartition("/")[0]
    return [info for info in infos if info.size_bytes or info.path not in directories]


def _info(meta: Mapping[str, Any]) -> ObjectInfo:
    modified_ms = round(meta["last_modified"].timestamp() * 1000)
    return ObjectInfo(meta["path"], meta["size"], modified_ms, _etag(meta))


def _etag(meta: Mapping[str, Any]) -> str:
    """The etag as the If-Match header wants it; Azure's listings leave the quotes out."""
    etag = meta["e_tag"] or ""
    return f'"{etag}"' if etag and not etag.endswith('"') else etag


def _reopen(uri: str, options: Mapping[str, str], upload_limit_s: float | None) -> ObjectStorage:
    return ObjectStorage(parse_uri(uri), options, upload_limit_s=upload_limit_s)
