"""Which file groups are written, and which rows each gets.

The assignment is pure: counts of rows in, file groups out. `load_file_size_limits` provides its
limits: how large files may get by the settings, and how large a row is by recent commits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from hoodoo.config.write import MAX_FILE_SIZE, RECORD_SIZE_ESTIMATE, SMALL_FILE_LIMIT
from hoodoo.model.files import FileGroupId, FileSlice
from hoodoo.model.keys import bucket_file_id
from hoodoo.model.names import derived_uuid, new_file_id
from hoodoo.model.paths import PartitionPath
from hoodoo.model.table import TableType
from hoodoo.read.snapshot import Snapshot
from hoodoo.table.timeline import read_commit
from hoodoo.write.index.destinations import (
    NEW,
    Counts,
    Destination,
    FileGroupWrite,
    Route,
    WriteKind,
)
from hoodoo.write.index.index import GroupsAndRoutes

# -- assigning rows -----------------------------------------------------------------------------


Present = Mapping[Destination, FileSlice]


@dataclass(frozen=True, slots=True)
class FileSizeLimits:
    """Limits for file sizes, and how large a row is on disk (None: nobody knows yet)."""

    max_file_bytes: int
    small_file_bytes: int
    row_bytes: float | None


def assign_to_files(
    table_type: TableType,
    counts: Counts,
    present: Present,
    fillable: Iterable[FileSlice],
    sizes: FileSizeLimits,
    write_id: str,
) -> GroupsAndRoutes:
    """One write per updated file group; new rows fill small files, then new file groups.

    `fillable` slices may take new rows by merging, if they have no logs or the table has none.
    """
    candidates = [s for s in fillable if _takes_inserts(table_type, s)]
    room = small_files(candidates, sizes)
    extra: dict[FileGroupId, int] = {}
    group_writes: list[tuple[WriteKind, FileGroupId, FileSlice | None, int, int]] = []
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
                    group_writes.append((WriteKind.MERGE, slice_.group, slice_, added_rows, 0))
        fresh += [(destination.partition, rows) for rows in _split(count, sizes)]
    for slice_, update_count in updates.items():
        insert_count = extra.get(slice_.group, 0)
        kind = WriteKind.MERGE if insert_count else _update_kind(table_type)
        group_writes.append((kind, slice_.group, slice_, insert_count, update_count))
    for partition, rows in fresh:
        group = FileGroupId(partition, new_file_id(write_id, len(group_writes)))
        group_writes.append((WriteKind.CREATE, group, None, rows, 0))
    writes = [
        FileGroupWrite(index, kind, group, previous, new, update_count)
        for index, (kind, group, previous, new, update_count) in enumerate(group_writes)
    ]
    return GroupsAndRoutes(writes, list(_routes(writes)))


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
) -> GroupsAndRoutes:
    """One write per bucket that gets rows; the label of a destination is the bucket's number."""
    writes, routes = [], []
    row_counts = ((destination, rows) for destination, rows in counts.items() if rows)
    for index, (destination, rows) in enumerate(row_counts):
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
    return GroupsAndRoutes(writes, routes)


def _update_kind(table_type: TableType) -> WriteKind:
    return WriteKind.MERGE if table_type is TableType.COPY_ON_WRITE else WriteKind.APPEND


def _takes_inserts(table_type: TableType, slice_: FileSlice) -> bool:
    """Whether a slice may take new rows by being rewritten."""
    return table_type is TableType.COPY_ON_WRITE or not slice_.logs


def small_files(
    candidates: Iterable[FileSlice], sizes: FileSizeLimits
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


def _split(count: int, sizes: FileSizeLimits) -> list[int]:
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


# -- sizes of files and rows --------------------------------------------------------------------


_RECENT_COMMITS = 5


def load_file_size_limits(snapshot: Snapshot, *, has_inserts: bool) -> FileSizeLimits:
    """Limits for file sizes; how large a row is matters, and costs reads, for new rows only."""
    config = snapshot.ref.config
    small = config.get(SMALL_FILE_LIMIT)
    recent = _recent_writes(snapshot) if has_inserts else ()
    row_bytes = average_row_bytes(recent, enough_bytes=small)
    if row_bytes is None and config.sets(RECORD_SIZE_ESTIMATE):
        row_bytes = float(config.get(RECORD_SIZE_ESTIMATE))
    return FileSizeLimits(config.get(MAX_FILE_SIZE), small, row_bytes)


def _recent_writes(snapshot: Snapshot) -> Iterator[tuple[int, int]]:
    """Bytes and rows of base files that recent commits wrote, newest first."""
    ref = snapshot.ref
    for instant in snapshot.timeline.commits.instants[-_RECENT_COMMITS:][::-1]:
        metadata = read_commit(ref.env, ref.properties.timeline_paths, instant)
        bases = [stat for _, stat in metadata.stats() if not stat.is_log]
        size = sum(stat.total_write_bytes for stat in bases)
        yield size, sum(stat.num_writes for stat in bases)
