"""Plans: what those of Apache Hudi say, and the page's example."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeVar

from support.format_samples import RECORDS
from support.hudi_files import PAGES, example, example_bytes, timeline_files

from hoodoo.format.avro import container
from hoodoo.format.timeline import records
from hoodoo.format.timeline.instant_files import KINDS, decode, decode_as
from hoodoo.format.timeline.records import from_record
from hoodoo.model.files import FileGroupId
from hoodoo.model.instant import Action, State
from hoodoo.model.names import FileId, parse_base_file, parse_log_file
from hoodoo.model.paths import PartitionPath
from hoodoo.model.plans import (
    CleanerPlan,
    CompactionPlan,
    IndexPlan,
    RequestedReplaceMetadata,
    RestorePlan,
    RollbackPlan,
)

T = TypeVar("T")


def plans(fixtures: Path, action: Action, kind: type[T]) -> list[T]:
    found = []
    for _, instant, data in timeline_files(fixtures):
        if (instant.action, instant.state) == (action, State.REQUESTED):
            plan = decode(data, action, State.REQUESTED)
            assert isinstance(plan, kind)
            found.append(plan)
    return found


def sample(action: Action, kind: type[Any]) -> Any:
    data = container.write_body(
        records.schema_json(kind.__name__), RECORDS[action, State.REQUESTED]
    )
    return decode_as(data, kind)


def test_compaction(fixtures: Path) -> None:
    found = plans(fixtures, Action.COMPACTION, CompactionPlan)
    operations = [operation for plan in found for operation in plan.operations]
    assert len(operations) == 62
    for operation in operations:
        assert operation.delta_file_paths
        for name in operation.delta_file_paths:
            log = parse_log_file(name)
            assert log is not None
            assert log.file_id == operation.file_id
        if operation.data_file_path is not None:
            base = parse_base_file(operation.data_file_path)
            assert base is not None
            assert base.requested_time == operation.base_instant_time
    assert all(len(plan.file_groups()) == len(plan.operations) for plan in found)
    assert {plan.version for plan in found} == {2}


def test_clustering(fixtures: Path) -> None:
    found = plans(fixtures, Action.CLUSTERING, RequestedReplaceMetadata)
    assert {plan.operation_type for plan in found} == {"CLUSTER"}
    for plan in found:
        assert plan.clustering_plan is not None
        slices = [piece for group in plan.clustering_plan.input_groups for piece in group.slices]
        assert {(piece.partition_path, piece.file_id) for piece in slices} == {
            (group.partition, group.file_id) for group in plan.clustering_plan.file_groups()
        }
        for piece in slices:
            assert piece.data_file_path is not None
            folder, _, name = piece.data_file_path.rpartition("/")
            assert folder.startswith("file:/")
            base = parse_base_file(name)
            assert base is not None
            assert base.file_id == piece.file_id


def test_overwrite_has_a_plan_of_nulls(fixtures: Path) -> None:
    found = plans(fixtures, Action.REPLACE_COMMIT, RequestedReplaceMetadata)
    assert found == [RequestedReplaceMetadata(version=None)] * 8


def test_delete_partition_names_the_operation() -> None:
    plan = sample(Action.REPLACE_COMMIT, RequestedReplaceMetadata)
    assert plan == RequestedReplaceMetadata(operation_type="DELETE_PARTITION", extra_metadata={})


def test_rollback(fixtures: Path) -> None:
    found = plans(fixtures, Action.ROLLBACK, RollbackPlan)
    assert len(found) == 3
    for plan in found:
        assert plan.instant_to_rollback is not None
        assert plan.instant_to_rollback.action == "deltacommit"
        assert plan.rollback_requests
    deleted = [
        file for plan in found for r in plan.rollback_requests for file in r.files_to_be_deleted
    ]
    assert deleted
    assert all("/" in file for file in deleted)


def test_indexing(fixtures: Path) -> None:
    found = plans(fixtures, Action.INDEXING, IndexPlan)
    names = {info.metadata_partition_path for plan in found for info in plan.index_partition_infos}
    assert names == {"secondary_index_merchant_idx", "secondary_index_txn_date_idx"}


def test_clean() -> None:
    plan = sample(Action.CLEAN, CleanerPlan)
    assert plan.earliest_instant_to_retain.state == "COMPLETED"
    assert plan.earliest_instant_to_retain.requested_time == plan.last_completed_commit_timestamp
    assert plan.files_to_be_deleted_per_partition == {}
    assert list(plan.file_paths_to_be_deleted_per_partition) == ["p=y", "p=x"]
    (info,) = plan.file_paths_to_be_deleted_per_partition["p=x"]
    assert info.file_path.startswith("file:/t/cow_archived/p=x/")
    assert info.is_bootstrap_base_file is False


def test_restore() -> None:
    plan = sample(Action.RESTORE, RestorePlan)
    times = [info.commit_time for info in plan.instants_to_rollback]
    assert times == sorted(times, reverse=True)
    assert plan.savepoint_to_restore_timestamp < min(times)


def test_log_compaction() -> None:
    plan = sample(Action.LOG_COMPACTION, CompactionPlan)
    assert plan.preserve_hoodie_metadata is True
    assert plan.strategy.strategy_params == {}
    assert plan.file_groups() == {
        FileGroupId(PartitionPath("p=x"), FileId("2c8a9491-4fef-406b-97ae-201490d58316-0"))
    }


def test_the_example_of_the_page() -> None:
    data = container.write_body(records.schema_json("CompactionPlan"), example_bytes("plans.md"))
    plan = decode_as(data, CompactionPlan)
    assert plan == from_record(CompactionPlan, json.loads(example("plans.md", "json")))
    assert plan.file_groups() == {FileGroupId(PartitionPath("city=rome"), FileId("b2-0"))}


def test_the_fields_on_the_page() -> None:
    """Each record's row names its fields, all of them, in order."""
    rows = {}
    for line in (PAGES / "plans.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if len(cells) == 2 and cells[0] in {*map(_name, KINDS.values()), *_NESTED}:
            rows[cells[0]] = [field.split()[0] for field in cells[1].split(", ")]
    assert len(rows) == 11
    for record, fields in rows.items():
        assert fields == [name for name, _ in records.attributes(record)], record


_NESTED = (
    "CompactionOperation",
    "ClusteringPlan",
    "ClusteringGroup",
    "SliceInfo",
    "RollbackRequest",
)


def _name(kind: type[Any] | None) -> str:
    return kind.__name__ if kind else ""
