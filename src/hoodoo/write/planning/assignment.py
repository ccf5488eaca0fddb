"""`Assignment`: what a write is going to do to the table, whoever carries it out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

import pyarrow as pa

from hoodoo.concurrency.conflicts.rules import (
    GroupEffect,
    InstantKind,
    Overwrites,
    PublishingInstant,
    collect_group_effects,
)
from hoodoo.format.schema import without_meta_fields
from hoodoo.model.commit import CommitMetadata, OperationType, WriteStat, by_partition
from hoodoo.model.files import FileGroupId
from hoodoo.model.instant import InstantTime
from hoodoo.model.names import FileId
from hoodoo.model.paths import PartitionPath
from hoodoo.read.snapshot import Snapshot, take_snapshot
from hoodoo.table.ref import TableRef
from hoodoo.write.index import Index, index_of
from hoodoo.write.index.destinations import Counts, FileGroupWrite, WriteKind
from hoodoo.write.index.index import GroupsAndRoutes, WritableSlices

ReplacedGroups = Mapping[PartitionPath, tuple[FileId, ...]]

_TOUCHES = {
    WriteKind.CREATE: GroupEffect.CREATE,
    WriteKind.APPEND: GroupEffect.APPEND,
    WriteKind.MERGE: GroupEffect.REWRITE,
}
_OVERWRITES = frozenset({OperationType.INSERT_OVERWRITE, OperationType.INSERT_OVERWRITE_TABLE})


@dataclass(frozen=True)
class WriteTarget:
    """The table that a write is planned on: as it is now, if the settings fit it."""

    snapshot: Snapshot
    index: Index

    @classmethod
    def load(cls, ref: TableRef) -> WriteTarget:
        """Take a snapshot, and fail if the settings of the index do not fit the table."""
        snapshot, index = take_snapshot(ref), index_of(ref)
        index.refuse_incompatible_settings(snapshot)
        return cls(snapshot, index)

    @property
    def ref(self) -> TableRef:
        """The table."""
        return self.snapshot.ref

    @property
    def schema(self) -> pa.Schema:
        """The table's schema, without meta columns."""
        return without_meta_fields(self.snapshot.schema)


@dataclass(frozen=True)
class Assignment:
    """A planned write: the file groups that it writes, and those that it takes out.

    `writes` may be empty where a write finds out as it goes which file groups it makes.
    """

    operation: OperationType
    snapshot: Snapshot
    schema: pa.Schema
    writes: Sequence[FileGroupWrite] = ()
    replaced_files: ReplacedGroups = field(default_factory=dict)
    overwrites: Overwrites = frozenset()

    def describe_plan(self, time: InstantTime) -> PublishingInstant:
        """What this write is going to do to the table, once it has an instant."""
        touches = {write.group: _TOUCHES[write.kind] for write in self.writes}
        touches.update(dict.fromkeys(self._replaced_groups(), GroupEffect.REPLACE))
        return PublishingInstant(time, InstantKind.INGESTION, touches, self.overwrites)

    def describe_result(self, time: InstantTime, stats: Sequence[WriteStat]) -> PublishingInstant:
        """What this write did to the table."""
        touches = collect_group_effects(
            CommitMetadata(partition_to_write_stats=by_partition(stats))
        )
        touches.update(dict.fromkeys(self._replaced_groups(), GroupEffect.REPLACE))
        return PublishingInstant(time, InstantKind.INGESTION, touches, self.overwrites)

    def _replaced_groups(self) -> Iterator[FileGroupId]:
        for partition, file_ids in self.replaced_files.items():
            yield from (FileGroupId(partition, file_id) for file_id in file_ids)


def assign(
    target: WriteTarget, operation: OperationType, schema: pa.Schema, counts: Counts
) -> tuple[Assignment, GroupsAndRoutes]:
    """The file groups of a write of so many rows per destination, and which rows each gets.

    New rows fill small files, except for bulk inserts and overwrites. Overwrites take out what is
    there: of the partitions that get rows, or of the whole table.
    """
    snapshot, slices = target.snapshot, target.snapshot.slices()
    overwrites: Overwrites = frozenset()
    replaced_groups: ReplacedGroups = {}
    if operation in _OVERWRITES:
        is_whole = operation is OperationType.INSERT_OVERWRITE_TABLE
        overwrites = None if is_whole else frozenset(d.partition for d in counts)
        replaced_groups = groups_by_partition(snapshot, overwrites)
        room = WritableSlices(present=(), fillable=())
    else:
        fills = operation is not OperationType.BULK_INSERT
        room = WritableSlices(present=slices, fillable=slices if fills else ())
    groups_and_routes = target.index.assign(snapshot, counts, room, target.ref.env.ids.uuid())
    assignment = Assignment(
        operation, snapshot, schema, groups_and_routes.writes, replaced_groups, overwrites
    )
    return assignment, groups_and_routes


def groups_by_partition(
    snapshot: Snapshot, partitions: AbstractSet[str] | None = None
) -> dict[PartitionPath, tuple[FileId, ...]]:
    """File ids of these partitions, or of all."""
    file_ids: dict[PartitionPath, list[FileId]] = {}
    for slice_ in snapshot.slices():
        if partitions is None or slice_.group.partition in partitions:
            file_ids.setdefault(slice_.group.partition, []).append(slice_.group.file_id)
    return {partition: tuple(ids) for partition, ids in file_ids.items()}
