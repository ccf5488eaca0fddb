"""Planning a write of Arrow rows: which file groups take which rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa

from hoodoo.config.concurrency import KEY_GUARD
from hoodoo.format.schema import RECORD_KEY
from hoodoo.model.commit import OperationType
from hoodoo.model.files import FileGroupId, FileSlice
from hoodoo.model.names import new_file_id
from hoodoo.model.paths import PartitionPath
from hoodoo.rows import merge
from hoodoo.rows.merge import Changes
from hoodoo.table.ref import TableRef
from hoodoo.table.snapshot import Snapshot
from hoodoo.write.assign import BucketKind, assign
from hoodoo.write.key_guard import inserted_keys
from hoodoo.write.locate import Located, Positions, all_new
from hoodoo.write.prepare import Incoming
from hoodoo.write.work import Replaced, Work, sizes_of, takes_inserts, update_kind


@dataclass(frozen=True)
class Planned:
    """A planned write, and the rows of each of its buckets."""

    work: Work
    changes: Mapping[int, Changes]


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
) -> Planned:
    """A write whose rows are all new, into `candidates` that are small and new file groups."""
    located = all_new(incoming.num_rows)
    changes = upserts(snapshot.ref, incoming)
    planned = plan_updates(operation, snapshot, incoming, schema, located, changes, candidates)
    return replace(planned, work=replace(planned.work, replaced=replaced or {}))


def plan_updates(
    operation: OperationType,
    snapshot: Snapshot,
    incoming: Incoming,
    schema: pa.Schema,
    located: Located,
    changes: Changes,
    candidates: Sequence[FileSlice] | None = None,
) -> Planned:
    """Distribute rows: those with a known key to its file group, the others to new places."""
    ref = snapshot.ref
    updates: dict[FileSlice, BucketKind] = {}
    counts: dict[FileGroupId, int] = {}
    rows_of: dict[FileGroupId, Positions] = {}
    for slice_, positions in zip(located.slices, located.rows_of, strict=True):
        if len(positions):
            updates[slice_] = update_kind(ref)
            counts[slice_.group] = len(positions)
            rows_of[slice_.group] = positions
    inserts = _positions_by_partition(incoming, located.nowhere)
    if candidates is None:
        candidates = located.slices
    buckets = assign(
        updates,
        counts,
        {partition: len(found) for partition, found in inserts.items()},
        [s for s in candidates if takes_inserts(ref, s)],
        sizes_of(snapshot, has_inserts=bool(inserts)),
        partial(new_file_id, ref.env.ids.uuid()),
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
    return Planned(Work(operation, snapshot, schema, buckets, guarded=guarded), chosen)


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
