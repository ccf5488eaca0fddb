"""Keys of cleaning and archival: which old files and instants stay, and when the others go."""

from __future__ import annotations

import re
from enum import Enum

from hoodoo.config.key import Key, boolean, integer, names, one_of


class CleanPolicy(Enum):
    """Which versions of files a clean keeps."""

    KEEP_LATEST_COMMITS = "KEEP_LATEST_COMMITS"
    KEEP_LATEST_BY_HOURS = "KEEP_LATEST_BY_HOURS"
    KEEP_LATEST_FILE_VERSIONS = "KEEP_LATEST_FILE_VERSIONS"


class CleanTrigger(Enum):
    """What makes a clean due."""

    NUM_COMMITS = "NUM_COMMITS"


def _pattern(value: str) -> re.Pattern[str] | None:
    """A regular expression; an empty text means none."""
    try:
        return re.compile(value) if value else None
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from None


CLEAN_AUTOMATIC = Key(
    "hoodie.clean.automatic",
    boolean,
    True,
    "Clean after each commit, if that is due.",
)
CLEAN_POLICY = Key(
    "hoodie.clean.policy",
    one_of(CleanPolicy),
    CleanPolicy.KEEP_LATEST_COMMITS,
    "KEEP_LATEST_COMMITS, KEEP_LATEST_BY_HOURS or KEEP_LATEST_FILE_VERSIONS.",
    aliases=("hoodie.cleaner.policy",),
)
COMMITS_RETAINED = Key(
    "hoodie.clean.commits.retained",
    integer(1),
    10,
    "KEEP_LATEST_COMMITS: so many commits can be read as of, and followed.",
    aliases=("hoodie.cleaner.commits.retained",),
)
HOURS_RETAINED = Key(
    "hoodie.clean.hours.retained",
    integer(1),
    24,
    "KEEP_LATEST_BY_HOURS: commits of so many hours can be read as of, and followed.",
    aliases=("hoodie.cleaner.hours.retained",),
)
VERSIONS_RETAINED = Key(
    "hoodie.clean.fileversions.retained",
    integer(1),
    3,
    "KEEP_LATEST_FILE_VERSIONS: so many versions of each file group stay.",
    aliases=("hoodie.cleaner.fileversions.retained",),
)
CLEAN_TRIGGER = Key(
    "hoodie.clean.trigger.strategy",
    one_of(CleanTrigger),
    CleanTrigger.NUM_COMMITS,
    "What makes a clean due: NUM_COMMITS since the last one.",
)
CLEAN_TRIGGER_COMMITS = Key(
    "hoodie.clean.trigger.max.commits",
    integer(1),
    5,
    "A clean after a commit is due once there are so many commits since the last one; Apache Hudi "
    "cleans after each.",
    aliases=("hoodie.clean.max.commits",),
)
COMMITS_TO_CLEAN = Key(
    "hoodie.clean.max.commits.to.clean",
    integer(1),
    2**63 - 1,
    "One clean moves the earliest commit that it keeps on by so many commits at most.",
)
INCREMENTAL_CLEAN = Key(
    "hoodie.clean.incremental.enabled",
    boolean,
    True,
    "Look only at partitions that commits touched since the last clean; false: at all.",
    aliases=("hoodie.cleaner.incremental.mode",),
)
CLEAN_PARTITIONS: Key[tuple[str, ...]] = Key(
    "hoodie.clean.partition.filter.selected",
    names,
    (),
    "Clean these partitions only, by commas; counts if cleaning is not incremental.",
    aliases=("hoodie.cleaner.partition.filter.selected",),
)
CLEAN_PARTITION_PATTERN = Key(
    "hoodie.clean.partition.filter.regex",
    _pattern,
    None,
    "Clean partitions only whose whole path matches; counts if cleaning is not incremental.",
    aliases=("hoodie.cleaner.partition.filter.regex",),
)
ARCHIVE_AUTOMATIC = Key(
    "hoodie.archive.automatic",
    boolean,
    True,
    "Archive after each commit, if that is due.",
)
KEEP_MAX_COMMITS = Key(
    "hoodie.keep.max.commits",
    integer(2),
    30,
    "More commits than this on the active timeline make archival due.",
)
KEEP_MIN_COMMITS = Key(
    "hoodie.keep.min.commits",
    integer(1),
    20,
    "So many commits stay on the active timeline, and more if cleaning retains more.",
)
ARCHIVE_BEYOND_SAVEPOINT = Key(
    "hoodie.archive.beyond.savepoint",
    boolean,
    False,
    "Archive instants above a savepoint too; its commit stays.",
)
ARCHIVE_BELOW_CLEAN = Key(
    "hoodie.archive.block.on.latest.clean.ectr",
    boolean,
    False,
    "Archive nothing from the earliest commit on that the last clean kept.",
)
HISTORY_BATCH = Key(
    "hoodie.timeline.compaction.batch.size",
    integer(2),
    10,
    "So many files of one layer of the archived timeline are merged into one of the next.",
)
HISTORY_FILE_BYTES = Key(
    "hoodie.timeline.compaction.target.file.max.bytes",
    integer(1),
    1000 * 1024 * 1024,
    "Files of the archived timeline are not merged into larger ones than about this.",
)
MANIFESTS_RETAINED = Key(
    "hoodie.timeline.manifest.retained.versions",
    integer(1),
    3,
    "So many versions of the archived timeline stay, for those who are reading them.",
)
