"""Reading HFiles: those of HBase and of Apache Hudi, by ranges, and damaged ones."""

from __future__ import annotations

import random
import re
import struct
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from hfile_samples import hbase_files, hudi_hfiles, open_bytes, recorded

from hoodoo.errors import CorruptBlock, FormatError, UnsupportedVersion
from hoodoo.format.hfile import HFileCodec, HFileReader, write_hfile
from hoodoo.format.hfile.layout import KEY_SUFFIX

BINARY = pa.large_binary()


def binary(*values: bytes) -> pa.Array:
    return pa.array(values, BINARY)


def numbered(count: int, *, value: bytes = b"value", **options) -> bytes:
    """A file of `count` keys."""
    keys = pa.array([b"key-%08d" % number for number in range(count)], BINARY)
    values = pa.array([value + b"-%d" % number for number in range(count)], BINARY)
    return write_hfile(keys, values, **options)


def test_every_hbase_file_has_the_entries_that_its_name_says(fixtures):
    files = hbase_files(fixtures)
    assert files
    for name, data in files.items():
        reader = open_bytes(data)
        entries = reader.read_all()
        count = int((re.findall(r"_(\d{4,5})[_.]", name) or ["0"])[-1])
        assert len(entries) == reader.num_entries == count
        numbers = [int(re.findall(rb"\d{9}", key)[0]) for key in entries.keys.to_pylist()]
        assert numbers == list(range(count))
        assert entries.values.to_pylist() == [b"hudi-value-%09d" % n for n in numbers]
        if "no_entry" in name:
            assert reader.file_info[b"bloomFilterTypeCode"] == b"DYNAMIC_V0"
        else:
            assert reader.file_info[b"hudi_hfile_testing.custom_key"] == b"hudi_custom_value"
        assert reader.meta_block("bloomFilter")
        assert reader.meta_block("other") is None


def test_index_levels_of_hbase_files(fixtures):
    levels = {open_bytes(data)._trailer.index_levels for data in hbase_files(fixtures).values()}
    assert levels >= {1, 3}


def test_each_key_is_found_and_nothing_beside_it(fixtures):
    chance = random.Random(1)
    for data in hbase_files(fixtures).values():
        reader = open_bytes(data)
        entries = reader.read_all()
        assert reader.find(entries.keys).keys.equals(entries.keys)
        keys = entries.keys.to_pylist()
        some = chance.sample(keys, min(len(keys), 50))
        absent = [key + b"0" for key in some] + [key[:-1] for key in some] + [b"", b"\xff" * 9]
        found = reader.find(pa.array(chance.sample(some + absent, len(some + absent)), BINARY))
        assert found.keys.to_pylist() == sorted(some)
        of = dict(zip(keys, entries.values.to_pylist(), strict=True))
        assert found.values.to_pylist() == [of[key] for key in sorted(some)]


def test_prefixes_find_every_key_that_begins_with_them(fixtures):
    for data in hbase_files(fixtures).values():
        reader = open_bytes(data)
        keys = reader.read_all().keys.to_pylist()
        stem = keys[0].partition(b"0000")[0] if keys else b""
        for wanted in ([stem + b"00000123"], [stem + b"00000", stem + b"000000001"], [b"x"], []):
            found = reader.find_prefixes(pa.array(wanted, pa.binary())).keys.to_pylist()
            assert found == [key for key in keys if key.startswith(tuple(wanted))]
        assert reader.find_prefixes(binary(b"")).keys.to_pylist() == keys


def test_every_hfile_of_apache_hudi_is_read(fixtures):
    files = hudi_hfiles(fixtures)
    assert len(files) >= 400
    entries = 0
    for data in files.values():
        reader = open_bytes(data)
        everything = reader.read_all()
        entries += len(everything)
        assert reader.find(everything.keys).values.equals(everything.values)
        assert reader.file_info[b"schema"].startswith(b'{"type":"record"')
    assert entries > 3000


def test_one_key_costs_two_requests_and_one_block():
    data = numbered(200_000, codec=HFileCodec.NONE)
    read, asked = recorded(data)
    reader = HFileReader(read, len(data))
    assert len(asked) == 1
    assert reader.find(binary(b"key-00123456")).values.to_pylist() == [b"value-123456"]
    assert len(asked) == 2
    assert asked[1][1] < 70_000


def test_neighbouring_blocks_come_with_one_request():
    data = numbered(200_000, codec=HFileCodec.NONE)
    keys = pa.array([b"key-%08d" % number for number in range(20_000, 30_000, 10)], BINARY)
    far = pa.array([b"key-00190000"], BINARY)
    read, asked = recorded(data)
    reader = HFileReader(read, len(data))
    assert len(reader.find(pa.concat_arrays([keys, far]))) == 1001
    assert len(asked) == 1 + 2
    read, asked = recorded(data)
    assert len(HFileReader(read, len(data), group_bytes=200_000).find(keys)) == 1000
    assert 3 <= len(asked) - 1 <= 5


def test_an_index_larger_than_the_tail_takes_one_more_request():
    data = numbered(50_000, codec=HFileCodec.NONE, block_size=300)
    read, asked = recorded(data)
    reader = HFileReader(read, len(data))
    assert len(asked) == 2
    assert reader.find(binary(b"key-00012345")).values.to_pylist() == [b"value-12345"]
    assert len(asked) == 3


def test_groups_may_be_decoded_by_threads():
    data = numbered(100_000)
    with ThreadPoolExecutor(3) as pool:
        reader = open_bytes(data, map_groups=pool.map, group_bytes=50_000)
        assert reader.read_all() == open_bytes(data).read_all()


def test_keys_of_any_type_are_found_and_nulls_are_not():
    reader = open_bytes(numbered(10))
    for type_ in (pa.string(), pa.large_string(), pa.binary(), BINARY):
        found = reader.find(pa.array(["key-00000003", None, "key-00000003"]).cast(type_))
        assert found.values.to_pylist() == [b"value-3"]
    chunks = pa.chunked_array([binary(b"key-00000007"), binary(b"key-00000001")])
    assert reader.find(chunks).values.to_pylist() == [b"value-1", b"value-7"]
    assert len(reader.find(pa.array([], pa.binary()))) == 0


def test_one_key_in_two_blocks_is_found_in_both():
    data = write_hfile(
        binary(b"a1", b"a2"), binary(b"x", b"y"), codec=HFileCodec.NONE, block_size=1
    )
    assert data.count(b"a2" + KEY_SUFFIX) == 2  # in its block and in the index
    doubled = data.replace(b"a2" + KEY_SUFFIX, b"a1" + KEY_SUFFIX)
    reader = open_bytes(doubled)
    assert reader.find(binary(b"a1")).values.to_pylist() == [b"x", b"y"]
    assert reader.find_prefixes(binary(b"a")).values.to_pylist() == [b"x", b"y"]
    assert reader.find(binary(b"a2", b"a")).values.to_pylist() == []


def test_values_that_look_like_entries_do_not_mislead():
    decoy = (b"\0\0\0\x0e\0\0\0\x01\0\x02zz" + KEY_SUFFIX + b"!\0") * 20
    data = numbered(3000, value=decoy, codec=HFileCodec.NONE, block_size=1 << 20)
    entries = open_bytes(data).read_all()
    assert entries.values.to_pylist() == [decoy + b"-%d" % number for number in range(3000)]


# -- what is refused --------------------------------------------------------------------------


def test_unsorted_keys_are_refused():
    data = numbered(100, codec=HFileCodec.NONE)
    swapped = data.replace(b"key-00000050" + KEY_SUFFIX, b"key-00000070" + KEY_SUFFIX)
    with pytest.raises(FormatError, match="not sorted"):
        open_bytes(swapped).find(binary(b"key-00000001"))


def with_second_index_key_moved(data: bytes, by: int) -> bytes:
    at = data.index(b"IDXROOT2")
    second = int(re.findall(rb"\x00\x0ckey-(\d{8})", data[at:])[1])
    return data[:at] + data[at:].replace(b"-%08d" % second, b"-%08d" % (second + by))


@pytest.mark.parametrize("by", [1, -2])
def test_blocks_that_the_index_denies_are_refused(by):
    reader = open_bytes(with_second_index_key_moved(numbered(5000, codec=HFileCodec.NONE), by))
    with pytest.raises(FormatError, match="that the index denies"):
        reader.read_all()


def test_an_index_key_may_lie_before_the_first_row_of_its_block():
    moved = with_second_index_key_moved(numbered(5000, codec=HFileCodec.NONE), -1)
    assert len(open_bytes(moved).read_all()) == 5000


def test_other_kinds_of_keys_are_refused():
    data = numbered(3, codec=HFileCodec.NONE)
    deleted = data.replace(KEY_SUFFIX, KEY_SUFFIX[:-1] + b"\x08")
    with pytest.raises(FormatError, match="another kind than put"):
        open_bytes(deleted).read_all()


def test_an_mvcc_is_refused():
    data = numbered(3, codec=HFileCodec.NONE)
    at = data.index(b"value-1") + len(b"value-1")
    with pytest.raises(FormatError, match="an entry with an mvcc"):
        open_bytes(data[:at] + b"\1" + data[at + 1 :]).read_all()
    for info in ({b"MAX_MEMSTORE_TS_KEY": bytes(7) + b"\1"}, {b"KEY_VALUE_VERSION": bytes(4)}):
        with pytest.raises(UnsupportedVersion):
            open_bytes(numbered(3, info=info))


@pytest.mark.parametrize("codec", HFileCodec)
def test_a_payload_of_another_size_than_its_header_says_is_refused(codec):
    data = numbered(1000, codec=codec)
    (size,) = struct.unpack_from(">i", data, 12)
    for wrong in (size - 1, size + 1, -1, 2**31 - 1):
        damaged = data[:12] + struct.pack(">i", wrong) + data[16:]
        with pytest.raises(CorruptBlock, match=r"bytes long|cannot become|contradict"):
            open_bytes(damaged).read_all()


def test_bytes_before_the_trailer_are_refused():
    data = numbered(3)
    with pytest.raises(FormatError, match="between the file info and the trailer"):
        open_bytes(data[:-4096] + b"\0" + data[-4096:])


def test_encrypted_files_are_refused():
    data = numbered(3)
    at = data.index(b'TRABLK"$') + 8
    end = at + 1 + data[at]
    key = b"\x6a\x01k"  # field 13, which takes the place of zeros
    message = bytes([data[at] + len(key)]) + data[at + 1 : end] + key
    with pytest.raises(UnsupportedVersion, match="encryption"):
        open_bytes(data[:at] + message + data[end + len(key) :])


def test_unknown_codecs_and_versions_are_refused():
    data = numbered(3)
    with pytest.raises(UnsupportedVersion, match="HFile version 2"):
        open_bytes(data[:-1] + b"\2")
    with pytest.raises(UnsupportedVersion, match="HFile codec 6"):
        open_bytes(data.replace(b"KVComparator\x60\x01", b"KVComparator\x60\x06"))


def test_a_wrong_entry_count_is_refused():
    data = numbered(100)
    at = data.index(b'TRABLK"$')
    fewer = data[:at] + data[at:].replace(b"\x38\x64\x40\x01", b"\x38\x63\x40\x01")
    with pytest.raises(FormatError, match="100 entries instead of 99"):
        open_bytes(fewer).read_all()


def test_checksums_of_hbase_are_verified(fixtures):
    (data,) = (data for name, data in hbase_files(fixtures).items() if "NONE" in name)
    at = data.index(b"hudi-value-000001234") + 15
    damaged = data[:at] + b"7" + data[at + 1 :]
    with pytest.raises(CorruptBlock, match="checksum"):
        open_bytes(damaged).read_all()


def test_files_that_are_none_are_refused():
    for data in (b"", b"PAR1" * 2000, bytes(4095), bytes(4096)):
        with pytest.raises(FormatError, match="no HFile"):
            open_bytes(data)


def test_a_reader_that_gives_too_little_is_an_error():
    data = numbered(200_000, codec=HFileCodec.NONE)
    reader = HFileReader(lambda start, length: data[start : start + length][: 1 << 20], len(data))
    with pytest.raises(FormatError, match="instead of"):
        reader.read_all()
