"""Rollback and recover: what dies is undone by others, what lives is left alone."""

from __future__ import annotations

import zipfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from support.interruptions import act_once_at
from support.writer_machines import (
    COMPLETED,
    EXPIRY_S,
    Fleet,
    Machine,
    PowerCut,
    begin_commit,
    cut_power_at,
    rows,
)

from hoodoo.api.table import Table
from hoodoo.errors import (
    AlreadyCommitted,
    InputError,
    StorageError,
    UnsupportedFeature,
    WriteConflict,
    WriterAlive,
)
from hoodoo.format.timeline import instant_files as codec
from hoodoo.model import paths
from hoodoo.model.commit import RollbackMetadata
from hoodoo.model.instant import Action, InstantTime, State
from hoodoo.model.plans import RollbackPlan
from hoodoo.recovery.recover import RecoveryAction
from hoodoo.storage.traced import TracedStorage
from hoodoo.table.timeline import read_metadata

TABLE_TYPES = pytest.mark.parametrize("table_type", ["cow", "mor"])


def dead_write(fleet: Fleet, verb: str = "(create|replace)", part: str = paths.HEAD) -> InstantTime:
    """A write that dies at this operation, long enough ago for others to see it."""
    north = fleet.machine("north")
    known = {i.requested_time for i in north.ref.load_timeline()}
    cut_power_at(north, verb, part)
    with pytest.raises(PowerCut):
        north.table.upsert(rows(k1=10, k2=20))
    fleet.die(north)
    (instant,) = (i for i in north.ref.load_timeline() if i.requested_time not in known)
    return instant.requested_time


def rolled_back_write(fleet: Fleet) -> tuple[Machine, list[str], str, bytes]:
    """A table whose dead write is rolled back: by whom, its files, and the one that is gone."""
    south = fleet.machine("south")
    south.table.insert(rows(k1=1))
    before = fleet.data_files()
    dead_write(fleet)
    (stray,) = set(fleet.data_files()) - set(before)
    data = fleet.store.read(stray)
    south.table.recover()
    return south, before, stray, data


@TABLE_TYPES
def test_dead_write_is_rolled_back_without_leftovers(table_type: str) -> None:
    fleet = Fleet(table_type)
    south = fleet.machine("south")
    south.table.insert(rows(k1=1))
    before = fleet.data_files()
    instant = dead_write(fleet)
    assert len(fleet.data_files()) > len(before)
    recovered = south.table.recover()
    assert [done.instant for done in recovered.rolled_back] == [instant]
    assert fleet.data_files() == before
    assert south.rows() == {"k1": 1}
    timeline = south.ref.load_timeline()
    assert timeline.find(instant) is None
    (rollback,) = (i for i in timeline if i.action is Action.ROLLBACK)
    assert rollback.is_completed
    for left in (paths.heartbeat(instant), paths.heartbeat(rollback.requested_time)):
        assert not fleet.store.exists(left)
    assert not list(fleet.store.list(paths.marker_directory(instant), recursive=True))
    assert not south.table.recover().rolled_back
    south.table.upsert(rows(k1=5, k2=6))
    assert south.rows() == {"k1": 5, "k2": 6}


def test_rollback_instant_looks_like_one_of_apache_hudi(rollback_fixture) -> None:  # type: ignore[no-untyped-def] # a fixture of this module
    """Field by field like one that Hudi wrote, the places and times apart."""
    fleet = Fleet("mor")
    south = fleet.machine("south")
    south.table.insert(rows(k0=0))
    instant = dead_write(fleet)
    (done,) = south.table.recover().rolled_back
    active = south.ref.properties.timeline_paths.active
    theirs_plan, theirs = rollback_fixture
    rollback = south.ref.load_timeline().find(done.rollback)
    assert rollback is not None
    requested = replace(rollback, state=State.REQUESTED)
    ours_plan = read_metadata(south.ref.env, south.ref.properties.timeline_paths, requested)
    ours = read_metadata(south.ref.env, south.ref.properties.timeline_paths, rollback)
    assert isinstance(ours_plan, RollbackPlan)
    assert isinstance(ours, RollbackMetadata)
    assert fleet.store.read(f"{active}/{done.rollback}.rollback.inflight") == b""
    path = f"{south.ref.uri}/{done.files[0]}"
    request = replace(
        theirs_plan.rollback_requests[0], partition_path="part=a", files_to_be_deleted=(path,)
    )
    info = replace(theirs_plan.instant_to_rollback, commit_time=instant)
    assert ours_plan == replace(theirs_plan, instant_to_rollback=info, rollback_requests=(request,))
    (partition,) = theirs.partition_metadata.values()
    assert ours == replace(
        theirs,
        start_rollback_time=done.rollback,
        time_taken_in_millis=ours.time_taken_in_millis,
        commits_rollback=(instant,),
        instants_rollback=(info,),
        partition_metadata={
            "part=a": replace(partition, partition_path="part=a", success_delete_files=(path,))
        },
    )


@pytest.fixture
def rollback_fixture(fixtures: Path):  # type: ignore[no-untyped-def] # plan and metadata of one
    (archive,) = fixtures.rglob("v9_nonpartitioned_rollback.zip")
    with zipfile.ZipFile(archive) as files:
        data = {
            name.rpartition("/")[2]: files.read(name)
            for name in files.namelist()
            if "/timeline/" in name and "rollback" in name.rpartition("/")[2]
        }
    plan, metadata = (
        next(content for name, content in data.items() if name.endswith(end))
        for end in (".rollback.requested", ".rollback")
    )
    return (
        codec.decode(plan, Action.ROLLBACK, State.REQUESTED),
        codec.decode(metadata, Action.ROLLBACK, State.COMPLETED),
    )


def test_live_write_is_left_alone_with_a_reason() -> None:
    fleet = Fleet()
    north, south = fleet.machine("north"), fleet.machine("south")
    attempt = begin_commit(north)
    fleet.world.pass_time(5 * EXPIRY_S)
    (left,) = south.table.recover().left_pending
    assert left.fate is RecoveryAction.LEAVE
    assert "alive: test app on north" in left.reason
    attempt.heartbeat.check()


def test_a_rollback_that_died_is_finished_by_the_next() -> None:
    fleet = Fleet()
    south, east = fleet.machine("south"), fleet.machine("east")
    east.table.insert(rows(k1=1))
    before = fleet.data_files()
    instant = dead_write(fleet)
    cut_power_at(south, "delete", ".parquet")
    with pytest.raises(PowerCut):
        south.table.recover()
    fleet.die(south)
    (pending,) = (i for i in east.ref.load_timeline().pending if i.action is Action.ROLLBACK)
    (done,) = east.table.recover().rolled_back
    assert (done.instant, done.rollback) == (instant, pending.requested_time)
    assert fleet.data_files() == before


def test_next_write_rolls_back_dead_writes_only_if_policy_is_eager() -> None:
    for policy, left in (("EAGER", 0), ("LAZY", 1), ("NEVER", 1)):
        fleet = Fleet(**{"hoodie.clean.failed.writes.policy": policy})
        dead_write(fleet)
        south = fleet.machine("south")
        south.table.insert(rows(k3=3))
        assert len(south.ref.load_timeline().pending) == left, policy
        assert south.rows() == {"k3": 3}


def test_a_write_that_fails_rolls_itself_back_at_once() -> None:
    fleet = Fleet()
    north, south = fleet.machine("north"), fleet.machine("south")
    south.table.insert(rows(k1=1))
    before = None

    def meanwhile() -> None:
        nonlocal before
        south.table.upsert(rows(k1=2))
        before = fleet.data_files()

    act_once_at(north, "create", r"\.marker\.MERGE$", meanwhile)
    with pytest.raises(WriteConflict):
        north.table.upsert(rows(k1=3))
    assert fleet.data_files() == before
    assert not south.ref.load_timeline().pending
    assert south.rows() == {"k1": 2}


def test_a_write_that_died_after_its_decision_is_committed() -> None:
    fleet = Fleet()
    south = fleet.machine("south")
    instant = dead_write(fleet, "create", COMPLETED)  # after the head, before the completed file
    recovered = south.table.recover()
    assert not recovered.rolled_back
    assert not recovered.left_pending
    found = south.ref.load_timeline().find(instant)
    assert found is not None
    assert found.is_completed
    assert south.rows() == {"k1": 10, "k2": 20}


def test_a_recover_with_nothing_to_do_costs_two_listings_at_most() -> None:
    fleet = Fleet()
    north = fleet.machine("north")
    north.table.insert(rows(k1=1))
    north.table.upsert(rows(k1=2, k2=3))
    traced = TracedStorage(fleet.machine("south").storage)
    ref = fleet.machine("south").ref
    Table(replace(ref, env=replace(ref.env, storage=traced))).recover()
    verbs = Counter(operation.verb for operation in traced.operations)
    assert verbs["list"] + verbs["list_directories"] <= 2
    assert not set(verbs) & {"create", "put", "replace", "delete"}, verbs


def test_due_sweeps_run_before_writes() -> None:
    """Hole 10: strays of tasks that outlived their write stayed until somebody ran recover."""
    fleet = Fleet()
    south, _, stray, data = rolled_back_write(fleet)
    for _ in range(2):
        fleet.store.create(stray, data)
        fleet.world.pass_time(EXPIRY_S + 1)
        south.table.upsert(rows("other", k9=9))
        assert not fleet.store.exists(stray)
    assert not list(fleet.store.list(paths.SWEEPS))


def test_manual_rollback_needs_a_pending_dead_instant_or_force() -> None:
    fleet = Fleet()
    north, south = fleet.machine("north"), fleet.machine("south")
    done = south.table.insert(rows(k1=1))
    with pytest.raises(AlreadyCommitted):
        south.table.rollback(done.instant)
    with pytest.raises(InputError, match="no instant 20200101000000000"):
        south.table.rollback("20200101000000000")
    begin_commit(north)
    fleet.world.pass_time(200)
    (pending,) = south.ref.load_timeline().pending
    with pytest.raises(WriterAlive, match="test app on north"):
        south.table.rollback(pending.requested_time)
    gone = south.table.rollback(pending.requested_time, force=True)
    assert gone.instant == pending.requested_time
    assert south.rows() == {"k1": 1}


def test_files_that_appear_after_a_rollback_are_swept() -> None:
    fleet = Fleet()
    south, before, stray, data = rolled_back_write(fleet)
    fleet.store.create(stray, data)  # a task that outlived its writer
    fleet.world.pass_time(EXPIRY_S + 1)
    assert south.table.recover().swept.data_files == (stray,)
    assert fleet.data_files() == before
    fleet.store.create(stray, data)
    fleet.world.pass_time(EXPIRY_S + 1)
    assert south.table.recover().swept.data_files == (stray,)
    fleet.world.pass_time(2 * EXPIRY_S + 1)
    south.table.recover()
    for directory in (paths.SWEEPS, paths.STAGING, paths.PROBES, paths.HEARTBEATS):
        assert not list(fleet.store.list(directory)), directory


def test_sweep_removes_only_files_that_no_commit_names() -> None:
    fleet = Fleet()
    south = fleet.machine("south")
    north = fleet.machine("north")
    cut_power_at(north, "delete", ".marker")
    with pytest.raises(PowerCut):
        north.table.insert(rows(k1=1))  # committed, but its markers are left
    (named,) = fleet.data_files()
    stray = named.replace("_0-1-0_", "_0-1-1_")
    fleet.store.create(stray, fleet.store.read(named))
    instant = InstantTime(named.rpartition("_")[2].removesuffix(".parquet"))
    fleet.store.create(f"{paths.marker_directory(instant)}/{stray}.marker.CREATE", b"")
    assert not south.table.recover().swept.data_files, "its writer may be alive"
    fleet.die(north)
    assert south.table.recover().swept.data_files == (stray,)
    assert fleet.data_files() == [named]
    assert south.rows() == {"k1": 1}


def test_manual_rollback_that_fails_stops_its_heartbeat() -> None:
    fleet = Fleet()
    instant = dead_write(fleet)
    south = fleet.machine("south")

    def refuse(verb: str, path: str) -> None:
        if verb == "delete" and path.endswith(".parquet"):
            raise StorageError(path, "no permission")

    south.storage.before(refuse)
    with pytest.raises(StorageError, match="no permission"):
        south.table.rollback(instant)
    assert south.clock.timers
    assert all(timer.is_stopped for timer in south.clock.timers)


@pytest.mark.parametrize("action", ["clean", "restore", "indexing"])
def test_manual_rollback_refuses_other_actions(action: str) -> None:
    fleet = Fleet()
    south = fleet.machine("south")
    path = f"{south.ref.properties.timeline_paths.active}/20200101000000000.{action}.requested"
    fleet.store.create(path, b"")
    with pytest.raises(UnsupportedFeature, match=f"a {action} is not rolled back"):
        south.table.rollback("20200101000000000", force=True)
    assert fleet.store.exists(path)
