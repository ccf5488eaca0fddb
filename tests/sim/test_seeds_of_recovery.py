"""Writers that die or seem to, and those who clean up after them, by seed and exhaustively."""

from __future__ import annotations

import pytest
from support.simulations import explore, explore_seeds

from hoodoo.testing.sim.preemptions import by_preemptions
from hoodoo.testing.sim.scenarios import commits
from hoodoo.testing.sim.tables import TableScenario


@pytest.mark.parametrize(
    "scenario",
    [
        commits.Cleaner,
        commits.CleanerMor,
        commits.TwoMedics,
        commits.DeadRollback,
        commits.InFlight,
        commits.Zombie,
    ],
    ids=lambda scenario: scenario.name,
)
def test_by_seed(scenario: type[TableScenario], capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        explore_seeds(scenario)


def test_every_schedule_of_two_medics_with_one_preemption(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with capsys.disabled():
        found = explore("dead-rollback, one preemption", by_preemptions(commits.DeadRollback, 1))
    assert found.is_complete
