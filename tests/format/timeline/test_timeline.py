"""The content of timeline files, by action and state."""

from __future__ import annotations

import contextlib
import io
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.format_samples import RECORDS
from support.hudi_files import example, example_bytes, is_container, split_container, timeline_files
from support.record_strategies import record_values

from hoodoo.errors import FormatError, UnsupportedFeature
from hoodoo.format.avro import container
from hoodoo.format.timeline import instant_files, records
from hoodoo.format.timeline.instant_files import KINDS, decode, decode_as, encode
from hoodoo.format.timeline.records import from_record, to_record
from hoodoo.model.commit import (
    CleanMetadata,
    CommitMetadata,
    OperationType,
    ReplaceCommitMetadata,
    RestoreMetadata,
    RollbackMetadata,
    SavepointMetadata,
)
from hoodoo.model.instant import Action, State
from hoodoo.model.plans import CleanerPlan, CompactionPlan, IndexPlan, RequestedReplaceMetadata

METADATA = sorted({kind for kind in KINDS.values() if kind}, key=lambda kind: kind.__name__)
COMMITS = (CommitMetadata, ReplaceCommitMetadata)


def test_every_fixture_file_decodes_and_encodes_to_the_same_bytes(fixtures: Path) -> None:
    kinds: Counter[str] = Counter()
    same_but_for_sync = 0
    for path, instant, data in timeline_files(fixtures):
        metadata = decode(data, instant.action, instant.state)
        kinds[type(metadata).__name__] += 1
        if metadata is None:
            assert data == b"", path
            continue
        again = encode(metadata)
        assert decode_as(again, type(metadata)) == metadata, path
        if is_container(data):
            theirs, ours = split_container(data), split_container(again)
            assert theirs[2] == ours[2], path
            same_but_for_sync += data.replace(theirs[1], ours[1]) == again
    assert kinds == {
        "CommitMetadata": 422,
        "NoneType": 293,
        "RequestedReplaceMetadata": 16,
        "ReplaceCommitMetadata": 16,
        "CompactionPlan": 8,
        "IndexPlan": 8,
        "IndexCommitMetadata": 8,
        "RollbackPlan": 3,
        "RollbackMetadata": 3,
    }
    assert same_but_for_sync == 429  # the other schemas have `doc` texts, which we do not write


def test_json_commits_say_what_their_json_says(fixtures: Path) -> None:
    seen = 0
    for path, instant, data in timeline_files(fixtures):
        if not data.startswith(b"{"):
            continue
        commit = decode(data, instant.action, instant.state)
        raw = json.loads(data)
        stats = [stat for stats in raw["partitionToWriteStats"].values() for stat in stats]
        assert isinstance(commit, CommitMetadata), path
        assert list(commit.written_files()) == [stat["path"] for stat in stats if stat["path"]]
        assert [stat.num_inserts for _, stat in commit.stats()] == [
            stat["numInserts"] for stat in stats
        ]
        assert commit.operation == raw["operationType"], path
        assert commit.schema_json == raw["extraMetadata"].get("schema"), path
        seen += 1
    assert seen == 36


@pytest.mark.parametrize(
    ("action", "state"), RECORDS, ids=lambda value: value.value if value else None
)
def test_files_of_apache_hudi_that_no_fixture_has(action: Action, state: State) -> None:
    kind = KINDS[action, state]
    assert kind is not None
    schema = records.schema_json(kind.__name__)
    metadata = decode(container.write_body(schema, RECORDS[action, state]), action, state)
    assert type(metadata) is kind
    assert split_container(encode(metadata))[2] == RECORDS[action, state]


def sample(kind: type[Any], action: Action, state: State) -> Any:
    return decode_as(
        container.write_body(records.schema_json(kind.__name__), RECORDS[action, state]), kind
    )


def test_sample_clean_savepoint_and_restore_metadata_are_decoded() -> None:
    clean = sample(CleanMetadata, Action.CLEAN, State.COMPLETED)
    assert (clean.total_files_deleted, clean.version) == (2, 2)
    assert list(clean.partition_metadata) == ["p=x", "p=y"]
    assert clean.partition_metadata["p=x"].is_partition_deleted is False
    savepoint = sample(SavepointMetadata, Action.SAVEPOINT, State.COMPLETED)
    assert (savepoint.savepointed_by, savepoint.comments) == ("hand", "before the change")
    restore = sample(RestoreMetadata, Action.RESTORE, State.COMPLETED)
    assert list(restore.rollbacks) == list(restore.instants_to_rollback)
    assert [type(one) for many in restore.rollbacks.values() for one in many] == (
        [RollbackMetadata] * 2
    )
    assert restore.restore_instant_info[0].action == "commit"


@pytest.mark.parametrize("kind", METADATA, ids=lambda kind: kind.__name__)
def test_round_trip(kind: type[Any]) -> None:
    @settings(max_examples=40)
    @given(record_values(kind.__name__))
    def check(record: dict[str, Any]) -> None:
        metadata = from_record(kind, record)
        data = encode(metadata)
        assert decode_as(data, kind) == metadata
        (read,) = fastavro.reader(io.BytesIO(data))
        assert read == to_record(metadata)

    check()


@pytest.mark.parametrize("kind", COMMITS, ids=lambda kind: kind.__name__)
def test_avro_and_json_make_one_value(kind: type[Any]) -> None:
    @settings(max_examples=40)
    @given(record_values(kind.__name__), st.booleans())
    def check(record: dict[str, Any], is_ascii: bool) -> None:
        text = json.dumps(record | {"recordsStats": {"val": 1}}, indent=2, ensure_ascii=is_ascii)
        schema = records.schema_json(kind.__name__)
        assert decode_as(text.encode(), kind) == decode_as(container.write(schema, record), kind)

    check()


@pytest.mark.parametrize("action", Action)
@pytest.mark.parametrize("state", [State.REQUESTED, State.INFLIGHT, State.COMPLETED])
def test_empty_files(action: Action, state: State) -> None:
    if action is Action.SCHEMA_COMMIT:
        with pytest.raises(UnsupportedFeature):
            decode(b"", action, state)
    elif state is State.COMPLETED:
        with pytest.raises(
            FormatError, match=f"empty: the writer of this completed {action.value}"
        ):
            decode(b"", action, state)
    elif state is State.INFLIGHT or action in (
        Action.COMMIT,
        Action.DELTA_COMMIT,
        Action.REPLACE_COMMIT,
        Action.SAVEPOINT,
    ):
        assert decode(b"", action, state) is None
    else:
        with pytest.raises(FormatError, match="empty"):
            decode(b"", action, state)


def test_completed_plans_hold_what_they_became() -> None:
    commit = CommitMetadata(operation_type=OperationType.COMPACT, compacted=True)
    assert decode(encode(commit), Action.COMPACTION, State.COMPLETED) == commit
    replace = ReplaceCommitMetadata(operation_type=OperationType.CLUSTER)
    assert decode(encode(replace), Action.CLUSTERING, State.COMPLETED) == replace


def test_a_clean_in_flight_may_repeat_its_plan() -> None:
    plan = CleanerPlan(policy="KEEP_LATEST_COMMITS")
    assert decode(encode(plan), Action.CLEAN, State.INFLIGHT) == plan


@pytest.mark.parametrize(
    ("data", "action", "state", "reason"),
    [
        (b"x", Action.COMPACTION, State.INFLIGHT, "1 bytes where a inflight compaction has none"),
        (b"x", Action.COMMIT, State.REQUESTED, "1 bytes where a requested commit has none"),
        (b"x", Action.COMMIT, State.COMPLETED, "neither an Avro container nor JSON"),
        (b"\xff{}", Action.COMMIT, State.COMPLETED, "neither an Avro container nor JSON"),
        (b"[]", Action.COMMIT, State.COMPLETED, "expected a record, found list"),
        (b"[" * 100_000, Action.COMMIT, State.COMPLETED, "neither an Avro container nor JSON"),
        (b'{"version": ' + b"1" * 5000 + b"}", Action.COMMIT, State.COMPLETED, "nor JSON"),
        (b'{"operationType": "\\ud800"}', Action.COMMIT, State.COMPLETED, "nor JSON"),
        (b"{}", Action.CLEAN, State.COMPLETED, "not an Avro container"),
        (
            encode(CommitMetadata()),
            Action.REPLACE_COMMIT,
            State.COMPLETED,
            "holds HoodieCommitMetadata, where HoodieReplaceCommitMetadata is expected",
        ),
        (encode(IndexPlan()), Action.COMPACTION, State.REQUESTED, "holds HoodieIndexPlan"),
    ],
)
def test_bad_files(data: bytes, action: Action, state: State, reason: str) -> None:
    with pytest.raises(FormatError, match=reason):
        decode(data, action, state)


def test_a_pair_of_surrogate_escapes_is_a_character() -> None:
    data = b'{"extraMetadata": {"k": "\\ud83d\\ude00"}}'
    assert decode_as(data, CommitMetadata).extra_metadata == {"k": "😀"}


def test_an_aborted_instant_has_no_content_that_we_know() -> None:
    with pytest.raises(UnsupportedFeature, match="aborted commit"):
        decode(b"", Action.COMMIT, State.ABORTED)


def test_a_schema_without_namespace_and_with_fewer_fields() -> None:
    """What a simpler writer may have left: fewer fields, no namespace, another order."""
    schema = {
        "type": "record",
        "name": "HoodieCommitMetadata",
        "fields": [
            {"name": "operationType", "type": "string"},
            {"name": "unknown", "type": "long"},
            {"name": "compacted", "type": "boolean"},
        ],
    }
    record = {"operationType": "INSERT", "unknown": 1, "compacted": True}
    out = io.BytesIO()
    fastavro.writer(out, schema, [record], codec="deflate")
    assert decode_as(out.getvalue(), CommitMetadata) == CommitMetadata(
        operation_type="INSERT", compacted=True
    )


def test_values_that_no_file_can_hold() -> None:
    with pytest.raises(FormatError, match="cannot be written"):
        encode(CompactionPlan(version=2**40))
    with pytest.raises(FormatError, match="cannot be written"):
        encode(RequestedReplaceMetadata(operation_type="\ud800"))


@given(st.data())
@settings(max_examples=150)
def test_damaged_json(data: st.DataObject) -> None:
    text = bytearray(example("timeline.md", "json").encode())
    for _ in range(data.draw(st.integers(1, 4))):
        text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(text)))
    with contextlib.suppress(FormatError):
        decode_as(bytes(text[:cut]), ReplaceCommitMetadata)
    with contextlib.suppress(FormatError):
        decode_as(bytes(text), ReplaceCommitMetadata)


def test_damaged_fixtures(fixtures: Path) -> None:
    """Some bytes changed: an error of ours, or another value that can be written again."""
    chance = random.Random(1)
    refused = read = 0
    for number, (_, instant, data) in enumerate(timeline_files(fixtures)):
        if not data or number % 7:
            continue
        for _ in range(20):
            changed = bytearray(data)
            # The last part of an Avro file is its record, the first its schema.
            start = chance.choice((0, len(data) // 2))
            for _ in range(chance.choice((1, 1, 2, 5))):
                changed[chance.randrange(start, len(data))] = chance.randrange(256)
            try:
                metadata = decode(bytes(changed), instant.action, instant.state)
            except FormatError:
                refused += 1
                continue
            read += 1
            with contextlib.suppress(FormatError):
                encode(metadata)
    assert min(refused, read) > 100


def test_the_example_of_the_page() -> None:
    schema = records.schema_json("ReplaceCommitMetadata")
    replace = decode_as(
        container.write_body(schema, example_bytes("timeline.md")), ReplaceCommitMetadata
    )
    assert decode_as(example("timeline.md", "json").encode(), ReplaceCommitMetadata) == replace
    assert replace.operation is OperationType.INSERT_OVERWRITE
    assert split_container(encode(replace))[2] == example_bytes("timeline.md")


def test_the_table_of_the_page_and_of_the_module() -> None:
    """The module's docstring lists exactly what KINDS has."""
    doc = instant_files.__doc__ or ""
    rows = [line.split() for line in doc.splitlines() if line.startswith("    ")][1:]
    listed = {row[0] for row in rows}
    assert listed == {action.value for action, _ in KINDS}
    for row in rows:
        requested = KINDS[Action(row[0]), State.REQUESTED]
        assert row[1] == (requested.__name__ if requested else "-"), row
