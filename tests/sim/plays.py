"""Plays: scenarios that a test makes of a few functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from hoodoo.env import Env
from hoodoo.errors import OutcomeUnknown
from hoodoo.testing.sim.scenario import Outcome, Scenario, run
from hoodoo.testing.sim.scenarios.toys import LeasedLock
from hoodoo.testing.sim.schedule import Script
from hoodoo.testing.sim.seeded import Chances, all_faults
from hoodoo.testing.sim.stage import Settings
from hoodoo.testing.sim.world import Action, World

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


class Anything(LeasedLock):
    """Everything goes wrong, and nothing is checked."""

    name = "anything"
    chances = Chances(all_faults(0.1), at_most=5)

    def check(self, world: World, outcome: Outcome) -> None:
        pass


def unsure(env: Env) -> bool:
    """Whether a put got an answer."""
    try:
        env.storage.put("x", b"1")
    except OutcomeUnknown:
        return False
    return True
