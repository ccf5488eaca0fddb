"""Tables with a metadata table: a fault at every operation, and faults by seed."""

from __future__ import annotations

import pytest
from support.simulations import Record, explore, explore_seeds

from hoodoo.testing.sim.explore import POINTS, by_faults
from hoodoo.testing.sim.faults import Fault, Kind
from hoodoo.testing.sim.scenarios import metadata
from hoodoo.testing.sim.tables import TableScenario

LATE = (Fault(Kind.CRASH_IN_FLIGHT, 3_000), Fault(Kind.STRAGGLER, 3_000))
CRASH = (Fault(Kind.CRASH_BEFORE),)

SCENARIOS = [
    (metadata.UpsertListed, "w"),
    (metadata.UpsertListedMor, "w"),
    (metadata.UpsertIndexed, "w"),
    (metadata.RollbackListed, "medic"),
    (metadata.CompactListing, "c"),
]


@pytest.mark.parametrize(("scenario", "actor"), SCENARIOS)
def test_invariants_hold_with_a_crash_before_every_operation(
    scenario: type[TableScenario], actor: str, record_property: Record
) -> None:
    outcomes = by_faults(scenario, actor, faults=CRASH)
    found = explore(record_property, f"{scenario.name}, crashes at every operation", outcomes)
    assert found.is_complete
    assert found.runs > 30


@pytest.mark.nightly
@pytest.mark.parametrize(("scenario", "actor"), SCENARIOS)
def test_invariants_hold_with_a_fault_at_every_operation(
    scenario: type[TableScenario], actor: str, record_property: Record
) -> None:
    outcomes = by_faults(scenario, actor, faults=(*POINTS, *LATE))
    found = explore(record_property, f"{scenario.name}, faults at every operation", outcomes)
    assert found.is_complete
    assert found.runs > 90


@pytest.mark.parametrize(
    "scenario",
    [
        metadata.CreateIndex,
        metadata.WritersListed,
        metadata.LeaseLossListed,
        metadata.OutageListed,
        metadata.InFlightListed,
    ],
)
def test_invariants_hold_by_seed(scenario: type[TableScenario], record_property: Record) -> None:
    explore_seeds(record_property, scenario)
