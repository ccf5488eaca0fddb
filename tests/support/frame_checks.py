"""DataFrames in a form that compares, and what Spark plans to do for them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from support.wheel import rows_of


def rows_in(frame: DataFrame) -> list[dict[str, Any]]:
    """The rows of a DataFrame in the canonical order of `rows_of`."""
    return rows_of(frame.toArrow())


def same_rows(frame: DataFrame, expected: pa.Table) -> None:
    """The DataFrame has these columns, in this order, and these rows."""
    assert frame.columns == expected.column_names
    assert rows_in(frame) == rows_of(expected)


def plan_of(frame: DataFrame) -> str:
    """How Spark will find the rows."""
    return str(frame._jdf.queryExecution().executedPlan().toString())


def is_scanned(frame: DataFrame) -> bool:
    """Whether Spark reads Parquet files itself."""
    return "FileScan parquet" in plan_of(frame)


def is_merged(frame: DataFrame) -> bool:
    """Whether Python workers read slices."""
    return "MapInArrow" in plan_of(frame)


def files_read(frame: DataFrame) -> int:
    """How many files Spark's own scans open once partition filters have had their say."""
    fresh = frame.select("*")  # a plan tells it in its first run only
    fresh.collect()
    plan = fresh._jdf.queryExecution().executedPlan()
    if plan.nodeName() == "AdaptiveSparkPlan":
        plan = plan.executedPlan()
    leaves = plan.collectLeaves()
    found = 0
    for number in range(leaves.size()):
        metrics = leaves.apply(number).metrics()
        if metrics.contains("numFiles"):
            found += int(metrics.apply("numFiles").value())
    return found
