"""Small writes: the driver collects the rows, and plans them as the local engine does.

Rows are computed once and cross to Python once; nothing is cached, joined or shuffled. The files
are written by executors, to which each bucket's rows are sent with its task.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import DataFrame

from hoodoo.config.tasks import DRIVER_MAX_BYTES, DRIVER_MAX_FILE_BYTES
from hoodoo.engine.base import Engine
from hoodoo.errors import EngineFailed
from hoodoo.format.schema_types import normalise
from hoodoo.rows.conform import conform
from hoodoo.spark.engine import SparkEngine
from hoodoo.spark.prepare import own_columns
from hoodoo.spark.schema import arrow_schema
from hoodoo.spark.session import described, session_of, told_plainly
from hoodoo.table.ref import TableRef
from hoodoo.write.commit import CommitResult
from hoodoo.write.execute import Phases

Operation = Callable[[TableRef, pa.Table, Engine], CommitResult]


def written(ref: TableRef, given: DataFrame, operation: Operation) -> CommitResult | None:
    """Carry a write out if its rows are few; None, and nothing happened, if they are not."""
    spark, phases = session_of(given), Phases(ref.env)
    text = f"hoodoo {ref.properties.name}"
    with phases.timed("collect"), described(spark, f"{text}: collect"):
        rows = _collected(own_columns(given), ref.config.get(DRIVER_MAX_BYTES))
    if rows is None:
        return None
    engine = SparkEngine(spark, text, here_bytes=ref.config.get(DRIVER_MAX_FILE_BYTES))
    result = operation(ref, rows, engine)
    timings: Mapping[str, float] = {**phases.seconds, **result.timings}
    return replace(result, timings=timings)


def _collected(rows: DataFrame, most_bytes: int) -> pa.Table | None:
    """All rows, if that is not much by Spark's own estimate, nor in truth."""
    if not most_bytes or _expected_bytes(rows) > most_bytes:
        return None
    schema = normalise(arrow_schema(rows.schema))
    try:
        with told_plainly():
            table = rows.toArrow()
    except EngineFailed as error:
        if "maxResultSize" in str(error):  # far more than was expected
            return None
        raise
    return conform(table, schema) if table.nbytes <= most_bytes else None


def _expected_bytes(rows: DataFrame) -> int:
    plan = rows._jdf.queryExecution().optimizedPlan()
    return int(plan.stats().sizeInBytes())
