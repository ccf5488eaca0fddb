"""SQL expressions on Arrow rows: values, nulls, types, and what is refused."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from hoodoo.errors import InputError
from hoodoo.rows.expressions import are_true, columns_by_name, evaluate, parse_expression

ROWS = pa.table(
    {
        "n": pa.array([1, None, 16_777_217], pa.int32()),
        "f": [0.5, 1.5, None],
        "t": ["a", None, "B c"],
        "d": [date(2024, 1, 2)] * 3,
        "m": pa.array([Decimal("1.10"), None, Decimal("-2.25")], pa.decimal128(10, 2)),
        "s": [{"x": 1}, {"x": 2}, None],
        "odd name": [7, 8, 9],
    }
)


def values(text: str) -> list[Any]:
    expression = parse_expression(text, columns_by_name(ROWS.schema))
    return evaluate(ROWS, {"it": expression}).column(0).to_pylist()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * 3", [7] * 3),
        ("(1 + 2) * 3 - -1", [10] * 3),
        ("2-1", [1] * 3),
        ("n * 1.5", [1.5, None, 25165825.5]),
        ("7 / 2", [3.5] * 3),
        ("n + f", [1.5, None, None]),
        ("m * 2 + 100000", [Decimal("100002.20"), None, Decimal("99995.50")]),
        ("m * 1.5", [Decimal("1.650"), None, Decimal("-3.375")]),
        ("-m", [Decimal("-1.10"), None, Decimal("2.25")]),
        ("coalesce(n, 0)", [1, 0, 16_777_217]),
        ("concat(upper(t), '-', n)", ["A-1", None, "B C-16777217"]),
        ("t || 'it''s'", ["ait's", None, "B cit's"]),
        ("lower(trim(' X '))", ["x"] * 3),
        ("abs(1 - 5)", [4] * 3),
        ("s.x", [1, 2, None]),
        ("`odd name` + 1", [8, 9, 10]),
        ("case when n > 1 then 'many' when n = 1 then 'one' end", ["one", None, "many"]),
        ("case when n is null then f else 2 end", [2.0, 1.5, 2.0]),
        ("n is null or f is null", [False, True, True]),
        ("n > 0 and f > 1", [False, None, None]),
        ("not n = 1", [False, None, True]),
        ("n in (1, 2)", [True, None, False]),
        ("n not in (1, 2)", [False, None, True]),
        ("t like 'B%'", [False, None, True]),
        ("n not between 0 and 5", [False, None, True]),
        ("d < date '2024-01-03'", [True] * 3),
        ("true and not false", [True] * 3),
        ("NULL", [None] * 3),
    ],
)
def test_values_are_those_of_sql(text: str, expected: list[Any]) -> None:
    assert values(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("n +", "expected a value at the end"),
        ("n ; 1", "unexpected character near ';"),
        ("n 1", "unexpected text near '1'"),
        ("sqrt(n)", "no function 'sqrt'"),
        ("upper(t, t)", "does not take 2 values"),
        ("price", "unknown column 'price'"),
        ("oslo", "A text has single quotes: 'oslo'"),
        ("s.y", "unknown column 's.y'"),
        ("case end", "expected 'when'"),
        ("n not 1", "expected in, like or between"),
        ("date 'soon'", "'soon' is not a date"),
        ("(" * 200 + "1" + ")" * 200, "nested too deeply"),
        ("t + 1", "cannot be computed"),
        ("9223372036854775807 + 1", "overflow"),
        ("9999999999999999999", "too large"),
        ("1 / 0", "divide by zero"),
    ],
)
def test_invalid_expression_raises_input_error_with_position(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        values(text)


def test_a_condition_is_true_or_false() -> None:
    resolve = columns_by_name(ROWS.schema)
    assert are_true(ROWS, parse_expression("f > 1", resolve)).to_pylist() == [False, True, False]
    assert are_true(ROWS, None).to_pylist() == [True] * 3
    with pytest.raises(InputError, match="true or false"):
        are_true(ROWS, parse_expression("n", resolve))
