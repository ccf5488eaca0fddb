"""Proof that the simulator can fail: the protocol, patched as careless people would write it.

Each mutant leaves one thought of the protocol out. The simulator must find out; the runs of the
real code that it needs for that are clean, and at night all others too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest
from support.simulations import find_violation

from hoodoo.concurrency.conflicts import rules
from hoodoo.concurrency.locks import lease
from hoodoo.concurrency.transactions import gate, head, instants
from hoodoo.concurrency.transactions import transaction as transaction_module
from hoodoo.concurrency.transactions.transaction import transaction
from hoodoo.errors import CommitFailed, HeartbeatLost, TimelineError
from hoodoo.model import paths
from hoodoo.model.instant import Instant, InstantTime, State, next_time
from hoodoo.recovery import recover, rollback, sweep
from hoodoo.recovery.recover import RecoverResult, RecoveryVerdict
from hoodoo.recovery.strays import delete_files, load_announced_paths
from hoodoo.runtime.env import Env
from hoodoo.table.ref import TableRef
from hoodoo.table.timeline import Timeline, instant_path
from hoodoo.write.commit import key_guard
from hoodoo_testing.simulator.actors.tables import EXPIRY_MS, LEASE_MS, TableScenario, Write
from hoodoo_testing.simulator.scenario import RunOutcome, run
from hoodoo_testing.simulator.scenarios import commits, overwrites, plans
from hoodoo_testing.simulator.scenarios import overwrites as mixed
from hoodoo_testing.simulator.search.explore import by_faults, by_seed, search
from hoodoo_testing.simulator.world.faults import Fault, FaultKind
from hoodoo_testing.simulator.world.schedule import Chances, Script
from hoodoo_testing.simulator.world.world import ActorAction

pytestmark = pytest.mark.slow

Patch = pytest.MonkeyPatch
LONG = Fault(FaultKind.PAUSE, 3 * LEASE_MS)


# -- the gate ---------------------------------------------------------------------------------


def does_not_look_again(patch: Patch) -> None:
    """Who lost the lock while it published does not look what others did."""
    patch.setattr(gate, "_refuse_overtaken", lambda *args: None)


def takes_unknown_for_failed(patch: Patch) -> None:
    """A commit that got no answer counts as failed, and is rolled back."""
    patch.setattr(gate, "_make_unknown_error", lambda completed, error: CommitFailed(str(error)))


def overwrites_the_head(patch: Patch) -> None:
    """The head is replaced whatever it is by now."""

    def send(env: Env, known: Any, data: bytes, *, within_s: float) -> str:
        return env.storage.put(paths.HEAD, data).etag

    patch.setattr(head, "_send", send)


def does_not_help(patch: Patch) -> None:
    """A decision that nobody has carried out is left to whoever took it."""
    patch.setattr(transaction_module, "is_decision_unfinished", lambda *args: False)


def trusts_its_clock(patch: Patch) -> None:
    """A completion time is the time of day, and not above those of others."""

    def now(txn: Any, *, after: InstantTime | None = None) -> InstantTime:
        return next_time(txn.env.clock.now_ms(), after=after)

    patch.setattr(instants, "new_time", now)


def does_not_look_for_rollbacks(patch: Patch) -> None:
    """An instant is committed although a rollback of it is on the timeline."""
    patch.setattr(gate, "_refuse_rolled_back", lambda *args: None)


def plans_beside_the_head(patch: Patch) -> None:
    """A plan is put on the timeline without a decision, though under the lock."""

    def schedule(txn: Any, action: Any, owner: str, plan: Callable[[], Any]) -> Instant:
        time, data = plan()
        instant = Instant(time, action, State.REQUESTED)
        txn.env.storage.create(instant_path(txn.timeline_paths, instant), data)
        return instant

    patch.setattr(plans, "schedule", schedule)


def takes_leases_by_the_clock(patch: Patch) -> None:
    """A lease is over when its end has passed by one's own time of day."""

    def may_take(version: lease.LockVersion, terms: Any, *, now_ms: int, monotonic: float) -> bool:
        stored = version.lease
        assert stored is not None
        return stored.expired or now_ms > stored.valid_until_ms + lease.DRIFT_MS

    patch.setattr(lease, "may_take", may_take)


# -- recovery ---------------------------------------------------------------------------------


def deletes_first(patch: Patch) -> None:
    """A rollback deletes files before it is decided."""
    schedule_rollback = rollback.schedule_rollback

    def hasty(txn: Any, ref: TableRef, instant: Instant) -> gate.Attempt:
        delete_files(ref.env, load_announced_paths(ref.env, instant.requested_time))
        return schedule_rollback(txn, ref, instant)

    patch.setattr(recover, "schedule_rollback", hasty)


def lists_once(patch: Patch) -> None:
    """A rollback deletes what was announced, and does not look again."""
    patch.setattr(rollback, "find_files", lambda env, instant, partitions: iter(()))


def sweeps_the_living(patch: Patch) -> None:
    """The sweep does not look at heartbeats."""
    patch.setattr(sweep._Facts, "is_beating", lambda facts, instant: False)


def judges_outside_the_lock(patch: Patch) -> None:
    """Heartbeats are looked at first, and the lock is taken afterwards."""

    def hasty(ref: TableRef, timeline: Timeline) -> RecoverResult:
        rollbacks: list[tuple[gate.Attempt, RecoveryVerdict]] = []
        verdicts = recover.judge_pending_instants(ref, timeline)
        with ExitStack() as heartbeats:
            with transaction(ref, "recover") as txn:
                for verdict in verdicts:
                    try:
                        attempt = recover._begin_rollback(txn, ref, verdict)
                    except (TimelineError, HeartbeatLost):
                        continue
                    if attempt is not None:
                        heartbeats.callback(attempt.heartbeat.stop)
                        rollbacks.append((attempt, verdict))
            return recover._carry_out_all(ref, rollbacks, [])

    patch.setattr(recover, "roll_back_dead_writes", hasty)


# -- the rules about conflicts ----------------------------------------------------------------


def does_not_guard_keys(patch: Patch) -> None:
    """Nobody looks whether others inserted the same key."""
    patch.setattr(key_guard, "_promises", lambda *args: False)


def overwrites_the_unseen(patch: Patch) -> None:
    """An overwrite does not mind what came since it looked."""
    without = {
        name: replace(
            strategy,
            rules=tuple(rule for rule in strategy.rules if rule is not rules.find_unseen_rows),
        )
        for name, strategy in rules.STRATEGIES.items()
    }
    patch.setattr(rules, "STRATEGIES", without)


# -- runs -------------------------------------------------------------------------------------


def at_publish(
    make: type[TableScenario],
    actor: str,
    part: str,
    faults: Iterable[Fault],
    *,
    seeds: int,
) -> Iterator[RunOutcome]:
    """Faults at the first mutation of an actor on a path that ends so."""
    for seed in range(seeds):
        first = run(make, Script(seed))
        asked = [
            step.operation
            for step in first.steps
            if step.actor == actor and step.as_operation().mutates and step.path.endswith(part)
        ]
        for fault in faults:
            if asked:
                yield run(make, Script(seed, faults={(actor, asked[0]): fault}))


class _Late(commits.Cleaner):
    """A writer that pauses, and one who rolls it back."""

    def actors(self) -> Mapping[str, ActorAction]:
        medic = self.medic(after_ms=3 * EXPIRY_MS)
        return {"w": self.writer(Write(1, ("a", "x"))), "medic": medic}


def interrupted(*, at: str, verb: str, number: int) -> Iterator[RunOutcome]:
    """The writer pauses before this operation until it is rolled back, which it then interrupts."""

    def paused(ms: int) -> Script:
        return Script(faults={("w", first.operation): Fault(FaultKind.PAUSE, ms)})

    steps = run(_Late, Script()).steps
    first = [s for s in steps if (s.actor, s.path, s.verb) == ("w", at, verb)][number]
    steps = run(_Late, paused(10 * EXPIRY_MS)).steps
    locked = next(s for s in steps if (s.actor, s.path, s.verb) == ("medic", paths.LOCK, "replace"))
    script = paused(locked.at_ms - first.at_ms + 20)
    for step in run(_Late, script).steps:
        if step.actor == "medic" and step.number and step.at_ms > locked.at_ms:
            yield run(_Late, replace(script, picks={step.number: "w"}))


Runs = Callable[[], Iterable[RunOutcome]]
CASES: dict[str, tuple[Callable[[Patch], None], Runs]] = {
    "no look after a publish without the lock": (
        does_not_look_again,
        lambda: at_publish(mixed.HudiWriter, "w", ".commit", [LONG], seeds=40),
    ),
    "unknown taken for failed": (
        takes_unknown_for_failed,
        lambda: by_faults(commits.Outage, "w1", faults=[Fault(FaultKind.OUTAGE, 30_000)]),
    ),
    "no compare-and-set": (
        overwrites_the_head,
        lambda: by_faults(commits.LeaseLoss, "w1", faults=[LONG]),
    ),
    "no helping": (
        does_not_help,
        lambda: by_faults(commits.LeaseLoss, "w1", faults=[LONG]),
    ),
    "completion times of one's own clock": (
        trusts_its_clock,
        lambda: by_seed(commits.DifferentPartitions, range(60)),
    ),
    "no look for rollbacks": (
        does_not_look_for_rollbacks,
        lambda: interrupted(at=paths.LOCK, verb="read", number=1),
    ),
    "deletes before it is decided": (
        deletes_first,
        lambda: interrupted(at=paths.HEAD, verb="replace", number=0),
    ),
    "plans beside the head": (
        plans_beside_the_head,
        lambda: by_seed(plans.Planning, range(60)),
    ),
    "leases by the clock": (
        takes_leases_by_the_clock,
        lambda: by_seed(
            commits.SameGroup,
            range(100),
            chances=Chances({FaultKind.JUMP: 0.05}, jump_ms=3_600_000),
        ),
    ),
    "sweep of the living": (sweeps_the_living, lambda: by_seed(commits.TwoRecoveries, range(200))),
    "no key guard": (does_not_guard_keys, lambda: by_seed(commits.SameKey, range(50))),
    "no rule for overwrites": (
        overwrites_the_unseen,
        lambda: by_seed(overwrites.Overwrite, range(50)),
    ),
    "heartbeats judged outside the lock": (
        judges_outside_the_lock,
        lambda: by_seed(commits.DeadRollback, range(40)),
    ),
    "no second listing": (lists_once, lambda: by_seed(commits.Zombie, range(150))),
}


@pytest.mark.parametrize("name", CASES)
def test_a_mutant_is_found_where_the_real_code_passes(name: str, monkeypatch: Patch) -> None:
    mutate, outcomes = CASES[name]
    with monkeypatch.context() as patch:
        mutate(patch)
        runs = find_violation(name, outcomes())
    search(outcomes(), cap=runs).verify()


@pytest.mark.nightly
@pytest.mark.parametrize("name", CASES)
def test_the_real_code_passes_all_runs_that_may_find_a_mutant(name: str) -> None:
    search(CASES[name][1]()).verify()
