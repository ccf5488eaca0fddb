"""The simple indexes: the keys of all files that may have them are read and compared.

`SimpleIndex` looks in the partition of each row. For `GlobalSimpleIndex` a key is one row of the
whole table, in whatever partition. `FileSearchIndex` has what all indexes share that look for keys
in files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from hoodoo.config.index import INDEX_TYPE, NUM_BUCKETS, IndexType, bucket_rule_of_table
from hoodoo.errors import ConfigError
from hoodoo.model.files import FileSlice
from hoodoo.model.keys import looks_like_bucket
from hoodoo.read.base_files import SliceReadTask
from hoodoo.read.snapshot import Snapshot
from hoodoo.write.index.assign import assign_to_files, load_file_size_limits
from hoodoo.write.index.destinations import NEW, Counts, Destination
from hoodoo.write.index.index import GroupsAndRoutes, KeyLookup, WritableSlices
from hoodoo.write.index.key_filters import StoredFilters
from hoodoo.write.index.matches import Matches, Targets, keep_where_known, move_to_own_partition
from hoodoo.write.index.slice_keys import KeyRange, SliceKeys, read_keys


@dataclass(frozen=True, slots=True)
class FileSearchIndex:
    """Keys are read from the files that may have them; new rows fill small files first."""

    is_global = False
    searches_files = True
    buckets = None
    asks_footers = False

    @property
    def compares_ordering(self) -> bool:
        return False

    def refuse_incompatible_settings(self, snapshot: Snapshot) -> None:
        """A table that has buckets is written by their numbers alone."""
        ref = snapshot.ref
        file_ids = [slice_.group.file_id for slice_ in snapshot.slices()]
        if bucket_rule_of_table(ref.properties.raw, ref.properties.keys.record_fields) is not None:
            reason = f"the table was made with {IndexType.BUCKET.value}"
        elif file_ids and all(map(looks_like_bucket, file_ids)):
            reason = f"the table has a bucket index: set BUCKET, and {NUM_BUCKETS.name} as it was"
        else:
            return
        value = ref.config.get(INDEX_TYPE).value
        raise ConfigError(key=INDEX_TYPE.name, value=value, reason=reason)

    def open_filters(self, snapshot: Snapshot) -> StoredFilters | None:
        return None

    def search(
        self, read: SliceReadTask, keys: pa.Array, in_base: pa.Array | None = None
    ) -> SliceKeys:
        return read_keys(read)

    def key_range(self, read: SliceReadTask) -> KeyRange | None:
        return None

    def open_lookup(self, snapshot: Snapshot) -> KeyLookup | None:
        return None

    def choose(self, matches: Matches) -> Targets:
        return keep_where_known(matches)

    def labels(self, keys: pa.Array) -> pa.Array:
        return pa.repeat(NEW, len(keys))

    def destinations(self, slices: Sequence[FileSlice]) -> dict[Destination, FileSlice]:
        return {Destination(s.group.partition, s.group.file_id): s for s in slices}

    def assign(
        self, snapshot: Snapshot, counts: Counts, room: WritableSlices, write_id: str
    ) -> GroupsAndRoutes:
        has_inserts = any(rows for destination, rows in counts.items() if destination.label == NEW)
        return assign_to_files(
            snapshot.ref.properties.type,
            counts,
            self.destinations(room.present),
            room.fillable,
            load_file_size_limits(snapshot, has_inserts=has_inserts),
            write_id,
        )


@dataclass(frozen=True, slots=True)
class SimpleIndex(FileSearchIndex):
    """A key is one row of its partition."""


@dataclass(frozen=True, slots=True)
class GlobalSimpleIndex(FileSearchIndex):
    """`moves`: a row whose key lives in another partition moves to its own; else it stays there."""

    moves: bool = True
    by_event_time: bool = False

    is_global = True

    @property
    def compares_ordering(self) -> bool:
        return self.moves and self.by_event_time

    def choose(self, matches: Matches) -> Targets:
        return move_to_own_partition(matches) if self.moves else keep_where_known(matches)
