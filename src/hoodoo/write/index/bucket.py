"""The bucket index: the hash of a key tells its file group; nothing is looked up.

The label of a destination is the bucket's number. Rows that one writer puts into buckets and
another one elsewhere are found by neither: `refuse_incompatible_settings` compares the settings
with what `hoodie.properties` says, where hoodoo made the table, and with its file ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from hoodoo.config.index import HASH_FIELDS, NUM_BUCKETS, bucket_rule_of_table
from hoodoo.errors import ConfigError, FormatError
from hoodoo.model.files import FileSlice
from hoodoo.model.keys import BucketRule, bucket_of
from hoodoo.read.base_files import SliceReadTask
from hoodoo.read.snapshot import Snapshot
from hoodoo.table.ref import TableRef
from hoodoo.write.index.assign import assign_to_buckets
from hoodoo.write.index.bucket_hash import bucket_numbers
from hoodoo.write.index.destinations import Counts, Destination
from hoodoo.write.index.index import GroupsAndRoutes, KeyLookup, WritableSlices
from hoodoo.write.index.key_filters import StoredFilters
from hoodoo.write.index.matches import Matches, Targets, keep_live_matches
from hoodoo.write.index.slice_keys import KeyRange, SliceKeys


@dataclass(frozen=True, slots=True)
class BucketIndex:
    """A bucket is one file group of its partition."""

    buckets: BucketRule

    is_global = False
    searches_files = False
    asks_footers = False
    compares_ordering = False

    def refuse_incompatible_settings(self, snapshot: Snapshot) -> None:
        ref = snapshot.ref
        table_rule = bucket_rule_of_table(ref.properties.raw, ref.properties.keys.record_fields)
        if table_rule is not None and table_rule.count != self.buckets.count:
            raise _differs(NUM_BUCKETS.name, ref, str(table_rule.count))
        if table_rule is not None and table_rule.fields != self.buckets.fields:
            raise _differs(HASH_FIELDS.name, ref, ",".join(table_rule.fields))
        for slice_ in snapshot.slices():
            number = bucket_of(slice_.group.file_id)
            if number is None or number >= self.buckets.count:
                raise ConfigError(
                    key=NUM_BUCKETS.name,
                    value=self.buckets.count,
                    reason=f"file group {slice_.group.file_id} is none of these buckets; the first "
                    "write to a table decides whether it has buckets, and how many",
                )

    def open_filters(self, snapshot: Snapshot) -> StoredFilters | None:
        return None

    def search(
        self, read: SliceReadTask, keys: pa.Array, in_base: pa.Array | None = None
    ) -> SliceKeys:
        raise NotImplementedError("a bucket is not searched")

    def key_range(self, read: SliceReadTask) -> KeyRange | None:
        return None

    def open_lookup(self, snapshot: Snapshot) -> KeyLookup | None:
        return None

    def choose(self, matches: Matches) -> Targets:
        return keep_live_matches(matches)

    def labels(self, keys: pa.Array) -> pa.Array:
        return pa.array(bucket_numbers(keys, self.buckets)).cast(pa.string())

    def destinations(self, slices: Sequence[FileSlice]) -> dict[Destination, FileSlice]:
        slices_by_destination: dict[Destination, FileSlice] = {}
        for slice_ in slices:
            number = bucket_of(slice_.group.file_id)
            if number is None:
                raise FormatError(f"{slice_.group} is of no bucket: it was not written by number")
            destination = Destination(slice_.group.partition, str(number))
            if destination in slices_by_destination:
                other = slices_by_destination[destination].group
                raise FormatError(f"{slice_.group} and {other} are the same bucket")
            slices_by_destination[destination] = slice_
        return slices_by_destination

    def assign(
        self, snapshot: Snapshot, counts: Counts, room: WritableSlices, write_id: str
    ) -> GroupsAndRoutes:
        present = self.destinations(room.present)
        return assign_to_buckets(snapshot.ref.properties.type, counts, present, write_id)


def _differs(name: str, ref: TableRef, table_value: str) -> ConfigError:
    option = ref.config.values.get(name)
    return ConfigError(key=name, value=option, reason=f"the table was made with {table_value}")
