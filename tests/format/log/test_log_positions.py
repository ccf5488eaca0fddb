"""Record positions against what Apache Hudi 1.2.0 (RoaringBitmap) encodes."""

from __future__ import annotations

import base64
import random
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodoo.errors import FormatError, InputError
from hoodoo.format.log import decode_positions, encode_positions

# Encoded by Apache Hudi's own classes.
KNOWN = [
    ([], "AAAAAAAAAAA="),
    ([0], "AQAAAAAAAAAAAAAAOjAAAAEAAAAAAAAAEAAAAAAA"),
    ([1], "AQAAAAAAAAAAAAAAOjAAAAEAAAAAAAAAEAAAAAEA"),
    ([0, 2], "AQAAAAAAAAAAAAAAOjAAAAEAAAAAAAEAEAAAAAAAAgA="),
    (
        [5, 70000, 4294967296, 4294967297, 12884901888],
        "AwAAAAAAAAAAAAAAOjAAAAIAAAAAAAAAAQAAABgAAAAaAAAABQBwEQEAAAA6MAAAAQAAAAAAAQAQAAAAAAABAAMA"
        "AAA6MAAAAQAAAAAAAAAQAAAAAAA=",
    ),
]
RUNS = [
    (
        [
            *range(10, 100000),
            *range(300000, 300010),
            500000,
            500002,
            *range(800000, 900000),
        ],
        "AQAAAAAAAAAAAAAAOzAFADcAAPX/AQCfhgQACQAHAAEADAD/yg0An7s1AAAAOwAAAEEAAABHAAAASwAAAFEAAAAB"
        "AAoA9f8BAAAAn4YBAOCTCQAgoSKhAQAANf/KAQAAAJ+7",
    ),
    (
        [*range(10, 2000), 70000],
        "AQAAAAAAAAAAAAAAOzABAAEAAMUHAQAAAAEACgDFB3AR",
    ),
]


@pytest.mark.parametrize(("positions", "text"), KNOWN)
def test_known_positions_both_ways(positions, text):
    assert encode_positions(positions) == text
    assert decode_positions(text, count=len(positions)).tolist() == positions


@pytest.mark.parametrize(("positions", "text"), RUNS)
def test_run_containers_are_read(positions, text):
    assert decode_positions(text).tolist() == positions


def test_a_dense_container_is_a_bitmap():
    positions = np.arange(10_000) * 3
    text = encode_positions(positions)
    assert text.startswith("AQAAAAAAAAAAAAAAOjAAAAEAAAAAAA8nEAAAAEmSJEmSJEmSJEmS")
    assert len(base64.b64decode(text)) == 8 + 4 + 8 + 4 + 4 + 8192
    assert decode_positions(text).tolist() == positions.tolist()


@given(
    st.sets(st.integers(0, 1 << 18) | st.integers(0, (1 << 63) - 1), max_size=200),
    st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(1, 9000)), max_size=3),
)
def test_positions_round_trip(scattered, ranges):
    for start, length in ranges:
        scattered.update(range(start, start + length))
    positions = sorted(scattered)
    decoded = decode_positions(encode_positions(positions), count=len(positions))
    assert decoded.dtype == np.int64
    assert decoded.tolist() == positions


@pytest.mark.parametrize("positions", [[2, 1], [1, 1], [-1, 3]])
def test_positions_that_say_nothing_are_not_written(positions):
    with pytest.raises(InputError):
        encode_positions(positions)


def test_the_number_of_positions_must_be_the_number_of_records():
    text = encode_positions([3, 9])
    for count in (1, 3):
        with pytest.raises(FormatError, match="record positions"):
            decode_positions(text, count=count)


def test_a_few_bytes_that_claim_billions_of_positions_are_refused():
    keys = b"".join(struct.pack("<HH", key, 0xFFFF) for key in range(1 << 16))
    runs = struct.pack("<HHH", 1, 0, 0xFFFF) * (1 << 16)
    bitmap = struct.pack("<I", 12347 | 0xFFFF << 16) + b"\xff" * 8192 + keys + bytes(4 << 16) + runs
    text = base64.b64encode(struct.pack("<QI", 1, 0) + bitmap).decode()
    with pytest.raises(FormatError, match="4294967296 or more"):
        decode_positions(text)
    with pytest.raises(FormatError, match="4294967296 or more"):
        decode_positions(text, count=10)


@pytest.mark.parametrize("text", ["", "A", "not base64!", "é", "AAAA", "//////////8="])
def test_text_that_is_no_bitmap_is_a_typed_error(text):
    with pytest.raises(FormatError, match="record positions"):
        decode_positions(text)


def test_damaged_bitmaps_are_typed_errors_or_rising_positions():
    rng = random.Random(3)
    known = [base64.b64decode(text) for _, text in KNOWN + RUNS]
    refused = 0
    for _ in range(3000):
        data = bytearray(rng.choice(known))
        if rng.random() < 0.3:
            del data[rng.randrange(len(data)) :]
        else:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        try:
            positions = decode_positions(base64.b64encode(data).decode())
        except FormatError:
            refused += 1
        else:
            assert np.all(np.diff(positions) > 0)
    assert refused > 1500
