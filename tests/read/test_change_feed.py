"""`table.changes(deletes=True)`: what each row became, and what is asked for that cannot be had."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.archives import archive as put_into_history
from support.change_feed_table import SERVICES, WRITES, follow_new_table
from support.dead_writes import EXPIRY_S, make_older

import hoodoo
from hoodoo.errors import InputError, SnapshotCleaned, TimelineError, UnsupportedFeature
from hoodoo.format.log import cdc_block, encode_blocks
from hoodoo.format.schema import avro_from_arrow
from hoodoo.format.timeline import instant_files as codec
from hoodoo.format.timeline.history import ArchivedInstant
from hoodoo.model.instant import Instant, InstantTime, State
from hoodoo.storage.traced import TracedStorage
from hoodoo.table.ref import open_ref
from hoodoo.table.timeline import instant_path, read_commit

KINDS = pytest.mark.parametrize("kind", ["cow", "mor"])
SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string()), ("v", pa.int64())])
FIRST = {"a": 1, "b": 1, "c": 1}


def rows(p: str = "x", **values: int) -> pa.Table:
    return pa.table([list(values), [p] * len(values), list(values.values())], schema=SCHEMA)


def make(place: Path, kind: str = "cow", **options: object) -> hoodoo.Table:
    named = {f"hoodie.{key.replace('__', '.')}": value for key, value in options.items()}
    hoodoo.create_table(
        str(place), schema=SCHEMA, record_key="id", partition_by="p", table_type=kind
    )
    return hoodoo.open_table(str(place), {"hoodie.clean.automatic": False, **named})


def told(found: pa.Table) -> Counter[tuple[str, str, int]]:
    """Change type, key and value of each row."""
    columns = (found[name].to_pylist() for name in ("_change_type", "id", "v"))
    return Counter(zip(*columns, strict=True))


@KINDS
def test_each_row_says_what_became_of_it(tmp_path: Path, kind: str) -> None:
    table = make(tmp_path / "t", kind)
    first = table.insert(rows(**FIRST))
    table.upsert(rows(a=2, d=2))
    table.delete(["b"])
    found = table.changes(since=first.instant, deletes=True)
    update, insert, delete = ("update_postimage", "a", 2), ("insert", "d", 2), ("delete", "b", 1)
    assert told(found) == Counter([update, insert, delete])
    assert found.column_names == [*table.to_arrow().column_names, "_change_type"]
    with_before = table.changes(since=first.instant, deletes=True, before=True)
    assert told(with_before) == Counter([update, insert, delete, ("update_preimage", "a", 1)])
    narrow = table.changes(since=first.instant, deletes=True, columns=["v"])
    assert narrow.column_names == ["v", "_change_type"]
    assert Counter(narrow["v"].to_pylist()) == Counter([2, 2, 1])


@KINDS
def test_row_inserted_and_deleted_within_window_is_no_change(tmp_path: Path, kind: str) -> None:
    table = make(tmp_path / "t", kind)
    first = table.insert(rows(**FIRST))
    table.upsert(rows(a=2, d=2))
    table.delete(["d"])
    table.upsert(rows(a=1))
    assert table.changes(since=first.instant, deletes=True).num_rows == 0
    assert table.changes(since=first.instant).num_rows == 1  # a was written


@KINDS
def test_filter_applies_to_both_ends_of_window(tmp_path: Path, kind: str) -> None:
    table = make(tmp_path / "t", kind)
    first = table.insert(rows(a=1, b=5, c=5, d=9))
    table.insert(rows("y", e=9))
    table.upsert(rows(a=7, b=2, c=6))
    expected = Counter([("insert", "a", 7), ("delete", "b", 5), ("update_postimage", "c", 6)])
    for condition in ("v >= 5 and p = 'x'", (pc.field("v") >= 5) & (pc.field("p") == "x")):
        found = table.changes(since=first.instant, deletes=True, filter=condition)
        assert told(found) == expected
        plain = table.changes(since=first.instant, filter=condition, columns=["id"])
        assert sorted(plain["id"].to_pylist()) == ["a", "c"]


@KINDS
def test_earliest_gives_all_rows_as_inserts_although_files_were_cleaned(
    tmp_path: Path, kind: str
) -> None:
    table = make(tmp_path / "t", kind, clean__commits__retained=1)
    for v in range(4):
        last = table.upsert(rows(a=v, b=1))
    if kind == "mor":
        table.schedule_compaction()
        table.run_compaction()
    table.clean()
    found = table.changes(since="earliest", deletes=True)
    assert told(found) == Counter([("insert", "a", 3), ("insert", "b", 1)])
    assert table.changes(since="earliest").num_rows == 2
    assert table.changes(since="earliest", filter="v > 2", columns=["id"]).num_rows == 1
    assert told(table.changes(since="earliest", until=last.instant, deletes=True)) == told(found)


@pytest.mark.parametrize(
    ("policy", "setting"),
    [
        ("KEEP_LATEST_COMMITS", "hoodie.clean.commits.retained"),
        ("KEEP_LATEST_FILE_VERSIONS", "hoodie.clean.fileversions.retained"),
    ],
)
def test_a_window_whose_begin_was_cleaned_is_an_error_that_says_where_to_begin(
    tmp_path: Path, policy: str, setting: str
) -> None:
    table = make(tmp_path / "t", clean__policy=policy, **{setting.removeprefix("hoodie."): 2})
    commits = [table.upsert(rows(a=v, b=1)) for v in range(6)]
    other = table.insert(rows("y", z=1))
    table.clean()
    with pytest.raises(SnapshotCleaned, match="the oldest instant that is left") as raised:
        table.changes(since=commits[0].instant, deletes=True)
    error = raised.value
    assert error.setting == setting in str(error)
    assert error.oldest_readable_instant in [commit.instant for commit in commits]
    oldest = [commit.instant for commit in commits].index(error.oldest_readable_instant)
    found = table.changes(
        since=error.oldest_readable_instant, until=commits[-1].instant, deletes=True
    )
    assert told(found) == Counter([("update_postimage", "a", 5)] if oldest < 5 else [])
    with pytest.raises(SnapshotCleaned):
        table.changes(since=commits[oldest - 1].instant, deletes=True)
    with pytest.raises(SnapshotCleaned):  # its end cannot be read either
        table.changes(since=commits[0].instant, until=commits[1].instant)
    only_new = table.changes(since=commits[-1].instant, deletes=True)
    assert told(only_new) == Counter([("insert", "z", 1)])
    assert other.instant > error.oldest_readable_instant


def test_groups_that_no_commit_of_the_window_touched_are_not_read(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    table.insert(rows("x", a=1))
    first = table.insert(rows("y", b=1))
    table.upsert(rows("y", b=2))
    ref = open_ref(table.uri)
    storage = ReadPaths(ref.env.storage)
    traced = hoodoo.Table(replace(ref, env=replace(ref.env, storage=storage)))
    assert traced.changes(since=first.instant, deletes=True).num_rows == 1
    assert {path.partition("/")[0] for path in storage.opened} == {"p=y"}


class ReadPaths(TracedStorage):
    """Notes which data files are opened, and which directories listed."""

    def __init__(self, storage: Any) -> None:
        super().__init__(storage)
        self.opened: list[str] = []

    def open_read(self, path: str) -> pa.NativeFile:
        self.opened.append(path)
        return super().open_read(path)


@KINDS
def test_moves_are_updates_by_a_global_index_and_else_a_delete_and_an_insert(
    tmp_path: Path, kind: str
) -> None:
    table = make(tmp_path / "t", kind, index__type="GLOBAL_SIMPLE")
    first = table.insert(rows("x", a=1))
    table.upsert(rows("y", a=2))
    moved = table.changes(since=first.instant, deletes=True, before=True)
    assert told(moved) == Counter([("update_preimage", "a", 1), ("update_postimage", "a", 2)])
    assert sorted(moved["p"].to_pylist()) == ["x", "y"]
    plain = hoodoo.open_table(table.uri).changes(since=first.instant, deletes=True)
    assert told(plain) == Counter([("delete", "a", 1), ("insert", "a", 2)])


def test_a_key_that_is_there_twice_counts_twice(tmp_path: Path) -> None:
    table = make(tmp_path / "t", parquet__small__file__limit=0)
    first = table.bulk_insert(rows(a=1))
    table.bulk_insert(rows(a=2, b=1))
    found = table.changes(since=first.instant, deletes=True)
    assert told(found) == Counter([("insert", "a", 2), ("insert", "b", 1)])
    last = table.insert_overwrite(rows(c=1))
    gone = told(table.changes(since=first.instant, until=last.instant, deletes=True))
    assert gone == Counter([("delete", "a", 1), ("insert", "c", 1)])


def test_an_archived_commit_that_completed_late_is_in_the_window(tmp_path: Path) -> None:
    """Commits are archived by requested time: this one overlapped with the next."""
    place = tmp_path / "t"
    table = make(place)
    slow, quick, last = (table.insert(rows(p, **{p: 1})) for p in ("x", "y", "z"))
    ref = open_ref(table.uri)
    layout, storage = ref.properties.timeline_paths, ref.env.storage
    late = InstantTime(str(int(last.completion_time) + 1000))
    instant = ref.load_timeline().commits.find(slow.instant)
    assert instant is not None
    metadata = codec.encode(read_commit(ref.env, layout, instant))
    put_into_history(
        place,
        ArchivedInstant(
            requested_time=instant.requested_time,
            completion_time=late,
            action=instant.action,
            metadata=metadata,
        ),
    )
    for state in (State.REQUESTED, State.INFLIGHT):
        storage.delete(instant_path(layout, Instant(instant.requested_time, instant.action, state)))
    storage.delete(instant_path(layout, instant))
    for since, keys in ((quick.instant, {"x", "z"}), (last.instant, {"x"})):
        assert set(table.changes(since=since)["id"].to_pylist()) == keys
        assert set(table.changes(since=since, deletes=True)["id"].to_pylist()) == keys
    until: dict[str, Any] = {"until": last.instant, "columns": ["id"]}
    assert table.changes(since=quick.instant, **until)["id"].to_pylist() == ["z"]


def test_a_restore_of_what_was_read_already_is_an_error(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    first = table.insert(rows(a=1))
    second = table.upsert(rows(a=2))
    for path in (tmp_path / "t/.hoodie").rglob("*"):
        if path.is_file():
            make_older(path, 3 * EXPIRY_S)
    table.undo(second.instant, wait=False)
    for since in (second.instant, second.completion_time):
        with pytest.raises(TimelineError, match="took back commits from before it"):
            table.changes(since=since, deletes=True)
    table.upsert(rows(a=3))
    found = table.changes(since=first.instant, deletes=True)
    assert told(found) == Counter([("update_postimage", "a", 3)])


def test_columns_added_and_widened_are_null_and_equal_in_old_rows(tmp_path: Path) -> None:
    narrow = pa.schema([("id", pa.string()), ("p", pa.string()), ("v", pa.int32())])
    place = str(tmp_path / "t")
    table = hoodoo.create_table(place, schema=narrow, record_key="id", partition_by="p")
    first = table.insert(rows(**FIRST).cast(narrow))
    wide = rows(a=2**40).append_column("note", pa.array(["new"]))
    table.upsert(wide)
    found = table.changes(since=first.instant, deletes=True, before=True)
    notes = zip(found["_change_type"].to_pylist(), found["note"].to_pylist(), strict=True)
    assert sorted(notes) == [("update_postimage", "new"), ("update_preimage", None)]


@KINDS
def test_change_records_of_apache_hudi_beside_the_files_change_nothing(
    tmp_path: Path, kind: str
) -> None:
    """A table with `hoodie.table.cdc.enabled`: the feed is derived from data files all the same."""
    place = tmp_path / "t"
    table = make(place, kind)
    first = table.insert(rows(**FIRST))
    second = table.upsert(rows(a=2))
    table.delete(["b"])
    expected = told(table.changes(since=first.instant, deletes=True, before=True))
    properties = place / ".hoodie/hoodie.properties"
    properties.write_text(
        properties.read_text() + "hoodie.table.cdc.enabled=true\n"
        "hoodie.table.cdc.supplemental.logging.mode=OP_KEY_ONLY\n"
    )
    records = pa.table({"op": ["u", "i"], "record_key": ["a", "never there"]})
    time = InstantTime(second.instant)
    block = cdc_block(
        records, instant_time=time, schema_json=avro_from_arrow(records.schema, "cdc")
    )
    (base, *_) = (place / "p=x").glob("*.parquet")
    name = f".{base.name.partition('_')[0]}_{time}.log.1_0-1-0.cdc"
    (place / "p=x" / name).write_bytes(encode_blocks([block]))
    again = hoodoo.open_table(str(place))
    assert told(again.changes(since=first.instant, deletes=True, before=True)) == expected
    with pytest.raises(UnsupportedFeature, match="change data capture"):
        again.upsert(rows(a=3))


def test_bad_calls_are_refused(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    first = table.insert(rows(a=1))
    with pytest.raises(InputError, match="before=True needs deletes=True"):
        table.changes(since=first.instant, before=True)
    with pytest.raises(InputError, match="unknown column 'w'"):
        table.changes(since=first.instant, deletes=True, columns=["w"])
    with pytest.raises(InputError, match="unknown column 'w'"):
        table.changes(since=first.instant, deletes=True, filter="w = 1")
    with pytest.raises(InputError, match="before it begins"):
        table.changes(since=first.instant, until="2001-01-01", deletes=True)
    with pytest.raises(InputError, match="neither an instant"):
        table.changes(since="the beginning", deletes=True)
    own = SCHEMA.append(pa.field("_change_type", pa.string()))
    other = hoodoo.create_table(str(tmp_path / "u"), schema=own, record_key="id")
    with pytest.raises(UnsupportedFeature, match="_change_type"):
        other.changes(since="earliest", deletes=True)


@pytest.mark.parametrize(("kind", "is_global"), [("cow", False), ("mor", True)])
def test_aggregates_kept_by_the_feed_alone_never_drift(
    tmp_path: Path, kind: str, is_global: bool
) -> None:
    """Forty commits, with services between them; one follower reads each, another lags."""
    chance = Random(f"{kind} {is_global}")
    followed = follow_new_table(tmp_path, kind, is_global=is_global)
    followed.play("insert", chance)
    prompt, lagging = Aggregate(followed.table), Aggregate(followed.table)
    while len(followed.past) < 40:
        followed.play(chance.choice(WRITES), chance)
        if chance.random() < 0.4:
            followed.run_service(chance.choice([*SERVICES, "clean", "clean"]))
        prompt.follow()
        assert prompt.sums == sums_of(followed.table)
        if len(followed.past) % 10 in (1, 3):
            lagging.follow()
            assert lagging.sums == prompt.sums
    assert prompt.restarts == 0
    assert 0 < lagging.restarts < lagging.windows


class Aggregate:
    """Count and sum of each partition, kept by changes only; begun anew if they were cleaned."""

    def __init__(self, table: hoodoo.Table) -> None:
        self._table = table
        self._since = "earliest"
        self.sums: Counter[tuple[str, str]] = Counter()
        self.windows = self.restarts = 0

    def follow(self) -> None:
        reports = self._table.timeline()
        until = max(one.completion_time for one in reports if one.completion_time)
        try:
            self._add(until)
        except SnapshotCleaned:
            self.restarts += 1
            self._since = "earliest"
            self.sums.clear()
            self._add(until)
        self._since = until
        self.windows += 1

    def _add(self, until: str) -> None:
        found = self._table.changes(
            since=self._since, until=until, deletes=True, before=True, columns=["p", "v"]
        )
        for row in found.to_pylist():
            sign = 1 if row["_change_type"] in ("insert", "update_postimage") else -1
            self.sums["count", row["p"]] += sign
            self.sums["sum", row["p"]] += sign * row["v"]
        self.sums = Counter({key: value for key, value in self.sums.items() if value})


def sums_of(table: hoodoo.Table) -> Counter[tuple[str, str]]:
    sums: Counter[tuple[str, str]] = Counter()
    for row in table.to_arrow(columns=["p", "v"]).to_pylist():
        sums["count", row["p"]] += 1
        sums["sum", row["p"]] += row["v"]
    return Counter({key: value for key, value in sums.items() if value})
