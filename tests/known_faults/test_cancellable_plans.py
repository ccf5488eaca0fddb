"""Cancellable plans that are overdue, or whose executor died or failed: who ends them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.interruptions import act_once_at, fail_once_at, record_operations
from support.writer_machines import (
    EXPIRY_S,
    INTERVAL_MS,
    Fleet,
    Machine,
    PowerCut,
    cut_power_at,
    rows,
)
from typer.testing import CliRunner

import hoodoo
from hoodoo.cli.main import app
from hoodoo.errors import PlanCancelled, StorageError
from hoodoo.model import paths
from hoodoo.model.instant import State

AUTOMATIC: dict[str, Any] = {
    "hoodie.clean.automatic": True,
    "hoodie.archive.automatic": True,
    "hoodie.parquet.small.file.limit": 0,
}
HEAD = f"{paths.HEAD}$"
HOUR_S = 3600


def write_elsewhere(machine: Machine) -> None:
    machine.table.upsert(rows("elsewhere", other=1))


WHO_ENDS = pytest.mark.parametrize(
    "end",
    [
        pytest.param(lambda machine: machine.table.clean(), id="clean"),
        pytest.param(lambda machine: machine.table.recover(), id="recover"),
        pytest.param(write_elsewhere, id="upkeep after a write"),
    ],
)


def make_fleet(kind: str = "cow", **options: Any) -> Fleet:
    """A table of two small file groups in one partition, and writers that do upkeep."""
    fleet = Fleet(kind, **{**AUTOMATIC, **options})
    founder = fleet.machine("founder")
    founder.table.insert(rows(k1=1))
    founder.table.insert(rows(k2=1))
    return fleet


def schedule_clustering(machine: Machine, **policy: float) -> str:
    instant = machine.table.schedule_clustering(
        cancellable=True, cancellation_policy=policy or None
    )
    assert instant is not None
    return instant


def plans_in(machine: Machine, state: State) -> list[str]:
    return [i.requested_time for i in machine.ref.load_timeline() if i.state is state]


def make_overdue_plan(folder: Path) -> tuple[str, str]:
    """A table on disk that has a plan whose policy forbids that it is pending; both by name."""
    place = str(folder / "t")
    options = {"hoodie.table.services.enabled": "false", "hoodie.parquet.small.file.limit": 0}
    schema = pa.schema([("id", pa.int64()), ("part", pa.string())])
    hoodoo.create_table(place, schema=schema, record_key="id", partition_by="part")
    table = hoodoo.open_table(place, options)
    table.insert([{"id": 1, "part": "a"}])
    table.insert([{"id": 2, "part": "a"}])
    table.schedule_clustering(cancellable=True, cancellation_policy={"instants": 1})
    for key in (3, 4):
        table.insert([{"id": key, "part": "b"}])
    (plan,) = table.plans()
    assert plan.overdue is not None
    return place, plan.instant


# -- who ends them ------------------------------------------------------------------------------


@WHO_ENDS
@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="26.1: a cancellable plan that its policy forbids is ended by `hoodoo upkeep` only",
)
def test_overdue_plan_is_aborted(end: Callable[[Machine], object]) -> None:
    machine = make_fleet().machine("one")
    plan = schedule_clustering(machine, hours=1)
    machine.clock.world.pass_time(HOUR_S + 1)
    end(machine)
    assert plans_in(machine, State.ABORTED) == [plan]


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="26.1: `hoodoo clean` leaves a cancellable plan that its policy forbids",
)
def test_overdue_plan_is_aborted_by_the_clean_command(tmp_path: Path) -> None:
    place, _ = make_overdue_plan(tmp_path)
    ran = CliRunner().invoke(app, ["clean", place])
    assert ran.exit_code == 0, ran.output
    assert hoodoo.open_table(place).plans() == []


@WHO_ENDS
@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="26.1: a cancellable plan of a dead executor is ended by `hoodoo upkeep` only",
)
def test_plan_of_a_dead_executor_is_aborted(end: Callable[[Machine], object]) -> None:
    fleet = make_fleet()
    executor, other = fleet.machine("executor"), fleet.machine("other")
    plan = schedule_clustering(executor)
    cut_power_at(executor, "replace", HEAD)
    with pytest.raises(PowerCut):
        executor.table.run_clustering(plan)
    fleet.die(executor)
    end(other)
    assert plans_in(other, State.ABORTED) == [plan]


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="26.1: where only writers work, one executor of inline clustering that dies stops "
    "clustering, cleaning and archival for good",
)
def test_table_of_writers_only_stays_bounded_after_one_of_them_died_in_a_clustering() -> None:
    fleet = Fleet(
        **{
            **AUTOMATIC,
            "hoodie.clustering.inline": True,
            "hoodie.clustering.inline.max.commits": 4,
            "hoodie.clean.commits.retained": 2,
            "hoodie.clean.trigger.max.commits": 1,
            "hoodie.keep.min.commits": 4,
            "hoodie.keep.max.commits": 6,
        }
    )
    mortal, writer = fleet.machine("mortal"), fleet.machine("writer")
    for number in range(3):
        mortal.table.insert(rows("a", **{f"k{number}": 0}))
    cut_power_at(mortal, "create", re.escape(paths.COMPLETIONS))
    with pytest.raises(PowerCut):
        mortal.table.insert(rows(k3=0))
    fleet.die(mortal)
    for number in range(12):
        writer.table.upsert(rows("elsewhere", other=number))
        fleet.world.pass_time(EXPIRY_S)
    assert [plan.progress for plan in writer.table.plans()] == []
    assert len(writer.ref.load_timeline().commits) <= 12
    (group,) = writer.table.files("part=elsewhere").groups
    assert len(group.slices) <= 4


@pytest.mark.xfail(
    strict=True,
    raises=PlanCancelled,
    reason="26.1: one failed request of its executor cancels a cancellable plan at once",
)
def test_plan_of_a_failed_executor_is_executed_at_the_second_try() -> None:
    machine = make_fleet().machine("one")
    plan = schedule_clustering(machine, hours=24)
    fail_once_at(machine, "create", re.escape(paths.COMPLETIONS))
    with pytest.raises(StorageError, match="slow down"):
        machine.table.run_clustering(plan)
    done = machine.table.run_clustering(plan)
    assert done is not None
    assert done.instant == plan
    assert machine.rows() == {"k1": 1, "k2": 1}


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="26.1: no key sets the policy of the plans that writers schedule",
)
def test_plan_of_a_writer_has_the_policy_of_its_keys() -> None:
    fleet = Fleet(
        **{
            **AUTOMATIC,
            "hoodie.clustering.schedule.inline": True,
            # Named as the flags of the command are, which set the same for plans by hand.
            "hoodie.table.service.plan.cancel.after.hours": 1,
        }
    )
    machine = fleet.machine("one")
    for number in range(4):
        machine.table.insert(rows("a", **{f"k{number}": 0}))
    (before,) = machine.table.plans()
    assert (before.policy, before.overdue) == ("cancellable", None)
    fleet.world.pass_time(HOUR_S + 1)
    (after,) = machine.table.plans()
    assert after.overdue is not None


# -- how they end -------------------------------------------------------------------------------


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="26.4: on the local engine an executor notices a cancel only between tasks",
)
def test_executor_stops_inside_a_task_within_one_heartbeat() -> None:
    fleet = make_fleet()
    executor, other = fleet.machine("executor"), fleet.machine("other")
    for number in range(3, 9):
        other.table.insert(rows("a", **{f"k{number}": 1}))
    plan = schedule_clustering(executor)
    later: list[list[tuple[str, str]]] = []

    def cancel() -> None:
        other.table.request_cancel(plan)
        fleet.world.pass_time(2 * INTERVAL_MS / 1000)
        later.append(record_operations(executor))

    act_once_at(executor, "create", r"/\.temp/\d+/", cancel)
    with pytest.raises(PlanCancelled):
        executor.table.run_clustering(plan)
    (operations,) = later
    finished = [
        path for verb, path in operations if verb == "create" and path.startswith(paths.COMPLETIONS)
    ]
    assert finished == []


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="26.4: a forced rollback of a cancellable plan removes it without `.aborted`",
)
def test_forced_rollback_of_a_plan_ends_in_aborted() -> None:
    machine = make_fleet().machine("one")
    plan = schedule_clustering(machine)
    machine.table.rollback(plan, force=True)
    assert plans_in(machine, State.ABORTED) == [plan]


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="26.4: the line that upkeep prints for a cancel has no reason",
)
def test_upkeep_says_why_a_plan_was_cancelled(tmp_path: Path) -> None:
    place, plan = make_overdue_plan(tmp_path)
    ran = CliRunner().invoke(app, ["upkeep", place])
    assert ran.exit_code == 0, ran.output
    (line,) = (line for line in ran.output.splitlines() if f"cancelled clustering {plan}" in line)
    assert "which its policy forbids" in line
