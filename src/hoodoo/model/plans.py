"""What pending instants intend: compaction, clustering, clean, rollback, restore, index plans.

Attributes are the format's own field names in snake case, in the format's order.

The terms of a plan say what may become of it if nobody executes it. They are kept in the extra
metadata of the plan, where other engines ignore them. A plan without them, as Apache Hudi writes
it, is persistent.

A layout is the order that a clustering gives to rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from hoodoo.errors import FormatError
from hoodoo.model.commit import IndexPartitionInfo, InstantInfo
from hoodoo.model.files import FileGroupId
from hoodoo.model.instant import InstantTime
from hoodoo.model.names import FileId
from hoodoo.model.paths import PartitionPath

# -- plans of each action --------------------------------------------------------------------------


class PlanPolicy(Enum):
    """What may become of a plan whose execution failed, or which nobody executes."""

    PERSISTENT = "persistent"
    """It stays until an execution completes."""
    REMOVABLE = "removable"
    """A clean may roll it back, and then it is never executed."""
    CANCELLABLE = "cancellable"
    """Anyone may ask for its end, even while it runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionOperation:
    """One file slice to compact; file names without their partition path."""

    base_instant_time: str | None
    delta_file_paths: tuple[str, ...] | None = None
    data_file_path: str | None = None
    file_id: FileId | None
    partition_path: PartitionPath | None = None
    metrics: Mapping[str, float] | None = None
    bootstrap_file_path: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionStrategy:
    """How a compaction was asked to choose and run its operations."""

    compactor_class_name: str | None = None
    strategy_params: Mapping[str, str] | None = None
    version: int | None = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPlan:
    """A requested compaction or log compaction."""

    operations: tuple[CompactionOperation, ...] = ()
    extra_metadata: Mapping[str, str] | None = None
    version: int | None = 2
    strategy: CompactionStrategy | None = None
    preserve_hoodie_metadata: bool | None = False
    missing_schedule_partitions: tuple[str, ...] | None = None

    def file_groups(self) -> frozenset[FileGroupId]:
        """The file groups that the plan rewrites."""
        return frozenset(
            FileGroupId(operation.partition_path or PartitionPath(""), operation.file_id)
            for operation in self.operations
            if operation.file_id
        )

    def file_names(self) -> Iterator[str]:
        """The files that the plan reads."""
        for operation in self.operations:
            yield from filter(None, (operation.data_file_path, *(operation.delta_file_paths or ())))


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceInfo:
    """One file slice that a clustering reads; file paths are whole, with the table's place."""

    data_file_path: str | None = None
    delta_file_paths: tuple[str, ...] | None = None
    file_id: FileId | None
    partition_path: PartitionPath | None = None
    bootstrap_file_path: str | None = None
    version: int | None = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusteringGroup:
    """Slices that are rewritten together."""

    slices: tuple[SliceInfo, ...] = ()
    metrics: Mapping[str, float] | None = None
    num_output_file_groups: int | None = 1
    extra_metadata: Mapping[str, str] | None = None
    version: int | None = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusteringStrategy:
    """How a clustering lays out its rows."""

    strategy_class_name: str | None = None
    strategy_params: Mapping[str, str] | None = None
    version: int | None = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusteringPlan:
    """Which file groups a clustering replaces, and how."""

    input_groups: tuple[ClusteringGroup, ...] = ()
    strategy: ClusteringStrategy | None = None
    extra_metadata: Mapping[str, str] | None = None
    version: int | None = 1
    preserve_hoodie_metadata: bool | None = None
    missing_schedule_partitions: tuple[str, ...] | None = None

    def file_groups(self) -> frozenset[FileGroupId]:
        """The file groups that the plan replaces."""
        return frozenset(
            FileGroupId(piece.partition_path or PartitionPath(""), piece.file_id)
            for group in self.input_groups
            for piece in group.slices
            if piece.file_id
        )

    def file_names(self) -> Iterator[str]:
        """The files that the plan reads."""
        for group in self.input_groups:
            for piece in group.slices:
                yield from filter(None, (piece.data_file_path, *(piece.delta_file_paths or ())))


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedReplaceMetadata:
    """A requested clustering with its plan; for an insert overwrite every field is null."""

    operation_type: str | None = None
    clustering_plan: ClusteringPlan | None = None
    extra_metadata: Mapping[str, str] | None = None
    version: int | None = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionInstant:
    """Names an instant in its state inside a cleaner plan."""

    requested_time: str
    action: str
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanFileInfo:
    """One file to delete, with its whole path."""

    file_path: str | None = None
    is_bootstrap_base_file: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerPlan:
    """A requested clean. `files_to_be_deleted_per_partition` is the old form of version 1."""

    earliest_instant_to_retain: ActionInstant | None = None
    last_completed_commit_timestamp: str = ""
    policy: str
    files_to_be_deleted_per_partition: Mapping[PartitionPath, tuple[str, ...]] | None = None
    version: int | None = 2
    file_paths_to_be_deleted_per_partition: (
        Mapping[PartitionPath, tuple[CleanFileInfo, ...]] | None
    ) = None
    partitions_to_be_deleted: tuple[str, ...] | None = None
    extra_metadata: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackRequest:
    """Files of one file group to delete, with their whole paths."""

    partition_path: PartitionPath
    file_id: FileId | None = None
    latest_base_instant: str | None = None
    files_to_be_deleted: tuple[str, ...] = ()
    log_blocks_to_be_deleted: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackPlan:
    """A requested rollback."""

    instant_to_rollback: InstantInfo | None = None
    rollback_requests: tuple[RollbackRequest, ...] = ()
    version: int | None = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RestorePlan:
    """A requested restore: the instants to roll back, newest first."""

    instants_to_rollback: tuple[InstantInfo, ...] = ()
    version: int | None = 2
    savepoint_to_restore_timestamp: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexPlan:
    """A requested index build."""

    version: int | None = 1
    index_partition_infos: tuple[IndexPartitionInfo, ...] = ()


# -- terms of a plan -------------------------------------------------------------------------------


POLICY = "hoodoo.plan.policy"
PLANNED_ON = "hoodoo.plan.base.instant"
CANCEL_HOURS = "hoodoo.plan.cancel.hours"
CANCEL_INSTANTS = "hoodoo.plan.cancel.instants"

DEFAULT_HOURS = 24.0
DEFAULT_INSTANTS = 100

ServicePlan = CompactionPlan | RequestedReplaceMetadata | CleanerPlan | IndexPlan


@dataclass(frozen=True, slots=True)
class PlanTerms:
    """What may become of a plan. The two limits are those of a cancellable one: either is enough.

    `planned_on` is the last completed instant that was known when it was planned.
    """

    policy: PlanPolicy = PlanPolicy.PERSISTENT
    planned_on: InstantTime | None = None
    cancel_hours: float | None = None
    cancel_instants: int | None = None

    @property
    def is_cancellable(self) -> bool:
        return self.policy is PlanPolicy.CANCELLABLE

    @property
    def is_persistent(self) -> bool:
        return self.policy is PlanPolicy.PERSISTENT

    def encode(self) -> dict[str, str]:
        """As a plan's extra metadata holds it."""
        limits = {CANCEL_HOURS: self.cancel_hours, CANCEL_INSTANTS: self.cancel_instants}
        return {
            POLICY: self.policy.value,
            **({PLANNED_ON: self.planned_on} if self.planned_on else {}),
            **{key: f"{limit:g}" for key, limit in limits.items() if limit is not None},
        }

    def is_overdue(self, *, age_hours: float, writes_since: int) -> bool:
        """Whether a cancellable plan was pending for longer than its terms allow."""
        if not self.is_cancellable:
            return False
        hours, instants = self.cancel_hours, self.cancel_instants
        if hours is None and instants is None:
            hours, instants = DEFAULT_HOURS, DEFAULT_INSTANTS
        return (hours is not None and age_hours >= hours) or (
            instants is not None and writes_since >= instants
        )


def read_terms(plan: object) -> PlanTerms:
    """The terms of a plan, whoever wrote it."""
    return decode_terms(_extra_metadata(plan))


def decode_terms(extra: Mapping[str, str]) -> PlanTerms:
    """The terms in a plan's extra metadata."""
    try:
        return PlanTerms(
            policy=PlanPolicy(extra.get(POLICY, PlanPolicy.PERSISTENT.value)),
            planned_on=InstantTime(extra[PLANNED_ON]) if PLANNED_ON in extra else None,
            cancel_hours=float(extra[CANCEL_HOURS]) if CANCEL_HOURS in extra else None,
            cancel_instants=int(extra[CANCEL_INSTANTS]) if CANCEL_INSTANTS in extra else None,
        )
    except ValueError as error:
        raise FormatError(f"the terms of the plan are damaged: {error}") from error


def _extra_metadata(plan: object) -> Mapping[str, str]:
    match plan:
        case CompactionPlan(extra_metadata=extra):
            return extra or {}
        case RequestedReplaceMetadata(clustering_plan=clustering) if clustering is not None:
            return clustering.extra_metadata or {}
        case _:
            return {}


# -- the order of rows -----------------------------------------------------------------------------


class Layout(Enum):
    """How several columns make one order."""

    LINEAR = "linear"
    """By the first column, rows that are equal in it by the next, and so on."""
    ZORDER = "zorder"
    """Along a z-order curve: every column counts alike."""
    HILBERT = "hilbert"
    """Along a Hilbert curve: as z-order, without its jumps."""


@dataclass(frozen=True, slots=True)
class RowOrder:
    """The columns that rows are ordered by, none if they stay as they come, and how."""

    columns: tuple[str, ...] = ()
    layout: Layout = Layout.LINEAR

    def __str__(self) -> str:
        return f"{self.layout.value} {','.join(self.columns)}"
