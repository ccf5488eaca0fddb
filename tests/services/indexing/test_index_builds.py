"""Indexes that are planned, built, caught up, dropped and built again while the table lives."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from support.dead_writes import make_older
from support.paused_writes import ANNOUNCED, WRITTEN, pause_write
from support.writer_machines import PowerCut

import hoodoo
from hoodoo.api.table import Table
from hoodoo.errors import ConfigError, InputError, PlanNotExecutable, UnsupportedFeature
from hoodoo.format.timeline import instant_files as codec
from hoodoo.metadata_table.delta_commits import COVERED_KEY, find_logs, list_states, state_path
from hoodoo.metadata_table.table import load_metadata_properties
from hoodoo.model import paths
from hoodoo.model.instant import Action, Instant, InstantTime, State
from hoodoo.model.metadata_table import BLOOM_FILTERS, COLUMN_STATS, FILES, RECORD_INDEX
from hoodoo.runtime.engine import LocalEngine
from hoodoo.runtime.env import Env
from hoodoo.services.archive.archive import archive
from hoodoo.services.clean.clean import schedule_clean
from hoodoo.storage import open_storage
from hoodoo.storage.traced import TracedStorage
from hoodoo.table.ref import open_ref
from hoodoo.table.timeline import instant_path, read_commit
from hoodoo_testing.tables.fresh_indexes import find_differences

SCHEMA = pa.schema([("id", pa.string()), ("part", pa.string()), ("v", pa.int64())])
QUIET = {"hoodie.table.services.enabled": "false", "hoodie.parquet.small.file.limit": 0}
SOME = [FILES, COLUMN_STATS, RECORD_INDEX]
KINDS = pytest.mark.parametrize("kind", ["cow", "mor"])


def rows(v: int, *keys: str, part: str = "p") -> pa.Table:
    return pa.table([list(keys), [part] * len(keys), [v] * len(keys)], schema=SCHEMA)


def make(place: Path, kind: str = "cow", *, metadata: bool = False) -> Table:
    hoodoo.create_table(
        str(place / "t"),
        schema=SCHEMA,
        record_key="id",
        partition_by="part",
        table_type=kind,
        options={
            "hoodie.metadata.enable": metadata,
            "hoodie.metadata.index.column.stats.enable": False,
        },
    )
    table = hoodoo.open_table(str(place / "t"), QUIET)
    table.upsert(rows(1, "a", "b", "c"))
    table.upsert(rows(1, "m", "n", part="q"))
    return table


def states(table: Table) -> dict[str, str]:
    return {each.name: each.state for each in table.inspect.indexes()}


# -- the whole way ------------------------------------------------------------------------------


@KINDS
def test_index_equals_a_fresh_one_after_writes_before_during_and_after_its_build(
    tmp_path: Path, kind: str
) -> None:
    table = make(tmp_path, kind)
    planned = table.schedule_index(SOME)
    assert planned is not None
    assert set(states(table).values()) == {"planned"}
    assert table.schedule_index(SOME) is None  # planned already
    table.upsert(rows(2, "a", "x"))
    table.delete(["b"])
    done = table.run_index()
    assert done is not None
    assert (done.instant, set(done.built)) == (planned, set(SOME))
    assert set(states(table).values()) == {"complete"}
    table.upsert(rows(3, "x", "y", part="p"))
    assert find_differences(table._ref) == []
    assert table.run_index() is None
    assert table.create_index(SOME) is None
    assert table.plans() == []
    assert table.doctor() == []


def test_partition_in_the_making_is_read_by_nobody(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.schedule_index([FILES])
    assert open_ref(table.uri).properties.metadata_partitions == ()
    assert table.to_arrow().num_rows == 5


def test_handle_from_before_the_plan_writes_the_index(tmp_path: Path) -> None:
    table = make(tmp_path)
    old = hoodoo.open_table(table.uri, QUIET)
    table.create_index(SOME)
    old.upsert(rows(2, "a", "x"))
    assert find_differences(table._ref) == []
    table.drop_index(RECORD_INDEX)
    old.upsert(rows(3, "a", "y"))
    assert find_differences(table._ref) == []


@pytest.mark.parametrize("point", [ANNOUNCED, WRITTEN])
def test_write_in_progress_follows_an_index_that_comes_goes_and_comes_back(
    tmp_path: Path, point: tuple[str, str]
) -> None:
    table = make(tmp_path)
    place = tmp_path / "t"
    with pause_write(
        place, lambda own: own.upsert(rows(2, "a", "x")), at=point, options=QUIET
    ) as write:
        table.create_index(SOME)
        table.create_index(COLUMN_STATS, columns=["v"], rebuild=True)
        write.go_on()
    assert find_differences(table._ref) == []
    reports = table.inspect.indexes()
    assert {each.columns[-1] for each in reports if each.name == COLUMN_STATS} == {"v"}


# -- timelines with holes: the table of design 004 ----------------------------------------------


def test_timeline_with_holes_needs_no_wait_for_our_own_instants(tmp_path: Path) -> None:
    """CLEAN 4 inflight, COMPACT 7 requested, DC 10 inflight: all end after the build."""
    table = make(tmp_path, "mor")
    for v in range(2, 5):
        table.upsert(rows(v, "a", "b"))
    keeping_one = hoodoo.open_table(table.uri, {**QUIET, "hoodie.clean.commits.retained": 1})
    table.schedule_compaction()
    table.run_compaction()
    table.upsert(rows(5, "a"))
    clean = schedule_clean(keeping_one._ref, LocalEngine(threads=1))
    assert clean is not None
    table.upsert(rows(6, "m", part="q"))
    compaction = table.schedule_compaction()
    assert compaction is not None
    with pause_write(
        tmp_path / "t", lambda own: own.upsert(rows(7, "c", "z")), options=QUIET
    ) as write:
        planned = table.schedule_index(SOME)
        done = table.run_index()
        assert done is not None
        assert done.instant == planned
        assert find_differences(table._ref) == []
        write.go_on()
    assert find_differences(table._ref) == []
    table.run_compaction()
    keeping_one.clean()
    assert find_differences(table._ref) == []
    assert not [each for each in table.timeline() if each.state != "completed"]


# -- what other engines miss --------------------------------------------------------------------


def forget_partition(table: Table, time: str, partitions: Collection[str]) -> None:
    """Leave a commit in the metadata table as an engine does that knows nothing of these."""
    env = table._ref.env
    where = load_metadata_properties(env).timeline_paths
    for path in find_logs(env, InstantTime(time)):
        if path.split("/")[-2] in partitions:
            env.storage.delete(path)
    (done,) = (i for i in list_states(env, where) if i.requested_time == time and i.is_completed)
    commit = read_commit(env, where, done)
    stats = {
        place: each
        for place, each in commit.partition_to_write_stats.items()
        if place not in partitions
    }
    extra = {key: text for key, text in commit.extra_metadata.items() if key != COVERED_KEY}
    forgetful = replace(commit, partition_to_write_stats=stats, extra_metadata=extra)
    env.storage.put(state_path(where, done), codec.encode(forgetful))


@KINDS
@pytest.mark.parametrize("index", [COLUMN_STATS, BLOOM_FILTERS, RECORD_INDEX])
def test_commits_that_left_an_index_out_are_made_up_for(
    tmp_path: Path, kind: str, index: str
) -> None:
    table = make(tmp_path, kind, metadata=True)
    table.schedule_index(index)
    missed = table.upsert(rows(2, "a", "x"))
    table.upsert(rows(3, "y"))
    table.delete(["m"])
    forget_partition(table, missed.instant, [index])
    table.run_index()
    assert find_differences(table._ref) == []
    table.upsert(rows(4, "x", "z"))
    assert find_differences(table._ref) == []


def begin_foreign_write(table: Table) -> Instant:
    """A write of another engine in progress: its heartbeat has no body."""
    ref = table._ref
    times = [each.requested_time for each in ref.load_timeline()]
    time = InstantTime(str(int(max(times)) + 1))
    env, where = ref.env, ref.properties.timeline_paths
    for state in (State.REQUESTED, State.INFLIGHT):
        env.storage.put(instant_path(where, Instant(time, Action.COMMIT, state)), b"")
    env.storage.put(paths.heartbeat(time), b"")
    return Instant(time, Action.COMMIT, State.INFLIGHT)


def test_build_waits_for_unaware_writers_until_its_time_is_up_and_goes_on_later(
    tmp_path: Path,
) -> None:
    table = make(tmp_path)
    foreign = begin_foreign_write(table)
    table.schedule_index(SOME)
    hasty = hoodoo.open_table(
        table.uri, {**QUIET, "hoodie.metadata.index.check.timeout.seconds": 0}
    )
    with pytest.raises(PlanNotExecutable, match=f"waits for writes .*{foreign.requested_time}"):
        hasty.run_index()
    assert table._ref.reopen().properties.metadata_partitions == ()
    make_older(tmp_path / "t" / paths.heartbeat(foreign.requested_time), 7200)
    done = hasty.run_index()  # it counts as dead by now
    assert done is not None
    assert set(done.built) == set(SOME)
    assert find_differences(table._ref) == []


# -- crashes, restores, archival ----------------------------------------------------------------


def _die_while_building(place: Path, *, at: str) -> None:
    """Run a planned build in a process that loses power when it is about to create `at`."""
    is_dead = False

    def before(verb: str, path: str) -> None:
        nonlocal is_dead
        is_dead = is_dead or bool(verb == "create" and re.search(at, path))
        if is_dead:
            raise PowerCut

    storage = TracedStorage(open_storage(str(place)), before=before)
    lock = {"hoodie.write.lock.provider": "in_process"}  # it goes with the process
    ref = open_ref(str(place), {**QUIET, **lock}, Env(storage))
    with pytest.raises(PowerCut):
        Table(ref, LocalEngine(threads=1)).run_index()


def test_build_that_was_cut_off_is_resumed_with_the_files_that_are_there(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.schedule_index([FILES, RECORD_INDEX])
    _die_while_building(tmp_path / "t", at=r"record-index-0004-0_0-0-0")
    there = {p.name: p.stat().st_mtime_ns for p in (tmp_path / "t").rglob("record-index*.hfile")}
    assert len(there) == 4
    table.upsert(rows(2, "a", "x"))
    for heartbeat in (tmp_path / "t" / paths.HEARTBEATS).iterdir():
        make_older(heartbeat, 7200)
    assert states(table)[RECORD_INDEX] == "builder died"
    assert table.run_index() is not None
    for path in (tmp_path / "t").rglob("record-index*.hfile"):
        assert there.get(path.name, path.stat().st_mtime_ns) == path.stat().st_mtime_ns
    assert find_differences(table._ref) == []


def test_restore_ends_builds_and_makes_the_indexes_again(tmp_path: Path) -> None:
    table = make(tmp_path, metadata=True)
    target = table.upsert(rows(2, "a", "x"))
    table.upsert(rows(3, "y"))
    table.schedule_index(RECORD_INDEX)
    table.upsert(rows(4, "z"))
    for path in (tmp_path / "t" / ".hoodie" / "timeline").iterdir():
        make_older(path, 7200)
    table.restore(target.instant)
    assert [each.action for each in table.timeline() if each.state != "completed"] == []
    assert states(table)[RECORD_INDEX] == "complete"
    assert find_differences(table._ref) == []


def test_archival_leaves_what_a_pending_build_needs(tmp_path: Path) -> None:
    eager = {**QUIET, "hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3}
    eager |= {"hoodie.clean.commits.retained": 1}
    table = make(tmp_path)
    for v in range(2, 8):
        table.upsert(rows(v, "a"))
    with pause_write(tmp_path / "t", lambda own: own.upsert(rows(8, "x")), options=QUIET) as write:
        planned = table.schedule_index(SOME)
        write.go_on()
    for v in range(9, 14):
        table.upsert(rows(v, "a"))
    for path in (tmp_path / "t" / ".hoodie" / "timeline").iterdir():
        make_older(path, 7200)
    hoodoo.open_table(table.uri, eager).clean()
    archived = archive(hoodoo.open_table(table.uri, eager)._ref, LocalEngine(threads=1))
    assert all(time < write.instant < (planned or "") for time in archived.instants)
    table.run_index()
    assert find_differences(table._ref) == []


# -- dropping -----------------------------------------------------------------------------------


def test_dropping_half_built_indexes_ends_their_plan(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.schedule_index(SOME)
    assert table.drop_index([COLUMN_STATS]) == (COLUMN_STATS,)
    assert len(table.plans()) == 1  # the others wait
    assert set(table.drop_index(FILES)) == {FILES, RECORD_INDEX}
    assert table.plans() == []
    assert table.inspect.indexes() == []
    assert not list((tmp_path / "t" / ".hoodie" / "metadata").rglob("*.log*"))
    table.upsert(rows(2, "a"))
    table.create_index(SOME)
    assert find_differences(table._ref) == []


def test_index_of_a_kind_that_hoodoo_does_not_write_can_be_dropped(tmp_path: Path) -> None:
    table = make(tmp_path, metadata=True)
    properties = tmp_path / "t" / ".hoodie" / "hoodie.properties"
    text = properties.read_text()
    key = "hoodie.table.metadata.partitions="
    properties.write_text(text.replace(key, f"{key}secondary_index_city,"))
    table = hoodoo.open_table(table.uri, QUIET)
    with pytest.raises(UnsupportedFeature, match="hoodoo index drop"):
        table.upsert(rows(2, "a"))
    assert table.drop_index("secondary_index_city") == ("secondary_index_city",)
    table.upsert(rows(2, "a"))
    assert find_differences(table._ref) == []


@pytest.mark.parametrize(
    ("names", "reason"),
    [("nothing", "no index 'nothing'"), ([], "name an index"), ("secondary_index_x", "no index")],
)
def test_names_of_no_index_are_refused(tmp_path: Path, names: str, reason: str) -> None:
    table = make(tmp_path)
    with pytest.raises(InputError, match=reason):
        table.create_index(names)
    with pytest.raises(InputError):
        table.drop_index(names)
    assert table.inspect.indexes() == []


def test_lock_that_other_processes_do_not_see_is_refused(tmp_path: Path) -> None:
    table = make(tmp_path)
    provider = {"hoodie.write.lock.provider": "in_process"}
    with pytest.raises(ConfigError, match="other processes"):
        hoodoo.open_table(table.uri, provider).create_index(FILES)


# -- by options ---------------------------------------------------------------------------------


def test_writer_builds_the_indexes_that_its_options_ask_for(tmp_path: Path) -> None:
    table = make(tmp_path)
    asking = {**QUIET, "hoodie.metadata.index.column.stats.enable": True}
    hoodoo.open_table(table.uri, asking).upsert(rows(2, "a"))
    assert states(table) == dict.fromkeys((COLUMN_STATS, FILES, "partition_stats"), "complete")
    assert find_differences(table._ref) == []


def test_writer_only_plans_them_if_builds_are_asynchronous(tmp_path: Path) -> None:
    table = make(tmp_path)
    asking = {
        **QUIET,
        "hoodie.metadata.index.async": True,
        "hoodie.metadata.record.index.enable": True,
    }
    writer = hoodoo.open_table(table.uri, asking)
    writer.upsert(rows(2, "a"))
    writer.upsert(rows(3, "x"))
    assert states(table) == {FILES: "planned", RECORD_INDEX: "planned"}
    assert len(table.plans()) == 1
    table.run_index()
    assert find_differences(table._ref) == []
