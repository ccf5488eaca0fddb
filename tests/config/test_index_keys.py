"""Settings of indexes: what there is, what there is not, and buckets that fit the record key."""

from __future__ import annotations

import pytest

from hoodoo.config import index, write
from hoodoo.config.check import check_options, refuse_unsupported
from hoodoo.config.key import Config
from hoodoo.errors import ConfigError
from hoodoo.model.keys import BucketRule

ELSEWHERE = ["GLOBAL_BLOOM", "INMEMORY", "FLINK_STATE", "HBASE"]
BY_PARTITION = "record_level_index"


def refused(key: str, value: str) -> str:
    with pytest.raises(ConfigError) as caught:
        refuse_unsupported(Config({key: value}))
    assert (caught.value.key, caught.value.value) == (key, value)
    return str(caught.value)


def test_defaults_are_those_of_apache_hudi() -> None:
    config = Config()
    assert config.get(index.INDEX_TYPE) is index.IndexType.SIMPLE
    assert config.get(index.NUM_BUCKETS) == 256
    assert config.get(index.BUCKET_ENGINE) is index.BucketEngine.SIMPLE
    assert config.get(index.UPDATE_PARTITION_PATH) is True
    assert config.get(index.RECORD_UPDATE_PARTITION_PATH) is False
    assert config.get(index.PRUNE_BY_RANGES) is True
    assert config.get(write.SORT_MODE) is write.SortMode.NONE
    assert config.get(write.BULK_INSERT_PARALLELISM) == 0
    assert config.get(write.FAIL_ON_FINALIZE_MARKER) is True


@pytest.mark.parametrize("kind", list(index.IndexType))
def test_indexes_that_there_are(kind: index.IndexType) -> None:
    assert Config({"hoodie.index.type": kind.value.lower()}).get(index.INDEX_TYPE) is kind


def test_the_record_index_of_the_whole_table_has_two_names() -> None:
    config = Config({"hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX"})
    assert config.get(index.INDEX_TYPE) is index.IndexType.RECORD


@pytest.mark.parametrize("kind", [*ELSEWHERE, BY_PARTITION])
def test_indexes_that_there_are_not(kind: str) -> None:
    told = refused("hoodie.index.type", kind)
    expected = "RECORD_INDEX" if kind == BY_PARTITION else "SIMPLE, GLOBAL_SIMPLE, BLOOM, BUCKET"
    assert expected in told
    check_options(Config({"hoodie.index.type": kind}))  # a read does not mind


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("hoodie.index.bucket.engine", "CONSISTENT_HASHING", "fixed number"),
        ("hoodie.index.bucket.engine", "other", "expected one of SIMPLE"),
        ("hoodie.bucket.index.num.buckets", "0", "from 1 to 99999999"),
        ("hoodie.bucket.index.num.buckets", "100000000", "from 1 to 99999999"),
        ("hoodie.bulkinsert.sort.mode", "PARTITION_PATH_REPARTITION", "GLOBAL_SORT"),
        ("hoodie.bulkinsert.shuffle.parallelism", "-1", "from 0"),
        ("hoodie.write.fail.on.finalize.marker", "maybe", "true or false"),
    ],
)
def test_bad_values(key: str, value: str, told: str) -> None:
    assert told in refused(key, value)


def test_buckets_by_the_whole_record_key_or_a_part_of_it() -> None:
    given = {"hoodie.bucket.index.num.buckets": "8"}
    assert index.bucket_rule(Config(given), ("a", "b")) == BucketRule(8, ("a", "b"))
    given["hoodie.bucket.index.hash.field"] = "b"
    assert index.bucket_rule(Config(given), ("a", "b")) == BucketRule(8, ("b",))
    with pytest.raises(ConfigError, match="fields of the record key, a,c"):
        index.bucket_rule(Config(given), ("a", "c"))
