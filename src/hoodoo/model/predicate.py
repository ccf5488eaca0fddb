"""Row filters: a small tree, parsed from SQL text, and the question that prunes files.

`hoodoo.rows.filter` turns a tree into an Arrow expression; `may_match` asks whether a file or
partition whose column ranges are known can hold a row for which the filter is true.

`SqlReader` reads SQL text token by token, for this parser and that of `hoodoo.rows.expressions`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from hoodoo.errors import InputError

# -- SQL text, token by token ----------------------------------------------------------------------


Token = tuple[str, str, int]
"""Its kind, its text, and where that begins."""

MAX_DEPTH = 100


class SqlReader:
    """Takes the tokens of a text one after the other; errors are `InputError`s that tell where.

    A pattern has a group for each kind of token; `word` or `name`, and `op`, are what `take` takes.
    """

    def __init__(self, text: str, pattern: re.Pattern[str], what: str) -> None:
        self._text, self._what = text, what
        self._tokens = list(self._split(pattern))
        self._position = 0

    def _split(self, pattern: re.Pattern[str]) -> Iterator[Token]:
        position = 0
        while self._text[position:].strip():
            match = pattern.match(self._text, position)
            if match is None or match.lastgroup is None:
                raise self.error("unexpected character", position)
            yield match.lastgroup, match[match.lastgroup], match.start(match.lastgroup)
            position = match.end()

    def error(self, reason: str, position: int | None = None) -> InputError:
        """What is wrong at a position, or at the next token."""
        at = self.peek()[2] if position is None else position
        near = self._text[at : at + 20].strip()
        where = f"near {near!r}" if near else "at the end"
        return InputError(f"{self._what} {self._text!r}: {reason} {where}")

    def peek(self) -> Token:
        """The next token; of kind `end` behind the last."""
        if self._position < len(self._tokens):
            return self._tokens[self._position]
        return ("end", "", len(self._text))

    def next(self) -> Token:
        """The next token, taken."""
        token = self.peek()
        self._position += 1
        return token

    def take(self, *words: str) -> str | None:
        """The next token, in lower case, if it is one of these; else None, and it stays."""
        kind, text, _ = self.peek()
        if kind in ("word", "name", "op") and text.lower() in words:
            self._position += 1
            return text.lower()
        return None

    def expect(self, word: str) -> None:
        """Take this word, or fail."""
        if not self.take(word):
            raise self.error(f"expected {word!r}")

    def expect_end(self) -> None:
        """Fail if there is more."""
        if self.peek()[0] != "end":
            raise self.error("unexpected text")

    def take_string(self) -> str:
        """A text in single quotes, without them."""
        kind, text, position = self.next()
        if kind != "string":
            raise self.error("expected a text in single quotes", position)
        return unquote(text)

    def take_moment(self, word: str, position: int) -> date:
        """What follows `date` or `timestamp`, whose position is given."""
        iso = self.take_string()
        try:
            return date.fromisoformat(iso) if word == "date" else datetime.fromisoformat(iso)
        except ValueError:
            raise self.error(f"{iso!r} is not a {word}", position) from None


def unquote(text: str) -> str:
    """A token of a text without its quotes."""
    return text[1:-1].replace("''", "'")


# -- the tree and its parser -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Compare:
    """`column op value`; null on either side makes it neither true nor false."""

    column: str
    op: str
    value: Any


@dataclass(frozen=True, slots=True)
class In:
    """`column in (values)`."""

    column: str
    values: tuple[Any, ...]
    is_negated: bool = False


@dataclass(frozen=True, slots=True)
class IsNull:
    """`column is null`."""

    column: str
    is_negated: bool = False


@dataclass(frozen=True, slots=True)
class Like:
    """`column like 'pattern'` with % and _."""

    column: str
    pattern: str
    is_negated: bool = False


@dataclass(frozen=True, slots=True)
class All:
    """Every term is true."""

    terms: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one term is true."""

    terms: tuple[Predicate, ...]


Predicate = Compare | In | IsNull | Like | All | AnyOf

_OPPOSITE = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


def negate(predicate: Predicate) -> Predicate:
    """A predicate that is true where this one is false (and neither where it is neither)."""
    match predicate:
        case Compare(column, op, value):
            return Compare(column, _OPPOSITE[op], value)
        case In(column, values, negated):
            return In(column, values, not negated)
        case IsNull(column, negated):
            return IsNull(column, not negated)
        case Like(column, pattern, negated):
            return Like(column, pattern, not negated)
        case All(terms):
            return AnyOf(tuple(negate(term) for term in terms))
        case AnyOf(terms):
            return All(tuple(negate(term) for term in terms))


def columns_of(predicate: Predicate) -> frozenset[str]:
    """The columns that a predicate looks at."""
    if isinstance(predicate, All | AnyOf):
        return frozenset().union(*(columns_of(term) for term in predicate.terms))
    return frozenset((predicate.column,))


def map_values(predicate: Predicate, change: Callable[[str, Any], Any]) -> Predicate:
    """The same predicate with each literal replaced by `change(column, literal)`."""
    match predicate:
        case Compare(column, op, value):
            return Compare(column, op, change(column, value))
        case In(column, values, negated):
            return In(column, tuple(change(column, value) for value in values), negated)
        case All(terms):
            return All(tuple(map_values(term, change) for term in terms))
        case AnyOf(terms):
            return AnyOf(tuple(map_values(term, change) for term in terms))
        case _:
            return predicate


@dataclass(frozen=True, slots=True)
class ValueRange:
    """What is known of a column's values in a file; None bounds mean unknown."""

    low: Any = None
    high: Any = None
    may_be_null: bool = True
    may_have_values: bool = True

    @classmethod
    def exactly(cls, value: Any) -> ValueRange:
        """The range of one known value, null included."""
        if value is None:
            return cls(may_have_values=False)
        return cls(value, value, may_be_null=False)


def may_match(predicate: Predicate, ranges: Mapping[str, ValueRange]) -> bool:
    """Whether some row within these ranges can make the predicate true. Errs towards yes."""
    if isinstance(predicate, All):
        return all(may_match(term, ranges) for term in predicate.terms)
    if isinstance(predicate, AnyOf):
        return any(may_match(term, ranges) for term in predicate.terms)
    value_range = ranges.get(predicate.column)
    if value_range is None:
        return True
    if isinstance(predicate, IsNull):
        return value_range.may_have_values if predicate.is_negated else value_range.may_be_null
    if not value_range.may_have_values:
        return False
    try:
        return _value_may_match(predicate, value_range)
    except TypeError:  # literal and statistics of kinds that do not compare
        return True


def _value_may_match(predicate: Compare | In | Like, value_range: ValueRange) -> bool:
    low, high = value_range.low, value_range.high
    match predicate:
        case Compare(_, op, value):
            return value is not None and _compare_may_match(op, value, low, high)
        case In(_, values, False):
            return any(v is not None and _compare_may_match("=", v, low, high) for v in values)
        case In(_, values, True):
            # `x not in (..., null)` is never true.
            return None not in values and not (_is_single(low, high) and low in values)
        case Like(_, pattern, False):
            prefix = re.split(r"[%_\\]", pattern, maxsplit=1)[0]
            below = high is not None and high < prefix
            return not below and not (low is not None and low[: len(prefix)] > prefix)
        case _:
            return True


def _compare_may_match(op: str, value: Any, low: Any, high: Any) -> bool:
    match op:
        case "=":
            return not (low is not None and value < low) and not (high is not None and value > high)
        case "!=":
            return not (_is_single(low, high) and low == value)
        case "<":
            return not (low is not None and low >= value)
        case "<=":
            return not (low is not None and low > value)
        case ">":
            return not (high is not None and high <= value)
        case _:
            return not (high is not None and high < value)


def _is_single(low: Any, high: Any) -> bool:
    """Whether only one value is there; statistics of floats do not tell of NaN."""
    return low is not None and bool(low == high) and not isinstance(low, float)


def from_tuples(filters: Sequence[Any]) -> Predicate:
    """pyarrow's spelling: a list of (column, op, value), or a list of such lists (any of)."""
    if all(isinstance(item, tuple) for item in filters):
        return All(tuple(_from_tuple(item) for item in filters))
    if all(isinstance(item, list) for item in filters):
        return AnyOf(tuple(from_tuples(item) for item in filters))
    raise InputError("a filter list holds (column, op, value) tuples, or lists of them")


def _from_tuple(item: tuple[Any, ...]) -> Predicate:
    if len(item) != 3 or not isinstance(item[0], str):
        raise InputError(f"{item!r} is not a (column, op, value) filter")
    column, op, value = item
    op = {"==": "=", "<>": "!="}.get(op, op)
    if op in ("in", "not in"):
        return In(column, tuple(value), op == "not in")
    if op not in _OPPOSITE:
        raise InputError(f"unknown operator {op!r} in filter {item!r}")
    return Compare(column, op, value)


_TOKEN = re.compile(
    r"""\s*(?:
      (?P<number>[+-]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?)
    | (?P<string>'(?:[^']|'')*')
    | (?P<quoted>`[^`]+`|"[^"]+")
    | (?P<word>[^\W\d][\w.]*)
    | (?P<op><=|>=|<>|!=|==|=|<|>|\(|\)|,)
    )""",
    re.VERBOSE,
)


def parse_filter(text: str) -> Predicate:
    """Read `city = 'sf' and (fare > 10 or note is null)`; `InputError` says where it fails."""
    return _Parser(text).parse()


class _Parser(SqlReader):
    """Recursive descent over: or > and > not > comparison."""

    def __init__(self, text: str) -> None:
        super().__init__(text, _TOKEN, "filter")
        self._depth = 0

    def parse(self) -> Predicate:
        predicate = self._any_of()
        self.expect_end()
        return predicate

    def _any_of(self) -> Predicate:
        terms = [self._conjunction()]
        while self.take("or"):
            terms.append(self._conjunction())
        return terms[0] if len(terms) == 1 else AnyOf(tuple(terms))

    def _conjunction(self) -> Predicate:
        terms = [self._term()]
        while self.take("and"):
            terms.append(self._term())
        return terms[0] if len(terms) == 1 else All(tuple(terms))

    def _term(self) -> Predicate:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self.error("nested too deeply")
        try:
            if self.take("not"):
                return negate(self._term())
            if self.take("("):
                predicate = self._any_of()
                self.expect(")")
                return predicate
            return self._comparison()
        finally:
            self._depth -= 1

    def _comparison(self) -> Predicate:
        column = self._column()
        if self.take("is"):
            is_negative = self.take("not") is not None
            self.expect("null")
            return IsNull(column, is_negative)
        is_negative = self.take("not") is not None
        if self.take("in"):
            return In(column, self._list(), is_negative)
        if self.take("like"):
            return Like(column, self.take_string(), is_negative)
        if self.take("between"):
            low = self._literal()
            self.expect("and")
            between = All((Compare(column, ">=", low), Compare(column, "<=", self._literal())))
            return negate(between) if is_negative else between
        kind, op, position = self.peek()
        op = {"==": "=", "<>": "!="}.get(op, op)
        if is_negative or kind != "op" or op not in _OPPOSITE:
            raise self.error("expected a comparison", position)
        self._position += 1
        return Compare(column, op, self._literal())

    def _column(self) -> str:
        kind, text, position = self.peek()
        if kind == "quoted":
            text = text[1:-1]
        elif kind != "word":
            raise self.error("expected a column name", position)
        self._position += 1
        return text

    def _list(self) -> tuple[Any, ...]:
        self.expect("(")
        values = [self._literal()]
        while self.take(","):
            values.append(self._literal())
        self.expect(")")
        return tuple(values)

    def _literal(self) -> Any:
        kind, text, position = self.peek()
        if kind == "string":
            return self.take_string()
        self._position += 1
        if kind == "number":
            return int(text) if text.lstrip("+-").isdigit() else float(text)
        word = text.lower() if kind == "word" else ""
        if word in ("true", "false", "null"):
            return {"true": True, "false": False, "null": None}[word]
        if word in ("date", "timestamp"):
            return self.take_moment(word, position)
        hint = " (a text has single quotes)" if kind == "quoted" else ""
        raise self.error(f"expected a value{hint}", position)
