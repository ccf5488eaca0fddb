"""Filters: parsing, negation, and pruning that never drops a row that matches."""

from __future__ import annotations

from datetime import date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodoo.errors import InputError
from hoodoo.model.predicate import (
    All,
    AnyOf,
    Compare,
    In,
    IsNull,
    Like,
    Predicate,
    ValueRange,
    columns_of,
    from_tuples,
    may_match,
    negate,
    parse_filter,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = 1", Compare("a", "=", 1)),
        ("a == -1.5", Compare("a", "=", -1.5)),
        ("`odd name` <> 'it''s'", Compare("odd name", "!=", "it's")),
        ("a is not null", IsNull("a", True)),
        ("a.b in (1, 2, null)", In("a.b", (1, 2, None))),
        ("a not in ('x')", In("a", ("x",), True)),
        ("a like 'x%'", Like("a", "x%")),
        ("a between 1 and 3", All((Compare("a", ">=", 1), Compare("a", "<=", 3)))),
        ("d >= date '2026-01-02'", Compare("d", ">=", date(2026, 1, 2))),
        (
            "t < timestamp '2026-01-02 03:04:05'",
            Compare("t", "<", datetime(2026, 1, 2, 3, 4, 5)),
        ),
        (
            "a = 1 or b = 2 and not c = true",
            AnyOf((Compare("a", "=", 1), All((Compare("b", "=", 2), Compare("c", "!=", True))))),
        ),
        (
            "(a = 1 OR b = 2) AND c = 3",
            All((AnyOf((Compare("a", "=", 1), Compare("b", "=", 2))), Compare("c", "=", 3))),
        ),
    ],
)
def test_filter_text_is_parsed(text: str, expected: Predicate) -> None:
    assert parse_filter(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "a =",
        "a = 1 and",
        "(a = 1",
        "a = 1)",
        "= 1",
        "a in ()",
        "a = 'x",
        "a ~ 1",
        "a not = 1",
        "d = date 'tomorrow'",
        "not " * 200 + "a = 1",
        "(" * 200 + "a = 1" + ")" * 200,
    ],
)
def test_bad_filter_error_is_one_line(text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_filter(text)
    assert "\n" not in str(caught.value)


def test_pyarrow_filter_tuples_are_converted() -> None:
    assert from_tuples([("a", "==", 1), ("b", "in", {2})]) == All(
        (Compare("a", "=", 1), In("b", (2,)))
    )
    assert from_tuples([[("a", "<", 1)], [("b", "!=", 2)]]) == AnyOf(
        (All((Compare("a", "<", 1),)), All((Compare("b", "!=", 2),)))
    )
    with pytest.raises(InputError):
        from_tuples([("a", "~", 1)])


VALUES = st.none() | st.integers(-3, 3)
ROWS = st.lists(st.fixed_dictionaries({"a": VALUES, "b": VALUES}), min_size=1, max_size=6)
LEAVES = st.one_of(
    st.builds(
        Compare,
        st.sampled_from("ab"),
        st.sampled_from(["=", "!=", "<", "<=", ">", ">="]),
        st.integers(-4, 4),
    ),
    st.builds(In, st.sampled_from("ab"), st.lists(VALUES, max_size=3).map(tuple), st.booleans()),
    st.builds(IsNull, st.sampled_from("ab"), st.booleans()),
)
PREDICATES = st.recursive(
    LEAVES,
    lambda inner: (
        st.builds(All, st.lists(inner, min_size=1, max_size=3).map(tuple))
        | st.builds(AnyOf, st.lists(inner, min_size=1, max_size=3).map(tuple))
    ),
    max_leaves=6,
)


def truth(predicate: Predicate, row: dict[str, int | None]) -> bool | None:
    """SQL's three-valued logic, spelled out."""
    match predicate:
        case All(terms):
            found = [truth(term, row) for term in terms]
            return False if False in found else None if None in found else True
        case AnyOf(terms):
            found = [truth(term, row) for term in terms]
            return True if True in found else None if None in found else False
        case IsNull(column, negated):
            return (row[column] is None) != negated
        case In(column, values, negated):
            value = row[column]
            if value is None:
                return None
            if value in values:
                return not negated
            return None if None in values else negated
        case Compare(column, op, literal):
            value = row[column]
            if value is None:
                return None
            return {
                "=": value == literal,
                "!=": value != literal,
                "<": value < literal,
                "<=": value <= literal,
                ">": value > literal,
                ">=": value >= literal,
            }[op]
        case _:
            raise AssertionError(predicate)


def ranges_of(rows: list[dict[str, int | None]]) -> dict[str, ValueRange]:
    found = {}
    for column in "ab":
        values = [row[column] for row in rows if row[column] is not None]
        found[column] = ValueRange(
            min(values, default=None),
            max(values, default=None),
            may_be_null=len(values) < len(rows),
            may_have_values=bool(values),
        )
    return found


@given(PREDICATES, ROWS)
def test_pruning_keeps_every_file_with_a_matching_row(
    predicate: Predicate, rows: list[dict[str, int | None]]
) -> None:
    if any(truth(predicate, row) for row in rows):
        assert may_match(predicate, ranges_of(rows))


@given(PREDICATES, ROWS)
def test_negation_swaps_true_and_false_and_leaves_unknown(
    predicate: Predicate, rows: list[dict[str, int | None]]
) -> None:
    for row in rows:
        here = truth(predicate, row)
        assert truth(negate(predicate), row) is (None if here is None else not here)


def test_pruning_does_prune() -> None:
    ranges = {"a": ValueRange(10, 20, may_be_null=False), "s": ValueRange("bb", "cc")}
    assert not may_match(parse_filter("a < 10"), ranges)
    assert not may_match(parse_filter("a is null"), ranges)
    assert not may_match(parse_filter("a in (1, 30)"), ranges)
    assert not may_match(parse_filter("s like 'd%'"), ranges)
    assert not may_match(parse_filter("s like 'a%'"), ranges)
    assert may_match(parse_filter("s like 'b%'"), ranges)
    assert may_match(parse_filter("unknown = 1"), ranges)
    assert may_match(parse_filter("a = 'not a number'"), ranges)


def test_columns() -> None:
    assert columns_of(parse_filter("a = 1 and (b = 2 or c is null)")) == {"a", "b", "c"}
