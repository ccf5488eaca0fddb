"""What a table is: its type, version and properties."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from hoodoo.deprecated import with_old_fields
from hoodoo.model.instant import TimelineZone
from hoodoo.model.keys import KeyRule
from hoodoo.model.merge import MergeRule
from hoodoo.model.paths import TimelinePaths


class TableType(Enum):
    """Copy-on-write rewrites base files; merge-on-read appends log files."""

    COPY_ON_WRITE = "COPY_ON_WRITE"
    MERGE_ON_READ = "MERGE_ON_READ"


class TableVersion(Enum):
    """The versions of the format that we know. It answers questions; nobody compares numbers."""

    SIX = 6
    EIGHT = 8
    NINE = 9

    @property
    def timeline_layout(self) -> int:
        return 1 if self is TableVersion.SIX else 2

    @property
    def slices_by_completion(self) -> bool:
        """Whether a log file belongs to a slice by its completion time, not by its name."""
        return self is not TableVersion.SIX

    @property
    def appends_to_logs(self) -> bool:
        """Whether writers append to log files, so that a crash may leave half a block in one."""
        return self is TableVersion.SIX

    @property
    def payload_decides_merging(self) -> bool:
        return self is TableVersion.SIX

    @property
    def is_writable(self) -> bool:
        return self is TableVersion.NINE


@with_old_fields
@dataclass(frozen=True, slots=True)
class TableProperties:
    """`hoodie.properties`, typed; `raw` keeps every key as it stands in the file."""

    name: str
    type: TableType
    version: TableVersion
    timeline_paths: TimelinePaths
    keys: KeyRule
    merge: MergeRule
    create_schema: str | None = None
    database: str | None = None
    populates_meta_fields: bool = True
    metadata_partitions: tuple[str, ...] = ()
    metadata_partitions_inflight: tuple[str, ...] = ()
    drops_partition_columns: bool = False
    base_file_format: str = "PARQUET"
    initial_version: TableVersion | None = None
    """The version in which the table was created, if it tells."""
    raw: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)

    @property
    def has_appended_logs(self) -> bool:
        """Whether log files may hold blocks of several commits, named for none of them.

        Those of a table that was upgraded stay as they were.
        """
        return (
            self.version.appends_to_logs or (self.initial_version or self.version).appends_to_logs
        )

    @property
    def timeline_zone(self) -> TimelineZone:
        """The time zone of the table's instants, whatever the options of a caller say."""
        return self.timeline_paths.zone
