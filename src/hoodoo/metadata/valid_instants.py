"""Which instants count when a metadata table is read.

A commit writes to the metadata table before it is completed. Until then readers must not see what
it wrote, so blocks of log files count by the instant in their header. Base files are not filtered:
a compaction takes in nothing whose instant is pending.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hoodoo.model.instant import Action, Instant, InstantTime
from hoodoo.model.metadata_table import SOLO_TIME

_UNDOING = (Action.ROLLBACK, Action.RESTORE)


def valid_instants(
    data: Iterable[Instant],
    metadata: Iterable[Instant],
    *,
    rolled_back: Mapping[InstantTime, Iterable[InstantTime]] | None = None,
) -> frozenset[InstantTime]:
    """The instants whose blocks count, by the timelines of the table and of its metadata table.

    `rolled_back` has, by the time of each completed rollback and restore of the table, what it
    undid: blocks of those are undone in the metadata table too, by its own rollbacks.
    """
    data = list(data)
    completed = {instant.requested_time for instant in data if instant.is_completed}
    unfinished = {instant.requested_time for instant in data} - completed
    valid = set(completed)
    for instant in metadata:
        time = instant.requested_time
        # A delta commit that the table's timeline does not know: archived, or an index's build.
        counts = instant.action is Action.DELTA_COMMIT and time not in unfinished
        is_own = instant.action in _UNDOING or time.startswith(SOLO_TIME)
        if instant.is_completed and (counts or is_own):
            valid.add(time)
    oldest = min(valid, default=None)
    for time, undone in (rolled_back or {}).items():
        if oldest is not None and time > oldest:
            valid.update(undone)
    return frozenset(valid)
