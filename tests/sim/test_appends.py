"""Appends in many processes, by seed and with a fault at each operation of each of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.simulations import (
    SEEDS,
    Record,
    explore_faults,
    explore_seeds,
    find_violation,
    share_of_faults,
)

from hoodoo.concurrency import heartbeats as resuming
from hoodoo.concurrency.heartbeats import Heartbeat
from hoodoo_testing.simulator.scenarios import appends
from hoodoo_testing.simulator.search.explore import POINTS, by_seed
from hoodoo_testing.simulator.world.faults import Fault, FaultKind

pytestmark = pytest.mark.slow

Patch = pytest.MonkeyPatch

LATE = (Fault(FaultKind.CRASH_IN_FLIGHT, 3_000), Fault(FaultKind.STRAGGLER, 3_000))


@pytest.mark.parametrize("scenario", appends.SCENARIOS, ids=lambda scenario: scenario.name)
def test_invariants_hold_by_seed(scenario: type[appends.Append], record_property: Record) -> None:
    explore_seeds(record_property, scenario, seeds=SEEDS // 2)


@share_of_faults(5)
@pytest.mark.parametrize("actor", ["planner", "e1", "committer"])
def test_invariants_hold_with_a_fault_at_every_operation(
    actor: str, step: int, record_property: Record
) -> None:
    found = explore_faults(record_property, appends.Append, actor, (*POINTS, *LATE), step)
    assert found.runs > 30 // step


# -- mutants ----------------------------------------------------------------------------------


def nobody_beats(patch: Patch) -> None:
    """Tasks do not keep the write alive."""

    class Silent(Heartbeat):
        def start(self) -> None:
            pass

    patch.setattr(resuming, "Heartbeat", Silent)
    patch.setattr(Silent, "beat", lambda self: None)


CASES: dict[str, tuple[Callable[[Patch], None], Callable[[], Any]]] = {
    "nobody beats": (nobody_beats, lambda: by_seed(appends.SlowAppend, range(200))),
}


@pytest.mark.parametrize("name", CASES)
def test_a_mutant_is_found(name: str, monkeypatch: Patch) -> None:
    mutate, outcomes = CASES[name]
    mutate(monkeypatch)
    find_violation(name, outcomes())
