"""Keys of a metadata table, and the file group that each one is in.

    files            __all_partitions__, or the path of a partition
    column_stats     id of column, id of partition, id of file         12 + 12 + 24 characters
    partition_stats  id of column, id of partition
    bloom_filters    id of partition, id of file
    record_index     the record key
    secondary_index  value, "$", record key; a backslash before each backslash, "$" and NUL in them

The id of a column or partition is XXH64 of its name, big endian, in base 64; that of a file is MD5
of its name. The root of a table without partitions is named ".".

The hash that finds the file group is Java's of a text: over UTF-16 code units, h = 31 h + unit in
32 bits; the group is |h| modulo the number of groups. Here it is a polynomial, taken from one
running sum over all texts: 31 is odd, so its powers have inverses modulo 2 ** 32.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.errors import FormatError, InputError
from hoodoo.format.xxhash import xxh64

ALL_PARTITIONS = "__all_partitions__"
ROOT = "."
"""The name of the only partition of a table that has none."""

_PARTITION_STAT = "__partition_stat__"
_INVERSE = pow(31, -1, 2**32)
_BATCH_ROWS = 4096  # so that the sums stay in the processor's cache
_SECONDARY = r"(?s)^(?P<value>(?:[^\\$]|\\.)*\$)"

Words = npt.NDArray[np.uint32]
Ints = npt.NDArray[np.int64]


def key_texts(keys: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Keys as texts; HFiles have bytes."""
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        raise FormatError("a key of the metadata table is not UTF-8") from None


# -- ids of columns, partitions and files ----------------------------------------------------------


def partition_name(path: str) -> str:
    """What the metadata table calls a partition; the record index alone keeps the empty path."""
    return path or ROOT


def partition_path(name: str) -> str:
    """The path of the partition that has this name in the metadata table."""
    return "" if name == ROOT else name


@lru_cache(maxsize=4096)
def name_id(name: str) -> str:
    """The id of a column or of a partition."""
    return base64.b64encode(xxh64(name.encode()).to_bytes(8, "big")).decode()


def file_name_id(name: str) -> str:
    """The id of a file, by its name without the path."""
    digest = hashlib.md5(name.encode(), usedforsecurity=False).digest()
    return base64.b64encode(digest).decode()


def column_stats_keys(*, columns: pa.Array, partitions: pa.Array, file_names: pa.Array) -> pa.Array:
    """Keys of `column_stats`; partitions are paths."""
    ids = _ids(columns, name_id), _partition_ids(partitions), _ids(file_names, file_name_id)
    return pc.binary_join_element_wise(*ids, "")


def partition_stats_keys(*, columns: pa.Array, partitions: pa.Array) -> pa.Array:
    """Keys of `partition_stats`; partitions are paths."""
    return pc.binary_join_element_wise(_ids(columns, name_id), _partition_ids(partitions), "")


def expression_partition_keys(*, columns: pa.Array, partitions: pa.Array) -> pa.Array:
    """Keys of what an expression index says of whole partitions."""
    middle = pa.scalar(name_id(_PARTITION_STAT))
    ids = _ids(columns, name_id), middle, _partition_ids(partitions)
    return pc.binary_join_element_wise(*ids, "")


def bloom_filter_keys(*, partitions: pa.Array, file_names: pa.Array) -> pa.Array:
    """Keys of `bloom_filters`; partitions are paths."""
    ids = _partition_ids(partitions), _ids(file_names, file_name_id)
    return pc.binary_join_element_wise(*ids, "")


def _partition_ids(paths: pa.Array) -> pa.Array:
    return _ids(paths, lambda path: name_id(partition_name(path)))


def _ids(names: pa.Array, id_of: Callable[[str], str]) -> pa.Array:
    distinct = names.dictionary_encode()
    ids = pa.array(map(id_of, distinct.dictionary.to_pylist()), pa.string())
    return ids.take(distinct.indices)


# -- keys of secondary indexes ---------------------------------------------------------------------


def secondary_keys(values: pa.Array, record_keys: pa.Array) -> pa.Array:
    """Keys of a secondary index; a null value is a NUL that nothing escapes."""
    texts = _escape(values).fill_null("\0")
    return pc.binary_join_element_wise(texts, _escape(record_keys), "$")


def _escape(texts: pa.Array) -> pa.Array:
    return pc.replace_substring_regex(texts, r"([\\$\x00])", r"\\\1")


def secondary_values(keys: pa.Array) -> pa.Array:
    """The part of secondary keys that decides the file group: escaped, and with its "$"."""
    parts = pc.extract_regex(keys, _SECONDARY)
    if parts.null_count:
        raise FormatError("a key of a secondary index has no separator")
    return parts.field("value")


def split_secondary_keys(keys: pa.Array) -> tuple[pa.Array, pa.Array]:
    """The values (null where there was none) and the record keys of secondary keys."""
    values = pc.utf8_slice_codeunits(secondary_values(keys), 0, -1)
    rest = pc.replace_substring_regex(keys, _SECONDARY.replace("?P<value>", ""), "")
    values = pc.if_else(pc.equal(values, "\0"), None, values)
    return _unescape(values), _unescape(rest)


def _unescape(texts: pa.Array) -> pa.Array:
    return pc.replace_substring_regex(texts, r"(?s)\\(.)", r"\1")


# -- the file group of a key -----------------------------------------------------------------------


def file_group_numbers(keys: pa.Array | pa.ChunkedArray, count: int) -> Ints:
    """The file group of each key: its place among the `count` groups, sorted by file id.

    A secondary index asks with `secondary_values` in place of keys.
    """
    if count < 1:
        raise InputError("a partition of the metadata table has at least one file group")
    return np.abs(java_hashes(keys).astype(np.int64)) % count


def java_hashes(texts: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.int32]:
    """What Java's `hashCode` says of each text."""
    if texts.null_count:
        raise InputError("a key is null")
    chunks = texts.chunks if isinstance(texts, pa.ChunkedArray) else [texts]
    parts = [
        _hash_batch(chunk[at : at + _BATCH_ROWS])
        for chunk in (chunk.cast(pa.large_binary()) for chunk in chunks)
        for at in range(0, len(chunk), _BATCH_ROWS)
    ]
    return np.concatenate(parts).view(np.int32) if parts else np.empty(0, np.int32)


def _hash_batch(texts: pa.Array) -> Words:
    offsets = np.frombuffer(texts.buffers()[1], np.int64)
    offsets = offsets[texts.offset : texts.offset + len(texts) + 1]
    offsets, begin, end = offsets - offsets[0], int(offsets[0]), int(offsets[-1])
    if begin == end:
        return np.zeros(len(texts), np.uint32)
    units: npt.NDArray[np.integer] = np.frombuffer(texts.buffers()[2], np.uint8)[begin:end]
    if (units > 127).any():
        units, offsets = _utf16(units, offsets)
    count = len(units)
    sums = np.zeros(count + 1, np.uint32)
    np.cumsum(units.astype(np.uint32) * _powers(_INVERSE, count), out=sums[1:])
    starts, ends = offsets[:-1], offsets[1:]
    # The last unit of a text counts once, so the power is that of the place before its end.
    return (sums[ends] - sums[starts]) * _powers(31, count)[np.maximum(ends - 1, 0)]


def _utf16(data: npt.NDArray[np.integer], offsets: Ints) -> tuple[npt.NDArray[np.integer], Ints]:
    """Code units of UTF-8 bytes, and the offsets among them."""
    try:
        text = data.tobytes().decode("utf-8").encode("utf-16-le")
    except UnicodeDecodeError:
        raise FormatError("a key of the metadata table is not UTF-8") from None
    unit_offsets = np.zeros(len(data) + 1, np.int64)
    np.cumsum(((data & 0xC0) != 0x80).astype(np.int64) + (data >= 0xF0), out=unit_offsets[1:])
    return np.frombuffer(text, "<u2"), unit_offsets[offsets]


def _powers(number: int, count: int) -> Words:
    return _powers_table(number, count.bit_length())[:count]


@lru_cache(maxsize=4)
def _powers_table(number: int, bits: int) -> Words:
    factors = np.full(1 << bits, number, np.uint32)
    factors[0] = 1
    return np.cumprod(factors, dtype=np.uint32)
