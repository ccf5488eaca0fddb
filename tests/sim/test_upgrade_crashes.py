"""Upgrades of old tables: a fault at every storage operation, and two at the same time.

What readers see does not change: the latest rows, reads as of each commit, changes, the schema.
"""

from __future__ import annotations

import pytest
from support.simulations import (
    SEEDS,
    Record,
    explore_faults,
    explore_seeds,
    share_of_faults,
)

from hoodoo.testing.sim.explore import POINTS
from hoodoo.testing.sim.faults import Fault, Kind
from hoodoo.testing.sim.scenario import run
from hoodoo.testing.sim.scenarios import upgrades
from hoodoo.testing.sim.schedule import Script

LATE = (Fault(Kind.CRASH_IN_FLIGHT, 3_000), Fault(Kind.STRAGGLER, 3_000))


@share_of_faults(7)
@pytest.mark.parametrize(
    "scenario", [upgrades.UpgradeSix, upgrades.UpgradeSixMor, upgrades.UpgradeEight]
)
def test_readers_see_the_same_with_a_fault_at_every_operation(
    scenario: type[upgrades.Upgrade], step: int, record_property: Record
) -> None:
    found = explore_faults(record_property, scenario, "operator", (*POINTS, *LATE), step)
    assert found.runs > 60 // step


@pytest.mark.parametrize(
    "scenario", [upgrades.WatchedSix, upgrades.WatchedSixMor, upgrades.WatchedEight]
)
def test_readers_see_the_same_after_every_operation(scenario: type[upgrades.Upgrade]) -> None:
    run(scenario, Script()).verify()


def test_two_upgrades_at_once(record_property: Record) -> None:
    explore_seeds(record_property, upgrades.TwoUpgrades, seeds=min(SEEDS, 5))
