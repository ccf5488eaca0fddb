"""Changes of the record index, commit by commit, against a scan of the table after each of them.

A dict of key -> file group is kept by nothing but what `write.commit.record_index_changes` tells.
"""

from __future__ import annotations

import pickle
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from support.histories import histories
from support.indexed import BUCKETS, GLOBAL, INDEX, KINDS, STAYS, Row, arrow, create

from hoodoo.format.schema import RECORD_KEY, without_meta_fields
from hoodoo.metadata_table.indexes.record_index import record_index_changes
from hoodoo.model.commit import ReplaceCommitMetadata
from hoodoo.read.scan import build_scan_rule, read_slice, slice_reads
from hoodoo.read.snapshot import Snapshot, take_snapshot
from hoodoo.runtime.engine import LocalEngine
from hoodoo.runtime.env import Env
from hoodoo.storage.traced import TracedStorage
from hoodoo.table.ref import open_ref
from hoodoo.table.timeline import read_commit
from hoodoo.write.commit.record_index_changes import (
    KeyChangesTask,
    collect_key_changes,
    plan_key_reads,
)

NO_FILL = {"hoodie.parquet.small.file.limit": "0"}
Located = dict[str, tuple[str, str]]


def scan(uri: str) -> Located:
    """The file group of every key, by reading the table."""
    snapshot = take_snapshot(open_ref(uri))
    if RECORD_KEY not in snapshot.schema.names:
        return {}
    rule = build_scan_rule(snapshot, columns=[RECORD_KEY])
    located: Located = {}
    for read in slice_reads(snapshot, rule, snapshot.slices()):
        group = read.slice.group
        for key in read_slice(read).column(RECORD_KEY).to_pylist():
            assert key not in located
            located[key] = (group.partition, group.file_id)
    return located


@dataclass
class Follower:
    """Keeps a dict by the changes that each commit tells; it reads no rows otherwise."""

    uri: str
    before: Snapshot
    located: Located = field(default_factory=dict)

    @classmethod
    def start(cls, uri: str, env: Env | None = None) -> Follower:
        """On a table as it is now."""
        return cls(uri, take_snapshot(open_ref(uri, None, env)))

    def reads(self) -> list[KeyChangesTask]:
        """What is to be read for the commit since the last call, if there is one."""
        ref, before = self.before.ref, self.before
        self.before = after = take_snapshot(ref)
        known = {instant.requested_time for instant in before.timeline.commits}
        new = [i for i in after.timeline.commits if i.requested_time not in known]
        if not new:
            return []
        (instant,) = new
        commit = read_commit(ref.env, ref.properties.timeline_paths, instant)
        replaced = (
            commit.partition_to_replace_file_ids
            if isinstance(commit, ReplaceCommitMetadata)
            else {}
        )
        return plan_key_reads(
            before,
            without_meta_fields(after.schema),
            instant.requested_time,
            commit.operation,
            [stat for _, stat in commit.stats()],
            replaced,
        )

    def follow(self) -> pa.Array:
        """Apply the changes of a commit; the keys that it told as written."""
        changes = collect_key_changes(pickle.loads(pickle.dumps(self.reads())), LocalEngine(2))
        batch = record_index_changes(
            keys=changes.keys,
            partitions=changes.partitions,
            file_ids=changes.file_ids,
            instant_ms=1,
            deleted_keys=changes.deleted_keys,
        )
        assert batch.entries is not None
        assert batch.deleted_keys is not None
        for key in batch.deleted_keys.to_pylist():
            self.located.pop(key, None)
        for entry in batch.entries.to_pylist():
            self.located[entry["key"]] = (entry["partition"], entry["file_id"])
        return batch.entries["key"]


IDS = st.sampled_from([f"key-{n}" for n in range(8)])
ROWS = st.lists(
    st.tuples(IDS, st.sampled_from(["x", "y z"]), st.integers(0, 4), st.integers(0, 999)),
    min_size=1,
    max_size=6,
)
STEPS = st.one_of(
    *[st.tuples(st.sampled_from(["insert", "upsert", "bulk_insert"]), ROWS)] * 2,
    *[st.tuples(st.just("upsert"), ROWS)] * 2,
    st.tuples(st.sampled_from(["delete", "delete ordered"]), ROWS),
    st.tuples(st.sampled_from(["insert_overwrite", "insert_overwrite_table"]), ROWS),
    st.tuples(st.sampled_from(["compact", "cluster", "log_compact", "drop"]), st.just([])),
)


def apply(table: Any, located: Located, step: str, given: list[Row]) -> None:
    """One step; inserts leave out keys that are there, which they would write a second time."""
    rows = list({row[0]: row for row in given}.values())
    match step:
        case "upsert":
            table.upsert(arrow(rows))
        case "insert" | "bulk_insert":
            getattr(table, step)(arrow([row for row in rows if row[0] not in located]))
        case "insert_overwrite":
            places = {f"p={row[1]}" for row in rows}
            rows = [r for r in rows if located.get(r[0], (f"p={r[1]}", ""))[0] == f"p={r[1]}"]
            table.insert_overwrite(arrow(rows if places else []))
        case "insert_overwrite_table":
            table.insert_overwrite_table(arrow(rows))
        case "delete":
            table.delete([row[0] for row in rows])
        case "delete ordered":
            table.delete(arrow(rows).select(["id", "p", "ts"]))
        case "drop":
            places = sorted({partition for partition, _ in located.values()})[:1]
            if places:
                table.delete_partitions(places)
        case "compact":
            if table.properties["hoodie.table.type"] == "MERGE_ON_READ":
                table.schedule_compaction()
                table.run_compaction()
        case "log_compact":
            if table.properties["hoodie.table.type"] == "MERGE_ON_READ":
                table.schedule_log_compaction()
                table.run_log_compaction()
        case "cluster":
            if INDEX not in table.properties and table.schedule_clustering() is not None:
                table.run_clustering()


@pytest.mark.slow
@pytest.mark.thin(2)
@KINDS
@pytest.mark.parametrize("ordering", ["ts", None])
@pytest.mark.parametrize(
    "options",
    [GLOBAL, STAYS, {**GLOBAL, **NO_FILL}, BUCKETS],
    ids=["global", "stays", "no-fill", "bucket"],
)
@settings(max_examples=histories(3), phases=[Phase.generate])
@given(steps=st.lists(STEPS, min_size=3, max_size=9))
def test_changes_of_each_commit_add_up_to_the_table(
    options: dict[str, str], ordering: str | None, kind: str, steps: list[tuple[str, list[Row]]]
) -> None:
    more = {"hoodie.log.compaction.blocks.threshold": "2", "hoodie.compact.inline": "false"}
    with tempfile.TemporaryDirectory() as folder:
        table = create(f"{folder}/t", kind, {**options, **more}, ordering)
        follower = Follower.start(table.uri)
        for step, rows in steps:
            if options is BUCKETS:  # a key is unique in its partition only
                rows = [(i, "x" if i < "key-4" else "y z", ts, v) for i, _, ts, v in rows]
            apply(table, follower.located, step, rows)
            follower.follow()
            assert follower.located == scan(table.uri), step


# -- what each kind of commit tells, and reads ----------------------------------------------------


def written(follower: Follower) -> list[str]:
    """The keys that the last commit told as written, once all is as a scan has it."""
    keys = sorted(follower.follow().to_pylist())
    assert follower.located == scan(follower.uri)
    return keys


@KINDS
def test_compaction_and_updates_of_base_files_need_no_read(tmp_path: Path, kind: str) -> None:
    table = create(tmp_path / "t", kind, GLOBAL, "ts")
    follower = Follower.start(table.uri)
    table.insert(arrow([("a", "x", 1, 1), ("b", "x", 1, 1)]))
    assert written(follower) == ["a", "b"]
    table.upsert(arrow([("a", "x", 2, 2)]))
    reads = follower.reads()
    assert [read.new_file.path for read in reads if read.new_file] == (
        [] if kind == "cow" else [log.path for log in follower.before.slices()[0].logs]
    )
    if kind == "mor":
        table.schedule_compaction()
        table.run_compaction()
        assert follower.reads() == []


def test_rows_appended_to_a_log_are_known_without_the_base_file(tmp_path: Path) -> None:
    table = create(tmp_path / "t", "mor", GLOBAL, "ts")
    storage = TracedStorage(Env.of(table.uri).storage)
    follower = Follower.start(table.uri, Env(storage))
    table.insert(arrow([("a", "x", 1, 1), ("b", "x", 1, 1)]))
    assert written(follower) == ["a", "b"]
    for change in (arrow([("a", "x", 2, 2)]), None):
        table.upsert(change) if change is not None else table.delete(["b"])
        reads = follower.reads()
        storage.clear()
        changes = collect_key_changes(reads, LocalEngine(1))
        assert not [o.path for o in storage.operations if o.path.endswith(".parquet")]
        assert changes.keys.to_pylist() == []
        assert changes.deleted_keys.to_pylist() == ([] if change is not None else ["b"])


@pytest.mark.parametrize("ordering", ["ts", None])
def test_key_that_a_log_deleted_comes_back(tmp_path: Path, ordering: str | None) -> None:
    table = create(tmp_path / "t", "mor", GLOBAL, ordering)
    follower = Follower.start(table.uri)
    table.insert(arrow([("a", "x", 1, 1), ("b", "x", 1, 1)]))
    assert written(follower) == ["a", "b"]
    table.delete(["a"])
    assert written(follower) == []
    assert "a" not in follower.located
    table.upsert(arrow([("a", "x", 2, 2), ("b", "x", 2, 2)]))
    assert written(follower) == ["a"]


@KINDS
def test_delete_that_is_older_than_the_row_deletes_no_key(tmp_path: Path, kind: str) -> None:
    table = create(tmp_path / "t", kind, GLOBAL, "ts")
    follower = Follower.start(table.uri)
    table.insert(arrow([("a", "x", 5, 1), ("b", "x", 5, 1)]))
    assert written(follower) == ["a", "b"]
    for ts, left in ((1, {"a", "b"}), (9, {"b"})):
        table.delete(arrow([("a", "x", ts, 0)]).select(["id", "p", "ts"]))
        assert written(follower) == []
        assert set(follower.located) == left


@KINDS
def test_key_that_changes_its_partition_is_told_in_the_new_one(tmp_path: Path, kind: str) -> None:
    table = create(tmp_path / "t", kind, GLOBAL, "ts")
    follower = Follower.start(table.uri)
    table.insert(arrow([("a", "x", 1, 1), ("b", "x", 1, 1), ("c", "y", 1, 1)]))
    assert written(follower) == ["a", "b", "c"]
    table.upsert(arrow([("a", "y", 2, 2)]))
    assert written(follower) == ["a"]
    assert follower.located["a"][0] == "p=y"


@KINDS
def test_overwrite_deletes_the_keys_that_it_does_not_write(tmp_path: Path, kind: str) -> None:
    table = create(tmp_path / "t", kind, GLOBAL, "ts")
    follower = Follower.start(table.uri)
    table.insert(arrow([("a", "x", 1, 1), ("b", "x", 1, 1), ("c", "y", 1, 1)]))
    assert written(follower) == ["a", "b", "c"]
    table.insert_overwrite(arrow([("b", "x", 1, 2), ("d", "x", 1, 2)]))
    assert written(follower) == ["b", "d"]
    assert set(follower.located) == {"b", "c", "d"}
    table.delete_partitions(["p=x"])
    assert written(follower) == []
    assert set(follower.located) == {"c"}


@KINDS
def test_clustering_tells_where_every_key_is_by_then(tmp_path: Path, kind: str) -> None:
    table = create(tmp_path / "t", kind, {**GLOBAL, **NO_FILL}, "ts")
    follower = Follower.start(table.uri)
    for number in range(3):
        table.insert(arrow([(f"{name}{number}", "x", 1, 1) for name in "abc"]))
        follower.follow()
    table.delete(["a1"])
    assert written(follower) == []
    groups = {file_id for _, file_id in follower.located.values()}
    assert table.schedule_clustering() is not None
    table.run_clustering()
    assert written(follower) == sorted(follower.located)
    assert len(follower.located) == 8
    assert not groups & {file_id for _, file_id in follower.located.values()}
