"""Writes on a cluster: attempts that repeat, race and come late, by seed and at every operation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from support.simulations import SEEDS, Record, explore, explore_seeds, find_violation

from hoodoo.format.completion import Completion
from hoodoo.recovery import sweep
from hoodoo.testing.sim.explore import POINTS, by_faults, by_seed
from hoodoo.testing.sim.faults import Fault, Kind
from hoodoo.testing.sim.scenario import Outcome, run
from hoodoo.testing.sim.scenarios import robust
from hoodoo.write import exactly_once as once
from hoodoo.write import execute

Patch = pytest.MonkeyPatch

LATE = (Fault(Kind.CRASH_IN_FLIGHT, 3_000), Fault(Kind.STRAGGLER, 3_000))


@pytest.mark.parametrize("scenario", robust.SCENARIOS, ids=lambda scenario: scenario.name)
def test_by_seed(scenario: type[robust.OnCluster], record_property: Record) -> None:
    explore_seeds(record_property, scenario, seeds=SEEDS // 4)


@pytest.mark.parametrize("scenario", [robust.ClusterUpsert, robust.BulkStream])
@pytest.mark.parametrize("actor", ["w", "e1"])
def test_every_point(scenario: type[robust.OnCluster], actor: str, record_property: Record) -> None:
    outcomes = by_faults(scenario, actor, faults=(*POINTS, *LATE))
    found = explore(record_property, f"{scenario.name}, faults of {actor}", outcomes)
    assert found.is_complete
    assert found.runs > 50


# -- mutants: the protocol with one thought left out ---------------------------------------------


def everyone_wins(patch: Patch) -> None:
    """Nobody cares who said first that a handle is done."""

    def mine(env: Any, instant: Any, epoch: int, done: Completion) -> Completion:
        return done

    patch.setattr(once, "record_completion", mine)
    patch.setattr(once, "load_completion", lambda *given: None)


def nobody_looks_again(patch: Patch) -> None:
    """Whoever has published its files, and said so, takes them for wanted."""
    patch.setattr(once, "_is_unwanted", lambda context, files: False)


def nobody_looks_at_all(patch: Patch) -> None:
    """Nobody asks whether the write goes on without it."""
    nobody_looks_again(patch)
    patch.setattr(once, "_load_final_stats", lambda context, index: None)
    patch.setattr(once, "_is_over", lambda context: False)


def losers_leave_their_files(patch: Patch) -> None:
    """An attempt that has lost lets its files lie."""
    patch.setattr(once.Outputs, "withdraw", lambda self: None)


def nothing_is_left_for_the_sweep(patch: Patch) -> None:
    """The finalize marker goes with the other markers, and with it what the sweep must know."""
    delete = execute.delete_completions

    def all_of_it(env: Any, instant: Any) -> None:
        delete(env, instant)
        env.storage.delete(f"{sweep.paths.FINALS}/{instant}")

    patch.setattr(execute, "delete_completions", all_of_it)


def dies_over_a_late_file() -> Iterator[Outcome]:
    """An executor publishes a file after the commit, and dies before it can look again."""
    for first in by_seed(robust.Dawdlers, range(400)):
        is_committed = False
        for step in first.steps:
            is_committed = is_committed or (step.path.endswith(".commit") and step.verb == "create")
            if is_committed and step.verb == "open_write":
                point = (step.actor, step.operation)
                faults = {**first.script.faults, point: Fault(Kind.CRASH_AFTER)}
                yield run(robust.Dawdlers, replace(first.script, faults=faults))


CASES: dict[str, tuple[Callable[[Patch], None], Callable[[], Iterable[Outcome]]]] = {
    "no completion markers": (
        everyone_wins,
        lambda: by_seed(robust.Dawdlers, range(150, 300)),
    ),
    "no look after publishing": (
        nobody_looks_again,
        lambda: by_seed(robust.Dawdlers, range(300)),
    ),
    "no look at all": (
        nobody_looks_at_all,
        lambda: by_seed(robust.Dawdlers, range(300)),
    ),
    "losers leave their files": (
        losers_leave_their_files,
        lambda: by_seed(robust.Dawdlers, range(300)),
    ),
    "nothing left for the sweep": (
        nothing_is_left_for_the_sweep,
        dies_over_a_late_file,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_simulator_finds(name: str, monkeypatch: Patch) -> None:
    mutate, outcomes = CASES[name]
    mutate(monkeypatch)
    find_violation(name, outcomes())


def test_a_file_of_a_dead_executor_is_swept(record_property: Record) -> None:
    outcomes = dies_over_a_late_file()
    found = explore(record_property, "dawdlers, death after a late file", outcomes)
    assert found.runs > 2
