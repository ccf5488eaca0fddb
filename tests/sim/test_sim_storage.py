"""Storage of the simulator: its verbs, and requests and answers that get lost or come late."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from inline_scenarios import EXACT, moves, play, unsure

from hoodoo.errors import ObjectExists, ObjectNotFound, OutcomeUnknown, StorageError
from hoodoo.runtime.env import Env

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
        with pytest.raises(ObjectNotFound):
            storage.read("b")
        with pytest.raises(ObjectExists):
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
        ("read", "b", "ObjectNotFound"),
        ("create", "d/a", "ObjectExists"),
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


# Messages


def test_a_put_without_an_answer_has_landed_only_if_its_response_was_lost() -> None:
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


def test_a_read_does_not_get_lost() -> None:
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


def test_a_slow_response_holds_up_its_sender_and_not_the_others() -> None:
    def act(env: Env) -> float:
        before = env.clock.monotonic()
        env.storage.put("x", b"")
        return env.clock.monotonic() - before

    outcome, _ = play(
        {"a": act, "b": lambda env: env.storage.exists("x")}, "a#1=slow_response:5000"
    )
    assert outcome.results["b"] is True
    assert outcome.results["a"] == pytest.approx(5.01)
