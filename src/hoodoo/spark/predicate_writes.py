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

from hoodoo.config.tasks import DRIVER_MAX_BYTES
from hoodoo.engine.local import LocalEngine
from hoodoo.errors import InputError
from hoodoo.format.schema import META_FIELDS
from hoodoo.model.predicate import All, Compare, Predicate
from hoodoo.model.progress import OnProgress
from hoodoo.rows.filter import to_predicate
from hoodoo.rows.merge import to_flags
from hoodoo.spark.change_columns import (
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
from hoodoo.spark.changed_frames import ChangedFrames, write_frames
from hoodoo.spark.collect_changes import collect_changes, rows_in
from hoodoo.spark.engine import SparkEngine, engine_on
from hoodoo.spark.prepare import drop_meta_columns
from hoodoo.spark.read import build_frame
from hoodoo.spark.ready import ready_session, ready_workers
from hoodoo.spark.schema import spark_schema
from hoodoo.spark.session import describe_jobs, session_of, translate_spark_errors
from hoodoo.table.ref import TableRef
from hoodoo.table.scan import select_in
from hoodoo.write.assignment import Target
from hoodoo.write.candidates import Finder
from hoodoo.write.change_requests import (
    Change,
    DeleteWhere,
    Merge,
    UpdateWhere,
    adds_new_keys,
    ambiguous,
    check_update,
)
from hoodoo.write.changed_rows import ChangedRows, StoredRows, write_changed
from hoodoo.write.commit import CommitResult
from hoodoo.write.execute import Phases

FEW_ROWS = 10_000
"""So many changes are few for certain: the driver plans them."""
_BAD_EXPRESSIONS = (
    AnalysisException,
    ParseException,
    ArithmeticException,
    DateTimeException,
    NumberFormatException,
)


def engine_for(ref: TableRef, given: Any) -> SparkEngine:
    """Runs what is done per file, in the session that is given, or of these rows."""
    return engine_on(session_of(given) if isinstance(given, DataFrame) else given, ref)


def change(
    ref: TableRef, request: Change, given: Any, on_progress: OnProgress | None = None
) -> CommitResult | None:
    """Carry a change out, by the session that is given or of the source; None if there is none.

    Needs: `ref` was reopened for this write (`write.retry`).
    """
    spark = ready_workers(given) if isinstance(given, DataFrame) else ready_session(given)
    phases, engine = Phases(ref.env, on_progress), engine_on(spark, ref)
    text = f"hoodoo {ref.properties.name}: find rows to change"
    with phases.timed("read"), describe_jobs(spark, text), _translated_errors():
        target = Target.load(ref)
        finder = Finder(target, engine, phases, most_bytes=ref.config.get(DRIVER_MAX_BYTES))
        changed = collect_changes(spark, request, finder)
    if changed is not None:
        return None if changed.is_nothing else write_changed(target, changed, engine, phases)
    with ExitStack() as cached:
        with phases.timed("read"), describe_jobs(spark, text), _translated_errors():
            changes, are_new = _changes(spark, target, request, cached)
            changes = _keep(changes, cached)
            counts = {row[0]: row[1] for row in changes.groupBy(ACTION).count().collect()}
            if isinstance(request, Merge):
                _refuse_ambiguous(changes, request)
        if not counts:
            return None
        if sum(counts.values()) <= (FEW_ROWS if ref.config.get(DRIVER_MAX_BYTES) else 0):
            with phases.timed("read"), _translated_errors():
                changed = _collect(target, changes, are_new=are_new)
            return write_changed(target, changed, engine, phases)
        frames = ChangedFrames(changes, counts, are_new)
        return write_frames(spark, target, frames, lambda frame: _keep(frame, cached), phases)


@contextmanager
def _translated_errors() -> Iterator[None]:
    """What Spark says of an expression that it cannot read or compute, in one line."""
    with translate_spark_errors():
        try:
            yield
        except _BAD_EXPRESSIONS as error:
            text = " ".join(str(error).split("\n\n")[0].split("JVM stacktrace")[0].split())
            raise InputError(f"Spark refuses an expression: {text[:300]}") from None


def _keep(frame: DataFrame, cached: ExitStack) -> DataFrame:
    frame = frame.persist(StorageLevel.MEMORY_AND_DISK)
    cached.callback(frame.unpersist)
    return frame


def _changes(
    spark: SparkSession, target: Target, request: Change, cached: ExitStack
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
        case Merge():
            return _merge(spark, target, request, cached)


def matching(spark: SparkSession, target: Target, where: Any) -> DataFrame:
    """The rows for which a condition is true: one that hoodoo can read also leaves out files."""
    if isinstance(where, str):
        try:
            to_predicate(where, target.snapshot.schema)
        except InputError:
            where = sf.expr(where)
    if isinstance(where, Column):
        return build_frame(spark, select_in(target.snapshot, None, LocalEngine())).filter(where)
    return build_frame(spark, select_in(target.snapshot, where, LocalEngine()))


def _as_changes(
    target: Target, rows: DataFrame, action: Column, new: Column | None = None
) -> DataFrame:
    empty = sf.lit(None).cast(spark_schema(target.schema))
    old = sf.struct(*(f"`{name}`" for name in rows.columns))
    return rows.select(
        action.alias(ACTION),
        old.alias(OLD_ROW),
        (new if new is not None else empty).alias(NEW_ROW),
    )


# -- merge --------------------------------------------------------------------------------------


def _merge(
    spark: SparkSession, target: Target, request: Merge, cached: ExitStack
) -> tuple[DataFrame, bool]:
    """Each row of the source beside the row that it matches, if there is one."""
    source = _keep(drop_meta_columns(request.source), cached)
    check_merge(target, request, source)
    ranges, has_nulls = _ranges(source, request, spark_schema(target.schema))
    stored = build_frame(spark, select_in(target.snapshot, ranges, LocalEngine()))
    changes = join_sides(target, request, source, stored, TARGET)
    keys, is_global = target.ref.properties.keys, target.index.is_global
    return changes, adds_new_keys(request, keys, is_global=is_global) and not has_nulls


def _ranges(source: DataFrame, request: Merge, table: Any) -> tuple[Predicate | None, bool]:
    """The ranges of the source's values to merge on, and whether one is null; runs a job."""
    asked: list[Column] = []
    for number, name in enumerate(request.on):
        column = sf.col(f"`{name}`").cast(table[name].dataType)
        asked += [f(column).alias(f"{f.__name__}{number}") for f in (sf.min, sf.max)]
        asked.append(sf.count_if(column.isNull()).alias(f"nulls{number}"))
    row = source.agg(*asked).collect()[0]
    terms: list[Predicate] = []
    for number, name in enumerate(request.on):
        low, high = row[f"min{number}"], row[f"max{number}"]
        if low is not None and not isinstance(low, float):
            terms += [Compare(name, ">=", low), Compare(name, "<=", high)]
    has_nulls = any(row[f"nulls{number}"] for number in range(len(request.on)))
    return All(tuple(terms)) if terms else None, has_nulls


def _refuse_ambiguous(changes: DataFrame, request: Merge) -> None:
    """Fail if several rows of the source match one row: that would not say what becomes of it."""
    old = changes.filter(sf.col(ACTION) != INSERT)
    ids = [sf.col(f"{OLD_ROW}.{name}") for name in META_FIELDS if "operation" not in name]
    first = sf.first(sf.col(OLD_ROW))
    found = old.groupBy(*ids).agg(sf.count("*").alias("n"), first.alias("row")).filter("n > 1")
    for row in found.limit(1).collect():
        raise ambiguous(request.on, {name: row["row"][name] for name in request.on})


def _collect(target: Target, changes: DataFrame, *, are_new: bool) -> ChangedRows:
    """The changes, in this process."""
    table = changes.toArrow()
    is_added = pc.equal(table.column(ACTION), INSERT)
    present, added = table.filter(pc.invert(is_added)), table.filter(is_added)
    stored = rows_in(present, OLD_ROW, target.snapshot.schema)
    is_deleted = pc.equal(present.column(ACTION), DELETE)
    updated = rows_in(present.filter(pc.invert(is_deleted)), NEW_ROW, target.schema)
    new = rows_in(added, NEW_ROW, target.schema)
    return ChangedRows(StoredRows(stored), np.asarray(to_flags(is_deleted)), updated, new, are_new)
