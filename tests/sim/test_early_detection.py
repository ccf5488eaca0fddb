"""Early conflict detection in the simulator: found in time, never by both, never for nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from support.simulations import Record, explore, explore_seeds, find_violation

from hoodoo.concurrency import early as detection
from hoodoo.concurrency.peer_markers import Wanted
from hoodoo.concurrency.peers import Peer
from hoodoo.testing.sim.explore import by_seed
from hoodoo.testing.sim.preemptions import by_preemptions
from hoodoo.testing.sim.scenarios import early
from hoodoo.testing.sim.seeded import Chances

SEEDS = 6
BY_NAME = {scenario.name: scenario for scenario in early.SCENARIOS}
STRATEGIES = [each.value.replace("_", "-") for each in early.DetectionStrategy]


@pytest.mark.parametrize("scenario", early.SCENARIOS, ids=lambda scenario: scenario.name)
def test_invariants_hold_by_seed(
    scenario: type[early.EarlyScenario], record_property: Record
) -> None:
    explore_seeds(record_property, scenario, seeds=SEEDS)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_conflicts_are_found_early_in_every_schedule_with_one_preemption(
    strategy: str, record_property: Record
) -> None:
    """How early is told in the summary: while the write ran, or by the gate."""
    scenario = BY_NAME[f"early-two-markers-{strategy}"]
    moments: Counter[str] = Counter()

    def make() -> early.EarlyScenario:
        made = scenario()
        check = made.check

        def counted(world: early.World, outcome: early.Outcome) -> None:
            check(world, outcome)
            moments.update("early" if each.is_early else "gate" for each in made.failures)

        made.check = counted  # type: ignore[method-assign]  # to count what it has seen
        return made

    found = explore(record_property, f"{scenario.name}, one preemption", by_preemptions(make, 1))
    record_property("simulated", f"{scenario.name}: {dict(moments)}")
    assert found.is_complete
    assert moments["early"] >= 0.9 * moments.total() > 0


@pytest.mark.parametrize("strategy", ["simple-direct", "async"])
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
    patch.setattr(detection.Detector, "_look", lambda self: None)


def look_at_all(patch: pytest.MonkeyPatch) -> None:
    def find(strategy: object, mine: object, others: object, peers: list[Peer]) -> object:
        older = [peer.if_completed() for peer in peers]
        return detection.find_conflicts(strategy, mine, [*others, *older])

    real = detection.load_peers
    patch.setattr(detection, "find_early_conflicts", find)
    patch.setattr(
        detection,
        "load_peers",
        lambda ref, now, *, before: real(ref, now, before="9" * 17),
    )


def take_any_partition(patch: pytest.MonkeyPatch) -> None:
    def same(group: object) -> object:
        return detection.FileGroupId("", "")

    simple = detection.STRATEGIES[detection.ConflictStrategy.SIMPLE]
    blurred = detection.replace(simple, same_as=same)
    patch.setitem(detection.STRATEGIES, detection.ConflictStrategy.SIMPLE, blurred)
    patch.setattr(Wanted, "select", lambda self, names: [name for name, _, _ in names])


@pytest.mark.parametrize(
    ("scenario", "mutant"),
    [
        ("early-two-markers-async", never_look),
        ("early-two-markers-async", look_at_all),
        ("early-apart-simple-direct", take_any_partition),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_what_is_left_out_is_found(
    scenario: str, mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    quiet = Chances()
    find_violation(scenario, by_seed(BY_NAME[scenario], range(60), chances=quiet))
