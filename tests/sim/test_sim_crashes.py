"""Processes of the simulator that crash or pause."""

from __future__ import annotations

import pytest
from inline_scenarios import Play, play, puts, unsure

from hoodoo.errors import ObjectNotFound
from hoodoo.runtime.env import Env
from hoodoo_testing.simulator.scenario import run
from hoodoo_testing.simulator.world.faults import ProcessCrash
from hoodoo_testing.simulator.world.schedule import Script

# Crashes


def crashing(env: Env) -> None:
    """Writes, and tidies up in every way that it knows."""
    try:
        env.storage.put("x", b"1")
        env.storage.put("y", b"2")
    finally:
        for tidy in (
            lambda: env.storage.delete("x"),
            lambda: env.storage.open_write("z"),
            lambda: env.clock.sleep(1),
            lambda: env.clock.every(1000, lambda: None),
            lambda: env.clock.line("x"),
            lambda: env.clock.now_ms(),
        ):
            with pytest.raises(ProcessCrash):
                tidy()


def test_a_crash_before_an_operation_leaves_it_undone() -> None:
    outcome, world = play({"a": crashing}, "a#2=crash_before")
    assert isinstance(outcome.errors["a"], ProcessCrash)
    assert [info.path for info in world.storage.list("", recursive=True)] == ["x"]


def test_a_crash_after_an_operation_leaves_it_done() -> None:
    outcome, world = play({"a": crashing}, "a#2=crash_after")
    assert isinstance(outcome.errors["a"], ProcessCrash)
    assert [info.path for info in world.storage.list("", recursive=True)] == ["x", "y"]


def test_a_crash_in_an_exception_handler_is_no_error_of_the_code() -> None:
    def act(env: Env) -> None:
        try:
            env.storage.read("absent")
        except ObjectNotFound:
            env.storage.put("x", b"")

    assert isinstance(play({"a": act}, "a#2=crash_before")[0].errors["a"], ProcessCrash)


def test_a_crash_ends_the_whole_process_and_nobody_else() -> None:
    ended: list[str] = []

    def sleep(env: Env) -> None:
        try:
            env.clock.sleep(1000)
            ended.append("slept")
        finally:
            ended.append("woken")

    def wait(env: Env) -> None:
        line = env.clock.line("x")
        line.enter(0)
        line.enter(float("inf"))

    cast = {"p/one": puts("x", "y"), "p/two": sleep, "p/three": wait, "q": sleep}
    outcome, _ = play(cast, "1>p/two 2>p/three 3>q p/one#1=crash_after")
    assert {name for name, error in outcome.errors.items() if isinstance(error, ProcessCrash)} == {
        *("p/one", "p/two", "p/three"),
    }
    assert ended == ["woken", "slept", "woken"]


def test_an_actor_of_a_crashed_process_never_begins() -> None:
    outcome, world = play({"p/one": puts("x"), "p/two": puts("y")}, "p/one#1=crash_before")
    assert set(outcome.errors) == {"p/one", "p/two"}
    assert not list(world.storage.list(""))


def test_code_that_goes_on_after_its_crash_is_found() -> None:
    def immortal(env: Env) -> None:
        while True:
            try:
                env.storage.put("x", b"")
            except BaseException:
                continue

    outcome = run(lambda: Play({"a": immortal, "b": puts("y")}), Script.parse("a#1=crash_before"))
    assert outcome.violation == "a goes on after its crash"
    play({"a": puts("x")})[0].verify()  # the next run is not impaired


# Pauses


def test_a_pause_stops_a_process_with_its_timers() -> None:
    beats: list[float] = []

    def act(env: Env) -> list[float]:
        began = env.clock.monotonic()
        timer = env.clock.every(1000, lambda: beats.append(env.clock.monotonic() - began))
        for _ in range(3):
            env.clock.sleep(1.5)
            env.storage.exists("x")
        timer.stop()
        return beats

    outcome, _ = play({"a": act, "b": puts("x", "y")}, "a#2=pause:60000")
    # At 3.01 s all stands still for a minute. Then, as a real timer does, it is late once more,
    # and leaves out the rest of what it missed.
    assert outcome.results["a"] == pytest.approx([1, 2, 3, 63.02, 63.02, 64.02])


@pytest.mark.parametrize(("pause_ms", "lands"), [(30_000, True), (30_001, False)])
def test_a_mutation_does_not_outlast_a_long_pause(pause_ms: int, lands: bool) -> None:
    outcome, world = play({"a": unsure}, f"a#1=pause:{pause_ms}")
    assert outcome.results["a"] is world.storage.exists("x") is lands


def test_a_pause_holds_up_the_mutations_of_a_timer_too() -> None:
    told: list[bool] = []

    def act(env: Env) -> None:
        env.clock.every(1000, lambda: told.append(unsure(env)))
        env.clock.sleep(1)
        env.storage.exists("y")
        env.clock.sleep(1)

    # The timer asks to write; before it can, the main code comes to its read, and pauses.
    outcome, _ = play({"a": act}, "2>a~1 3>a a#1=pause:40000")
    assert told[0] is False
    assert "never landed" in outcome.trace
