"""Planning a write of Arrow rows: which file groups take which rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from hoodoo.concurrency.conflict import Kind, Mine, Touch
from hoodoo.config.concurrency import KEY_GUARD
from hoodoo.config.write import MAX_FILE_SIZE, RECORD_SIZE_ESTIMATE, SMALL_FILE_LIMIT
from hoodoo.format.schema import RECORD_KEY
from hoodoo.model.commit import OperationType
from hoodoo.model.files import FileGroupId, FileSlice
from hoodoo.model.instant import InstantTime
from hoodoo.model.names import FileId
from hoodoo.model.paths import PartitionPath
from hoodoo.model.table import TableType
from hoodoo.rows import merge
from hoodoo.rows.merge import Changes
from hoodoo.table.ref import TableRef
from hoodoo.table.snapshot import Snapshot
from hoodoo.timeline.load import read_commit
from hoodoo.write.assign import Bucket, BucketKind, Sizes, assign, average_row_bytes
from hoodoo.write.key_guard import InsertedKeys, inserted_keys
from hoodoo.write.locate import Located, Positions, all_new
from hoodoo.write.prepare import Incoming

Replaced = Mapping[PartitionPath, tuple[FileId, ...]]

_COMMITS_FOR_ROW_SIZE = 5
_TOUCHES = {
    BucketKind.CREATE: Touch.CREATE,
    BucketKind.APPEND: Touch.APPEND,
    BucketKind.MERGE: Touch.REWRITE,
}


@dataclass(frozen=True)
class Work:
    """A planned write: buckets, the rows of each, and the file groups it takes out."""

    operation: OperationType
    snapshot: Snapshot
    schema: pa.Schema
    buckets: Sequence[Bucket]
    changes: Mapping[int, Changes]
    replaced: Replaced = field(default_factory=dict)
    guarded: InsertedKeys = field(default_factory=dict)
    """New keys that nobody else may have inserted meanwhile, if the key guard is on."""

    def mine(self, time: InstantTime) -> Mine:
        """What this write does to the table, once it has an instant."""
        touched = {bucket.group: _TOUCHES[bucket.kind] for bucket in self.buckets}
        for partition, file_ids in self.replaced.items():
            gone = (FileGroupId(partition, file_id) for file_id in file_ids)
            touched.update(dict.fromkeys(gone, Touch.REPLACE))
        return Mine(time, Kind.INGESTION, touched)


def upserts(ref: TableRef, incoming: Incoming) -> Changes:
    """Incoming rows as changes that write them."""
    rows = incoming.rows.append_column(RECORD_KEY, incoming.keys)
    return merge.upserts(rows, incoming.keys, ref.properties.merge)


def deletes(ref: TableRef, incoming: Incoming, schema: pa.Schema) -> Changes:
    """Incoming keys as changes that delete them; ordering values count where they are given."""
    rule = ref.properties.merge
    has_ordering = rule.by_event_time and all(
        name in incoming.rows.column_names for name in rule.ordering_fields
    )
    ordering = merge.ordering_columns(incoming.rows, rule) if has_ordering else ()
    stored = schema.append(pa.field(RECORD_KEY, pa.string()))
    return merge.deletes(incoming.keys, stored, rule, ordering)


def plan_inserts(
    operation: OperationType,
    snapshot: Snapshot,
    incoming: Incoming,
    schema: pa.Schema,
    candidates: Sequence[FileSlice],
    replaced: Replaced | None = None,
) -> Work:
    """A write whose rows are all new, into `candidates` that are small and new file groups."""
    located = all_new(incoming.num_rows)
    changes = upserts(snapshot.ref, incoming)
    work = plan_updates(operation, snapshot, incoming, schema, located, changes, candidates)
    return replace(work, replaced=replaced or {})


def plan_updates(
    operation: OperationType,
    snapshot: Snapshot,
    incoming: Incoming,
    schema: pa.Schema,
    located: Located,
    changes: Changes,
    candidates: Sequence[FileSlice] | None = None,
) -> Work:
    """Distribute rows: those with a known key to its file group, the others to new places."""
    ref = snapshot.ref
    updates: dict[FileSlice, BucketKind] = {}
    counts: dict[FileGroupId, int] = {}
    rows_of: dict[FileGroupId, Positions] = {}
    for slice_, keys, positions in zip(located.slices, located.keys, located.rows_of, strict=True):
        if len(positions):
            gone = keys.has_deleted(incoming.keys.take(pa.array(positions)))
            updates[slice_] = _update_kind(ref, resurrects=gone)
            counts[slice_.group] = len(positions)
            rows_of[slice_.group] = positions
    inserts = _positions_by_partition(incoming, located.nowhere)
    if candidates is None:
        candidates = located.slices
    buckets = assign(
        updates,
        counts,
        {partition: len(found) for partition, found in inserts.items()},
        [s for s in candidates if _takes_inserts(ref, s)],
        _sizes(snapshot, has_inserts=bool(inserts)),
        lambda: FileId(f"{ref.env.ids.uuid()}-0"),
    )
    used = dict.fromkeys(inserts, 0)
    chosen: dict[int, Changes] = {}
    for bucket in buckets:
        partition = bucket.group.partition
        mine = [rows_of[bucket.group]] if bucket.group in rows_of else []
        if bucket.inserts:
            begin_at = used[partition]
            used[partition] += bucket.inserts
            mine.append(inserts[partition][begin_at : used[partition]])
        chosen[bucket.index] = merge.take(changes, np.sort(np.concatenate(mine)))
    guarded = inserted_keys(incoming, located.nowhere) if ref.config.get(KEY_GUARD) else {}
    return Work(operation, snapshot, schema, buckets, chosen, guarded=guarded)


def _update_kind(ref: TableRef, *, resurrects: bool) -> BucketKind:
    """How an existing group is updated.

    Under event-time ordering a log row for a key that an earlier log deleted would be weighed
    against the base row that was deleted, and may lose; such a group gets a new base file.
    """
    if ref.properties.type is TableType.COPY_ON_WRITE:
        return BucketKind.MERGE
    if resurrects and ref.properties.merge.by_event_time:
        return BucketKind.MERGE
    return BucketKind.APPEND


def _takes_inserts(ref: TableRef, slice_: FileSlice) -> bool:
    return ref.properties.type is TableType.COPY_ON_WRITE or not slice_.logs


def _positions_by_partition(
    incoming: Incoming, positions: Positions
) -> dict[PartitionPath, Positions]:
    encoded = incoming.partitions.take(pa.array(positions)).dictionary_encode()
    codes = encoded.indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    bounds = np.searchsorted(codes[order], np.arange(len(encoded.dictionary) + 1))
    return {
        PartitionPath(partition): positions[order[bounds[n] : bounds[n + 1]]]
        for n, partition in enumerate(encoded.dictionary.to_pylist())
    }


def _sizes(snapshot: Snapshot, *, has_inserts: bool) -> Sizes:
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
    snapshot: Snapshot, partitions: set[str] | None
) -> dict[PartitionPath, tuple[FileId, ...]]:
    """File ids of these partitions, or of all."""
    found: dict[PartitionPath, list[FileId]] = {}
    for slice_ in snapshot.slices():
        if partitions is None or slice_.group.partition in partitions:
            found.setdefault(slice_.group.partition, []).append(slice_.group.file_id)
    return {partition: tuple(ids) for partition, ids in found.items()}
