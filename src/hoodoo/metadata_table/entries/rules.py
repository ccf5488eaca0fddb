"""How the entries of each partition of a metadata table are decoded, merged and spread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from hoodoo.errors import InputError
from hoodoo.format.metadata_table.bloom_filters import BLOOM_FILTERS, decode_bloom_filters
from hoodoo.format.metadata_table.column_stats import COLUMN_STATS_SCHEMA, decode_column_stats
from hoodoo.format.metadata_table.files import FILE_LISTS, decode_file_lists
from hoodoo.format.metadata_table.record_index import LOCATIONS, decode_record_index
from hoodoo.format.metadata_table.secondary_index import SECONDARY_KEYS, decode_secondary_keys
from hoodoo.metadata_table.entries.merge import (
    EntryBatch,
    merge_column_stats,
    merge_file_lists,
    merge_newest,
)
from hoodoo.model import metadata_table as parts


class Decode(Protocol):
    """Keys and values, as HFiles have them, to a table of entries."""

    def __call__(
        self,
        keys: pa.Array | pa.ChunkedArray,
        values: pa.Array | pa.ChunkedArray,
        schema_json: str | None = None,
        /,
    ) -> pa.Table: ...


class MergeEntries(Protocol):
    """The entries of a base file and of log blocks, in order, to one entry per key."""

    def __call__(self, batches: Sequence[EntryBatch], /) -> pa.Table: ...


@dataclass(frozen=True, slots=True)
class EntryRule:
    """What is special about the entries of one partition."""

    schema: pa.Schema
    decode: Decode
    merge: MergeEntries


_STATS = EntryRule(COLUMN_STATS_SCHEMA, decode_column_stats, merge_column_stats)
_RULES = {
    parts.FILES: EntryRule(FILE_LISTS, decode_file_lists, merge_file_lists),
    parts.COLUMN_STATS: _STATS,
    parts.PARTITION_STATS: _STATS,
    parts.BLOOM_FILTERS: EntryRule(BLOOM_FILTERS, decode_bloom_filters, merge_newest),
    parts.RECORD_INDEX: EntryRule(LOCATIONS, decode_record_index, merge_newest),
}
_SECONDARY = EntryRule(SECONDARY_KEYS, decode_secondary_keys, merge_newest)


def rule_of(partition: str) -> EntryRule:
    """The rule of a partition; expression indexes have none yet."""
    if partition.startswith(parts.SECONDARY_INDEX_PREFIX):
        return _SECONDARY
    if partition not in _RULES:
        raise InputError(f"entries of {partition!r} in a metadata table are not read")
    return _RULES[partition]
