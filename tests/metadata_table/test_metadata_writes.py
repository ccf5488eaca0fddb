"""Writes keep the metadata table: every action, for readers of all kinds."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.dead_writes import dead_upsert, make_older
from support.wheel import wheel_rows

import hoodoo
from hoodoo.api.table import Table
from hoodoo.concurrency.transactions.transaction import transaction
from hoodoo.errors import InputError
from hoodoo.metadata_table.delta_commits import (
    COVERED_KEY,
    find_logs,
    list_states,
    write_delta_commit,
)
from hoodoo.metadata_table.entries.read import read_entries
from hoodoo.metadata_table.indexes.files import file_changes
from hoodoo.metadata_table.table import MetadataTable, find_last_compaction, open_metadata_table
from hoodoo.model.instant import Action
from hoodoo.model.metadata_table import (
    BLOOM_FILTERS,
    COLUMN_STATS,
    FILES,
    PARTITION_STATS,
    SOLO_TIME,
)
from hoodoo.model.paths import PartitionPath
from hoodoo.runtime.engine import LocalEngine
from hoodoo.services.compaction.metadata_table import compact_metadata_table
from hoodoo.services.indexing.create import add_metadata_partitions
from hoodoo.table.ref import TableRef, open_ref
from hoodoo.table.timeline import read_commit
from hoodoo_testing.simulator.checks.metadata_table import check_metadata_table

pytestmark = pytest.mark.slow

SCHEMA = pa.schema([("id", pa.string()), ("part", pa.string()), ("v", pa.int64())])
METADATA = "hoodie.metadata.enable"
QUIET = {"hoodie.clean.automatic": False, "hoodie.archive.automatic": False}
ALL = {
    METADATA: True,
    "hoodie.metadata.index.column.stats.enable": True,
    "hoodie.metadata.index.bloom.filter.enable": True,
    **QUIET,
}
TABLE_TYPES = pytest.mark.parametrize("table_type", ["cow", "mor"])


def rows(v: int, *keys: str, part: str = "p") -> pa.Table:
    return pa.table([list(keys), [part] * len(keys), [v] * len(keys)], schema=SCHEMA)


def make(place: Path, table_type: str = "cow", **options: Any) -> Table:
    return hoodoo.create_table(
        str(place),
        schema=SCHEMA,
        record_key="id",
        partition_by="part",
        table_type=table_type,
        options={**ALL, **options},
    )


def load(place: Path) -> tuple[TableRef, MetadataTable]:
    ref = open_ref(str(place))
    return ref, open_metadata_table(ref.env, ref.load_timeline())


def check(place: Path, expected: dict[str, int], *, is_clean: bool = True) -> None:
    """Readers of all kinds have these rows; the metadata table has what storage has."""
    readers = [
        hoodoo.open_table(str(place)).to_arrow().to_pylist(),
        hoodoo.open_table(str(place), {METADATA: False}).to_arrow().to_pylist(),
        wheel_rows(place),
    ]
    for read in readers:
        assert sorted((row["id"], row["v"]) for row in read) == sorted(expected.items())
    if is_clean:
        check_metadata_table(open_ref(str(place)).env.storage)


@TABLE_TYPES
def test_every_action_keeps_the_metadata_table(tmp_path: Path, table_type: str) -> None:
    place = tmp_path / "t"
    table = make(place, table_type, **{"hoodie.clean.commits.retained": 1})
    table.insert(rows(1, "a", "b", "c"))
    check(place, {"a": 1, "b": 1, "c": 1})
    table.upsert(rows(2, "a", "d"))
    check(place, {"a": 2, "b": 1, "c": 1, "d": 2})
    table.delete(rows(0, "b").select(["id", "part"]))
    check(place, {"a": 2, "c": 1, "d": 2})
    table.insert(rows(3, "q1", "q2", part="q"))
    if table_type == "mor":
        assert table.schedule_compaction()
        assert table.run_compaction() is not None
        check(place, {"a": 2, "c": 1, "d": 2, "q1": 3, "q2": 3})
    table.insert_overwrite(rows(4, "q3", part="q"))
    check(place, {"a": 2, "c": 1, "d": 2, "q3": 4})
    table.insert(rows(5, "r", part="r"))
    table.delete_partitions(["part=r"])
    check(place, {"a": 2, "c": 1, "d": 2, "q3": 4})
    assert table.schedule_clustering(order_by=["id"])
    assert table.run_clustering() is not None
    check(place, {"a": 2, "c": 1, "d": 2, "q3": 4})
    table.upsert(rows(6, "a"))
    (done,) = table.clean()
    assert done.files
    check(place, {"a": 6, "c": 1, "d": 2, "q3": 4})
    ref, metadata = load(place)
    actions = {i.requested_time for i in ref.load_timeline().completed}
    assert actions <= {i.requested_time for i in metadata.timeline.completed}


def test_a_partition_that_is_cleaned_away_is_not_listed(tmp_path: Path) -> None:
    place = tmp_path / "t"
    table = make(place, **{"hoodie.clean.commits.retained": 1})
    table.insert(rows(1, "a"))
    table.insert(rows(1, "r", part="r"))
    table.delete_partitions(["part=r"])
    for v in (2, 3):
        table.upsert(rows(v, "a"))
    table.clean()
    check(place, {"a": 3})
    assert hoodoo.open_table(str(place)).to_arrow(filter="part = 'r'").num_rows == 0
    table.insert(rows(4, "r", part="r"))
    check(place, {"a": 3, "r": 4})


@TABLE_TYPES
def test_a_dead_write_is_rolled_back_there_too(tmp_path: Path, table_type: str) -> None:
    place = tmp_path / "t"
    table = make(place, table_type)
    table.insert(rows(1, "a", "b"))
    dead = dead_upsert(place, rows(2, "a", "x"))
    _, metadata = load(place)
    assert metadata.timeline.find(dead) is not None
    check(place, {"a": 1, "b": 1}, is_clean=False)
    done = table.recover()
    (rolled_back,) = done.rolled_back
    check(place, {"a": 1, "b": 1})
    _, metadata = load(place)
    assert metadata.timeline.find(dead) is None
    rollback = metadata.timeline.find(rolled_back.rollback)
    assert rollback is not None
    assert rollback.action is Action.ROLLBACK
    table.upsert(rows(3, "a"))
    check(place, {"a": 3, "b": 1})


def test_what_lands_after_its_rollback_is_swept(tmp_path: Path) -> None:
    place = tmp_path / "t"
    table = make(place)
    table.insert(rows(1, "a"))
    dead = dead_upsert(place, rows(2, "a"))
    late = {path: path.read_bytes() for path in (place / ".hoodie/metadata").rglob(f"*{dead}*")}
    late = {path: data for path, data in late.items() if "rollback" not in path.name}
    table.recover()
    for path, data in late.items():
        assert not path.exists()
        path.write_bytes(data)
    check(place, {"a": 1}, is_clean=False)
    for _ in range(2):
        for path in (place / ".hoodie").rglob("*"):
            if path.is_file():
                make_older(path, 2_000)
        table.recover()
    assert not any(path.exists() for path in late)
    check(place, {"a": 1})


def test_a_second_try_in_the_gate_takes_the_place_of_the_first(tmp_path: Path) -> None:
    """Else statistics would count rows twice."""
    place = tmp_path / "t"
    make(place).insert(rows(1, "a"))
    time = dead_upsert(place, rows(2, "a"))
    ref, metadata = load(place)
    where = metadata.properties.timeline_paths
    changes = {FILES: file_changes({PartitionPath("part=p"): {"one": 1}})}
    for _ in range(2):
        with transaction(ref, "test") as txn:
            write_delta_commit(txn, where, time, changes, covers=[FILES], epoch=2)
    own = [state for state in list_states(ref.env, where) if state.requested_time == time]
    assert sorted(state.state.value for state in own) == ["completed", "inflight", "requested"]
    (log,) = find_logs(ref.env, time)
    assert log.endswith("_0-2-0"), "files of the first attempt are left"


@pytest.mark.parametrize("is_compacted", [False, True], ids=["in logs", "compacted"])
@TABLE_TYPES
def test_a_restore_takes_back_what_was_listed(
    tmp_path: Path, table_type: str, is_compacted: bool
) -> None:
    place = tmp_path / "t"
    table = make(place, table_type)
    table.insert(rows(1, "a", "b"))
    target = table.upsert(rows(2, "a"))
    table.upsert(rows(3, "a", "x"))
    table.insert(rows(4, "q", part="q"))
    if is_compacted:
        assert compact_metadata_table(open_ref(str(place)), at_least=1)
    for path in place.rglob("*"):
        if path.is_file():
            make_older(path, 2_000)
    table.restore(target.instant)
    check(place, {"a": 2, "b": 1})
    properties = hoodoo.open_table(str(place)).properties
    names = properties["hoodie.table.metadata.partitions"].split(",")
    assert names == [BLOOM_FILTERS, COLUMN_STATS, FILES, PARTITION_STATS], "built again"
    table = hoodoo.open_table(str(place), QUIET)
    table.upsert(rows(5, "a", "y"))
    check(place, {"a": 5, "b": 1, "y": 5})
    _, metadata = load(place)
    parts = read_entries(metadata, metadata.load_partition(PARTITION_STATS)).to_pylist()
    (values,) = (row for row in parts if row["column_name"] == "v")
    assert (values["min_value"]["value"], values["max_value"]["value"]) == (1, 5)
    table.upsert(rows(6, "b"))
    check(place, {"a": 5, "b": 6, "y": 5})


def test_the_wheel_goes_by_the_metadata_table(tmp_path: Path) -> None:
    """A file of a committed instant that is not listed: directories have its rows twice."""
    place = tmp_path / "t"
    make(place).insert(rows(1, "a"))
    (file,) = place.rglob("*.parquet")
    file_id, _, rest = file.name.partition("_")
    shutil.copy(file, file.with_name(f"{'f' * 8}{file_id[8:]}_{rest}"))
    assert len(wheel_rows(place)) == 1
    assert hoodoo.open_table(str(place)).to_arrow().num_rows == 1
    assert hoodoo.open_table(str(place), {METADATA: False}).to_arrow().num_rows == 2


# -- indexes ------------------------------------------------------------------------------------


def test_an_index_of_an_existing_table(tmp_path: Path) -> None:
    place = tmp_path / "t"
    table = make(place, **{METADATA: False})
    table.insert(rows(1, "a", "b"))
    table.insert(rows(1, "q", part="q"))
    dead = dead_upsert(place, rows(9, "a"))
    assert "hoodie.table.metadata.partitions" not in table.properties
    ref = add_metadata_partitions(
        open_ref(str(place)), LocalEngine(), COLUMN_STATS, PARTITION_STATS
    )
    assert ref.properties.metadata_partitions == (COLUMN_STATS, FILES, PARTITION_STATS)
    assert add_metadata_partitions(ref, LocalEngine(), COLUMN_STATS) == ref
    check(place, {"a": 1, "b": 1, "q": 1}, is_clean=False)
    table.recover()
    _, metadata = load(place)
    assert metadata.timeline.find(dead) is None
    check(place, {"a": 1, "b": 1, "q": 1})
    table.upsert(rows(2, "a"))  # by a handle that was opened before there was an index
    check(place, {"a": 2, "b": 1, "q": 1})


def test_statistics_are_those_of_the_files(tmp_path: Path) -> None:
    place = tmp_path / "t"
    table = make(place)
    table.insert(rows(1, "a", "b"))
    table.upsert(rows(7, "b", "c"))
    _, metadata = load(place)
    stats = read_entries(metadata, metadata.load_partition(COLUMN_STATS)).to_pylist()
    found = sorted(
        (row["min_value"]["value"], row["max_value"]["value"], row["value_count"])
        for row in stats
        if row["column_name"] == "v"
    )
    assert found == [(1, 1, 2), (1, 7, 3)]
    parts = read_entries(metadata, metadata.load_partition(PARTITION_STATS)).to_pylist()
    (whole,) = (row for row in parts if row["column_name"] == "v")
    assert (whole["file_name"], whole["value_count"]) == ("part=p", 5)
    assert (whole["min_value"]["value"], whole["max_value"]["value"]) == (1, 7)
    blooms = read_entries(metadata, metadata.load_partition(BLOOM_FILTERS))
    assert blooms.num_rows == 2


def test_indexes_that_are_not_known_are_not_built(tmp_path: Path) -> None:
    place = tmp_path / "t"
    make(place)
    with pytest.raises(InputError, match="no index 'nonsense'"):
        add_metadata_partitions(open_ref(str(place)), LocalEngine(), "nonsense")


def test_texts_too_long_for_a_footer_have_bounds_all_the_same(tmp_path: Path) -> None:
    place = tmp_path / "t"
    long = "x" * 5000
    make(place).insert(rows(1, long, "a"))
    _, metadata = load(place)
    stats = read_entries(metadata, metadata.load_partition(COLUMN_STATS)).to_pylist()
    (ids,) = (row for row in stats if row["column_name"] == "id")
    assert (ids["min_value"]["value"], ids["max_value"]["value"]) == ("a", long)


# -- upkeep -------------------------------------------------------------------------------------


def grow_old(place: Path) -> None:
    """Let half an hour pass for all files of a table."""
    for path in place.rglob("*"):
        if path.is_file():
            make_older(path, 2_000)


@TABLE_TYPES
def test_metadata_table_stays_usable_after_fast_commits(
    tmp_path: Path, table_type: str, caplog: pytest.LogCaptureFixture
) -> None:
    schema = pa.schema([("id", pa.int64()), ("v", pa.int64())])
    table = hoodoo.create_table(
        tmp_path / "t", schema=schema, record_key="id", table_type=table_type
    )
    for v in range(45):
        table.upsert([{"id": v % 7, "v": v}])
    assert table.doctor() == []
    assert "metadata_table_not_used" not in caplog.text


def test_metadata_table_is_used_with_a_savepoint(tmp_path: Path) -> None:
    """The commit with the savepoint stays on the timeline when all others of then are archived."""
    place = tmp_path / "t"
    small = {
        "hoodie.keep.min.commits": 3,
        "hoodie.keep.max.commits": 4,
        "hoodie.clean.commits.retained": 2,
        "hoodie.archive.beyond.savepoint": True,
        "hoodie.metadata.compact.max.delta.commits": 3,
    }
    table = make(place, **small)
    first = table.upsert(rows(0, "a")).instant
    table.savepoint(first)
    for v in range(1, 30):
        table.upsert(rows(v, "a"))
    table.clean()
    grow_old(place)
    assert table.archive().instants
    assert compact_metadata_table(open_ref(str(place)), at_least=0)
    ref, metadata = load(place)
    assert ref.load_timeline().find(first) is not None
    assert metadata.timeline.find(first) is None, "it was not archived"
    assert table.doctor() == []


def test_it_is_compacted_cleaned_and_archived(tmp_path: Path) -> None:
    place = tmp_path / "t"
    table = make(place, **{"hoodie.metadata.compact.max.delta.commits": 3})
    for v in range(40):
        table.upsert(rows(v, "a", f"k{v}"))
    check(place, {f"k{v}": v for v in range(40)} | {"a": 39}, is_clean=False)
    ref, metadata = load(place)
    assert find_last_compaction(metadata.timeline) is not None
    assert len(metadata.timeline) > 40, "what the table's timeline has was archived"
    grow_old(place)
    assert table.archive().instants
    assert compact_metadata_table(ref, at_least=0)
    _, metadata = load(place)
    assert len(metadata.timeline) < 40, "nothing was archived"
    assert hoodoo.open_table(str(place)).doctor() == []
    listing = place / ".hoodie" / "metadata" / "files"
    assert len(list(listing.glob("*.hfile"))) == 2
    assert len(list(listing.glob(".*.log.*"))) < 12


def test_instants_that_it_still_needs_are_not_archived(tmp_path: Path) -> None:
    place = tmp_path / "t"
    small = {
        "hoodie.keep.min.commits": 3,
        "hoodie.keep.max.commits": 4,
        "hoodie.clean.commits.retained": 2,
        "hoodie.metadata.compact.max.delta.commits": 1000,
    }
    table = make(place, **small)
    for v in range(8):
        table.upsert(rows(v, "a"))
    table.clean()
    grow_old(place)
    for _ in range(2):
        table.recover()
        grow_old(place)
    assert table.archive().instants == ()
    assert compact_metadata_table(open_ref(str(place)), at_least=1)
    assert table.archive().instants
    check(place, {"a": 7}, is_clean=False)


def test_each_delta_commit_says_which_partitions_it_looked_at(tmp_path: Path) -> None:
    place = tmp_path / "t"
    make(place).insert(rows(1, "a"))
    partitions = sorted((FILES, BLOOM_FILTERS, COLUMN_STATS, PARTITION_STATS))
    ref, metadata = load(place)
    where = metadata.properties.timeline_paths
    for instant in metadata.timeline.completed:
        noted = read_commit(ref.env, where, instant).extra_metadata.get(COVERED_KEY)
        is_first = instant.requested_time.startswith(SOLO_TIME)
        assert noted == (None if is_first else ",".join(partitions))
