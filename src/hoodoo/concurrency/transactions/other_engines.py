"""Beside engines that know no head: what they did to a commit while its writer had lost the lock.

Apache Hudi goes by the lock alone. A writer that loses it between its last look at the timeline and
its completed file must look once more before it tells anyone that it has committed; and whoever
finishes the decision of a dead writer must look whether such an engine has gone on without it.
"""

from __future__ import annotations

from hoodoo.concurrency.conflicts.changes_since import load_concurrent_instant
from hoodoo.concurrency.conflicts.rules import collect_group_effects, identify_by_bucket
from hoodoo.concurrency.heartbeats import read_heartbeat
from hoodoo.errors import ObjectNotFound
from hoodoo.format.timeline.instant_files import Metadata
from hoodoo.model.commit import WRITER_KEY, CommitMetadata
from hoodoo.model.instant import Action, Instant, InstantTime
from hoodoo.model.paths import TimelinePaths
from hoodoo.model.plans import CompactionPlan, RequestedReplaceMetadata
from hoodoo.runtime.env import Env
from hoodoo.table.timeline import (
    Timeline,
    instant_path,
    load_rollback_targets,
    load_timeline,
    read_commit,
    read_plan,
)


def find_void_reason(
    env: Env,
    timeline_paths: TimelinePaths,
    inflight: Instant,
    metadata: Metadata,
    *,
    decision_timeline: Timeline,
) -> str | None:
    """Why an instant that was completed without the lock cannot stand; None if it can.

    `decision_timeline` is the timeline that it was decided on. Order: timeline; the instant's
    inflight file; what others did that it does not know of; its own files.
    """
    now, time = load_timeline(env, timeline_paths), inflight.requested_time
    if not env.storage.exists(instant_path(timeline_paths, inflight)):
        return "another engine rolled it back"
    rollback = load_rollback_targets(env, timeline_paths, now.pending).get(time)
    if rollback is not None:
        return f"rollback {rollback} of another engine is about it"
    if not isinstance(metadata, CommitMetadata):
        return None
    known_instants = {instant for instant in decision_timeline if instant.is_completed}
    others = [i for i in now if i not in known_instants and i.requested_time != time]
    if any(_is_built_on(env, timeline_paths, instant, time) for instant in others):
        return None
    for instant in others:
        if not _is_ours(env, timeline_paths, instant):
            reason = _find_overlap(env, timeline_paths, instant, metadata)
            if reason is not None:
                return reason
    for _, stat in metadata.stats():
        if stat.path and not env.storage.exists(stat.path):
            return f"another engine deleted {stat.path}"
    return None


def find_overtaker(
    env: Env,
    timeline_paths: TimelinePaths,
    completion_time: InstantTime,
    metadata: Metadata,
    timeline: Timeline,
) -> Instant | None:
    """The instant of another engine that went on without a decided commit, if there is one.

    `completion_time` is the commit's completion time, which is above all that its writer saw.
    """
    if not isinstance(metadata, CommitMetadata):
        return None
    for instant in timeline:
        is_later = (
            max(instant.requested_time, instant.completion_or_requested_time) > completion_time
        )
        if not is_later or _is_ours(env, timeline_paths, instant):
            continue
        is_write_in_progress = instant.is_pending and instant.action.completed_as is instant.action
        if is_write_in_progress and instant.action is not Action.RESTORE:
            continue  # it will look for others before it commits
        if _find_overlap(env, timeline_paths, instant, metadata) is not None:
            return instant
    return None


def _find_overlap(
    env: Env, timeline_paths: TimelinePaths, instant: Instant, mine: CommitMetadata
) -> str | None:
    if instant.action is Action.RESTORE:
        return f"{instant} of another engine takes commits back"
    other = load_concurrent_instant(env, timeline_paths, instant)
    groups = {identify_by_bucket(group) for group in collect_group_effects(mine)}
    if other is not None and groups.intersection(map(identify_by_bucket, other.group_effects)):
        return f"{instant} of another engine touches the same file groups"
    return None


def _is_built_on(
    env: Env, timeline_paths: TimelinePaths, instant: Instant, time: InstantTime
) -> bool:
    """Whether a commit rewrote, or a plan names, what this instant wrote: then it has seen it."""
    if instant.is_completed and instant.action.writes_data:
        stats = read_commit(env, timeline_paths, instant).stats()
        return any(stat.prev_commit == time for _, stat in stats)
    if instant.is_pending and instant.action.completed_as is not instant.action:
        plan = read_plan(env, timeline_paths, instant)
        names = plan.file_names() if isinstance(plan, CompactionPlan) else ()
        if isinstance(plan, RequestedReplaceMetadata) and plan.clustering_plan is not None:
            names = plan.clustering_plan.file_names()
        return any(time in name for name in names)
    return False


def _is_ours(env: Env, timeline_paths: TimelinePaths, instant: Instant) -> bool:
    """Whether an instant was made by an engine that knows the head, and so knows this commit."""
    if instant.is_completed:
        if not instant.action.writes_data:
            return False
        return WRITER_KEY in read_commit(env, timeline_paths, instant).extra_metadata
    try:
        return read_heartbeat(env, instant.requested_time) is not None
    except ObjectNotFound:
        return False
