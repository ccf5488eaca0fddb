"""Scenarios: a world, actors in it, and what must hold; and what came of running one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from hoodoo_testing.simulator.world.network import describe, is_broken
from hoodoo_testing.simulator.world.schedule import Chances, Schedule, Script, SeededSchedule
from hoodoo_testing.simulator.world.stage import Settings, Violation
from hoodoo_testing.simulator.world.trace import TraceStep
from hoodoo_testing.simulator.world.world import ActorAction, World


class Scenario(Protocol):
    """What is run; each run makes a new one, so it may keep what it sees."""

    name: str
    """As `make sim SCENARIO=...` and messages know it."""
    settings: Settings = Settings()
    chances: Chances = Chances()
    """What goes wrong when it is run by seed."""

    def setup(self, world: World) -> None:
        """Prepare the store, by `world.storage` or `world.do`, and watchers, by `world.watch`.

        The seed of the run has no part in it. What is costly may be kept as an image.
        """

    @abstractmethod
    def actors(self) -> Mapping[str, ActorAction]:
        """Who acts: by name, what each does with its environment.

        Those whose names agree up to a slash (`a/one`, `a/two`) are threads of one process.
        """

    @abstractmethod
    def check(self, world: World, outcome: RunOutcome) -> None:
        """What must hold when all have ended. Whatever is raised is a violation."""


MakeScenario = Callable[[], Scenario]


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """What came of a run."""

    scenario: str
    results: Mapping[str, object]
    """What actors returned."""
    errors: Mapping[str, BaseException]
    """What others raised instead: `HoodooError`s, and `Crashed`."""
    operations: Mapping[str, int]
    """How many storage operations each actor asked for, its timers not counted."""
    steps: tuple[TraceStep, ...]
    script: Script
    """Repeats this run."""
    is_seeded: bool
    """So does its seed alone."""
    violation: str | None = None
    is_broken: bool = False
    """The violation is a bug in some code, so it says nothing about an invariant."""

    @property
    def trace(self) -> str:
        """Each step in a line."""
        return "".join(f"{step}\n" for step in self.steps)

    @property
    def command(self) -> str:
        """What to type to see this run again."""
        text = f"make sim SCENARIO={self.scenario} SEED={self.script.seed}"
        return text if self.is_seeded else f"{text} SCRIPT='{self.script}'"

    def report(self) -> str:
        """All there is to tell of a run that went wrong."""
        return f"{self.trace}\n{self.violation}\n\nrepeat it: {self.command}\n"

    def verify(self) -> None:
        """Raise a `Violation` if there was one."""
        if self.violation is not None:
            raise Violation(f"{self.scenario}\n{self.report()}")


def run(make: MakeScenario, schedule: Schedule) -> RunOutcome:
    """Run a scenario once. Violations are in the outcome: they are not raised."""
    scenario = make()
    world = World(scenario.settings)
    scenario.setup(world)
    world.begin(schedule.seed)
    stage = world.stage
    actors = world.play(scenario.actors(), schedule)
    outcome = RunOutcome(
        scenario=scenario.name,
        results={name: actor.result for name, actor in actors.items() if actor.error is None},
        errors={name: actor.error for name, actor in actors.items() if actor.error is not None},
        operations={name: actor.operations for name, actor in actors.items()},
        steps=tuple(stage.steps),
        script=Script(schedule.seed, stage.picks, stage.faults),
        is_seeded=isinstance(schedule, SeededSchedule) and schedule.chances == scenario.chances,
        violation=stage.violation,
        is_broken=stage.is_broken,
    )
    if outcome.violation is not None:
        return outcome
    try:
        scenario.check(world, outcome)
    except Exception as error:  # whatever the check stumbles over is not as it must be
        return replace(
            outcome,
            steps=tuple(stage.steps),
            violation=describe(error),
            is_broken=is_broken(error),
        )
    return outcome
