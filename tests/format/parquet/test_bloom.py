"""Bloom filters: footers and texts that Apache Hudi made are the outside word."""

from __future__ import annotations

import base64
import re
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.fixtures import fixture_tables

from hoodoo.errors import FormatError, InputError, UnsupportedVersion
from hoodoo.format.parquet.bloom_filter import BloomFilter, FilterType

PAGE = Path(__file__).resolve().parents[3] / "docs" / "format" / "base-files.md"

KEYS = ["a", "ab", "abc", "abcd", "TXN-001", "é", "漢字", "😀", "id:1,name:Alice"]
KEYS += ["x" * 33, "ÿÿÿ", "end"]

# What the filter classes of Apache Hudi 1.2.0 made of KEYS: 4 entries, rate 0.01, at most 8.
BY_JAVA = {
    FilterType.DYNAMIC: (
        "/////wAAAAcBAAAAJwAAAAQAAAAIAAAAAv////8AAAAHAQAAACd4+v47P/////8AAAAHAQAAACf6xxkVfQ=="
    ),
    FilterType.SIMPLE: "/////wAAAAcBAAAAJ/r//z9/",
}
SMALL: dict[str, Any] = {"entries": 4, "false_positive_rate": 0.01, "max_entries": 8}


@pytest.mark.parametrize("type_", FilterType)
def test_filters_are_those_of_java(type_: FilterType) -> None:
    built = BloomFilter.build(pa.array(KEYS), type=type_, **SMALL)
    assert built.encode() == BY_JAVA[type_]
    assert BloomFilter.decode(BY_JAVA[type_], type_.value) == built
    assert built.might_contain(pa.array(KEYS)).all()


@pytest.mark.parametrize("name", fixture_tables())
def test_footers_of_fixtures_are_built_again_bit_for_bit(name: str, unpack: Any) -> None:
    table, seen = unpack(name), 0
    for path in sorted(table.rglob("*.parquet")):
        if ".hoodie" in path.parts:
            continue
        file = pq.ParquetFile(path)
        found = file.metadata.metadata or {}
        text = found.get(b"org.apache.hudi.bloomfilter")
        if text is None:
            continue
        seen += 1
        keys = file.read(["_hoodie_record_key"]).column(0)
        stored = BloomFilter.decode(text, found[b"hoodie_bloom_filter_type_code"].decode())
        assert stored.might_contain(keys).all()
        assert stored.encode().encode() == text
        assert BloomFilter.build(keys).encode().encode() == text
    assert seen or "no_metafields" in name or "nometa" in name or "empty" in name


def murmur(data: bytes, seed: int) -> int:
    """The hash, one byte after the other; as a signed number."""
    m, mask = 0x5BD1E995, 0xFFFFFFFF
    h = seed ^ len(data)
    whole = len(data) // 4 * 4
    for (k,) in struct.iter_unpack("<I", data[:whole]):
        k = k * m & mask
        k = (k ^ k >> 24) * m & mask
        h = h * m & mask ^ k
    tail = data[whole:]
    for index, byte in enumerate(tail):
        signed = byte - 256 if byte > 127 else byte
        h = (h ^ signed << 8 * (len(tail) - 1 - index)) & mask
    if tail:
        h = h * m & mask
    h = (h ^ h >> 13) * m & mask
    h ^= h >> 15
    return h - 2**32 if h >= 2**31 else h


def one_by_one(keys: list[str], hashes: int, bits: int, entries: int, most: int) -> list[set[int]]:
    """The bits of each row, by adding key after key as the format's authors do."""
    rows: list[set[int]] = [set()]
    in_row, turn, full = 0, 0, False
    for key in keys:
        if full:
            row = rows[turn % len(rows)]
            turn += 1
        elif in_row >= entries and len(rows) * entries < most:
            rows.append(row := set())
            in_row = 0
        elif in_row >= entries:
            full, row = True, rows[0]
        else:
            row = rows[-1]
        value = 0
        for _ in range(hashes):
            value = murmur(key.encode(), value & 0xFFFFFFFF)
            row.add(abs(value) % bits)
        in_row += 1
    return rows


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=18)


@settings(max_examples=60)
@given(st.lists(TEXTS, max_size=25), st.integers(1, 9), st.integers(0, 30))
def test_rows_grow_and_fill_as_key_after_key(keys: list[str], entries: int, most: int) -> None:
    built = BloomFilter.build(
        pa.array(keys, pa.string()), entries=entries, false_positive_rate=0.05, max_entries=most
    )
    expected = one_by_one(keys, built.hashes, built.bits, entries, most)
    made = [
        {bit for bit in range(built.bits) if row[bit // 8] >> bit % 8 & 1} for row in built.rows
    ]
    assert made == expected
    assert built.last_row_keys == len(keys) - entries * (len(expected) - 1)
    assert BloomFilter.decode(built.encode(), "DYNAMIC_V0") == built
    assert built.might_contain(pa.array(keys, pa.string())).all()


def test_many_keys_of_many_lengths_and_any_arrow_type() -> None:
    texts = [f"{'k' * (index % 23)}{index}" for index in range(40_000)]
    keys = pa.array(texts)
    built = BloomFilter.build(keys)
    assert (built.hashes, built.bits, built.row_keys) == (30, 2_587_966, 60_000)
    chunks = pa.chunked_array([keys[:7], keys[7:30_000], keys[30_000:]])
    assert BloomFilter.build(chunks) == built
    assert BloomFilter.build(keys.cast(pa.large_string())) == built
    assert BloomFilter.build(keys.dictionary_encode()) == built
    absent = pa.array([f"absent-{index}" for index in range(100_000)])
    assert built.might_contain(chunks).all()
    assert not built.might_contain(absent).any()
    mixed = pa.array(["absent-1", texts[5], None, texts[6]])
    assert built.might_contain(mixed).tolist() == [False, True, False, True]


def test_false_positives_are_as_rare_as_asked() -> None:
    keys = pa.array([f"key-{index}" for index in range(5_000)])
    built = BloomFilter.build(keys, entries=5_000, false_positive_rate=0.01)
    absent = pa.array([f"other-{index}" for index in range(20_000)])
    assert 0.005 < built.might_contain(absent).mean() < 0.02


def test_no_keys() -> None:
    built = BloomFilter.build(pa.array([], pa.string()), **SMALL)
    assert len(built.rows) == 1
    assert not any(built.rows[0])
    assert BloomFilter.build(pa.chunked_array([], pa.string()), **SMALL) == built
    assert built.might_contain(pa.array([], pa.string())).tolist() == []
    assert built.might_contain(pa.array(["a", ""])).tolist() == [False, False]


def test_null_key_or_bad_filter_size_is_refused() -> None:
    with pytest.raises(InputError, match="null"):
        BloomFilter.build(pa.array(["a", None]))
    for entries, rate in ((0, 0.1), (-1, 0.1), (5, 0.0), (5, 1.0), (2**30, 1e-9)):
        with pytest.raises(InputError, match="bloom filter"):
            BloomFilter.build(pa.array(["a"]), entries=entries, false_positive_rate=rate)


def text_of(*parts: bytes) -> str:
    return base64.b64encode(b"".join(parts)).decode()


def header(version: int = -1, hashes: int = 2, kind: int = 1, bits: int = 9) -> bytes:
    return struct.pack(">iibi", version, hashes, kind, bits)


@pytest.mark.parametrize(
    ("text", "code", "error"),
    [
        ("", "SIMPLE", FormatError),
        ("####", "SIMPLE", FormatError),
        ("é", "SIMPLE", FormatError),
        ("AAA", "SIMPLE", FormatError),
        (text_of(header(), b"\0"), "SIMPLE", FormatError),
        (text_of(header(), b"\0\0\0"), "SIMPLE", FormatError),
        (text_of(header(hashes=0), b"\0\0"), "SIMPLE", FormatError),
        (text_of(header(hashes=2**31 - 1), b"\0\0"), "SIMPLE", FormatError),
        (text_of(header(bits=0)), "SIMPLE", FormatError),
        (text_of(header(bits=2**31 - 1)), "SIMPLE", FormatError),
        (text_of(header(version=5)), "SIMPLE", UnsupportedVersion),
        (text_of(header(kind=0), b"\0\0"), "SIMPLE", UnsupportedVersion),
        (text_of(header(), b"\0\0"), "DYNAMIC_V9", UnsupportedVersion),
        (text_of(header()), "DYNAMIC_V0", FormatError),
        (text_of(header(), struct.pack(">iii", 4, 0, 0)), "DYNAMIC_V0", FormatError),
        (text_of(header(), struct.pack(">iii", 4, 0, -1)), "DYNAMIC_V0", FormatError),
        (text_of(header(), struct.pack(">iii", 4, 0, 2**31 - 1)), "DYNAMIC_V0", FormatError),
        (
            text_of(header(), struct.pack(">iii", 4, 0, 1), header(bits=10), b"\0\0"),
            "DYNAMIC_V0",
            FormatError,
        ),
    ],
)
def test_bad_texts(text: str, code: str, error: type[FormatError]) -> None:
    with pytest.raises(error, match="bloom filter"):
        BloomFilter.decode(text, code)


@settings(max_examples=150)
@given(st.binary(max_size=60), st.sampled_from(["SIMPLE", "DYNAMIC_V0"]))
def test_garbage_is_a_format_error(data: bytes, code: str) -> None:
    try:
        made = BloomFilter.decode(base64.b64encode(data), code)
    except FormatError:
        return
    assert base64.b64decode(made.encode()) == data


def test_the_worked_example_of_the_page() -> None:
    listing = re.search(r"^```hex bloom-filter\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    assert listing
    data = b"".join(bytes.fromhex(line.split(";")[0]) for line in listing[1].splitlines())
    filter_ = BloomFilter.decode(base64.b64encode(data), "DYNAMIC_V0")
    assert (filter_.hashes, filter_.bits, filter_.row_keys, filter_.last_row_keys) == (4, 10, 2, 1)
    keys = pa.array(["TXN-001", "TXN-002", "TXN-003"])
    rebuilt = BloomFilter.build(keys, entries=2, false_positive_rate=0.1, max_entries=4)
    assert filter_ == rebuilt
    assert filter_.might_contain(pa.array(["TXN-001", "TXN-003", "TXN-009"])).tolist() == [
        True,
        True,
        False,
    ]
