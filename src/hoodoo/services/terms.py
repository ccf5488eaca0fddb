"""The terms of a plan, as users ask for them."""

from __future__ import annotations

from collections.abc import Mapping

from hoodoo.errors import InputError
from hoodoo.model.plan import PlanPolicy
from hoodoo.model.plan_terms import DEFAULT_HOURS, DEFAULT_INSTANTS, PlanTerms

_LIMITS = ("hours", "instants")


def build_terms(
    *, cancellable: bool, removable: bool = False, limits: Mapping[str, float] | None = None
) -> PlanTerms:
    """The terms of a plan that is to be scheduled. Raises `InputError`."""
    if cancellable and removable:
        raise InputError("a plan is removable or cancellable, not both")
    if limits is not None:
        _refuse_bad_limits(limits, cancellable=cancellable)
    if cancellable:
        hours, instants = (limits or {}).get("hours"), (limits or {}).get("instants")
        if hours is None and instants is None:
            hours, instants = DEFAULT_HOURS, DEFAULT_INSTANTS
        return PlanTerms(
            PlanPolicy.CANCELLABLE,
            cancel_hours=None if hours is None else float(hours),
            cancel_instants=None if instants is None else int(instants),
        )
    return PlanTerms(PlanPolicy.REMOVABLE if removable else PlanPolicy.PERSISTENT)


def _refuse_bad_limits(limits: Mapping[str, float], *, cancellable: bool) -> None:
    if not cancellable:
        raise InputError("cancellation_policy is for cancellable plans: say cancellable=True")
    unknown = sorted(set(limits) - set(_LIMITS))
    if unknown or not limits:
        raise InputError(
            f"cancellation_policy takes {' and '.join(_LIMITS)}, not {', '.join(unknown) or 'none'}"
        )
    for name, value in limits.items():
        if not isinstance(value, int | float) or value < 0:
            raise InputError(f"cancellation_policy: {name} must be a number of 0 or more")
