"""Overwrites, buckets, plans of compactions and incremental reads, by seed."""

from __future__ import annotations

import pytest
from support.simulations import Record, explore_faults, explore_seeds, share_of_faults

from hoodoo_testing.simulator.actors.tables import LEASE_MS, TableScenario
from hoodoo_testing.simulator.scenarios import overwrites, plans
from hoodoo_testing.simulator.world.faults import Fault, FaultKind

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "scenario",
    [*overwrites._OVERWRITES, *plans.SCENARIOS],
    ids=lambda scenario: scenario.name,
)
def test_invariants_hold_by_seed(scenario: type[TableScenario], record_property: Record) -> None:
    explore_seeds(record_property, scenario)


@share_of_faults(3)
def test_a_commit_that_a_planner_has_finished_stands(step: int, record_property: Record) -> None:
    faults = [Fault(FaultKind.PAUSE, 3 * LEASE_MS)]  # the lock is lost
    explore_faults(record_property, plans.Planning, "w1", faults, step)
