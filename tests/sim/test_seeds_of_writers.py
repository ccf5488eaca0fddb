"""Writers beside each other, by seed and by every way to interrupt one of them once."""

from __future__ import annotations

import pytest
from support.simulations import Record, explore, explore_seeds

from hoodoo.testing.sim.preemptions import by_preemptions
from hoodoo.testing.sim.scenarios import commits
from hoodoo.testing.sim.tables import TableScenario


@pytest.mark.parametrize(
    "scenario",
    [
        commits.SameGroup,
        commits.SameGroupMor,
        commits.Apart,
        commits.LeaseLoss,
        commits.LateRequests,
        commits.DayLong,
        commits.Outage,
        commits.OutageMor,
        commits.SameKey,
        commits.InTheWay,
    ],
    ids=lambda scenario: scenario.name,
)
def test_invariants_hold_by_seed(scenario: type[TableScenario], record_property: Record) -> None:
    explore_seeds(record_property, scenario)


@pytest.mark.parametrize(
    "scenario",
    [commits.SameGroup, commits.SameGroupMor, commits.SameKey],
    ids=lambda scenario: scenario.name,
)
def test_invariants_hold_in_every_schedule_with_one_preemption(
    scenario: type[TableScenario], record_property: Record
) -> None:
    outcomes = by_preemptions(scenario, 1)
    found = explore(record_property, f"{scenario.name}, one preemption", outcomes)
    assert found.is_complete
