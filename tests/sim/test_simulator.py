"""The simulator itself, with toy actors: turns, time, faults, searches, and the command."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from hoodoo.env import Env
from hoodoo.errors import (
    AlreadyExists,
    HoodooError,
    LockTimeout,
    NotFound,
    OutcomeUnknown,
    StorageError,
)
from hoodoo.testing.sim import baton
from hoodoo.testing.sim import stage as stage_module
from hoodoo.testing.sim.__main__ import FLAWED, main
from hoodoo.testing.sim.clock import SimClock
from hoodoo.testing.sim.explore import by_faults, by_seed, fault_points, search, shrink
from hoodoo.testing.sim.faults import Crashed, Fault, Kind, Operation
from hoodoo.testing.sim.preemptions import by_preemptions
from hoodoo.testing.sim.scenario import Outcome, Scenario, run
from hoodoo.testing.sim.scenarios import scenarios
from hoodoo.testing.sim.scenarios.toys import CreatedLock, LeasedLock, NaiveLock
from hoodoo.testing.sim.schedule import FaultAt, Script
from hoodoo.testing.sim.seeded import Chances, Seeded, all_faults
from hoodoo.testing.sim.stage import START_MS, Settings, Violation
from hoodoo.testing.sim.world import Action, Image, World

CRASH = Fault(Kind.CRASH_BEFORE)
EXACT = Settings(cost_ms=(10, 10), skew_ms=0)


@dataclass
class Play(Scenario):
    """Actors given by a test; what they share, they share by the test's own variables."""

    cast: Mapping[str, Action]
    settings: Settings = EXACT
    chances: Chances = field(default_factory=Chances)
    before: Callable[[World], None] = lambda world: None
    after: Callable[[World, Outcome], None] = lambda world, outcome: None
    name: str = "play"

    def setup(self, world: World) -> None:
        self.before(world)

    def actors(self) -> Mapping[str, Action]:
        return self.cast

    def check(self, world: World, outcome: Outcome) -> None:
        self.after(world, outcome)


def play(
    cast: Mapping[str, Action],
    script: str = "",
    *,
    settings: Settings = EXACT,
    before: Callable[[World], None] = lambda world: None,
) -> tuple[Outcome, World]:
    """Run actors by a script; the world as they left it."""
    worlds: list[World] = []
    scenario = Play(cast, settings, before=before, after=lambda world, _: worlds.append(world))
    outcome = run(lambda: scenario, Script.parse(script))
    outcome.verify()
    return outcome, worlds[0]


def moves(outcome: Outcome) -> str:
    """Whose operations came in which order."""
    return " ".join(f"{step.actor}#{step.operation}" for step in outcome.steps if step.operation)


def puts(*paths: str) -> Action:
    def act(env: Env) -> None:
        for path in paths:
            env.storage.put(path, b"")

    return act


# The same seed, the same run


class Anything(LeasedLock):
    """Everything goes wrong, and nothing is checked."""

    name = "anything"
    chances = Chances(all_faults(0.1), at_most=5)

    def check(self, world: World, outcome: Outcome) -> None:
        pass


def test_a_seed_repeats_a_run() -> None:
    faults = 0
    for seed in range(100):
        first, second = (run(Anything, Seeded(seed, Anything.chances)) for _ in range(2))
        assert first.trace == second.trace
        assert str(first.errors) == str(second.errors)
        assert first.results == second.results
        faults += len(first.script.faults)
    assert faults > 50


def test_seeds_differ() -> None:
    traces = {outcome.trace for outcome in by_seed(Anything, range(100))}
    assert len(traces) == 100


def test_a_script_repeats_a_run() -> None:
    for outcome in by_seed(Anything, range(100)):
        script = Script.parse(str(outcome.script), seed=outcome.script.seed)
        again = run(Anything, script)
        assert again.trace == outcome.trace
        assert again.script == outcome.script


def traces(*words: str, hash_seed: int) -> dict[str, str]:
    """The last trace of each scenario, from a process of its own."""
    told = subprocess.run(
        [sys.executable, "-m", "hoodoo.testing.sim", "--trace", *words],
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
        capture_output=True,
        text=True,
    ).stdout
    ended = re.split(r"^(\S+): \d+ runs.*$", told, flags=re.MULTILINE)
    return {
        name: text.strip("\n").rpartition("\n\n")[2]
        for text, name in zip(ended[::2], ended[1::2], strict=False)
    }


def test_every_process_repeats_a_run() -> None:
    first = traces("--seed", "3", hash_seed=1)
    assert set(first) == set(scenarios()) - FLAWED
    assert all(len(trace.splitlines()) > 20 for trace in first.values())
    # Neither what was run before nor the order of sets has a part in it.
    again = traces("--seed", "2", "--count", "2", hash_seed=2)
    assert first == again


@pytest.mark.parametrize("kind", Kind)
def test_every_fault_is_told_and_read(kind: Kind) -> None:
    fault = Fault(kind, 0 if kind.is_crash else -5)
    assert Fault.parse(str(fault)) == fault
    script = Script(7, {3: "a/one", 12: "b~1"}, {("b~1", 4): fault})
    assert Script.parse(str(script), seed=7) == script


@pytest.mark.parametrize("text", ["a", "3>", "a#1", "a#b=pause", "a#1=pause:x", "a#1=rain"])
def test_a_script_that_is_none(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        Script.parse(text)


# Searches


def test_a_lock_that_is_none_breaks_by_seed() -> None:
    found = search(by_seed(NaiveLock, range(200)))
    (failure,) = found.failures
    assert failure.violation is not None
    assert failure.violation.startswith("counted")
    assert failure.command == f"make sim SCENARIO=toy-naive-lock SEED={failure.script.seed}"


def test_a_lock_that_is_none_breaks_with_two_preemptions() -> None:
    assert search(by_preemptions(NaiveLock, 1)).is_complete
    found = search(by_preemptions(NaiveLock, 3))
    (failure,) = found.failures
    assert len(failure.script.picks) == 2
    assert not found.is_complete
    assert failure.command.endswith(f"SCRIPT='{failure.script}'")


def test_a_failure_is_repeated_by_its_script() -> None:
    (failure,) = search(by_seed(NaiveLock, range(200))).failures
    again = run(NaiveLock, Script.parse(str(failure.script), seed=failure.script.seed))
    assert again.violation == failure.violation
    assert again.trace == failure.trace
    with pytest.raises(Violation) as raised:
        again.verify()
    for part in (failure.trace, failure.violation, again.command):
        assert part in str(raised.value)


def test_a_failure_shrinks() -> None:
    (failure,) = search(by_seed(NaiveLock, range(200), chances=Chances(stay=0.0))).failures
    smaller = shrink(NaiveLock, failure)
    assert smaller.violation is not None
    assert len(smaller.script) <= 4 < len(failure.script) / 2


def test_a_lock_never_breaks() -> None:
    for found in (
        search(by_preemptions(CreatedLock, 2)),
        search(by_seed(CreatedLock, range(300))),
        search(by_faults(CreatedLock, "a")),
    ):
        found.verify()
        assert found.is_complete
        assert found.runs > 40


def test_a_lease_breaks_when_its_holder_pauses() -> None:
    assert search(by_preemptions(LeasedLock, 2)).is_complete
    pauses = [Fault(Kind.PAUSE, 25_000)]
    found = search(by_faults(LeasedLock, "a", faults=pauses), failures=100)
    assert found.failures
    # Paused for longer than a request can be on its way, the write that hurts does not land.
    longer = [Fault(Kind.PAUSE, 31_000)]
    safe = search(by_faults(LeasedLock, "a", faults=longer), failures=100)
    assert len(safe.failures) < len(found.failures)


def test_fault_points_are_those_of_one_actor() -> None:
    cast = {"a": puts("x", "y"), "b": lambda env: env.storage.exists("x")}
    points = fault_points(lambda: Play(cast), "a")
    assert [str(point) for point in points] == [
        f"a#{number}={kind}"
        for number in (1, 2)
        for kind in ("crash_before", "crash_after", "lost_response", "lost_request")
    ]
    (point,) = fault_points(lambda: Play(cast), "b")  # the others say nothing new of a read
    assert str(point) == "b#1=crash_before"
    with pytest.raises(ValueError, match="c does nothing"):
        fault_points(lambda: Play(cast), "c")


def test_a_search_can_be_capped() -> None:
    found = search(by_preemptions(CreatedLock, 2), cap=10)
    assert (found.runs, found.is_complete, found.failures) == (10, False, ())


# Turns


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


def performs(name: str, program: Program) -> Action:
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


def order(outcome: Outcome) -> frozenset[tuple[str, int, str, int]]:
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
def test_what_commutes(one: tuple[str, str], other: tuple[str, str], commute: bool) -> None:
    first, second = Operation("p", "p", 1, *one), Operation("q", "q", 1, *other)
    assert first.commutes_with(second) is second.commutes_with(first) is commute
    assert not first.commutes_with(replace(second, process="p"))


def test_some_seeds_pick_by_priority() -> None:
    def is_steady(schedule: Seeded) -> bool:
        picked = set()
        for step in range(1000, 1020):  # past all changes of priorities
            names = ["a", "b", "c"]
            Random(step).shuffle(names)
            picked.add(names[schedule.pick(step, names, stays=False)])
        return len(picked) == 1

    assert 10 < sum(is_steady(Seeded(seed)) for seed in range(100)) < 50


def test_stubbornness() -> None:
    cast = {name: puts(*"xyz" * 5) for name in "abc"}

    def switches(stay: float | None) -> list[int]:
        told = []
        for outcome in by_seed(lambda: Play(cast), range(50), chances=Chances(stay=stay)):
            actors = [step.actor for step in outcome.steps if step.operation]
            told.append(sum(one != other for one, other in pairwise(actors)))
        return told

    assert sum(switches(0.95)) < sum(switches(0.0)) / 4
    assert min(switches(None)) <= 6 < 20 < max(switches(None))


# Storage


def test_every_verb_goes_to_the_store() -> None:
    def act(env: Env) -> list[object]:
        storage = env.storage
        etag = storage.create("d/a", b"123").etag
        storage.put("b", b"4")
        storage.replace("d/a", b"56", if_match=etag)
        with storage.open_write("e/f") as stream:
            stream.write(b"7")
        storage.open_write("g").discard()
        storage.delete("b")
        with pytest.raises(NotFound):
            storage.read("b")
        with pytest.raises(AlreadyExists):
            storage.create("d/a", b"")
        with pytest.raises(StorageError):
            storage.open_write("../x")
        return [
            storage.read("d/a"),
            storage.read("d/a", 1, 1),
            storage.read_version("d/a").data,
            storage.open_read("e/f").read(),
            [info.path for info in storage.list("", recursive=True)],
            [*storage.list_directories("")],
            storage.stat("e/f").size_bytes,
            storage.exists("g"),
            storage.uri,
        ]

    outcome, world = play({"a": act})
    assert outcome.results["a"] == [
        *(b"56", b"6", b"56", b"7", ["d/a", "e/f"], ["d", "e"], 1, False),
        world.storage.uri,
    ]
    told = [(step.verb, step.path, step.outcome) for step in outcome.steps if step.operation]
    assert told[:10] == [
        ("create", "d/a", "ok"),
        ("put", "b", "ok"),
        ("replace", "d/a", "ok"),
        ("open_write", "e/f", "ok"),
        ("delete", "b", "ok"),
        ("read", "b", "NotFound"),
        ("create", "d/a", "AlreadyExists"),
        *[("read", "d/a", "ok")] * 3,
    ]
    assert outcome.operations == {"a": 15}


def test_a_stream_is_seen_when_it_closes() -> None:
    def write(env: Env) -> None:
        with env.storage.open_write("x") as stream:
            stream.write(b"1")
            env.storage.exists("y")
            stream.write(b"2")

    def look(env: Env) -> bool:
        return env.storage.exists("x")

    for script, is_there in (("3>b", False), ("", True)):
        assert play({"a": write, "b": look}, script)[0].results["b"] is is_there


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
            with pytest.raises(Crashed):
                tidy()


def test_a_crash_before_an_operation() -> None:
    outcome, world = play({"a": crashing}, "a#2=crash_before")
    assert isinstance(outcome.errors["a"], Crashed)
    assert [info.path for info in world.storage.list("", recursive=True)] == ["x"]


def test_a_crash_after_an_operation() -> None:
    outcome, world = play({"a": crashing}, "a#2=crash_after")
    assert isinstance(outcome.errors["a"], Crashed)
    assert [info.path for info in world.storage.list("", recursive=True)] == ["x", "y"]


def test_a_crash_in_an_exception_handler_is_no_error_of_the_code() -> None:
    def act(env: Env) -> None:
        try:
            env.storage.read("absent")
        except NotFound:
            env.storage.put("x", b"")

    assert isinstance(play({"a": act}, "a#2=crash_before")[0].errors["a"], Crashed)


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
    assert {name for name, error in outcome.errors.items() if isinstance(error, Crashed)} == {
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


# Messages


def unsure(env: Env) -> bool:
    """Whether a put got an answer."""
    try:
        env.storage.put("x", b"1")
    except OutcomeUnknown:
        return False
    return True


def test_a_lost_request_and_a_lost_response() -> None:
    outcome, world = play({"a": unsure}, "a#1=lost_request")
    assert outcome.results["a"] is world.storage.exists("x") is False
    outcome, world = play({"a": unsure}, "a#1=lost_response")
    assert outcome.results["a"] is False
    assert world.storage.exists("x")


@pytest.mark.parametrize(
    ("verb", "change"),
    [
        ("create", lambda storage: storage.create("new", b"2")),
        ("replace", lambda storage: storage.replace("x", b"2", if_match="v1")),
        ("delete", lambda storage: storage.delete("x")),
        ("open_write", lambda storage: storage.open_write("new").close()),
    ],
)
@pytest.mark.parametrize("is_landed", [False, True])
def test_every_mutation_can_get_lost(
    verb: str, change: Callable[[object], None], is_landed: bool
) -> None:
    def act(env: Env) -> None:
        with pytest.raises(OutcomeUnknown):
            change(env.storage)

    fault = "lost_response" if is_landed else "lost_request"
    outcome, world = play(
        {"a": act}, f"a#1={fault}", before=lambda world: world.storage.create("x", b"1")
    )
    assert outcome.steps[1].verb == verb
    left = {info.path: world.storage.read(info.path) for info in world.storage.list("")}
    assert (left == {"x": b"1"}) is not is_landed


def test_a_refusal_can_get_lost_too() -> None:
    def act(env: Env) -> None:
        with pytest.raises(OutcomeUnknown):
            env.storage.create("x", b"2")

    _, world = play(
        {"a": act}, "a#1=lost_response", before=lambda world: world.storage.create("x", b"1")
    )
    assert world.storage.read("x") == b"1"


def test_reads_do_not_get_lost() -> None:
    outcome, _ = play({"a": lambda env: env.storage.exists("x")}, "a#1=lost_request")
    assert outcome.results["a"] is False
    assert not outcome.script.faults


def test_a_straggler_lands_after_its_sender_gave_it_up() -> None:
    def act(env: Env) -> list[bool]:
        told = [unsure(env), env.storage.exists("x")]
        env.clock.sleep(6)
        return [*told, env.storage.exists("x")]

    outcome, _ = play({"a": act}, "a#1=straggler:5000")
    assert outcome.results["a"] == [False, False, True]
    outcome, world = play({"a": unsure}, "a#1=straggler:5000")  # nor does it need its sender
    assert world.storage.exists("x")
    outcome, world = play({"a": unsure}, "a#1=straggler:30001")
    assert not world.storage.exists("x")


def test_a_request_outlives_a_crash() -> None:
    def look(env: Env) -> bool:
        env.clock.sleep(1)
        return env.storage.exists("x")

    outcome, world = play({"a": unsure, "b": look}, "a#1=crash_in_flight:5000")
    assert outcome.results == {"b": False}
    assert world.storage.exists("x")


def test_a_slow_request_is_overtaken() -> None:
    def write(env: Env) -> bytes:
        env.storage.put("x", b"b")
        return b""

    outcome, world = play({"a": unsure, "b": write}, "a#1=slow_request:29000")
    assert moves(outcome) == "b#1 a#1"
    assert outcome.results["a"] is True
    assert world.storage.read("x") == b"1"


def test_a_request_that_is_too_slow_never_lands() -> None:
    outcome, world = play({"a": unsure}, "a#1=slow_request:30001")
    assert outcome.results["a"] is False
    assert not world.storage.exists("x")
    patient = replace(EXACT, in_flight_ms=None)
    assert play({"a": unsure}, "a#1=slow_request:30001", settings=patient)[0].results["a"]


def test_a_slow_response() -> None:
    def act(env: Env) -> float:
        before = env.clock.monotonic()
        env.storage.put("x", b"")
        return env.clock.monotonic() - before

    outcome, _ = play(
        {"a": act, "b": lambda env: env.storage.exists("x")}, "a#1=slow_response:5000"
    )
    assert outcome.results["b"] is True
    assert outcome.results["a"] == pytest.approx(5.01)


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

    def stand(name: str, arrives_s: float) -> Action:
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


def test_the_store_is_off_as_well() -> None:
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


# What must hold


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
        with pytest.raises(AlreadyExists):
            env.storage.create("z", b"")
        env.storage.delete("z")

    outcome, _ = play({"a": act, "b": other}, "a#2=lost_request", before=watch)
    assert isinstance(outcome.errors["a"], OutcomeUnknown)
    assert seen == ["a put x", "b open_write z", "b delete z"]


def test_a_violation_ends_the_run_where_it_happens() -> None:
    def watch(world: World) -> None:
        def check(operation: Operation) -> None:
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
    assert moves(outcome) == "a#1 b#1"
    assert {type(error) for error in outcome.errors.values()} == {Crashed}


def test_whatever_a_check_raises_is_a_violation() -> None:
    def check(world: World, outcome: Outcome) -> None:
        world.storage.read("absent")

    outcome = run(lambda: Play({"a": puts("x")}, after=check), Script())
    assert outcome.violation is not None
    assert "NotFound" in outcome.violation
    assert "absent" in outcome.violation


def test_an_error_of_hoodoo_is_a_result_and_a_bug_is_a_violation() -> None:
    def fail(error: Exception) -> Action:
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


def test_a_bug_in_a_timer_is_a_violation() -> None:
    def act(env: Env) -> None:
        env.clock.every(10, lambda: {}["bug"])
        env.clock.sleep(1)

    outcome = run(lambda: Play({"a": act}), Script())
    assert outcome.violation is not None
    assert "a~1 broke" in outcome.violation


def test_a_deadlock_is_found() -> None:
    def take(first: str, second: str) -> Action:
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


# Worlds


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

    def check(world: World, outcome: Outcome) -> None:
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
        played = world.play(cast, FaultAt("dead", "y/", CRASH))
        assert isinstance(played["dead"].error, Crashed)

    outcome, world = play({"a": puts("w")}, before=prepare)
    assert [info.path for info in world.storage.list("", recursive=True)] == ["w", "x", "y/2"]
    assert not outcome.script.faults


def test_names_of_actors() -> None:
    for name in ("", "a b", "a#1", "a~1", "a>b", "a/b/c"):
        with pytest.raises(ValueError, match="no name"):
            run(partial(Play, {name: puts("x")}), Script())


def test_faults_spare_whom_they_shall() -> None:
    chances = Chances(all_faults(1.0), at_most=2, spared=frozenset({"b"}))
    cast = {"a": puts(*"xyz" * 3), "b": puts(*"xyz" * 3)}
    kinds = set()
    for outcome in by_seed(lambda: Play(cast), range(100), chances=chances):
        outcome.verify()
        assert {actor for actor, _ in outcome.script.faults} <= {"a"}
        assert len(outcome.script.faults) <= 2
        assert not outcome.is_seeded
        kinds |= {fault.kind for fault in outcome.script.faults.values()}
    assert kinds == set(Kind)


def test_threads_are_used_again() -> None:
    play({"a": puts("x"), "b": puts("y")})
    before = threading.active_count()
    for seed in range(20):
        run(Anything, Seeded(seed, Anything.chances))
    assert threading.active_count() <= before + 2
    assert len(baton._idle) <= threading.active_count()


# The command


def test_scenarios_are_found_by_name() -> None:
    assert scenarios()["toy-lock"] is CreatedLock
    assert {"toy-naive-lock", "toy-leased-lock"} <= set(scenarios())


def test_the_command_tells_of_success(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--seed", "5", "--count", "20"], ["--preemptions", "1"], ["--faults", "a"]):
        assert main(["--scenario", "toy-lock", *words]) == 0
        told = capsys.readouterr().out
        assert told.startswith("toy-lock: ")
        assert told.endswith(": no violation\n")


def test_the_command_repeats_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--scenario", "toy-naive-lock", "--preemptions", "2", "--shrink"]) == 1
    told = capsys.readouterr().out
    (failure,) = search(by_preemptions(NaiveLock, 2)).failures
    assert failure.report() in told
    script = ["--script", str(failure.script), "--seed", "0"]
    assert main(["--scenario", "toy-naive-lock", *script]) == 1
    assert failure.report() in capsys.readouterr().out


def test_the_command_prints_traces(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--scenario", "toy-lock", "--seed", "2", "--trace"]) == 0
    assert run(CreatedLock, Seeded(2, CreatedLock.chances)).trace in capsys.readouterr().out


def test_the_command_runs_seeds_in_several_processes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--scenario", "toy-lock", "--jobs", "2", "--count", "600"]) == 0
    steps = search(by_seed(CreatedLock, range(600))).steps
    assert f"toy-lock: 600 runs, {steps} steps, " in capsys.readouterr().out


def test_a_failure_in_another_process_is_told_of(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--scenario", "toy-naive-lock", "--jobs", "2", "--count", "600"]) == 1
    told = capsys.readouterr().out
    (failure,) = search(by_seed(NaiveLock, range(600))).failures
    assert failure.report() in told
    assert told.count("of 600 runs, ") == 1


def test_a_trace_is_for_people() -> None:
    outcome, _ = play({"writer": puts("dir/x")}, "writer#1=crash_after")
    assert outcome.trace == (
        "    1      0.000  writer         begins\n"
        "    2      0.010  writer#1       put       dir/x"
        "                                    ok, crash after it\n"
        "           0.010  writer         ends      with Crashed\n"
    )


def test_the_example_of_the_documentation(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "simulator.md").read_text()
    (example,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    exec(compile(example, "simulator.md", "exec"), {"__name__": "example"})
    assert "an update is lost" in capsys.readouterr().out
    told = set(re.findall(r"^\| `(\w+)(?::MS)?` \|", page, re.MULTILINE))
    assert told == set(Kind)


def test_the_errors_of_an_outcome_are_those_of_hoodoo() -> None:
    assert not issubclass(Crashed, Exception)
    assert not issubclass(Violation, HoodooError)
