"""The bloom index: bloom filters of base files rule most files out before keys are compared.

They are in the metadata table, if that has a partition `bloom_filters`, or else in footers. It pays
where keys grow with time, so that the range of keys of a file says a lot.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from hoodoo.read.base_files import SliceReadTask
from hoodoo.read.snapshot import Snapshot
from hoodoo.write.index.key_filters import StoredFilters, open_filters
from hoodoo.write.index.simple import FileSearchIndex
from hoodoo.write.index.slice_keys import KeyRange, SliceKeys, key_range, search_slice


@dataclass(frozen=True, slots=True)
class BloomIndex(FileSearchIndex):
    """As the simple index; `by_range`: whether the range of keys of a file counts.

    `by_metadata`: whether the metadata table is asked before footers are.
    """

    by_range: bool = True
    by_metadata: bool = True

    asks_footers = True

    def open_filters(self, snapshot: Snapshot) -> StoredFilters | None:
        return open_filters(snapshot, by_range=self.by_range) if self.by_metadata else None

    def search(
        self, read: SliceReadTask, keys: pa.Array, in_base: pa.Array | None = None
    ) -> SliceKeys:
        return search_slice(read, keys, by_range=self.by_range, in_base=in_base)

    def key_range(self, read: SliceReadTask) -> KeyRange | None:
        return key_range(read) if self.by_range else None
