"""The partitions of a metadata table, and the names and number of their file groups."""

from __future__ import annotations

import math
import re

from hoodoo.errors import InputError
from hoodoo.model.names import FileId
from hoodoo.model.paths import METADATA_TABLE

FILES = "files"
COLUMN_STATS = "column_stats"
PARTITION_STATS = "partition_stats"
BLOOM_FILTERS = "bloom_filters"
RECORD_INDEX = "record_index"
SECONDARY_INDEX_PREFIX = "secondary_index_"
EXPRESSION_INDEX_PREFIX = "expr_index_"

_PREFIXES = {
    FILES: "files",
    COLUMN_STATS: "col-stats",
    PARTITION_STATS: "partition-stats",
    BLOOM_FILTERS: "bloom-filters",
    RECORD_INDEX: "record-index",
}
_NUMBER = re.compile(r"-(\d+)-0\Z", re.ASCII)

FILE_GROUPS = {FILES: 1, COLUMN_STATS: 2, PARTITION_STATS: 1, BLOOM_FILTERS: 4}
"""How many file groups a partition gets by default; those of the record index are estimated."""

WRITABLE_PARTITIONS = frozenset({*FILE_GROUPS, RECORD_INDEX})
"""The partitions that hoodoo writes."""

SOLO_TIME = "00000000000000"
"""How the instants begin that fill a new partition: before all that a clock can show."""

_INDEX_RECORD_BYTES = 48
_GROWTH = 2.0
_GROUP_BYTES = 1 << 30


def is_metadata_partition(partition: str) -> bool:
    """Whether a metadata table can have a partition of this name."""
    prefixes = (SECONDARY_INDEX_PREFIX, EXPRESSION_INDEX_PREFIX)
    return partition in _PREFIXES or partition.startswith(prefixes)


def file_group_id(partition: str, number: int) -> FileId:
    """The id of a file group of a partition, counted from 0."""
    if not is_metadata_partition(partition):
        raise InputError(f"{partition!r} is not a partition of a metadata table")
    prefix = _PREFIXES.get(partition) or partition.replace("_", "-")
    return FileId(f"{prefix}-{number:04d}-0")


def file_group_number(file_id: str) -> int | None:
    """The number in a file group's id; None if it has none."""
    match = _NUMBER.search(file_id)
    return int(match[1]) if match else None


def estimate_file_groups(records: int, *, at_least: int = 10, at_most: int = 10_000) -> int:
    """How many file groups to make for an index of so many records: it is never changed."""
    per_group = _GROUP_BYTES // _INDEX_RECORD_BYTES
    estimate = math.ceil(records * _GROWTH) // per_group
    return max(at_least, min(estimate, at_most))


INDEX_DEFINITIONS = ".hoodie/.index_defs/index.json"
DEFINITIONS_PATH_KEY = "hoodie.table.index.defs.path"


PROPERTIES = f"{METADATA_TABLE}/.hoodie/hoodie.properties"
