"""Env as a recipe, the system clock's timers, and the local engine."""

from __future__ import annotations

import logging
import pickle
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from hoodoo.runtime.engine import LocalEngine
from hoodoo.runtime.env import Env, SystemClock, SystemIds
from hoodoo.storage.memory import MemoryStorage
from hoodoo.storage.object_store import ObjectStorage
from hoodoo.storage.traced import TracedStorage

READ = """
import pickle, sys
env = pickle.loads(sys.stdin.buffer.read())
assert env.storage.read("a") == b"1"
env.storage.create("b", env.ids.uuid().encode())
assert env.clock.now_ms() > 1_500_000_000_000
"""


def test_an_env_is_rebuilt_in_another_process(tmp_path: Path) -> None:
    env = Env.of(str(tmp_path / "t"))
    env.storage.create("a", b"1")
    recipe = pickle.dumps(env)
    subprocess.run([sys.executable, "-c", READ], input=recipe, check=True, timeout=60)
    assert len(env.storage.read("b")) == 36


def test_storage_options_travel() -> None:
    options = {"aws_region": "mars-1", "aws_skip_signature": "true"}
    again = pickle.loads(pickle.dumps(Env.of("s3a://bucket/t/", options)))
    assert again.storage.uri == "s3://bucket/t"
    assert again.storage_options == options
    assert isinstance(again.storage, ObjectStorage)
    assert again.storage._options == options


def test_the_limit_of_uploads_travels() -> None:
    env = Env.of("s3://bucket/t", {"aws_region": "mars-1"}, upload_limit_s=123.5)
    again = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(env))))
    assert isinstance(again.storage, ObjectStorage)
    assert again.storage._upload_limit_s == 123.5
    assert again.storage_options == {"aws_region": "mars-1"}


def test_an_env_made_by_hand_keeps_its_storage() -> None:
    env = Env(TracedStorage(MemoryStorage("by-hand")), clock=SystemClock(), ids=SystemIds())
    env.storage.create("a", b"1")
    again = pickle.loads(pickle.dumps(env))
    assert isinstance(again.storage, TracedStorage)
    assert again.storage.read("a") == b"1"
    MemoryStorage.forget("by-hand")


def test_secrets_are_not_shown() -> None:
    options = {"aws_access_key_id": "key", "aws_secret_access_key": "hidden"}
    env = Env.of("s3://bucket/t", options)
    assert "hidden" not in repr(env)


def test_ids() -> None:
    ids = SystemIds()
    assert ids.uuid() != ids.uuid()
    assert all(0 <= ids.jitter() < 1 for _ in range(100))


# Timers


def test_a_timer_steps_until_it_is_stopped() -> None:
    steps: list[int] = []
    third = threading.Event()

    def step() -> None:
        steps.append(threading.get_ident())
        if len(steps) == 3:
            third.set()

    timer = SystemClock().every(1, step)
    assert third.wait(timeout=30)
    timer.stop()
    assert threading.get_ident() not in steps
    assert steps[0] not in {thread.ident for thread in threading.enumerate()}
    timer.stop()


def test_stop_waits_for_the_step_that_runs() -> None:
    began, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def step() -> None:
        began.set()
        go_on.wait(timeout=30)
        ended.set()

    timer = SystemClock().every(1, step)
    assert began.wait(timeout=30)
    threading.Timer(0.05, go_on.set).start()
    timer.stop()
    assert ended.is_set()


def test_a_timer_stopped_early_never_steps() -> None:
    steps: list[None] = []
    start = time.monotonic()
    SystemClock().every(60_000, lambda: steps.append(None)).stop()
    assert steps == []
    assert time.monotonic() - start < 30


def test_a_step_may_stop_its_own_timer() -> None:
    stopped = threading.Event()
    ready = threading.Event()

    def step() -> None:
        ready.wait(timeout=30)
        timer.stop()
        stopped.set()

    timer = SystemClock().every(1, step)
    ready.set()
    assert stopped.wait(timeout=30)


def test_a_failed_step_is_logged_and_the_next_one_runs(caplog: pytest.LogCaptureFixture) -> None:
    steps: list[None] = []
    second = threading.Event()

    def step() -> None:
        steps.append(None)
        if len(steps) == 1:
            raise ValueError("first beat")
        second.set()

    with caplog.at_level(logging.ERROR, logger="hoodoo.runtime"):
        timer = SystemClock().every(1, step)
        assert second.wait(timeout=30)
        timer.stop()
    assert "first beat" in caplog.text


# The local engine


@pytest.mark.parametrize("threads", [1, 2, 8, None])
def test_results_come_in_the_order_of_items(threads: int | None) -> None:
    items = list(range(50))
    assert LocalEngine(threads).map(lambda item: item * item, items) == [n * n for n in items]
    assert LocalEngine(threads).map(str, []) == []


def test_tasks_run_side_by_side() -> None:
    both = threading.Barrier(2)
    assert LocalEngine(2).map(lambda item: both.wait(timeout=30) >= 0, [1, 2]) == [True, True]


@pytest.mark.parametrize("threads", [1, 4])
def test_a_failure_is_raised_and_the_rest_dropped(threads: int) -> None:
    begun: list[int] = []

    def task(item: int) -> int:
        begun.append(item)
        if item < 2:
            return item
        raise ValueError(f"item {item}")

    with pytest.raises(ValueError, match="item"):
        LocalEngine(threads).map(task, range(1000))
    assert len(begun) <= 2 + threads


def test_a_failure_is_noticed_while_an_earlier_item_is_busy() -> None:
    many = threading.Event()
    begun: list[int] = []

    def task(item: int) -> int:
        begun.append(item)
        if item == 0:
            many.wait(timeout=0.1)
            return item
        if len(begun) > 50:
            many.set()
        raise ValueError("item 1")

    with pytest.raises(ValueError, match="item 1"):
        LocalEngine(2).map(task, range(10_000))
    assert not many.is_set()
