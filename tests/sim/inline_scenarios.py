"""Plays: scenarios that a test makes of a few functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from hoodoo.errors import OutcomeUnknown
from hoodoo.runtime.env import Env
from hoodoo_testing.simulator.scenario import RunOutcome, Scenario, run
from hoodoo_testing.simulator.scenarios.toys import LeasedLock
from hoodoo_testing.simulator.world.schedule import Chances, Script, all_faults
from hoodoo_testing.simulator.world.stage import Settings
from hoodoo_testing.simulator.world.world import ActorAction, World

EXACT = Settings(cost_ms=(10, 10), skew_ms=0)


@dataclass
class Play(Scenario):
    """Actors given by a test; what they share, they share by the test's own variables."""

    cast: Mapping[str, ActorAction]
    settings: Settings = EXACT
    chances: Chances = field(default_factory=Chances)
    before: Callable[[World], None] = lambda world: None
    after: Callable[[World, RunOutcome], None] = lambda world, outcome: None
    name: str = "play"

    def setup(self, world: World) -> None:
        self.before(world)

    def actors(self) -> Mapping[str, ActorAction]:
        return self.cast

    def check(self, world: World, outcome: RunOutcome) -> None:
        self.after(world, outcome)


def play(
    cast: Mapping[str, ActorAction],
    script: str = "",
    *,
    settings: Settings = EXACT,
    before: Callable[[World], None] = lambda world: None,
) -> tuple[RunOutcome, World]:
    """Run actors by a script; the world as they left it."""
    worlds: list[World] = []
    scenario = Play(cast, settings, before=before, after=lambda world, _: worlds.append(world))
    outcome = run(lambda: scenario, Script.parse(script))
    outcome.verify()
    return outcome, worlds[0]


def moves(outcome: RunOutcome) -> str:
    """Whose operations came in which order."""
    return " ".join(f"{step.actor}#{step.operation}" for step in outcome.steps if step.operation)


def puts(*paths: str) -> ActorAction:
    def act(env: Env) -> None:
        for path in paths:
            env.storage.put(path, b"")

    return act


class Anything(LeasedLock):
    """Everything goes wrong, and nothing is checked."""

    name = "anything"
    chances = Chances(all_faults(0.1), at_most=5)

    def check(self, world: World, outcome: RunOutcome) -> None:
        pass


def unsure(env: Env) -> bool:
    """Whether a put got an answer."""
    try:
        env.storage.put("x", b"1")
    except OutcomeUnknown:
        return False
    return True
