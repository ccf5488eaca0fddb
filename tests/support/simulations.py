"""How the suite explores scenarios: so many seeds, and a line that says what was run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence

import pytest

from hoodoo_testing.simulator.scenario import MakeScenario, RunOutcome, run
from hoodoo_testing.simulator.search.explore import Search, by_seed, fault_points, search
from hoodoo_testing.simulator.world.faults import Fault

SEEDS = int(os.environ.get("HOODOO_SIM_SEEDS", "6"))
"""Of each scenario. `make sim-nightly` runs 20,000 of each, from another seed each night."""
MANY_FAULTS = 24
FIRST_SEED = int(os.environ.get("HOODOO_SIM_FIRST_SEED", "0"))


Record = Callable[[str, object], None]
"""The fixture `record_property`: what it is told stands in the summary of the test run."""


def explore(
    record: Record, name: str, outcomes: Iterator[RunOutcome], *, cap: int | None = None
) -> Search:
    """Run them all, tell how many there were, and fail at a violation, with its trace."""
    found = search(outcomes, cap=cap)
    record("simulated", f"{name}: {found.runs} runs, {found.steps} steps")
    found.verify()
    return found


def share_of_faults(step: int) -> pytest.MarkDecorator:
    """For tests with an argument `step`: CI runs a fault of theirs in `step`, nights run all.

    A `step` that is prime to the number of faults comes by each of them.
    """
    every = pytest.param(1, id="all", marks=pytest.mark.nightly)
    return pytest.mark.parametrize("step", [pytest.param(step, id="some"), every])


def explore_faults(
    record: Record, make: MakeScenario, actor: str, faults: Sequence[Fault], step: int
) -> Search:
    """A fault at every operation of an actor; where they are many, at one in `step` of them."""
    points = fault_points(make, actor, faults=faults)
    points = points[::step] if len(points) > MANY_FAULTS else points
    name = f"{make().name}, {'all' if step == 1 else 'some'} faults of {actor}"
    found = explore(record, name, (run(make, point) for point in points))
    assert found.is_complete
    return found


def find_violation(name: str, outcomes: Iterable[RunOutcome]) -> int:
    """Fail unless one of them violates an invariant: the simulator can tell. After how many runs.

    A mutant that breaks, such as by a name that is gone, proves nothing.
    """
    found = search(outcomes)
    assert found.failures, f"{name}: nothing found in {found.runs} runs"
    assert not found.failures[0].is_broken, f"{name} breaks: {found.failures[0].violation}"
    print(f"{name}: found after {found.runs} runs: {found.failures[0].violation}")
    return found.runs


def explore_seeds(record: Record, make: MakeScenario, *, seeds: int = SEEDS) -> Search:
    """The seeds of this run of the suite."""
    outcomes = by_seed(make, range(FIRST_SEED, FIRST_SEED + seeds))
    return explore(record, f"{make().name}, by seed", outcomes)
