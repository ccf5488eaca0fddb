"""Early conflict detection in the simulator: found in time, never by both, never for nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from support.simulations import Record, explore, explore_seeds, find_violation

from hoodoo.concurrency.conflicts import early_detection as detection
from hoodoo.concurrency.conflicts.announced_files import MarkerFilter
from hoodoo.concurrency.conflicts.rules import STRATEGIES as CONFLICT_STRATEGIES
from hoodoo.concurrency.conflicts.rules import find_conflicts
from hoodoo.concurrency.conflicts.writes_in_progress import LiveWrite, load_live_writes
from hoodoo.config.concurrency import ConflictStrategy, DetectionStrategy
from hoodoo.model.files import FileGroupId
from hoodoo_testing.simulator.scenario import RunOutcome
from hoodoo_testing.simulator.scenarios import early_conflicts
from hoodoo_testing.simulator.search.explore import by_preemptions, by_seed
from hoodoo_testing.simulator.world.schedule import Chances
from hoodoo_testing.simulator.world.world import World

pytestmark = pytest.mark.slow

SEEDS = 3
SCENARIOS: tuple[type[early_conflicts.EarlyScenario], ...] = early_conflicts.SCENARIOS
BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}
STRATEGIES = [each.value.replace("_", "-") for each in DetectionStrategy]


def in_ci(*strategies: str) -> pytest.MarkDecorator:
    """These strategies in CI, and all at night: `test_invariants_hold_by_seed` runs each in CI."""
    return pytest.mark.parametrize(
        "strategy",
        [
            pytest.param(each, marks=() if each in strategies else pytest.mark.nightly)
            for each in STRATEGIES
        ],
    )


@pytest.mark.parametrize("scenario", early_conflicts.SCENARIOS, ids=lambda scenario: scenario.name)
def test_invariants_hold_by_seed(
    scenario: type[early_conflicts.EarlyScenario], record_property: Record
) -> None:
    explore_seeds(record_property, scenario, seeds=SEEDS)


@in_ci("async", "transactional-direct")
def test_conflicts_are_found_early_in_every_schedule_with_one_preemption(
    strategy: str, record_property: Record
) -> None:
    """How early is told in the summary: while the write ran, or by the gate."""
    scenario = BY_NAME[f"early-two-markers-{strategy}"]
    moments: Counter[str] = Counter()

    def make() -> early_conflicts.EarlyScenario:
        made = scenario()
        check = made.check

        def counted(world: World, outcome: RunOutcome) -> None:
            check(world, outcome)
            moments.update("early" if each.is_early else "gate" for each in made.failures)

        made.check = counted  # type: ignore[method-assign]  # to count what it has seen
        return made

    found = explore(record_property, f"{scenario.name}, one preemption", by_preemptions(make, 1))
    record_property("simulated", f"{scenario.name}: {dict(moments)}")
    assert found.is_complete
    assert moments["early"] >= 0.9 * moments.total() > 0


@in_ci("simple-direct")
def test_of_two_at_once_one_commits_in_every_schedule_with_one_preemption(
    strategy: str, record_property: Record
) -> None:
    scenario = BY_NAME[f"early-at-once-{strategy}"]
    runs = by_preemptions(scenario, 1)
    assert explore(record_property, f"{scenario.name}, one preemption", runs).is_complete


@pytest.mark.nightly
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_of_two_at_once_one_commits_in_schedules_with_two_preemptions(
    strategy: str, record_property: Record
) -> None:
    scenario = BY_NAME[f"early-at-once-{strategy}"]
    runs = by_preemptions(scenario, 2)
    explore(record_property, f"{scenario.name}, two preemptions", runs, cap=5_000)


def never_look(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(detection.EarlyConflictDetector, "_look", lambda self: None)


def look_at_all(patch: pytest.MonkeyPatch) -> None:
    def find(strategy: Any, mine: Any, others: list[Any], peers: list[LiveWrite]) -> object:
        older = [peer.if_completed() for peer in peers]
        return find_conflicts(strategy, mine, [*others, *older])

    real = load_live_writes
    patch.setattr(detection, "find_early_conflicts", find)
    patch.setattr(
        detection,
        "load_live_writes",
        lambda ref, now, *, before: [
            write for write in real(ref, now, before="9" * 17) if write.time != before
        ],
    )


def take_any_partition(patch: pytest.MonkeyPatch) -> None:
    def same(group: object) -> object:
        return FileGroupId("", "")

    simple = CONFLICT_STRATEGIES[ConflictStrategy.SIMPLE]
    blurred = replace(simple, group_identity=same)
    patch.setitem(CONFLICT_STRATEGIES, ConflictStrategy.SIMPLE, blurred)
    patch.setattr(MarkerFilter, "select", lambda self, names: [name for name, _, _ in names])


@pytest.mark.parametrize(
    ("scenario", "mutant"),
    [
        ("early-two-markers-async", never_look),
        ("early-two-markers-async", look_at_all),
        ("early-apart-simple-direct", take_any_partition),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_mutants_of_early_detection_are_found(
    scenario: str, mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    quiet = Chances()
    find_violation(scenario, by_seed(BY_NAME[scenario], range(60), chances=quiet))
