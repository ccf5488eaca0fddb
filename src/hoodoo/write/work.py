"""`Work`: a planned write, whoever carries it out; and what planning asks of a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

import pyarrow as pa

from hoodoo.concurrency.conflict import Kind, Mine, Overwritten, Touch, touched_by
from hoodoo.config.index import INDEX_TYPE, IndexType
from hoodoo.config.write import MAX_FILE_SIZE, RECORD_SIZE_ESTIMATE, SMALL_FILE_LIMIT
from hoodoo.model.commit import CommitMetadata, OperationType
from hoodoo.model.files import FileGroupId, FileSlice
from hoodoo.model.instant import InstantTime
from hoodoo.model.names import FileId
from hoodoo.model.paths import PartitionPath
from hoodoo.model.stats import WriteStat, by_partition
from hoodoo.model.table import TableType
from hoodoo.table.ref import TableRef
from hoodoo.table.snapshot import Snapshot
from hoodoo.timeline.load import read_commit
from hoodoo.write.assign import Bucket, BucketKind, Sizes, average_row_bytes

Replaced = Mapping[PartitionPath, tuple[FileId, ...]]

_COMMITS_FOR_ROW_SIZE = 5
_TOUCHES = {
    BucketKind.CREATE: Touch.CREATE,
    BucketKind.APPEND: Touch.APPEND,
    BucketKind.MERGE: Touch.REWRITE,
}


@dataclass(frozen=True)
class Work:
    """A planned write: the file groups that it writes, and those that it takes out.

    `buckets` may be empty where a write finds out as it goes which groups it makes.
    """

    operation: OperationType
    snapshot: Snapshot
    schema: pa.Schema
    buckets: Sequence[Bucket] = ()
    replaced: Replaced = field(default_factory=dict)
    overwrites: Overwritten = frozenset()

    def mine(self, time: InstantTime) -> Mine:
        """What this write is going to do to the table, once it has an instant."""
        touched = {bucket.group: _TOUCHES[bucket.kind] for bucket in self.buckets}
        touched.update(dict.fromkeys(self._replaced_groups(), Touch.REPLACE))
        return Mine(time, Kind.INGESTION, touched, self.overwrites)

    def done(self, time: InstantTime, stats: Sequence[WriteStat]) -> Mine:
        """What this write did to the table."""
        touched = touched_by(CommitMetadata(partition_to_write_stats=by_partition(stats)))
        touched.update(dict.fromkeys(self._replaced_groups(), Touch.REPLACE))
        return Mine(time, Kind.INGESTION, touched, self.overwrites)

    def _replaced_groups(self) -> Iterator[FileGroupId]:
        for partition, file_ids in self.replaced.items():
            yield from (FileGroupId(partition, file_id) for file_id in file_ids)


def has_global_keys(ref: TableRef) -> bool:
    """Whether a key is one row of the whole table, not of its partition."""
    return ref.config.get(INDEX_TYPE) is IndexType.GLOBAL_SIMPLE


def update_kind(ref: TableRef) -> BucketKind:
    """How an existing group is updated."""
    if ref.properties.type is TableType.COPY_ON_WRITE:
        return BucketKind.MERGE
    return BucketKind.APPEND


def takes_inserts(ref: TableRef, slice_: FileSlice) -> bool:
    """Whether a slice may take new rows by being rewritten."""
    return ref.properties.type is TableType.COPY_ON_WRITE or not slice_.logs


def sizes_of(snapshot: Snapshot, *, has_inserts: bool) -> Sizes:
    """Limits for file sizes; how large a row is matters, and costs reads, for new rows only."""
    config = snapshot.ref.config
    small = config.get(SMALL_FILE_LIMIT)
    recent = _recent_writes(snapshot) if has_inserts else ()
    measured = average_row_bytes(recent, enough_bytes=small)
    if measured is None and config.sets(RECORD_SIZE_ESTIMATE):
        measured = float(config.get(RECORD_SIZE_ESTIMATE))
    return Sizes(config.get(MAX_FILE_SIZE), small, measured)


def _recent_writes(snapshot: Snapshot) -> Iterator[tuple[int, int]]:
    """Bytes and rows of base files that recent commits wrote, newest first."""
    ref = snapshot.ref
    for instant in snapshot.timeline.commits.instants[-_COMMITS_FOR_ROW_SIZE:][::-1]:
        metadata = read_commit(ref.env, ref.properties.timeline, instant)
        bases = [stat for _, stat in metadata.stats() if not stat.is_log]
        size = sum(stat.total_write_bytes for stat in bases)
        yield size, sum(stat.num_writes for stat in bases)


def groups_by_partition(
    snapshot: Snapshot, partitions: AbstractSet[str] | None = None
) -> dict[PartitionPath, tuple[FileId, ...]]:
    """File ids of these partitions, or of all."""
    found: dict[PartitionPath, list[FileId]] = {}
    for slice_ in snapshot.slices():
        if partitions is None or slice_.group.partition in partitions:
            found.setdefault(slice_.group.partition, []).append(slice_.group.file_id)
    return {partition: tuple(ids) for partition, ids in found.items()}
