"""What a write reports about each file it wrote: all that travels from executor to driver."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hoodoo.model.names import FileId
from hoodoo.model.paths import PartitionPath

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
    grouped: dict[PartitionPath, list[WriteStat]] = {}
    for stat in stats:
        assert stat.partition_path is not None
        grouped.setdefault(stat.partition_path, []).append(stat)
    return {partition: tuple(members) for partition, members in grouped.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRanges:
    """Statistics of the columns of one data file."""

    partition: PartitionPath
    file_name: str
    ranges: tuple[ColumnRange, ...]
