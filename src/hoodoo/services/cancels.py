"""How often writes got in the way of clusterings of a file group lately: where they go on and on,
a plan that yields to them starves, and is better made for what is colder.

Tombstones tell. They go by archival, and count for a day: then the file group may have cooled down.
"""

from __future__ import annotations

import base64
import logging
from collections import Counter
from collections.abc import Collection, Mapping

from hoodoo.concurrency.conflict import collect_touches
from hoodoo.config.clustering import CLUSTER_MOST_CANCELS
from hoodoo.errors import FormatError, NotFound
from hoodoo.format import json_object
from hoodoo.format import timeline as codec
from hoodoo.model import paths
from hoodoo.model.attempt import GOES_FIRST, AbortedPlan
from hoodoo.model.files import FileGroupId
from hoodoo.model.instant import Action, Instant, State, to_wall_ms
from hoodoo.services.pending import plan_groups
from hoodoo.table.ref import TableRef
from hoodoo.timeline.load import read_commit
from hoodoo.timeline.timeline import Timeline
from hoodoo.timeline.zone import now_wall_ms

log = logging.getLogger("hoodoo.services")

DAY_MS = 24 * 3_600_000


def count_cancels(ref: TableRef, timeline: Timeline) -> Mapping[FileGroupId, int]:
    """How many clusterings were cancelled within a day because of a write to the file group."""
    since = now_wall_ms(ref.env.clock, ref.properties.timeline_zone) - DAY_MS
    counts: Counter[FileGroupId] = Counter()
    for instant in timeline:
        is_aborted = instant.action is Action.CLUSTERING and instant.state is State.ABORTED
        if is_aborted and to_wall_ms(instant.requested_time) >= since:
            counts.update(_find_causes(ref, timeline, instant))
    return counts


def find_hot_groups(ref: TableRef, counts: Mapping[FileGroupId, int]) -> frozenset[FileGroupId]:
    """Those that plans that yield are to leave alone, by the settings."""
    most = ref.config.get(CLUSTER_MOST_CANCELS)
    return frozenset(group for group, count in counts.items() if most and count >= most)


def _find_causes(ref: TableRef, timeline: Timeline, instant: Instant) -> frozenset[FileGroupId]:
    """The file groups of a cancelled plan that a write had touched; none if nobody can tell."""
    try:
        data = ref.env.storage.read(paths.aborted(instant.requested_time))
        record = json_object.decode(data, AbortedPlan)
        plan = codec.decode(base64.b64decode(record.plan), instant.action, State.REQUESTED)
        written = _read_touches(ref, timeline, record.reason.partition(GOES_FIRST)[0])
    except NotFound:
        return frozenset()
    except (FormatError, ValueError) as error:
        log.warning("aborted_plan_unreadable time=%s error=%s", instant.requested_time, error)
        return frozenset()
    if plan is None:
        return frozenset()
    # An executor that lost its own conflict check names file groups in the reason.
    return frozenset(g for g in plan_groups(plan) if g in written or str(g) in record.reason)


def _read_touches(ref: TableRef, timeline: Timeline, time: str) -> Collection[FileGroupId]:
    write = timeline.find(time)
    if write is None or not write.is_completed or not write.action.writes_data:
        return ()
    return collect_touches(read_commit(ref.env, ref.properties.timeline, write))
