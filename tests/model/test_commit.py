"""What commit metadata answers."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from hoodoo.model.commit import CommitMetadata, OperationType, ReplaceCommitMetadata, WriteStat
from hoodoo.model.files import FileGroupId
from hoodoo.model.names import FileId
from hoodoo.model.paths import PartitionPath

ROME, OSLO = PartitionPath("city=rome"), PartitionPath("city=oslo")
A, B = FileId("a-0"), FileId("b-0")

COMMIT = CommitMetadata(
    partition_to_write_stats={
        ROME: (
            WriteStat(file_id=A, path="city=rome/a-0_0-0-0_1.parquet", num_writes=1),
            WriteStat(file_id=A, path="city=rome/.a-0_1.log.1_0-0-0", log_files=("x", "y")),
        ),
        OSLO: (WriteStat(file_id=B, path="city=oslo/b-0_0-0-0_1.parquet"),),
    },
    extra_metadata={"schema": '{"type":"record"}', "checkpoint": "7"},
    operation_type=OperationType.UPSERT,
)


def test_written_files_are_those_with_a_path_in_order() -> None:
    assert COMMIT.written_files() == (
        "city=rome/a-0_0-0-0_1.parquet",
        "city=rome/.a-0_1.log.1_0-0-0",
        "city=oslo/b-0_0-0-0_1.parquet",
    )


def test_file_groups_are_counted_once_and_by_partition() -> None:
    assert COMMIT.file_groups() == {FileGroupId(ROME, A), FileGroupId(OSLO, B)}
    assert COMMIT.replaced_file_groups() == frozenset()


def test_stats_come_with_their_partition() -> None:
    assert [(partition, stat.file_id) for partition, stat in COMMIT.stats()] == [
        (ROME, A),
        (ROME, A),
        (OSLO, B),
    ]


def test_a_forecast_has_neither_paths_nor_the_ids_of_new_groups() -> None:
    forecast = CommitMetadata(
        partition_to_write_stats={
            ROME: (WriteStat(file_id=FileId(""), num_inserts=3), WriteStat(file_id=A))
        }
    )
    assert forecast.written_files() == ()
    assert forecast.file_groups() == {FileGroupId(ROME, A)}


def test_schema_comes_from_extra_metadata() -> None:
    assert COMMIT.schema_json == '{"type":"record"}'
    assert replace(COMMIT, extra_metadata={"schema": ""}).schema_json is None
    assert CommitMetadata().schema_json is None


@pytest.mark.parametrize(
    ("text", "operation"),
    [
        ("UPSERT", OperationType.UPSERT),
        ("INSERT_OVERWRITE_TABLE", OperationType.INSERT_OVERWRITE_TABLE),
        (None, OperationType.UNKNOWN),
        ("", OperationType.UNKNOWN),
        ("upsert", OperationType.UNKNOWN),
        ("TELEPORT", OperationType.UNKNOWN),
    ],
)
def test_operation_is_parsed_from_its_text(text: str | None, operation: OperationType) -> None:
    assert CommitMetadata(operation_type=text).operation is operation


def test_operation_names_are_those_of_the_format() -> None:
    assert len(OperationType) == 19
    assert all(operation == operation.name for operation in OperationType)
    services = {operation for operation in OperationType if operation.is_table_service}
    assert services == {"CLUSTER", "COMPACT", "INDEX", "LOG_COMPACT"}


def test_a_replace_commit_is_a_commit_that_also_takes_out() -> None:
    overwrite = ReplaceCommitMetadata(
        partition_to_write_stats=COMMIT.partition_to_write_stats,
        partition_to_replace_file_ids={ROME: (A, B), OSLO: ()},
    )
    assert isinstance(overwrite, CommitMetadata)
    assert overwrite.replaced_file_groups() == {FileGroupId(ROME, A), FileGroupId(ROME, B)}
    assert overwrite.written_files() == COMMIT.written_files()
    assert pickle.loads(pickle.dumps(overwrite)) == overwrite
    assert overwrite != CommitMetadata(partition_to_write_stats=COMMIT.partition_to_write_stats)
