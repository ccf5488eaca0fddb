"""A crash, and a lost message, at every storage operation of a write and of a rollback."""

from __future__ import annotations

import pytest
from support.simulations import Record, explore

from hoodoo.testing.sim.explore import POINTS, by_faults
from hoodoo.testing.sim.faults import Fault, Kind
from hoodoo.testing.sim.scenarios import commits
from hoodoo.testing.sim.tables import TableScenario

# Requests that land a while after their sender died, or was told nothing.
LATE = (Fault(Kind.CRASH_IN_FLIGHT, 3_000), Fault(Kind.STRAGGLER, 3_000))


@pytest.mark.parametrize(
    ("scenario", "actor"),
    [
        (commits.Insert, "w"),
        (commits.Upsert, "w"),
        (commits.UpsertMor, "w"),
        (commits.UpsertBatched, "w"),
        (commits.UpsertFileLock, "w"),
        (commits.Rollback, "medic"),
        (commits.RollbackMor, "medic"),
    ],
)
def test_invariants_hold_with_a_fault_at_every_operation(
    scenario: type[TableScenario], actor: str, record_property: Record
) -> None:
    outcomes = by_faults(scenario, actor, faults=(*POINTS, *LATE))
    found = explore(record_property, f"{scenario.name}, faults at every operation", outcomes)
    assert found.is_complete
    assert found.runs > 90
