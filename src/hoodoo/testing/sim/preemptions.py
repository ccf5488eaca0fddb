"""Every schedule of a scenario with few preemptions: most bugs need no more than two or three."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hoodoo.testing.sim.scenario import MakeScenario, Outcome, run
from hoodoo.testing.sim.schedule import Decision, Recorded, Script


def by_preemptions(
    make: MakeScenario, at_most: int, *, script: Script | None = None, is_reduced: bool = True
) -> Iterator[Outcome]:
    """A run for every schedule that interrupts actors who could go on `at_most` so often.

    Those with fewer preemptions come first, and each comes once. `script` gives a seed, and
    faults that befall every run. Reduced, those are left out that differ from others only in the
    order of operations that commute.
    """
    script = script or Script()
    levels: list[list[dict[int, str]]] = [[] for _ in range(at_most + 1)]
    levels[0].append(dict(script.picks))
    for used, waiting in enumerate(levels):
        while waiting:
            picks = waiting.pop()
            schedule = Recorded(replace(script, picks=picks))
            outcome = run(make, schedule)
            yield outcome
            after = max(picks, default=0)
            for decision, name in _branches(outcome, schedule, after, is_reduced=is_reduced):
                spent = used + (decision.before is not None)
                if spent <= at_most:
                    levels[spent].append({**picks, decision.step: name})


def _branches(
    outcome: Outcome, schedule: Recorded, after: int, *, is_reduced: bool
) -> Iterator[tuple[Decision, str]]:
    """Other ways that a run could have gone `after` the last decision that made it.

    That decision may have held up an operation. As long as this one commutes with all that others
    did instead, its actor may as well have done it first, and been held up before its next one:
    a run of its own, which need not be made twice.
    """
    decisions = {decision.step: decision for decision in schedule.decisions}
    held = decisions[after].before if after in decisions else None
    is_other = held is None or not is_reduced
    for step in outcome.steps:
        if step.number is None or step.number < after:
            continue
        decision = decisions.get(step.number)
        if decision is not None and decision.step > after:
            for name in decision.names[1:]:
                if is_other or (held and name != held.actor):
                    yield decision, name
        if held and not is_other:
            if step.actor == held.actor:
                return
            is_other = bool(step.operation) and not held.commutes_with(step.as_operation())
