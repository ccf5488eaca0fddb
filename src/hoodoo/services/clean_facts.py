"""The facts of a clean: what is kept, which partitions are worth a look, and their files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hoodoo.config.upkeep import (
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
from hoodoo.engine.engine import REQUEST_BYTES, Engine
from hoodoo.env import Env
from hoodoo.errors import NotFound
from hoodoo.model.commit import CleanMetadata, CommitMetadata, SavepointMetadata
from hoodoo.model.files import DataFile
from hoodoo.model.instant import Action, Instant, InstantTime, from_wall_ms
from hoodoo.model.paths import PartitionPath
from hoodoo.model.plan import CleanerPlan, CompactionPlan, RequestedReplaceMetadata
from hoodoo.model.stats import NO_COMMIT
from hoodoo.recovery.files import whole_path
from hoodoo.services.clean_plan import (
    HORIZON_KEY,
    SAVEPOINTS_KEY,
    CleanFacts,
    Kept,
    LastClean,
    Retention,
    choose_kept,
    find_touched,
    plan_clean,
)
from hoodoo.table.groups import find_replaced, group_files
from hoodoo.table.listing import DirectoryLister, data_files
from hoodoo.table.ref import TableRef
from hoodoo.timeline.load import read_commit, read_metadata, read_plan
from hoodoo.timeline.timeline import Timeline
from hoodoo.timeline.zone import now_wall_ms

_HOUR_MS = 3_600_000
_LOOKS_IN_VAIN = 10
"""After so many commits that left nothing to clean, an empty clean spares the next one the look."""


@dataclass(frozen=True, slots=True)
class Place:
    """A partition to list: what a task gets."""

    env: Env
    partition: PartitionPath

    @property
    def size_bytes(self) -> int:
        """So that an engine knows how much work it is."""
        return REQUEST_BYTES


def prepare_plan(ref: TableRef, engine: Engine, timeline: Timeline) -> CleanerPlan | None:
    """What is to be cleaned as of a timeline; None if nothing is, and nothing needs to be told."""
    last, kept = load_last_clean(ref, timeline), choose_kept_views(ref, timeline)
    retention = load_retention(ref)
    if kept.earliest is None and not retention.keeps_versions:
        return None
    touched = _find_partitions(ref, timeline, kept, last)
    is_full = touched is None
    partitions, looks = touched if touched is not None else (_list_partitions(ref), 0)
    if not partitions and looks <= _LOOKS_IN_VAIN:
        return None
    places = [Place(ref.env, partition) for partition in partitions]
    listed = engine.map(list_files_of_partition, places)
    files = [file for found in listed for file in found]
    groups, visibility = group_files(ref, files, timeline.visibility(start=timeline.start))
    times = {piece.base_time for group in groups for piece in group.slices}
    latest = timeline.latest_commit
    plan = plan_clean(
        CleanFacts(
            retention=retention,
            kept=kept,
            groups=groups,
            completions={time: visibility.completion_of(time) or time for time in times},
            replaced=find_replaced(ref, timeline) if groups else {},
            spared=load_spared(ref, timeline),
            last_commit=latest.requested_time if latest else None,
            savepoints=sorted(_completed_savepoints(timeline)),
            file_counts={p: len(found) for p, found in zip(partitions, listed, strict=True)},
            floor=last.floor if last is not None else None,
            root=whole_path(ref, "").rstrip("/"),
        )
    )
    has_work = plan.file_paths_to_be_deleted_per_partition or plan.partitions_to_be_deleted
    moves_on = kept.earliest is not None and (is_full or looks > _LOOKS_IN_VAIN)
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


def choose_kept_views(ref: TableRef, timeline: Timeline) -> Kept:
    """The views that a clean as of this timeline keeps."""
    pending = [instant for instant in timeline.pending if instant.action.writes_data]
    last = load_last_clean(ref, timeline)
    return choose_kept(load_retention(ref), timeline.commits.instants, pending, last)


def load_last_clean(ref: TableRef, timeline: Timeline) -> LastClean | None:
    """What the last completed clean says."""
    cleans = [instant for instant in timeline.completed if instant.action is Action.CLEAN]
    if not cleans:
        return None
    try:
        metadata = read_metadata(ref.env, ref.properties.timeline, cleans[-1])
    except NotFound:  # archived meanwhile
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


def load_spared(ref: TableRef, timeline: Timeline) -> frozenset[str]:
    """Names of files that savepoints protect, or that pending plans read."""
    env, layout = ref.env, ref.properties.timeline
    spared: set[str] = set()
    for savepoint in timeline.savepoints.completed:
        metadata = read_metadata(env, layout, savepoint)
        if isinstance(metadata, SavepointMetadata):
            for each in metadata.partition_metadata.values():
                spared.update(each.savepoint_data_file)
    for instant in timeline.pending:
        if instant.action.writes_data:
            spared.update(_planned_files(ref, instant))
    return frozenset(spared)


def _planned_files(ref: TableRef, instant: Instant) -> Iterator[str]:
    try:
        plan = read_plan(ref.env, ref.properties.timeline, instant)
    except NotFound:
        return
    if isinstance(plan, RequestedReplaceMetadata):
        paths = plan.clustering_plan.file_names() if plan.clustering_plan else iter(())
    else:
        paths = plan.file_names() if isinstance(plan, CompactionPlan) else iter(())
    for path in paths:
        yield path.rpartition("/")[2]


def list_files_of_partition(place: Place) -> list[DataFile]:
    """The data files of one partition."""
    return list(data_files(place.partition, place.env.storage.list(place.partition)))


def _completed_savepoints(timeline: Timeline) -> set[InstantTime]:
    return {instant.requested_time for instant in timeline.savepoints.completed}


def _find_partitions(
    ref: TableRef, timeline: Timeline, kept: Kept, last: LastClean | None
) -> tuple[Sequence[PartitionPath], int] | None:
    """Where commits took the place of others since the last clean, and how many were looked at.

    None if that cannot be told: then all partitions are looked at.
    """
    if last is None or last.earliest is None or kept.earliest is None:
        return None
    is_gapless = timeline.start is not None and timeline.start <= last.earliest
    is_unprotected = bool(last.savepoints - _completed_savepoints(timeline))
    if not ref.config.get(INCREMENTAL_CLEAN) or is_unprotected or not is_gapless:
        return None
    partitions: set[PartitionPath] = set()
    touched = list(find_touched(kept, last, timeline.commits))
    for commit in touched:
        partitions.update(_outdated(read_commit(ref.env, ref.properties.timeline, commit)))
    return sorted(partitions), len(touched)


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
    selected = ref.config.get(CLEAN_PARTITIONS)
    pattern = ref.config.get(CLEAN_PARTITION_PATTERN)
    if selected:
        return [partition for partition in partitions if partition in selected]
    return [p for p in partitions if pattern is None or pattern.fullmatch(p)]
