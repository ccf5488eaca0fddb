"""Thrift's compact encoding, as in Parquet footers: fields by hand, and pyarrow's own footers."""

from __future__ import annotations

import contextlib
import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hoodoo.errors import FormatError
from hoodoo.format.parquet.thrift import read_struct


@pytest.mark.parametrize(
    ("data", "fields"),
    [
        ("00", {}),
        ("15 02 00", {1: 1}),
        ("15 01 16 80 01 00", {1: -1, 2: 64}),
        ("11 12 00", {1: True, 2: False}),
        ("05 c8 01 04 00", {100: 2}),
        ("18 03 61 62 63 00", {1: b"abc"}),
        ("19 25 02 04 00", {1: [1, 2]}),
        ("19 21 01 00 00", {1: [1, 0]}),
        ("19 f5 10 " + "02 " * 16 + "00", {1: [1] * 16}),
        ("1c 15 02 00 15 04 00", {1: {1: 1}, 2: 2}),
        ("17 00 00 00 00 00 00 f8 3f 00", {1: 1.5}),
        ("13 ff 00", {1: 255}),
        ("19 2c 15 02 00 00 00", {1: [{1: 1}, {}]}),
    ],
)
def test_fields(data: str, fields: dict[int, object]) -> None:
    assert read_struct(bytes.fromhex(data)) == fields
    assert read_struct(b"...." + bytes.fromhex(data), 4) == fields


def test_a_footer_that_pyarrow_wrote() -> None:
    out = io.BytesIO()
    pq.write_table(pa.table({"a": [1, 2, 3], "b": ["x", "y", None]}), out, row_group_size=2)
    data = out.getvalue()
    footer = read_struct(data, len(data) - 8 - int.from_bytes(data[-8:-4], "little"))
    assert footer[3] == 3
    assert [group[3] for group in footer[4]] == [2, 1]
    assert [element[4] for element in footer[2][1:]] == [b"a", b"b"]
    assert footer[4][1][1][1][3][12][3] == 1  # nulls of b in the second row group


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "cut off"),
        (b"\x15", "cut off"),
        (b"\x15\x80", "cut off"),
        (b"\x18\x7fab\x00", "cut off"),
        (b"\x19\xf5\xff\xff\xff\xff\x07\x02", "cut off"),
        (b"\x17\x00\x00", "cut off"),
        (b"\x1d\x00", "type 13"),
        (b"\x15" + b"\xff" * 1_000_000, "64 bits"),
        (b"\x1c" * 1_000, "deeper"),
        (b"\x19" * 1_000, "deeper"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_bad_structs(data: bytes, reason: str) -> None:
    with pytest.raises(FormatError, match=reason):
        read_struct(data)


@settings(max_examples=300)
@given(st.binary(max_size=60))
def test_garbage_is_a_format_error_or_fields(data: bytes) -> None:
    with contextlib.suppress(FormatError):
        assert isinstance(read_struct(data), dict)
