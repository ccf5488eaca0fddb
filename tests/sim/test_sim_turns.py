"""Who moves next in a simulation, and which orders make no difference."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from random import Random

import pytest
from inline_scenarios import Play, moves, play, puts

from hoodoo.runtime.env import Env
from hoodoo_testing.simulator.scenario import RunOutcome
from hoodoo_testing.simulator.search.explore import by_preemptions, by_seed
from hoodoo_testing.simulator.world.faults import StorageOperation
from hoodoo_testing.simulator.world.schedule import Chances, SeededSchedule
from hoodoo_testing.simulator.world.world import ActorAction

pytestmark = pytest.mark.slow


def test_who_moves_goes_on_unless_the_script_says_otherwise() -> None:
    cast = {"a": puts("1", "2"), "b": puts("3", "4")}
    assert moves(play(cast)[0]) == "a#1 a#2 b#1 b#2"
    assert moves(play(cast, "3>b")[0]) == "a#1 b#1 b#2 a#2"
    assert moves(play(cast, "1>b 3>a 5>b")[0]) == "b#1 a#1 b#2 a#2"


def test_those_who_stop_take_turns() -> None:
    def act(env: Env) -> None:
        for _ in range(3):
            env.clock.sleep(1)

    outcome, _ = play({"a": act, "b": act})
    assert [step.actor for step in outcome.steps if step.verb == "wakes"] == list("ababab")


def test_preemptions_make_every_order_once() -> None:
    cast = {"a": puts("s", "s"), "b": puts("s", "s")}
    for at_most, orders in ((0, 2), (1, 4), (2, 6)):
        # Each of two actors begins before its first operation, which makes no difference here.
        found = [moves(outcome) for outcome in by_preemptions(lambda: Play(cast), at_most)]
        assert len(set(found)) == orders
    every = [outcome.trace for outcome in by_preemptions(lambda: Play(cast), 9, is_reduced=False)]
    assert len(set(every)) == len(every)


Program = list[tuple[str, str]]


def draw_program(random: Random, length: int) -> Program:
    verbs = ("put", "put", "delete", "exists", "list")
    return [(random.choice(verbs), random.choice(("s/1", "s/2", "", ""))) for _ in range(length)]


def performs(name: str, program: Program) -> ActorAction:
    def act(env: Env) -> None:
        for verb, path in program:
            storage, path = env.storage, path or f"{name}/own"
            match verb:
                case "put":
                    storage.put(path, b"")
                case "list":
                    list(storage.list(path.partition("/")[0]))
                case _:
                    getattr(storage, verb)(path)

    return act


def order(outcome: RunOutcome) -> frozenset[tuple[str, int, str, int]]:
    """In which order those operations came that do not commute: all that is seen of a run."""
    done = [step.as_operation() for step in outcome.steps if step.operation]
    return frozenset(
        (one.actor, one.number, other.actor, other.number)
        for at, one in enumerate(done)
        for other in done[at + 1 :]
        if one.actor != other.actor and not one.commutes_with(other)
    )


def test_the_reduction_loses_nothing() -> None:
    all_runs = reduced_runs = 0
    for seed in range(40):
        random = Random(seed)
        names = "abc"[: random.choice((2, 2, 3))]
        most = 5 if len(names) == 2 else 3
        cast = {
            name: performs(name, draw_program(random, random.randint(1, most))) for name in names
        }
        at_most = random.randint(1, most - 2 if len(names) == 2 else 2)
        make = partial(Play, cast)
        every, reduced = (
            [order(outcome) for outcome in by_preemptions(make, at_most, is_reduced=is_reduced)]
            for is_reduced in (False, True)
        )
        assert set(reduced) == set(every)
        all_runs += len(every)
        reduced_runs += len(reduced)
    assert reduced_runs < all_runs * 0.7


@pytest.mark.parametrize(
    ("one", "other", "commute"),
    [
        (("put", "a"), ("put", "b"), True),
        (("put", "a"), ("put", "a"), False),
        (("read", "a"), ("list", ""), True),
        (("read", "a"), ("put", "a"), False),
        (("read", "a"), ("delete", "a/b"), True),
        (("list", "a"), ("delete", "a/b/c"), False),
        (("list", "a"), ("create", "ab"), True),
        (("list_directories", ""), ("open_write", "x"), False),
    ],
)
def test_operations_commute_unless_one_changes_what_the_other_sees(
    one: tuple[str, str], other: tuple[str, str], commute: bool
) -> None:
    first, second = StorageOperation("p", "p", 1, *one), StorageOperation("q", "q", 1, *other)
    assert first.commutes_with(second) is second.commutes_with(first) is commute
    assert not first.commutes_with(second._replace(process="p"))


def test_some_seeds_pick_by_priority() -> None:
    def is_steady(schedule: SeededSchedule) -> bool:
        picked = set()
        for step in range(1000, 1020):  # past all changes of priorities
            names = ["a", "b", "c"]
            Random(step).shuffle(names)
            picked.add(names[schedule.pick(step, names, stays=False)])
        return len(picked) == 1

    assert 10 < sum(is_steady(SeededSchedule(seed)) for seed in range(100)) < 50


def test_a_stubborn_schedule_switches_rarely() -> None:
    cast = {name: puts(*"xyz" * 5) for name in "abc"}

    def switches(stay: float | None) -> list[int]:
        told = []
        for outcome in by_seed(lambda: Play(cast), range(50), chances=Chances(stay=stay)):
            actors = [step.actor for step in outcome.steps if step.operation]
            told.append(sum(one != other for one, other in pairwise(actors)))
        return told

    assert sum(switches(0.95)) < sum(switches(0.0)) / 4
    assert min(switches(None)) <= 6 < 20 < max(switches(None))
