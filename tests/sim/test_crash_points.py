"""A crash, and a lost message, at every storage operation of a write and of a rollback."""

from __future__ import annotations

import pytest
from support.simulations import Record, explore_faults, share_of_faults

from hoodoo_testing.simulator.actors.tables import TableScenario
from hoodoo_testing.simulator.scenarios import commits
from hoodoo_testing.simulator.search.explore import POINTS
from hoodoo_testing.simulator.world.faults import Fault, FaultKind

pytestmark = pytest.mark.slow

# Requests that land a while after their sender died, or was told nothing.
LATE = (Fault(FaultKind.CRASH_IN_FLIGHT, 3_000), Fault(FaultKind.STRAGGLER, 3_000))


def test_invariants_hold_with_a_fault_at_every_operation_of_an_upsert(
    record_property: Record,
) -> None:
    """The protocol of every write: CI, too, has it whole."""
    found = explore_faults(record_property, commits.Upsert, "w", (*POINTS, *LATE), step=1)
    assert found.runs > 90


@share_of_faults(7)
@pytest.mark.parametrize(
    ("scenario", "actor"),
    [
        (commits.Insert, "w"),
        (commits.UpsertMor, "w"),
        (commits.UpsertBatched, "w"),
        (commits.UpsertFileLock, "w"),
        (commits.Rollback, "medic"),
        (commits.RollbackMor, "medic"),
    ],
)
def test_invariants_hold_with_a_fault_at_every_operation(
    scenario: type[TableScenario], actor: str, step: int, record_property: Record
) -> None:
    found = explore_faults(record_property, scenario, actor, (*POINTS, *LATE), step)
    assert found.runs > 90 // step
