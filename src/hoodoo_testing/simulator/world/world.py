"""A world to simulate in: one store, one network, and processes that know nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeVar, cast

from hoodoo.runtime.env import Env
from hoodoo.storage.memory import MemoryStorage
from hoodoo_testing.simulator.world.clock import SimClock, SimIds
from hoodoo_testing.simulator.world.network import Network, Watcher
from hoodoo_testing.simulator.world.schedule import Schedule, Script
from hoodoo_testing.simulator.world.stage import (
    Actor,
    Broken,
    Settings,
    SimProcess,
    TurnScheduler,
    Violation,
)
from hoodoo_testing.simulator.world.storage import SimStorage

ActorAction = Callable[[Env], object]
Result = TypeVar("Result")

_STORE = "simulated"
_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")


@dataclass(frozen=True, slots=True)
class Image:
    """What a store holds at some time, to start other worlds with."""

    objects: tuple[tuple[str, bytes, int], ...]
    """Path, content, modification time."""
    now_ms: int


class World:
    """What `setup` and `check` of a scenario see: the whole of it, from outside."""

    def __init__(self, settings: Settings) -> None:
        self.stage = TurnScheduler(settings)
        # Whatever the skew of the store will be in the run, its time does not go back.
        self._network = Network(self.stage, store_skew_ms=-settings.skew_ms)
        self._dated_ms: int | None = None
        self.storage = MemoryStorage(_STORE, now_ms=self._date)
        """The store itself: no faults, nobody else moves."""
        MemoryStorage.forget(_STORE)  # the next world has its own under the same name

    def begin(self, seed: int) -> None:
        """End the preparations, which are the same for every seed; what follows is the run."""
        self.stage.restart(seed)
        self._network.store_skew_ms = self.stage.skew()

    @property
    def now_ms(self) -> int:
        """The true time."""
        return self.stage.now_ms

    @property
    def store_ms(self) -> int:
        """The time by the clock that dates the store's objects."""
        return self._network.store_ms()

    def watch(self, watcher: Watcher) -> None:
        """Have each mutation looked at once it has landed; what the watcher raises is a violation.

        A watcher sees the operation, looks at `storage`, and changes nothing.
        """
        self._network.watchers.append(watcher)

    def do(self, name: str, action: Callable[[Env], Result]) -> Result:
        """Run an action as a process of its own, alone and without faults; tells what it returns.

        For `setup` and `check`. Timers and sleeps work, and cost no real time.
        """
        actor = self.play({name: action}, Script(self.stage.seed))[name]
        if self.stage.violation is not None:
            kind = Broken if self.stage.is_broken else Violation
            raise kind(self.stage.violation)
        if actor.error is not None:
            raise actor.error
        return cast(Result, actor.result)

    def play(self, actions: Mapping[str, ActorAction], schedule: Schedule) -> Mapping[str, Actor]:
        """Run actors side by side until all have ended.

        Those whose names agree up to a slash (`a/one`, `a/two`) are threads of one process.
        """
        homes: dict[str, tuple[SimProcess, Env]] = {}
        actors: dict[str, Actor] = {}
        for name, action in actions.items():
            if not _NAME.fullmatch(name):
                raise ValueError(f"{name!r} is no name for an actor")
            host = name.partition("/")[0]
            if host not in homes:
                process = self.stage.process(host)
                homes[host] = process, self._env(process)
            process, env = homes[host]
            actors[name] = self.stage.spawn(process, name, partial(action, env))
        self.stage.play(schedule)
        return actors

    def pass_time(self, ms: int) -> None:
        """Let time pass, in which nothing happens."""
        self.stage.now_ms += ms

    def image(self) -> Image:
        """What the store holds; this world then goes the same way as those that load it."""
        self.stage.restart(self.stage.seed)
        objects = tuple(
            (info.path, self.storage.read(info.path), info.modified_ms)
            for info in self.storage.list("", recursive=True)
        )
        return Image(objects, self.stage.now_ms)

    def load(self, image: Image) -> None:
        """Put into the empty store what another world held, as old as it was there."""
        for path, data, modified_ms in image.objects:
            self._dated_ms = modified_ms
            self.storage.create(path, data)
        self._dated_ms = None
        self.stage.now_ms = max(self.stage.now_ms, image.now_ms)

    def _env(self, process: SimProcess) -> Env:
        return Env(
            SimStorage(self.storage, self._network, process),
            SimClock(self.stage, process),
            SimIds(self.stage, process),
        )

    def _date(self) -> int:
        return self._network.store_ms() if self._dated_ms is None else self._dated_ms
