"""Completion and finalize markers: what goes in comes out, and damage is found."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodoo.errors import FormatError, UnsupportedVersion
from hoodoo.format.markers import (
    CompletionMarker,
    Digest,
    FinalizeMarker,
    decode_completion,
    decode_final,
    encode_completion,
    encode_final,
)
from hoodoo.model.commit import RuntimeStats, WriteStat
from hoodoo.model.names import FileId
from hoodoo.model.paths import PartitionPath

TEXTS = st.none() | st.text(max_size=8)
NUMBERS = st.integers(0, 2**62)
STATS = st.lists(
    st.builds(
        WriteStat,
        file_id=st.builds(FileId, st.text(max_size=8)),
        path=TEXTS,
        prev_commit=TEXTS,
        num_writes=NUMBERS,
        partition_path=st.builds(PartitionPath, st.text(max_size=8)),
        log_version=st.none() | NUMBERS,
        log_files=st.none() | st.lists(st.text(max_size=4)).map(tuple),
        cdc_stats=st.none() | st.dictionaries(st.text(max_size=4), NUMBERS),
        runtime_stats=st.none() | st.builds(RuntimeStats, total_create_time=NUMBERS),
    ),
    max_size=3,
).map(tuple)
DIGESTS = st.builds(Digest, NUMBERS, st.integers(0, 2**64 - 1))
COMPLETIONS = st.builds(CompletionMarker, st.text(), st.none() | DIGESTS, STATS)
FINALS = st.builds(FinalizeMarker, NUMBERS, st.none() | STATS, st.integers(0, 9))

ONE = encode_completion(CompletionMarker("h", Digest(2, 3), (WriteStat(path="p/f"),)))


@given(COMPLETIONS)
def test_a_completion_comes_back(completion: CompletionMarker) -> None:
    assert decode_completion(encode_completion(completion)) == completion


@given(FINALS)
def test_a_final_comes_back(final: FinalizeMarker) -> None:
    assert decode_final(encode_final(final)) == final


def test_default_stats_are_omitted() -> None:
    assert json.loads(ONE)["body"] == {
        "handle": "h",
        "digest": {"rows": 2, "hashes": 3},
        "stats": [{"path": "p/f"}],
    }


@given(st.integers(0, len(ONE) - 1), st.integers(1, 255))
def test_a_changed_byte_is_found(at: int, by: int) -> None:
    changed = bytearray(ONE)
    changed[at] ^= by
    with pytest.raises(FormatError):
        decode_completion(bytes(changed))


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"1", b'{"version":1}', b'{"version":1,"checksum":"","body":{}}']
)
def test_bytes_that_are_no_marker_are_a_format_error(data: bytes) -> None:
    for decode in (decode_completion, decode_final):
        with pytest.raises(FormatError):
            decode(data)


def test_another_version_is_refused() -> None:
    with pytest.raises(UnsupportedVersion, match="2"):
        decode_completion(ONE.replace(b'"version":1', b'"version":2'))


def test_one_kind_is_not_taken_for_the_other() -> None:
    with pytest.raises(FormatError, match="finalize"):
        decode_final(ONE)
    with pytest.raises(FormatError, match="completion"):
        decode_completion(encode_final(FinalizeMarker(1)))


HASHES = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20)


@given(HASHES)
def test_a_digest_does_not_depend_on_order_or_batches(hashes: list[int]) -> None:
    whole = Digest.of(pa.array(hashes, pa.int64()))
    assert whole == Digest(len(hashes), sum(hashes) % 2**64)
    parts = [sorted(hashes)[:7], sorted(hashes)[7:]]
    assert sum((Digest.of(pa.array(p, pa.int64())) for p in parts), Digest()) == whole
    chunked = pa.chunked_array([pa.array(p, pa.int64()) for p in parts])
    assert Digest.of(chunked) == whole


@given(HASHES.filter(bool), st.integers(1, 2**63 - 1))
def test_a_digest_changes_with_a_row(hashes: list[int], by: int) -> None:
    other = np.array(hashes, np.int64)
    other[0] ^= by
    assert Digest.of(pa.array(other)) != Digest.of(pa.array(hashes, pa.int64()))
    assert Digest.of(pa.array(other[1:])) != Digest.of(pa.array(hashes, pa.int64()))
