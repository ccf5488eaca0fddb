"""Clean, archive and restore: a fault at every storage operation, and many ways beside others.

What readers see does not change by a clean or an archival: the latest rows, reads as of every
commit that is kept, and what changed between them.
"""

from __future__ import annotations

import pytest
from support.simulations import Record, explore_faults, explore_seeds, share_of_faults

from hoodoo_testing.simulator.scenarios import upkeep
from hoodoo_testing.simulator.search.explore import POINTS
from hoodoo_testing.simulator.world.faults import Fault, FaultKind

pytestmark = pytest.mark.slow

LATE = (Fault(FaultKind.CRASH_IN_FLIGHT, 3_000), Fault(FaultKind.STRAGGLER, 3_000))


@share_of_faults(13)
@pytest.mark.parametrize(
    ("scenario", "actor"),
    [
        (upkeep.Clean, "janitor"),
        (upkeep.CleanMor, "janitor"),
        (upkeep.Archive, "archivist"),
        (upkeep.Restore, "operator"),
        (upkeep.RestoreMor, "operator"),
    ],
)
def test_invariants_hold_with_a_fault_at_every_operation(
    scenario: type[upkeep.OldTable], actor: str, step: int, record_property: Record
) -> None:
    found = explore_faults(record_property, scenario, actor, (*POINTS, *LATE), step)
    assert found.runs > 60 // step


@pytest.mark.parametrize(
    "scenario",
    [upkeep.CleanBesideWriters, upkeep.ArchiveBesideWriters, upkeep.RestoreBesideWriters],
)
def test_invariants_hold_beside_others(
    scenario: type[upkeep.OldTable], record_property: Record
) -> None:
    explore_seeds(record_property, scenario)
