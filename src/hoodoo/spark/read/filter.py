"""Row filters as Spark columns: the same rows as Arrow finds, or no translation at all."""

from __future__ import annotations

import math
from functools import reduce
from operator import and_, eq, ge, gt, le, lt, ne, or_
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from pyspark.sql import Column
from pyspark.sql import functions as sf

from hoodoo.model.predicate import All, AnyOf, Compare, In, IsNull, Like, Predicate
from hoodoo.spark.schema import spark_schema

_OPERATIONS = {"=": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}


def column_filter(predicate: Predicate | pc.Expression, schema: pa.Schema) -> Column | None:
    """A bound filter for Spark; None if only Arrow can tell which rows it means."""
    if isinstance(predicate, pc.Expression) or not _translates(predicate, schema):
        return None
    return _column(predicate, schema)


def _translates(predicate: Predicate, schema: pa.Schema) -> bool:
    match predicate:
        case All(terms) | AnyOf(terms):
            return all(_translates(term, schema) for term in terms)
        case IsNull(column):
            return not pt.is_time(schema.field(column).type)
        case Like(column, pattern):
            # What a backslash means in a pattern is not the same for both.
            return pt.is_string(schema.field(column).type) and "\\" not in pattern
        case In(column, values):
            # Arrow has rules of its own for lists of floats, and finds NaN in them.
            floats = any(isinstance(value, float) for value in values)
            return not floats and _is_comparable(schema.field(column).type, floats=False)
        case Compare(column):
            return _is_comparable(schema.field(column).type, floats=True)


def _is_comparable(type_: pa.DataType, *, floats: bool) -> bool:
    if pt.is_floating(type_):
        return floats
    plain = (pt.is_boolean, pt.is_integer, pt.is_string, pt.is_binary, pt.is_date, pt.is_decimal)
    return any(is_it(type_) for is_it in plain) or bool(pt.is_timestamp(type_))


def _column(predicate: Predicate, schema: pa.Schema) -> Column:
    if isinstance(predicate, All | AnyOf):
        terms = [_column(term, schema) for term in predicate.terms]
        join, alone = (and_, True) if isinstance(predicate, All) else (or_, False)
        return reduce(join, terms) if terms else sf.lit(alone)
    type_ = schema.field(predicate.column).type
    column = sf.col(f"`{predicate.column}`")
    match predicate:
        case Compare(_, op, value):
            return _comparison(column, op, value, type_)
        case In(_, values, negated):
            literals = [_literal(value, type_) for value in values if value is not None]
            if negated and len(literals) < len(values):
                return sf.lit(False)
            is_match = column.isin(*literals) if literals else sf.lit(False)
            return column.isNotNull() & (~is_match if negated else is_match)
        case IsNull(_, negated):
            return column.isNotNull() if negated else column.isNull()
        case Like(_, pattern, negated):
            is_match = column.like(pattern)
            return ~is_match if negated else is_match


def _comparison(column: Column, op: str, value: Any, type_: pa.DataType) -> Column:
    if value is None:
        return sf.lit(False)
    # To Spark NaN is the largest number and equal to itself; to Arrow it is neither.
    if isinstance(value, float) and math.isnan(value):
        return column.isNotNull() if op == "!=" else sf.lit(False)
    if pt.is_floating(type_) and op != "!=":
        return _compare_numbers(column, op, value, type_) & ~sf.isnan(column)
    return _compare(column, op, value, type_)


def _compare_numbers(column: Column, op: str, value: Any, type_: pa.DataType) -> Column:
    """A comparison of floats; Parquet's readers take -0.0 for less than 0.0 and skip its rows."""
    if value != 0 or op in ("<", ">"):
        return _compare(column, op, value, type_)
    if op == "=":
        return _compare_numbers(column, ">=", 0, type_) & _compare_numbers(column, "<=", 0, type_)
    return _compare(column, op, -0.0 if op == ">=" else 0.0, type_)


def _compare(column: Column, op: str, value: Any, type_: pa.DataType) -> Column:
    result: Column = _OPERATIONS[op](column, _literal(value, type_))
    return result


def _literal(value: Any, type_: pa.DataType) -> Column:
    """A constant of a column's type, whatever the session's time zone is."""
    if pt.is_integer(type_):
        return sf.lit(value)  # compares as it stands: a fraction, a number beyond the type
    if pt.is_timestamp(type_):
        micros = pa.scalar(value, type_).cast(pa.timestamp("us", type_.tz)).value
        return _instant(micros) if type_.tz is not None else _local_time(micros)
    if pt.is_date(type_) or pt.is_decimal(type_):
        text = value.isoformat() if pt.is_date(type_) else format(value, "f")
        return sf.lit(text).cast(_spark_type(type_))
    return sf.lit(value).cast(_spark_type(type_))


def _instant(micros: int) -> Column:
    return sf.timestamp_micros(sf.lit(micros))


def _local_time(micros: int) -> Column:
    text = pc.strftime(pa.scalar(micros, pa.timestamp("us")), "%Y-%m-%d %H:%M:%S").as_py()
    return sf.lit(text).cast("timestamp_ntz")


def _spark_type(type_: pa.DataType) -> Any:
    return spark_schema(pa.schema([("value", type_)])).fields[0].dataType
