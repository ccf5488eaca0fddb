"""Tables with a metadata table: a fault at every operation, and faults by seed."""

from __future__ import annotations

import pytest
from support.simulations import Record, explore, explore_seeds

from hoodoo_testing.simulator.actors.tables import TableScenario
from hoodoo_testing.simulator.scenario import run
from hoodoo_testing.simulator.scenarios import metadata_table
from hoodoo_testing.simulator.search.explore import POINTS, by_faults, fault_points
from hoodoo_testing.simulator.world.faults import Fault, FaultKind

pytestmark = pytest.mark.slow

LATE = (Fault(FaultKind.CRASH_IN_FLIGHT, 3_000), Fault(FaultKind.STRAGGLER, 3_000))
CRASH = (Fault(FaultKind.CRASH_BEFORE),)
IN_CI = 8
"""Of so many operations one is crashed in CI, and all at night."""

SCENARIOS = [
    (metadata_table.UpsertListed, "w"),
    (metadata_table.UpsertListedMor, "w"),
    (metadata_table.UpsertIndexed, "w"),
    (metadata_table.RollbackListed, "medic"),
    (metadata_table.CompactListing, "c"),
]


@pytest.mark.parametrize(("scenario", "actor"), SCENARIOS)
def test_invariants_hold_with_a_crash_before_an_operation(
    scenario: type[TableScenario], actor: str, record_property: Record
) -> None:
    points = fault_points(scenario, actor, faults=CRASH)[::IN_CI]
    outcomes = (run(scenario, point) for point in points)
    found = explore(record_property, f"{scenario.name}, crashes", outcomes)
    assert found.is_complete
    assert found.runs > 5


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
        metadata_table.CreateIndex,
        metadata_table.WritersListed,
        metadata_table.LeaseLossListed,
        metadata_table.OutageListed,
        metadata_table.InFlightListed,
    ],
)
def test_invariants_hold_by_seed(scenario: type[TableScenario], record_property: Record) -> None:
    explore_seeds(record_property, scenario)
