"""Indexes: how the file groups of record keys are found. One module per index."""

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
from hoodoo.index.bloom import BloomIndex
from hoodoo.index.bucket import BucketIndex
from hoodoo.index.global_simple import GlobalSimpleIndex
from hoodoo.index.index import Index
from hoodoo.index.record import RecordIndex
from hoodoo.index.simple import SimpleIndex
from hoodoo.table.ref import TableRef

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
