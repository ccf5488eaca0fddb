"""May a plan be executed now? Every cell of the matrix of plans."""

from __future__ import annotations

import pytest

from hoodoo.concurrency.liveness import Pulse
from hoodoo.errors import Cancelled, HoodooError, PlanInProgress, PlanNotExecutable
from hoodoo.model.attempt import RELEASED, CancelRequest, HeartbeatBody
from hoodoo.model.instant import Action, Instant, InstantTime, State
from hoodoo.model.plan import PlanPolicy
from hoodoo.model.plan_terms import PlanTerms
from hoodoo.recovery.ending import Ending, PlanFacts
from hoodoo.recovery.verdict import Fate, judge
from hoodoo.services.pending import Move, judge_execution

TIME = InstantTime("20260101000000000")
ROLLBACK = InstantTime("20260101000000009")
BODY = HeartbeatBody("owner", 1, "host", 7, "app", "compaction", "write", 1_000, 3, 1)
NOBODY = Pulse(0, 3_000, has_heartbeat=False)
ALIVE = Pulse(10, 3_000, BODY)
DEAD = Pulse(10_000, 3_000, BODY)
FOREIGN_ALIVE = Pulse(10, 3_000, None, has_heartbeat=False)
FOREIGN_DEAD = Pulse(10_000, 3_000, None, has_heartbeat=False)

PERSISTENT, REMOVABLE, CANCELLABLE = (PlanPolicy(each) for each in PlanPolicy)
REQUESTED, INFLIGHT = State.REQUESTED, State.INFLIGHT


def facts(policy: PlanPolicy, *, is_cancelled: bool = False) -> PlanFacts:
    cancel = CancelRequest("someone", "by hand") if is_cancelled else None
    return PlanFacts(PlanTerms(policy), b"plan", cancel)


def plan(state: State, action: Action = Action.CLUSTERING) -> Instant:
    ended = InstantTime("20260101000000005") if state is State.COMPLETED else None
    return Instant(TIME, action, state, ended)


@pytest.mark.parametrize("action", [Action.COMPACTION, Action.LOG_COMPACTION, Action.CLUSTERING])
@pytest.mark.parametrize(
    ("policy", "state", "pulse", "rolled_back_by", "expected"),
    [
        # requested, however old: anyone may execute it, if nobody does
        (PERSISTENT, REQUESTED, NOBODY, None, Move.EXECUTE),
        (REMOVABLE, REQUESTED, NOBODY, None, Move.EXECUTE),
        (CANCELLABLE, REQUESTED, NOBODY, None, Move.EXECUTE),
        (PERSISTENT, REQUESTED, DEAD, None, Move.EXECUTE),
        (PERSISTENT, REQUESTED, ALIVE, None, PlanInProgress),
        (REMOVABLE, REQUESTED, ALIVE, None, PlanInProgress),
        (CANCELLABLE, REQUESTED, ALIVE, None, PlanInProgress),
        # inflight: only a persistent plan is tried again
        (PERSISTENT, INFLIGHT, ALIVE, None, PlanInProgress),
        (REMOVABLE, INFLIGHT, ALIVE, None, PlanInProgress),
        (CANCELLABLE, INFLIGHT, ALIVE, None, PlanInProgress),
        (PERSISTENT, INFLIGHT, DEAD, None, Move.EXECUTE),
        (REMOVABLE, INFLIGHT, DEAD, None, PlanNotExecutable),
        (CANCELLABLE, INFLIGHT, DEAD, None, PlanNotExecutable),
        # attempts of engines that leave no heartbeat are rolled back first
        (PERSISTENT, INFLIGHT, FOREIGN_ALIVE, None, PlanInProgress),
        (PERSISTENT, INFLIGHT, FOREIGN_DEAD, None, Move.ROLL_BACK),
        # a rollback is about it
        (PERSISTENT, REQUESTED, NOBODY, ROLLBACK, Move.FINISH_ROLLBACK),
        (PERSISTENT, INFLIGHT, DEAD, ROLLBACK, Move.FINISH_ROLLBACK),
        (REMOVABLE, REQUESTED, NOBODY, ROLLBACK, PlanNotExecutable),
        (REMOVABLE, INFLIGHT, DEAD, ROLLBACK, PlanNotExecutable),
        (CANCELLABLE, REQUESTED, NOBODY, ROLLBACK, PlanNotExecutable),
        (CANCELLABLE, INFLIGHT, DEAD, ROLLBACK, PlanNotExecutable),
        # it has ended
        (PERSISTENT, State.COMPLETED, NOBODY, None, Move.RETURN),
        (REMOVABLE, State.COMPLETED, NOBODY, None, Move.RETURN),
        (CANCELLABLE, State.COMPLETED, NOBODY, None, Move.RETURN),
        (CANCELLABLE, State.ABORTED, NOBODY, None, Cancelled),
    ],
)
def test_execution_follows_the_matrix(
    action: Action,
    policy: PlanPolicy,
    state: State,
    pulse: Pulse,
    rolled_back_by: InstantTime | None,
    expected: Move | type[HoodooError],
) -> None:
    def ask() -> Move:
        return judge_execution(
            plan(state, action), facts(policy), pulse, rolled_back_by=rolled_back_by
        )

    if isinstance(expected, Move):
        assert ask() is expected
    else:
        with pytest.raises(expected, match=TIME):
            ask()


@pytest.mark.parametrize("policy", list(PlanPolicy))
@pytest.mark.parametrize("state", [REQUESTED, INFLIGHT])
def test_a_cancelled_plan_is_never_executed(policy: PlanPolicy, state: State) -> None:
    with pytest.raises(Cancelled, match="by hand"):
        judge_execution(plan(state), facts(policy, is_cancelled=True), NOBODY, rolled_back_by=None)


def test_without_the_guard_a_plan_is_taken_from_a_living_executor() -> None:
    move = judge_execution(
        plan(INFLIGHT), facts(PERSISTENT), ALIVE, rolled_back_by=None, is_guarded=False
    )
    assert move is Move.EXECUTE


def test_a_released_plan_is_executed_at_once() -> None:
    released = Pulse(10, 3_000, HeartbeatBody(**{**_fields(BODY), "phase": RELEASED}))
    move = judge_execution(plan(INFLIGHT), facts(PERSISTENT), released, rolled_back_by=None)
    assert move is Move.EXECUTE


def _fields(body: HeartbeatBody) -> dict[str, object]:
    return {name: getattr(body, name) for name in HeartbeatBody.__slots__}


HOUR = Pulse(3_600_000, 3_000, None, has_heartbeat=False)


@pytest.mark.parametrize(
    ("policy", "state", "pulse", "delay", "expected"),
    [
        (PERSISTENT, REQUESTED, HOUR, 1, Fate.LEAVE),
        (PERSISTENT, INFLIGHT, DEAD, 1, Fate.LEAVE),
        (REMOVABLE, REQUESTED, NOBODY, 1, Fate.LEAVE),
        (REMOVABLE, REQUESTED, HOUR, 61, Fate.LEAVE),
        (REMOVABLE, REQUESTED, HOUR, 60, Fate.ROLL_BACK),
        (REMOVABLE, REQUESTED, HOUR, -1, Fate.LEAVE),
        (REMOVABLE, INFLIGHT, ALIVE, 0, Fate.LEAVE),
        (REMOVABLE, INFLIGHT, DEAD, -1, Fate.ROLL_BACK),
        (CANCELLABLE, REQUESTED, HOUR, 1, Fate.LEAVE),
        (CANCELLABLE, INFLIGHT, DEAD, 1, Fate.LEAVE),
    ],
)
def test_recovery_removes_only_removable_plans_that_failed_or_wait_too_long(
    policy: PlanPolicy, state: State, pulse: Pulse, delay: int, expected: Fate
) -> None:
    assert judge(plan(state), pulse, plan=facts(policy), delay_minutes=delay).fate is expected


@pytest.mark.parametrize("policy", list(PlanPolicy))
def test_recovery_carries_out_a_cancel_that_nobody_executes(policy: PlanPolicy) -> None:
    cancelled = facts(policy, is_cancelled=True)
    assert judge(plan(INFLIGHT), DEAD, plan=cancelled).fate is Fate.ROLL_BACK
    assert judge(plan(INFLIGHT), ALIVE, plan=cancelled).fate is Fate.LEAVE


def test_a_rollback_leaves_what_the_terms_say() -> None:
    assert facts(PERSISTENT).ending is Ending.KEEP_PLAN
    assert facts(REMOVABLE).ending is Ending.REMOVE
    assert facts(CANCELLABLE).ending is Ending.REMOVE
    assert all(facts(policy, is_cancelled=True).ending is Ending.ABORT for policy in PlanPolicy)
    assert PlanFacts(None, b"", None).ending is Ending.REMOVE
    assert PlanFacts(None, b"", None, is_recorded=True).ending is Ending.ABORT
