"""What a change makes of rows, as columns of Spark: what is done to each, and what it becomes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from hoodoo.errors import InputError
from hoodoo.spark.schema import spark_schema
from hoodoo.write.planning.assignment import WriteTarget
from hoodoo.write.row_changes.requests import Clause, MergeRequest, Values, check_columns, check_on

ACTION, OLD_ROW, NEW_ROW = "_hoodoo_action", "_hoodoo_old", "_hoodoo_new"
UPDATE, DELETE, INSERT = "U", "D", "I"
SOURCE, TARGET = "source", "target"


def build_updated_row(target: WriteTarget, values: Values) -> Column:
    """The row that an update makes of one."""
    return _build_row(target, values, lambda name: sf.col(f"`{name}`"))


def check_merge(target: WriteTarget, merge: MergeRequest, source: DataFrame) -> None:
    """Fail if a merge names columns that are not there."""
    check_on(merge.on, target.schema.names, source.columns)
    for clause in (merge.update, merge.insert):
        if clause is not None and clause.values is not None:
            check_columns(clause.values, target.schema)


def join_sides(
    target: WriteTarget, merge: MergeRequest, source: DataFrame, table_rows: DataFrame, old: str
) -> DataFrame:
    """What a merge does: an action, a column of the stored row's under a name, and the new row."""
    source_rows = source.select(_as_struct(source.columns).alias(SOURCE))
    target_rows = table_rows.select(_as_struct(table_rows.columns).alias(TARGET))
    equal, table = sf.lit(True), spark_schema(target.schema)
    for name in merge.on:
        mine = sf.col(f"{SOURCE}.`{name}`").cast(table[name].dataType)
        equal = equal & (mine == sf.col(f"{TARGET}.`{name}`"))
    both = source_rows.join(target_rows, equal, "left").withColumns(
        {"s": sf.col(SOURCE), "t": sf.col(TARGET)}
    )
    is_matched = sf.col(TARGET).isNotNull()
    action = sf.when(is_matched & _holds(merge.delete), DELETE)
    action = action.when(is_matched & _holds(merge.update), UPDATE)
    action = action.when(~is_matched & _holds(merge.insert), INSERT)
    of_source = {n: sf.col(f"{SOURCE}.`{n}`") for n in source.columns if n in target.schema.names}
    new = sf.lit(None).cast(table)
    if merge.update is not None:
        values = _values_of(merge.update, of_source)
        updated_row = _build_row(target, values, lambda name: sf.col(f"{TARGET}.`{name}`"))
        new = sf.when(is_matched, updated_row)
    if merge.insert is not None:
        values = _values_of(merge.insert, of_source)
        new_row = _build_row(target, values, lambda name: sf.lit(None))
        new = sf.when(~is_matched, new_row).otherwise(new)
    changes = both.select(action.alias(ACTION), sf.col(old).alias(OLD_ROW), new.alias(NEW_ROW))
    return changes.filter(sf.col(ACTION).isNotNull())


def _as_struct(names: Sequence[str]) -> Column:
    return sf.struct(*(f"`{name}`" for name in names))


def _build_row(target: WriteTarget, values: Values, present: Callable[[str], Column]) -> Column:
    """A row of the table: new values, and what `present` gives for other columns."""
    columns = []
    for field in spark_schema(target.schema).fields:
        name = field.name
        column = _value(values[name]) if name in values else present(name)
        columns.append(column.cast(field.dataType).alias(name))
    return sf.struct(*columns)


def _holds(clause: Clause | None) -> Column:
    if clause is None:
        return sf.lit(False)
    if clause.condition is None:
        return sf.lit(True)
    return sf.coalesce(_value(clause.condition), sf.lit(False))


def _values_of(clause: Clause, of_source: Values) -> Values:
    return of_source if clause.values is None else clause.values


def _value(value: Any) -> Column:
    if isinstance(value, pc.Expression):
        raise InputError("on Spark a value is SQL text, a Column, or a plain value")
    if isinstance(value, str):
        return sf.expr(value)
    return value if isinstance(value, Column) else sf.lit(value)
