"""Index builds: those that fail, what completed ones say, and the settings of the design."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from support.interruptions import act_once_at, fail_once_at
from support.writer_machines import Fleet, Machine, PowerCut, cut_power_at, rows

import hoodoo
from hoodoo.errors import ConfigError, StorageError
from hoodoo.format.timeline.instant_files import decode_as
from hoodoo.model import paths
from hoodoo.model.commit import IndexCommitMetadata
from hoodoo.runtime.engine import LocalEngine
from hoodoo.services.upkeep import run_due_services

HEAD = f"{paths.HEAD}$"
PROPERTIES = r"^\.hoodie/hoodie\.properties$"
MONTH_S = 30 * 24 * 3600
DESIGN_SETTINGS = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.async": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.check.timeout.seconds": "60",
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.write.lock.provider": ("org.apache.hudi.client.transaction.lock.InProcessLockProvider"),
}


def make_fleet() -> Fleet:
    fleet = Fleet("cow")
    fleet.machine("founder").table.insert(rows(k1=1, k2=1))
    return fleet


def find_partitions(machine: Machine) -> set[str]:
    """The indexes that the table's properties know, in the making or complete."""
    return {each.name for each in machine.table.inspect.indexes()}


# -- planning -----------------------------------------------------------------------------------


def die_between_the_decisions(fleet: Fleet) -> None:
    """A machine that plans an index dies when its partition is listed, and there is no plan."""
    planner = fleet.machine("planner")
    act_once_at(planner, "replace", PROPERTIES, lambda: cut_power_at(planner, "replace", HEAD))
    with pytest.raises(PowerCut):
        planner.table.schedule_index("bloom_filters")
    fleet.die(planner)


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="25.15: scheduling of an index that fails between its two decisions is not undone",
)
def test_partition_of_an_index_is_gone_when_its_scheduling_failed() -> None:
    machine = make_fleet().machine("one")
    act_once_at(machine, "replace", PROPERTIES, lambda: fail_once_at(machine, "replace", HEAD))
    with pytest.raises(StorageError, match="slow down"):
        machine.table.schedule_index("bloom_filters")
    assert "bloom_filters" not in find_partitions(machine)


@pytest.mark.parametrize(
    "mend",
    [
        pytest.param(lambda machine: machine.table.recover(), id="recover"),
        pytest.param(
            lambda machine: list(run_due_services(machine.ref, LocalEngine(threads=1))), id="upkeep"
        ),
    ],
)
@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="25.15: an index in the making without a plan is left by recover and upkeep",
)
def test_partition_without_a_plan_is_mended(mend: Callable[[Machine], object]) -> None:
    fleet = make_fleet()
    die_between_the_decisions(fleet)
    machine = fleet.machine("other")
    mend(machine)
    states = {each.name: each.state for each in machine.table.inspect.indexes()}
    assert states.get("bloom_filters") in (None, "complete")


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="25.15: doctor calls a table healthy that has an index in the making without a plan",
)
def test_partition_without_a_plan_is_found_by_doctor() -> None:
    fleet = make_fleet()
    die_between_the_decisions(fleet)
    findings = fleet.machine("other").table.doctor()
    assert any("bloom_filters" in each.problem for each in findings)


# -- building -----------------------------------------------------------------------------------


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="26.7: a build that failed stays pending for good, and writers go on with its partition",
)
def test_build_that_failed_a_month_ago_is_aborted() -> None:
    fleet = make_fleet()
    machine = fleet.machine("one", **{"hoodie.clean.automatic": True})
    plan = machine.table.schedule_index("record_index")
    act_once_at(
        machine, "create", r"indexing\.inflight$", lambda: fail_once_at(machine, ".*", "metadata/")
    )
    with pytest.raises(StorageError, match="slow down"):
        machine.table.run_index(plan)
    fleet.world.pass_time(MONTH_S)
    machine.table.recover()
    machine.table.upsert(rows(k1=2))
    assert find_partitions(machine) == set()


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="26.7: a completed build names the commit that it was planned on, not the last one that "
    "it caught up to",
)
def test_completed_build_names_the_commit_that_it_caught_up_to() -> None:
    fleet = make_fleet()
    machine = fleet.machine("one")
    plan = machine.table.schedule_index("files")
    last = machine.table.upsert(rows(k1=2)).instant
    machine.table.run_index(plan)
    timeline = fleet.store.list(machine.ref.properties.timeline_paths.active)
    (path,) = (each.path for each in timeline if each.path.endswith(".indexing"))
    completed = decode_as(fleet.store.read(path), IndexCommitMetadata)
    assert [each.index_upto_instant for each in completed.index_partition_infos] == [last]


# -- settings of the design ---------------------------------------------------------------------


@pytest.fixture
def place(tmp_path: Path) -> str:
    """A table with a commit and without a metadata table."""
    place = str(tmp_path / "t")
    table = hoodoo.create_table(
        place,
        schema=pa.schema([("id", pa.int64()), ("v", pa.int64())]),
        record_key="id",
        options={"hoodie.metadata.enable": "false"},
    )
    table.insert([{"id": 1, "v": 1}])
    return place


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="26.7: a writer with the design's settings plans no index, because of the lock in them",
)
def test_writer_with_the_settings_of_the_design_plans_the_index(place: str) -> None:
    table = hoodoo.open_table(place, DESIGN_SETTINGS)
    table.insert([{"id": 2, "v": 2}])
    assert {"files", "column_stats"} <= {each.name for each in table.inspect.indexes()}


@pytest.mark.xfail(
    strict=True,
    raises=ConfigError,
    reason="26.7: the design's settings, which have an in-process lock, are refused for an index",
)
def test_index_is_created_with_the_settings_of_the_design(place: str) -> None:
    table = hoodoo.open_table(place, DESIGN_SETTINGS)
    done = table.create_index("column_stats")
    assert done is not None
    assert "column_stats" in done.built
