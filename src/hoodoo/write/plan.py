"""Planning a write of Arrow rows: which file groups take which rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa

from hoodoo.concurrency.conflict import Overwritten
from hoodoo.config.index import bucket_rule
from hoodoo.format.schema import RECORD_KEY
from hoodoo.model.buckets import bucket_file_id, bucket_of
from hoodoo.model.commit import OperationType
from hoodoo.model.files import FileGroupId, FileSlice
from hoodoo.model.names import derived_uuid, new_file_id
from hoodoo.model.paths import PartitionPath
from hoodoo.rows import merge
from hoodoo.rows.buckets import bucket_numbers
from hoodoo.rows.merge import Changes
from hoodoo.table.ref import TableRef
from hoodoo.table.snapshot import Snapshot
from hoodoo.write.assign import Bucket, BucketKind, assign, assign_numbers
from hoodoo.write.bucketed import has_buckets
from hoodoo.write.locate import (
    Located,
    Positions,
    all_new,
    in_buckets,
    positions_by_partition,
)
from hoodoo.write.prepare import Incoming
from hoodoo.write.work import Replaced, Work, sizes_of, takes_inserts, update_kind

_NO_ROWS: Positions = np.zeros(0, np.int64)


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
    overwrites: Overwritten = frozenset(),
) -> Planned:
    """A write whose keys nobody looks for, into `candidates` that are small and new file groups.

    Where the table has buckets, rows go to those that are there unless they are replaced.
    """
    located = all_new(incoming.num_rows)
    if replaced is None and has_buckets(snapshot.ref):
        located = in_buckets(snapshot, incoming)
    changes = upserts(snapshot.ref, incoming)
    planned = plan_updates(operation, snapshot, incoming, schema, located, changes, candidates)
    work = replace(planned.work, replaced=replaced or {}, overwrites=overwrites)
    return replace(planned, work=work)


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
    # A row that is marked as deleted, and that nobody has, is no row.
    nowhere = located.nowhere[~changes.deleted[located.nowhere]]
    located = replace(located, nowhere=nowhere)
    placed = place(snapshot, incoming, located, candidates)
    leaving = {
        slice_.group: rows
        for slice_, rows in zip(located.slices, located.leaving, strict=True)
        if len(rows)
    }
    chosen: dict[int, Changes] = {}
    for bucket, rows in placed:
        chosen[bucket.index] = merge.take(changes, np.sort(rows))
        if bucket.group in leaving:
            keys = incoming.keys.take(pa.array(leaving[bucket.group]))
            gone = merge.deletes(keys, changes.rows.schema, ref.properties.merge)
            chosen[bucket.index] = merge.collapse([gone, chosen[bucket.index]])
    buckets = [bucket for bucket, _ in placed]
    return Planned(Work(operation, snapshot, schema, buckets), chosen)


def place(
    snapshot: Snapshot,
    incoming: Incoming,
    located: Located,
    candidates: Sequence[FileSlice] | None = None,
) -> list[tuple[Bucket, Positions]]:
    """The buckets of a write, each with its rows; small ones of `candidates` take new rows.

    Only the keys and partitions of the rows are looked at.
    """
    if has_buckets(snapshot.ref):
        return _in_buckets(snapshot.ref, incoming, located)
    candidates = located.slices if candidates is None else candidates
    return _in_files(snapshot, incoming, located, candidates)


def _in_files(
    snapshot: Snapshot, incoming: Incoming, located: Located, candidates: Sequence[FileSlice]
) -> list[tuple[Bucket, Positions]]:
    """New rows fill small files, then new file groups of limited size."""
    ref = snapshot.ref
    rows_of: dict[FileGroupId, Positions] = {}
    updates: dict[FileSlice, BucketKind] = {}
    counts: dict[FileGroupId, int] = {}
    for slice_, rows, gone in zip(located.slices, located.rows_of, located.leaving, strict=True):
        if len(rows) or len(gone):
            rows_of[slice_.group] = rows
            updates[slice_] = update_kind(ref)
            counts[slice_.group] = len(rows) + len(gone)
    inserts = positions_by_partition(incoming, located.nowhere)
    buckets = assign(
        updates,
        counts,
        {partition: len(found) for partition, found in inserts.items()},
        [s for s in candidates if takes_inserts(ref, s)],
        sizes_of(snapshot, has_inserts=bool(inserts)),
        partial(new_file_id, ref.env.ids.uuid()),
    )
    used = dict.fromkeys(inserts, 0)
    placed = []
    for bucket in buckets:
        partition = bucket.group.partition
        mine = [rows_of.get(bucket.group, _NO_ROWS)]
        if bucket.inserts:
            begin_at = used[partition]
            used[partition] += bucket.inserts
            mine.append(inserts[partition][begin_at : used[partition]])
        placed.append((bucket, np.concatenate(mine)))
    return placed


def _in_buckets(
    ref: TableRef, incoming: Incoming, located: Located
) -> list[tuple[Bucket, Positions]]:
    """Each row goes to the bucket that its key's hash tells, in its partition."""
    places: dict[tuple[PartitionPath, int], Positions] = {}
    for slice_, rows in zip(located.slices, located.rows_of, strict=True):
        number = bucket_of(slice_.group.file_id)
        if len(rows) and number is not None:
            places[slice_.group.partition, number] = rows
    rule = bucket_rule(ref.config, ref.properties.keys.record_fields)
    for partition, rows in positions_by_partition(incoming, located.nowhere).items():
        numbers = bucket_numbers(incoming.keys.take(pa.array(rows)), rule)
        order = np.argsort(numbers, kind="stable")
        found, starts = np.unique(numbers[order], return_index=True)
        for number, mine in zip(found.tolist(), np.split(rows[order], starts[1:]), strict=True):
            places[partition, number] = mine
    write_id = ref.env.ids.uuid()
    buckets = assign_numbers(
        {place: len(rows) for place, rows in places.items()},
        located.slices,
        update_kind(ref),
        lambda place, number: bucket_file_id(number, derived_uuid(write_id, f"{place}/{number}")),
    )
    return [(bucket, places[place]) for place, bucket in buckets.items()]
