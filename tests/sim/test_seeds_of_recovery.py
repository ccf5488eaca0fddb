"""Writers that die or seem to, and those who clean up after them, by seed and exhaustively."""

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
        commits.Cleaner,
        commits.CleanerMor,
        commits.TwoRecoveries,
        commits.DeadRollback,
        commits.InFlight,
        commits.Zombie,
    ],
    ids=lambda scenario: scenario.name,
)
def test_invariants_hold_by_seed(scenario: type[TableScenario], record_property: Record) -> None:
    explore_seeds(record_property, scenario)


def test_invariants_hold_in_every_schedule_of_two_medics_with_one_preemption(
    record_property: Record,
) -> None:
    outcomes = by_preemptions(commits.DeadRollback, 1)
    found = explore(record_property, "dead-rollback, one preemption", outcomes)
    assert found.is_complete
