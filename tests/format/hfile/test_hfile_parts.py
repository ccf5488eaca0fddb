"""The small parts of HFiles: numbers of variable length, checksums, index levels."""

from __future__ import annotations

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodoo.errors import FormatError
from hoodoo.format.hfile.blocks import ChecksumType, checksums, crc32c
from hoodoo.format.hfile.index import (
    IndexEntry,
    after_prefix,
    check_places,
    decode_level,
    decode_root,
    encode_root,
)
from hoodoo.format.hfile.layout import (
    decode_hadoop,
    decode_message,
    decode_varint,
    encode_hadoop,
    encode_message,
    encode_varint,
)
from hoodoo.format.hfile.trailer import decode_file_info, encode_file_info


@pytest.mark.parametrize(
    ("value", "encoded"),
    [(20, "14"), (127, "7f"), (128, "8f80"), (256, "8e0100"), (65536, "8d010000")],
)
def test_hadoop_numbers_as_hadoop_writes_them(value, encoded):
    assert encode_hadoop(value).hex() == encoded
    assert decode_hadoop(bytes.fromhex(encoded), 0) == (value, len(encoded) // 2)


def test_negative_hadoop_numbers_are_read():
    assert decode_hadoop(b"\xff", 0) == (-1, 1)
    assert decode_hadoop(b"\x87\x80", 0) == (-129, 2)


@given(st.integers(0, 2**63 - 1))
def test_numbers_round_trip(value):
    for encode, decode in ((encode_varint, decode_varint), (encode_hadoop, decode_hadoop)):
        encoded = encode(value)
        assert decode(b"\0" + encoded, 1) == (value, 1 + len(encoded))
        with pytest.raises(FormatError):
            decode(encoded[:-1], 0)


@given(st.lists(st.tuples(st.integers(1, 99), st.integers(0, 2**64 - 1) | st.binary(max_size=9))))
def test_messages_round_trip(fields):
    assert decode_message(encode_message(fields)) == fields


@pytest.mark.parametrize("data", [b"\x0a\x05abc", b"\x0d\0\0\0\0", b"\x80" * 11])
def test_broken_messages_are_refused(data):
    with pytest.raises(FormatError):
        decode_message(data)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),  # the catalogue's check value
        (bytes(32), 0x8A9136AA),  # RFC 3720
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
    ],
)
def test_crc32c_of_known_data(data, expected):
    assert crc32c(data) == expected


def test_checksums_are_one_for_each_slice():
    data = bytes(range(256)) * 3
    crcs = struct.unpack(">3I", checksums(data, ChecksumType.CRC32, 300))
    assert crcs == tuple(zlib.crc32(data[at : at + 300]) for at in (0, 300, 600))
    crcs = struct.unpack(">3I", checksums(data, ChecksumType.CRC32C, 300))
    assert crcs == tuple(crc32c(data[at : at + 300]) for at in (0, 300, 600))


ENTRIES = [IndexEntry(0, 50, b"a"), IndexEntry(50, 70, b"b" * 300), IndexEntry(120, 40, b"")]


def test_root_index_round_trips_and_fills_its_block():
    payload = encode_root(ENTRIES)
    assert decode_root(payload, 3) == ENTRIES
    assert decode_root(payload + bytes(16), 3, levels=2) == ENTRIES
    for bad in (payload[:-1], payload + b"\0", payload[:20], b""):
        with pytest.raises(FormatError):
            decode_root(bad, 3)


def test_lower_levels_of_the_index_are_read():
    parts = [struct.pack(">qi", e.offset, e.size) + e.key for e in ENTRIES]
    bounds = [sum(map(len, parts[:count])) for count in range(4)]
    payload = struct.pack(">5i", 3, *bounds) + b"".join(parts)
    assert decode_level(payload) == ENTRIES
    for bad in (payload[:-1], payload + b"\0", b"", struct.pack(">i", -1), struct.pack(">i", 9)):
        with pytest.raises(FormatError):
            decode_level(bad)


def test_blocks_lie_one_after_another():
    check_places(ENTRIES, 160)
    for entries, end in ((ENTRIES, 159), (ENTRIES[::-1], 160), ([IndexEntry(-1, 50, b"")], 160)):
        with pytest.raises(FormatError):
            check_places(entries, end)


@pytest.mark.parametrize(
    ("prefix", "after"), [(b"a", b"b"), (b"a\xff", b"b"), (b"", None), (b"\xff\xff", None)]
)
def test_the_end_of_a_prefix(prefix, after):
    assert after_prefix(prefix) == after


def test_file_info_round_trips_and_fills_its_block():
    info = {b"a": b"1", b"": b"", b"long": bytes(300)}
    payload = encode_file_info(info)
    assert decode_file_info(payload) == info
    for bad in (payload[:-1], payload + b"\0", b"PBUX" + payload[4:], b"", b"PBUF\0" + payload[6:]):
        with pytest.raises(FormatError):
            decode_file_info(bad)
