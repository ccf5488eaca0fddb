"""The same batch from two processes, by seed and with a fault at every operation of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from support.simulations import SEEDS, Record, explore, explore_seeds, find_violation

from hoodoo.testing.sim.explore import POINTS, by_faults, by_seed
from hoodoo.testing.sim.faults import Fault, Kind
from hoodoo.testing.sim.scenarios import batches
from hoodoo.timeline.batches import encode_batches
from hoodoo.write.batch_guard import BatchGuard

LATE = (Fault(Kind.CRASH_IN_FLIGHT, 3_000), Fault(Kind.STRAGGLER, 3_000))


@pytest.mark.parametrize("scenario", batches.SCENARIOS, ids=lambda scenario: scenario.name)
def test_a_batch_is_committed_once_by_seed(
    scenario: type[batches.SameBatch], record_property: Record
) -> None:
    explore_seeds(record_property, scenario, seeds=SEEDS)


def test_a_batch_is_committed_once_with_a_fault_at_every_operation(
    record_property: Record,
) -> None:
    outcomes = by_faults(batches.SameBatch, "w1", faults=(*POINTS, *LATE))
    found = explore(record_property, "same-batch, faults of w1", outcomes)
    assert found.is_complete
    assert found.runs > 50


def test_a_guard_that_does_not_look_in_the_gate_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def trust(self: Any, txn: Any) -> Mapping[str, str]:
        return encode_batches({"app": 1})

    monkeypatch.setattr(BatchGuard, "refuse_committed", trust)
    find_violation("the gate does not look", by_seed(batches.SameBatch, range(200)))
