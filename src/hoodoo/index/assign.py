"""Which file groups are written, and which rows each gets. Pure: counts in, file groups out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from hoodoo.index.index import Assigned
from hoodoo.model.buckets import bucket_file_id
from hoodoo.model.file_group_write import (
    NEW,
    Counts,
    Destination,
    FileGroupWrite,
    Route,
    WriteKind,
)
from hoodoo.model.files import FileGroupId, FileSlice
from hoodoo.model.names import derived_uuid, new_file_id
from hoodoo.model.paths import PartitionPath
from hoodoo.model.table import TableType

Present = Mapping[Destination, FileSlice]


@dataclass(frozen=True, slots=True)
class Sizes:
    """Limits for file sizes, and how large a row is on disk (None: nobody knows yet)."""

    max_file_bytes: int
    small_file_bytes: int
    row_bytes: float | None


def assign_to_files(
    table_type: TableType,
    counts: Counts,
    present: Present,
    fillable: Iterable[FileSlice],
    sizes: Sizes,
    write_id: str,
) -> Assigned:
    """One write per updated file group; new rows fill small files, then new file groups.

    `fillable` slices may take new rows by merging, if they have no logs or the table has none.
    """
    candidates = [s for s in fillable if _takes_inserts(table_type, s)]
    room = small_files(candidates, sizes)
    extra: dict[FileGroupId, int] = {}
    planned: list[tuple[WriteKind, FileGroupId, FileSlice | None, int, int]] = []
    fresh: list[tuple[PartitionPath, int]] = []
    updates = {present[d]: count for d, count in counts.items() if d.label != NEW and count}
    for destination, count in counts.items():
        if destination.label != NEW:
            continue
        for slice_, rows in room.get(destination.partition, ()):
            added_rows = min(rows, count)
            if added_rows:
                extra[slice_.group] = added_rows
                count -= added_rows
                if slice_ not in updates:
                    planned.append((WriteKind.MERGE, slice_.group, slice_, added_rows, 0))
        fresh += [(destination.partition, rows) for rows in _split(count, sizes)]
    for slice_, updated in updates.items():
        added = extra.get(slice_.group, 0)
        kind = WriteKind.MERGE if added else _update_kind(table_type)
        planned.append((kind, slice_.group, slice_, added, updated))
    for partition, rows in fresh:
        group = FileGroupId(partition, new_file_id(write_id, len(planned)))
        planned.append((WriteKind.CREATE, group, None, rows, 0))
    writes = [
        FileGroupWrite(index, kind, group, previous, new, updated)
        for index, (kind, group, previous, new, updated) in enumerate(planned)
    ]
    return Assigned(writes, list(_routes(writes)))


def _routes(writes: Iterable[FileGroupWrite]) -> Iterator[Route]:
    """Rows go to the file group of their key; the new ones of a partition are shared out."""
    takers: dict[PartitionPath, list[FileGroupWrite]] = {}
    for write in writes:
        partition = write.group.partition
        if write.updates:
            yield Route(Destination(partition, write.group.file_id), write.index)
        if write.inserts:
            takers.setdefault(partition, []).append(write)
    for partition, sharing in takers.items():
        total, first = sum(write.inserts for write in sharing), 0
        for write in sharing:
            end = first + write.inserts
            yield Route(Destination(partition, NEW), write.index, first, end, total)
            first = end


def assign_to_buckets(
    table_type: TableType, counts: Counts, present: Present, write_id: str
) -> Assigned:
    """One write per bucket that gets rows; the label of a destination is the bucket's number."""
    writes, routes = [], []
    filled = ((destination, rows) for destination, rows in counts.items() if rows)
    for index, (destination, rows) in enumerate(filled):
        slice_ = present.get(destination)
        if slice_ is not None:
            kind = _update_kind(table_type)
            write = FileGroupWrite(
                index, kind, slice_.group, slice_, updates=rows, rolls_over=False
            )
        else:
            partition, number = destination.partition, int(destination.label)
            uuid = derived_uuid(write_id, f"{partition}/{number}")
            group = FileGroupId(partition, bucket_file_id(number, uuid))
            write = FileGroupWrite(index, WriteKind.CREATE, group, inserts=rows, rolls_over=False)
        writes.append(write)
        routes.append(Route(destination, index))
    return Assigned(writes, routes)


def _update_kind(table_type: TableType) -> WriteKind:
    return WriteKind.MERGE if table_type is TableType.COPY_ON_WRITE else WriteKind.APPEND


def _takes_inserts(table_type: TableType, slice_: FileSlice) -> bool:
    """Whether a slice may take new rows by being rewritten."""
    return table_type is TableType.COPY_ON_WRITE or not slice_.logs


def small_files(
    candidates: Iterable[FileSlice], sizes: Sizes
) -> dict[PartitionPath, list[tuple[FileSlice, int]]]:
    """Per partition, slices with room and the number of rows they can take, smallest first."""
    small: dict[PartitionPath, list[tuple[FileSlice, int]]] = {}
    if sizes.row_bytes is None:
        return small
    for slice_ in sorted(candidates, key=lambda s: (s.size_bytes, s.group.file_id)):
        if slice_.base is not None and slice_.size_bytes < sizes.small_file_bytes:
            rows = int((sizes.max_file_bytes - slice_.size_bytes) / sizes.row_bytes)
            if rows > 0:
                small.setdefault(slice_.group.partition, []).append((slice_, rows))
    return small


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
