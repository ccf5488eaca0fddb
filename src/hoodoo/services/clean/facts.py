"""The facts of a clean: what is kept, which partitions are worth a look, and their files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hoodoo.config.retention import (
    CLEAN_PARTITION_PATTERN,
    CLEAN_PARTITIONS,
    CLEAN_POLICY,
    COMMITS_RETAINED,
    COMMITS_TO_CLEAN,
    HOURS_RETAINED,
    INCREMENTAL_CLEAN,
    VERSIONS_RETAINED,
    CleanPolicy,
)
from hoodoo.errors import ObjectNotFound
from hoodoo.model.commit import NO_COMMIT, CleanMetadata, CommitMetadata, SavepointMetadata
from hoodoo.model.files import DataFile
from hoodoo.model.instant import Action, Instant, InstantTime, from_wall_ms
from hoodoo.model.paths import PartitionPath
from hoodoo.model.plans import CleanerPlan, CompactionPlan, RequestedReplaceMetadata
from hoodoo.read.file_listing import DirectoryLister, data_files, find_replaced, group_files
from hoodoo.recovery.strays import whole_path
from hoodoo.runtime.engine import REQUEST_BYTES, Engine
from hoodoo.runtime.env import Env
from hoodoo.services.clean.plan import (
    HORIZON_KEY,
    SAVEPOINTS_KEY,
    CleanFacts,
    LastClean,
    RetainedViews,
    Retention,
    choose_retained_views,
    find_newly_settled_commits,
    plan_clean,
)
from hoodoo.table.ref import TableRef
from hoodoo.table.timeline import Timeline, now_wall_ms, read_commit, read_metadata, read_plan

_HOUR_MS = 3_600_000
_LOOKS_IN_VAIN = 10
"""After so many commits that left nothing to clean, an empty clean spares the next one the look."""


@dataclass(frozen=True, slots=True)
class ListPartitionTask:
    """A partition to list: what a task gets."""

    env: Env
    partition: PartitionPath

    @property
    def size_bytes(self) -> int:
        """So that an engine knows how much work it is."""
        return REQUEST_BYTES


def prepare_plan(ref: TableRef, engine: Engine, timeline: Timeline) -> CleanerPlan | None:
    """What is to be cleaned as of a timeline; None if nothing is, and nothing needs to be told."""
    last, retained_views = load_last_clean(ref, timeline), load_retained_views(ref, timeline)
    retention = load_retention(ref)
    if retained_views.earliest is None and not retention.keeps_versions:
        return None
    partitions_and_looks = _find_partitions(ref, timeline, retained_views, last)
    is_full = partitions_and_looks is None
    partitions, looks = (
        partitions_and_looks if partitions_and_looks is not None else (_list_partitions(ref), 0)
    )
    if not partitions and looks <= _LOOKS_IN_VAIN:
        return None
    places = [ListPartitionTask(ref.env, partition) for partition in partitions]
    files_by_partition = engine.map(list_files_of_partition, places)
    files = [file for partition_files in files_by_partition for file in partition_files]
    groups, visibility = group_files(
        ref, files, timeline.visibility(start=timeline.oldest_active_write)
    )
    times = {piece.base_time for group in groups for piece in group.slices}
    latest = timeline.latest_commit
    plan = plan_clean(
        CleanFacts(
            retention=retention,
            retained_views=retained_views,
            groups=groups,
            completions={time: visibility.completion_of(time) or time for time in times},
            replaced_groups=find_replaced(ref, timeline) if groups else {},
            protected_files=load_protected_files(ref, timeline),
            last_commit=latest.requested_time if latest else None,
            savepoints=sorted(_completed_savepoints(timeline)),
            file_counts={
                p: len(partition_files)
                for p, partition_files in zip(partitions, files_by_partition, strict=True)
            },
            floor=last.floor if last is not None else None,
            root=whole_path(ref, "").rstrip("/"),
        )
    )
    has_work = plan.file_paths_to_be_deleted_per_partition or plan.partitions_to_be_deleted
    moves_on = retained_views.earliest is not None and (is_full or looks > _LOOKS_IN_VAIN)
    return plan if has_work or moves_on else None


def load_retention(ref: TableRef) -> Retention:
    """What a clean of this table keeps."""
    config, policy = ref.config, ref.config.get(CLEAN_POLICY)
    most = config.get(COMMITS_TO_CLEAN)
    match policy:
        case CleanPolicy.KEEP_LATEST_COMMITS:
            return Retention(policy, config.get(COMMITS_RETAINED), most_commits=most)
        case CleanPolicy.KEEP_LATEST_FILE_VERSIONS:
            return Retention(policy, config.get(VERSIONS_RETAINED))
        case CleanPolicy.KEEP_LATEST_BY_HOURS:
            now_ms = now_wall_ms(ref.env.clock, ref.properties.timeline_zone)
            since = from_wall_ms(now_ms - config.get(HOURS_RETAINED) * _HOUR_MS)
            return Retention(policy, since=since, most_commits=most)


def load_retained_views(ref: TableRef, timeline: Timeline) -> RetainedViews:
    """The views that a clean as of this timeline keeps."""
    pending = [instant for instant in timeline.pending if instant.action.writes_data]
    last = load_last_clean(ref, timeline)
    return choose_retained_views(load_retention(ref), timeline.commits.instants, pending, last)


def load_last_clean(ref: TableRef, timeline: Timeline) -> LastClean | None:
    """What the last completed clean says."""
    cleans = [instant for instant in timeline.completed if instant.action is Action.CLEAN]
    if not cleans:
        return None
    try:
        metadata = read_metadata(ref.env, ref.properties.timeline_paths, cleans[-1])
    except ObjectNotFound:  # archived meanwhile
        return None
    if not isinstance(metadata, CleanMetadata):
        return None
    extra = metadata.extra_metadata or {}
    times = map(InstantTime, filter(None, extra.get(SAVEPOINTS_KEY, "").split(",")))
    horizon = extra.get(HORIZON_KEY)
    return LastClean(
        earliest=InstantTime(metadata.earliest_commit_to_retain) or None,
        horizon=InstantTime(horizon) if horizon else None,
        savepoints=frozenset(times),
        last_commit=InstantTime(metadata.last_completed_commit_timestamp) or None,
        floor=InstantTime(metadata.floor) or None,
    )


def load_protected_files(ref: TableRef, timeline: Timeline) -> frozenset[str]:
    """Names of files that savepoints protect, or that pending plans read."""
    env, layout = ref.env, ref.properties.timeline_paths
    protected_files: set[str] = set()
    for savepoint in timeline.savepoints.completed:
        metadata = read_metadata(env, layout, savepoint)
        if isinstance(metadata, SavepointMetadata):
            for each in metadata.partition_metadata.values():
                protected_files.update(each.savepoint_data_file)
    for instant in timeline.pending:
        if instant.action.writes_data:
            protected_files.update(_planned_files(ref, instant))
    return frozenset(protected_files)


def _planned_files(ref: TableRef, instant: Instant) -> Iterator[str]:
    try:
        plan = read_plan(ref.env, ref.properties.timeline_paths, instant)
    except ObjectNotFound:
        return
    if isinstance(plan, RequestedReplaceMetadata):
        paths = plan.clustering_plan.file_names() if plan.clustering_plan else iter(())
    else:
        paths = plan.file_names() if isinstance(plan, CompactionPlan) else iter(())
    for path in paths:
        yield path.rpartition("/")[2]


def list_files_of_partition(place: ListPartitionTask) -> list[DataFile]:
    """The data files of one partition."""
    return list(data_files(place.partition, place.env.storage.list(place.partition)))


def _completed_savepoints(timeline: Timeline) -> set[InstantTime]:
    return {instant.requested_time for instant in timeline.savepoints.completed}


def _find_partitions(
    ref: TableRef, timeline: Timeline, retained_views: RetainedViews, last: LastClean | None
) -> tuple[Sequence[PartitionPath], int] | None:
    """Where commits took the place of others since the last clean, and how many were looked at.

    None if that cannot be told: then all partitions are looked at.
    """
    if last is None or last.earliest is None or retained_views.earliest is None:
        return None
    is_gapless = (
        timeline.oldest_active_write is not None and timeline.oldest_active_write <= last.earliest
    )
    is_unprotected = bool(last.savepoints - _completed_savepoints(timeline))
    if not ref.config.get(INCREMENTAL_CLEAN) or is_unprotected or not is_gapless:
        return None
    partitions: set[PartitionPath] = set()
    settled_commits = list(find_newly_settled_commits(retained_views, last, timeline.commits))
    for commit in settled_commits:
        partitions.update(_outdated(read_commit(ref.env, ref.properties.timeline_paths, commit)))
    return sorted(partitions), len(settled_commits)


def _outdated(metadata: CommitMetadata) -> Iterator[PartitionPath]:
    """Partitions in which a commit made a new version of a file group, or took one out."""
    for partition, stat in metadata.stats():
        is_update = stat.prev_commit not in (None, "", NO_COMMIT) and not stat.is_log
        if is_update or metadata.operation.is_table_service:
            yield partition
    for group in metadata.replaced_file_groups():
        yield group.partition


def _list_partitions(ref: TableRef) -> list[PartitionPath]:
    partitions = DirectoryLister(ref.env, ref.properties.keys).partitions()
    if ref.config.get(INCREMENTAL_CLEAN):
        return partitions
    partition_filter = ref.config.get(CLEAN_PARTITIONS)
    pattern = ref.config.get(CLEAN_PARTITION_PATTERN)
    if partition_filter:
        return [partition for partition in partitions if partition in partition_filter]
    return [p for p in partitions if pattern is None or pattern.fullmatch(p)]
