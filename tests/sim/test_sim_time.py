"""Timers, lines, clocks and ids of the simulator."""

from __future__ import annotations

import time
from functools import partial

import pytest
from inline_scenarios import Play, moves, play, puts

from hoodoo.errors import StorageError
from hoodoo.runtime.env import Env
from hoodoo_testing.simulator.scenario import run
from hoodoo_testing.simulator.search.explore import by_preemptions, by_seed
from hoodoo_testing.simulator.world.clock import SimClock
from hoodoo_testing.simulator.world.schedule import Script
from hoodoo_testing.simulator.world.stage import START_MS, Settings
from hoodoo_testing.simulator.world.world import ActorAction

# Timers


def test_timers_beat_beside_the_work_until_they_are_stopped() -> None:
    beats: list[int] = []

    def act(env: Env) -> None:
        started = env.clock.now_ms()
        timer = env.clock.every(1000, lambda: beats.append(env.clock.now_ms() - started))
        env.clock.sleep(3.5)
        timer.stop()
        timer.stop()
        env.clock.sleep(10)

    play({"a": act})
    assert beats == [1000, 2000, 3000]


def test_a_slow_step_leaves_beats_out() -> None:
    beats: list[int] = []

    def act(env: Env) -> None:
        started = env.clock.now_ms()

        def step() -> None:
            beats.append(env.clock.now_ms() - started)
            env.clock.sleep(2.2)

        timer = env.clock.every(1000, step)
        env.clock.sleep(6)
        timer.stop()

    play({"a": act})
    assert beats == [1000, 3200, 5400]


def test_stop_waits_for_the_step_that_runs() -> None:
    ended: list[str] = []

    def act(env: Env) -> None:
        def step() -> None:
            env.clock.sleep(5)
            ended.append("step")

        timer = env.clock.every(1000, step)
        env.clock.sleep(2)
        timer.stop()
        ended.append("stop")

    play({"a": act})
    assert ended == ["step", "stop"]


def test_a_step_may_stop_its_own_timer() -> None:
    beats: list[int] = []

    def act(env: Env) -> None:
        def step() -> None:
            beats.append(1)
            timer.stop()

        timer = env.clock.every(1000, step)
        env.clock.sleep(5)
        timer.stop()

    play({"a": act})
    assert beats == [1]


@pytest.mark.parametrize("script", ["", "a#1=crash_before"])
def test_timers_die_with_their_process(script: str) -> None:
    beats: list[str] = []

    def act(env: Env) -> None:
        def step() -> None:
            beats.append("begun")
            env.clock.sleep(1)
            beats.append("ended")

        env.clock.every(1000, step)
        env.clock.sleep(3.5)
        env.storage.exists("x")

    outcome, _ = play({"a": act, "b": lambda env: env.clock.sleep(100)}, script)
    assert beats == ["begun", "ended", "begun", "ended", "begun"]
    assert outcome.steps[-2].at_ms == 100_000


def test_steps_interleave_with_the_work() -> None:
    def act(env: Env) -> None:
        timer = env.clock.every(30, lambda: env.storage.put("beat", b""))
        puts("1", "2", "3", "4", "5")(env)
        timer.stop()

    cast = {"a": act}
    assert moves(play(cast)[0]) == "a#1 a#2 a#3 a#4 a#5"
    # After three operations of 10 ms the timer is due.
    assert moves(play(cast, "5>a~1")[0]).startswith("a#1 a#2 a#3 a~1#1")
    found = {moves(outcome) for outcome in by_preemptions(lambda: Play(cast), 1)}
    assert len(found) == 3


def test_a_failed_step_is_followed_by_the_next() -> None:
    beats: list[int] = []

    def act(env: Env) -> None:
        def step() -> None:
            beats.append(1)
            raise StorageError("x", "no")

        env.clock.every(1000, step)
        env.clock.sleep(2.5)

    outcome, _ = play({"a": act})
    assert beats == [1, 1]
    assert outcome.trace.count("StorageError") == 2


# Lines


def test_a_line_is_first_come_first_served() -> None:
    served: list[str] = []

    def stand(name: str, arrives_s: float) -> ActorAction:
        def act(env: Env) -> None:
            env.clock.sleep(arrives_s)
            line = env.clock.line("lock")
            assert line.enter(100)
            served.append(name)
            env.clock.sleep(5)
            line.leave()

        return act

    cast = {
        f"p/{name}": stand(name, arrives)
        for name, arrives in zip("abcd", (3, 1, 4, 2), strict=True)
    }
    for outcome in by_seed(lambda: Play(cast), range(20)):
        outcome.verify()
        assert served == list("bdac")
        served.clear()


def test_who_waits_in_a_line_may_give_up() -> None:
    def hold(env: Env) -> bool:
        line = env.clock.line("lock")
        entered = line.enter(0)
        env.clock.sleep(10)
        line.leave()
        return entered

    def hurry(env: Env) -> tuple[bool, float]:
        began = env.clock.monotonic()
        return env.clock.line("lock").enter(2), env.clock.monotonic() - began

    def wait(env: Env) -> tuple[bool, float]:
        began = env.clock.monotonic()
        return env.clock.line("lock").enter(60), env.clock.monotonic() - began

    outcome, _ = play({"p/a": hold, "p/b": hurry, "p/c": wait, "q": hold})
    assert outcome.results == {"p/a": True, "p/b": (False, 2.0), "p/c": (True, 10.0), "q": True}


def test_names_and_processes_have_lines_of_their_own() -> None:
    def act(env: Env) -> list[bool]:
        return [env.clock.line(name).enter(0) for name in ("one", "two", "one")]

    outcome, _ = play({"p": act, "q": act})
    assert outcome.results == {"p": [True, True, False], "q": [True, True, False]}


# Clocks and ids


def test_wall_clocks_jump_and_monotonic_ones_do_not() -> None:
    def act(env: Env) -> list[tuple[int, float]]:
        told = []
        for _ in range(4):
            told.append((env.clock.now_ms(), env.clock.monotonic()))
            env.storage.exists("x")
        return told

    outcome, _ = play({"a": act, "b": act}, "a#1=jump:-60000 a#2=jump:90000")
    times, b_times = outcome.results["a"], outcome.results["b"]
    assert isinstance(times, list)
    assert isinstance(b_times, list)
    assert [now - times[0][0] for now, _ in times] == [0, -59_990, 30_020, 30_030]
    assert [monotonic - times[0][1] for _, monotonic in times] == pytest.approx(
        [0, 0.01, 0.02, 0.03]
    )
    assert [now - b_times[0][0] for now, _ in b_times] == [0, 10, 20, 30]


def test_the_store_dates_objects_by_its_own_clock() -> None:
    def act(env: Env) -> list[int]:
        puts("x", "y")(env)
        started = env.clock.now_ms()
        return [env.storage.stat(path).modified_ms - started for path in "xy"]

    outcome, _ = play({"a": act}, "a#1=jump:77 a#2=jump_store:3600000")
    assert outcome.results["a"] == [-87, 3_600_000 - 77]


def test_clocks_are_off_from_the_start() -> None:
    def act(env: Env) -> tuple[int, float]:
        return env.clock.now_ms(), env.clock.monotonic()

    outcome, _ = play({"a": act, "b": act}, settings=Settings(skew_ms=5000))
    (a_ms, a_s), (b_ms, b_s) = outcome.results["a"], outcome.results["b"]
    assert 0 < abs(a_ms - b_ms) <= 10_000
    assert abs(a_s - b_s) > 3600


def test_a_process_may_be_in_another_time_zone() -> None:
    def act(env: Env) -> int:
        now_ms = env.clock.now_ms()
        return env.clock.local_ms(now_ms) - now_ms

    def act_in_tokyo(env: Env) -> int:
        assert isinstance(env.clock, SimClock)
        env.clock.zone_offset_ms = 9 * 3_600_000
        return act(env)

    outcome, _ = play({"a": act, "b": act_in_tokyo})
    assert (outcome.results["a"], outcome.results["b"]) == (0, 9 * 3_600_000)


def test_the_clock_of_the_store_is_off_as_well() -> None:
    def act(env: Env) -> int:
        puts("x")(env)
        return env.storage.stat("x").modified_ms

    make = partial(Play, {"a": act}, Settings(cost_ms=(10, 10), skew_ms=5000))
    dates = {run(make, Script(seed)).results["a"] for seed in range(10)}
    assert len(dates) == 10
    assert all(abs(int(str(date)) - START_MS - 10) <= 5000 for date in dates)


def test_time_costs_no_time() -> None:
    began = time.monotonic()
    outcome, _ = play({"a": lambda env: env.clock.sleep(1e6), "b": lambda env: env.clock.sleep(5)})
    assert outcome.steps[-1].at_ms == 1_000_000_000
    assert time.monotonic() - began < 10


def test_ids_come_from_the_seed_and_the_process() -> None:
    def act(env: Env) -> tuple[str, str, float]:
        return str(env.ids.process()), env.ids.uuid(), env.ids.jitter()

    first, again, other = (
        run(lambda: Play({"a": act, "b": act}), Script(seed)).results for seed in (1, 1, 2)
    )
    assert first == again
    told = [result for results in (first, other) for result in results.values()]
    for number, values in enumerate(zip(*told, strict=True)):
        assert len(set(values)) == (2 if number == 0 else 4)
    assert "on a, process 10" in str(first["a"])
