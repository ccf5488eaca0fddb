"""Many runs of a scenario: by seed, by faults at every point; and what came of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from hoodoo.testing.sim.faults import Fault, Kind
from hoodoo.testing.sim.scenario import MakeScenario, Outcome, run
from hoodoo.testing.sim.schedule import Script
from hoodoo.testing.sim.seeded import Chances, Seeded

POINTS = (
    Fault(Kind.CRASH_BEFORE),
    Fault(Kind.CRASH_AFTER),
    Fault(Kind.LOST_RESPONSE),
    Fault(Kind.LOST_REQUEST),
)


def by_seed(
    make: MakeScenario, seeds: Iterable[int], *, chances: Chances | None = None
) -> Iterator[Outcome]:
    """A run for each seed, with the scenario's own chances unless others are given."""
    if chances is None:
        chances = make().chances
    for seed in seeds:
        yield run(make, Seeded(seed, chances))


def fault_points(
    make: MakeScenario,
    actor: str,
    *,
    faults: Sequence[Fault] = POINTS,
    script: Script | None = None,
) -> list[Script]:
    """A script for each operation of an actor and each fault that can befall it.

    The operations are those of a first run, by `script`.
    """
    script = script or Script()
    first = run(make, script)
    first.verify()
    asked = [step.as_operation() for step in first.steps if step.actor == actor]
    points = [
        replace(script, faults={**script.faults, (actor, operation.number): fault})
        for operation in asked
        for fault in faults
        if operation.number and fault.suits(operation)
    ]
    if not points:
        raise ValueError(f"{actor} does nothing that could go wrong")
    return points


def by_faults(
    make: MakeScenario,
    actor: str,
    *,
    faults: Sequence[Fault] = POINTS,
    script: Script | None = None,
) -> Iterator[Outcome]:
    """A run for each of `fault_points`."""
    for point in fault_points(make, actor, faults=faults, script=script):
        yield run(make, point)


@dataclass(frozen=True, slots=True)
class Search:
    """What came of many runs."""

    runs: int
    steps: int
    is_complete: bool
    """There was nothing left to run."""
    failures: tuple[Outcome, ...]

    def verify(self) -> None:
        """Raise the first `Violation`, if there is one."""
        for failure in self.failures:
            failure.verify()


def search(outcomes: Iterable[Outcome], *, cap: int | None = None, failures: int = 1) -> Search:
    """Go through runs, `cap` at most, until there are so many `failures`."""
    runs, steps = 0, 0
    found: list[Outcome] = []
    for outcome in islice(outcomes, cap):
        runs += 1
        steps += len(outcome.steps)
        if outcome.violation is not None:
            found.append(outcome)
            if len(found) == failures:
                break
    is_complete = runs != cap and len(found) < failures
    return Search(runs, steps, is_complete, tuple(found))


def shrink(make: MakeScenario, failure: Outcome, *, runs: int = 1000) -> Outcome:
    """A failure with fewer decisions: those that it does not need are left out.

    First half of them at a time, then a quarter, and so on; at most so many `runs`.
    """
    best, size = failure, len(failure.script)
    while size:
        start = 0
        while start < len(best.script) and runs:
            outcome = run(make, best.script.without(start, size))
            runs -= 1
            if outcome.violation is not None and len(outcome.script) < len(best.script):
                best = outcome
            else:
                start += size
        size //= 2
    return best
