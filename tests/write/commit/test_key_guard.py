"""The key guard: keys that others inserted meanwhile are found, in whatever file they are."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.built_table import HandMade, at, group

import hoodoo
from hoodoo.api.table import Table
from hoodoo.concurrency.conflicts.changes_since import load_concurrent_instants
from hoodoo.concurrency.conflicts.rules import InstantKind, PublishingInstant
from hoodoo.config.concurrency import ConflictStrategy
from hoodoo.errors import FormatError, WriteConflict
from hoodoo.model.commit import OperationType
from hoodoo.model.instant import Action
from hoodoo.read.snapshot import take_snapshot
from hoodoo.runtime.engine import LocalEngine
from hoodoo.runtime.env import Env
from hoodoo.storage.traced import TracedStorage
from hoodoo.table.ref import TableRef, open_ref
from hoodoo.table.timeline import Timeline
from hoodoo.write import operations
from hoodoo.write.commit.key_guard import KeyGuard, SearchOutsideLock
from hoodoo.write.files.handle import run_handle
from hoodoo.write.planning.assignment import Assignment

MINE = PublishingInstant(at(50), InstantKind.INGESTION, {})
LA = group(1, "la").partition
_groups = itertools.count(100)


@pytest.fixture
def table(tmp_path: Path) -> HandMade:
    """A table with one commit."""
    made = HandMade(tmp_path / "t")
    made.commit(at(1), at(2), made.base(group(1), at(1), {"a": 1, "b": 1}))
    return made


@pytest.fixture
def planned_on(table: HandMade) -> Timeline:
    return table.txn().timeline


def guard(
    table: HandMade,
    planned_on: Timeline,
    ref: TableRef | None = None,
    engine: Any = None,
    **keys: list[str],
) -> KeyGuard:
    """The guard of an upsert that made a file of these new keys in each city."""
    stats = []
    for city, found in keys.items():
        stat = table.base(group(next(_groups), city), at(50), dict.fromkeys(found, 1))
        stats.append(replace(stat, num_inserts=len(found)))
    snapshot = take_snapshot(table.ref, timeline=planned_on)
    assignment = Assignment(OperationType.UPSERT, snapshot, snapshot.schema)
    return KeyGuard(ref or table.ref, assignment, at(50), stats, engine or LocalEngine(1))


def collisions(
    table: HandMade, planned_on: Timeline, ref: TableRef | None = None, **keys: list[str]
) -> list[str]:
    """Which keys of a city are in what others added."""
    others = load_concurrent_instants(table.txn(), ConflictStrategy.SIMPLE, MINE, planned_on)
    return guard(table, planned_on, ref, **keys)._find_collisions(others)


@pytest.mark.parametrize("bloom", [True, False])
def test_keys_that_others_inserted_into_new_base_files_collide(
    table: HandMade, planned_on: Timeline, bloom: bool
) -> None:
    table.commit(at(60), at(61), table.base(group(2), at(60), {"c": 1, "d": 1}, bloom=bloom))
    assert collisions(table, planned_on, sf=["d", "x", "c"]) == ["c", "d"]
    assert collisions(table, planned_on, sf=["a", "b", "x"]) == []  # those were there before
    assert collisions(table, planned_on, la=["c"]) == []
    assert collisions(table, planned_on) == []


def test_keys_that_others_inserted_into_logs_collide(table: HandMade, planned_on: Timeline) -> None:
    """Apache Hudi inserts into log files where its index can find them."""
    table.commit(
        at(60), at(61), table.log(group(1), at(60), {"c": 1}), table.log(group(2), at(60), {"d": 1})
    )
    assert collisions(table, planned_on, sf=["c", "d", "e", "b"]) == ["c", "d"]


def test_keys_in_rewritten_compacted_or_clustered_files_collide(
    table: HandMade, planned_on: Timeline
) -> None:
    """Rewritten, compacted, clustered: the files that they came in may be cleaned by now."""
    base, log = table.base(group(2), at(60), {"c": 1}), table.log(group(3), at(60), {"d": 1})
    table.commit(at(60), at(61), base, log, table.base(group(4), at(60), {"e": 1}))
    rewritten = table.base(group(2), at(62), {"c": 2}, after=at(60))
    table.commit(at(62), at(63), rewritten)
    compacted = table.base(group(3), at(64), {"d": 1})
    table.commit(at(64), at(65), compacted, action=Action.COMPACTION, operation="COMPACT")
    clustered = table.base(group(5), at(66), {"e": 1})
    table.commit(
        at(66),
        at(67),
        clustered,
        action=Action.CLUSTERING,
        operation="CLUSTER",
        replaces=(group(4),),
    )
    for gone in (base, log):
        table.ref.env.storage.delete(gone.path)
    assert collisions(table, planned_on, sf=["c", "d", "e", "f"]) == ["c", "d", "e"]


def test_keys_deleted_again_do_not_collide(table: HandMade, planned_on: Timeline) -> None:
    table.commit(at(60), at(61), table.base(group(2), at(60), {"c": 1, "d": 1}))
    table.commit(at(62), at(63), table.base(group(3), at(62), {"e": 1}))
    table.commit(at(64), at(65), table.base(group(2), at(64), {"d": 1}, after=at(60)))
    table.commit(at(66), at(67), action=Action.REPLACE_COMMIT, replaces=(group(3),))
    assert collisions(table, planned_on, sf=["c", "d", "e"]) == ["d"]


def test_bloom_filters_spare_the_keys(table: HandMade, planned_on: Timeline) -> None:
    rows = {f"key-{n:06d}": n for n in range(20_000)}
    stat = table.base(group(2), at(60), rows)
    table.commit(at(60), at(61), stat)
    path = Path(table.ref.uri.removeprefix("file://")) / stat.path
    whole = path.read_bytes()
    damaged = bytearray(whole)
    damaged[1000 : len(whole) // 2] = bytes(len(whole) // 2 - 1000)  # only the footer is left
    path.write_bytes(damaged)
    assert collisions(table, planned_on, sf=["other-1", "other-2"]) == []
    with pytest.raises(FormatError):
        collisions(table, planned_on, sf=["key-000007"])


def test_other_partitions_are_not_opened(table: HandMade, planned_on: Timeline) -> None:
    table.commit(
        at(60),
        at(61),
        table.base(group(2), at(60), {"c": 1}),
        table.base(group(2, "la"), at(60), {"c": 1}),
    )
    storage = TracedStorage(table.ref.env.storage)
    ref = TableRef(Env(storage), table.ref.properties, table.ref.config)
    assert collisions(table, planned_on, ref, la=["c"]) == ["c"]
    assert {operation.path.split("/")[0] for operation in storage.operations} == {LA}
    assert {operation.verb for operation in storage.operations} == {"open_read"}


def test_collisions_are_refused_outside_the_lock_first(
    table: HandMade, planned_on: Timeline
) -> None:
    table.commit(at(60), at(61), table.base(group(2), at(60), {f"k{n}": n for n in range(9)}))
    others = load_concurrent_instants(table.txn(), ConflictStrategy.SIMPLE, MINE, planned_on)
    found = guard(table, planned_on, sf=["x", "k7", "k1", "k5", "k3", "k2"])
    with pytest.raises(SearchOutsideLock) as due:
        found.refuse_collisions(others)
    with pytest.raises(WriteConflict) as info:
        found.search_keys(due.value.others)
    assert str(info.value).startswith(
        f"write {at(50)} inserts keys that others inserted meanwhile: 'k1', 'k2', 'k3' and 2 more. "
    )
    assert (info.value.instant, info.value.conflicting_instants) == (at(50), (at(60),))


def test_key_guard_searches_each_concurrent_commit_once(
    table: HandMade, planned_on: Timeline
) -> None:
    table.commit(at(60), at(61), table.base(group(2), at(60), {"k1": 1}))
    found = guard(table, planned_on, sf=["x", "k2"])
    others = load_concurrent_instants(table.txn(), ConflictStrategy.SIMPLE, MINE, planned_on)
    with pytest.raises(SearchOutsideLock):
        found.refuse_collisions(others)
    found.search_keys(others)
    found.refuse_collisions(others)
    table.commit(at(62), at(63), table.base(group(3), at(62), {"k2": 1}))
    more = load_concurrent_instants(table.txn(), ConflictStrategy.SIMPLE, MINE, planned_on)
    with pytest.raises(SearchOutsideLock) as due:
        found.refuse_collisions(more)
    assert [other.time for other in due.value.others] == [at(62)]
    with pytest.raises(WriteConflict, match="'k2'"):
        found.refuse_collisions(more)  # those who come again and again: inside the lock


def test_where_nobody_added_anything_nothing_is_read(table: HandMade, planned_on: Timeline) -> None:
    table.commit(at(60), at(61), table.base(group(2, "la"), at(60), {"k1": 1}))
    others = load_concurrent_instants(table.txn(), ConflictStrategy.SIMPLE, MINE, planned_on)
    storage = TracedStorage(table.ref.env.storage)
    ref = replace(table.ref, env=Env(storage))
    guard(table, planned_on, ref, sf=["k1"]).refuse_collisions(others)
    assert not storage.operations


def test_keys_that_were_there_before_are_not_new(table: HandMade, planned_on: Timeline) -> None:
    """A small file that takes new rows is written anew with its old ones."""
    table.commit(at(60), at(61), table.base(group(2), at(60), {"a": 1, "c": 1}))
    others = load_concurrent_instants(table.txn(), ConflictStrategy.SIMPLE, MINE, planned_on)
    stat = table.base(group(1), at(50), {"a": 1, "b": 1, "c": 1}, after=at(1))
    found = guard(table, planned_on)
    found.stats = [replace(stat, num_inserts=1)]
    assert found._find_collisions(others) == ["c"]


class PicklingEngine:
    """As Spark does: tasks go to another process."""

    def map(self, task, items, **given):
        return [pickle.loads(pickle.dumps(task))(pickle.loads(pickle.dumps(i))) for i in items]


def test_search_for_collisions_is_pickled_to_the_engine(
    table: HandMade, planned_on: Timeline
) -> None:
    table.commit(at(60), at(61), table.base(group(2), at(60), {"c": 1}))
    others = load_concurrent_instants(table.txn(), ConflictStrategy.SIMPLE, MINE, planned_on)
    found = guard(table, planned_on, engine=PicklingEngine(), sf=["c"])
    assert found._find_collisions(others) == ["c"]


# -- through the whole write ------------------------------------------------------------------

SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string()), ("v", pa.int64())])
NEW_GROUPS = {"hoodie.parquet.small.file.limit": "0"}
UNGUARDED = {**NEW_GROUPS, "hoodie.write.concurrency.key.guard.enable": "false"}


def rows(part: str = "p", **values: int) -> pa.Table:
    columns = [list(values), [part] * len(values), list(values.values())]
    return pa.table(columns, schema=SCHEMA)


class Interrupted:
    """Runs tasks one by one, and after the first ones something else."""

    may_repeat_tasks = False

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        self._meanwhile = [meanwhile]

    def map(self, task, items, **given):
        done = [task(item) for item in items]
        if task is run_handle and self._meanwhile:
            self._meanwhile.pop()()
        return done


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("files", [NEW_GROUPS, {}], ids=["new groups", "small files"])
def test_two_upserts_insert_one_key(tmp_path: Path, kind: str, files: dict[str, str]) -> None:
    """Hole 7: with default settings the key was there twice."""
    place = str(tmp_path / "t")
    table = hoodoo.create_table(
        place, schema=SCHEMA, record_key="id", partition_by="p", table_type=kind
    )
    table.insert(rows(a=1))
    other = hoodoo.open_table(place, NEW_GROUPS)
    engine = Interrupted(lambda: other.upsert(rows(k=2, l=2)))
    with pytest.raises(WriteConflict, match="others inserted meanwhile: 'k'\\."):
        operations.write(open_ref(place, files), OperationType.UPSERT, rows(k=3, z=3), engine)
    assert sorted(table.to_arrow()["id"].to_pylist()) == ["a", "k", "l"]
    engine = Interrupted(lambda: other.upsert(rows(m=4)))
    operations.write(open_ref(place, files), OperationType.UPSERT, rows(z=5), engine)
    engine = Interrupted(lambda: other.upsert(rows("q", z=6)))  # another row: another partition
    operations.write(open_ref(place, files), OperationType.UPSERT, rows(y=5), engine)
    assert sorted(table.to_arrow()["id"].to_pylist()) == ["a", "k", "l", "m", "y", "z", "z"]
    engine = Interrupted(lambda: other.upsert(rows(n=6)))
    operations.write(
        open_ref(place, UNGUARDED), OperationType.UPSERT, rows(n=7), engine
    )  # nobody looks
    assert table.to_arrow()["id"].to_pylist().count("n") == 2


def test_with_retries_the_second_upsert_becomes_an_update(tmp_path: Path) -> None:
    place = str(tmp_path / "t")
    table = hoodoo.create_table(place, schema=SCHEMA, record_key="id", partition_by="p")
    table.insert(rows(a=1))
    other = hoodoo.open_table(place, NEW_GROUPS)
    options = {**NEW_GROUPS, "hoodie.write.num.retries.on.conflict.failures": 2}
    engine = Interrupted(lambda: other.upsert(rows(k=2)))
    done = Table(open_ref(place, options), engine).upsert(rows(k=3, z=3))
    assert (done.stats.inserted, done.stats.updated) == (1, 1)
    found = table.to_arrow(columns=["id", "v"]).to_pydict()
    assert dict(zip(found["id"], found["v"], strict=True)) == {"a": 1, "k": 3, "z": 3}


def test_a_global_index_looks_in_all_partitions(tmp_path: Path) -> None:
    place = str(tmp_path / "t")
    options = {**NEW_GROUPS, "hoodie.index.type": "GLOBAL_SIMPLE"}
    table = hoodoo.create_table(place, schema=SCHEMA, record_key="id", partition_by="p")
    table.insert(rows(a=1))
    other = hoodoo.open_table(place, options)
    engine = Interrupted(lambda: other.upsert(rows("q", k=2)))
    with pytest.raises(WriteConflict, match="others inserted meanwhile: 'k'\\."):
        operations.write(open_ref(place, options), OperationType.UPSERT, rows(k=3), engine)
