"""Every action of a table keeps its record index: it equals a scan of the table after each."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.dead_writes import dead_upsert, die_over, make_older
from support.indexed import BUCKETS, GLOBAL, INDEX, KINDS, arrow, create
from support.record_indexed import INDEXED, check_index, indexed_keys

from hoodoo.api.table import Table
from hoodoo.errors import UnsupportedFeature
from hoodoo.format.metadata_table.record_index import LOCATIONS
from hoodoo.metadata_table.delta_commits import COVERED_KEY, list_groups
from hoodoo.metadata_table.entries.read import read_entries
from hoodoo.metadata_table.table import open_metadata_table
from hoodoo.model.metadata_table import FILES, RECORD_INDEX
from hoodoo.runtime.engine import LocalEngine
from hoodoo.runtime.env import Env
from hoodoo.services.compaction.metadata_table import compact_metadata_table
from hoodoo.services.indexing.create import add_metadata_partitions
from hoodoo.services.restore.indexes import drop_narrow_indexes
from hoodoo.storage import open_storage
from hoodoo.storage.traced import TracedStorage
from hoodoo.table.ref import open_ref
from hoodoo.table.timeline import moment_of, read_commit

MIN_GROUPS = "hoodie.metadata.global.record.level.index.min.filegroup.count"
INDEXES = pytest.mark.parametrize(
    "options",
    [{INDEX: "SIMPLE"}, BUCKETS, GLOBAL, {INDEX: "RECORD_INDEX"}],
    ids=["simple", "bucket", "global", "record"],
)


def make(place: Path, kind: str, options: dict[str, str] | None = None) -> Any:
    return create(place / "t", kind, {**INDEXED, **(options or {})}, "ts")


def rows(v: int, *keys: str, p: str = "x") -> pa.Table:
    return arrow([(key, p, v, v) for key in keys])


ROWS = arrow([("a", "x", 5, 5), ("new", "x", 5, 5)])


@pytest.mark.slow
@KINDS
@INDEXES
def test_every_action_keeps_it(tmp_path: Path, kind: str, options: dict[str, str]) -> None:
    table = make(tmp_path, kind, options)
    check_index(table, set())

    table.insert(rows(1, "a", "b", "c"))
    check_index(table, {"a", "b", "c"})
    table.bulk_insert(rows(1, "d", "e", p="y"))
    check_index(table, {"a", "b", "c", "d", "e"})
    table.upsert(pa.concat_tables([rows(2, "a", "f"), rows(2, "d", p="y")]))
    check_index(table, {"a", "b", "c", "d", "e", "f"})
    table.delete(["a", "d", "nobody"])
    check_index(table, {"b", "c", "e", "f"})
    table.upsert(rows(3, "a"))
    check_index(table, {"a", "b", "c", "e", "f"})
    if kind == "mor":
        table.schedule_compaction()
        table.run_compaction()
        check_index(table, {"a", "b", "c", "e", "f"})
    table.delete(["a"])
    check_index(table, {"b", "c", "e", "f"})
    table.insert_overwrite(rows(4, "b", "g"))
    check_index(table, {"b", "g", "e"})
    if options is not BUCKETS:
        table.bulk_insert(rows(4, "h"))
        check_index(table, {"b", "g", "e", "h"})
        assert table.schedule_clustering() is not None
        table.run_clustering()
        check_index(table, {"b", "g", "e", "h"})
        table.delete(["h"])
    table.delete_partitions(["p=y"])
    check_index(table, {"b", "g"})
    table.insert_overwrite_table(rows(5, "z", p="y"))
    check_index(table, {"z"})
    assert compact_metadata_table(open_ref(table.uri), at_least=1)
    table.clean()
    check_index(table, {"z"})


@KINDS
def test_a_key_that_moves_to_another_partition_has_one_entry(tmp_path: Path, kind: str) -> None:
    table = make(tmp_path, kind, GLOBAL)
    table.insert(rows(1, "a", "b"))
    before = indexed_keys(table)
    table.upsert(rows(2, "a", p="y z"))
    check_index(table, {"a", "b"})
    after = indexed_keys(table)
    assert (before["a"][0], after["a"][0]) == ("p=x", "p=y z")
    assert before["b"] == after["b"]


def test_entries_have_the_moment_of_the_commit_that_put_them_there(tmp_path: Path) -> None:
    table = make(tmp_path, "cow")
    first = table.insert(rows(1, "a"))
    second = table.insert(rows(1, "b", p="y"))
    ref = open_ref(table.uri)
    zone = ref.properties.timeline_zone
    expected = {
        "a": moment_of(ref.env.clock, zone, first.instant),
        "b": moment_of(ref.env.clock, zone, second.instant),
    }
    assert _moments(table.uri) == expected
    drop_index(table.uri)
    add_metadata_partitions(open_ref(table.uri), LocalEngine(), RECORD_INDEX)
    assert _moments(table.uri) == expected, "those of an index that is built later"


@KINDS
def test_an_index_of_an_existing_table_has_all_live_keys(tmp_path: Path, kind: str) -> None:
    table = create(tmp_path / "t", kind, {"hoodie.metadata.enable": "false"}, "ts")
    table.insert(rows(1, "a", "b", "c"))
    table.upsert(rows(2, "b"))
    table.insert(rows(1, "d", p="y"))
    table.delete(["a"])
    dead = dead_upsert(tmp_path / "t", rows(9, "b", "never"))
    few = {MIN_GROUPS: 2}
    ref = add_metadata_partitions(open_ref(table.uri, few), LocalEngine(), RECORD_INDEX)
    assert ref.properties.metadata_partitions == (FILES, RECORD_INDEX)
    definitions = json.loads(ref.env.storage.read(".hoodie/.index_defs/index.json"))
    assert definitions["indexDefinitions"][RECORD_INDEX] == {
        "indexName": "record_index",
        "indexType": "record_index",
        "indexFunction": "",
        "sourceFields": [],
        "indexOptions": {"isPartitioned": "false"},
        "version": "V1",
    }
    assert ref.properties.raw["hoodie.table.index.defs.path"] == ".hoodie/.index_defs/index.json"
    assert list_groups(ref.env, RECORD_INDEX).ids == (
        *("record-index-0000-0", "record-index-0001-0"),
    )
    check_index(table, {"b", "c", "d"})
    table.recover()  # rolls the dead write back, by a handle that knew of no index
    assert open_ref(table.uri).load_timeline().find(dead) is None
    check_index(table, {"b", "c", "d"})
    table.upsert(rows(3, "b", "e"))
    check_index(table, {"b", "c", "d", "e"})


@KINDS
def test_a_dead_write_leaves_nothing_in_it(tmp_path: Path, kind: str) -> None:
    table = make(tmp_path, kind)
    table.insert(rows(1, "a", "b"))
    dead_upsert(tmp_path / "t", rows(9, "a", "never"))
    check_index(table, {"a", "b"})
    table.recover()
    check_index(table, {"a", "b"})
    table.upsert(rows(2, "a", "c"))
    check_index(table, {"a", "b", "c"})


@pytest.mark.slow
@KINDS
@pytest.mark.parametrize("is_compacted", [False, True], ids=["in logs", "compacted"])
def test_restore_rebuilds_record_index(tmp_path: Path, kind: str, is_compacted: bool) -> None:
    table = make(tmp_path, kind, GLOBAL)
    table.insert(rows(1, "a", "b"))
    target = table.upsert(rows(2, "a", "c"))
    table.upsert(rows(3, "a", "x", p="y"))
    table.delete(["b"])
    if is_compacted:
        assert compact_metadata_table(open_ref(table.uri), at_least=1)
    for path in (tmp_path / "t").rglob("*"):
        if path.is_file():
            make_older(path, 2_000)
    table.restore(target.instant)
    check_index(table, {"a", "b", "c"})
    table.upsert(rows(4, "b", "d"))
    check_index(table, {"a", "b", "c", "d"})


def test_no_index_is_built_in_the_middle_of_a_restore(tmp_path: Path) -> None:
    table = create(tmp_path / "t", "cow", {}, "ts")
    target = table.insert(rows(1, "a"))
    table.insert(rows(1, "b"))
    for path in (tmp_path / "t").rglob("*"):
        if path.is_file():
            make_older(path, 2_000)
    place = tmp_path / "t"
    die_over(place, lambda dying: dying.restore(target.instant), at=r"restore\.inflight$")
    with pytest.raises(UnsupportedFeature, match="is not finished"):
        add_metadata_partitions(open_ref(table.uri), LocalEngine(), RECORD_INDEX)


# -- an index that comes, goes, or is built anew while a write is under way ----------------------


def upsert_while(place: Path, change: Callable[[], object]) -> int:
    """An upsert, and a change just before it writes its first file; how often it took the lock.

    No data file is read while it has the lock.
    """
    is_done = False

    def before(verb: str, path: str) -> None:
        nonlocal is_done
        if not is_done and verb == "create" and ".marker." in path:
            is_done = True
            change()

    storage = TracedStorage(open_storage(str(place)), before=before)
    Table(open_ref(str(place), None, Env(storage)), LocalEngine(threads=1)).upsert(ROWS)
    assert is_done
    turns = 0
    for operation in storage.operations:
        turns += operation.verb == "replace" and "table_lock" in operation.path
        assert turns % 2 == 0 or not operation.path.startswith("p="), operation
    return turns // 2


def build(place: Path, groups: int = 3) -> None:
    add_metadata_partitions(open_ref(str(place), {MIN_GROUPS: groups}), LocalEngine(), RECORD_INDEX)


@KINDS
def test_a_write_follows_an_index_that_comes_meanwhile(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "t"
    table = create(place, kind, {}, "ts")
    table.insert(rows(1, "a", "b"))
    assert upsert_while(place, lambda: None) == 2
    table.delete(["new"])
    assert upsert_while(place, lambda: build(place)) == 3, "the gate is left once"
    check_index(table, {"a", "b", "new"})


@KINDS
def test_a_write_follows_an_index_that_is_dropped(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "t"
    table = create(place, kind, INDEXED, "ts")
    table.insert(rows(1, "a", "b"))
    assert upsert_while(place, lambda: drop_index(str(place))) == 2
    assert open_ref(str(place)).properties.metadata_partitions == (FILES,)
    build(place)
    check_index(table, {"a", "b", "new"})


@KINDS
def test_a_write_follows_an_index_that_is_built_anew(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "t"
    table = create(place, kind, INDEXED, "ts")
    table.insert(rows(1, "a", "b"))

    def build_anew() -> None:
        drop_index(str(place))
        build(place, groups=5)

    assert upsert_while(place, build_anew) == 2, "nothing was prepared yet"
    assert len(list_groups(open_ref(str(place)).env, RECORD_INDEX).ids) == 5
    check_index(table, {"a", "b", "new"})


def test_a_clustering_follows_an_index_that_comes_meanwhile(tmp_path: Path) -> None:
    place = tmp_path / "t"
    table = create(place, "cow", {"hoodie.parquet.small.file.limit": "0"}, "ts")
    for key in "abc":
        table.insert(rows(1, key))
    assert table.schedule_clustering() is not None
    is_done = False

    def before(verb: str, path: str) -> None:
        nonlocal is_done
        if not is_done and verb == "create" and ".marker." in path:
            is_done = True
            build(place)

    storage = TracedStorage(open_storage(str(place)), before=before)
    Table(open_ref(str(place), None, Env(storage)), LocalEngine(threads=1)).run_clustering()
    assert is_done
    check_index(table, {"a", "b", "c"})
    assert len(set(indexed_keys(table).values())) == 1


# -- refused ------------------------------------------------------------------------------------


def test_an_index_for_each_partition_is_refused(tmp_path: Path) -> None:
    table = make(tmp_path, "cow")
    definitions = tmp_path / "t" / ".hoodie" / ".index_defs" / "index.json"
    definitions.write_text(definitions.read_text().replace('"false"', '"true"'))
    with pytest.raises(UnsupportedFeature, match="RECORD_LEVEL_INDEX"):
        table.insert(rows(1, "a"))


def test_the_commit_says_that_it_looked_at_the_record_index(tmp_path: Path) -> None:
    table = make(tmp_path, "mor")
    table.insert(rows(1, "a"))
    table.upsert(rows(2, "a"))  # changes nothing there
    ref = open_ref(table.uri)
    metadata = open_metadata_table(ref.env, ref.load_timeline())
    last = metadata.timeline.latest_commit
    assert last is not None
    commit = read_commit(ref.env, metadata.properties.timeline_paths, last)
    assert commit.extra_metadata[COVERED_KEY] == "files,record_index"
    assert [stat.partition_path for _, stat in commit.stats()] == [FILES]


def drop_index(uri: str) -> None:
    """Take the record index out of use, as a restore does."""
    assert drop_narrow_indexes(open_ref(uri)) == (RECORD_INDEX,)


def _moments(uri: str) -> dict[str, int]:
    ref = open_ref(uri)
    table = open_metadata_table(ref.env, ref.load_timeline())
    entries = read_entries(table, table.load_partition(RECORD_INDEX))
    assert entries.schema.names == LOCATIONS.names
    return dict(zip(entries["key"].to_pylist(), entries["instant_ms"].to_pylist(), strict=True))
