"""Bloom filters of files with more keys than filters are made for, asked by Apache Hudi's class."""

from __future__ import annotations

import pyarrow as pa
import pytest
from support.hudi_classes import HudiClasses

from hoodoo.format.parquet.bloom_filter import BloomFilter
from hoodoo.format.parquet.key_summary import BLOOM, BLOOM_TYPE, BloomOptions, KeySummary


@pytest.mark.parametrize("count", [1_000, 150_000])
def test_hudi_bloom_filter_finds_all_keys_with_few_false_positives(
    classes: HudiClasses, count: int
) -> None:
    keys = pa.array([f"key-{n}" for n in range(count)])
    summary = KeySummary(BloomOptions(entries=60_000, fpp=1e-9, max_entries=100_000))
    summary.add(pa.chunked_array([keys]))
    values = summary.key_values()
    ours = BloomFilter.decode(values[BLOOM], values[BLOOM_TYPE])
    theirs = classes.bloom_filter(values[BLOOM], values[BLOOM_TYPE])
    present = keys[:: count // 300].to_pylist()
    absent = [f"absent-{n}" for n in range(1_000)]
    assert all(theirs.mightContain(key) for key in present)
    told = [theirs.mightContain(key) for key in absent]
    assert told == ours.might_contain(pa.array(absent)).tolist()
    assert sum(told) < 10
