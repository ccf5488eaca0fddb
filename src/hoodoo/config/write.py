"""Keys of the write path: file sizes, Parquet, bloom filters, logs, and tasks of Spark writes."""

from __future__ import annotations

from enum import Enum

from hoodoo.config.key import Key, boolean, fraction, integer, one_of

# -- files -----------------------------------------------------------------------------------------


class LogBlockFormat(Enum):
    """What data blocks of log files hold."""

    PARQUET = "parquet"
    AVRO = "avro"


class ParquetCodec(Enum):
    """Compression of Parquet pages."""

    ZSTD = "zstd"
    SNAPPY = "snappy"
    GZIP = "gzip"
    LZ4_RAW = "lz4_raw"
    NONE = "uncompressed"


MIB = 1024 * 1024

MAX_FILE_SIZE = Key(
    "hoodie.parquet.max.file.size", integer(1), 120 * MIB, "Bytes a base file may grow to."
)
SMALL_FILE_LIMIT = Key(
    "hoodie.parquet.small.file.limit",
    integer(0),
    100 * MIB,
    "Base files below this take new rows of an insert or upsert; 0 switches that off.",
)
ROW_GROUP_SIZE = Key(
    "hoodie.parquet.block.size", integer(1024), 120 * MIB, "Bytes of a Parquet row group, about."
)
PAGE_SIZE = Key("hoodie.parquet.page.size", integer(1024), MIB, "Bytes of a Parquet page, about.")
DICTIONARY = Key(
    "hoodie.parquet.dictionary.enabled", boolean, True, "Use dictionary encoding in Parquet."
)
CODEC = Key(
    "hoodie.parquet.compression.codec",
    one_of(ParquetCodec, "lzo", "brotli", none=ParquetCodec.NONE, lz4=ParquetCodec.LZ4_RAW),
    ParquetCodec.ZSTD,
    "zstd, snappy, gzip, lz4_raw or uncompressed.",
)
RECORD_SIZE_ESTIMATE = Key(
    "hoodie.copyonwrite.record.size.estimate",
    integer(1),
    1024,
    "Bytes of a row, assumed while no commit tells better.",
)
BLOOM_ENABLED = Key(
    "hoodie.parquet.bloom.filter.enabled", boolean, True, "Put a bloom filter into base files."
)
BLOOM_ENTRIES = Key(
    "hoodie.index.bloom.num_entries", integer(1), 60_000, "Keys a bloom filter is sized for."
)
BLOOM_FPP = Key(
    "hoodie.index.bloom.fpp", fraction, 0.000000001, "False positives of a bloom filter."
)
BLOOM_MAX_ENTRIES = Key(
    "hoodie.bloom.index.filter.dynamic.max.entries",
    integer(1),
    100_000,
    "Keys up to which a dynamic bloom filter grows.",
)
LOG_BLOCK_FORMAT = Key(
    "hoodie.logfile.data.block.format",
    one_of(LogBlockFormat, "hfile"),
    LogBlockFormat.PARQUET,
    "parquet or avro.",
)
COMBINE_BEFORE_INSERT = Key(
    "hoodie.combine.before.insert", boolean, False, "Keep one row per key of an insert."
)
COMBINE_BEFORE_UPSERT = Key(
    "hoodie.combine.before.upsert", boolean, True, "Keep one row per key of an upsert."
)


# -- tasks of distributed writes -------------------------------------------------------------------


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
