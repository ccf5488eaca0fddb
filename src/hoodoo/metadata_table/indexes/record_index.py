"""Partition `record_index` of the metadata table: where the rows of record keys are.

Keys are spread over the file groups of the partition by their hash, so each file group is one share
of the work: an engine, or Spark, hands a share of the keys to a reader of that file group.
`RecordLocations` is the index at one moment, to look keys up in; `record_index_changes` makes the
entries by which a commit changes it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.errors import UnsupportedFeature
from hoodoo.format.arrow_types import empty_table
from hoodoo.format.metadata_table.keys import Ints
from hoodoo.format.metadata_table.record_index import LOCATIONS
from hoodoo.metadata_table.entries.merge import EntryBatch, merge_newest
from hoodoo.metadata_table.entries.read import EntryFilter, group_numbers, read_group
from hoodoo.metadata_table.table import MetadataTable, PartitionFiles
from hoodoo.model.files import FileGroupId
from hoodoo.model.metadata_table import RECORD_INDEX, file_group_id
from hoodoo.model.paths import METADATA_TABLE, join
from hoodoo.table.timeline import Timeline

# -- looking keys up ----------------------------------------------------------------------------


LOCATED_KEYS_SCHEMA = pa.schema(
    [
        pa.field("key", pa.string(), nullable=False),
        pa.field("partition", pa.string(), nullable=False),
        pa.field("file_id", pa.string(), nullable=False),
    ]
)
"""Where keys are: one row per key that is anywhere."""

_KEYS_AT_ONCE = 1_000_000


@dataclass(frozen=True)
class RecordLocations:
    """Tells which of the `present` file groups has a key. It pickles: workers look keys up."""

    table: MetadataTable
    files: PartitionFiles
    present: pa.Array
    """The file groups that the table has, as texts."""

    @property
    def shares(self) -> int:
        """How many file groups the keys are spread over."""
        return len(self.files.slices)

    def number_shares(self, keys: pa.Array) -> Ints:
        """The share of each key, from 0."""
        return group_numbers(self.table, self.files, keys)

    def size_bytes(self, share: int) -> int:
        """The bytes of a share's files; of the base file, few keys take a small part."""
        return self.files.slices[share].size_bytes

    def find(self, share: int, keys: pa.Array) -> pa.Table:
        """Where those of the keys are that the table has, as a table of `LOCATED_KEYS_SCHEMA`.

        All keys are of this share. A location in a file group that is gone, or was replaced, is
        none: whoever took the group out moved the key, or deleted it.
        """
        keys = pc.unique(keys)
        one = self.files.slices[share]
        parts = [empty_table(LOCATED_KEYS_SCHEMA)]
        for begin in range(0, len(keys), _KEYS_AT_ONCE):
            # Their values are texts, and numbers with a branch of a union before each.
            entry_filter = EntryFilter(keys=keys[begin : begin + _KEYS_AT_ONCE], skips=True)
            entries = read_group(self.table, self.files.partition, one, entry_filter)
            partitions = pc.fill_null(entries["partition"], "")
            texts = _group_texts(partitions, entries["file_id"])
            locations = pa.table(
                [entries["key"], partitions, entries["file_id"]], LOCATED_KEYS_SCHEMA
            )
            parts.append(locations.filter(pc.is_in(texts, value_set=self.present)))
        return pa.concat_tables(parts)


def open_locations(
    table: MetadataTable, view: Timeline, present: Iterable[FileGroupId]
) -> RecordLocations:
    """The record index as a view of the table sees it, and its file groups `present`.

    Raises `FormatError` if it cannot be read, `UnsupportedFeature` if it is one for each partition.
    """
    table = without_later_instants(table, view)
    files = table.load_partition(RECORD_INDEX)
    for number, one in enumerate(files.slices):
        file_id = one.group.file_id
        if file_id != file_group_id(RECORD_INDEX, number):
            raise UnsupportedFeature(
                f"{join(METADATA_TABLE, RECORD_INDEX)} has file group {file_id}: an index for each "
                "partition (RECORD_LEVEL_INDEX) is not read"
            )
    groups = list(present)
    partitions = pa.array([group.partition for group in groups], pa.string())
    file_ids = pa.array([group.file_id for group in groups], pa.string())
    return RecordLocations(table, files, _group_texts(partitions, file_ids))


def without_later_instants(table: MetadataTable, view: Timeline) -> MetadataTable:
    """The metadata table without instants that began after a view of the table was taken.

    It is opened later than the view. A clustering that came in between would tell of file groups
    that the view does not have, and the keys in them would count as new. What the view has as
    pending does not count anyway.
    """
    newest = view.newest_time
    if newest is None:
        return table
    later = {i.requested_time for i in table.timeline if i.requested_time > newest}
    return replace(
        table,
        timeline=table.timeline.filter(lambda instant: instant.requested_time not in later),
        valid=table.valid - later,
        unfinished_times=table.unfinished_times | later,
    )


def _group_texts(partitions: pa.Array | pa.ChunkedArray, file_ids: pa.Array) -> pa.Array:
    """File groups as one text each; a partition path has no NUL."""
    return pc.binary_join_element_wise(partitions, file_ids, "\0")


# -- changing the index -------------------------------------------------------------------------


class KeyChanges(Protocol):
    """Keys that are in these file groups by now, and keys that left one."""

    @property
    def keys(self) -> pa.Array: ...

    @property
    def partitions(self) -> pa.Array: ...

    @property
    def file_ids(self) -> pa.Array: ...

    @property
    def deleted_keys(self) -> pa.Array: ...


def record_index_changes(
    *,
    keys: pa.Array | pa.ChunkedArray,
    partitions: pa.Array | pa.ChunkedArray,
    file_ids: pa.Array | pa.ChunkedArray,
    instant_ms: int,
    deleted_keys: pa.Array | None = None,
) -> EntryBatch:
    """Where inserted and moved records are by now, and the keys of records that are gone.

    Of a key that comes several times, the last one counts; one that is also deleted is not.
    """
    count = len(keys)
    instants = pa.repeat(pa.scalar(instant_ms, pa.int64()), count)
    texts = [column.cast(pa.string()) for column in (keys, partitions, file_ids)]
    columns = [*texts, instants, pa.nulls(count, pa.int64())]
    entries = merge_newest([EntryBatch(pa.table(columns, LOCATIONS))])
    absent_keys = (
        pa.array([], pa.string())
        if deleted_keys is None
        else pc.unique(deleted_keys.cast(pa.string()))
    )
    absent_keys = absent_keys.filter(
        pc.invert(pc.is_in(absent_keys, entries["key"].combine_chunks()))
    )
    return EntryBatch(entries, absent_keys.take(pc.sort_indices(absent_keys)))
