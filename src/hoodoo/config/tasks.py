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
    one_of(SortMode, "PARTITION_PATH_REPARTITION", "PARTITION_PATH_REPARTITION_AND_SORT"),
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
DRIVER_MAX_BYTES = Key(
    "hoodie.write.spark.driver.max.bytes",
    integer(0),
    100_000_000,
    "Writes of DataFrames up to about this size are planned by the driver, which collects them; "
    "executors write the files. 0: never.",
)
DRIVER_MAX_KEYS = Key(
    "hoodie.write.spark.driver.max.keys",
    integer(0),
    2_000_000,
    "Up to so many rows, the driver collects the keys of larger DataFrames to locate them. 0: "
    "never; keys are joined with those of the files.",
)
DRIVER_MAX_FILE_BYTES = Key(
    "hoodie.write.spark.driver.max.file.bytes",
    integer(0),
    32_000_000,
    "Up to so many bytes of files and rows, what is done per file group (looking for keys, writing "
    "files) is done by the driver itself rather than by tasks. 0: never.",
)
FAIL_ON_FINALIZE_MARKER = Key(
    "hoodie.write.fail.on.finalize.marker",
    boolean,
    True,
    "A task that runs again after its write was finalized fails; false: it tells what was written.",
)
