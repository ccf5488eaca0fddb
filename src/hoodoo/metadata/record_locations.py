"""`RecordLocations`: the record index of a table at one moment, to look record keys up in.

Keys are spread over the file groups of the partition by their hash, so each file group is one
share of the work: an engine, or Spark, hands a share of the keys to whoever reads that file group.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.errors import Unsupported
from hoodoo.format.metadata.keys import Ints
from hoodoo.format.unions import empty_table
from hoodoo.metadata.entries import Wanted, group_numbers, read_group
from hoodoo.metadata.metadata_table import MetadataTable, PartitionFiles
from hoodoo.model.files import FileGroupId
from hoodoo.model.metadata_table import RECORD_INDEX, file_group_id
from hoodoo.model.paths import METADATA_TABLE, join
from hoodoo.timeline.timeline import Timeline

FOUND = pa.schema(
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
        """Where those of the keys are that the table has, as a table of `FOUND`.

        All keys are of this share. A location in a file group that is gone, or was replaced, is
        none: whoever took the group out moved the key, or deleted it.
        """
        keys = pc.unique(keys)
        one = self.files.slices[share]
        parts = [empty_table(FOUND)]
        for begin in range(0, len(keys), _KEYS_AT_ONCE):
            # Their values are texts, and numbers with a branch of a union before each.
            wanted = Wanted(keys=keys[begin : begin + _KEYS_AT_ONCE], skips=True)
            entries = read_group(self.table, self.files.partition, one, wanted)
            partitions = pc.fill_null(entries["partition"], "")
            texts = _group_texts(partitions, entries["file_id"])
            found = pa.table([entries["key"], partitions, entries["file_id"]], FOUND)
            parts.append(found.filter(pc.is_in(texts, value_set=self.present)))
        return pa.concat_tables(parts)


def open_locations(
    table: MetadataTable, view: Timeline, present: Iterable[FileGroupId]
) -> RecordLocations:
    """The record index as a view of the table sees it, and its file groups `present`.

    Raises `FormatError` if it cannot be read, `Unsupported` if it is one for each partition.
    """
    table = hide_unseen(table, view)
    files = table.load_partition(RECORD_INDEX)
    for number, one in enumerate(files.slices):
        file_id = one.group.file_id
        if file_id != file_group_id(RECORD_INDEX, number):
            raise Unsupported(
                f"{join(METADATA_TABLE, RECORD_INDEX)} has file group {file_id}: an index for each "
                "partition (RECORD_LEVEL_INDEX) is not read"
            )
    groups = list(present)
    partitions = pa.array([group.partition for group in groups], pa.string())
    file_ids = pa.array([group.file_id for group in groups], pa.string())
    return RecordLocations(table, files, _group_texts(partitions, file_ids))


def hide_unseen(table: MetadataTable, view: Timeline) -> MetadataTable:
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
        timeline=table.timeline.where(lambda instant: instant.requested_time not in later),
        valid=table.valid - later,
        unfinished=table.unfinished | later,
    )


def _group_texts(partitions: pa.Array | pa.ChunkedArray, file_ids: pa.Array) -> pa.Array:
    """File groups as one text each; a partition path has no NUL."""
    return pc.binary_join_element_wise(partitions, file_ids, "\0")
