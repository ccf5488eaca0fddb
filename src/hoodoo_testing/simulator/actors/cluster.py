"""A simulated cluster: tasks run in processes of their own, more than once, and outlive their job.

The driver hands attempts out and takes the first result of each task, as Spark does. It starts a
second attempt where it waits long, and leaves attempts alone that it needs no more: executors
finish what they are at, and what still waits for them, whatever became of the driver.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hoodoo.errors import EngineFailed, HoodooError, StorageError
from hoodoo.runtime.engine import Item, Result, StopSignal
from hoodoo.runtime.env import Env
from hoodoo.storage.traced import TracedStorage
from hoodoo.write.files.context import WriteContext
from hoodoo.write.files.handle import HandleTask, run_handle
from hoodoo_testing.simulator.world.world import ActorAction

Work = Callable[[Env, int], Any]
"""What an attempt does, with the environment of its executor and a number of its own."""

_LOOK_S = 1.0
_SLOW_S = 30.0
_MOST_ATTEMPTS = 5
_GIVE_UP_S = 900.0
_HANDLE_STEPS = 16
_DRIVER_STEPS = 28
_REST_S = 4.0


@dataclass
class _Task:
    """One task of a job, and what its attempts came to."""

    work: Work
    attempts: int = 0
    running: int = 0
    started_at: float = 0.0
    results: list[Any] = field(default_factory=list)
    errors: list[HoodooError] = field(default_factory=list)

    @property
    def is_done(self) -> bool:
        return bool(self.results)


@dataclass
class Cluster:
    """Executors, and what the driver asks of them.

    `twins`: two attempts of each task from the start. `reruns`: when a job is done, all its tasks
    are started once more, and nobody waits for them. `dawdles`: every second attempt rests once,
    and so does the driver after a job, each where chance has it: they meet where it matters.
    """

    twins: bool = False
    reruns: bool = False
    dawdles: bool = False
    waiting: deque[tuple[_Task, int]] = field(default_factory=deque)
    attempts: int = 0
    jobs: int = 0
    is_closed: bool = False

    def executor(self) -> ActorAction:
        """An actor that runs attempts until there are none left and the driver has ended."""

        def act(env: Env) -> None:
            while self.waiting or not self.is_closed:
                if self.waiting:
                    task, number = self.waiting.popleft()
                    is_slow = self.dawdles and number % 2 == 0
                    _attempt(_resting(env, _HANDLE_STEPS) if is_slow else env, task, number)
                else:
                    env.clock.sleep(_LOOK_S)

        return act

    def driver(self, act: ActorAction) -> ActorAction:
        """An actor whose end ends the cluster."""

        def drive(env: Env) -> object:
            try:
                return act(env)
            finally:
                self.is_closed = True

        return drive

    def run(self, env: Env, works: Sequence[Work]) -> list[Any]:
        """The results of these tasks. Raises what a task failed with for good."""
        tasks = [_Task(work) for work in works]
        for task in tasks:
            for _ in range(2 if self.twins else 1):
                self._start(env, task)
        begun_at = env.clock.monotonic()
        while not all(task.is_done for task in tasks):
            env.clock.sleep(_LOOK_S)
            if env.clock.monotonic() - begun_at > _GIVE_UP_S:
                raise EngineFailed("no executor is left")
            for task in tasks:
                self._look_after(env, task)
        if self.reruns:
            for task in tasks:
                self._start(env, task)
        self.jobs += 1
        return [task.results[0] for task in tasks]

    def _look_after(self, env: Env, task: _Task) -> None:
        if task.is_done:
            return
        for error in task.errors:
            if not isinstance(error, StorageError) or len(task.errors) >= _MOST_ATTEMPTS:
                raise error
        is_slow = env.clock.monotonic() - task.started_at > _SLOW_S
        if (is_slow or not task.running) and task.attempts < 2 * _MOST_ATTEMPTS:
            self._start(env, task)

    def _start(self, env: Env, task: _Task) -> None:
        self.attempts += 1
        task.attempts += 1
        task.running += 1
        task.started_at = env.clock.monotonic()
        self.waiting.append((task, self.attempts))


def _attempt(env: Env, task: _Task, number: int) -> None:
    try:
        task.results.append(task.work(env, number))
    except HoodooError as error:
        task.errors.append(error)
    finally:
        task.running -= 1


class ClusterEngine:
    """Handles run on the cluster, everything else where the driver is."""

    may_repeat_tasks = True

    def __init__(self, cluster: Cluster, env: Env) -> None:
        self._cluster = cluster
        self._env = env

    def map(
        self,
        task: Callable[[Item], Result],
        items: Sequence[Item],
        *,
        stop: StopSignal | None = None,
        report_count: Callable[[int], None] | None = None,
    ) -> list[Result]:
        """Tasks that write may run anywhere, any number of times."""
        if getattr(task, "__name__", "") != run_handle.__name__:
            return [task(item) for item in items]
        return self._cluster.run(self._env, [_handle(item) for item in items])


def driver_env(cluster: Cluster, env: Env) -> Env:
    """The environment of a driver, who may rest once when a job is done."""
    if not cluster.dawdles:
        return env
    return _resting(env, _DRIVER_STEPS, since=lambda: cluster.jobs > 0)


def _resting(env: Env, steps: int, *, since: Callable[[], bool] = lambda: True) -> Env:
    """An environment whose user rests before one of the next operations."""
    steps_to_rest, rest_s = int(env.ids.jitter() * steps), env.ids.jitter() * _REST_S

    def before(verb: str, path: str) -> None:
        nonlocal steps_to_rest
        if since():
            steps_to_rest -= 1
            if steps_to_rest == 0:
                env.clock.sleep(rest_s)

    return replace(env, storage=TracedStorage(env.storage, before=before))


def _handle(item: Any) -> Work:
    assert isinstance(item, HandleTask)

    def work(env: Env, number: int) -> object:
        read = replace(item.previous, env=env) if item.previous else None
        task = replace(item, context=move_context(item.context, env), previous=read)
        return run_handle(task.at_attempt(number))

    return work


def move_context(context: WriteContext, env: Env) -> WriteContext:
    """What handles share, as it arrives at an executor."""
    return replace(context, ref=replace(context.ref, env=env))
