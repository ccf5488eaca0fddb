"""The key guard: keys that others inserted meanwhile are found, in whatever file they are."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from support.hand_made import HandMade, at, group

import hoodoo
from hoodoo.concurrency.conflict import Kind, Mine
from hoodoo.concurrency.others import load_others
from hoodoo.config.concurrency import ConflictStrategy
from hoodoo.engine.local import LocalEngine
from hoodoo.env import Env
from hoodoo.errors import FormatError, WriteConflict
from hoodoo.model.instant import Action
from hoodoo.model.paths import PartitionPath
from hoodoo.storage.traced import TracedStorage
from hoodoo.table.ref import TableRef, open_ref
from hoodoo.timeline.timeline import Timeline
from hoodoo.write import operations
from hoodoo.write.handle import run_handle
from hoodoo.write.key_guard import colliding_keys, inserted_keys, refuse_collisions
from hoodoo.write.prepare import Incoming

MINE = Mine(at(50), Kind.INGESTION, {})
SF, LA = group(1).partition, group(1, "la").partition


@pytest.fixture
def table(tmp_path: Path) -> HandMade:
    """A table with one commit."""
    made = HandMade(tmp_path / "t")
    made.commit(at(1), at(2), made.base(group(1), at(1), {"a": 1, "b": 1}))
    return made


@pytest.fixture
def planned_on(table: HandMade) -> Timeline:
    return table.txn().timeline


def collisions(
    table: HandMade, planned_on: Timeline, ref: TableRef | None = None, **keys: list[str]
) -> list[str]:
    """Which keys of a city are in what others added."""
    others = load_others(table.txn(), ConflictStrategy.SIMPLE, MINE, planned_on)
    inserted = {PartitionPath(f"city={city}"): pa.array(found) for city, found in keys.items()}
    return colliding_keys(ref or table.ref, inserted, others, LocalEngine(1))


@pytest.mark.parametrize("bloom", [True, False])
def test_keys_in_new_base_files(table: HandMade, planned_on: Timeline, bloom: bool) -> None:
    table.commit(at(60), at(61), table.base(group(2), at(60), {"c": 1, "d": 1}, bloom=bloom))
    assert collisions(table, planned_on, sf=["d", "x", "c"]) == ["c", "d"]
    assert collisions(table, planned_on, sf=["a", "b", "x"]) == []  # those were there before
    assert collisions(table, planned_on, la=["c"]) == []
    assert collisions(table, planned_on) == []


def test_keys_in_logs_of_new_and_old_groups(table: HandMade, planned_on: Timeline) -> None:
    """Apache Hudi inserts into log files where its index can find them."""
    table.commit(
        at(60), at(61), table.log(group(1), at(60), {"c": 1}), table.log(group(2), at(60), {"d": 1})
    )
    assert collisions(table, planned_on, sf=["c", "d", "e", "b"]) == ["c", "d"]


def test_keys_that_moved_on(table: HandMade, planned_on: Timeline) -> None:
    """Rewritten, compacted, clustered: the files that they came in may be cleaned by now."""
    base, log = table.base(group(2), at(60), {"c": 1}), table.log(group(3), at(60), {"d": 1})
    table.commit(at(60), at(61), base, log, table.base(group(4), at(60), {"e": 1}))
    rewritten = table.base(group(2), at(62), {"c": 2}, after=at(60))
    table.commit(at(62), at(63), rewritten)
    compacted = table.base(group(3), at(64), {"d": 1})
    table.commit(at(64), at(65), compacted, action=Action.COMPACTION, operation="COMPACT")
    clustered = table.base(group(5), at(66), {"e": 1})
    table.commit(
        *(at(66), at(67), clustered),
        action=Action.CLUSTERING,
        operation="CLUSTER",
        replaces=(group(4),),
    )
    for gone in (base, log):
        table.ref.env.storage.delete(gone.path)
    assert collisions(table, planned_on, sf=["c", "d", "e", "f"]) == ["c", "d", "e"]


def test_keys_that_are_gone_again(table: HandMade, planned_on: Timeline) -> None:
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
        *(at(60), at(61)),
        table.base(group(2), at(60), {"c": 1}),
        table.base(group(2, "la"), at(60), {"c": 1}),
    )
    storage = TracedStorage(table.ref.env.storage)
    ref = TableRef(Env(storage), table.ref.properties, table.ref.config)
    assert collisions(table, planned_on, ref, la=["c"]) == ["c"]
    assert {operation.path.split("/")[0] for operation in storage.operations} == {LA}
    assert {operation.verb for operation in storage.operations} == {"open_read"}


def test_collisions_are_refused(table: HandMade, planned_on: Timeline) -> None:
    table.commit(at(60), at(61), table.base(group(2), at(60), {f"k{n}": n for n in range(9)}))
    others = load_others(table.txn(), ConflictStrategy.SIMPLE, MINE, planned_on)
    keys = {SF: pa.array(["x", "k7", "k1", "k5", "k3", "k2"])}
    with pytest.raises(WriteConflict) as info:
        refuse_collisions(MINE, table.ref, keys, others, LocalEngine(1))
    assert str(info.value).startswith(
        f"write {at(50)} inserts keys that others inserted meanwhile: 'k1', 'k2', 'k3' and 2 more. "
    )
    assert (info.value.instant, info.value.others) == (at(50), (at(60),))
    refuse_collisions(MINE, table.ref, {SF: pa.array(["x"])}, others, LocalEngine(1))
    refuse_collisions(MINE, table.ref, keys, [], LocalEngine(1))


class PicklingEngine:
    """As Spark does: tasks go to another process."""

    def map(self, task, items):
        return [pickle.loads(pickle.dumps(task))(pickle.loads(pickle.dumps(i))) for i in items]


def test_the_search_travels(table: HandMade, planned_on: Timeline) -> None:
    table.commit(at(60), at(61), table.base(group(2), at(60), {"c": 1}))
    others = load_others(table.txn(), ConflictStrategy.SIMPLE, MINE, planned_on)
    assert colliding_keys(table.ref, {SF: pa.array(["c"])}, others, PicklingEngine()) == ["c"]


def test_inserted_keys_by_partition() -> None:
    incoming = Incoming(
        pa.table({"id": list("abcde")}), pa.array(list("abcde")), pa.array([SF, LA, SF, LA, SF])
    )
    found = inserted_keys(incoming, np.array([0, 1, 3, 4]))
    assert {key: keys.to_pylist() for key, keys in found.items()} == {
        SF: ["a", "e"],
        LA: ["b", "d"],
    }
    assert inserted_keys(incoming, np.array([], np.int64)) == {}


# -- through the whole write ------------------------------------------------------------------

SCHEMA = pa.schema([("id", pa.string()), ("v", pa.int64())])
NEW_GROUPS = {"hoodie.parquet.small.file.limit": "0"}
GUARDED = {**NEW_GROUPS, "hoodie.write.concurrency.key.guard.enable": "true"}


def rows(**values: int) -> pa.Table:
    return pa.table([list(values), list(values.values())], schema=SCHEMA)


class Interrupted:
    """Runs tasks one by one, and after the first ones something else."""

    repeats = False

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        self._meanwhile = [meanwhile]

    def map(self, task, items):
        done = [task(item) for item in items]
        if task is run_handle and self._meanwhile:
            self._meanwhile.pop()()
        return done


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("write", [operations.insert, operations.upsert])
def test_two_writes_insert_one_key(tmp_path: Path, kind: str, write) -> None:
    place = str(tmp_path / "t")
    table = hoodoo.create_table(place, schema=SCHEMA, record_key="id", table_type=kind)
    table.insert(rows(a=1))
    other = hoodoo.open_table(place, NEW_GROUPS)
    engine = Interrupted(lambda: other.upsert(rows(k=2, l=2)))
    with pytest.raises(WriteConflict, match="others inserted meanwhile: 'k'\\."):
        write(open_ref(place, GUARDED), rows(k=3, z=3), engine)
    assert sorted(table.to_arrow()["id"].to_pylist()) == ["a", "k", "l"]
    engine = Interrupted(lambda: other.upsert(rows(m=4)))
    write(open_ref(place, GUARDED), rows(z=5), engine)
    engine = Interrupted(lambda: other.upsert(rows(n=6)))
    write(open_ref(place, NEW_GROUPS), rows(n=7), engine)  # nobody looks
    assert sorted(table.to_arrow()["id"].to_pylist()) == ["a", "k", "l", "m", "n", "n", "z"]
