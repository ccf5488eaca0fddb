"""Keys of distributed writes: how rows are spread over tasks, and what tasks do that come late."""

from __future__ import annotations

from enum import Enum

from hoodoo.config.key import Key, boolean, integer, one_of


class SortMode(Enum):
    """The order in which a bulk insert writes rows."""

    NONE = "NONE"
    GLOBAL_SORT = "GLOBAL_SORT"
    PARTITION_SORT = "PARTITION_SORT"


SORT_MODE = Key(
    "hoodie.bulkinsert.sort.mode",
    one_of(SortMode),
    SortMode.NONE,
    "Bulk insert: NONE, as they come; GLOBAL_SORT, by partition and key over all files; "
    "PARTITION_SORT, within each task.",
)
BULK_INSERT_PARALLELISM = Key(
    "hoodie.bulkinsert.shuffle.parallelism",
    integer(0),
    0,
    "Bulk insert: tasks of the write, if rows are sorted; 0 is as many as the rows come in.",
)
UPSERT_PARALLELISM = Key(
    "hoodie.upsert.shuffle.parallelism",
    integer(0),
    0,
    "Tasks that look for the keys of an upsert; 0: one per 250,000 rows, one per core.",
)
FAIL_ON_FINALIZE_MARKER = Key(
    "hoodie.write.fail.on.finalize.marker",
    boolean,
    True,
    "A task that runs again after its write was finalized fails; false: it tells what was written.",
)
