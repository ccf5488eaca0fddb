"""File groups whose clusterings writes cancel again and again are left alone for a while."""

from __future__ import annotations

import pytest
from support.writer_machines import EXPIRY_S, Fleet, Machine, rows

from hoodoo.model import paths
from hoodoo.services.plans.cancel import count_cancels

MANUAL = {"hoodie.table.services.enabled": "false", "hoodie.parquet.small.file.limit": 0}
DAY_S = 24 * 3600


@pytest.fixture
def fleet() -> Fleet:
    """Two partitions with two file groups each."""
    fleet = Fleet("cow", **MANUAL)
    writer = fleet.machine("writer")
    for key in ("k0", "k1"):
        writer.table.insert(rows("hot", **{f"hot-{key}": 0}))
        writer.table.insert(rows("cold", **{f"cold-{key}": 0}))
    return fleet


def plan_and_write(machine: Machine, value: int) -> str:
    """A clustering, and a write of both hot rows that cancels it."""
    instant = machine.table.schedule_clustering(cancellable=True)
    assert instant is not None
    machine.table.upsert(rows("hot", **{"hot-k0": value, "hot-k1": value}))
    machine.table.execute_cancel(instant)
    return instant


def planned_partitions(machine: Machine) -> tuple[str, ...]:
    (plan,) = machine.table.plans()
    return plan.partitions


def test_a_file_group_is_left_out_after_three_cancels(fleet: Fleet) -> None:
    machine = fleet.machine(
        "one", **{"hoodie.clustering.plan.strategy.partition.selected": "part=hot"}
    )
    for value in (1, 2, 3):
        plan_and_write(machine, value)
    counts = count_cancels(machine.ref, machine.ref.load_timeline())
    assert {group.partition: count for group, count in counts.items()} == {"part=hot": 3}
    assert machine.table.schedule_clustering(cancellable=True) is None
    other = fleet.machine("other")
    assert other.table.schedule_clustering(cancellable=True) is not None
    assert planned_partitions(other) == ("part=cold",)


def test_a_plan_that_does_not_yield_takes_hot_file_groups(fleet: Fleet) -> None:
    machine = fleet.machine("one")
    for value in (1, 2, 3):
        plan_and_write(machine, value)
    assert machine.table.schedule_clustering() is not None
    assert planned_partitions(machine) == ("part=cold", "part=hot")


@pytest.mark.parametrize(("most", "is_planned"), [(0, True), (2, False), (4, True)])
def test_how_many_cancels_it_takes_is_a_setting(
    fleet: Fleet, most: int, *, is_planned: bool
) -> None:
    options = {"hoodie.clustering.plan.strategy.most.cancels": most}
    machine = fleet.machine("one")
    for value in (1, 2):
        plan_and_write(machine, value)
    patient = fleet.machine("two", **options)
    assert patient.table.schedule_clustering(cancellable=True) is not None
    assert ("part=hot" in planned_partitions(patient)) is is_planned


def test_after_a_day_it_is_tried_again(fleet: Fleet) -> None:
    machine = fleet.machine("one")
    for value in (1, 2, 3):
        plan_and_write(machine, value)
    fleet.world.pass_time(DAY_S + 60)
    assert machine.table.schedule_clustering(cancellable=True) is not None
    assert planned_partitions(machine) == ("part=cold", "part=hot")


def test_reports_tell_how_often_plans_were_cancelled(fleet: Fleet) -> None:
    machine = fleet.machine("one")
    plan_and_write(machine, 1)
    machine.table.schedule_clustering(cancellable=True)
    (plan,) = machine.table.plans()
    assert plan.recent_cancels == 1
    assert machine.table.doctor() == []
    machine.table.request_cancel(plan.instant)  # by hand, which does not count
    machine.table.execute_cancel(plan.instant)
    for value in (2, 3):
        assert machine.table.doctor() == []
        plan_and_write(machine, value)
    (finding,) = machine.table.doctor()
    assert "2 file groups are left out" in finding.problem
    assert finding.command == f"hoodoo cluster {machine.table.uri} --schedule --run"


def test_a_file_that_comes_late_beside_a_tombstone_is_swept(fleet: Fleet) -> None:
    machine = fleet.machine("one")
    instant = plan_and_write(machine, 1)
    late = f"{machine.ref.properties.timeline_paths.active}/{instant}.clustering.inflight"
    fleet.store.put(late, b"")
    fleet.world.pass_time(2 * EXPIRY_S)
    machine.table.recover()
    assert not fleet.store.exists(late)


def test_a_damaged_record_counts_for_nothing(fleet: Fleet) -> None:
    machine = fleet.machine("one")
    instant = plan_and_write(machine, 1)
    fleet.store.put(paths.aborted_plan_path(instant), b"{")
    assert count_cancels(machine.ref, machine.ref.load_timeline()) == {}
    fleet.store.delete(paths.aborted_plan_path(instant))
    assert count_cancels(machine.ref, machine.ref.load_timeline()) == {}
