"""hoodoo beside an engine that knows the lock and no head, by seed and at every point."""

from __future__ import annotations

import pytest
from support.simulations import Record, explore, explore_seeds

from hoodoo.testing.sim.explore import by_faults
from hoodoo.testing.sim.faults import Fault, Kind
from hoodoo.testing.sim.scenarios import mixed
from hoodoo.testing.sim.tables import LEASE_MS

DIES = (Fault(Kind.CRASH_BEFORE), Fault(Kind.CRASH_AFTER))
LOSES_THE_LOCK = (Fault(Kind.PAUSE, 2 * LEASE_MS), Fault(Kind.SLOW_RESPONSE, 2 * LEASE_MS))


@pytest.mark.parametrize("scenario", mixed.SCENARIOS, ids=lambda scenario: scenario.name)
def test_invariants_hold_by_seed(scenario: type[mixed.Mixed], record_property: Record) -> None:
    explore_seeds(record_property, scenario)


@pytest.mark.parametrize(
    ("scenario", "faults"),
    [(mixed.HudiWriterCrash, DIES), (mixed.HudiWriter, LOSES_THE_LOCK)],
    ids=["dies", "loses the lock"],
)
def test_invariants_hold_with_a_fault_at_every_operation(
    scenario: type[mixed.Mixed], faults: tuple[Fault, ...], record_property: Record
) -> None:
    outcomes = by_faults(scenario, "w", faults=faults)
    found = explore(record_property, f"{scenario.name}, faults at every operation", outcomes)
    assert found.is_complete
