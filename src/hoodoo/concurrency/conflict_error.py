"""What a user is told of conflicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hoodoo.concurrency.conflict import Conflict, Kind, Mine
from hoodoo.config.concurrency import CONFLICT_RETRIES
from hoodoo.errors import WriteConflict
from hoodoo.model.instant import InstantTime

TRY_AGAIN = f"try again, or have that done by {CONFLICT_RETRIES.name}"
"""What to do about most conflicts."""

_CONFLICTS_NAMED = 3
_GROUPS_NAMED = 3


def make_conflict_error(
    mine: Mine, conflicts: Sequence[Conflict], owners: Mapping[InstantTime, str] | None = None
) -> WriteConflict:
    """The error for these conflicts; `owners` says who made an instant that does not tell."""
    descriptions = [
        _describe_conflict(conflict, owners or {}) for conflict in conflicts[:_CONFLICTS_NAMED]
    ]
    if len(conflicts) > _CONFLICTS_NAMED:
        descriptions.append(f"and {len(conflicts) - _CONFLICTS_NAMED} more")
    with_whom = "; ".join(descriptions)
    groups = {str(group) for conflict in conflicts for group in conflict.file_groups}
    return WriteConflict(
        f"{mine.kind.value} {mine.time} conflicts with {with_whom}. "
        f"Nothing of it is visible: {_choose_advice(mine, conflicts)}",
        instant=mine.time,
        others=tuple(dict.fromkeys(conflict.other.time for conflict in conflicts)),
        file_groups=tuple(sorted(groups)),
    )


def _describe_conflict(conflict: Conflict, owners: Mapping[InstantTime, str]) -> str:
    other = conflict.other
    owner = other.owner or owners.get(other.time)
    by = f" by {owner}" if owner else ""
    named = ", ".join(map(str, conflict.file_groups[:_GROUPS_NAMED]))
    more = len(conflict.file_groups) - _GROUPS_NAMED
    groups = f" {named}" + (f" and {more} more" if more > 0 else "")
    return (
        f"{other.instant.action.value} {other.time} ({other.operation}{by}): "
        f"{conflict.reason}{groups if named else ''}"
    )


def _choose_advice(mine: Mine, conflicts: Sequence[Conflict]) -> str:
    if mine.kind is not Kind.INGESTION:
        return "plan it anew"
    if any(c.other.is_pending(Kind.CLUSTERING, Kind.LOG_COMPACTION) for c in conflicts):
        return "run the pending plan, or roll it back, and try again"
    return TRY_AGAIN
