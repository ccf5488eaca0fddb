"""Writes on a cluster: attempts that repeat, race and come late, by seed and at every operation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from support.simulations import (
    SEEDS,
    Record,
    explore,
    explore_faults,
    explore_seeds,
    find_violation,
    share_of_faults,
)

from hoodoo.format.markers import CompletionMarker
from hoodoo.model import paths
from hoodoo.write import execute
from hoodoo.write.files import exactly_once
from hoodoo.write.files.exactly_once import delete_completions
from hoodoo.write.files.outputs import Outputs
from hoodoo_testing.simulator.scenario import RunOutcome, run
from hoodoo_testing.simulator.scenarios import repeated_tasks
from hoodoo_testing.simulator.search.explore import POINTS, by_seed
from hoodoo_testing.simulator.world.faults import Fault, FaultKind

pytestmark = pytest.mark.slow

Patch = pytest.MonkeyPatch

LATE = (Fault(FaultKind.CRASH_IN_FLIGHT, 3_000), Fault(FaultKind.STRAGGLER, 3_000))


@pytest.mark.parametrize("scenario", repeated_tasks.SCENARIOS, ids=lambda scenario: scenario.name)
def test_invariants_hold_by_seed(
    scenario: type[repeated_tasks.OnCluster], record_property: Record
) -> None:
    explore_seeds(record_property, scenario, seeds=SEEDS // 2)


@share_of_faults(7)
@pytest.mark.parametrize("scenario", [repeated_tasks.ClusterUpsert, repeated_tasks.BulkStream])
@pytest.mark.parametrize("actor", ["w", "e1"])
def test_invariants_hold_with_a_fault_at_every_operation(
    scenario: type[repeated_tasks.OnCluster], actor: str, step: int, record_property: Record
) -> None:
    found = explore_faults(record_property, scenario, actor, (*POINTS, *LATE), step)
    assert found.runs > 50 // step


# -- mutants: the protocol with one thought left out ---------------------------------------------


def everyone_wins(patch: Patch) -> None:
    """Nobody cares who said first that a handle is done."""

    def mine(env: Any, instant: Any, epoch: int, done: CompletionMarker) -> CompletionMarker:
        return done

    patch.setattr(exactly_once, "record_completion", mine)
    patch.setattr(exactly_once, "load_completion", lambda *args: None)


def nobody_looks_again(patch: Patch) -> None:
    """Whoever has published its files, and said so, takes them for wanted."""
    patch.setattr(exactly_once, "_is_unwanted", lambda context, files: False)


def nobody_looks_at_all(patch: Patch) -> None:
    """Nobody asks whether the write goes on without it."""
    nobody_looks_again(patch)
    patch.setattr(exactly_once, "_load_final_stats", lambda context, index: None)
    patch.setattr(exactly_once, "_is_over", lambda context: False)


def losers_leave_their_files(patch: Patch) -> None:
    """An attempt that has lost lets its files lie."""
    patch.setattr(Outputs, "withdraw", lambda self: None)


def nothing_is_left_for_the_sweep(patch: Patch) -> None:
    """The finalize marker goes with the other markers, and with it what the sweep must know."""
    delete = delete_completions

    def all_of_it(env: Any, instant: Any) -> None:
        delete(env, instant)
        env.storage.delete(f"{paths.FINALS}/{instant}")

    patch.setattr(execute, "delete_completions", all_of_it)


def dies_over_a_late_file(seeds: int = 400) -> Iterator[RunOutcome]:
    """An executor publishes a file after the commit, and dies before it can look again."""
    for first in by_seed(repeated_tasks.SlowTasks, range(seeds)):
        is_committed = False
        for step in first.steps:
            is_committed = is_committed or (step.path.endswith(".commit") and step.verb == "create")
            if is_committed and step.verb == "open_write":
                point = (step.actor, step.operation)
                faults = {**first.script.faults, point: Fault(FaultKind.CRASH_AFTER)}
                yield run(repeated_tasks.SlowTasks, replace(first.script, faults=faults))


CASES: dict[str, tuple[Callable[[Patch], None], Callable[[], Iterable[RunOutcome]]]] = {
    "no completion markers": (
        everyone_wins,
        lambda: by_seed(repeated_tasks.SlowTasks, range(150, 300)),
    ),
    "no look after publishing": (
        nobody_looks_again,
        lambda: by_seed(repeated_tasks.SlowTasks, range(300)),
    ),
    "no look at all": (
        nobody_looks_at_all,
        lambda: by_seed(repeated_tasks.SlowTasks, range(300)),
    ),
    "losers leave their files": (
        losers_leave_their_files,
        lambda: by_seed(repeated_tasks.SlowTasks, range(300)),
    ),
    "nothing left for the sweep": (
        nothing_is_left_for_the_sweep,
        dies_over_a_late_file,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_mutant_is_found(name: str, monkeypatch: Patch) -> None:
    mutate, outcomes = CASES[name]
    mutate(monkeypatch)
    find_violation(name, outcomes())


@pytest.mark.parametrize("seeds", [150, pytest.param(400, marks=pytest.mark.nightly)])
def test_a_late_file_of_a_dead_executor_is_swept(seeds: int, record_property: Record) -> None:
    outcomes = dies_over_a_late_file(seeds)
    found = explore(record_property, "dawdlers, death after a late file", outcomes)
    assert found.runs > 2
