"""Persistent and removable plans that nobody executes, or whose execution failed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.attempts import RepeatingEngine
from support.interruptions import fail_once_at
from support.writer_machines import Fleet, Machine, PowerCut, cut_power_at, rows

import hoodoo
from hoodoo.api.table import Table
from hoodoo.errors import ConfigError, PlanInProgress, StorageError, WriteConflict
from hoodoo.model import paths

AUTOMATIC: dict[str, Any] = {
    "hoodie.clean.automatic": True,
    "hoodie.archive.automatic": True,
    "hoodie.parquet.small.file.limit": 0,
}
HEAD = f"{paths.HEAD}$"
MINUTE_S = 60
WEEK_S = 7 * 24 * 3600


def make_fleet(**options: Any) -> Fleet:
    """A table of two small file groups in one partition, and writers that do upkeep."""
    fleet = Fleet("cow", **{**AUTOMATIC, **options})
    founder = fleet.machine("founder")
    founder.table.insert(rows(k1=1))
    founder.table.insert(rows(k2=1))
    return fleet


def schedule_clustering(machine: Machine, *, removable: bool = False) -> str:
    instant = machine.table.schedule_clustering(removable=removable)
    assert instant is not None
    return instant


# -- persistent ---------------------------------------------------------------------------------


@pytest.mark.xfail(
    strict=True,
    raises=WriteConflict,
    reason="26.2: a persistent clustering of a dead executor blocks its file groups, whatever "
    "upkeep writers do",
)
def test_clustering_of_a_dead_executor_blocks_no_write_after_the_upkeep_of_another() -> None:
    fleet = make_fleet()
    executor, writer = fleet.machine("executor"), fleet.machine("writer")
    plan = schedule_clustering(executor)
    cut_power_at(executor, "replace", HEAD)
    with pytest.raises(PowerCut):
        executor.table.run_clustering(plan)
    fleet.die(executor)
    writer.table.upsert(rows("elsewhere", other=1))
    writer.table.upsert(rows(k1=2))
    assert writer.rows() == {"k1": 2, "k2": 1, "other": 1}


@pytest.mark.xfail(
    strict=True,
    raises=WriteConflict,
    reason="26.2: a persistent clustering that nobody begins blocks its file groups for good",
)
def test_clustering_that_nobody_began_for_a_week_blocks_no_write() -> None:
    fleet = make_fleet()
    writer = fleet.machine("writer")
    schedule_clustering(writer)
    fleet.world.pass_time(WEEK_S)
    writer.table.upsert(rows("elsewhere", other=1))
    writer.table.upsert(rows(k1=2))
    assert writer.rows() == {"k1": 2, "k2": 1, "other": 1}


@pytest.mark.xfail(
    strict=True,
    raises=PlanInProgress,
    reason="26.3: a failed attempt at a persistent plan on an engine that repeats tasks, as Spark "
    "does, keeps its heartbeat until it expires",
)
def test_plan_is_executed_at_once_after_an_attempt_with_repeating_tasks_failed() -> None:
    machine = make_fleet().machine("one")
    plan = schedule_clustering(machine)
    table = Table(machine.ref, RepeatingEngine(threads=1))
    fail_once_at(machine, "create", re.escape(paths.COMPLETIONS))
    with pytest.raises(StorageError, match="slow down"):
        table.run_clustering(plan)
    done = table.run_clustering(plan)
    assert done is not None
    assert done.instant == plan


# -- removable ----------------------------------------------------------------------------------


@pytest.mark.xfail(
    strict=True,
    raises=(AssertionError, ConfigError),
    reason="26.3: `table_service_rollback_delay`, as the design names it, is not known",
)
@pytest.mark.parametrize(
    "name", ["table_service_rollback_delay", "hoodie.table_service_rollback_delay"]
)
def test_delay_of_rollbacks_is_set_by_the_name_of_the_design(tmp_path: Path, name: str) -> None:
    place = str(tmp_path / "t")
    schema = pa.schema([("id", pa.int64())])
    table = hoodoo.create_table(
        place, schema=schema, record_key="id", options={"hoodie.parquet.small.file.limit": 0}
    )
    table.insert([{"id": 1}])
    table.insert([{"id": 2}])
    assert table.schedule_clustering(removable=True) is not None
    hoodoo.open_table(place, {name: 0}).clean()
    assert table.plans() == []


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="26.3: the age of a removable plan is counted from its last heartbeat",
)
def test_removable_plan_is_as_old_as_it_is_after_an_executor_died_before_its_begin() -> None:
    fleet = make_fleet(**{"hoodie.table.service.rollback.delay.minutes": 60})
    executor, other = fleet.machine("executor"), fleet.machine("other")
    plan = schedule_clustering(executor, removable=True)
    fleet.world.pass_time(59 * MINUTE_S)
    cut_power_at(executor, "create", r"clustering\.inflight$")
    with pytest.raises(PowerCut):
        executor.table.run_clustering(plan)
    fleet.die(executor)
    other.table.clean()
    assert other.table.plans() == []


# -- services beside writes ---------------------------------------------------------------------


@pytest.mark.parametrize("key", ["hoodie.clean.async", "hoodie.archive.async"])
@pytest.mark.xfail(
    strict=True,
    raises=ConfigError,
    reason="26.3: a key of Apache Hudi's that asks for services beside writes fails a write",
)
def test_write_succeeds_where_services_are_to_run_beside_it(key: str) -> None:
    options: dict[str, Any] = {key: "true"}
    writer = make_fleet().machine("writer", **options)
    writer.table.upsert(rows(k1=2))
    assert writer.rows() == {"k1": 2, "k2": 1}
