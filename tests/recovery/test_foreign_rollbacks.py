"""Rollbacks that another engine requested, and did not finish."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.writer_machines import EXPIRY_S, Fleet, PowerCut, cut_power_at, rows

from hoodoo.format.timeline import instant_files as codec
from hoodoo.model.commit import InstantInfo
from hoodoo.model.instant import Action, Instant, InstantTime, State
from hoodoo.model.paths import PartitionPath
from hoodoo.model.plans import RollbackPlan, RollbackRequest
from hoodoo.table.timeline import instant_path


def request_rollback(fleet: Fleet, commit: Instant) -> Instant:
    """As Apache Hudi begins the rollback of a commit: its plan names the files; then it dies."""
    time = commit.requested_time
    files = [path for path in fleet.data_files() if time in path]
    plan = RollbackPlan(
        instant_to_rollback=InstantInfo(commit_time=time, action=commit.action.value),
        rollback_requests=tuple(
            RollbackRequest(
                partition_path=PartitionPath(path.rpartition("/")[0]),
                file_id="",
                latest_base_instant="",
                files_to_be_deleted=(f"{fleet.store.uri}/{path}",),
                log_blocks_to_be_deleted={},
            )
            for path in files
        ),
    )
    rollback = Instant(InstantTime(str(int(time) + 1)), Action.ROLLBACK, State.REQUESTED)
    fleet.store.create(path_of(fleet, rollback), codec.encode(plan))
    return rollback


def path_of(fleet: Fleet, instant: Instant) -> str:
    return instant_path(fleet.machine("look").ref.properties.timeline_paths, instant)


def commit_rows(fleet: Fleet, part: str, **values: int) -> Instant:
    """A completed insert."""
    done = fleet.machine("north").table.insert(rows(part, **values))
    found = fleet.machine("look").ref.load_timeline().find(done.instant)
    assert found is not None
    return found


@pytest.mark.parametrize("state", [State.REQUESTED, State.INFLIGHT])
def test_nothing_of_a_completed_instant_is_deleted(state: State) -> None:
    """Hole 2: its files were deleted, the commit stood, and each later recover failed."""
    fleet = Fleet()
    rollback = request_rollback(fleet, commit_rows(fleet, "a", k1=1))
    if state is State.INFLIGHT:
        fleet.store.create(path_of(fleet, replace(rollback, state=state)), b"")
    fleet.world.pass_time(2 * EXPIRY_S)
    south = fleet.machine("south")
    for _ in range(2):
        recovered = south.table.recover()
        assert not recovered.rolled_back
        (left,) = recovered.left_pending
        assert left.instant.requested_time == rollback.requested_time
        assert f"hoodoo rollback TABLE {rollback.requested_time}" in left.reason
        assert south.rows() == {"k1": 1}
    south.table.insert(rows(k2=2))  # EAGER: looks at it, too
    assert south.rows() == {"k1": 1, "k2": 2}
    dropped = south.table.rollback(rollback.requested_time)
    assert dropped.files == ()
    assert dropped.is_dropped
    assert not south.ref.load_timeline().pending
    assert not south.table.recover().left_pending
    assert south.rows() == {"k1": 1, "k2": 2}


def test_rollback_that_removed_the_completed_file_is_finished() -> None:
    """Apache Hudi takes the completed file away first; what is pending then goes as planned."""
    fleet = Fleet()
    commit_rows(fleet, "a", k0=0)
    commit = commit_rows(fleet, "b", k1=1)
    request_rollback(fleet, commit)
    fleet.store.delete(path_of(fleet, commit))
    fleet.world.pass_time(2 * EXPIRY_S)
    south = fleet.machine("south")
    assert [each.instant for each in south.table.recover().rolled_back] == [commit.requested_time]
    assert south.rows() == {"k0": 0}
    assert not any(commit.requested_time in path for path in fleet.data_files())


def test_dropped_rollback_does_not_come_back() -> None:
    """Someone had taken it over, decided it, and died before it deleted anything."""
    fleet = Fleet()
    south, east = fleet.machine("south"), fleet.machine("east")
    commit = commit_rows(fleet, "a", k1=1)
    data = fleet.store.read(path_of(fleet, commit))
    rollback = request_rollback(fleet, commit)
    fleet.store.delete(path_of(fleet, commit))
    fleet.world.pass_time(2 * EXPIRY_S)
    cut_power_at(east, "create", "rollback.inflight")
    with pytest.raises(PowerCut):
        east.table.recover()
    fleet.die(east)
    fleet.store.create(path_of(fleet, commit), data)  # its late duplicate
    assert south.table.rollback(rollback.requested_time).is_dropped
    south.table.insert(rows("b", k2=2))
    assert not south.ref.load_timeline().pending
    assert south.rows() == {"k1": 1, "k2": 2}
