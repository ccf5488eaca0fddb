"""Random access to a remote object in few requests, as Parquet and log readers need it.

The end of the object is fetched when it is opened: it tells the size, and it holds a Parquet
file's footer, or the whole of a small file. After that, small reads fetch ahead, and large ones
are cut into parts that travel side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeAlias

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
