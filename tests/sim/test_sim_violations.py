"""What a simulation reports: violations, bugs, deadlocks, runs without end."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from inline_scenarios import EXACT, Play, moves, play, puts

from hoodoo.errors import LockTimeout, ObjectExists, OutcomeUnknown
from hoodoo.runtime.env import Env
from hoodoo_testing.simulator.scenario import RunOutcome, run
from hoodoo_testing.simulator.world import stage as stage_module
from hoodoo_testing.simulator.world.faults import ProcessCrash, StorageOperation
from hoodoo_testing.simulator.world.schedule import Script
from hoodoo_testing.simulator.world.stage import Violation
from hoodoo_testing.simulator.world.world import ActorAction, World


def test_watchers_see_each_mutation_that_landed() -> None:
    seen: list[str] = []

    def watch(world: World) -> None:
        world.watch(
            lambda operation: seen.append(f"{operation.actor} {operation.verb} {operation.path}")
        )

    def act(env: Env) -> None:
        puts("x", "lost", "answerless")(env)

    def other(env: Env) -> None:
        with env.storage.open_write("z") as stream:
            stream.write(b"")
        env.storage.exists("x")
        with pytest.raises(ObjectExists):
            env.storage.create("z", b"")
        env.storage.delete("z")

    outcome, _ = play({"a": act, "b": other}, "a#2=lost_request", before=watch)
    assert isinstance(outcome.errors["a"], OutcomeUnknown)
    assert seen == ["a put x", "b open_write z", "b delete z"]


def test_a_violation_ends_the_run_where_it_happens() -> None:
    def watch(world: World) -> None:
        def check(operation: StorageOperation) -> None:
            if world.storage.exists("x") and world.storage.exists("y"):
                raise Violation("both are there")

        world.watch(check)

    def careful(env: Env) -> None:
        try:
            puts("y", "z")(env)
        except Exception:
            puts("hidden")(env)

    cast = {"a": puts("x", "w"), "b": careful}
    outcome = run(lambda: Play(cast, before=watch), Script.parse("3>b"))
    assert outcome.violation == "both are there"
    assert not outcome.is_broken
    assert moves(outcome) == "a#1 b#1"
    assert {type(error) for error in outcome.errors.values()} == {ProcessCrash}


def test_whatever_a_check_raises_is_a_violation() -> None:
    def check(world: World, outcome: RunOutcome) -> None:
        world.storage.read("absent")

    outcome = run(lambda: Play({"a": puts("x")}, after=check), Script())
    assert outcome.violation is not None
    assert "ObjectNotFound" in outcome.violation
    assert "absent" in outcome.violation
    assert not outcome.is_broken


def test_a_check_that_breaks_is_no_finding() -> None:
    def check(world: World, outcome: RunOutcome) -> None:
        assert outcome.results["nobody"]

    def check_by_actor(world: World, outcome: RunOutcome) -> None:
        world.do("checker", lambda env: outcome.results["nobody"])

    for each in (check, check_by_actor):
        outcome = run(lambda each=each: Play({"a": puts("x")}, after=each), Script())
        assert outcome.violation is not None
        assert "KeyError: 'nobody'" in outcome.violation
        assert outcome.is_broken


def test_an_error_of_hoodoo_is_a_result_and_a_bug_is_a_violation() -> None:
    def fail(error: Exception) -> ActorAction:
        def act(env: Env) -> None:
            env.storage.exists("x")
            raise error

        return act

    outcome, _ = play({"a": fail(LockTimeout("late"))})
    assert str(outcome.errors["a"]) == "late"
    outcome = run(lambda: Play({"a": fail(KeyError("bug")), "b": puts("x")}), Script())
    assert outcome.violation is not None
    assert "a broke" in outcome.violation
    assert "KeyError: 'bug'" in outcome.violation
    assert outcome.is_broken


def test_a_bug_in_a_timer_is_a_violation() -> None:
    def act(env: Env) -> None:
        env.clock.every(10, lambda: {}["bug"])
        env.clock.sleep(1)

    outcome = run(lambda: Play({"a": act}), Script())
    assert outcome.violation is not None
    assert "a~1 broke" in outcome.violation


def test_a_deadlock_is_found() -> None:
    def take(first: str, second: str) -> ActorAction:
        def act(env: Env) -> None:
            for name in (first, second):
                env.clock.line(name).enter(float("inf"))
                env.storage.exists("x")

        return act

    cast = {"p/a": take("one", "two"), "p/b": take("two", "one")}
    assert run(lambda: Play(cast), Script()).violation is not None  # nobody leaves
    outcome = run(lambda: Play(cast), Script.parse("2>p/b"))
    assert outcome.violation == ("deadlock: p/a waits for the line two; p/b waits for the line one")
    assert "p/a" in outcome.report()


def test_a_run_that_never_ends_is_ended() -> None:
    def act(env: Env) -> None:
        while True:
            env.storage.exists("x")

    short = replace(EXACT, most_steps=50)
    outcome = run(lambda: Play({"a": act, "b": act}, short), Script())
    assert outcome.violation == "no end after 50 steps"
    assert len([step for step in outcome.steps if step.operation]) == 49


def test_an_actor_that_waits_for_something_real_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_module, "_STUCK_AFTER_S", 0.05)
    never = threading.Event()

    def act(env: Env) -> None:
        never.wait()

    with pytest.raises(RuntimeError, match=r"never\.wait"):
        run(lambda: Play({"a": act}), Script())
    never.set()


def test_only_the_actor_whose_turn_it_is_touches_its_world() -> None:
    envs: dict[str, Env] = {}

    def act(env: Env) -> None:
        envs["a"] = env
        failed: list[Exception] = []

        def elsewhere() -> None:
            try:
                env.storage.exists("x")
            except RuntimeError as error:
                failed.append(error)

        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        assert "no actor" in str(failed)

    def steal(env: Env) -> None:
        env.clock.sleep(1)
        with pytest.raises(RuntimeError, match="environment of a"):
            envs["a"].clock.now_ms()
        env.clock.sleep(10)

    def linger(env: Env) -> None:
        act(env)
        env.clock.sleep(5)

    play({"a": linger, "b": steal})
    with pytest.raises(RuntimeError, match="a has ended"):
        envs["a"].storage.exists("x")
