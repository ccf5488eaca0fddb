"""The same batch from two processes, by seed and with a fault at every operation of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from support.simulations import (
    Record,
    explore_faults,
    explore_seeds,
    find_violation,
    share_of_faults,
)

from hoodoo.write.commit.batches import BatchGuard, encode_batches
from hoodoo_testing.simulator.scenarios import commits
from hoodoo_testing.simulator.search.explore import POINTS, by_seed
from hoodoo_testing.simulator.world.faults import Fault, FaultKind

pytestmark = pytest.mark.slow

LATE = (Fault(FaultKind.CRASH_IN_FLIGHT, 3_000), Fault(FaultKind.STRAGGLER, 3_000))


@pytest.mark.parametrize("scenario", commits._BATCHES, ids=lambda scenario: scenario.name)
def test_a_batch_is_committed_once_by_seed(
    scenario: type[commits.SameBatch], record_property: Record
) -> None:
    explore_seeds(record_property, scenario)


@share_of_faults(7)
def test_a_batch_is_committed_once_with_a_fault_at_every_operation(
    step: int, record_property: Record
) -> None:
    found = explore_faults(record_property, commits.SameBatch, "w1", (*POINTS, *LATE), step)
    assert found.runs > 50 // step


def test_a_guard_that_does_not_look_in_the_gate_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def trust(self: Any, txn: Any) -> Mapping[str, str]:
        return encode_batches({"app": 1})

    monkeypatch.setattr(BatchGuard, "refuse_committed", trust)
    find_violation("the gate does not look", by_seed(commits.SameBatch, range(200)))
