"""Which pending instants are dead, and what is to be done about each: pure decisions."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum

from hoodoo.concurrency.liveness import Pulse
from hoodoo.model.instant import Action, Instant, InstantTime

_SERVICES = frozenset(
    {Action.COMPACTION, Action.LOG_COMPACTION, Action.CLUSTERING, Action.INDEXING, Action.CLEAN}
)


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
    is_plan: bool,
    rolled_back_by: InstantTime | None,
    undoes: InstantTime | None = None,
) -> Verdict:
    """The verdict on a pending instant.

    `is_plan`: it is a table service, whose plan waits for an executor. `rolled_back_by`: the
    pending rollback that targets it. `undoes`: the completed instant that it is a rollback of.
    """
    if rolled_back_by is not None:
        return Verdict(instant, Fate.LEAVE, f"rollback {rolled_back_by} is about it")
    if not pulse.is_dead:
        return Verdict(instant, Fate.LEAVE, f"alive: {pulse}")
    if instant.action is Action.RESTORE:
        return Verdict(instant, Fate.LEAVE, "a restore that was cut off: restore again, it goes on")
    if undoes is not None:
        return Verdict(instant, Fate.LEAVE, _moot(instant, undoes))
    if instant.action is Action.ROLLBACK:
        return Verdict(instant, Fate.FINISH, f"dead: {pulse}")
    if is_plan or instant.action in _SERVICES:
        return Verdict(instant, Fate.LEAVE, "a plan of a table service, for its next executor")
    if not instant.action.writes_data:
        return Verdict(instant, Fate.LEAVE, f"a {instant.action.value} is not rolled back")
    return Verdict(instant, Fate.ROLL_BACK, f"dead: {pulse}")


def judge_all(
    pending: Collection[Instant],
    pulses: Mapping[InstantTime, Pulse],
    *,
    plans: Collection[InstantTime],
    targets: Mapping[InstantTime, InstantTime],
    completed: Collection[InstantTime] = (),
) -> list[Verdict]:
    """The verdict on each pending instant; `targets` maps what is rolled back to its rollback."""
    undone = {by: target for target, by in targets.items() if target in completed}
    return [
        judge(
            instant,
            pulses[instant.requested_time],
            is_plan=instant.requested_time in plans,
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
