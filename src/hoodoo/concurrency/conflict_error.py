"""What a user is told of conflicts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from hoodoo.concurrency.conflict import Conflict, Kind, Mine
from hoodoo.config.concurrency import CONFLICT_RETRIES
from hoodoo.errors import EarlyConflict, WriteConflict
from hoodoo.model.instant import InstantTime

TRY_AGAIN = f"try again, or have that done by {CONFLICT_RETRIES.name}"
"""What to do about most conflicts."""

_CONFLICTS_NAMED = 3
_GROUPS_NAMED = 3


def make_conflict_error(
    mine: Mine,
    conflicts: Sequence[Conflict],
    owners: Mapping[InstantTime, str] | None = None,
    *,
    in_progress: Collection[InstantTime] = (),
    is_early: bool = False,
) -> WriteConflict:
    """The error for these conflicts; `owners` says who made an instant that does not tell.

    `in_progress`: those of the others that have not committed yet. `is_early`: the write has not
    been finished.
    """
    descriptions = [
        _describe_conflict(conflict, owners or {}, in_progress)
        for conflict in conflicts[:_CONFLICTS_NAMED]
    ]
    if len(conflicts) > _CONFLICTS_NAMED:
        descriptions.append(f"and {len(conflicts) - _CONFLICTS_NAMED} more")
    with_whom = "; ".join(descriptions)
    groups = {str(group) for conflict in conflicts for group in conflict.file_groups}
    kind = EarlyConflict if is_early else WriteConflict
    return kind(
        f"{mine.kind.value} {mine.time} conflicts with {with_whom}. "
        f"Nothing of it is visible: {_choose_advice(mine, conflicts)}",
        instant=mine.time,
        others=tuple(dict.fromkeys(conflict.other.time for conflict in conflicts)),
        file_groups=tuple(sorted(groups)),
    )


def _describe_conflict(
    conflict: Conflict, owners: Mapping[InstantTime, str], in_progress: Collection[InstantTime]
) -> str:
    other = conflict.other
    still = ", in progress" if other.time in in_progress else ""
    owner = other.owner or owners.get(other.time)
    by = f" by {owner}" if owner else ""
    named = ", ".join(map(str, conflict.file_groups[:_GROUPS_NAMED]))
    more = len(conflict.file_groups) - _GROUPS_NAMED
    groups = f" {named}" + (f" and {more} more" if more > 0 else "")
    return (
        f"{other.instant.action.value} {other.time} ({other.operation}{still}{by}): "
        f"{conflict.reason}{groups if named else ''}"
    )


def _choose_advice(mine: Mine, conflicts: Sequence[Conflict]) -> str:
    if mine.kind is not Kind.INGESTION:
        return "plan it anew"
    if any(c.other.is_pending(Kind.CLUSTERING, Kind.LOG_COMPACTION) for c in conflicts):
        return "run the pending plan, or roll it back, and try again"
    return TRY_AGAIN
