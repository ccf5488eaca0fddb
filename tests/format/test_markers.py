"""Batches of markers: the bytes that Apache Hudi 1.2.0 wrote, odd lines, damage, the page."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.hudi_files import PAGES, example

from hoodoo.errors import InputError
from hoodoo.format.markers import (
    TYPE,
    TYPE_FILE,
    MarkerBatch,
    batch_name,
    decode_batch,
    encode_batch,
    is_batch,
    parse_path,
)
from hoodoo.model.names import MarkerKind, MarkerName
from hoodoo.model.paths import join

LOG = MarkerName("city=rome/.b2-0_20260102030405007.log.1_0-5-6", MarkerKind.CREATE)
BASE = MarkerName("city=rome/b2-0_0-1-2_20260102030405007.parquet", MarkerKind.MERGE)
ROOT = MarkerName("c3-0_0-1-2_20260102030405007.parquet", MarkerKind.CREATE)
OSLO = MarkerName("city=oslo/d4-0_0-1-2_20260102030405007.parquet", MarkerKind.CREATE)
LAST = MarkerName("city=oslo/e5-0_0-1-2_20260102030405007.parquet", MarkerKind.CREATE)

# Written by the marker server of Apache Hudi 1.2.0.
HUDI_TYPE = bytes.fromhex("54494d454c494e455f5345525645525f4241534544")
HUDI_BATCH = bytes.fromhex(
    "63332d305f302d312d325f32303236303130323033303430353030372e70617271"
    "7565742e6d61726b65722e4352454154450a"
)
HUDI_RESTARTED = (
    b"city=rome/.b2-0_20260102030405007.log.1_0-5-6.marker.CREATE,"
    b"city=rome/b2-0_0-1-2_20260102030405007.parquet.marker.MERGE"
    b"city=oslo/d4-0_0-1-2_20260102030405007.parquet.marker.CREATE\n"
    b"city=oslo/e5-0_0-1-2_20260102030405007.parquet.marker.CREATE\n"
)


def test_the_bytes_are_those_of_apache_hudi() -> None:
    assert (TYPE_FILE, TYPE) == ("MARKERS.type", HUDI_TYPE)
    assert batch_name(19) == "MARKERS19"
    assert encode_batch([ROOT]) == HUDI_BATCH
    assert decode_batch(HUDI_BATCH) == MarkerBatch((ROOT,))


def test_a_line_that_a_restarted_server_joined() -> None:
    assert decode_batch(HUDI_RESTARTED) == MarkerBatch((LOG, BASE, OSLO, LAST))


def test_the_page() -> None:
    text = (PAGES / "markers.md").read_text()
    assert example("markers.md", "markers").encode() == HUDI_RESTARTED
    told = re.findall(r"^\| `(.+)` \| `(CREATE|MERGE|APPEND)` \|$", text, re.MULTILINE)
    assert [MarkerName(path, MarkerKind(kind)) for path, kind in told] == [LOG, BASE, OSLO, LAST]
    kinds = re.findall(r"^\| `([A-Z]+)` \|", text, re.MULTILINE)
    assert kinds == [kind.value for kind in MarkerKind]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("MARKERS0", True),
        ("MARKERS", True),
        ("MARKERS.type", False),
        (".MARKERS0.crc", False),
        ("MARKERS0/f", False),
        ("p/MARKERS0", False),
    ],
)
def test_which_files_are_batches(path: str, expected: bool) -> None:
    assert is_batch(path) is expected


@pytest.mark.parametrize(
    ("line", "data_file"),
    [
        ("a,b/f-0_0-0-0_1.parquet.marker.CREATE", "a,b/f-0_0-0-0_1.parquet"),
        (",a/f-0_0-0-0_1.parquet.marker.CREATE", ",a/f-0_0-0-0_1.parquet"),
        ("a.marker.CREATE/f-0_0-0-0_1.parquet.marker.MERGE", "a.marker.CREATE/f-0_0-0-0_1.parquet"),
        ("a\u2028b\x0b/f-0_0-0-0_1.parquet.marker.MERGE", "a\u2028b\x0b/f-0_0-0-0_1.parquet"),
        ("Zürich/f-0_0-0-0_1.parquet.marker.CREATE", "Zürich/f-0_0-0-0_1.parquet"),
        ("/f-0_0-0-0_1.parquet.marker.CREATE", "f-0_0-0-0_1.parquet"),
    ],
    ids=["comma", "comma first", "like a marker", "no line breaks", "letters", "old release"],
)
def test_odd_partitions(line: str, data_file: str) -> None:
    found = decode_batch(f"{line}\n".encode())
    assert [marker.data_file for marker in found.markers] == [data_file]
    assert not found.unreadable


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", ""])
def test_ends_of_lines(end: str) -> None:
    assert decode_batch(f"{BASE}\n\n{LOG}{end}".encode()) == MarkerBatch((BASE, LOG))


def test_damage_is_told_and_costs_no_other_marker() -> None:
    data = f"{BASE}\n.marker.CREATE\n{LOG}x\n".encode() + b"\xff.marker.CREATE\n" + b"city=ro"
    assert decode_batch(data) == MarkerBatch(
        (BASE, LOG), (".marker.CREATE", "x", r"b'\xff.marker.CREATE'", "city=ro")
    )


@pytest.mark.parametrize("text", ["a\nb", "a\rb"])
def test_a_line_break_does_not_fit(text: str) -> None:
    with pytest.raises(InputError, match=r"markers\.type=direct"):
        encode_batch([BASE, MarkerName(f"p={text}/f.parquet", MarkerKind.CREATE)])


def test_paths_are_parsed_from_the_end() -> None:
    marker = MarkerName("p=1\n.marker.CREATE/f-0_0-0-0_1.parquet", MarkerKind.MERGE)
    assert parse_path(str(marker)) == marker
    assert parse_path("p=1/x.marker.CREATE/f-0_0-0-0_1.parquet") is None


LETTERS = st.characters(exclude_characters="\r\n/", exclude_categories=["Cs"])
PARTITIONS = st.lists(st.text(LETTERS, min_size=1), max_size=2).map("/".join)
NAMES = st.integers(0, 10**6).map(lambda n: f"{n}-0_0-0-0_20260102030405007.parquet")
MARKERS = st.builds(
    lambda partition, name, kind: MarkerName(join(partition, name), kind),
    PARTITIONS,
    NAMES,
    st.sampled_from(MarkerKind),
)


@given(st.lists(MARKERS, max_size=5))
def test_what_is_encoded_is_decoded(markers: list[MarkerName]) -> None:
    assert decode_batch(encode_batch(markers)) == MarkerBatch(tuple(markers))


# A comma at the start of a name cannot be told from one between two.
@given(
    st.lists(MARKERS, min_size=1, max_size=4),
    MARKERS.filter(lambda marker: not marker.data_file.startswith(",")),
)
def test_joined_lines_are_decoded(before: list[MarkerName], after: MarkerName) -> None:
    line = ",".join(map(str, before)) + f"{after}\n"
    assert decode_batch(line.encode()) == MarkerBatch((*before, after))


@given(st.binary(max_size=60) | st.binary(max_size=20).map(lambda b: b + HUDI_RESTARTED[:-9] + b))
def test_any_bytes_are_read(data: bytes) -> None:
    found = decode_batch(data)
    assert all(marker.data_file for marker in found.markers)
