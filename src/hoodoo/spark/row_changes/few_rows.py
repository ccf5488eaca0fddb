"""Few changes: tasks look for the rows that may change, and the driver plans what becomes of them.

    source -> driver; its values -> tasks, one for each slice -> rows that match -> driver

Expressions are Spark's all the same: it computes them for the rows that were found. A merge without
expressions needs no more of it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from hoodoo.errors import InputError, SchemaMismatch, UnsupportedFeature
from hoodoo.format.arrow_types import normalise
from hoodoo.rows.arrays import to_flags
from hoodoo.rows.conform import conform
from hoodoo.rows.filter import to_predicate
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
from hoodoo.spark.schema import arrow_schema, spark_schema, to_frame, to_spark
from hoodoo.spark.write.collect_rows import collect_few
from hoodoo.spark.write.prepare import drop_meta_columns
from hoodoo.write.planning.assignment import WriteTarget
from hoodoo.write.row_changes.find_rows import (
    Condition,
    StoredRowFinder,
    are_known,
    columns_to_merge,
    columns_to_update,
    match_values,
    to_condition,
)
from hoodoo.write.row_changes.operations import delete_rows, merge_rows
from hoodoo.write.row_changes.requests import (
    Change,
    Clause,
    DeleteWhere,
    MergeRequest,
    UpdateWhere,
    adds_new_keys,
    ambiguous,
    check_update,
)
from hoodoo.write.row_changes.write_changes import ChangedRows, StoredRows

_NUMBER = "_hoodoo_number"
_ON = "_hoodoo_on"


def collect_changes(
    spark: SparkSession, request: Change, finder: StoredRowFinder
) -> ChangedRows | None:
    """The changes, if they are few, and tasks can tell which rows they concern; else None."""
    if not finder.most_bytes:
        return None
    match request:
        case DeleteWhere():
            condition = _condition(finder.target, request.where)
            stored_rows = condition and finder.find(condition, ())
            return delete_rows(finder.target, stored_rows) if stored_rows else None
        case UpdateWhere():
            return _update(spark, request, finder)
        case MergeRequest():
            return _merge(spark, request, finder)


def _condition(target: WriteTarget, where: Any) -> Condition | None:
    """A condition that hoodoo reads itself, as reads do; of others Spark knows what they mean."""
    if where is None:
        return Condition()
    try:
        predicate = to_predicate(where, target.snapshot.schema)
    except InputError:
        return None
    return to_condition(predicate, target.snapshot.schema)


def _update(
    spark: SparkSession, request: UpdateWhere, finder: StoredRowFinder
) -> ChangedRows | None:
    target = finder.target
    check_update(request.values, target.snapshot.schema, target.ref.properties.keys)
    condition = _condition(target, request.where)
    if condition is None:
        return None
    columns = columns_to_update(request.values, target.snapshot.schema)
    stored_rows = finder.find(condition, columns)
    if stored_rows is None:
        return None
    rows = _number(spark, stored_rows.rows).select(
        sf.lit(UPDATE).alias(ACTION),
        sf.col(_NUMBER).alias(OLD_ROW),
        build_updated_row(target, request.values).alias(NEW_ROW),
    )
    return _to_changes(target, stored_rows, rows.toArrow(), are_new=False)


def _merge(
    spark: SparkSession, request: MergeRequest, finder: StoredRowFinder
) -> ChangedRows | None:
    target, rows = finder.target, drop_meta_columns(request.source)
    check_merge(target, request, rows)
    fields = [target.schema.field(name) for name in request.on]
    if any(pa.types.is_floating(f.type) or pa.types.is_nested(f.type) for f in fields):
        return None  # Arrow and Spark do not agree on what is equal
    schema = _schema_in_arrow(rows)
    if schema is None:
        return None
    table, most_bytes = spark_schema(target.schema), finder.most_bytes or 0
    if _needs_no_spark(request, rows.schema, table):
        plain = collect_few(rows, most_bytes)
        if plain is None:
            return None
        return merge_rows(finder, replace(request, source=conform(plain, schema)))
    keys = {
        f"{_ON}{n}": sf.col(f"`{name}`").cast(table[name].dataType)
        for n, name in enumerate(request.on)
    }
    source = collect_few(rows.withColumns(keys), most_bytes)
    if source is None:
        return None
    columns = [source.column(name) for name in keys]
    try:
        values = pa.table({f.name: c.cast(f.type) for f, c in zip(fields, columns, strict=True)})
    except pa.ArrowException:
        return None  # a value that a column of the table cannot have
    merge_columns = columns_to_merge(request, target.schema, rows.columns)
    stored_rows = finder.find(match_values(values), merge_columns)
    if stored_rows is None:
        return None
    mine = to_frame(spark, source.select(rows.columns), rows.schema)
    theirs = sf.broadcast(_number(spark, stored_rows.rows))
    changes = join_sides(target, request, mine, theirs, f"{TARGET}.{_NUMBER}").toArrow()
    _refuse_ambiguous(stored_rows, changes, request)
    is_new = adds_new_keys(request, target.ref.properties.keys, is_global=target.index.is_global)
    has_nulls = not pc.all(are_known(values), min_count=0).as_py()
    return _to_changes(target, stored_rows, changes, are_new=is_new and not has_nulls)


def _needs_no_spark(request: MergeRequest, source: StructType, table: StructType) -> bool:
    """Whether rows are taken over as they are: no expressions, and the types of the table."""
    clauses = [c for c in (request.update, request.delete, request.insert) if c is not None]
    types = {field.name: field.dataType for field in table}
    return all(clause == Clause() for clause in clauses) and all(
        field.dataType == types.get(field.name, field.dataType) for field in source
    )


def _schema_in_arrow(rows: DataFrame) -> pa.Schema | None:
    """None if rows cannot come to the driver and go back: odd types, or a column name twice."""
    if len({name.lower() for name in rows.columns}) < len(rows.columns):
        return None
    try:
        return normalise(arrow_schema(rows.schema))
    except (SchemaMismatch, UnsupportedFeature):
        return None


def _number(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """Rows in Spark, each with its position."""
    numbers = pa.array(np.arange(rows.num_rows), pa.int64())
    numbered_rows = to_spark(rows.append_column(_NUMBER, numbers))
    return to_frame(spark, numbered_rows, spark_schema(numbered_rows.schema))


def _refuse_ambiguous(stored_rows: StoredRows, changes: pa.Table, request: MergeRequest) -> None:
    """Fail if several rows of the source match one row: that would not say what becomes of it."""
    counts = pc.value_counts(changes.column(OLD_ROW).drop_null())
    repeats = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
    if len(repeats):
        row = stored_rows.rows.select(request.on).slice(repeats[0].as_py(), 1)
        raise ambiguous(request.on, row.to_pylist()[0])


def _to_changes(
    target: WriteTarget, stored_rows: StoredRows, changes: pa.Table, *, are_new: bool
) -> ChangedRows:
    """What Spark computed, as a change of the rows that were found."""
    action = changes.column(ACTION)
    is_added = to_flags(pc.equal(action, INSERT))
    old_rows = stored_rows.take(changes.column(OLD_ROW).filter(pa.array(~is_added)).to_numpy())
    is_delete = np.asarray(to_flags(pc.equal(action, DELETE)))[~is_added]
    updated_rows, new_rows = (
        rows_in(changes.filter(pc.equal(action, each)), NEW_ROW, target.schema)
        for each in (UPDATE, INSERT)
    )
    return ChangedRows(old_rows, is_delete, updated_rows, new_rows, are_new)


def rows_in(changes: pa.Table, column: str, schema: pa.Schema) -> pa.Table:
    """The rows in a column of structs, in the types of a schema."""
    structs = changes.column(column)
    rows = pa.Table.from_arrays(structs.flatten(), [field.name for field in structs.type])
    return conform(rows, schema)
