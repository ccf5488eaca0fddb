"""Base files as Spark reads them itself: vectorised, with its column pruning and pushed filters.

Where the directories of a table tell the values of its partition columns in a way that Spark reads
back to exactly the values in the files, Spark is told so: filters of a DataFrame on such columns
then keep whole files from being read. Otherwise nothing is inferred from paths.

Spark's own Parquet reader does not take every file for what the table's schema says. It widens
numbers much like `rows.conform`, but not all of them, and takes no plain number for a timestamp, as
very old writers left them. Files that it cannot take are read by Arrow.
"""

from __future__ import annotations

import logging
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

import pyarrow as pa
import pyarrow.types as pt
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from hoodoo.model import paths
from hoodoo.model.files import BaseFile, FileSlice
from hoodoo.model.keys import NULL_PARTITION, KeyGenerator, KeyRule, escape, unescape
from hoodoo.model.paths import PartitionPath
from hoodoo.read.base_files import open_base
from hoodoo.spark.session.session import override_settings
from hoodoo.table.ref import TableRef

log = logging.getLogger("hoodoo.spark")


# -- scans of base files ---------------------------------------------------------------------------


_OPTIONS = {
    "__globPaths__": "false",  # a path is a path, whatever characters it has
    "mergeSchema": "false",
    # Rows that are silently missing or shifted would be worse than an error.
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
}
# Above so many paths Spark lists them in a job, which takes seconds; a disk is asked at once.
_LISTED_BY_A_JOB = "spark.sql.sources.parallelPartitionDiscovery.threshold"

_SCHEMES = {"file": "file", "s3": "s3a", "gs": "gs", "abfss": "abfss"}
_OLD_NULL = "default"  # of Apache Hudi before 0.12

_reachable_places: WeakKeyDictionary[SparkSession, dict[str, bool]] = WeakKeyDictionary()

_INTEGER = re.compile(r"0|-?[1-9][0-9]*")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_BOOLEAN = re.compile(r"true|false")


def is_reachable(spark: SparkSession, ref: TableRef) -> bool:
    """Whether this Spark's JVM can read the table's store."""
    return place_of(spark, ref) is not None


def place_of(spark: SparkSession, ref: TableRef) -> str | None:
    """Where the table is, as this Spark's JVM says it; None if it cannot read there."""
    scheme, _, rest = ref.uri.partition("://")
    if scheme not in _SCHEMES:
        return None
    place = f"{_SCHEMES[scheme]}://{rest}"
    if scheme == "file":
        return place
    is_reachable_at = _reachable_places.setdefault(spark, {})
    if place not in is_reachable_at:  # it may take minutes to find out that a server is not there
        is_reachable_at[place] = _is_there(spark, place)
    return place if is_reachable_at[place] else None


def _is_there(spark: SparkSession, place: str) -> bool:
    """Whether the JVM has a client of this store, and the rights to see the table."""
    session: Any = spark._jsparkSession
    jvm: Any = spark._jvm
    try:
        path = jvm.org.apache.hadoop.fs.Path(f"{place}/{paths.PROPERTIES}")
        return bool(path.getFileSystem(session.sessionState().newHadoopConf()).exists(path))
    except (Py4JError, PySparkException) as error:
        reason = " ".join(str(error).partition("\n\tat ")[0].split())
        log.info("not_reachable place=%s reason=%s", place, reason)
        return False


def base_files(
    spark: SparkSession, ref: TableRef, slices: Sequence[FileSlice], schema: str | StructType
) -> DataFrame:
    """The rows of base files in these columns, with nothing inferred from paths."""
    return _load(spark, ref, slices, schema, {"recursiveFileLookup": "true"})


def partitioned_files(
    spark: SparkSession, ref: TableRef, slices: Sequence[FileSlice], schema: StructType
) -> DataFrame:
    """The same with partition columns, which `schema` must have, from the paths."""
    return _load(spark, ref, slices, schema, {"basePath": place_of(spark, ref) or ref.uri})


def _load(
    spark: SparkSession,
    ref: TableRef,
    slices: Sequence[FileSlice],
    schema: str | StructType,
    options: dict[str, str],
) -> DataFrame:
    place = place_of(spark, ref) or ref.uri
    files = [f"{place}/{slice_.base.path}" for slice_ in slices if slice_.base]
    reader = spark.read.schema(schema).options(**_OPTIONS, **options)
    if not place.startswith("file:"):
        return reader.parquet(*files)
    with override_settings(spark, {_LISTED_BY_A_JOB: str(len(files) + 1)}):
        return reader.parquet(*files)


def tells_values(keys: KeyRule, schema: pa.Schema, partition: PartitionPath) -> bool:
    """Whether Spark finds in a partition's path exactly what the rows hold in its columns."""
    plain = keys.generator in (KeyGenerator.SIMPLE, KeyGenerator.COMPLEX)
    if not (keys.hive_style and plain and keys.timestamp is None):
        return False
    segments = partition.split("/")
    if len(segments) != len(keys.partition_fields):
        return False
    for field, segment in zip(keys.partition_fields, segments, strict=True):
        name, equals, text = segment.partition("=")
        if name != field or not equals or field not in schema.names:
            return False
        if not _tells_value(text, schema.field(field).type, is_encoded=keys.url_encode):
            return False
    return True


def _tells_value(text: str, type_: pa.DataType, *, is_encoded: bool) -> bool:
    if pt.is_string(type_):
        # A null and an empty text share a path; Spark undoes escapes, even those that are none.
        if text in (NULL_PARTITION, _OLD_NULL):
            return False
        return escape(unescape(text)) == text if is_encoded else "%" not in text
    if text == NULL_PARTITION:
        return True
    if pt.is_int32(type_) or pt.is_int64(type_):
        return bool(_INTEGER.fullmatch(text))
    if pt.is_date32(type_):
        return bool(_DATE.fullmatch(text))
    return bool(pt.is_boolean(type_) and _BOOLEAN.fullmatch(text))


# -- whether Spark reads a file's types as the table's ---------------------------------------------


_WIDER_TYPES = {
    (pa.int8(), pa.int32()),
    (pa.int16(), pa.int32()),
    (pa.int32(), pa.int64()),
    (pa.int32(), pa.float64()),
    (pa.int32(), pa.date32()),
    (pa.float32(), pa.float64()),
    (pa.string(), pa.binary()),
    (pa.binary(), pa.string()),
}


def are_readable(ref: TableRef, slices: Sequence[FileSlice], columns: pa.Schema) -> bool:
    """Whether Spark reads the base files of these slices as rows of this schema.

    Few footers are read: types only ever widen, so that of each column the oldest file that has
    it tells; the newest tells whether another writer has come since.
    """
    by_time = {slice_.base_time: slice_.base for slice_ in slices if slice_.base}
    files: list[BaseFile] = [by_time[time] for time in sorted(by_time)]

    @cache
    def schema_of(number: int) -> pa.Schema:
        with open_base(ref.env, files[number]) as file:
            return file.schema_arrow

    file_types = list(first_types(columns.names, len(files), schema_of))
    file_types += [(f.name, f.type) for f in schema_of(len(files) - 1) if f.name in columns.names]
    return all(can_read_as(type_, columns.field(name).type) for name, type_ in file_types)


def first_types(
    names: Iterable[str], count: int, schema_of: Callable[[int], pa.Schema]
) -> Iterator[tuple[str, pa.DataType]]:
    """The type of each column in the first of `count` schemas that has it; a column stays."""
    missing, first = set(names), 0

    def has_one(number: int) -> bool:
        return not missing.isdisjoint(schema_of(number).names)

    while missing:
        first = bisect_left(range(count), True, lo=first, key=has_one)
        if first == count:
            return
        there = missing.intersection(schema_of(first).names)
        yield from ((name, schema_of(first).field(name).type) for name in there)
        missing -= there


def can_read_as(file: pa.DataType, column: pa.DataType) -> bool:
    """Whether Spark reads a file's column of one type as a table's column of the other."""
    if pt.is_struct(column) and pt.is_struct(file):
        common = [field for field in column if file.get_field_index(field.name) >= 0]
        return all(can_read_as(file.field(field.name).type, field.type) for field in common)
    if pt.is_map(column) and pt.is_map(file):
        return can_read_as(file.key_type, column.key_type) and can_read_as(
            file.item_type, column.item_type
        )
    if pt.is_list(column) and pt.is_list(file):
        return can_read_as(file.value_type, column.value_type)
    if pt.is_timestamp(column):
        return bool(pt.is_timestamp(file))
    if pt.is_decimal(column) and pt.is_decimal(file):
        digits = column.precision - column.scale, file.precision - file.scale
        return bool(column.scale >= file.scale and digits[0] >= digits[1])
    return column == file or (file, column) in _WIDER_TYPES
