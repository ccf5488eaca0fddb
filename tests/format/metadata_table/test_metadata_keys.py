"""Keys and file groups: the worked vectors, and every key of the fixtures."""

from __future__ import annotations

import uuid
from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.metadata_tables import pieces_of, table_files, with_metadata

from hoodoo.errors import FormatError, InputError
from hoodoo.format.metadata_table.column_stats import decode_column_stats
from hoodoo.format.metadata_table.keys import (
    bloom_filter_keys,
    column_stats_keys,
    expression_partition_keys,
    file_group_numbers,
    file_name_id,
    java_hashes,
    name_id,
    partition_name,
    partition_path,
    partition_stats_keys,
    secondary_keys,
    secondary_values,
    split_secondary_keys,
)
from hoodoo.format.metadata_table.record_index import (
    LOCATIONS,
    TEXT_ENCODING,
    decode_record_index,
    encode_record_index,
    join_file_ids,
    split_file_ids,
)
from hoodoo.model.metadata_table import (
    estimate_file_groups,
    file_group_id,
    file_group_number,
    is_metadata_partition,
)

TEXTS = st.text(max_size=12) | st.text("aä€𝄞\0$\\", max_size=12)


def java_hash(text: str) -> int:
    """As Java's own documentation defines it."""
    units = np.frombuffer(text.encode("utf-16-le"), "<u2").tolist()
    value = 0
    for unit in units:
        value = (31 * value + unit) % 2**32
    return value - 2**32 if value >= 2**31 else value


@pytest.mark.parametrize(
    ("text", "count", "number"),
    [
        ("TXN-006", 10, 3),
        ("TXN-008", 10, 1),
        ("Spotify$", 10, 0),
        ("19737$", 10, 3),
        ("\0$", 10, 6),
        ("5RNSbpYG6oU=431THTTwO5Q=F01d3NbdD9QcFpSCtykrRA==", 2, 0),
        ("polygenelubricants", 10, 8),  # its hash is the one number without an absolute value
    ],
)
def test_worked_keys_go_to_their_file_groups(text: str, count: int, number: int) -> None:
    assert file_group_numbers(pa.array([text]), count).tolist() == [number]


@settings(max_examples=200)
@given(st.lists(TEXTS, max_size=20))
def test_hashes_are_those_of_java(texts: list[str]) -> None:
    array = pa.array(["x", *texts], pa.string())[1:]
    assert java_hashes(array).tolist() == [java_hash(text) for text in texts]
    assert java_hashes(array.cast(pa.large_binary())).tolist() == [java_hash(t) for t in texts]


def test_hashes_of_many_keys_do_not_depend_on_batches() -> None:
    texts = [f"key-{number}" + "é" * (number % 3) for number in range(10_000)]
    halves = pa.chunked_array([texts[:5000], texts[5000:]])
    assert java_hashes(halves).tolist() == [java_hash(text) for text in texts]


def test_a_null_key_and_no_file_groups_are_refused() -> None:
    with pytest.raises(InputError):
        java_hashes(pa.array(["a", None]))
    with pytest.raises(InputError):
        file_group_numbers(pa.array(["a"]), 0)
    with pytest.raises(FormatError):
        java_hashes(pa.array([b"\xff\xfe"]))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("", "DW/eaNVbRdo="),
        ("a", "BFHqp2KLzrM="),
        ("currency", "/m6lxu4Dh5w="),
        ("txn_ts", "mgnDpF60ARA="),
        ("region=us", "431THTTwO5Q="),
        (".", "FXThHwelITM="),
        ("__partition_stat__", "2CMHrhWVE9w="),
    ],
)
def test_worked_ids(name: str, expected: str) -> None:
    assert name_id(name) == expected


def test_keys_are_ids_put_together() -> None:
    columns, partitions = pa.array(["a", "a"]), pa.array(["region=us", ""])
    files = pa.array(["f", "g"])
    us, root = name_id("region=us"), name_id(".")
    assert partition_stats_keys(columns=columns, partitions=partitions).to_pylist() == [
        name_id("a") + us,
        name_id("a") + root,
    ]
    assert bloom_filter_keys(partitions=partitions, file_names=files).to_pylist() == [
        us + file_name_id("f"),
        root + file_name_id("g"),
    ]
    keys = expression_partition_keys(columns=columns[:1], partitions=partitions[:1])
    assert keys.to_pylist() == [name_id("a") + name_id("__partition_stat__") + us]
    assert [partition_name(path) for path in ("", "x")] == [".", "x"]
    assert [partition_path(name) for name in (".", "x")] == ["", "x"]


@settings(max_examples=200)
@given(st.lists(st.tuples(st.none() | TEXTS, TEXTS), max_size=10))
def test_secondary_keys_come_apart_again(pairs) -> None:
    # A value that is a NUL is escaped; only a missing one is a bare NUL.
    values = pa.array([value for value, _ in pairs], pa.string())
    keys = pa.array([key for _, key in pairs], pa.string())
    made = secondary_keys(values, keys)
    again = split_secondary_keys(made)
    assert [part.to_pylist() for part in again] == [values.to_pylist(), keys.to_pylist()]


def test_a_secondary_value_ends_at_the_first_separator_that_is_not_escaped() -> None:
    keys = secondary_keys(pa.array(["a$b\\", None]), pa.array(["k$", "l"]))
    assert keys.to_pylist() == ["a\\$b\\\\$k\\$", "\0$l"]
    assert secondary_values(keys).to_pylist() == ["a\\$b\\\\$", "\0$"]
    with pytest.raises(FormatError):
        secondary_values(pa.array(["no separator"]))


# -- every key of the fixtures --------------------------------------------------------------------


@pytest.mark.parametrize("table", with_metadata())
def test_every_key_is_in_the_file_group_that_its_hash_says(table: str) -> None:
    groups = defaultdict(set)
    for piece in pieces_of(table):
        groups[piece.partition].add(piece.file_id)
    for piece in pieces_of(table):
        ids = sorted(groups[piece.partition])
        assert ids == [file_group_id(piece.partition, number) for number in range(len(ids))]
        for keys in (piece.keys.cast(pa.string()), piece.deleted.cast(pa.string())):
            if piece.partition.startswith("secondary_index"):
                keys = secondary_values(keys)
            found = {ids[number] for number in file_group_numbers(keys, len(ids)).tolist()}
            assert found <= {piece.file_id}


@pytest.mark.parametrize("table", with_metadata())
def test_keys_of_statistics_are_made_of_names(table: str) -> None:
    files = {}
    for piece in pieces_of(table):
        if piece.partition == "column_stats" and len(piece.keys):
            rows = decode_column_stats(piece.keys, piece.values)
            files[piece.file_name, piece.instant_time] = rows
        if piece.partition == "partition_stats" and len(piece.keys):
            rows = decode_column_stats(piece.keys, piece.values).combine_chunks()
            names, paths = (rows[name].combine_chunks() for name in ("column_name", "file_name"))
            assert partition_stats_keys(columns=names, partitions=paths).to_pylist() == (
                rows["key"].to_pylist()
            )
    partition_of = {path.rpartition("/")[2]: path.rpartition("/")[0] for path in table_files(table)}
    for rows in files.values():
        names, file_names = (rows[n].combine_chunks() for n in ("column_name", "file_name"))
        known = [name in partition_of for name in file_names.to_pylist()]
        partitions = [partition_of.get(name, "") for name in file_names.to_pylist()]
        keys = column_stats_keys(
            columns=names, partitions=pa.array(partitions, pa.string()), file_names=file_names
        )
        pairs = zip(keys.to_pylist(), rows["key"].to_pylist(), known, strict=True)
        assert all(ours == theirs for ours, theirs, is_known in pairs if is_known)
        assert any(known)


# -- names of file groups, ids of files ---------------------------------------------------------


def test_file_groups_are_named_after_their_partition() -> None:
    assert file_group_id("files", 0) == "files-0000-0"
    assert file_group_id("column_stats", 1) == "col-stats-0001-0"
    assert file_group_id("bloom_filters", 3) == "bloom-filters-0003-0"
    assert file_group_id("record_index", 12345) == "record-index-12345-0"
    assert file_group_id("secondary_index_merchant_idx", 3) == "secondary-index-merchant-idx-0003-0"
    assert file_group_id("expr_index_e", 0) == "expr-index-e-0000-0"
    assert file_group_number("secondary-index-merchant-idx-0003-0") == 3
    assert file_group_number("odd") is None
    assert not is_metadata_partition("odd")
    with pytest.raises(InputError):
        file_group_id("odd", 0)


def test_file_groups_of_an_index_grow_with_its_records() -> None:
    assert estimate_file_groups(0) == 10
    assert estimate_file_groups(10**9) == 2 * 10**9 // (2**30 // 48)
    assert estimate_file_groups(10**15) == 10_000
    assert estimate_file_groups(10**9, at_least=4, at_most=4) == 4


FILE_IDS = st.one_of(
    st.text(max_size=40),
    st.uuids().map(str),
    st.tuples(st.uuids(), st.integers(0, 10**9)).map(lambda pair: f"{pair[0]}-{pair[1]}"),
    st.uuids().map(lambda one: f"{str(one).upper()}-0"),
    st.uuids().map(lambda one: f"{one}-007"),
    st.uuids().map(lambda one: f"{one}-٣"),
    st.uuids().map(lambda one: f"{one}--1"),
)


@settings(max_examples=200)
@given(st.lists(FILE_IDS, max_size=10))
def test_file_ids_come_back_the_same(texts: list[str]) -> None:
    array = pa.array(["", *texts], pa.string())[1:]
    split = split_file_ids(array)
    assert join_file_ids(split).to_pylist() == texts
    for text, encoding in zip(texts, split.encoding.tolist(), strict=True):
        assert encoding == TEXT_ENCODING or uuid.UUID(text[:36])


@settings(max_examples=100)
@given(
    st.lists(
        st.tuples(
            st.text(max_size=5),
            st.none() | st.text(max_size=5),
            FILE_IDS,
            st.none() | st.integers(-(2**63), 2**63 - 1),
            st.none() | st.integers(0, 2**40),
        ),
        max_size=8,
    )
)
def test_locations_survive_the_round_trip(rows) -> None:
    columns = list(zip(*rows, strict=True)) or [()] * len(LOCATIONS)
    table = pa.table(
        [pa.array(list(c), f.type) for c, f in zip(columns, LOCATIONS, strict=True)], LOCATIONS
    )
    assert decode_record_index(table["key"], encode_record_index(table)).equals(table)
