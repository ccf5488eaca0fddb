"""Reading a table into a DataFrame: base files by Spark itself, slices with logs by Arrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession

from hoodoo.errors import UnsupportedFeature
from hoodoo.model.files import FileSlice
from hoodoo.read.scan import ScanSelection, select_slices, slice_reads
from hoodoo.runtime.engine import LocalEngine
from hoodoo.spark.datasource.register import ready_session
from hoodoo.spark.read.filter import column_filter
from hoodoo.spark.read.native_scan import (
    are_readable,
    base_files,
    is_reachable,
    partitioned_files,
    tells_values,
)
from hoodoo.spark.read.python_scan import scan_slices
from hoodoo.spark.schema import spark_schema
from hoodoo.table.ref import TableRef


def read(
    ref: TableRef,
    spark: object,
    *,
    columns: Sequence[str] | None = None,
    filter: Any = None,
    as_of: str | None = None,
    mode: str = "snapshot",
) -> DataFrame:
    """The rows of a table as it is now, whenever the DataFrame is evaluated."""
    session = ready_session(spark)
    selection = select_slices(
        ref, columns=columns, filter=filter, as_of=as_of, mode=mode, engine=LocalEngine()
    )
    return build_frame(session, selection)


def build_frame(spark: SparkSession, selection: ScanSelection) -> DataFrame:
    """The rows of a selection, in its columns."""
    ref, rule, schema = selection.snapshot.ref, selection.rule, spark_schema(selection.schema)
    if ref.uri.startswith("memory:"):
        raise UnsupportedFeature(
            f"{ref.uri} is in the memory of one process: read it by to_arrow()"
        )
    condition = None if rule.filter is None else column_filter(rule.filter, rule.schema)
    applies = rule.filter is None or condition is not None
    plain = [slice_ for slice_ in selection.slices if not slice_.logs]
    if not (plain and applies and _can_scan_natively(spark, selection, plain)):
        plain = []
    frames = list(_native_scans(spark, selection, plain, condition))
    merge_slices = [slice_ for slice_ in selection.slices if slice_.logs or not plain]
    if merge_slices:
        reads = slice_reads(selection.snapshot, rule, merge_slices)
        frames.append(scan_slices(spark, reads, schema))
    return reduce(DataFrame.unionAll, frames) if frames else spark.createDataFrame([], schema)


def _can_scan_natively(
    spark: SparkSession, selection: ScanSelection, slices: Sequence[FileSlice]
) -> bool:
    """Whether Spark can read these base files, and as what they are."""
    ref, columns = selection.snapshot.ref, selection.rule.columns_to_read(merging=False)
    return is_reachable(spark, ref) and are_readable(ref, slices, columns)


def _native_scans(
    spark: SparkSession,
    selection: ScanSelection,
    slices: Sequence[FileSlice],
    condition: Column | None,
) -> Iterator[DataFrame]:
    """Slices without logs: those whose paths tell their partition columns apart from others."""
    ref, rule = selection.snapshot.ref, selection.rule
    keys, read_schema = ref.properties.keys, rule.columns_to_read(merging=False)
    has_values_in_path = {
        p: tells_values(keys, rule.schema, p) for p in {s.group.partition for s in slices}
    }
    apart = [slice_ for slice_ in slices if has_values_in_path[slice_.group.partition]]
    others = [slice_ for slice_ in slices if not has_values_in_path[slice_.group.partition]]
    frames = []
    if apart:
        names = {*read_schema.names, *keys.partition_fields}
        wider = pa.schema([field for field in rule.schema if field.name in names])
        frames.append(partitioned_files(spark, ref, apart, spark_schema(wider)))
    if others:
        frames.append(base_files(spark, ref, others, spark_schema(read_schema)))
    for frame in frames:
        rows = frame if condition is None else frame.filter(condition)
        yield rows.select(*(f"`{name}`" for name in rule.columns))
