"""The archived timeline: files that Apache Hudi wrote, and ours."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.format_samples import HISTORY, MANIFEST

from hoodoo.errors import FormatError
from hoodoo.format.timeline import history, instant_files
from hoodoo.format.timeline.history import ArchivedInstant, ManifestEntry
from hoodoo.model.commit import CommitMetadata
from hoodoo.model.instant import Action, InstantTime, State
from hoodoo.model.names import parse_history_file

TIMES = st.integers(0, 10**17 - 1).map(lambda number: InstantTime(f"{number:017d}"))
INSTANTS = st.builds(
    ArchivedInstant,
    requested_time=TIMES,
    completion_time=TIMES | st.none(),
    action=st.sampled_from(Action),
    metadata=st.binary(max_size=20) | st.none(),
    plan=st.binary(max_size=20) | st.none(),
)


def parquet(rows: list[dict[str, Any]], **types: Any) -> bytes:
    columns = {
        "instantTime": pa.string(),
        "completionTime": pa.string(),
        "action": pa.string(),
        "metadata": pa.binary(),
        "plan": pa.binary(),
        "version": pa.int32(),
    } | types
    schema = pa.schema([(name, kind) for name, kind in columns.items() if kind is not None])
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), out)
    return out.getvalue()


ROW = {"instantTime": "2" * 17, "completionTime": "3" * 17, "action": "clean", "version": 1}


def test_a_file_of_apache_hudi() -> None:
    (entry,) = history.decode_manifest(MANIFEST)
    assert entry.size_bytes == len(HISTORY)
    name = parse_history_file(entry.file_name)
    instants = history.decode_instants(HISTORY)
    assert name is not None
    assert [instant.requested_time for instant in instants] == [name.first, name.last]
    for instant in instants:
        assert instant.action is Action.COMMIT
        assert instant.completion_time is not None
        assert instant.completion_time > instant.requested_time
        assert instant.metadata is not None
        commit = instant_files.decode(instant.metadata, instant.action, State.COMPLETED)
        assert isinstance(commit, CommitMetadata)
        assert len(commit.written_files()) == 2
        assert all(instant.requested_time in path for path in commit.written_files())
    assert history.decode_instants(history.encode_instants(instants)) == instants


def test_our_file_has_the_columns_of_apache_hudi() -> None:
    theirs = pq.ParquetFile(io.BytesIO(HISTORY))
    ours = pq.ParquetFile(io.BytesIO(history.encode_instants(history.decode_instants(HISTORY))))
    for number in range(6):
        mine, other = ours.schema.column(number), theirs.schema.column(number)
        assert (mine.name, mine.physical_type) == (other.name, other.physical_type)
        assert mine.logical_type.type == other.logical_type.type
        assert mine.max_definition_level == other.max_definition_level
    key = b"parquet.avro.schema"
    assert ours.schema_arrow.metadata[key] == theirs.schema_arrow.metadata[key]
    assert ours.read().equals(theirs.read())


@given(st.lists(INSTANTS, max_size=5))
@settings(max_examples=40)
def test_round_trip(instants: list[ArchivedInstant]) -> None:
    data = history.encode_instants(instants)
    ordered = sorted(instants, key=lambda instant: instant.requested_time)
    assert list(history.decode_instants(data)) == ordered


def test_other_string_types_and_column_orders_are_read() -> None:
    table = pq.read_table(io.BytesIO(HISTORY))
    out = io.BytesIO()
    columns = ["version", "plan", "metadata", "action", "completionTime", "instantTime"]
    action = table["action"].dictionary_encode()
    other = table.set_column(2, "action", action).select(columns)
    pq.write_table(other.append_column("more", table["version"]), out)
    assert history.decode_instants(out.getvalue()) == history.decode_instants(HISTORY)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not a Parquet file"),
        (b"PAR1PAR1", "not a Parquet file"),
        (parquet([ROW], plan=None), "without the columns plan"),
        (parquet([ROW | {"instantTime": None}]), "the time None"),
        (parquet([ROW | {"instantTime": "soon"}]), "the time 'soon'"),
        (parquet([ROW | {"action": None}]), "the action None"),
        (parquet([ROW | {"action": "magic"}]), "the action 'magic'"),
        (parquet([ROW | {"version": None}]), "not a Parquet file of instants"),
        (parquet([ROW | {"metadata": [1]}], metadata=pa.list_(pa.int64())), "not a Parquet file"),
        (parquet([ROW | {"action": b"\xff"}], action=pa.binary()), "not a Parquet file"),
    ],
)
def test_bad_files(data: bytes, reason: str) -> None:
    with pytest.raises(FormatError, match=reason):
        history.decode_instants(data)


def test_cut_and_flipped_files() -> None:
    for end in range(0, len(HISTORY), 31):
        with pytest.raises(FormatError):
            history.decode_instants(HISTORY[:end])
    for place in range(0, len(HISTORY), 3):
        changed = bytearray(HISTORY)
        changed[place] ^= 1 << (place % 8)
        with contextlib.suppress(FormatError):
            history.decode_instants(bytes(changed))


@given(
    st.lists(st.builds(ManifestEntry, st.text(max_size=9), st.integers(0, 2**63 - 1)), max_size=4)
)
def test_manifest_round_trip(entries: list[ManifestEntry]) -> None:
    assert list(history.decode_manifest(history.encode_manifest(entries))) == entries


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b"\xff",
        b'{"files": {}}',
        b'{"files": [1]}',
        b'{"files": [{"fileName": "a"}]}',
        b'{"files": [{"fileLen": 1}]}',
        b'{"files": [{"fileName": "a", "fileLen": "1"}]}',
        b'{"files":' + b"[" * 100_000,
    ],
)
def test_bad_manifests(data: bytes) -> None:
    with pytest.raises(FormatError, match="manifest"):
        history.decode_manifest(data)


def test_version() -> None:
    assert history.decode_version(history.encode_version(17)) == 17
    assert history.decode_version(b"6\n") == 6
    for bad in (b"", b"x", b"-1", b"1.5", b"9" * 30, "\u0661".encode()):
        with pytest.raises(FormatError, match="version number"):
            history.decode_version(bad)
