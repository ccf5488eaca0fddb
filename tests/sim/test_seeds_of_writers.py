"""Writers beside each other, by seed and by every way to interrupt one of them once."""

from __future__ import annotations

import pytest
from support.simulations import Record, explore, explore_seeds

from hoodoo_testing.simulator.actors.tables import TableScenario
from hoodoo_testing.simulator.scenarios import commits
from hoodoo_testing.simulator.search.explore import by_preemptions

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "scenario",
    [
        commits.SameGroup,
        commits.SameGroupMor,
        commits.DifferentPartitions,
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
    [
        commits.SameGroup,
        # CI: test_invariants_hold_by_seed[same-group-mor]
        pytest.param(commits.SameGroupMor, marks=pytest.mark.nightly),
        commits.SameKey,
    ],
    ids=lambda scenario: scenario.name,
)
def test_invariants_hold_in_every_schedule_with_one_preemption(
    scenario: type[TableScenario], record_property: Record
) -> None:
    outcomes = by_preemptions(scenario, 1)
    found = explore(record_property, f"{scenario.name}, one preemption", outcomes)
    assert found.is_complete
