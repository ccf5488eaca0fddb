"""Keys of clustering: which files are rewritten together, how large, and in which order."""

from __future__ import annotations

from enum import Enum

from hoodoo.config.key import Key, boolean, integer, names, one_of, optional_text
from hoodoo.config.write import MIB
from hoodoo.model.plans import Layout

_PLAN = "hoodie.clustering.plan.strategy."


class PartitionFilter(Enum):
    """Which partitions a clustering is planned for."""

    NONE = "NONE"
    """All of them."""
    RECENT_DAYS = "RECENT_DAYS"
    """The last ones by name, some of the very last left out."""
    SELECTED_PARTITIONS = "SELECTED_PARTITIONS"
    """Those from one name to another."""
    DAY_ROLLING = "DAY_ROLLING"
    """Another share of them in each hour of the day."""


CLUSTER_INLINE = Key(
    "hoodie.clustering.inline",
    boolean,
    False,
    "A write plans and runs a clustering when one is due.",
    aliases=("hoodie.datasource.clustering.inline.enable",),
)
CLUSTER_SCHEDULE_INLINE = Key(
    "hoodie.clustering.schedule.inline",
    boolean,
    False,
    "A write only plans a clustering when one is due; another process runs it.",
)
CLUSTER_ASYNC = Key(
    "hoodie.clustering.async.enabled",
    boolean,
    False,
    "The same: a process beside the writers, such as `hoodoo upkeep`, clusters the table.",
    aliases=("hoodie.datasource.clustering.async.enable",),
)
CLUSTER_MAX_COMMITS = Key(
    "hoodie.clustering.inline.max.commits",
    integer(1),
    4,
    "Commits after which a clustering is due.",
    aliases=("hoodie.clustering.async.max.commits",),
)
CLUSTER_SMALL_FILE_LIMIT = Key(
    f"{_PLAN}small.file.limit",
    integer(0),
    300 * MIB,
    "Clustering: base files below this are candidates.",
)
CLUSTER_TARGET_FILE_BYTES = Key(
    f"{_PLAN}target.file.max.bytes",
    integer(1),
    1024 * MIB,
    "Clustering: bytes that a new base file may grow to.",
)
CLUSTER_MAX_GROUP_BYTES = Key(
    f"{_PLAN}max.bytes.per.group",
    integer(1),
    2048 * MIB,
    "Clustering: bytes of files that are rewritten together, by one task that holds their rows if "
    "they are sorted.",
)
CLUSTER_MAX_GROUPS = Key(
    f"{_PLAN}max.num.groups",
    integer(1),
    30,
    "Clustering: most groups of files in one plan.",
)
CLUSTER_MOST_CANCELS = Key(
    f"{_PLAN}most.cancels",
    integer(0),
    3,
    "Clustering: a file group whose plans were cancelled so often within a day, because writes "
    "went first, is left out of cancellable plans until a day has passed; 0: never.",
)
CLUSTER_SINGLE_FILES = Key(
    f"{_PLAN}single.group.clustering.enabled",
    boolean,
    True,
    "Clustering: rewrite a file that has no other beside it, if it has logs.",
)
CLUSTER_SORT_COLUMNS: Key[tuple[str, ...]] = Key(
    f"{_PLAN}sort.columns",
    names,
    (),
    "Clustering: columns to order rows by; none: rows stay as they come.",
)
CLUSTER_LAYOUT = Key(
    "hoodie.layout.optimize.strategy",
    one_of(Layout),
    Layout.LINEAR,
    "Clustering: how several columns make one order: linear, zorder or hilbert.",
)
CLUSTER_PARTITION_FILTER = Key(
    "hoodie.clustering.plan.partition.filter.mode",
    one_of(PartitionFilter),
    PartitionFilter.NONE,
    "Clustering: which partitions: NONE, all; RECENT_DAYS, the last ones by name; "
    "SELECTED_PARTITIONS, from one to another; DAY_ROLLING, another share in each hour.",
)
CLUSTER_RECENT_PARTITIONS = Key(
    f"{_PLAN}daybased.lookback.partitions",
    integer(1),
    2,
    "Clustering, RECENT_DAYS: how many partitions.",
)
CLUSTER_SKIP_LATEST = Key(
    f"{_PLAN}daybased.skipfromlatest.partitions",
    integer(0),
    0,
    "Clustering, RECENT_DAYS: how many of the last partitions to leave out.",
)
CLUSTER_BEGIN_PARTITION = Key(
    f"{_PLAN}cluster.begin.partition",
    optional_text,
    None,
    "Clustering, SELECTED_PARTITIONS: the first partition.",
)
CLUSTER_END_PARTITION = Key(
    f"{_PLAN}cluster.end.partition",
    optional_text,
    None,
    "Clustering, SELECTED_PARTITIONS: the last partition.",
)
CLUSTER_PARTITION_PATTERN = Key(
    f"{_PLAN}partition.regex.pattern",
    optional_text,
    None,
    "Clustering: only partitions whose whole path matches this regular expression.",
)
CLUSTER_PARTITIONS: Key[tuple[str, ...]] = Key(
    f"{_PLAN}partition.selected", names, (), "Clustering: only these partitions."
)
