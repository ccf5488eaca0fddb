"""Hashes of texts: of their content alone, and different for different texts."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodoo.errors import InputError
from hoodoo.rows.hashes import text_hashes

NUMBER, MASK = 0x9E3779B97F4A7C15, 2**64 - 1


def by_hand(text: str) -> int:
    """The same by the definition, a byte at a time."""
    value = 0
    for byte in text.encode():
        value = (value + byte) * NUMBER & MASK
    value = value + len(text.encode()) & MASK
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        value = (value ^ value >> shift) * factor & MASK
    return value - 2**64 if value >> 63 else value


@given(st.lists(st.text(), max_size=40), st.integers(0, 5))
def test_it_is_the_polynomial_whatever_stands_beside(texts: list[str], skip: int) -> None:
    column = pa.array(["beside", *texts], pa.string())[1:]
    assert text_hashes(column).to_pylist() == [by_hand(text) for text in texts]
    pieces = pa.chunked_array([column[:skip], column[skip:]])
    assert text_hashes(pieces) == text_hashes(column)


def test_different_keys_have_different_hashes() -> None:
    texts = [str(n) for n in range(50_000)]
    texts += ["", "\0", "\0\0", *(f"trip-{n:012d}" for n in range(50_000))]
    texts += [f"{n}:{m}" for n in range(200) for m in range(200)]
    assert len(set(text_hashes(pa.array(texts)).to_pylist())) == len(set(texts))


def test_none_and_null() -> None:
    assert text_hashes(pa.array([], pa.string())).to_pylist() == []
    assert text_hashes(pa.array([""], pa.large_string())).to_pylist() == [by_hand("")]
    with pytest.raises(InputError, match="null"):
        text_hashes(pa.array(["a", None]))
