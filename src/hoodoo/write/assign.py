"""Which file group each row goes to. Pure: workload in, buckets out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from hoodoo.model.files import FileGroupId, FileSlice
from hoodoo.model.names import FileId
from hoodoo.model.paths import PartitionPath


class BucketKind(Enum):
    """What a handle does for a bucket."""

    CREATE = "create"  # new file group
    MERGE = "merge"  # new base file of an existing group
    APPEND = "append"  # new log file of an existing group


@dataclass(frozen=True, slots=True)
class Bucket:
    """One file group to write; `index` tells the buckets of a write apart."""

    index: int
    kind: BucketKind
    group: FileGroupId
    previous: FileSlice | None = None
    inserts: int = 0
    updates: int = 0


@dataclass(frozen=True, slots=True)
class Sizes:
    """Limits for file sizes, and how large a row is on disk (None: nobody knows yet)."""

    max_file_bytes: int
    small_file_bytes: int
    row_bytes: float | None


def assign(
    updates: Mapping[FileSlice, BucketKind],
    update_counts: Mapping[FileGroupId, int],
    inserts: Mapping[PartitionPath, int],
    candidates: Iterable[FileSlice],
    sizes: Sizes,
    new_file_id: Callable[[int], FileId],
) -> list[Bucket]:
    """Buckets for a write: one per updated slice; new rows fill small files, then new groups.

    `candidates` are slices that may take new rows by merging; `new_file_id` names new groups by
    the number of their bucket.
    """
    planned: list[tuple[BucketKind, FileGroupId, FileSlice | None, int, int]] = []
    room = small_files(candidates, sizes)
    extra: dict[FileGroupId, int] = {}
    fresh: list[tuple[PartitionPath, int]] = []
    for partition, count in inserts.items():
        for slice_, rows in room.get(partition, ()):
            taken = min(rows, count)
            if taken:
                extra[slice_.group] = taken
                count -= taken
                if slice_ not in updates:
                    planned.append((BucketKind.MERGE, slice_.group, slice_, taken, 0))
        fresh += [(partition, rows) for rows in _split(count, sizes)]
    for slice_, kind in updates.items():
        merged = extra.get(slice_.group, 0)
        kind = BucketKind.MERGE if merged else kind
        planned.append((kind, slice_.group, slice_, merged, update_counts[slice_.group]))
    for partition, rows in fresh:
        group = FileGroupId(partition, new_file_id(len(planned)))
        planned.append((BucketKind.CREATE, group, None, rows, 0))
    return [
        Bucket(index, kind, group, previous, new, updated)
        for index, (kind, group, previous, new, updated) in enumerate(planned)
    ]


def small_files(
    candidates: Iterable[FileSlice], sizes: Sizes
) -> dict[PartitionPath, list[tuple[FileSlice, int]]]:
    """Per partition, slices with room and the number of rows they can take, smallest first."""
    found: dict[PartitionPath, list[tuple[FileSlice, int]]] = {}
    if sizes.row_bytes is None:
        return found
    for slice_ in sorted(candidates, key=lambda s: (s.size_bytes, s.group.file_id)):
        if slice_.base is not None and slice_.size_bytes < sizes.small_file_bytes:
            rows = int((sizes.max_file_bytes - slice_.size_bytes) / sizes.row_bytes)
            if rows > 0:
                found.setdefault(slice_.group.partition, []).append((slice_, rows))
    return found


def _split(count: int, sizes: Sizes) -> list[int]:
    """Rows per new file group. Handles also roll over by measured bytes, so this may be rough."""
    if count == 0:
        return []
    if sizes.row_bytes is None:
        return [count]
    per_file = max(1, int(sizes.max_file_bytes / sizes.row_bytes))
    files = -(-count // per_file)
    share, rest = divmod(count, files)
    return [share + (1 if i < rest else 0) for i in range(files)]


def average_row_bytes(commits: Iterable[tuple[int, int]], *, enough_bytes: int) -> float | None:
    """Bytes per row from (bytes, rows) of commits, newest first; small commits tell little."""
    best: tuple[int, int] | None = None
    for size, rows in commits:
        if rows > 0 and size > 0:
            if size >= enough_bytes:
                return size / rows
            if best is None or size > best[0]:
                best = (size, rows)
    return best[0] / best[1] if best else None
