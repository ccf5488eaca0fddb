"""Blocks <-> bytes: what Apache Hudi wrote, what crashed writers leave, and what is no log file."""

from __future__ import annotations

import random
import struct
from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from log_samples import log_files, single_files

from hoodoo.errors import CorruptBlock, FormatError, UnsupportedVersion
from hoodoo.format.log import (
    Block,
    BlockType,
    CorruptRange,
    HeaderKey,
    encode_block,
    encode_blocks,
    read_blocks,
    rollback_block,
    rollback_target,
)
from hoodoo.format.log.blocks import MAGIC
from hoodoo.model.instant import InstantTime

EMPTY = encode_block(Block(BlockType.COMMAND, {}))
HELLO = Block(BlockType.DELETE, {HeaderKey.INSTANT_TIME: "20250101000000000"}, b"hello")

TEXT = st.text(max_size=20)
BLOCKS = st.builds(
    Block,
    st.sampled_from([kind for kind in BlockType if kind is not BlockType.CORRUPT]),
    st.dictionaries(st.sampled_from(HeaderKey), TEXT, max_size=9),
    st.binary(max_size=60) | st.just(MAGIC),
    st.dictionaries(st.sampled_from(HeaderKey), TEXT, max_size=2),
)


def test_every_fixture_is_read_whole_and_written_back_identical(fixtures):
    kinds: Counter[BlockType] = Counter()
    for name, data in log_files(fixtures).items():
        found = read_blocks(data)
        assert not found.corrupt, name
        assert encode_blocks(found.blocks) == data, name
        kinds.update(block.type for block in found.blocks)
    assert len(log_files(fixtures)) >= 640
    assert set(kinds) == set(BlockType) - {BlockType.CORRUPT, BlockType.CDC_DATA}


def test_the_rollback_fixture_says_what_it_rolls_back(fixtures):
    (block,) = read_blocks(single_files(fixtures)["rollback"]).blocks
    assert block.type is BlockType.COMMAND
    assert block.instant_time == "20250126040936578"
    assert rollback_target(block) == "20250126040826878"
    ours = rollback_block(
        instant_time=InstantTime("20250126040936578"), target=InstantTime("20250126040826878")
    )
    assert dict(ours.header) == dict(block.header)
    assert len(encode_block(ours)) == 105


@given(st.lists(BLOCKS, max_size=4))
def test_blocks_come_back_in_order_with_their_header_order(blocks):
    data = encode_blocks(blocks)
    found = read_blocks(data)
    assert list(found.blocks) == blocks
    assert found.corrupt == ()
    assert [list(block.header) for block in found.blocks] == [
        list(block.header) for block in blocks
    ]
    assert [data[block.offset :][:6] for block in found.blocks] == [MAGIC] * len(blocks)


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview, pa.py_buffer])
def test_any_buffer_is_read_and_contents_are_views_into_it(wrap):
    (block,) = read_blocks(wrap(encode_block(HELLO))).blocks
    assert block == HELLO
    assert isinstance(block.content, memoryview)
    assert block.content.readonly


def test_an_empty_file_has_no_blocks():
    assert read_blocks(b"").blocks == ()
    assert read_blocks(b"").corrupt == ()


def test_a_truncated_last_block_is_reported_and_the_ones_before_it_are_kept():
    data = encode_blocks([HELLO, HELLO])
    whole = len(data) // 2
    for cut in range(1, whole):
        found = read_blocks(data[: whole + cut])
        assert found.blocks == (HELLO,), cut
        (corrupt,) = found.corrupt
        assert (corrupt.offset, corrupt.end, corrupt.size_bytes) == (whole, whole + cut, cut)


def test_the_scan_goes_on_at_the_next_magic_after_a_torn_block():
    torn = encode_block(HELLO)[:-20]
    found = read_blocks(torn + encode_block(HELLO) + torn + encode_block(HELLO))
    assert found.blocks == (HELLO, HELLO)
    assert [corrupt.offset for corrupt in found.corrupt] == [0, len(torn) * 2 + 20]
    assert [corrupt.size_bytes for corrupt in found.corrupt] == [len(torn), len(torn)]
    assert "past the end" not in found.corrupt[0].reason


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda data: data[:6] + struct.pack(">q", 1 << 60) + data[14:], "past the end"),
        (lambda data: data[:6] + struct.pack(">q", -1) + data[14:], "too small"),
        (lambda data: data[:6] + struct.pack(">q", 3) + data[14:], "too small"),
        (lambda data: data[:-8] + struct.pack(">q", 7), "at the start"),
        (lambda data: data + b"garbage", "no block follows"),
    ],
)
def test_each_kind_of_corruption_is_skipped_and_named(damage, reason):
    found = read_blocks(damage(encode_block(HELLO)))
    assert found.blocks == ()
    (corrupt,) = found.corrupt
    assert reason in corrupt.reason
    found = read_blocks(encode_block(HELLO) + damage(encode_block(HELLO)) + encode_block(HELLO))
    assert found.blocks == (HELLO, HELLO)
    assert len(found.corrupt) == 1


def test_fewer_than_six_bytes_at_the_end_do_not_harm_the_block_before():
    data = encode_block(HELLO)
    found = read_blocks(data + b"#HUDI")
    assert found.blocks == (HELLO,)
    assert found.corrupt == (
        CorruptRange(len(data), len(data) + 5, "the file ends inside a block"),
    )


@pytest.mark.parametrize("tail", [b"", encode_block(HELLO)])
def test_a_file_that_does_not_start_with_the_magic_is_no_log_file(tail):
    with pytest.raises(CorruptBlock) as caught:
        read_blocks(b"PAR1 is something else" + tail)
    assert caught.value.offset == 0


def test_many_magics_in_a_row_do_not_slow_the_scan():
    found = read_blocks(MAGIC * 20_000)
    assert len(found.corrupt) == 20_000
    assert sum(corrupt.size_bytes for corrupt in found.corrupt) == 120_000


def _block(*, version=1, kind=1, header=b"\0\0\0\0", length=None, content=b"", footer=b"\0\0\0\0"):
    body = struct.pack(">ii", version, kind) + header
    body += struct.pack(">q", len(content) if length is None else length) + content + footer
    return MAGIC + struct.pack(">q", len(body) + 8) + body + struct.pack(">q", len(body) + 14)


def _entry(key: int, value: bytes, *, length: int | None = None) -> bytes:
    return struct.pack(">ii", key, len(value) if length is None else length) + value


@pytest.mark.parametrize(
    ("data", "error", "what"),
    [
        (_block(version=0), UnsupportedVersion, "log format version 0"),
        (_block(version=2), UnsupportedVersion, "log format version 2"),
        (_block(kind=2), UnsupportedVersion, "log block type 2"),
        (_block(kind=7), UnsupportedVersion, "log block type 7"),
        (_block(kind=-1), UnsupportedVersion, "log block type -1"),
        (_block(header=b"\0\0\0\1" + _entry(9, b"x")), UnsupportedVersion, "header key 9"),
        (_block(header=b"\0\0\0\1" + _entry(-1, b"x")), UnsupportedVersion, "header key -1"),
        (_block(header=b"\x7f\xff\xff\xff"), CorruptBlock, "2147483647 header entries"),
        (_block(header=b"\xff\xff\xff\xff"), CorruptBlock, "-1 header entries"),
        (_block(header=b"\0\0\0\1" + _entry(0, b"", length=1 << 30)), CorruptBlock, "not fit"),
        (_block(header=b"\0\0\0\1" + _entry(0, b"", length=-5)), CorruptBlock, "not fit"),
        (_block(header=b"\0\0\0\1" + _entry(0, b"\xff")), CorruptBlock, "not UTF-8"),
        (_block(header=b"\0\0\0\2" + _entry(0, b"a") * 2), CorruptBlock, "twice"),
        (_block(length=1 << 62), CorruptBlock, "content length"),
        (_block(length=-1), CorruptBlock, "content length"),
        (_block(content=b"abcd", length=3), CorruptBlock, "header entries"),
        (_block(footer=b"\0\0\0\0\0"), CorruptBlock, "left over"),
    ],
)
def test_a_whole_block_that_makes_no_sense_is_a_typed_error(data, error, what):
    with pytest.raises(error, match=what):
        read_blocks(data)


def test_a_missing_header_entry_is_a_typed_error():
    (block,) = read_blocks(EMPTY).blocks
    for read in (
        lambda: block.instant_time,
        lambda: block.schema_json,
        lambda: rollback_target(block),
    ):
        with pytest.raises(FormatError, match="has no"):
            read()


def test_an_unknown_command_is_a_typed_error():
    header = {HeaderKey.COMMAND_BLOCK_TYPE: "1", HeaderKey.TARGET_INSTANT_TIME: "1"}
    with pytest.raises(UnsupportedVersion, match="log command '1'"):
        rollback_target(Block(BlockType.COMMAND, header))


def test_damaged_fixtures_give_typed_errors_or_corrupt_ranges_only(fixtures):
    """Truncations, bit flips, cuts and insertions; nothing may be lost without a word."""
    parts = [data for data in single_files(fixtures).values() if len(data) < 2000]
    rng = random.Random(7)
    outcomes: Counter[str] = Counter()
    for _ in range(4000):
        data = bytearray(b"".join(rng.choices(parts, k=rng.randint(1, 3))))
        at = rng.randrange(len(data))
        match rng.randrange(4):
            case 0:
                del data[at:]
            case 1:
                data[at] ^= 1 << rng.randrange(8)
            case 2:
                del data[at : at + rng.randint(1, 60)]
            case _:
                data[at:at] = rng.randbytes(rng.randint(1, 40))
        try:
            found = read_blocks(data)
        except FormatError as error:
            outcomes[type(error).__name__] += 1
            continue
        outcomes["corrupt" if found.corrupt else "whole"] += 1
        covered = sum(len(encode_block(block)) for block in found.blocks)
        covered += sum(corrupt.size_bytes for corrupt in found.corrupt)
        assert covered == len(data)
    assert set(outcomes) == {"CorruptBlock", "UnsupportedVersion", "corrupt", "whole"}
