"""Which pending instants are dead, and what is to be done about each: pure decisions."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum

from hoodoo.concurrency.liveness import Pulse
from hoodoo.model.instant import Action, Instant, InstantTime, State
from hoodoo.model.plan import PlanPolicy
from hoodoo.model.plan_terms import PlanTerms
from hoodoo.recovery.ending import NO_PLAN, PlanFacts

_MINUTE_MS = 60_000


class Fate(Enum):
    """What recovery does with a pending instant."""

    LEAVE = "leave"
    ROLL_BACK = "roll back"
    FINISH = "finish"
    """A rollback that someone began and nobody carries on."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is to become of a pending instant, and why."""

    instant: Instant
    fate: Fate
    reason: str


def judge(
    instant: Instant,
    pulse: Pulse,
    *,
    plan: PlanFacts = NO_PLAN,
    delay_minutes: int = -1,
    rolled_back_by: InstantTime | None = None,
    undoes: InstantTime | None = None,
) -> Verdict:
    """The verdict on a pending instant.

    `plan`: that of a table service, which waits for an executor; `delay_minutes`: how old a
    removable one may get, -1 is however old. `rolled_back_by`: the pending rollback that targets
    it. `undoes`: the completed instant that it is a rollback of.
    """
    if rolled_back_by is not None:
        return Verdict(instant, Fate.LEAVE, f"rollback {rolled_back_by} is about it")
    # A plan that waits for its executor has no heartbeat, however young it is.
    waits = plan.terms is not None and instant.state is State.REQUESTED and not pulse.has_heartbeat
    if not pulse.is_dead and not waits:
        return Verdict(instant, Fate.LEAVE, f"alive: {pulse}")
    if undoes is not None:
        return Verdict(instant, Fate.LEAVE, _moot(instant, undoes))
    if instant.action is Action.ROLLBACK:
        return Verdict(instant, Fate.FINISH, f"dead: {pulse}")
    if plan.terms is not None:
        return _judge_plan(instant, pulse, plan, plan.terms, delay_minutes)
    if not instant.action.writes_data:
        return Verdict(instant, Fate.LEAVE, f"a {instant.action.value} is not rolled back")
    return Verdict(instant, Fate.ROLL_BACK, f"dead: {pulse}")


def _judge_plan(
    instant: Instant, pulse: Pulse, plan: PlanFacts, terms: PlanTerms, delay_minutes: int
) -> Verdict:
    """Only a cancelled plan, and a removable one that failed or that nobody executes, goes."""
    if plan.cancel is not None:
        return Verdict(instant, Fate.ROLL_BACK, f"its end was requested: {plan.cancel.reason}")
    if terms.policy is PlanPolicy.REMOVABLE:
        if instant.state is State.INFLIGHT:
            return Verdict(instant, Fate.ROLL_BACK, f"its execution failed: {pulse}")
        if 0 <= delay_minutes * _MINUTE_MS <= pulse.silent_ms:
            return Verdict(instant, Fate.ROLL_BACK, f"nobody executed it: {pulse}")
    policy = terms.policy.value
    return Verdict(instant, Fate.LEAVE, f"a {policy} plan of a table service, for its executor")


def judge_all(
    pending: Collection[Instant],
    pulses: Mapping[InstantTime, Pulse],
    *,
    plans: Mapping[InstantTime, PlanFacts],
    targets: Mapping[InstantTime, InstantTime],
    completed: Collection[InstantTime] = (),
    delay_minutes: int = -1,
) -> list[Verdict]:
    """The verdict on each pending instant; `targets` maps what is rolled back to its rollback."""
    undone = {by: target for target, by in targets.items() if target in completed}
    return [
        judge(
            instant,
            pulses[instant.requested_time],
            plan=plans.get(instant.requested_time, NO_PLAN),
            delay_minutes=delay_minutes,
            rolled_back_by=targets.get(instant.requested_time),
            undoes=undone.get(instant.requested_time),
        )
        for instant in pending
    ]


def _moot(rollback: Instant, target: InstantTime) -> str:
    """Whether the commit is to go cannot be told: it may have landed after the rollback began."""
    time = rollback.requested_time
    return (
        f"it is about {target}, which is completed: another engine requested it and died, and "
        f"nothing is deleted. To keep {target}, drop the request: `hoodoo rollback TABLE {time}`. "
        f"To remove {target}, let that engine finish its rollback"
    )
