"""Keys of compaction: when a merge-on-read table is compacted, and which of its file groups."""

from __future__ import annotations

from enum import Enum

from hoodoo.config.key import Key, boolean, integer, one_of, optional_text


class CompactionTrigger(Enum):
    """What a compaction is due by."""

    NUM_COMMITS = "NUM_COMMITS"
    NUM_COMMITS_AFTER_LAST_REQUEST = "NUM_COMMITS_AFTER_LAST_REQUEST"
    TIME_ELAPSED = "TIME_ELAPSED"
    NUM_AND_TIME = "NUM_AND_TIME"
    NUM_OR_TIME = "NUM_OR_TIME"


class CompactionChoice(Enum):
    """Which file groups are compacted first, and how many."""

    LOG_SIZE = "log_size"
    LOG_COUNT = "log_count"
    AGE = "age"
    BOUNDED_IO = "bounded_io"
    ALL = "all"
    DAYS = "days"
    BOUNDED_DAYS = "bounded_days"
    UNBOUNDED_DAYS = "unbounded_days"


COMPACT_INLINE = Key(
    "hoodie.compact.inline",
    boolean,
    True,
    "A write of a merge-on-read table plans and runs a compaction when one is due. Apache Hudi "
    "does so only if asked; false is as there.",
)
SCHEDULE_INLINE = Key(
    "hoodie.compact.schedule.inline",
    boolean,
    False,
    "A write only plans a compaction when one is due; another process runs it.",
)
COMPACTION_TRIGGER = Key(
    "hoodie.compact.inline.trigger.strategy",
    one_of(CompactionTrigger),
    CompactionTrigger.NUM_COMMITS,
    "What a compaction is due by: delta commits since the last one, seconds, or both.",
)
MAX_DELTA_COMMITS = Key(
    "hoodie.compact.inline.max.delta.commits",
    integer(1),
    5,
    "Delta commits after which a compaction is due.",
)
MAX_DELTA_SECONDS = Key(
    "hoodie.compact.inline.max.delta.seconds",
    integer(1),
    3600,
    "Seconds after which a compaction is due, by the triggers that look at time.",
)
COMPACTION_CHOICE = Key(
    "hoodie.compaction.strategy",
    one_of(
        CompactionChoice,
        "CompositeCompactionStrategy",
        LogFileSizeBasedCompactionStrategy=CompactionChoice.LOG_SIZE,
        LogFileNumBasedCompactionStrategy=CompactionChoice.LOG_COUNT,
        BoundedIOCompactionStrategy=CompactionChoice.BOUNDED_IO,
        UnBoundedCompactionStrategy=CompactionChoice.ALL,
        DayBasedCompactionStrategy=CompactionChoice.DAYS,
        BoundedPartitionAwareCompactionStrategy=CompactionChoice.BOUNDED_DAYS,
        UnBoundedPartitionAwareCompactionStrategy=CompactionChoice.UNBOUNDED_DAYS,
    ),
    CompactionChoice.LOG_SIZE,
    "Which file groups come first: log_size, log_count or age (the longest not compacted); "
    "bounded_io, as listed; all; days, bounded_days, unbounded_days: by partitions named by day. "
    "Class names of Apache Hudi work too.",
)
TARGET_IO_MB = Key(
    "hoodie.compaction.target.io",
    integer(1),
    512_000,
    "Megabytes that one compaction reads and writes at most; all and unbounded_days have no bound.",
)
LOG_SIZE_THRESHOLD = Key(
    "hoodie.compaction.logfile.size.threshold",
    integer(0),
    0,
    "log_size: file groups whose logs have fewer bytes are left.",
)
LOG_COUNT_THRESHOLD = Key(
    "hoodie.compaction.logfile.num.threshold",
    integer(0),
    0,
    "log_count: file groups with fewer log files are left.",
)
TARGET_PARTITIONS = Key(
    "hoodie.compaction.daybased.target.partitions",
    integer(1),
    10,
    "days and bounded_days: so many of the latest partitions.",
)
PARTITION_REGEX = Key(
    "hoodie.compaction.partition.path.regex",
    optional_text,
    None,
    "Only partitions whose whole path matches.",
)
