"""Many runs of a scenario: by seed, by faults at every point; and what came of them.

`by_preemptions` runs every schedule with few preemptions: most bugs need no more than two or three.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from hoodoo_testing.simulator.scenario import MakeScenario, RunOutcome, run
from hoodoo_testing.simulator.world.faults import Fault, FaultKind
from hoodoo_testing.simulator.world.schedule import (
    Chances,
    RecordingScript,
    SchedulePoint,
    Script,
    SeededSchedule,
)

# -- by seed and by faults -------------------------------------------------------------------------


POINTS = (
    Fault(FaultKind.CRASH_BEFORE),
    Fault(FaultKind.CRASH_AFTER),
    Fault(FaultKind.LOST_RESPONSE),
    Fault(FaultKind.LOST_REQUEST),
)


def by_seed(
    make: MakeScenario, seeds: Iterable[int], *, chances: Chances | None = None
) -> Iterator[RunOutcome]:
    """A run for each seed, with the scenario's own chances unless others are given."""
    if chances is None:
        chances = make().chances
    for seed in seeds:
        yield run(make, SeededSchedule(seed, chances))


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
    operations = [step.as_operation() for step in first.steps if step.actor == actor]
    points = [
        replace(script, faults={**script.faults, (actor, operation.number): fault})
        for operation in operations
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
) -> Iterator[RunOutcome]:
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
    failures: tuple[RunOutcome, ...]

    def verify(self) -> None:
        """Raise the first `Violation`, if there is one."""
        for failure in self.failures:
            failure.verify()


def search(outcomes: Iterable[RunOutcome], *, cap: int | None = None, failures: int = 1) -> Search:
    """Go through runs, `cap` at most, until there are so many `failures`."""
    runs, steps = 0, 0
    failing_runs: list[RunOutcome] = []
    for outcome in islice(outcomes, cap):
        runs += 1
        steps += len(outcome.steps)
        if outcome.violation is not None:
            failing_runs.append(outcome)
            if len(failing_runs) == failures:
                break
    is_complete = runs != cap and len(failing_runs) < failures
    return Search(runs, steps, is_complete, tuple(failing_runs))


def shrink(make: MakeScenario, failure: RunOutcome, *, runs: int = 1000) -> RunOutcome:
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


# -- by preemptions --------------------------------------------------------------------------------


def by_preemptions(
    make: MakeScenario, at_most: int, *, script: Script | None = None, is_reduced: bool = True
) -> Iterator[RunOutcome]:
    """A run for every schedule that interrupts actors who could go on `at_most` so often.

    Those with fewer preemptions come first, and each comes once. `script` gives a seed, and
    faults that befall every run. Reduced, those are left out that differ from others only in the
    order of operations that commute.
    """
    script = script or Script()
    levels: list[list[dict[int, str]]] = [[] for _ in range(at_most + 1)]
    levels[0].append(dict(script.picks))
    for level, waiting in enumerate(levels):
        while waiting:
            picks = waiting.pop()
            schedule = RecordingScript(replace(script, picks=picks))
            outcome = run(make, schedule)
            yield outcome
            after = max(picks, default=0)
            for decision, name in _branches(outcome, schedule, after, is_reduced=is_reduced):
                spent = level + (decision.before is not None)
                if spent <= at_most:
                    levels[spent].append({**picks, decision.step: name})


def _branches(
    outcome: RunOutcome, schedule: RecordingScript, after: int, *, is_reduced: bool
) -> Iterator[tuple[SchedulePoint, str]]:
    """Other ways that a run could have gone `after` the last decision that made it.

    That decision may have held up an operation. As long as this one commutes with all that others
    did instead, its actor may as well have done it first, and been held up before its next one:
    a run of its own, which need not be made twice.
    """
    decisions = {decision.step: decision for decision in schedule.decisions}
    operation = decisions[after].before if after in decisions else None
    is_other = operation is None or not is_reduced
    for step in outcome.steps:
        if step.number is None or step.number < after:
            continue
        decision = decisions.get(step.number)
        if decision is not None and decision.step > after:
            for name in decision.names[1:]:
                if is_other or (operation and name != operation.actor):
                    yield decision, name
        if operation and not is_other:
            if step.actor == operation.actor:
                return
            is_other = bool(step.operation) and not operation.commutes_with(step.as_operation())
