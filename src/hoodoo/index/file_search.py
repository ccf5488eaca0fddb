"""What the indexes that look for keys in files have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from hoodoo.config.index import INDEX_TYPE, NUM_BUCKETS, IndexType, bucket_rule_of_table
from hoodoo.errors import ConfigError
from hoodoo.index.assign import assign_to_files
from hoodoo.index.file_sizes import load_sizes
from hoodoo.index.index import Assigned, KeyLookup, Room
from hoodoo.index.matches import Matches, Targets, keep_where_known
from hoodoo.index.slice_keys import KeyRange, SliceKeys, read_keys
from hoodoo.index.stored_filters import StoredFilters
from hoodoo.model.buckets import looks_like_bucket
from hoodoo.model.file_group_write import NEW, Counts, Destination
from hoodoo.model.files import FileSlice
from hoodoo.table.read_rule import SliceRead
from hoodoo.table.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class FileSearch:
    """Keys are read from the files that may have them; new rows fill small files first."""

    is_global = False
    searches_files = True
    buckets = None
    asks_footers = False

    @property
    def compares_ordering(self) -> bool:
        return False

    def refuse_misfit(self, snapshot: Snapshot) -> None:
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

    def search(self, read: SliceRead, keys: pa.Array, in_base: pa.Array | None = None) -> SliceKeys:
        return read_keys(read)

    def key_range(self, read: SliceRead) -> KeyRange | None:
        return None

    def open_lookup(self, snapshot: Snapshot) -> KeyLookup | None:
        return None

    def choose(self, matches: Matches) -> Targets:
        return keep_where_known(matches)

    def labels(self, keys: pa.Array) -> pa.Array:
        return pa.repeat(NEW, len(keys))

    def destinations(self, slices: Sequence[FileSlice]) -> dict[Destination, FileSlice]:
        return {Destination(s.group.partition, s.group.file_id): s for s in slices}

    def assign(self, snapshot: Snapshot, counts: Counts, room: Room, write_id: str) -> Assigned:
        has_inserts = any(rows for destination, rows in counts.items() if destination.label == NEW)
        return assign_to_files(
            snapshot.ref.properties.type,
            counts,
            self.destinations(room.present),
            room.fillable,
            load_sizes(snapshot, has_inserts=has_inserts),
            write_id,
        )
