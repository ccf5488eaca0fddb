"""May a plan be executed now? Every cell of the matrix of plans."""

from __future__ import annotations

import pytest

from hoodoo.concurrency.heartbeats import WriterStatus
from hoodoo.errors import HoodooError, PlanCancelled, PlanInProgress, PlanNotExecutable
from hoodoo.model.coordination import RELEASE_BODY, CancelRequest, HeartbeatBody
from hoodoo.model.instant import Action, Instant, InstantTime, State
from hoodoo.model.plans import PlanPolicy, PlanTerms
from hoodoo.recovery.recover import RecoveryAction, judge_instant
from hoodoo.recovery.rollback import AfterRollback, PlanState
from hoodoo.services.plans.pending import ExecutionStep, choose_execution_step

TIME = InstantTime("20260101000000000")
ROLLBACK = InstantTime("20260101000000009")
BODY = HeartbeatBody("owner", 1, "host", 7, "app", "compaction", "write", 1_000, 3, 1)
NOBODY = WriterStatus(0, 3_000, has_heartbeat=False)
ALIVE = WriterStatus(10, 3_000, BODY)
DEAD = WriterStatus(10_000, 3_000, BODY)
FOREIGN_ALIVE = WriterStatus(10, 3_000, None, has_heartbeat=False)
FOREIGN_DEAD = WriterStatus(10_000, 3_000, None, has_heartbeat=False)

PERSISTENT, REMOVABLE, CANCELLABLE = (PlanPolicy(each) for each in PlanPolicy)
REQUESTED, INFLIGHT = State.REQUESTED, State.INFLIGHT


def facts(policy: PlanPolicy, *, is_cancelled: bool = False) -> PlanState:
    cancel = CancelRequest("someone", "by hand") if is_cancelled else None
    return PlanState(PlanTerms(policy), b"plan", cancel)


def plan(state: State, action: Action = Action.CLUSTERING) -> Instant:
    ended = InstantTime("20260101000000005") if state is State.COMPLETED else None
    return Instant(TIME, action, state, ended)


@pytest.mark.parametrize("action", [Action.COMPACTION, Action.LOG_COMPACTION, Action.CLUSTERING])
@pytest.mark.parametrize(
    ("policy", "state", "pulse", "rolled_back_by", "expected"),
    [
        # requested, however old: anyone may execute it, if nobody does
        (PERSISTENT, REQUESTED, NOBODY, None, ExecutionStep.EXECUTE),
        (REMOVABLE, REQUESTED, NOBODY, None, ExecutionStep.EXECUTE),
        (CANCELLABLE, REQUESTED, NOBODY, None, ExecutionStep.EXECUTE),
        (PERSISTENT, REQUESTED, DEAD, None, ExecutionStep.EXECUTE),
        (PERSISTENT, REQUESTED, ALIVE, None, PlanInProgress),
        (REMOVABLE, REQUESTED, ALIVE, None, PlanInProgress),
        (CANCELLABLE, REQUESTED, ALIVE, None, PlanInProgress),
        # inflight: only a persistent plan is tried again
        (PERSISTENT, INFLIGHT, ALIVE, None, PlanInProgress),
        (REMOVABLE, INFLIGHT, ALIVE, None, PlanInProgress),
        (CANCELLABLE, INFLIGHT, ALIVE, None, PlanInProgress),
        (PERSISTENT, INFLIGHT, DEAD, None, ExecutionStep.EXECUTE),
        (REMOVABLE, INFLIGHT, DEAD, None, PlanNotExecutable),
        (CANCELLABLE, INFLIGHT, DEAD, None, PlanNotExecutable),
        # attempts of engines that leave no heartbeat are rolled back first
        (PERSISTENT, INFLIGHT, FOREIGN_ALIVE, None, PlanInProgress),
        (PERSISTENT, INFLIGHT, FOREIGN_DEAD, None, ExecutionStep.ROLL_BACK),
        # a rollback is about it
        (PERSISTENT, REQUESTED, NOBODY, ROLLBACK, ExecutionStep.FINISH_ROLLBACK),
        (PERSISTENT, INFLIGHT, DEAD, ROLLBACK, ExecutionStep.FINISH_ROLLBACK),
        (REMOVABLE, REQUESTED, NOBODY, ROLLBACK, PlanNotExecutable),
        (REMOVABLE, INFLIGHT, DEAD, ROLLBACK, PlanNotExecutable),
        (CANCELLABLE, REQUESTED, NOBODY, ROLLBACK, PlanNotExecutable),
        (CANCELLABLE, INFLIGHT, DEAD, ROLLBACK, PlanNotExecutable),
        # it has ended
        (PERSISTENT, State.COMPLETED, NOBODY, None, ExecutionStep.RETURN),
        (REMOVABLE, State.COMPLETED, NOBODY, None, ExecutionStep.RETURN),
        (CANCELLABLE, State.COMPLETED, NOBODY, None, ExecutionStep.RETURN),
        (CANCELLABLE, State.ABORTED, NOBODY, None, PlanCancelled),
    ],
)
def test_execution_follows_the_matrix(
    action: Action,
    policy: PlanPolicy,
    state: State,
    pulse: WriterStatus,
    rolled_back_by: InstantTime | None,
    expected: ExecutionStep | type[HoodooError],
) -> None:
    def ask() -> ExecutionStep:
        return choose_execution_step(
            plan(state, action), facts(policy), pulse, rolled_back_by=rolled_back_by
        )

    if isinstance(expected, ExecutionStep):
        assert ask() is expected
    else:
        with pytest.raises(expected, match=TIME):
            ask()


@pytest.mark.parametrize("policy", list(PlanPolicy))
@pytest.mark.parametrize("state", [REQUESTED, INFLIGHT])
def test_a_cancelled_plan_is_never_executed(policy: PlanPolicy, state: State) -> None:
    with pytest.raises(PlanCancelled, match="by hand"):
        choose_execution_step(
            plan(state), facts(policy, is_cancelled=True), NOBODY, rolled_back_by=None
        )


def test_without_the_guard_a_plan_is_taken_from_a_living_executor() -> None:
    move = choose_execution_step(
        plan(INFLIGHT), facts(PERSISTENT), ALIVE, rolled_back_by=None, is_guarded=False
    )
    assert move is ExecutionStep.EXECUTE


def test_a_released_plan_is_executed_at_once() -> None:
    released = WriterStatus(10, 3_000, HeartbeatBody(**{**_fields(BODY), "phase": RELEASE_BODY}))
    move = choose_execution_step(plan(INFLIGHT), facts(PERSISTENT), released, rolled_back_by=None)
    assert move is ExecutionStep.EXECUTE


def _fields(body: HeartbeatBody) -> dict[str, object]:
    return {name: getattr(body, name) for name in HeartbeatBody.__slots__}


HOUR = WriterStatus(3_600_000, 3_000, None, has_heartbeat=False)


@pytest.mark.parametrize(
    ("policy", "state", "pulse", "delay", "expected"),
    [
        (PERSISTENT, REQUESTED, HOUR, 1, RecoveryAction.LEAVE),
        (PERSISTENT, INFLIGHT, DEAD, 1, RecoveryAction.LEAVE),
        (REMOVABLE, REQUESTED, NOBODY, 1, RecoveryAction.LEAVE),
        (REMOVABLE, REQUESTED, HOUR, 61, RecoveryAction.LEAVE),
        (REMOVABLE, REQUESTED, HOUR, 60, RecoveryAction.ROLL_BACK),
        (REMOVABLE, REQUESTED, HOUR, -1, RecoveryAction.LEAVE),
        (REMOVABLE, INFLIGHT, ALIVE, 0, RecoveryAction.LEAVE),
        (REMOVABLE, INFLIGHT, DEAD, -1, RecoveryAction.ROLL_BACK),
        (CANCELLABLE, REQUESTED, HOUR, 1, RecoveryAction.LEAVE),
        (CANCELLABLE, INFLIGHT, DEAD, 1, RecoveryAction.LEAVE),
    ],
)
def test_recovery_removes_only_removable_plans_that_failed_or_wait_too_long(
    policy: PlanPolicy, state: State, pulse: WriterStatus, delay: int, expected: RecoveryAction
) -> None:
    assert (
        judge_instant(plan(state), pulse, plan=facts(policy), delay_minutes=delay).fate is expected
    )


@pytest.mark.parametrize("policy", list(PlanPolicy))
def test_recovery_carries_out_a_cancel_that_nobody_executes(policy: PlanPolicy) -> None:
    cancelled = facts(policy, is_cancelled=True)
    assert judge_instant(plan(INFLIGHT), DEAD, plan=cancelled).fate is RecoveryAction.ROLL_BACK
    assert judge_instant(plan(INFLIGHT), ALIVE, plan=cancelled).fate is RecoveryAction.LEAVE


def test_rollback_keeps_removes_or_aborts_plan_by_policy() -> None:
    assert facts(PERSISTENT).ending is AfterRollback.KEEP_PLAN
    assert facts(REMOVABLE).ending is AfterRollback.REMOVE
    assert facts(CANCELLABLE).ending is AfterRollback.REMOVE
    assert all(
        facts(policy, is_cancelled=True).ending is AfterRollback.ABORT for policy in PlanPolicy
    )
    assert PlanState(None, b"", None).ending is AfterRollback.REMOVE
    assert PlanState(None, b"", None, is_recorded=True).ending is AfterRollback.ABORT
