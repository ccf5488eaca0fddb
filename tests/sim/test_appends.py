"""Appends in many processes, by seed and with a fault at each operation of each of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.simulations import SEEDS, Record, explore, explore_seeds, find_violation

from hoodoo.concurrency import resume as resuming
from hoodoo.testing.sim.explore import POINTS, by_faults, by_seed
from hoodoo.testing.sim.faults import Fault, Kind
from hoodoo.testing.sim.scenarios import appends

Patch = pytest.MonkeyPatch

LATE = (Fault(Kind.CRASH_IN_FLIGHT, 3_000), Fault(Kind.STRAGGLER, 3_000))


@pytest.mark.parametrize("scenario", appends.SCENARIOS, ids=lambda scenario: scenario.name)
def test_invariants_hold_by_seed(scenario: type[appends.Append], record_property: Record) -> None:
    explore_seeds(record_property, scenario, seeds=SEEDS // 3)


@pytest.mark.parametrize("actor", ["planner", "e1", "committer"])
def test_invariants_hold_with_a_fault_at_every_operation(
    actor: str, record_property: Record
) -> None:
    outcomes = by_faults(appends.Append, actor, faults=(*POINTS, *LATE))
    found = explore(record_property, f"append, faults of {actor}", outcomes)
    assert found.is_complete
    assert found.runs > 30


# -- mutants ----------------------------------------------------------------------------------


def nobody_beats(patch: Patch) -> None:
    """Tasks do not keep the write alive."""
    beating = resuming.Heartbeat

    class Silent(beating):  # type: ignore[misc, valid-type]  # a class by another name
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
