"""What completed instants say of themselves: commits, cleans, rollbacks, restores, savepoints.

Attributes are the format's own field names in snake case, in the format's order. `WriteStat` is
what a write reports of each file, all that travels from executor to driver. `CommitNotes` is what a
caller adds to a commit: entries of its own, and which batch it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, TypedDict

from hoodoo.errors import InputError
from hoodoo.model.files import FileGroupId
from hoodoo.model.names import FileId
from hoodoo.model.paths import PartitionPath

if TYPE_CHECKING:
    pass


# -- statistics of written files -------------------------------------------------------------------


NO_COMMIT = "null"
"""The text that stands in `prev_commit` where a file group has no earlier version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeStats:
    """Milliseconds that a writer spent on one file."""

    total_scan_time: int | None = None
    total_create_time: int | None = None
    total_upsert_time: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteStat:
    """One file written (or, in an inflight commit, one file group about to be written).

    Counters are never null: a null on disk means 0, as it does in Apache Hudi.
    """

    file_id: FileId | None = None
    path: str | None = None
    prev_commit: str | None = NO_COMMIT
    num_writes: int = 0
    num_deletes: int = 0
    num_update_writes: int = 0
    total_write_bytes: int = 0
    total_write_errors: int = 0
    partition_path: PartitionPath | None = None
    total_log_records: int = 0
    total_log_files: int | None = None
    total_updated_records_compacted: int = 0
    num_inserts: int = 0
    total_log_blocks: int = 0
    total_corrupt_log_block: int = 0
    total_rollback_blocks: int = 0
    file_size_in_bytes: int = 0
    log_version: int | None = None
    log_offset: int | None = None
    base_file: str | None = None
    log_files: tuple[str, ...] | None = None
    cdc_stats: Mapping[str, int] | None = None
    prev_base_file: str | None = None
    min_event_time: int | None = None
    max_event_time: int | None = None
    runtime_stats: RuntimeStats | None = None
    total_log_files_compacted: int = 0
    total_log_read_time_ms: int = 0
    total_log_size_compacted: int = 0
    temp_path: str | None = None
    num_updates: int = 0

    @property
    def is_log(self) -> bool:
        """Whether the file written is a log file rather than a base file."""
        return self.log_version is not None

    @property
    def file_name(self) -> str | None:
        """The written file's name without its partition path."""
        return self.path.rpartition("/")[2] if self.path else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnRange:
    """Statistics of one column in one file; `value_count` counts nulls too.

    Both bounds are None where nothing is known of them, and where every value is null.
    """

    column: str
    min_value: object
    max_value: object
    null_count: int
    value_count: int
    size_bytes: int = 0
    uncompressed_bytes: int = 0


def by_partition(stats: Iterable[WriteStat]) -> dict[PartitionPath, tuple[WriteStat, ...]]:
    """Stats as commit metadata groups them."""
    stats_of_partition: dict[PartitionPath, list[WriteStat]] = {}
    for stat in stats:
        assert stat.partition_path is not None
        stats_of_partition.setdefault(stat.partition_path, []).append(stat)
    return {partition: tuple(members) for partition, members in stats_of_partition.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRanges:
    """Statistics of the columns of one data file."""

    partition: PartitionPath
    file_name: str
    ranges: tuple[ColumnRange, ...]


# -- metadata of completed instants ----------------------------------------------------------------


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
        deletions: Mapping[PartitionPath, Sequence[str]],
        *,
        took_ms: int = 0,
    ) -> RollbackMetadata:
        """What a rollback of one instant says; `deletions` are whole paths of files."""
        return cls(
            start_rollback_time=rollback,
            time_taken_in_millis=took_ms,
            total_files_deleted=sum(map(len, deletions.values())),
            commits_rollback=(target.commit_time,),
            partition_metadata={
                partition: RollbackPartitionMetadata(
                    partition_path=partition,
                    success_delete_files=tuple(files),
                    rollback_log_files={},
                    log_files_from_failed_commit={},
                )
                for partition, files in deletions.items()
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


# -- what a caller adds to a commit ----------------------------------------------------------------


BATCHES_KEY = "_hudi_streaming_sink_checkpoint"
"""The key of extra metadata under which Apache Hudi's streaming sink stores batches: a JSON map
from the identifier of an application to the number of its newest batch, both as text."""

_RESERVED_KEYS = frozenset({SCHEMA_KEY, "latest_schema", BATCHES_KEY})
_OWN_PREFIX = "hoodoo."
_MOST = 2**63


@dataclass(frozen=True, slots=True)
class AppBatch:
    """One batch of an application; the numbers of its batches only grow."""

    app: str
    number: int

    def __str__(self) -> str:
        return f"batch {self.number} of {self.app!r}"


@dataclass(frozen=True, slots=True)
class CommitNotes:
    """Extra metadata of the caller's, and the batch that the write is."""

    metadata: Mapping[str, str] = field(default_factory=dict)
    batch: AppBatch | None = None


class WriteNotes(TypedDict, total=False):
    """What every write takes beside its rows."""

    metadata: Mapping[str, str] | None
    """Texts that become extra metadata of the commit."""
    transaction: tuple[str, int] | None
    """An application, and the id of a batch of it. If that batch is committed already, or a later
    one, then nothing is written: the commit that has it is returned, with `is_skipped`."""


def check_notes(notes: WriteNotes) -> CommitNotes:
    """The notes that these arguments of a write ask for. Raises `InputError`."""
    unknown = sorted(notes.keys() - WriteNotes.__annotations__.keys())
    if unknown:
        raise TypeError(f"a write takes metadata and transaction, not {', '.join(unknown)}")
    metadata, transaction = notes.get("metadata"), notes.get("transaction")
    if metadata is not None and not isinstance(metadata, Mapping):
        raise InputError(f"metadata is a dict of texts, not {type(metadata).__name__}")
    texts = dict(metadata or {})
    for key, value in texts.items():
        if not isinstance(key, str) or not key or not isinstance(value, str):
            raise InputError(f"metadata has texts as keys and values, not {key!r}: {value!r}")
        if key in _RESERVED_KEYS or key.startswith(_OWN_PREFIX):
            raise InputError(f"metadata: the key {key!r} is reserved")
    return CommitNotes(texts, None if transaction is None else _check_batch(transaction))


def _check_batch(transaction: object) -> AppBatch:
    if not isinstance(transaction, tuple) or len(transaction) != 2:
        raise InputError(f'transaction is a pair ("app", batch_id), not {transaction!r}')
    app, number = transaction
    if not isinstance(app, str) or not app:
        raise InputError(f"transaction: the application is a text, not {app!r}")
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < _MOST:
        raise InputError(f"transaction: the batch id is an integer from 0 on, not {number!r}")
    return AppBatch(app, number)


WRITER_KEY = "hoodoo.writer"
"""The key of a commit's extra metadata that says who made it, for people to read."""
