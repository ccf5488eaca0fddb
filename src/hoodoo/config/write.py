"""Keys of the write path: file sizes, Parquet, bloom filters, logs."""

from __future__ import annotations

from enum import Enum

from hoodoo.config.key import Key, boolean, fraction, integer, one_of


class LogBlockFormat(Enum):
    """What data blocks of log files hold."""

    PARQUET = "parquet"
    AVRO = "avro"


class Codec(Enum):
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
    one_of(Codec, "lzo", "brotli", none=Codec.NONE, lz4=Codec.LZ4_RAW),
    Codec.ZSTD,
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
