"""Writing HFiles: the bytes of Apache Hudi, and whatever is written is read."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from hfile_samples import hudi_hfiles, open_bytes, written_again
from hypothesis import given, settings
from hypothesis import strategies as st

from hoodoo.errors import InputError
from hoodoo.format.hfile import HUDI_1_1, PORTABLE, HFileCodec, write_hfile
from hoodoo.format.hfile.layout import BLOCK_HEADER, KEY_SUFFIX

BINARY = pa.large_binary()
LARGEST = 0x7FFF

KEYS = st.one_of(
    st.binary(max_size=3),
    st.binary(min_size=1, max_size=1),
    st.text(max_size=12).map(str.encode),
    st.sampled_from([b"\xff" * 300, KEY_SUFFIX, b"x" * LARGEST, b"x" * (LARGEST - 1) + b"y"]),
)
VALUES = st.one_of(
    st.binary(max_size=40),
    st.sampled_from([b"", bytes(9000), KEY_SUFFIX * 900, b"v" * 70_000]),
)
BLOCK_SIZES = st.sampled_from([1, 64, 300, 4096, 1 << 16, 1 << 20])


def test_hudis_files_are_written_to_the_byte(fixtures):
    files = hudi_hfiles(fixtures)
    assert len(files) >= 400
    for name, data in files.items():
        assert written_again(data) == data, name


def test_dialects_differ_in_checksums_and_index_keys_alone(fixtures):
    files = hudi_hfiles(fixtures)
    for data in list(files.values())[::10]:
        other = written_again(data, dialect=PORTABLE)
        assert other != data
        assert open_bytes(other).read_all() == open_bytes(data).read_all()
        assert written_again(other) == data


@settings(max_examples=200)
@given(
    pairs=st.lists(st.tuples(KEYS, VALUES), max_size=60),
    repeats=st.integers(1, 3),
    block_size=BLOCK_SIZES,
    codec=st.sampled_from(HFileCodec),
    dialect=st.sampled_from([PORTABLE, HUDI_1_1]),
    others=st.lists(KEYS, max_size=5),
)
def test_what_is_written_is_read(pairs, repeats, block_size, codec, dialect, others):
    entries = sorted(pairs * repeats, key=lambda pair: pair[0])
    keys = pa.array([key for key, _ in entries], pa.binary())
    values = pa.array([value for _, value in entries], pa.binary())
    data = write_hfile(
        keys,
        values,
        block_size=block_size,
        codec=codec,
        dialect=dialect,
        meta={b"note": b"text"},
        info={b"schema": b"{}"},
        created_ms=7,
    )
    reader = open_bytes(data, group_bytes=5000)
    assert reader.num_entries == len(entries)
    assert (reader.meta_block("note"), reader.file_info[b"schema"]) == (b"text", b"{}")
    found = reader.read_all()
    assert list(zip(found.keys.to_pylist(), found.values.to_pylist(), strict=True)) == entries
    wanted = {key for key, _ in pairs[::2]} | set(others)
    found = reader.find(pa.array(list(wanted), pa.binary()))
    expected = [pair for pair in entries if pair[0] in wanted]
    assert list(zip(found.keys.to_pylist(), found.values.to_pylist(), strict=True)) == expected
    prefixes = tuple(key[:2] for key in wanted)
    found = reader.find_prefixes(pa.array(prefixes, pa.binary()))
    expected = [pair for pair in entries if pair[0].startswith(prefixes)]
    assert list(zip(found.keys.to_pylist(), found.values.to_pylist(), strict=True)) == expected


@settings(max_examples=15)
@given(
    sizes=st.lists(st.integers(0, 300), min_size=1, max_size=40),
    key_size=st.sampled_from([8, 9, 250, 260]),
    block_size=BLOCK_SIZES,
)
def test_thousands_of_entries_of_many_sizes_are_read(sizes, key_size, block_size):
    count = 3000
    texts = [
        b"%08d" % number + b"k" * ((number * key_size) % (key_size - 7)) for number in range(count)
    ]
    keys = pa.array(texts, BINARY)
    values = pa.array([bytes(sizes[number % len(sizes)]) for number in range(count)], BINARY)
    reader = open_bytes(write_hfile(keys, values, codec=HFileCodec.NONE, block_size=block_size))
    found = reader.read_all()
    assert found.keys.equals(keys)
    assert found.values.equals(values)
    assert reader.find(keys.slice(1000, 20)).values.equals(values.slice(1000, 20))


def blocks_of(data: bytes) -> list[int]:
    """The payload sizes of the data blocks of a file that is not compressed."""
    sizes, at = [], 0
    while data[at : at + 8] == b"DATABLK*":
        _, after, size, *_ = BLOCK_HEADER.unpack_from(data, at)
        sizes.append(size)
        at += BLOCK_HEADER.size + after
    return sizes


def test_a_block_ends_before_the_entry_that_is_too_much():
    keys, values = pa.array([b"a", b"b", b"c", b"d"]), pa.array([b"1"] * 4)
    entry = 8 + 2 + 1 + 10 + 1 + 1

    def sizes(block_size: int) -> list[int]:
        return blocks_of(write_hfile(keys, values, codec=HFileCodec.NONE, block_size=block_size))

    assert sizes(2 * entry) == [2 * entry] * 2
    assert sizes(2 * entry - 1) == [entry] * 4
    assert sizes(3 * entry) == [3 * entry, entry]
    assert sizes(1) == [entry] * 4


def test_a_data_block_tells_its_own_offset_as_that_of_the_one_before():
    keys = pa.array([b"a", b"b", b"c"])
    data = write_hfile(keys, keys, codec=HFileCodec.NONE, block_size=1)
    length = BLOCK_HEADER.size + blocks_of(data)[0] + 4
    told = [BLOCK_HEADER.unpack_from(data, number * length)[3] for number in range(3)]
    assert told == [-1, length, 2 * length]


def test_entries_of_one_key_stay_in_one_block():
    keys, values = pa.array([b"a", b"b", b"b", b"b", b"c"]), pa.array([b"1"] * 5)
    sizes = blocks_of(write_hfile(keys, values, codec=HFileCodec.NONE, block_size=1))
    assert [size // 23 for size in sizes] == [1, 3, 1]


def test_one_checksum_slot_for_each_block():
    keys = pa.array([b"%06d" % number for number in range(40_000)], BINARY)
    data = write_hfile(keys, keys, codec=HFileCodec.NONE, block_size=1 << 20)
    _, after, size, *_ = BLOCK_HEADER.unpack_from(data)
    assert after - size == 4
    hudi = write_hfile(keys, keys, codec=HFileCodec.NONE, block_size=1 << 20, dialect=HUDI_1_1)
    _, after, size, *_ = BLOCK_HEADER.unpack_from(hudi)
    assert after - size == 4 * 65  # header and payload, in slices of 16384 bytes


def test_threads_make_the_same_bytes():
    keys = pa.array([b"%06d" % number for number in range(20_000)], BINARY)
    with ThreadPoolExecutor(3) as pool:
        assert write_hfile(keys, keys, map_blocks=pool.map) == write_hfile(keys, keys)


def test_slices_and_chunks_are_written_as_they_look():
    keys = pa.array([b"%06d" % number for number in range(100)], BINARY)
    whole = write_hfile(keys[10:30], keys[40:60])
    chunks = pa.chunked_array([keys[10:20], keys[20:30]])
    assert write_hfile(chunks, pa.chunked_array([keys[40:60]])) == whole
    assert open_bytes(whole).read_all().values.equals(keys[40:60])


@pytest.mark.parametrize(
    ("keys", "values", "message"),
    [
        ([b"b", b"a"], [b"", b""], "sorted by their bytes"),
        ([b"a"], [], "1 keys and 0 values"),
        ([None], [b""], "null"),
        ([b"a"], [None], "null"),
        ([b"x" * 0x8000], [b""], "key of 32768 bytes"),
        ([b"x" * 0x10000], [b""], "key of 65536 bytes"),
    ],
)
def test_what_no_reader_could_use_is_not_written(keys, values, message):
    with pytest.raises(InputError, match=message):
        write_hfile(pa.array(keys, pa.binary()), pa.array(values, pa.binary()))
