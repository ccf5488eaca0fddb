"""Proof that the simulator can fail: decisions, patched as careless people would write them.

Each mutant is a copy of a decision of the protocol with one thought left out. The simulator must
find out; the same runs of the real code are clean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from support.simulations import find_violation

from hoodoo.concurrency import gate, others
from hoodoo.concurrency.transaction import transaction
from hoodoo.model.attempt import Claim, Ending
from hoodoo.model.names import instant_name
from hoodoo.recovery import recover, rollback
from hoodoo.recovery.recover import Recovered
from hoodoo.recovery.verdict import Verdict
from hoodoo.table.ref import TableRef
from hoodoo.testing.sim.explore import by_faults, by_seed, search
from hoodoo.testing.sim.faults import Fault, Kind
from hoodoo.testing.sim.scenario import Outcome, run
from hoodoo.testing.sim.scenarios import commits
from hoodoo.testing.sim.schedule import Script

Patch = pytest.MonkeyPatch


def judge_outside_the_lock(patch: Patch) -> None:
    """Heartbeats are looked at first, and the lock is taken afterwards."""

    def hasty(ref: TableRef) -> Recovered:
        judged = recover._verdicts(ref, ref.load_timeline())
        begun: list[tuple[gate.Attempt, Verdict]] = []
        with ExitStack() as beating:
            with transaction(ref, "recover") as txn:
                for verdict, pulse in judged:
                    attempt = recover._begin(txn, ref, verdict, pulse, None)
                    if attempt is not None:
                        beating.callback(attempt.heartbeat.stop)
                        begun.append((attempt, verdict))
            return recover._carry_out_all(ref, begun, [])

    patch.setattr(recover, "roll_back_dead", hasty)


def without_claims(patch: Patch) -> None:
    """Nobody claims an instant before it ends."""

    def unclaimed(txn: Any, attempt: gate.Attempt, completed: Any) -> Claim:
        name = instant_name(completed, layout=2)
        return Claim("", 1, Ending.COMMIT, by=name)

    patch.setattr(gate, "_claim", unclaimed)
    patch.setattr(gate, "_refuse_fenced", lambda *given: None)
    patch.setattr(rollback, "read_claim", lambda env, instant: None)
    patch.setattr(rollback, "claim_rollback", lambda env, instant, claim, instead_of: True)


def without_second_listing(patch: Patch) -> None:
    """A rollback deletes what was announced, and does not look again."""
    patch.setattr(rollback, "present", lambda env, instant, partitions: iter(()))


def commits_over_claims(patch: Patch) -> None:
    """Whoever has the lock does not mind that another was just about to publish."""
    patch.setattr(others, "_is_claimed", lambda txn, instant: False)


def retries_without_a_look(patch: Patch) -> None:
    """A publish that got no answer is sent again, whatever has happened meanwhile."""
    complete = gate.transitions.complete

    def stubborn(txn: Any, completed: Any, metadata: Any, *, before_retry: Any) -> None:
        complete(txn, completed, metadata, before_retry=lambda: None)

    patch.setattr(gate.transitions, "complete", stubborn)
    patch.setattr(gate, "_refuse_fenced", lambda *given: None)


def dies_in_flight() -> Iterator[Outcome]:
    """A writer with an old heartbeat dies over its last request, which lands much later."""
    first = run(commits.InFlight, Script())
    (last,) = (
        step.operation
        for step in first.steps
        if (step.actor, step.verb) == ("w", "create") and step.path.endswith(".commit")
    )
    for late_ms in range(20_000, 50_000, 2_000):
        fault = Fault(Kind.CRASH_IN_FLIGHT, late_ms)
        yield run(commits.InFlight, Script(faults={("w", last): fault}))


CASES: dict[str, tuple[Callable[[Patch], None], Callable[[], Iterable[Outcome]]]] = {
    "heartbeat judged outside the lock": (
        judge_outside_the_lock,
        lambda: by_seed(commits.DeadRollback, range(100)),
    ),
    "no claims": (without_claims, dies_in_flight),
    "no second listing": (
        without_second_listing,
        lambda: by_seed(commits.Zombie, range(150)),
    ),
    "committing over the claim of another": (
        commits_over_claims,
        lambda: by_faults(
            commits.InTheWay,
            "w1",
            faults=[Fault(Kind.CRASH_IN_FLIGHT, 45_000), Fault(Kind.SLOW_REQUEST, 45_000)],
        ),
    ),
    "publishing again without a look": (
        retries_without_a_look,
        lambda: by_faults(commits.LeaseLoss, "w1", faults=[Fault(Kind.PAUSE, 200_000)]),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_simulator_finds(name: str, monkeypatch: Patch) -> None:
    mutate, outcomes = CASES[name]
    mutate(monkeypatch)
    find_violation(name, outcomes())


@pytest.mark.parametrize("name", CASES)
def test_the_real_code_passes_the_same(name: str) -> None:
    search(CASES[name][1]()).verify()
