"""Base files as Spark reads them itself: vectorised, with its column pruning and pushed filters.

Where the directories of a table tell the values of its partition columns in a way that Spark reads
back to exactly the values in the files, Spark is told so: filters of a DataFrame on such columns
then keep whole files from being read. Otherwise nothing is inferred from paths.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import pyarrow as pa
import pyarrow.types as pt
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from hoodoo.model import paths
from hoodoo.model.files import FileSlice
from hoodoo.model.keys import NULL_PARTITION, KeyGenerator, KeyRule, escape, unescape
from hoodoo.model.paths import PartitionPath
from hoodoo.spark.session import override_settings
from hoodoo.table.ref import TableRef

log = logging.getLogger("hoodoo.spark")

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

_reached: WeakKeyDictionary[SparkSession, dict[str, bool]] = WeakKeyDictionary()

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
    reached = _reached.setdefault(spark, {})
    if place not in reached:  # it may take minutes to find out that a server is not there
        reached[place] = _is_there(spark, place)
    return place if reached[place] else None


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
        if not _tells_value(text, schema.field(field).type, encoded=keys.url_encode):
            return False
    return True


def _tells_value(text: str, type_: pa.DataType, *, encoded: bool) -> bool:
    if pt.is_string(type_):
        # A null and an empty text share a path; Spark undoes escapes, even those that are none.
        if text in (NULL_PARTITION, _OLD_NULL):
            return False
        return escape(unescape(text)) == text if encoded else "%" not in text
    if text == NULL_PARTITION:
        return True
    if pt.is_int32(type_) or pt.is_int64(type_):
        return bool(_INTEGER.fullmatch(text))
    if pt.is_date32(type_):
        return bool(_DATE.fullmatch(text))
    return bool(pt.is_boolean(type_) and _BOOLEAN.fullmatch(text))
