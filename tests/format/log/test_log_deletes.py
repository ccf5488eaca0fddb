"""Delete blocks against what Apache Hudi 1.2.0 writes, wrapper by wrapper."""

from __future__ import annotations

import datetime as dt
import random
import struct
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from log_samples import log_files, single_files

from hoodoo.errors import CorruptBlock, FormatError, InputError, UnsupportedVersion
from hoodoo.format.log import (
    DELETES,
    Block,
    BlockType,
    HeaderKey,
    decode_deletes,
    delete_block,
    deletes_of,
    read_blocks,
)
from hoodoo.format.log.deletes import encode_deletes
from hoodoo.format.log.ordering import (
    K,
    always_wins,
    column_of,
    is_special,
    kinds_in,
    read_long,
    union_of,
    values_of,
    varint,
    wrap,
)

# Content of delete blocks as Apache Hudi's own classes write it, for keys k0, k1, ... in partition
# p=ü; and what the ordering values in them are.
P = "0208703dc3bc"
UTC = dt.UTC
JAVA: dict[str, tuple[list[tuple[K, Any]], str]] = {
    "null": ([(K.NULL, None)], f"000000030000000d0202046b30{P}0000"),
    "int": (
        [(K.INT, 0), (K.INT, 1), (K.INT, -1), (K.INT, 2**31 - 1), (K.INT, -(2**31))],
        f"00000003000000460a02046b30{P}040002046b31{P}040202046b32{P}040102046b33{P}04feffffff0f"
        f"02046b34{P}04ffffffff0f00",
    ),
    "long": (
        [(K.LONG, n) for n in (0, -5, 2**63 - 1, -(2**63), 1700000000000)],
        f"00000003000000550a02046b30{P}060002046b31{P}060902046b32{P}06feffffffffffffffff01"
        f"02046b33{P}06ffffffffffffffffff0102046b34{P}0680a0abfef96200",
    ),
    "boolean": (
        [(K.BOOLEAN, True), (K.BOOLEAN, False)],
        f"000000030000001a0402046b30{P}020102046b31{P}020000",
    ),
    "float": (
        [(K.FLOAT, 1.5), (K.FLOAT, float("nan")), (K.FLOAT, -0.0)],
        f"000000030000002f0602046b30{P}080000c03f02046b31{P}080000c07f02046b32{P}080000008000",
    ),
    "double": (
        [(K.DOUBLE, 2.5), (K.DOUBLE, float("-inf"))],
        f"00000003000000280402046b30{P}0a000000000000044002046b31{P}0a000000000000f0ff00",
    ),
    "bytes": (
        [(K.BYTES, b"\1\2\0"), (K.BYTES, b"")],
        f"000000030000001d0402046b30{P}0c0601020002046b31{P}0c0000",
    ),
    "string": (
        [(K.STRING, ""), (K.STRING, "héllo")],
        f"00000003000000200402046b30{P}0e0002046b31{P}0e0c68c3a96c6c6f00",
    ),
    "date": ([(K.DATE, dt.date(2024, 1, 2))], f"00000003000000100202046b30{P}1098b40200"),
    "decimal": (
        [
            (K.DECIMAL, Decimal("1.5")),
            (K.DECIMAL, Decimal("-123456789012345.123456789012345")),
            (K.DECIMAL, Decimal(0)),
        ],
        f"000000030000003b0602046b30{P}120e05543df729c00002046b31{P}121afe7116f0093c8e183e2e9fa087"
        f"02046b32{P}12020000",
    ),
    "timestamp": (
        [(K.TIMESTAMP_MICROS, dt.datetime(2024, 1, 2, 3, 4, 5, 678901, tzinfo=UTC))],
        f"00000003000000150202046b30{P}16eabcc185b8fb860600",
    ),
    "array": (
        [
            (K.ARRAY, [5, "b"]),
            (K.ARRAY, [dt.date(2024, 1, 2), 3, Decimal("2.25")]),
        ],
        f"00000003000000320402046b30{P}180204060a0e02620002046b31{P}1802061898b4020406120e07fe5cf2"
        "bea0000000",
    ),
    "mixed": (
        [(K.INT, 0), (K.LONG, 5), (K.NULL, None), (K.STRING, "x"), (K.ARRAY, [1, 2])],
        f"00000003000000440a02046b30{P}040002046b31{P}060a02046b32{P}0002046b33{P}0e0278"
        f"02046b34{P}180204040206040000",
    ),
    "empty": ([], "000000030000000100"),
}


def block(content: bytes) -> Block:
    return Block(BlockType.DELETE, {HeaderKey.INSTANT_TIME: "1"}, content)


@pytest.mark.parametrize("name", JAVA)
def test_every_wrapper_that_java_writes_is_read_and_written_back_identical(name):
    expected, text = JAVA[name]
    content = bytes.fromhex(text)
    deletes = decode_deletes(block(content))
    assert deletes.schema == DELETES
    deletes.validate(full=True)
    assert deletes["record_key"].to_pylist() == [f"k{row}" for row in range(len(expected))]
    assert set(deletes["partition_path"].to_pylist()) <= {"p=ü"}
    ordering = deletes["ordering"]
    for kind in K:
        if kind is K.LOCAL_DATE:
            continue
        values = values_of(ordering, kind).to_pylist()
        wanted = [value if of is kind else None for of, value in expected]
        assert values == wanted or (kind is K.FLOAT and repr(values) == repr(wanted))  # NaN
    assert encode_deletes(deletes) == content


def test_the_fixture_deletes_three_keys_that_always_win(fixtures):
    (found,) = read_blocks(single_files(fixtures)["delete"]).blocks
    deletes = decode_deletes(found)
    assert deletes["partition_path"].to_pylist() == ["city=san_francisco"] * 3
    assert deletes["record_key"][0].as_py() == "e96c4396-3fad-413a-a942-4cb36106d721"
    assert is_special(deletes["ordering"]).to_pylist() == [True] * 3
    ours = deletes_of(deletes["record_key"], deletes["partition_path"], always_wins(3))
    assert delete_block(ours, instant_time=found.instant_time).content == found.content


def test_every_fixture_delete_block_is_written_back_identical(fixtures):
    seen = 0
    for name, data in log_files(fixtures).items():
        for found in read_blocks(data).blocks:
            if found.type is BlockType.DELETE:
                assert encode_deletes(decode_deletes(found)) == found.content, name
                seen += 1
    assert seen > 200


def test_null_and_integer_zero_are_special_and_nothing_else():
    union = union_of(
        np.array([K.NULL, K.INT, K.INT, K.LONG, K.DOUBLE, K.STRING], dtype=np.int8),
        {
            K.INT: pa.array([0, 7], pa.int32()),
            K.LONG: pa.array([0], pa.int64()),
            K.DOUBLE: pa.array([0.0]),
            K.STRING: pa.array(["0"]),
        },
    )
    assert is_special(union).to_pylist() == [True, True, False, False, False, False]
    assert kinds_in(union) == {K.INT, K.LONG, K.DOUBLE, K.STRING}
    assert kinds_in(union.slice(3, 1)) == {K.LONG}
    assert is_special(union.slice(1, 2)).to_pylist() == [True, False]
    assert values_of(union.slice(1, 3), K.LONG).to_pylist() == [None, None, 0]


def test_tables_of_deletes_can_be_cut_and_joined():
    deletes = decode_deletes(block(bytes.fromhex(JAVA["mixed"][1])))
    joined = pa.concat_tables([deletes.slice(3), deletes.slice(0, 3)])
    again = decode_deletes(block(encode_deletes(joined)))
    assert again["record_key"].to_pylist() == ["k3", "k4", "k0", "k1", "k2"]
    assert again["ordering"].to_pylist() == ["x", [1, 2], 0, 5, None]
    assert values_of(joined["ordering"], K.LONG).to_pylist() == [None, None, None, 5, None]
    assert encode_deletes(joined.slice(0, 0)) == bytes.fromhex(JAVA["empty"][1])
    assert encode_deletes(deletes.filter(pa.array([False] * 5))) == bytes.fromhex(JAVA["empty"][1])


@pytest.mark.parametrize(
    ("column", "kind", "values"),
    [
        (pa.array([1, None], pa.int8()), K.INT, [1, None]),
        (pa.array([1, 2], pa.uint16()), K.INT, [1, 2]),
        (pa.array([1], pa.uint32()), K.LONG, [1]),
        (pa.chunked_array([[3], [4]], pa.int64()), K.LONG, [3, 4]),
        (pa.array([1.5], pa.float32()), K.FLOAT, [1.5]),
        (pa.array([1.5]), K.DOUBLE, [1.5]),
        (pa.array([True]), K.BOOLEAN, [True]),
        (pa.array(["a"], pa.large_string()), K.STRING, ["a"]),
        (pa.array(["a"]).dictionary_encode(), K.STRING, ["a"]),
        (pa.array([b"ab"], pa.binary(2)), K.BYTES, [b"ab"]),
        (pa.array([dt.date(2024, 5, 6)]), K.DATE, [dt.date(2024, 5, 6)]),
        (pa.array([Decimal("1.25")], pa.decimal128(5, 2)), K.DECIMAL, [Decimal("1.25")]),
        (pa.array([dt.time(1, 2)], pa.time32("ms")), K.TIME_MICROS, [dt.time(1, 2)]),
        (
            pa.array([1_700_000_000_123], pa.timestamp("ms")),
            K.TIMESTAMP_MICROS,
            [dt.datetime(2023, 11, 14, 22, 13, 20, 123000, tzinfo=UTC)],
        ),
    ],
)
def test_an_ordering_column_goes_into_the_wrapper_of_its_type(column, kind, values):
    union = wrap(column)
    assert values_of(union, kind).to_pylist() == values
    assert [code != K.NULL for code in union.type_codes.to_pylist()] == [
        v is not None for v in values
    ]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([[1]]),
        pa.array([2**63], pa.uint64()),
        pa.array([Decimal("0.1234567890123456")], pa.decimal128(20, 16)),
        pa.array([Decimal(10**20)], pa.decimal128(30, 0)),
    ],
)
def test_a_column_that_no_wrapper_holds_is_refused(column):
    with pytest.raises(InputError):
        wrap(column)


def test_ordering_of_nothing_but_nulls():
    assert is_special(wrap(pa.nulls(2))).to_pylist() == [True, True]


MICROS = st.integers(-(2**63), 2**63 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
SCALARS = {
    K.BOOLEAN: st.integers(0, 1),
    K.INT: INT32,
    K.LONG: MICROS,
    K.FLOAT: st.binary(min_size=4, max_size=4),
    K.DOUBLE: st.binary(min_size=8, max_size=8),
    K.BYTES: st.binary(max_size=80),
    K.STRING: st.text(max_size=80).map(str.encode),
    K.DATE: INT32,
    K.DECIMAL: st.integers(-(10**30) + 1, 10**30 - 1).map(
        lambda n: n.to_bytes((n if n >= 0 else ~n).bit_length() // 8 + 1, "big", signed=True)
    ),
    K.TIME_MICROS: MICROS,
    K.TIMESTAMP_MICROS: MICROS,
}


def raw(kinds):
    return st.sampled_from(sorted(kinds)).flatmap(
        lambda kind: st.tuples(st.just(kind), kinds[kind])
    )


ELEMENTS = raw({K.NULL: st.none(), **SCALARS, K.LOCAL_DATE: INT32})
VALUES = raw({K.NULL: st.none(), **SCALARS, K.ARRAY: st.none() | st.lists(ELEMENTS, max_size=4)})
TEXTS = st.none() | st.text(max_size=80)


@settings(max_examples=200)
@given(st.lists(st.tuples(TEXTS, TEXTS, VALUES), max_size=12))
def test_any_mix_of_ordering_values_round_trips(rows):
    kinds = [kind for _, _, (kind, _) in rows]
    children = {
        kind: column_of(kind, [value for _, _, (k, value) in rows if k is kind])
        for kind in set(kinds) - {K.NULL}
    }
    deletes = pa.Table.from_arrays(
        [
            pa.array([key for key, _, _ in rows], pa.string()),
            pa.array([path for _, path, _ in rows], pa.string()),
            union_of(np.array(kinds, dtype=np.int8), children),
        ],
        schema=DELETES,
    )
    content = encode_deletes(deletes)
    again = decode_deletes(block(content))
    assert encode_deletes(again) == content
    assert again.select(["record_key", "partition_path"]).equals(
        deletes.select(["record_key", "partition_path"])
    )
    assert again["ordering"].combine_chunks().equals(deletes["ordering"].combine_chunks()) or any(
        kind in (K.FLOAT, K.DOUBLE, K.ARRAY) for kind in kinds
    )  # NaN equals nothing; the bytes above already agree


@given(MICROS)
def test_numbers_are_zigzag_varints(number):
    data = varint(number)
    assert read_long(data, 0) == (number, len(data))
    assert len(data) <= 10


def content_of(avro: bytes, *, version: int = 3, length: int | None = None) -> bytes:
    return struct.pack(">ii", version, len(avro) if length is None else length) + avro


@pytest.mark.parametrize(
    ("content", "error", "what"),
    [
        (b"", CorruptBlock, "without a version"),
        (content_of(b"\0", version=1), UnsupportedVersion, "delete block version 1"),
        (content_of(b"\0", version=2), UnsupportedVersion, "delete block version 2"),
        (content_of(b"\0", version=4), UnsupportedVersion, "delete block version 4"),
        (content_of(b"\0", length=2**31 - 1), CorruptBlock, "do not fit"),
        (content_of(b"\0", length=-1), CorruptBlock, "do not fit"),
        (content_of(b""), CorruptBlock, "too early"),
        (content_of(b"\0\0"), CorruptBlock, "1 bytes after"),
        (content_of(b"\x02\0\0\0"), CorruptBlock, "too early"),
        (content_of(b"\xfe\xff\xff\xff\xff\x7f\0\0\0\0"), CorruptBlock, "items do not fit"),
        (content_of(b"\x80" * 12), CorruptBlock, "more than 64 bits"),
        (content_of(b"\xff" * 9 + b"\x7f"), CorruptBlock, "more than 64 bits"),
        (content_of(b"\x02\x04\0\0\0"), CorruptBlock, "branch 2"),
        (content_of(b"\x02\0\0\x1a\0\0"), CorruptBlock, "branch 13"),
        (content_of(b"\x02\0\0\x01\0\0"), CorruptBlock, "branch -1"),
        (content_of(b"\x02\x02\x7eab\0\0"), CorruptBlock, "63 bytes do not fit"),
        (content_of(b"\x02\x02\x01ab\0\0"), CorruptBlock, "-1 bytes do not fit"),
        (content_of(b"\x02\x02\x02\xff\0\0\0"), CorruptBlock, "not UTF-8"),
        (content_of(b"\x02\0\0\x0e\x02\xff\0"), CorruptBlock, "not UTF-8"),
        (content_of(b"\x02\0\0\x02\x02\0"), CorruptBlock, "no boolean"),
        (content_of(b"\x02\0\0\x08\0\0\0"), CorruptBlock, "ends too early"),
        (content_of(b"\x02\0\0\x04" + varint(2**31) + b"\0"), CorruptBlock, "does not fit INT"),
        (content_of(b"\x02\0\0\x12\x24" + b"\x7f" * 18 + b"\0"), CorruptBlock, "decimal128"),
        (content_of(b"\x02\0\0\x12\x1a" + b"\x7f" * 13 + b"\0"), CorruptBlock, "decimal128"),
        (content_of(b"\x02\0\0\x18\x04\0\0"), CorruptBlock, "branch 2"),
        (content_of(b"\x02\0\0\x18\x02\x02\x1a\0\0"), CorruptBlock, "branch 13"),
        (content_of(b"\x02\0\0\x18\x02\x7e\0\0\0"), CorruptBlock, "items do not fit"),
    ],
)
def test_deletes_that_make_no_sense_are_typed_errors(content, error, what):
    with pytest.raises(error, match=what):
        decode_deletes(block(content))


def test_a_list_in_several_blocks_with_sizes_is_read():
    one = bytes.fromhex("02046b30") + b"\0\0"
    two = bytes.fromhex("02046b31") + b"\0\0"
    avro = varint(-1) + varint(len(one)) + one + varint(1) + two + varint(0)
    assert decode_deletes(block(content_of(avro)))["record_key"].to_pylist() == ["k0", "k1"]


def test_damaged_deletes_are_typed_errors_or_tables():
    rng = random.Random(11)
    known = [bytes.fromhex(text) for _, text in JAVA.values()]
    refused = 0
    for _ in range(5000):
        data = bytearray(rng.choice(known))
        for _ in range(rng.randint(1, 3)):
            data[rng.randrange(8, len(data))] = rng.randrange(256)
        try:
            decode_deletes(block(bytes(data))).validate(full=False)
        except FormatError:
            refused += 1
    assert 1000 < refused < 5000
