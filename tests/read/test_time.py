"""Time travel, incremental reads, and the ends of the timeline."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import hoodoo
from hoodoo.errors import FormatError, InputError, TimelineError
from hoodoo.format.timeline import history
from hoodoo.format.timeline import instant_files as codec
from hoodoo.model.commit import CleanMetadata
from hoodoo.model.instant import Action, Instant, InstantTime, State, to_wall_ms
from hoodoo.table.ref import open_ref
from hoodoo.table.timeline import instant_path, read_commit

SCHEMA = pa.schema([("id", pa.string()), ("v", pa.int64())])


def rows(**values: int) -> pa.Table:
    return pa.table([list(values), list(values.values())], schema=SCHEMA)


def make(path: Path, kind: str) -> hoodoo.Table:
    return hoodoo.create_table(str(path / "t"), schema=SCHEMA, record_key="id", table_type=kind)


def values(table: pa.Table) -> dict[str, int]:
    return dict(zip(table["id"].to_pylist(), table["v"].to_pylist(), strict=True))


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_reads_as_of_any_point_in_time_see_the_rows_of_then(tmp_path: Path, kind: str) -> None:
    table = make(tmp_path, kind)
    first = table.insert(rows(a=1, b=1))
    second = table.upsert(rows(a=2, c=2))
    moment = datetime.fromtimestamp(to_wall_ms(first.completion_time) / 1000, UTC)
    for as_of in (first.instant, first.completion_time, moment.isoformat(), moment):
        assert values(table.to_arrow(as_of=as_of)) == {"a": 1, "b": 1}
    assert values(table.to_arrow(as_of=second.instant)) == {"a": 2, "b": 1, "c": 2}
    assert values(table.to_arrow(as_of="2100-01-01")) == {"a": 2, "b": 1, "c": 2}
    assert values(table.to_arrow(as_of="1999-01-01")) == {}
    assert first.instant < first.completion_time < second.instant < second.completion_time


@pytest.mark.parametrize("as_of", ["yesterday", "2026-99-01", "123", ""])
def test_invalid_points_in_time_are_refused(tmp_path: Path, as_of: str) -> None:
    table = make(tmp_path, "cow")
    with pytest.raises(InputError):
        table.to_arrow(as_of=as_of)
    with pytest.raises(InputError):
        table.changes(since=as_of)


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_changes(tmp_path: Path, kind: str) -> None:
    table = make(tmp_path, kind)
    first = table.insert(rows(a=1, b=1))
    second = table.upsert(rows(a=2, c=2))
    third = table.upsert(rows(c=3))
    table.delete(["b"])
    assert values(table.changes(since=first.instant)) == {"a": 2, "c": 3}
    assert values(table.changes(since=first.completion_time)) == {"a": 2, "c": 3}
    assert values(table.changes(since=first.instant, until=second.instant)) == {"a": 2, "c": 2}
    assert values(table.changes(since=second.instant, until=third.instant)) == {"c": 3}
    assert values(table.changes(since=third.instant)) == {}
    assert values(table.changes(since="1999-01-01")) == {"a": 2, "c": 3}
    assert values(table.changes(since="1999-01-01", until=first.instant)) == {"a": 1, "b": 1}
    with pytest.raises(InputError):
        table.changes(since=third.instant, until=first.instant)
    with pytest.raises(InputError):
        table.changes(since=first.instant, columns=["nope"])


def archive(table: hoodoo.Table, count: int) -> None:
    """Move the oldest commits into the archived timeline, as Apache Hudi does."""
    ref = open_ref(table.uri)
    layout, storage = ref.properties.timeline_paths, ref.env.storage
    gone = ref.load_timeline().commits.instants[:count]
    archived = [
        history.ArchivedInstant(
            requested_time=instant.requested_time,
            completion_time=instant.completion_time,
            action=instant.action,
            metadata=codec.encode(read_commit(ref.env, layout, instant)),
        )
        for instant in gone
    ]
    name = f"{gone[0].requested_time}_{gone[-1].requested_time}_0.parquet"
    data = history.encode_instants(archived)
    storage.create(f"{layout.history}/{name}", data)
    manifest = history.encode_manifest([history.ManifestEntry(name, len(data))])
    storage.create(f"{layout.history}/manifest_1", manifest)
    storage.create(f"{layout.history}/_version_", history.encode_version(1))
    for instant in gone:
        for state in (State.REQUESTED, State.INFLIGHT):
            storage.delete(
                instant_path(layout, Instant(instant.requested_time, instant.action, state))
            )
        storage.delete(instant_path(layout, instant))


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_archived_commits_stay_visible(tmp_path: Path, kind: str) -> None:
    table = make(tmp_path, kind)
    first = table.insert(rows(a=1, b=1))
    second = table.upsert(rows(a=2, c=2))
    third = table.upsert(rows(c=3))
    archive(table, 2)
    assert values(table.to_arrow()) == {"a": 2, "b": 1, "c": 3}
    assert values(table.changes(since="1999-01-01")) == {"a": 2, "b": 1, "c": 3}
    assert values(table.changes(since=first.completion_time)) == {"a": 2, "c": 3}
    assert values(table.changes(since=second.completion_time)) == {"c": 3}
    assert values(table.to_arrow(as_of=second.instant)) == {"a": 2, "b": 1, "c": 2}
    after = table.upsert(rows(d=4))
    assert third.completion_time < after.instant
    assert values(table.to_arrow()) == {"a": 2, "b": 1, "c": 3, "d": 4}


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_archived_instants_bound_changes_by_their_completion(tmp_path: Path, kind: str) -> None:
    table = make(tmp_path, kind)
    first = table.insert(rows(a=1, b=1))
    second = table.upsert(rows(a=2, c=2))
    table.upsert(rows(c=3))
    archive(table, 2)
    assert values(table.changes(since=first.instant)) == {"a": 2, "c": 3}
    assert values(table.changes(since=second.instant)) == {"c": 3}
    assert values(table.changes(since="1999-01-01", until=first.instant)) == {"a": 1, "b": 1}
    assert values(table.changes(since=first.instant, until=second.instant)) == {"a": 2, "c": 2}
    assert values(table.changes(since=first.instant, until=first.instant)) == {}
    with pytest.raises(InputError, match="before it begins"):
        table.changes(since=second.instant, until=first.instant)


def test_changes_a_day_after_the_active_timeline_began_do_not_read_the_archive(
    tmp_path: Path,
) -> None:
    """Before that, an archived commit may have completed after one that is not archived."""
    table = make(tmp_path, "cow")
    table.insert(rows(a=1))
    second = table.upsert(rows(a=2))
    archive(table, 1)
    for file in (tmp_path / "t/.hoodie/timeline/history").iterdir():
        file.write_bytes(b"unreadable")
    with pytest.raises(FormatError, match="manifest"):
        table.changes(since=second.instant)
    day_later = datetime.strptime(second.completion_time, "%Y%m%d%H%M%S%f") + timedelta(days=1)
    assert values(table.changes(since=day_later)) == {}


def test_time_travel_to_what_was_cleaned_is_an_error(tmp_path: Path) -> None:
    table = make(tmp_path, "cow")
    first = table.insert(rows(a=1))
    second = table.upsert(rows(a=2))
    ref = open_ref(table.uri)
    clean = Instant(
        InstantTime("20990101000000000"),
        Action.CLEAN,
        State.COMPLETED,
        InstantTime("20990101000000001"),
    )
    metadata = CleanMetadata(
        start_clean_time=clean.requested_time,
        time_taken_in_millis=1,
        total_files_deleted=1,
        earliest_commit_to_retain=second.instant,
    )
    ref.env.storage.create(
        instant_path(ref.properties.timeline_paths, clean), codec.encode(metadata)
    )
    assert values(table.to_arrow(as_of=second.instant)) == {"a": 2}
    with pytest.raises(TimelineError, match="clean"):
        table.to_arrow(as_of=first.instant)


def test_a_clock_that_jumped_back_does_not_break_the_order(tmp_path: Path) -> None:
    table = make(tmp_path, "cow")
    table.insert(rows(a=1))
    ref = open_ref(table.uri)
    soon = datetime.now(UTC) + timedelta(hours=3)
    ahead = InstantTime(soon.strftime("%Y%m%d%H%M%S") + "000")
    clean = Instant(ahead, Action.CLEAN, State.INFLIGHT)
    ref.env.storage.create(instant_path(ref.properties.timeline_paths, clean), b"")
    result = table.upsert(rows(a=2))
    assert ahead < result.instant < result.completion_time
    assert values(table.to_arrow()) == {"a": 2}
    far = Instant(InstantTime("20990101000000000"), Action.CLEAN, State.INFLIGHT)
    ref.env.storage.create(instant_path(ref.properties.timeline_paths, far), b"")
    beyond = table.upsert(rows(a=3))
    assert far.requested_time < beyond.instant < beyond.completion_time
    assert values(table.to_arrow()) == {"a": 3}
