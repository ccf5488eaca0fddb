"""Writes of few rows: the driver collects them, and plans them as the local engine does.

Rows are computed once and cross to Python once; nothing is cached, joined or shuffled. The files
are written by executors, to which the rows of each file group are sent with its task.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from hoodoo.config.write import DRIVER_MAX_BYTES, DRIVER_MAX_FILE_BYTES
from hoodoo.errors import EngineFailed
from hoodoo.format.arrow_types import normalise
from hoodoo.model.commit import OperationType
from hoodoo.model.progress import OnProgress
from hoodoo.rows.conform import conform
from hoodoo.spark.datasource.register import ready_workers
from hoodoo.spark.engine import SparkEngine
from hoodoo.spark.schema import arrow_schema
from hoodoo.spark.session.session import describe_jobs, translate_spark_errors
from hoodoo.spark.write.prepare import drop_meta_columns
from hoodoo.table.ref import TableRef
from hoodoo.write import operations
from hoodoo.write.commit.publish import CommitResult
from hoodoo.write.execute import PhaseTimer

_PROBED_ROWS = 10_000
"""So many rows are few for certain."""


def write_collected(
    ref: TableRef,
    operation: OperationType,
    incoming: DataFrame,
    on_progress: OnProgress | None = None,
) -> CommitResult | None:
    """Carry a write out if its rows are few; None, and nothing happened, if they are not."""
    spark, phases = ready_workers(incoming), PhaseTimer(ref.env, on_progress)
    text = f"hoodoo {ref.properties.name}"
    with phases.timed("collect"), describe_jobs(spark, f"{text}: collect"):
        rows = drop_meta_columns(incoming)
        schema = normalise(arrow_schema(rows.schema))
        table = collect_few(rows, ref.config.get(DRIVER_MAX_BYTES))
    if table is None:
        return None
    engine = SparkEngine(spark, text, here_bytes=ref.config.get(DRIVER_MAX_FILE_BYTES))
    result = operations.write(ref, operation, conform(table, schema), engine, on_progress)
    timings: Mapping[str, float] = {**phases.seconds, **result.timings}
    return replace(result, timings=timings)


def collect_few(rows: DataFrame, most_bytes: int) -> pa.Table | None:
    """All rows, if that is not much by Spark's own estimate, nor in truth."""
    if not most_bytes:
        return None
    if _is_of_unknown_size(rows):
        table = _to_arrow(rows.limit(_PROBED_ROWS + 1))
        if table is not None and table.num_rows > _PROBED_ROWS:
            return None
    else:
        table = _to_arrow(rows) if _expected_bytes(rows) <= most_bytes else None
    return table if table is not None and table.nbytes <= most_bytes else None


def _to_arrow(rows: DataFrame) -> pa.Table | None:
    """The rows; None if they are far more than was expected."""
    try:
        with translate_spark_errors():
            return rows.toArrow()
    except EngineFailed as error:
        if "maxResultSize" in str(error):
            return None
        raise


def _expected_bytes(rows: DataFrame) -> int:
    return int(_plan(rows).stats().sizeInBytes())


def _is_of_unknown_size(rows: DataFrame) -> bool:
    """Whether rows come, step by step, from an RDD, of which Spark has no estimate.

    So do rows that are made of a Python list, and the batches of a stream. A few of them cost
    little, whatever is behind them: tasks stop when they have enough.
    """
    plan = _plan(rows)
    while plan.getClass().getSimpleName() in ("Project", "Filter"):
        plan = plan.children().apply(0)
    return bool(plan.getClass().getSimpleName() == "LogicalRDD")


def _plan(rows: DataFrame) -> Any:
    return rows._jdf.queryExecution().optimizedPlan()
