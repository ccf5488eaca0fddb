"""Upgrades of old tables: a fault at every storage operation, and two at the same time.

What readers see does not change: the latest rows, reads as of each commit, changes, the schema.
"""

from __future__ import annotations

import pytest
from support.simulations import SEEDS, Record, explore_faults, explore_seeds, share_of_faults

from hoodoo_testing.simulator.scenario import run
from hoodoo_testing.simulator.scenarios import upgrade
from hoodoo_testing.simulator.search.explore import POINTS
from hoodoo_testing.simulator.world.faults import Fault, FaultKind
from hoodoo_testing.simulator.world.schedule import Script

pytestmark = pytest.mark.slow

LATE = (Fault(FaultKind.CRASH_IN_FLIGHT, 3_000), Fault(FaultKind.STRAGGLER, 3_000))


@share_of_faults(11)
@pytest.mark.parametrize(
    "scenario", [upgrade.UpgradeSix, upgrade.UpgradeSixMor, upgrade.UpgradeEight]
)
def test_readers_see_the_same_with_a_fault_at_every_operation(
    scenario: type[upgrade.Upgrade], step: int, record_property: Record
) -> None:
    found = explore_faults(record_property, scenario, "operator", (*POINTS, *LATE), step)
    assert found.runs > 60 // step


@pytest.mark.parametrize(
    "scenario", [upgrade.WatchedSix, upgrade.WatchedSixMor, upgrade.WatchedEight]
)
def test_readers_see_the_same_after_every_operation(scenario: type[upgrade.Upgrade]) -> None:
    run(scenario, Script()).verify()


def test_two_upgrades_at_once(record_property: Record) -> None:
    explore_seeds(record_property, upgrade.TwoUpgrades, seeds=min(SEEDS, 3))
