"""Indexes: which file group a record key belongs to, and which file group new rows go to.

Read in this order:
    `index`         the protocol `Index`: search files, look keys up, or compute labels
    `destinations`  where rows go: destinations, `FileGroupWrite`, routes
    `simple`        reads the keys of files; per partition or global
    `bloom`         the same, with bloom filters that rule files out
    `bucket`        the hash of a key tells its bucket; nothing is read
    `record`        looks keys up in the record index of the metadata table
    `matches`       rules that choose among several places of a key
    `assign`        how many rows each file group gets: small files first, then new groups
    `slice_keys`    the keys of one file slice
    `key_filters`   bloom filters and key ranges from the metadata table
    `bucket_hash`   bucket numbers of whole columns, as Apache Hudi computes them

`index_of`, below, picks the index by the settings. The file group of a known key is decided by
`Index.choose` (or by `Index.labels` for buckets), that of new rows by `Index.assign`.

In: record keys and the file slices of a snapshot. Out: destinations and file groups to write.
Not here: carrying keys to files (write/planning/locate in this process, spark/write on Spark), the
indexes inside the metadata table (metadata_table/indexes). An index only decides; it writes no
file.
"""

from __future__ import annotations

from hoodoo.config.index import (
    BLOOM_BY_METADATA,
    INDEX_TYPE,
    PRUNE_BY_RANGES,
    RECORD_UPDATE_PARTITION_PATH,
    UPDATE_PARTITION_PATH,
    IndexType,
    bucket_rule,
)
from hoodoo.table.ref import TableRef
from hoodoo.write.index.bloom import BloomIndex
from hoodoo.write.index.bucket import BucketIndex
from hoodoo.write.index.index import Index
from hoodoo.write.index.record import RecordIndex
from hoodoo.write.index.simple import GlobalSimpleIndex, SimpleIndex

__all__ = ["Index", "index_of"]


def index_of(ref: TableRef) -> Index:
    """The index that the settings of a table name."""
    config, properties = ref.config, ref.properties
    match config.get(INDEX_TYPE):
        case IndexType.SIMPLE:
            return SimpleIndex()
        case IndexType.BLOOM:
            return BloomIndex(
                by_range=config.get(PRUNE_BY_RANGES), by_metadata=config.get(BLOOM_BY_METADATA)
            )
        case IndexType.GLOBAL_SIMPLE:
            moves = config.get(UPDATE_PARTITION_PATH)
            return GlobalSimpleIndex(moves=moves, by_event_time=properties.merge.by_event_time)
        case IndexType.BUCKET:
            return BucketIndex(bucket_rule(config, properties.keys.record_fields))
        case IndexType.RECORD:
            moves = config.get(RECORD_UPDATE_PARTITION_PATH)
            return RecordIndex(moves=moves, by_event_time=properties.merge.by_event_time)
