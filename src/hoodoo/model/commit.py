"""What completed instants say of themselves: commits, cleans, rollbacks, restores, savepoints.

Attributes are the format's own field names in snake case, in the format's order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from hoodoo.model.files import FileGroupId
from hoodoo.model.names import FileId
from hoodoo.model.paths import PartitionPath
from hoodoo.model.stats import WriteStat

FLOOR_KEY = "hoodoo.clean.floor"
"""The key of a clean's extra metadata that holds its floor, if it deleted nothing."""
SCHEMA_KEY = "schema"
"""The key of `extra_metadata` that holds the table's Avro schema, without meta fields."""


class OperationType(StrEnum):
    """What a write was asked to do; being text, it goes into `operation_type` as it is."""

    INSERT = "INSERT"
    INSERT_PREPPED = "INSERT_PREPPED"
    UPSERT = "UPSERT"
    UPSERT_PREPPED = "UPSERT_PREPPED"
    BULK_INSERT = "BULK_INSERT"
    BULK_INSERT_PREPPED = "BULK_INSERT_PREPPED"
    DELETE = "DELETE"
    DELETE_PREPPED = "DELETE_PREPPED"
    BOOTSTRAP = "BOOTSTRAP"
    INSERT_OVERWRITE = "INSERT_OVERWRITE"
    BUCKET_RESCALE = "BUCKET_RESCALE"
    CLUSTER = "CLUSTER"
    DELETE_PARTITION = "DELETE_PARTITION"
    INSERT_OVERWRITE_TABLE = "INSERT_OVERWRITE_TABLE"
    COMPACT = "COMPACT"
    INDEX = "INDEX"
    ALTER_SCHEMA = "ALTER_SCHEMA"
    LOG_COMPACT = "LOG_COMPACT"
    UNKNOWN = "UNKNOWN"

    @property
    def is_table_service(self) -> bool:
        """Whether it rewrites rows without changing them; such a commit's schema may be old."""
        return self in _TABLE_SERVICES


_TABLE_SERVICES = frozenset(
    {
        OperationType.CLUSTER,
        OperationType.COMPACT,
        OperationType.INDEX,
        OperationType.LOG_COMPACT,
    }
)
_OPERATIONS = {operation.value: operation for operation in OperationType}


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitMetadata:
    """A commit or delta commit: which files it wrote, and what else the writer noted.

    In an inflight instant the stats are the workload profile: no paths yet, and a stat for
    new file groups has no file id.
    """

    partition_to_write_stats: Mapping[PartitionPath, tuple[WriteStat, ...]] = field(
        default_factory=dict
    )
    compacted: bool | None = False
    extra_metadata: Mapping[str, str] = field(default_factory=dict)
    version: int | None = None
    operation_type: str | None = None

    @property
    def operation(self) -> OperationType:
        """The operation; `UNKNOWN` where none is named, or one that we do not know."""
        return _OPERATIONS.get(self.operation_type or "", OperationType.UNKNOWN)

    @property
    def schema_json(self) -> str | None:
        """The table's Avro schema as of this commit, if it holds one."""
        return self.extra_metadata.get(SCHEMA_KEY) or None

    def stats(self) -> Iterator[tuple[PartitionPath, WriteStat]]:
        """Every write stat with its partition."""
        for partition, stats in self.partition_to_write_stats.items():
            for stat in stats:
                yield partition, stat

    def written_files(self) -> tuple[str, ...]:
        """Paths of the data files written, relative to the table."""
        return tuple(stat.path for _, stat in self.stats() if stat.path)

    def file_groups(self) -> frozenset[FileGroupId]:
        """The file groups written to, or about to be; new ones of an inflight are unnamed."""
        return frozenset(
            FileGroupId(partition, stat.file_id) for partition, stat in self.stats() if stat.file_id
        )

    def replaced_file_groups(self) -> frozenset[FileGroupId]:
        """The file groups that are gone from the table once this commit is completed."""
        return frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceCommitMetadata(CommitMetadata):
    """A commit that also takes file groups out: clustering, overwrite, delete partition."""

    partition_to_replace_file_ids: Mapping[PartitionPath, tuple[FileId, ...]] = field(
        default_factory=dict
    )

    def replaced_file_groups(self) -> frozenset[FileGroupId]:
        """The file groups that are gone from the table once this commit is completed."""
        return frozenset(
            FileGroupId(partition, file_id)
            for partition, file_ids in self.partition_to_replace_file_ids.items()
            for file_id in file_ids
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanPartitionMetadata:
    """What a clean deleted in one partition; lists hold file names in version 2, paths in 1."""

    partition_path: PartitionPath
    policy: str
    delete_path_patterns: tuple[str, ...] = ()
    success_delete_files: tuple[str, ...] = ()
    failed_delete_files: tuple[str, ...] = ()
    is_partition_deleted: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanMetadata:
    """A completed clean."""

    start_clean_time: str
    time_taken_in_millis: int
    total_files_deleted: int
    earliest_commit_to_retain: str
    last_completed_commit_timestamp: str = ""
    partition_metadata: Mapping[PartitionPath, CleanPartitionMetadata] = field(default_factory=dict)
    version: int | None = 2
    bootstrap_partition_metadata: Mapping[PartitionPath, CleanPartitionMetadata] | None = None
    extra_metadata: Mapping[str, str] | None = None

    @property
    def floor(self) -> str:
        """The earliest commit whose files are all there; "" if nothing is missing.

        A clean that deletes nothing moves on all the same, and tells where the one before it was.
        """
        return (self.extra_metadata or {}).get(FLOOR_KEY, self.earliest_commit_to_retain)


@dataclass(frozen=True, slots=True, kw_only=True)
class InstantInfo:
    """Names an instant inside a rollback or restore."""

    commit_time: str
    action: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackPartitionMetadata:
    """What a rollback deleted in one partition."""

    partition_path: PartitionPath
    success_delete_files: tuple[str, ...] = ()
    failed_delete_files: tuple[str, ...] = ()
    rollback_log_files: Mapping[str, int] | None = None
    log_files_from_failed_commit: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackMetadata:
    """A completed rollback."""

    start_rollback_time: str
    time_taken_in_millis: int
    total_files_deleted: int
    commits_rollback: tuple[str, ...]
    partition_metadata: Mapping[PartitionPath, RollbackPartitionMetadata] = field(
        default_factory=dict
    )
    version: int | None = 1
    instants_rollback: tuple[InstantInfo, ...] = ()

    @classmethod
    def of(
        cls,
        rollback: str,
        target: InstantInfo,
        deleted: Mapping[PartitionPath, Sequence[str]],
        *,
        took_ms: int = 0,
    ) -> RollbackMetadata:
        """What a rollback of one instant says; `deleted` are whole paths of files."""
        return cls(
            start_rollback_time=rollback,
            time_taken_in_millis=took_ms,
            total_files_deleted=sum(map(len, deleted.values())),
            commits_rollback=(target.commit_time,),
            partition_metadata={
                partition: RollbackPartitionMetadata(
                    partition_path=partition,
                    success_delete_files=tuple(files),
                    rollback_log_files={},
                    log_files_from_failed_commit={},
                )
                for partition, files in deleted.items()
            },
            instants_rollback=(target,),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreMetadata:
    """A completed restore: the rollbacks that took the table back, by rolled back instant."""

    start_restore_time: str
    time_taken_in_millis: int
    instants_to_rollback: tuple[str, ...]
    rollbacks: Mapping[str, tuple[RollbackMetadata | None, ...]] = field(default_factory=dict)
    version: int | None = 1
    restore_instant_info: tuple[InstantInfo, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointPartitionMetadata:
    """The files of one partition that a savepoint protects."""

    partition_path: PartitionPath
    savepoint_data_file: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointMetadata:
    """A completed savepoint; `savepointed_at` is in milliseconds since 1970."""

    savepointed_by: str
    savepointed_at: int
    comments: str
    partition_metadata: Mapping[PartitionPath, SavepointPartitionMetadata] = field(
        default_factory=dict
    )
    version: int | None = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexPartitionInfo:
    """One index to build, or built: up to which instant."""

    version: int | None = 1
    metadata_partition_path: str | None = None
    index_upto_instant: str | None = None
    extra_metadata: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexCommitMetadata:
    """A completed index build."""

    version: int | None = 1
    operation_type: str | None = None
    index_partition_infos: tuple[IndexPartitionInfo, ...] = ()
