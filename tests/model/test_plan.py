"""What plans answer."""

from __future__ import annotations

import pickle

from hoodoo.model.files import FileGroupId
from hoodoo.model.names import FileId
from hoodoo.model.paths import PartitionPath
from hoodoo.model.plans import (
    ClusteringGroup,
    ClusteringPlan,
    CompactionOperation,
    CompactionPlan,
    PlanPolicy,
    RequestedReplaceMetadata,
    SliceInfo,
)

ROME = PartitionPath("city=rome")
A, B = FileId("a-0"), FileId("b-0")


def operation(file_id: FileId | None, partition: PartitionPath | None) -> CompactionOperation:
    return CompactionOperation(base_instant_time="1", file_id=file_id, partition_path=partition)


def test_file_groups_of_a_compaction() -> None:
    plan = CompactionPlan(
        operations=(operation(A, ROME), operation(B, None), operation(None, ROME))
    )
    assert plan.file_groups() == {FileGroupId(ROME, A), FileGroupId(PartitionPath(""), B)}
    assert plan.version == 2


def test_file_groups_of_a_clustering() -> None:
    plan = ClusteringPlan(
        input_groups=(
            ClusteringGroup(slices=(SliceInfo(file_id=A, partition_path=ROME),)),
            ClusteringGroup(slices=(SliceInfo(file_id=B), SliceInfo(file_id=None))),
        )
    )
    assert plan.file_groups() == {FileGroupId(ROME, A), FileGroupId(PartitionPath(""), B)}
    requested = RequestedReplaceMetadata(operation_type="CLUSTER", clustering_plan=plan)
    assert pickle.loads(pickle.dumps(requested)) == requested


def test_policies() -> None:
    assert {policy.value for policy in PlanPolicy} == {"persistent", "removable", "cancellable"}
