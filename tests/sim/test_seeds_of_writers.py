"""Writers beside each other, by seed and by every way to interrupt one of them once."""

from __future__ import annotations

import pytest
from support.simulations import explore, explore_seeds

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
        commits.SameKey,
        commits.InTheWay,
    ],
    ids=lambda scenario: scenario.name,
)
def test_by_seed(scenario: type[TableScenario], capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        explore_seeds(scenario)


@pytest.mark.parametrize(
    "scenario",
    [commits.SameGroup, commits.SameGroupMor, commits.SameKey],
    ids=lambda scenario: scenario.name,
)
def test_every_schedule_with_one_preemption(
    scenario: type[TableScenario], capsys: pytest.CaptureFixture[str]
) -> None:
    with capsys.disabled():
        found = explore(f"{scenario.name}, one preemption", by_preemptions(scenario, 1))
    assert found.is_complete
