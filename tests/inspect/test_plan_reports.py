"""Reports of pending plans: who runs them, what they block, and when they end."""

from __future__ import annotations

import pytest
from support.writer_machines import Fleet, Machine, PowerCut, cut_power_at, rows

from hoodoo.inspect.plans import PlanReport, describe_blocks, report_plans
from hoodoo.model.instant import Action
from hoodoo.model.plans import PlanPolicy

MANUAL = {"hoodie.table.services.enabled": "false", "hoodie.parquet.small.file.limit": 0}


@pytest.fixture
def fleet() -> Fleet:
    """A merge-on-read table with two file groups in one partition, one of them with a log."""
    fleet = Fleet("mor", **MANUAL)
    writer = fleet.machine("writer")
    writer.table.insert(rows(a=1))
    writer.table.insert(rows(b=1))
    writer.table.upsert(rows(a=2))
    return fleet


def only(machine: Machine) -> PlanReport:
    (plan,) = machine.table.plans()
    return plan


def test_no_plans(fleet: Fleet) -> None:
    assert fleet.machine("any").table.plans() == []


def test_a_plan_that_waits(fleet: Fleet) -> None:
    one = fleet.machine("one")
    instant = one.table.schedule_compaction()
    fleet.world.pass_time(60)
    plan = only(one)
    assert (plan.instant, plan.action, plan.state) == (instant, "compaction", "requested")
    assert (plan.policy, plan.progress, plan.owner) == ("persistent", "waiting", None)
    assert (plan.file_groups, plan.partitions) == (1, ("part=a",))
    assert plan.blocks == ("other plans for its file groups", "archival of later instants")
    assert plan.age_seconds == pytest.approx(60, abs=1)
    assert (plan.cancel_reason, plan.overdue, plan.problem) == (None, None, None)


def test_a_plan_that_someone_runs_and_one_whose_executor_died(fleet: Fleet) -> None:
    one, other = fleet.machine("one"), fleet.machine("other")
    one.table.schedule_compaction()
    cut_power_at(one, "replace", "head$")
    with pytest.raises(PowerCut):
        one.table.run_compaction()
    running = only(other)
    assert (running.state, running.progress) == ("inflight", "running")
    assert running.owner == "test app on one, process 7 (compaction, begin)"
    fleet.die(one)
    other.table.insert(rows(c=1))  # only a write tells what time it is for the store
    dead = only(other)
    assert (dead.progress, dead.owner) == ("executor died", None)
    assert dead.silent_seconds is not None
    assert dead.silent_seconds > 100


def test_a_plan_whose_end_was_requested(fleet: Fleet) -> None:
    one = fleet.machine("one")
    instant = one.table.schedule_clustering(cancellable=True)
    assert instant is not None
    assert only(one).blocks == ("archival of later instants",)
    one.table.request_cancel(instant)
    plan = only(one)
    assert (plan.progress, plan.cancel_reason) == ("cancel requested", "by hand")
    one.table.execute_cancel(instant)
    assert one.table.plans() == []


def test_a_plan_that_is_overdue(fleet: Fleet) -> None:
    one = fleet.machine("one")
    one.table.schedule_clustering(cancellable=True, cancellation_policy={"hours": 2})
    assert only(one).overdue is None
    fleet.world.pass_time(3 * 3600)
    one.table.upsert(rows("b", z=1))
    overdue = only(one).overdue
    assert overdue is not None
    assert overdue.startswith("pending for 3.0 hours and 1 commits")


def test_a_pending_overwrite_is_no_plan(fleet: Fleet) -> None:
    one = fleet.machine("one")
    cut_power_at(one, "replace", "head$")
    with pytest.raises(PowerCut):
        one.table.insert_overwrite(rows(a=3))
    assert fleet.machine("other").table.plans() == []


def test_a_damaged_plan_is_a_problem_and_hides_no_other(fleet: Fleet) -> None:
    one = fleet.machine("one")
    instant = one.table.schedule_compaction()
    fleet.store.put(".hoodie/timeline/20200101000000000.clustering.requested", b"not a plan")
    damaged, sound = one.table.plans()
    assert damaged.problem is not None
    assert "20200101000000000" in damaged.problem
    assert (sound.instant, sound.problem) == (instant, None)


def test_looking_writes_nothing(fleet: Fleet) -> None:
    one = fleet.machine("one")
    one.table.schedule_clustering(cancellable=True)
    verbs = set()
    one.storage.before(lambda verb, path: verbs.add(verb))
    report_plans(one.ref)
    assert verbs <= {"read", "stat"}


@pytest.mark.parametrize("action", [Action.COMPACTION, Action.LOG_COMPACTION, Action.CLUSTERING])
def test_only_plans_that_yield_block_nothing_but_archival(action: Action) -> None:
    assert len(describe_blocks(action, PlanPolicy.PERSISTENT)) > 1
    assert describe_blocks(action, PlanPolicy.REMOVABLE) == describe_blocks(
        action, PlanPolicy.PERSISTENT
    )
    assert describe_blocks(action, PlanPolicy.CANCELLABLE) == ("archival of later instants",)
