"""Keys of the metadata table: whether reads use it, and how writes keep it."""

from __future__ import annotations

from hoodoo.config.key import Key, boolean, integer, names

METADATA_ENABLE = Key(
    "hoodie.metadata.enable",
    boolean,
    True,
    "A new table gets a metadata table, and reads take the listing of files from the one that a "
    "table has. Writes keep it, whatever this says.",
)
DATA_SKIPPING = Key(
    "hoodie.enable.data.skipping",
    boolean,
    True,
    "Filtered reads leave out files that cannot match, by the statistics of columns in the "
    "metadata table.",
)
INDEX_COLUMN_STATS = Key(
    "hoodie.metadata.index.column.stats.enable",
    boolean,
    True,
    "A table that is created with a metadata table gets statistics of columns in it: of files, "
    "and of partitions if it has some.",
)
INDEX_BLOOM_FILTERS = Key(
    "hoodie.metadata.index.bloom.filter.enable",
    boolean,
    False,
    "A table that is created with a metadata table gets the bloom filters of its files in it.",
)
COLUMN_LIST: Key[tuple[str, ...]] = Key(
    "hoodie.metadata.index.column.stats.column.list",
    names,
    (),
    "Columns to get statistics when they are built; the first ones unless told.",
)
MAX_COLUMNS = Key(
    "hoodie.metadata.index.column.stats.max.columns.to.index",
    integer(1),
    32,
    "How many columns get statistics, if none are named.",
)
COMPACT_COMMITS = Key(
    "hoodie.metadata.compact.max.delta.commits",
    integer(1),
    10,
    "The metadata table is compacted after so many of its delta commits.",
)
INDEX_ASYNC = Key(
    "hoodie.metadata.index.async",
    boolean,
    False,
    "Indexes that the options of a writer ask for, and the table has not, are only planned; "
    "`hoodoo index run` or `hoodoo upkeep` builds them. Else the writer builds them first. Other "
    "writers go on meanwhile in both cases.",
)
CATCH_UP_TIMEOUT_S = Key(
    "hoodie.metadata.index.check.timeout.seconds",
    integer(0),
    900,
    "How long the build of an index waits for writes of other engines that began before it was "
    "planned. Then it stops, and running it again goes on.",
)
INDEX_RECORDS = Key(
    "hoodie.metadata.global.record.level.index.enable",
    boolean,
    False,
    "A table that is created with a metadata table gets a record index in it: where each key is.",
    aliases=("hoodie.metadata.record.index.enable",),
)
RECORD_INDEX_MIN_GROUPS = Key(
    "hoodie.metadata.global.record.level.index.min.filegroup.count",
    integer(1),
    10,
    "The file groups of a record index when it is built, at least; their number never changes.",
    aliases=("hoodie.metadata.record.index.min.filegroup.count",),
)
RECORD_INDEX_MAX_GROUPS = Key(
    "hoodie.metadata.global.record.level.index.max.filegroup.count",
    integer(1),
    10_000,
    "The file groups of a record index when it is built, at most.",
    aliases=("hoodie.metadata.record.index.max.filegroup.count",),
)
