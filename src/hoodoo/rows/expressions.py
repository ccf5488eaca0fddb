"""SQL expressions -> Arrow expressions, and their values for rows.

    fare * 2 + tip        coalesce(note, 'none')        concat(upper(city), '-', trip_id)

Values, columns, `+ - * / ||`, comparisons, `and or not`, `is null`, `in`, `like`, `between`,
`case when`, and the functions of `FUNCTIONS`. Null is what SQL makes of it. Whatever else a text
holds is an `InputError` that names it.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.acero as acero
import pyarrow.compute as pc

from hoodoo.errors import InputError
from hoodoo.format.schema import META_FIELDS
from hoodoo.model.predicate import MAX_DEPTH, SqlReader, unquote
from hoodoo.rows.keys import field_type

Resolve = Callable[[str], tuple[pc.Expression, pa.DataType]]
"""The column that a name of an expression means, and its type; an `InputError` if there is none."""


def _concat(*texts: pc.Expression) -> pc.Expression:
    return pc.binary_join_element_wise(*(text.cast(pa.string()) for text in texts), pc.scalar(""))


FUNCTIONS: Mapping[str, Callable[..., pc.Expression]] = {
    "coalesce": lambda *values: pc.coalesce(*values),
    "concat": _concat,
    "upper": lambda text: pc.utf8_upper(text),
    "lower": lambda text: pc.utf8_lower(text),
    "trim": lambda text: pc.utf8_trim_whitespace(text),
    "abs": lambda number: pc.abs_checked(number),
}

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<number>(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?)
    | (?P<string>'(?:[^']|'')*')
    | (?P<name>(?:[^\W\d]\w*|`[^`]+`|"[^"]+")(?:\.(?:[^\W\d]\w*|`[^`]+`|"[^"]+"))*)
    | (?P<op>\|\||<=|>=|<>|!=|==|[=<>(),+*/-])
    )""",
    re.VERBOSE,
)
_COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def parse_expression(text: str, resolve: Resolve) -> pc.Expression:
    """Read an expression; `InputError` says where it fails.

    Numbers are decimals where a column is one: sums of theirs are exact.
    """
    parser = _Parser(text, resolve)
    expression = parser.parse()
    return _Parser(text, resolve, exact=True).parse() if parser.has_decimals else expression


def column_names(text: str) -> frozenset[str]:
    """The columns that an expression names, whatever table it is for."""
    names: set[str] = set()

    def resolve(name: str) -> tuple[pc.Expression, pa.DataType]:
        names.add(name)
        return pc.field(name), pa.string()

    parse_expression(text, resolve)
    return frozenset(names)


def columns_by_name(schema: pa.Schema) -> Resolve:
    """Names mean the columns of a schema; dots reach into structs."""

    def resolve(name: str) -> tuple[pc.Expression, pa.DataType]:
        return column_of(schema, name, prefix="")

    return resolve


def column_of(schema: pa.Schema, name: str, *, prefix: str) -> tuple[pc.Expression, pa.DataType]:
    """A column of a table whose columns have these names behind a prefix, and its type."""
    kind = field_type(schema, name)
    if kind is None:
        names = [each for each in schema.names if each not in META_FIELDS]
        raise InputError(
            f"unknown column {name!r}; there are {names}. A text has single quotes: '{name}'"
        )
    root, *inner = [name] if name in schema.names else name.split(".")
    return pc.field(prefix + root, *inner) if inner else pc.field(prefix + root), kind


def evaluate(rows: pa.Table, expressions: Mapping[str, pc.Expression]) -> pa.Table:
    """The values of expressions for each row, in order; errors in them are `InputError`s."""
    if not expressions:
        return rows.select([])
    source = acero.Declaration("table_source", acero.TableSourceNodeOptions(rows))
    options = acero.ProjectNodeOptions(list(expressions.values()), list(expressions))
    plan = acero.Declaration.from_sequence([source, acero.Declaration("project", options)])
    try:
        return plan.to_table(use_threads=False)
    except (pa.ArrowException, KeyError) as error:
        raise InputError(f"an expression cannot be computed: {_first_line(error)}") from None


def are_true(rows: pa.Table, condition: pc.Expression | None) -> pa.Array:
    """Which rows fulfil a condition: null is no. Without one, all do."""
    if condition is None:
        return pa.repeat(True, rows.num_rows)
    flags = evaluate(rows, {"condition": condition}).column(0)
    if not pa.types.is_boolean(flags.type):
        raise InputError(f"a condition is true or false, not of type {flags.type}")
    return pc.fill_null(flags, False).combine_chunks()


def cast_values(values: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    """Values in the type of a column; one that does not fit is an `InputError`, never rounded."""
    kind = field.type
    try:
        if pa.types.is_timestamp(kind) and kind.tz and pa.types.is_string(values.type):
            return pc.assume_timezone(values.cast(pa.timestamp(kind.unit)), kind.tz)
        return values.cast(kind)
    except pa.ArrowException as error:
        raise InputError(f"column {field.name} of type {kind}: {_first_line(error)}") from None


def repeat_value(value: Any, field: pa.Field, count: int) -> pa.ChunkedArray:
    """A Python value as a column of its type."""
    try:
        if isinstance(value, bool) and not pa.types.is_boolean(field.type):
            raise TypeError  # Arrow would take it for a number
        # Arrow rounds a number that it is given together with a type.
        is_float = isinstance(value, float)
        one = pa.array([value]).cast(field.type) if is_float else pa.array([value], field.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        raise InputError(f"{value!r} does not fit column {field.name} of {field.type}") from None
    return pa.chunked_array([one.take(pa.array([0] * count, pa.int64()))], field.type)


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


class _Parser(SqlReader):
    """Recursive descent over: or > and > not > comparison > + - || > * / > sign > value."""

    def __init__(self, text: str, resolve: Resolve, *, exact: bool = False) -> None:
        super().__init__(text, _TOKEN, "expression")
        self._resolve, self._exact = resolve, exact
        self.has_decimals = False
        self._floats: list[pc.Expression] = []
        self._depth = 0

    def parse(self) -> pc.Expression:
        expression = self._any_of()
        self.expect_end()
        return expression

    def _any_of(self) -> pc.Expression:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self.error("nested too deeply")
        result = self._conjunction()
        while self.take("or"):
            result = result | self._conjunction()
        self._depth -= 1
        return result

    def _conjunction(self) -> pc.Expression:
        result = self._negation()
        while self.take("and"):
            result = result & self._negation()
        return result

    def _negation(self) -> pc.Expression:
        negations = 0
        while self.take("not"):
            negations += 1
        result = self._comparison()
        return ~result if negations % 2 else result

    def _comparison(self) -> pc.Expression:
        operand = self._sum()
        if self.take("is"):
            is_negative = self.take("not")
            self.expect("null")
            return operand.is_valid() if is_negative else operand.is_null()
        op = self.take(*_COMPARISONS)
        if op:
            return _COMPARISONS[op](*self._alike(operand, self._sum()))
        is_negative = self.take("not")
        result = self._membership(operand)
        if result is None:
            if is_negative:
                raise self.error("expected in, like or between")
            return operand
        return ~result if is_negative else result

    def _membership(self, operand: pc.Expression) -> pc.Expression | None:
        if self.take("in"):
            self.expect("(")
            result = operator.eq(*self._alike(operand, self._sum()))
            while self.take(","):
                result = result | operator.eq(*self._alike(operand, self._sum()))
            self.expect(")")
            return result
        if self.take("like"):
            return pc.match_like(operand, self.take_string())
        if self.take("between"):
            low = self._sum()
            self.expect("and")
            high = self._sum()
            return operator.ge(*self._alike(operand, low)) & operator.le(
                *self._alike(operand, high)
            )
        return None

    def _sum(self) -> pc.Expression:
        result = self._product()
        while op := self.take("+", "-", "||"):
            other = self._product()
            if op == "||":
                result = _concat(result, other)
            else:
                add = pc.add_checked if op == "+" else pc.subtract_checked
                result = add(*self._alike(result, other))
        return result

    def _product(self) -> pc.Expression:
        result = self._signed_value()
        while op := self.take("*", "/"):
            other = self._signed_value()
            if op == "*":
                result = pc.multiply_checked(*self._alike(result, other))
            else:  # as in Spark, a quotient of whole numbers is none
                result = pc.divide_checked(result.cast(pa.float64()), other.cast(pa.float64()))
        return result

    def _signed_value(self) -> pc.Expression:
        minus = 0
        while sign := self.take("-", "+"):
            minus += sign == "-"
        value = self._value()
        return pc.negate_checked(value) if minus % 2 else value

    def _value(self) -> pc.Expression:
        kind, text, position = self.next()
        if kind == "number":
            return self._number(text)
        if kind == "string":
            return pc.scalar(unquote(text))
        if text == "(":
            inside = self._any_of()
            self.expect(")")
            return inside
        if kind != "name":
            raise self.error("expected a value", position)
        return self._word(text, position)

    def _word(self, text: str, position: int) -> pc.Expression:
        """A word: a constant, a date, a `case`, a function, or a column."""
        word = text.lower()
        if word in ("true", "false", "null"):
            return pc.scalar({"true": True, "false": False, "null": None}[word])
        if word == "case":
            return self._case()
        if self.peek()[0] == "string" and word in ("date", "timestamp"):
            return pc.scalar(pa.scalar(self.take_moment(word, position)))
        if not self.take("("):
            return self._column("".join(_name_parts(text)))
        function = FUNCTIONS.get(word)
        if function is None:
            function_names = ", ".join(FUNCTIONS)
            raise self.error(f"there is no function {text!r} (only {function_names})", position)
        values = [] if self.peek()[1] == ")" else [self._any_of()]
        while self.take(","):
            values.append(self._any_of())
        self.expect(")")
        try:
            return function(*values)
        except TypeError:
            raise self.error(f"{text} does not take {len(values)} values", position) from None

    def _column(self, name: str) -> pc.Expression:
        """A column; narrow numbers are widened, for Arrow would compute in what is narrow."""
        column, kind = self._resolve(name)
        self.has_decimals = self.has_decimals or pa.types.is_decimal(kind)
        if pa.types.is_integer(kind):
            return column.cast(pa.int64())
        return column.cast(pa.float64()) if pa.types.is_floating(kind) else column

    def _number(self, text: str) -> pc.Expression:
        if self._exact and not set(text) & set("eE"):
            return pc.scalar(pa.scalar(Decimal(text)))
        if not text.isdigit():
            self._floats.append(pc.scalar(float(text)))
            return self._floats[-1]
        if int(text) >= 2**63:
            raise InputError(f"{text} is too large a number")
        return pc.scalar(int(text))

    def _alike(
        self, left: pc.Expression, right: pc.Expression
    ) -> tuple[pc.Expression, pc.Expression]:
        """Both sides of an operator: beside `1.5` all is of 64 bits, where Arrow would take 32."""
        if any(side is number for number in self._floats for side in (left, right)):
            return left.cast(pa.float64()), right.cast(pa.float64())
        return left, right

    def _case(self) -> pc.Expression:
        branches: list[tuple[pc.Expression, pc.Expression]] = []
        while self.take("when"):
            condition = self._any_of()
            self.expect("then")
            branches.append((condition, self._any_of()))
        if not branches:
            raise self.error("expected 'when'")
        result = self._any_of() if self.take("else") else pc.scalar(None)
        self.expect("end")
        for condition, value in reversed(branches):
            result = pc.if_else(pc.coalesce(condition, pc.scalar(False)), value, result)
        return result


def _name_parts(text: str) -> Iterator[str]:
    """The pieces of a name, quotes taken off, with the dots in between."""
    for piece in re.findall(r"`[^`]+`|\"[^\"]+\"|[^`\".]+|\.", text):
        yield piece[1:-1] if piece[0] in '`"' else piece
