"""Delete, update and merge on Spark: what matches is found and computed by Spark's own plans.

    snapshot -> rows that match -> changes (`ACTION`, `OLD`, `NEW`) -> one plan -> one commit

Few changes are collected by the driver, which plans them as the local engine does; many are tagged
and written where they are (`changed_frames`). Files are left out by what is known of their columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
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
from hoodoo.rows.conform import conform
from hoodoo.rows.filter import to_predicate
from hoodoo.rows.merge import to_flags
from hoodoo.spark.changed_frames import (
    ACTION,
    DELETE,
    INSERT,
    NEW_ROW,
    OLD_ROW,
    UPDATE,
    ChangedFrames,
    write_frames,
)
from hoodoo.spark.engine import SparkEngine, engine_on
from hoodoo.spark.prepare import drop_meta_columns
from hoodoo.spark.read import build_frame
from hoodoo.spark.ready import ready_session, ready_workers
from hoodoo.spark.schema import spark_schema
from hoodoo.spark.session import describe_jobs, session_of, translate_spark_errors
from hoodoo.table.ref import TableRef
from hoodoo.table.scan import select_in
from hoodoo.write.assignment import Target
from hoodoo.write.change_requests import (
    Change,
    Clause,
    DeleteWhere,
    Merge,
    UpdateWhere,
    Values,
    adds_new_keys,
    ambiguous,
    check_columns,
    check_on,
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


def change(ref: TableRef, request: Change, given: Any) -> CommitResult | None:
    """Carry a change out, by the session that is given or of the source; None if there is none.

    Needs: `ref` was reopened for this write (`write.retry`).
    """
    spark = ready_workers(given) if isinstance(given, DataFrame) else ready_session(given)
    phases, text = Phases(ref.env), f"hoodoo {ref.properties.name}: find rows to change"
    with ExitStack() as cached:
        with phases.timed("read"), describe_jobs(spark, text), _translated_errors():
            target = Target.load(ref)
            changes, are_new = _changes(spark, target, request, cached)
            changes = _keep(changes, cached)
            counts = {row[0]: row[1] for row in changes.groupBy(ACTION).count().collect()}
            if isinstance(request, Merge):
                _refuse_ambiguous(changes, request)
        if not counts:
            return None
        few = FEW_ROWS if ref.config.get(DRIVER_MAX_BYTES) else 0
        if sum(counts.values()) <= few:
            with phases.timed("read"), _translated_errors():
                changed = _collect(target, changes, are_new=are_new)
            return write_changed(target, changed, engine_on(spark, ref), phases)
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
            return _as_changes(target, rows, sf.lit(DELETE), None), False
        case UpdateWhere():
            check_update(request.values, target.snapshot.schema, target.ref.properties.keys)
            rows = matching(spark, target, request.where)
            new = _new_row(target, request.values, lambda name: sf.col(f"`{name}`"))
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


def _as_changes(target: Target, rows: DataFrame, action: Column, new: Column | None) -> DataFrame:
    empty = sf.lit(None).cast(spark_schema(target.schema))
    old = sf.struct(*(f"`{name}`" for name in rows.columns))
    return rows.select(
        action.alias(ACTION),
        old.alias(OLD_ROW),
        (new if new is not None else empty).alias(NEW_ROW),
    )


def _new_row(target: Target, values: Values, present: Any) -> Column:
    """A row of the table: new values, and what `present` gives for other columns."""
    columns = []
    for field in spark_schema(target.schema).fields:
        name = field.name
        column = _value(values[name]) if name in values else present(name)
        columns.append(column.cast(field.dataType).alias(name))
    return sf.struct(*columns)


def _value(value: Any) -> Column:
    if isinstance(value, pc.Expression):
        raise InputError("on Spark a value is SQL text, a Column, or a plain value")
    if isinstance(value, str):
        return sf.expr(value)
    return value if isinstance(value, Column) else sf.lit(value)


# -- merge --------------------------------------------------------------------------------------


def _merge(
    spark: SparkSession, target: Target, request: Merge, cached: ExitStack
) -> tuple[DataFrame, bool]:
    """Each row of the source beside the row that it matches, if there is one."""
    source = _keep(drop_meta_columns(request.source), cached)
    table = spark_schema(target.schema)
    check_on(request.on, target.schema.names, source.columns)
    for clause in (request.update, request.insert):
        if clause is not None and clause.values is not None:
            check_columns(clause.values, target.schema)
    ranges, has_nulls = _ranges(source, request, table)
    stored = build_frame(spark, select_in(target.snapshot, ranges, LocalEngine()))
    left = source.select(sf.struct(*(f"`{name}`" for name in source.columns)).alias("source"))
    right = stored.select(sf.struct(*(f"`{name}`" for name in stored.columns)).alias("target"))
    equal = sf.lit(True)
    for name in request.on:
        mine = sf.col(f"source.`{name}`").cast(table[name].dataType)
        equal = equal & (mine == sf.col(f"target.`{name}`"))
    both = left.join(right, equal, "left").withColumns(
        {"s": sf.col("source"), "t": sf.col("target")}
    )
    is_matched = sf.col("target").isNotNull()
    action = sf.when(is_matched & _holds(request.delete), DELETE)
    action = action.when(is_matched & _holds(request.update), UPDATE)
    action = action.when(~is_matched & _holds(request.insert), INSERT)
    of_source = {n: sf.col(f"source.`{n}`") for n in source.columns if n in target.schema.names}
    update = _clause_values(request.update, of_source)
    updated = _new_row(target, update, lambda name: sf.col(f"target.`{name}`"))
    inserted = _new_row(
        target, _clause_values(request.insert, of_source), lambda name: sf.lit(None)
    )
    changes = both.select(
        action.alias(ACTION),
        sf.col("target").alias(OLD_ROW),
        sf.when(is_matched, updated).otherwise(inserted).alias(NEW_ROW),
    ).filter(sf.col(ACTION).isNotNull())
    keys, is_global = target.ref.properties.keys, target.index.is_global
    return changes, adds_new_keys(request, keys, is_global=is_global) and not has_nulls


def _holds(clause: Clause | None) -> Column:
    if clause is None:
        return sf.lit(False)
    if clause.condition is None:
        return sf.lit(True)
    return sf.coalesce(_value(clause.condition), sf.lit(False))


def _clause_values(clause: Clause | None, of_source: Values) -> Values:
    return of_source if clause is None or clause.values is None else clause.values


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
    action = table.column(ACTION)
    stored = _rows(table.filter(pc.not_equal(action, INSERT)), OLD_ROW, target.snapshot.schema)
    deleted = to_flags(pc.equal(action.filter(pc.not_equal(action, INSERT)), DELETE))
    updated = _rows(table.filter(pc.equal(action, UPDATE)), NEW_ROW, target.schema)
    added = _rows(table.filter(pc.equal(action, INSERT)), NEW_ROW, target.schema)
    return ChangedRows(StoredRows(stored), np.asarray(deleted), updated, added, are_new)


def _rows(table: pa.Table, column: str, schema: pa.Schema) -> pa.Table:
    """The rows in a column of structs, in the types of a schema."""
    structs = table.column(column)
    rows = pa.Table.from_arrays(structs.flatten(), [field.name for field in structs.type])
    return conform(rows, schema)
