"""Keys of indexes: how the file group of a record key is found."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from hoodoo.config.key import Config, HudiOnlyValue, Key, boolean, integer, names, one_of
from hoodoo.errors import ConfigError
from hoodoo.model.keys import MOST_BUCKETS, BucketRule


class IndexType(Enum):
    """How the file groups that hold incoming keys are found."""

    SIMPLE = "SIMPLE"
    GLOBAL_SIMPLE = "GLOBAL_SIMPLE"
    BLOOM = "BLOOM"
    BUCKET = "BUCKET"
    RECORD = "RECORD_INDEX"


class BucketEngine(Enum):
    """How buckets are laid out."""

    SIMPLE = "SIMPLE"


_index_type = one_of(
    IndexType,
    "GLOBAL_BLOOM",
    "INMEMORY",
    "FLINK_STATE",
    "HBASE",
    GLOBAL_RECORD_LEVEL_INDEX=IndexType.RECORD,
)


def _known_index(value: str) -> IndexType:
    """An index that there is; Apache Hudi has more."""
    if value.upper() == "RECORD_LEVEL_INDEX":
        raise HudiOnlyValue(
            "hoodoo has no record index by partition; RECORD_INDEX is the one of the whole table"
        )
    return _index_type(value)


def _bucket_engine(value: str) -> BucketEngine:
    if value.upper() == "CONSISTENT_HASHING":
        raise HudiOnlyValue("hoodoo has buckets of a fixed number only: SIMPLE")
    return one_of(BucketEngine)(value)


INDEX_TYPE = Key(
    "hoodie.index.type",
    _known_index,
    IndexType.SIMPLE,
    "SIMPLE, GLOBAL_SIMPLE, BLOOM, BUCKET or RECORD_INDEX (also GLOBAL_RECORD_LEVEL_INDEX); BUCKET "
    "belongs to the table from its first write on.",
)
UPDATE_PARTITION_PATH = Key(
    "hoodie.simple.index.update.partition.path",
    boolean,
    True,
    "GLOBAL_SIMPLE: a row whose key lives in another partition moves; false: it stays there.",
)
RECORD_UPDATE_PARTITION_PATH = Key(
    "hoodie.record.index.update.partition.path",
    boolean,
    False,
    "RECORD_INDEX: a row whose key lives in another partition moves; false: it stays there.",
)
PRUNE_BY_RANGES = Key(
    "hoodie.bloom.index.prune.by.ranges",
    boolean,
    True,
    "BLOOM: leave files out whose footer says that all their keys are smaller or larger.",
)
BLOOM_BY_METADATA = Key(
    "hoodie.bloom.index.use.metadata",
    boolean,
    True,
    "BLOOM: take bloom filters and ranges of keys from the metadata table, if it has them, and "
    "open no footers. Apache Hudi's default is false; but a table has filters there only if "
    "somebody asked for them.",
)
NUM_BUCKETS = Key(
    "hoodie.bucket.index.num.buckets",
    integer(1, MOST_BUCKETS),
    256,
    "BUCKET: file groups of a partition; cannot be changed once there are any.",
)
HASH_FIELDS: Key[tuple[str, ...]] = Key(
    "hoodie.bucket.index.hash.field",
    names,
    (),
    "BUCKET: the fields of the record key that are hashed; all of them if not set.",
)
BUCKET_ENGINE = Key(
    "hoodie.index.bucket.engine",
    _bucket_engine,
    BucketEngine.SIMPLE,
    "BUCKET: SIMPLE, a fixed number of buckets; CONSISTENT_HASHING is refused.",
)


def bucket_rule(config: Config, record_fields: tuple[str, ...]) -> BucketRule:
    """The buckets of a table with this record key."""
    fields = config.get(HASH_FIELDS) or record_fields
    if not set(fields) <= set(record_fields):
        raise ConfigError(
            key=HASH_FIELDS.name,
            value=",".join(fields),
            reason=f"expected fields of the record key, {','.join(record_fields)}",
        )
    return BucketRule(config.get(NUM_BUCKETS), fields)


def bucket_rule_of_table(
    properties: Mapping[str, str], record_fields: tuple[str, ...]
) -> BucketRule | None:
    """The buckets that `hoodie.properties` tells; None if it tells of none."""
    own = Config(properties)
    if own.values.get(INDEX_TYPE.name, "").upper() != IndexType.BUCKET.value:
        return None
    return bucket_rule(own, record_fields)
