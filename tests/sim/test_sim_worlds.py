"""Worlds of the simulator: how they are prepared, copied and checked, and who acts in them."""

from __future__ import annotations

import threading
from functools import partial

import pytest
from inline_scenarios import EXACT, Anything, Play, play, puts

from hoodoo.errors import LockTimeout
from hoodoo.runtime.env import Env
from hoodoo_testing.simulator.scenario import RunOutcome, run
from hoodoo_testing.simulator.search.explore import by_seed
from hoodoo_testing.simulator.world import stage
from hoodoo_testing.simulator.world.faults import Fault, FaultKind, ProcessCrash
from hoodoo_testing.simulator.world.schedule import (
    Chances,
    FaultAt,
    Script,
    SeededSchedule,
    all_faults,
)
from hoodoo_testing.simulator.world.stage import Settings
from hoodoo_testing.simulator.world.world import Image, World

pytestmark = pytest.mark.slow


def test_setup_and_check_run_real_code_alone() -> None:
    def prepare(world: World) -> None:
        def write(env: Env) -> str:
            env.clock.every(1000, lambda: env.storage.put("beat", b""))
            env.clock.sleep(10)
            return env.ids.uuid()

        assert len(world.do("preparing", write)) == 36
        assert world.storage.exists("beat")

    def fails(env: Env) -> None:
        raise LockTimeout("x")

    def check(world: World, outcome: RunOutcome) -> None:
        before = world.do("checking", lambda env: env.clock.now_ms())
        world.pass_time(5000)
        assert world.do("checking", lambda env: env.clock.now_ms()) == before + 5000
        with pytest.raises(LockTimeout):
            world.do("checking", fails)
        assert outcome.results == {"a": None}

    outcome = run(lambda: Play({"a": puts("x")}, before=prepare, after=check), Script())
    outcome.verify()
    assert [step.number for step in outcome.steps] == [1, 2, None]


def test_an_image_starts_other_worlds() -> None:
    first = World(EXACT)
    first.do("one", puts("a/x"))
    first.pass_time(1000)
    first.do("two", puts("y"))
    image = first.image()
    for world in (World(EXACT), World(EXACT)):
        world.load(image)
        assert world.image() == image
        assert not world.storage.exists("z")
        world.do("more", puts("z"))
        new = world.storage.stat("z").modified_ms
        assert new - world.storage.stat("a/x").modified_ms == 1020
    assert not first.storage.exists("z")


def test_it_makes_no_difference_who_made_the_image() -> None:
    images: list[Image] = []

    def prepare(world: World) -> None:
        if images:
            world.load(images[0])
        else:
            world.do("founder", lambda env: env.storage.put(env.ids.uuid(), b""))
            images.append(world.image())
        world.do("second", lambda env: env.storage.put(env.ids.uuid(), b""))

    def act(env: Env) -> object:
        seen = [(info.path, info.modified_ms) for info in env.storage.list("")]
        return seen, env.ids.uuid(), env.clock.now_ms(), env.clock.monotonic()

    make = partial(Play, {"a": act}, Settings(), before=prepare)
    loaded, loaded_again = run(make, Script(1)), run(make, Script(1))
    images.clear()
    other = run(make, Script(2))
    images.clear()
    made = run(make, Script(1))
    assert made.results == loaded.results == loaded_again.results
    assert made.trace == loaded.trace
    (seen, *_), (other_seen, *_) = made.results["a"], other.results["a"]
    assert seen == other_seen
    assert made.results != other.results


def test_a_scene_is_set_with_a_fault() -> None:
    def prepare(world: World) -> None:
        cast = {"dead": puts("x", "y/1", "z"), "other": puts("y/2")}
        played = world.play(cast, FaultAt("dead", "y/", Fault(FaultKind.CRASH_BEFORE)))
        assert isinstance(played["dead"].error, ProcessCrash)

    outcome, world = play({"a": puts("w")}, before=prepare)
    assert [info.path for info in world.storage.list("", recursive=True)] == ["w", "x", "y/2"]
    assert not outcome.script.faults


def test_a_name_that_scripts_cannot_tell_is_refused() -> None:
    for name in ("", "a b", "a#1", "a~1", "a>b", "a/b/c"):
        with pytest.raises(ValueError, match="no name"):
            run(partial(Play, {name: puts("x")}), Script())


def test_faults_skip_spared_actors() -> None:
    chances = Chances(all_faults(1.0), at_most=2, spared_processes=frozenset({"b"}))
    cast = {"a": puts(*"xyz" * 3), "b": puts(*"xyz" * 3)}
    kinds = set()
    for outcome in by_seed(lambda: Play(cast), range(100), chances=chances):
        outcome.verify()
        assert {actor for actor, _ in outcome.script.faults} <= {"a"}
        assert len(outcome.script.faults) <= 2
        assert not outcome.is_seeded
        kinds |= {fault.kind for fault in outcome.script.faults.values()}
    assert kinds == set(FaultKind)


def test_threads_are_used_again() -> None:
    play({"a": puts("x"), "b": puts("y")})
    before = threading.active_count()
    for seed in range(20):
        run(Anything, SeededSchedule(seed, Anything.chances))
    assert threading.active_count() <= before + 2
    assert len(stage._idle) <= threading.active_count()
