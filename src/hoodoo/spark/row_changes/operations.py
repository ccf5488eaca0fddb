"""Delete, update and merge on Spark: expressions are Spark's, and all changes are one commit.

    snapshot -> rows that match -> changes (`ACTION`, `OLD`, `NEW`) -> one plan -> one commit

Where tasks can tell which rows match, and these are few, the driver plans them as the local engine
does (`collect_changes`). Otherwise Spark finds them; few of them are planned by the driver too, and
many are tagged and written where they are (`changed_frames`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import pyarrow.compute as pc
from pyspark import StorageLevel
from pyspark.errors import (
    AnalysisException,
    ArithmeticException,
    DateTimeException,
    NumberFormatException,
    ParseException,
)
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from hoodoo.config.write import DRIVER_MAX_BYTES
from hoodoo.errors import InputError
from hoodoo.format.schema import META_FIELDS
from hoodoo.model.predicate import All, Compare, Predicate
from hoodoo.model.progress import OnProgress
from hoodoo.read.scan import select_slices_in
from hoodoo.rows.arrays import to_flags
from hoodoo.rows.filter import to_predicate
from hoodoo.runtime.engine import LocalEngine
from hoodoo.spark.datasource.register import ready_session, ready_workers
from hoodoo.spark.engine import engine_on
from hoodoo.spark.read.read import build_frame
from hoodoo.spark.row_changes.expressions import (
    ACTION,
    DELETE,
    INSERT,
    NEW_ROW,
    OLD_ROW,
    TARGET,
    UPDATE,
    build_updated_row,
    check_merge,
    join_sides,
)
from hoodoo.spark.row_changes.few_rows import collect_changes, rows_in
from hoodoo.spark.row_changes.many_rows import ChangedFrames, write_frames
from hoodoo.spark.schema import spark_schema
from hoodoo.spark.session.session import describe_jobs, translate_spark_errors
from hoodoo.spark.write.prepare import drop_meta_columns
from hoodoo.table.ref import TableRef
from hoodoo.write.commit.publish import CommitResult
from hoodoo.write.execute import PhaseTimer
from hoodoo.write.planning.assignment import WriteTarget
from hoodoo.write.row_changes.find_rows import StoredRowFinder
from hoodoo.write.row_changes.requests import (
    Change,
    DeleteWhere,
    MergeRequest,
    UpdateWhere,
    adds_new_keys,
    ambiguous,
    check_update,
)
from hoodoo.write.row_changes.write_changes import ChangedRows, StoredRows, write_changed

FEW_ROWS = 10_000
"""So many changes are few for certain: the driver plans them."""
_BAD_EXPRESSIONS = (
    AnalysisException,
    ParseException,
    ArithmeticException,
    DateTimeException,
    NumberFormatException,
)


def change(
    ref: TableRef, request: Change, session_or_frame: Any, on_progress: OnProgress | None = None
) -> CommitResult | None:
    """Carry a change out, by the session that is given or of the source; None if there is none.

    Needs: `ref` was reopened for this write (`write.retry`).
    """
    spark = (
        ready_workers(session_or_frame)
        if isinstance(session_or_frame, DataFrame)
        else ready_session(session_or_frame)
    )
    phases, engine = PhaseTimer(ref.env, on_progress), engine_on(spark, ref)
    text = f"hoodoo {ref.properties.name}: find rows to change"
    with phases.timed("read"), describe_jobs(spark, text), _translated_errors():
        target = WriteTarget.load(ref)
        finder = StoredRowFinder(
            target, engine, phases, most_bytes=ref.config.get(DRIVER_MAX_BYTES)
        )
        changed_rows = collect_changes(spark, request, finder)
    if changed_rows is not None:
        return (
            None if changed_rows.is_nothing else write_changed(target, changed_rows, engine, phases)
        )
    with ExitStack() as caches:
        with phases.timed("read"), describe_jobs(spark, text), _translated_errors():
            changes, are_new = _changes(spark, target, request, caches)
            changes = _keep(changes, caches)
            counts = {row[0]: row[1] for row in changes.groupBy(ACTION).count().collect()}
            if isinstance(request, MergeRequest):
                _refuse_ambiguous(changes, request)
        if not counts:
            return None
        if sum(counts.values()) <= (FEW_ROWS if ref.config.get(DRIVER_MAX_BYTES) else 0):
            with phases.timed("read"), _translated_errors():
                changed_rows = _collect(target, changes, are_new=are_new)
            return write_changed(target, changed_rows, engine, phases)
        frames = ChangedFrames(changes, counts, are_new)
        return write_frames(spark, target, frames, lambda frame: _keep(frame, caches), phases)


@contextmanager
def _translated_errors() -> Iterator[None]:
    """What Spark says of an expression that it cannot read or compute, in one line."""
    with translate_spark_errors():
        try:
            yield
        except _BAD_EXPRESSIONS as error:
            text = " ".join(str(error).split("\n\n")[0].split("JVM stacktrace")[0].split())
            raise InputError(f"Spark refuses an expression: {text[:300]}") from None


def _keep(frame: DataFrame, caches: ExitStack) -> DataFrame:
    frame = frame.persist(StorageLevel.MEMORY_AND_DISK)
    caches.callback(frame.unpersist)
    return frame


def _changes(
    spark: SparkSession, target: WriteTarget, request: Change, caches: ExitStack
) -> tuple[DataFrame, bool]:
    """What becomes of which rows, and whether all that are added are new for certain."""
    match request:
        case DeleteWhere():
            rows = matching(spark, target, request.where)
            return _as_changes(target, rows, sf.lit(DELETE)), False
        case UpdateWhere():
            check_update(request.values, target.snapshot.schema, target.ref.properties.keys)
            rows = matching(spark, target, request.where)
            new = build_updated_row(target, request.values)
            return _as_changes(target, rows, sf.lit(UPDATE), new), False
        case MergeRequest():
            return _merge(spark, target, request, caches)


def matching(spark: SparkSession, target: WriteTarget, where: Any) -> DataFrame:
    """The rows for which a condition is true: one that hoodoo can read also leaves out files."""
    if isinstance(where, str):
        try:
            to_predicate(where, target.snapshot.schema)
        except InputError:
            where = sf.expr(where)
    if isinstance(where, Column):
        return build_frame(spark, select_slices_in(target.snapshot, None, LocalEngine())).filter(
            where
        )
    return build_frame(spark, select_slices_in(target.snapshot, where, LocalEngine()))


def _as_changes(
    target: WriteTarget, rows: DataFrame, action: Column, new: Column | None = None
) -> DataFrame:
    empty = sf.lit(None).cast(spark_schema(target.schema))
    old = sf.struct(*(f"`{name}`" for name in rows.columns))
    return rows.select(
        action.alias(ACTION),
        old.alias(OLD_ROW),
        (new if new is not None else empty).alias(NEW_ROW),
    )


# -- merge: source rows against table rows ---------------------------------------------------------


def _merge(
    spark: SparkSession, target: WriteTarget, request: MergeRequest, caches: ExitStack
) -> tuple[DataFrame, bool]:
    """Each row of the source beside the row that it matches, if there is one."""
    source = _keep(drop_meta_columns(request.source), caches)
    check_merge(target, request, source)
    ranges, has_nulls = _ranges(source, request, spark_schema(target.schema))
    table_rows = build_frame(spark, select_slices_in(target.snapshot, ranges, LocalEngine()))
    changes = join_sides(target, request, source, table_rows, TARGET)
    keys, is_global = target.ref.properties.keys, target.index.is_global
    return changes, adds_new_keys(request, keys, is_global=is_global) and not has_nulls


def _ranges(source: DataFrame, request: MergeRequest, table: Any) -> tuple[Predicate | None, bool]:
    """The ranges of the source's values to merge on, and whether one is null; runs a job."""
    aggregates: list[Column] = []
    for number, name in enumerate(request.on):
        column = sf.col(f"`{name}`").cast(table[name].dataType)
        aggregates += [f(column).alias(f"{f.__name__}{number}") for f in (sf.min, sf.max)]
        aggregates.append(sf.count_if(column.isNull()).alias(f"nulls{number}"))
    row = source.agg(*aggregates).collect()[0]
    terms: list[Predicate] = []
    for number, name in enumerate(request.on):
        low, high = row[f"min{number}"], row[f"max{number}"]
        if low is not None and not isinstance(low, float):
            terms += [Compare(name, ">=", low), Compare(name, "<=", high)]
    has_nulls = any(row[f"nulls{number}"] for number in range(len(request.on)))
    return All(tuple(terms)) if terms else None, has_nulls


def _refuse_ambiguous(changes: DataFrame, request: MergeRequest) -> None:
    """Fail if several rows of the source match one row: that would not say what becomes of it."""
    old = changes.filter(sf.col(ACTION) != INSERT)
    ids = [sf.col(f"{OLD_ROW}.{name}") for name in META_FIELDS if "operation" not in name]
    first = sf.first(sf.col(OLD_ROW))
    repeats = old.groupBy(*ids).agg(sf.count("*").alias("n"), first.alias("row")).filter("n > 1")
    for row in repeats.limit(1).collect():
        raise ambiguous(request.on, {name: row["row"][name] for name in request.on})


def _collect(target: WriteTarget, changes: DataFrame, *, are_new: bool) -> ChangedRows:
    """The changes, in this process."""
    table = changes.toArrow()
    is_added = pc.equal(table.column(ACTION), INSERT)
    present, new_table = table.filter(pc.invert(is_added)), table.filter(is_added)
    old_rows = rows_in(present, OLD_ROW, target.snapshot.schema)
    is_deleted = pc.equal(present.column(ACTION), DELETE)
    updated_rows = rows_in(present.filter(pc.invert(is_deleted)), NEW_ROW, target.schema)
    new = rows_in(new_table, NEW_ROW, target.schema)
    return ChangedRows(
        StoredRows(old_rows), np.asarray(to_flags(is_deleted)), updated_rows, new, are_new
    )
