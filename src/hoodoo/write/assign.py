"""Which file group each row goes to. Pure: workload in, buckets out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from hoodoo.errors import FormatError
from hoodoo.model.buckets import bucket_of
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
    """One file group to write; `index` tells the buckets of a write apart.

    A bucket of the bucket index is one file group, however large it gets.
    """

    index: int
    kind: BucketKind
    group: FileGroupId
    previous: FileSlice | None = None
    inserts: int = 0
    updates: int = 0
    rolls_over: bool = True


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


def assign_numbers(
    counts: Mapping[tuple[PartitionPath, int], int],
    slices: Iterable[FileSlice],
    kind: BucketKind,
    new_file_id: Callable[[PartitionPath, int], FileId],
) -> dict[tuple[PartitionPath, int], Bucket]:
    """Buckets for a write by the bucket index: one per partition and number that get rows.

    `kind` is how groups that are there are written; a group that two slices claim is an error.
    """
    there: dict[tuple[PartitionPath, int], FileSlice] = {}
    slice_: FileSlice | None
    for slice_ in slices:
        number = bucket_of(slice_.group.file_id)
        if number is None:
            raise FormatError(f"{slice_.group} is of no bucket: it was not written by number")
        key = (slice_.group.partition, number)
        if key in there:
            raise FormatError(f"{slice_.group} and {there[key].group} are the same bucket")
        there[key] = slice_
    buckets = {}
    for index, (key, rows) in enumerate(counts.items()):
        slice_ = there.get(key)
        if slice_ is not None:
            buckets[key] = Bucket(index, kind, slice_.group, slice_, updates=rows, rolls_over=False)
        else:
            group = FileGroupId(key[0], new_file_id(*key))
            made = Bucket(index, BucketKind.CREATE, group, inserts=rows, rolls_over=False)
            buckets[key] = made
    return buckets


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
