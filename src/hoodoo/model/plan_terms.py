"""The terms of a table service's plan: what may become of it if nobody executes it.

They are kept in the extra metadata of the plan, where other engines ignore them. A plan without
them, as Apache Hudi writes it, is persistent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hoodoo.errors import FormatError
from hoodoo.model.instant import InstantTime
from hoodoo.model.plan import (
    CleanerPlan,
    CompactionPlan,
    IndexPlan,
    PlanPolicy,
    RequestedReplaceMetadata,
)

POLICY = "hoodoo.plan.policy"
PLANNED_ON = "hoodoo.plan.base.instant"
CANCEL_HOURS = "hoodoo.plan.cancel.hours"
CANCEL_INSTANTS = "hoodoo.plan.cancel.instants"

DEFAULT_HOURS = 24.0
DEFAULT_INSTANTS = 100

ServicePlan = CompactionPlan | RequestedReplaceMetadata | CleanerPlan | IndexPlan


@dataclass(frozen=True, slots=True)
class PlanTerms:
    """What may become of a plan. The two limits are those of a cancellable one: either is enough.

    `planned_on` is the last completed instant that was known when it was planned.
    """

    policy: PlanPolicy = PlanPolicy.PERSISTENT
    planned_on: InstantTime | None = None
    cancel_hours: float | None = None
    cancel_instants: int | None = None

    @property
    def is_cancellable(self) -> bool:
        return self.policy is PlanPolicy.CANCELLABLE

    @property
    def is_persistent(self) -> bool:
        return self.policy is PlanPolicy.PERSISTENT

    def encode(self) -> dict[str, str]:
        """As a plan's extra metadata holds it."""
        limits = {CANCEL_HOURS: self.cancel_hours, CANCEL_INSTANTS: self.cancel_instants}
        return {
            POLICY: self.policy.value,
            **({PLANNED_ON: self.planned_on} if self.planned_on else {}),
            **{key: f"{limit:g}" for key, limit in limits.items() if limit is not None},
        }

    def is_overdue(self, *, age_hours: float, writes_since: int) -> bool:
        """Whether a cancellable plan was pending for longer than its terms allow."""
        if not self.is_cancellable:
            return False
        hours, instants = self.cancel_hours, self.cancel_instants
        if hours is None and instants is None:
            hours, instants = DEFAULT_HOURS, DEFAULT_INSTANTS
        return (hours is not None and age_hours >= hours) or (
            instants is not None and writes_since >= instants
        )


def read_terms(plan: object) -> PlanTerms:
    """The terms of a plan, whoever wrote it."""
    return decode_terms(_extra_metadata(plan))


def decode_terms(extra: Mapping[str, str]) -> PlanTerms:
    """The terms in a plan's extra metadata."""
    try:
        return PlanTerms(
            policy=PlanPolicy(extra.get(POLICY, PlanPolicy.PERSISTENT.value)),
            planned_on=InstantTime(extra[PLANNED_ON]) if PLANNED_ON in extra else None,
            cancel_hours=float(extra[CANCEL_HOURS]) if CANCEL_HOURS in extra else None,
            cancel_instants=int(extra[CANCEL_INSTANTS]) if CANCEL_INSTANTS in extra else None,
        )
    except ValueError as error:
        raise FormatError(f"the terms of the plan are damaged: {error}") from error


def _extra_metadata(plan: object) -> Mapping[str, str]:
    match plan:
        case CompactionPlan(extra_metadata=extra):
            return extra or {}
        case RequestedReplaceMetadata(clustering_plan=clustering) if clustering is not None:
            return clustering.extra_metadata or {}
        case _:
            return {}
