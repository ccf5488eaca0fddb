"""Overwrites, buckets, plans of compactions and incremental reads, by seed."""

from __future__ import annotations

import pytest
from support.simulations import Record, explore, explore_seeds

from hoodoo.testing.sim.explore import by_faults
from hoodoo.testing.sim.faults import Fault, Kind
from hoodoo.testing.sim.scenarios import overwrites, plans
from hoodoo.testing.sim.tables import LEASE_MS, TableScenario


@pytest.mark.parametrize(
    "scenario",
    [*overwrites.SCENARIOS, *plans.SCENARIOS],
    ids=lambda scenario: scenario.name,
)
def test_invariants_hold_by_seed(scenario: type[TableScenario], record_property: Record) -> None:
    explore_seeds(record_property, scenario)


def test_a_commit_that_a_planner_has_finished_stands(record_property: Record) -> None:
    outcomes = by_faults(plans.Planning, "w1", faults=[Fault(Kind.PAUSE, 3 * LEASE_MS)])
    explore(record_property, "planning, the lock lost at every operation", outcomes)
