"""hoodoo beside an engine that knows the lock and no head, by seed and at every point."""

from __future__ import annotations

import pytest
from support.simulations import Record, explore_faults, explore_seeds, share_of_faults

from hoodoo_testing.simulator.actors.tables import LEASE_MS
from hoodoo_testing.simulator.scenarios import overwrites
from hoodoo_testing.simulator.world.faults import Fault, FaultKind

pytestmark = pytest.mark.slow

DIES = (Fault(FaultKind.CRASH_BEFORE), Fault(FaultKind.CRASH_AFTER))
LOSES_THE_LOCK = (
    Fault(FaultKind.PAUSE, 2 * LEASE_MS),
    Fault(FaultKind.SLOW_RESPONSE, 2 * LEASE_MS),
)


@pytest.mark.parametrize(
    "scenario", overwrites._MIXED_SCENARIOS, ids=lambda scenario: scenario.name
)
def test_invariants_hold_by_seed(
    scenario: type[overwrites.MixedScenario], record_property: Record
) -> None:
    explore_seeds(record_property, scenario)


@share_of_faults(5)
@pytest.mark.parametrize(
    ("scenario", "faults"),
    [(overwrites.HudiWriterCrash, DIES), (overwrites.HudiWriter, LOSES_THE_LOCK)],
    ids=["dies", "loses the lock"],
)
def test_invariants_hold_with_a_fault_at_every_operation(
    scenario: type[overwrites.MixedScenario],
    faults: tuple[Fault, ...],
    step: int,
    record_property: Record,
) -> None:
    explore_faults(record_property, scenario, "w", faults, step)
