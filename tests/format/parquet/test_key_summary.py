"""What footers say of keys is the same however the keys come; crowded filters stay useful."""

from __future__ import annotations

import hashlib

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodoo.format.parquet.bloom_filter import BloomFilter
from hoodoo.format.parquet.key_summary import (
    BLOOM,
    BLOOM_TYPE,
    MAX_KEY,
    MIN_KEY,
    BloomOptions,
    KeySummary,
    key_bounds,
)

USUAL = BloomOptions(entries=60_000, fpp=1e-9, max_entries=100_000)
TINY = BloomOptions(entries=10, fpp=1e-3, max_entries=20)


def summary(keys: list[str], size: int, bloom: BloomOptions | None = USUAL) -> dict[str, str]:
    """The key-values of keys that come in batches of a size."""
    gathered = KeySummary(bloom)
    for start in range(0, len(keys), size):
        gathered.add(pa.chunked_array([keys[start : start + size]], pa.string()))
    return gathered.key_values()


def filter_of(values: dict[str, str]) -> BloomFilter:
    return BloomFilter.decode(values[BLOOM], values[BLOOM_TYPE])


@given(st.lists(st.text(max_size=6), max_size=60), st.integers(1, 9))
def test_batches_make_no_difference(keys: list[str], size: int) -> None:
    for bloom in (None, TINY, USUAL):
        assert summary(keys, size, bloom) == summary(keys, len(keys) or 1, bloom)


@given(st.lists(st.text(max_size=6), min_size=1, max_size=60), st.integers(1, 9))
def test_bounds_and_members(keys: list[str], size: int) -> None:
    values = summary(keys, size, TINY)
    assert (values[MIN_KEY], values[MAX_KEY]) == key_bounds(pa.chunked_array([keys]))
    assert filter_of(values).might_contain(pa.array(keys, pa.string())).all()


def test_up_to_its_capacity_a_filter_is_the_one_that_apache_hudi_makes() -> None:
    assert USUAL.capacity == 120_000
    keys = [f"key-{n}" for n in range(120_000)]
    built = BloomFilter.build(pa.array(keys), entries=60_000, max_entries=100_000)
    assert filter_of(summary(keys, 7_000)) == built


def test_a_crowded_filter_still_tells() -> None:
    keys = [hashlib.md5(str(n).encode()).hexdigest() for n in range(400_000)]
    absent = pa.array([f"absent-{n}" for n in range(10_000)])
    crowded = filter_of(summary(keys, 50_000))
    assert crowded.might_contain(pa.array(keys)).all()
    wrong = crowded.might_contain(absent).mean()
    assert wrong < 0.04
    as_hudi = BloomFilter.build(pa.array(keys), entries=60_000, max_entries=100_000)
    assert len(as_hudi.rows[0]) == len(crowded.rows[0])
    assert as_hudi.might_contain(absent).mean() > 2 * wrong


def test_a_null_key_says_that_there_are_none() -> None:
    gathered = KeySummary(USUAL)
    gathered.add(pa.chunked_array([["a"]]))
    gathered.add(pa.chunked_array([["b", None]]))
    gathered.add(pa.chunked_array([["c"]]))
    assert gathered.key_values() == {}


@pytest.mark.parametrize("count", [1_000, 50_000, 300_000])
def test_the_size_is_foreseen(count: int) -> None:
    keys = [str(n) for n in range(count)]
    gathered = KeySummary(USUAL)
    gathered.add(pa.chunked_array([keys]))
    foreseen = gathered.size_bytes
    assert foreseen == pytest.approx(len(gathered.key_values()[BLOOM]), rel=0.1)
