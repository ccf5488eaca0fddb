"""Upgrades of old tables: a fault at every storage operation, and two at the same time.

What readers see does not change: the latest rows, reads as of each commit, changes, the schema.
"""

from __future__ import annotations

import pytest
from support.simulations import SEEDS, Record, explore, explore_seeds

from hoodoo.testing.sim.explore import POINTS, by_faults, fault_points
from hoodoo.testing.sim.faults import Fault, Kind
from hoodoo.testing.sim.scenario import run
from hoodoo.testing.sim.scenarios import upgrades
from hoodoo.testing.sim.schedule import Script

LATE = (Fault(Kind.CRASH_IN_FLIGHT, 3_000), Fault(Kind.STRAGGLER, 3_000))
IN_CI = 7
"""CI runs each seventh fault of an upgrade, the night all."""
UPGRADES = pytest.mark.parametrize(
    "scenario", [upgrades.UpgradeSix, upgrades.UpgradeSixMor, upgrades.UpgradeEight]
)


@UPGRADES
def test_readers_see_the_same_with_a_fault(
    scenario: type[upgrades.Upgrade], record_property: Record
) -> None:
    points = fault_points(scenario, "operator", faults=(*POINTS, *LATE))[::IN_CI]
    outcomes = (run(scenario, point) for point in points)
    found = explore(record_property, f"{scenario.name}, faults", outcomes)
    assert found.is_complete
    assert found.runs > 8


@pytest.mark.nightly
@UPGRADES
def test_readers_see_the_same_with_a_fault_at_every_operation(
    scenario: type[upgrades.Upgrade], record_property: Record
) -> None:
    outcomes = by_faults(scenario, "operator", faults=(*POINTS, *LATE))
    found = explore(record_property, f"{scenario.name}, faults at every operation", outcomes)
    assert found.is_complete
    assert found.runs > 60


@pytest.mark.parametrize(
    "scenario", [upgrades.WatchedSix, upgrades.WatchedSixMor, upgrades.WatchedEight]
)
def test_readers_see_the_same_after_every_operation(scenario: type[upgrades.Upgrade]) -> None:
    run(scenario, Script()).verify()


def test_two_upgrades_at_once(record_property: Record) -> None:
    explore_seeds(record_property, upgrades.TwoUpgrades, seeds=min(SEEDS, 5))
