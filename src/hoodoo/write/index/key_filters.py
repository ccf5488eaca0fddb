"""`StoredFilters`: bloom filters and ranges of keys of base files, out of the metadata table.

One look-up tells of many base files what otherwise the footer of each has to be opened for. A file
of which nothing is said there may have any key: then its footer is asked.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from hoodoo.config.metadata_table import METADATA_ENABLE
from hoodoo.errors import FormatError, StorageError, UnsupportedFeature
from hoodoo.format.metadata_table.keys import bloom_filter_keys, column_stats_keys
from hoodoo.format.parquet.bloom_filter import BloomFilter
from hoodoo.format.schema import RECORD_KEY
from hoodoo.metadata_table.entries.read import find_entries
from hoodoo.metadata_table.indexes.data_skipping import to_ranges
from hoodoo.metadata_table.table import MetadataTable
from hoodoo.model.files import BaseFile, FileSlice
from hoodoo.model.metadata_table import BLOOM_FILTERS, COLUMN_STATS
from hoodoo.read.file_listing import open_current_metadata_table
from hoodoo.read.snapshot import Snapshot
from hoodoo.write.index.slice_keys import KeyRange

log = logging.getLogger("hoodoo.write")

AT_ONCE = 256
"""So many filters are held in memory at a time: they have 0.3 MB each, unless settings differ."""


@dataclass(frozen=True, slots=True)
class KeyFilter:
    """What is known of the keys of a base file. It pickles: workers ask it."""

    bloom: BloomFilter
    range: KeyRange | None = None

    def keep_possible(self, keys: pa.Array) -> pa.Array:
        """Those of the keys that the base file may have."""
        if self.range is not None:
            keys = keys.filter(pa.array(self.range.may_hold(keys)))
        return keys.filter(pa.array(self.bloom.might_contain(keys))) if len(keys) else keys


@dataclass(frozen=True, slots=True)
class StoredFilters:
    """The filters of a table's base files; `by_range`: with the ranges of keys, if there are."""

    table: MetadataTable
    by_range: bool

    def load(self, slices: Sequence[FileSlice]) -> list[KeyFilter | None]:
        """What is known of the base file of each slice; None: ask its footer."""
        bases = list({one.base.path: one.base for one in slices if one.base is not None}.values())
        try:
            blooms = _load_blooms(self.table, bases)
            ranges = _load_ranges(self.table, bases) if self.by_range else {}
        except (FormatError, StorageError, UnsupportedFeature) as error:
            log.warning("bloom_filters_not_used reason=%s", error)
            return [None] * len(slices)
        filters_by_path = {
            path: KeyFilter(bloom, ranges.get(path)) for path, bloom in blooms.items()
        }
        return [
            filters_by_path.get(one.base.path) if one.base is not None else None for one in slices
        ]


def open_filters(snapshot: Snapshot, *, by_range: bool) -> StoredFilters | None:
    """The filters of a table; None if it has none, or if they cannot be used."""
    ref = snapshot.ref
    available = ref.properties.metadata_partitions
    if BLOOM_FILTERS not in available or not ref.config.get(METADATA_ENABLE):
        return None
    try:
        table = open_current_metadata_table(ref, snapshot.timeline)
    except (FormatError, StorageError, UnsupportedFeature) as error:
        log.warning("bloom_filters_not_used table=%s reason=%s", ref.uri, error)
        return None
    return StoredFilters(table, by_range and COLUMN_STATS in available)


def _load_blooms(table: MetadataTable, bases: Sequence[BaseFile]) -> dict[str, BloomFilter]:
    keys = bloom_filter_keys(**_names(bases))
    entries = find_entries(table, table.load_partition(BLOOM_FILTERS), keys)
    paths = dict(zip(keys.to_pylist(), (base.path for base in bases), strict=True))
    columns = ("key", "bloom_filter", "filter_type", "is_deleted")
    rows = zip(*(entries[name].to_pylist() for name in columns), strict=True)
    return {
        paths[key]: BloomFilter.decode(text, type_code)
        for key, text, type_code, is_deleted in rows
        if not is_deleted and text
    }


def _load_ranges(table: MetadataTable, bases: Sequence[BaseFile]) -> dict[str, KeyRange]:
    """Ranges of keys, where statistics of the column are kept."""
    column = pa.repeat(pa.scalar(RECORD_KEY, pa.string()), len(bases))
    keys = column_stats_keys(columns=column, **_names(bases))
    entries = find_entries(table, table.load_partition(COLUMN_STATS), keys)
    paths = dict(zip(keys.to_pylist(), (base.path for base in bases), strict=True))
    ranges = {}
    for key, one in zip(
        entries["key"].to_pylist(),
        to_ranges(entries, pa.string()) if len(entries) else (),
        strict=True,
    ):
        if one is not None and one.low is not None and one.high is not None:
            ranges[paths[key]] = KeyRange(one.low, one.high)
    return ranges


def _names(bases: Sequence[BaseFile]) -> Mapping[str, pa.Array]:
    return {
        "partitions": pa.array([base.partition for base in bases], pa.string()),
        "file_names": pa.array([str(base.name) for base in bases], pa.string()),
    }
