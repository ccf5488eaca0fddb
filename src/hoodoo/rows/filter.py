"""Filters that users give -> Arrow expressions, and literals in the columns' own types."""

from __future__ import annotations

from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.errors import InputError
from hoodoo.model.predicate import (
    All,
    AnyOf,
    Compare,
    In,
    IsNull,
    Like,
    Predicate,
    columns_of,
    from_tuples,
    map_values,
    parse_filter,
)

Filter: TypeAlias = "str | list[Any] | Predicate | pc.Expression"


def to_predicate(filter_: Filter, schema: pa.Schema) -> Predicate | pc.Expression:
    """What a user gave as `filter`: SQL text, pyarrow tuples, a predicate, or an expression."""
    if isinstance(filter_, pc.Expression):
        return filter_
    if isinstance(filter_, str):
        return bind(parse_filter(filter_), schema)
    if isinstance(filter_, list):
        return bind(from_tuples(filter_), schema)
    if isinstance(filter_, Predicate):
        return bind(filter_, schema)
    raise InputError(
        f"a {type(filter_).__name__} cannot be a filter; SQL text (\"city = 'sf' and fare > 3\"), "
        "a list of tuples or a pyarrow expression can"
    )


def bind(predicate: Predicate, schema: pa.Schema) -> Predicate:
    """The predicate with every literal in its column's type; unknown columns are an error."""
    for column in sorted(columns_of(predicate)):
        if column not in schema.names:
            raise InputError(f"unknown column {column!r} in the filter; there are {schema.names}")

    def convert(column: str, value: Any) -> Any:
        kind = schema.field(column).type
        try:
            return _convert_value(value, kind)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            raise InputError(
                f"{value!r} in the filter does not fit column {column} of type {kind}"
            ) from None

    return map_values(predicate, convert)


def _convert_value(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if isinstance(value, float) and pa.types.is_integer(kind):
        return value  # `n > 1.5` is meant as it stands
    if isinstance(value, bool) != pa.types.is_boolean(kind):
        raise TypeError
    scalar = pa.scalar(value)
    if pa.types.is_integer(kind) and pa.types.is_integer(scalar.type):
        return value  # a literal beyond the column's range compares as it stands
    if pa.types.is_decimal(kind) and not pa.types.is_string(scalar.type):
        scalar = pa.scalar(str(value))
    if pa.types.is_timestamp(kind) and kind.tz and pa.types.is_string(scalar.type):
        scalar = pc.assume_timezone(pa.scalar(value).cast(pa.timestamp("us")), kind.tz)
    return scalar.cast(kind).as_py()


def expression(predicate: Predicate, schema: pa.Schema) -> pc.Expression:
    """A bound predicate as an Arrow expression with SQL's logic of nulls."""
    if isinstance(predicate, All | AnyOf):
        terms = [expression(term, schema) for term in predicate.terms]
        if not terms:
            return pc.scalar(isinstance(predicate, All))
        result = terms[0]
        for term in terms[1:]:
            result = result & term if isinstance(predicate, All) else result | term
        return result
    column = pc.field(predicate.column)
    kind = schema.field(predicate.column).type
    match predicate:
        case Compare(_, op, value):
            return _comparison(column, op, _literal(value, kind))
        case In(_, values, negated):
            return _membership(column, values, kind, is_negative=negated)
        case IsNull(_, negated):
            return column.is_valid() if negated else column.is_null()
        case Like(_, pattern, negated):
            is_match = pc.match_like(column, pattern)
            return ~is_match if negated else is_match


def _literal(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return pa.scalar(None, kind)
    if pa.types.is_integer(kind):
        return pa.scalar(value)
    return pa.scalar(value, kind)


def _membership(
    column: pc.Expression, values: tuple[Any, ...], kind: pa.DataType, *, is_negative: bool
) -> pc.Expression:
    present = [value for value in values if value is not None]
    if is_negative and len(present) < len(values):
        return pc.scalar(False)
    is_match = column.isin(
        pa.array(present, None if pa.types.is_integer(kind) and present else kind)
    )
    return column.is_valid() & (~is_match if is_negative else is_match)


def _comparison(column: pc.Expression, op: str, value: Any) -> pc.Expression:
    match op:
        case "=":
            return column == value
        case "!=":
            return column != value
        case "<":
            return column < value
        case "<=":
            return column <= value
        case ">":
            return column > value
        case _:
            return column >= value


def expression_columns(filter_: Predicate | pc.Expression, schema: pa.Schema) -> list[str]:
    """The columns of `schema` that a filter needs; all of them for an opaque expression."""
    if isinstance(filter_, pc.Expression):
        return list(schema.names)
    return sorted(columns_of(filter_))


def partition_value(text: str | None, kind: pa.DataType) -> tuple[bool, Any]:
    """Whether a partition path's text tells the column's value, and that value."""
    if text is None:
        # The path of a null is also that of an empty text.
        return not (pa.types.is_string(kind) or pa.types.is_large_string(kind)), None
    try:
        return True, pa.scalar(text).cast(kind).as_py()
    except (pa.ArrowException, ValueError, OverflowError):
        return False, None
