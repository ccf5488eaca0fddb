"""Write stats travel between processes, so they pickle, compare and stay as they are."""

from __future__ import annotations

import dataclasses
import pickle

import pytest

from hoodoo.model.commit import NO_COMMIT, ColumnRange, RuntimeStats, WriteStat
from hoodoo.model.names import FileId
from hoodoo.model.paths import PartitionPath

BASE = WriteStat(
    file_id=FileId("f-0"),
    path="city=rome/f-0_0-1-2_20260102030405006.parquet",
    partition_path=PartitionPath("city=rome"),
    num_writes=3,
    runtime_stats=RuntimeStats(total_create_time=5),
)
LOG = WriteStat(
    file_id=FileId("f-0"), path=".f-0_20260102030405006.log.1_0-1-2", log_version=1, log_offset=0
)


def test_there_are_31_fields() -> None:
    assert len(dataclasses.fields(WriteStat)) == 31


def test_counters_start_at_zero_and_a_new_group_has_no_earlier_commit() -> None:
    stat = WriteStat()
    assert stat.prev_commit == NO_COMMIT == "null"
    assert stat.num_writes == stat.num_inserts == stat.total_write_bytes == stat.num_updates == 0
    assert stat.total_log_files is None  # the one counter that Apache Hudi leaves null


def test_kind_and_name_of_the_file() -> None:
    assert not BASE.is_log
    assert BASE.file_name == "f-0_0-1-2_20260102030405006.parquet"
    assert LOG.is_log
    assert LOG.file_name == LOG.path
    assert WriteStat().file_name is None


def test_stats_are_frozen_and_pickle() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        BASE.num_writes = 4
    assert pickle.loads(pickle.dumps((BASE, LOG))) == (BASE, LOG)
    assert dataclasses.replace(BASE, num_writes=4) != BASE


def test_column_range() -> None:
    unknown = ColumnRange(column="c", min_value=None, max_value=None, null_count=2, value_count=2)
    assert pickle.loads(pickle.dumps(unknown)) == unknown
    assert (unknown.size_bytes, unknown.uncompressed_bytes) == (0, 0)
