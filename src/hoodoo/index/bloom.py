"""The bloom index: footers of base files rule most files out before keys are compared.

It pays where keys grow with time, so that the range of keys in a footer says a lot.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from hoodoo.index.file_search import FileSearch
from hoodoo.index.slice_keys import KeyRange, SliceKeys, key_range, search_slice
from hoodoo.table.read_rule import SliceRead


@dataclass(frozen=True, slots=True)
class BloomIndex(FileSearch):
    """As the simple index; `by_range`: whether the range of keys that a footer tells counts."""

    by_range: bool = True

    asks_footers = True

    def search(self, read: SliceRead, keys: pa.Array) -> SliceKeys:
        return search_slice(read, keys, by_range=self.by_range)

    def key_range(self, read: SliceRead) -> KeyRange | None:
        return key_range(read) if self.by_range else None
