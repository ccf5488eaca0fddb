"""Which files a clean deletes. Pure: facts in, a plan out.

A version of a file group (a slice) may go once a later one takes its place in every view that is
promised: reads as of the earliest commit that is kept and all later ones, incremental reads that
end there, and what writers at work have planned on. What savepoints and pending plans name stays.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from hoodoo.config.retention import CleanPolicy
from hoodoo.model.commit import FLOOR_KEY
from hoodoo.model.files import FileGroup, FileGroupId, FileSlice
from hoodoo.model.instant import Instant, InstantTime
from hoodoo.model.paths import PartitionPath, join
from hoodoo.model.plans import ActionInstant, CleanerPlan, CleanFileInfo

SAVEPOINTS_KEY = "savepointed_timestamps"
"""The extra metadata of plans and completed cleans that tells which savepoints there were."""
HORIZON_KEY = "hoodoo.clean.horizon"
"""The extra metadata that tells which commits were too young to take the place of others."""


@dataclass(frozen=True, slots=True)
class Retention:
    """What a clean keeps."""

    policy: CleanPolicy = CleanPolicy.KEEP_LATEST_COMMITS
    count: int = 10
    """Of commits, or of versions."""
    since: InstantTime | None = None
    """Commits requested from then on are kept, where the policy goes by hours."""
    most_commits: int = 2**63 - 1
    """By how many commits one clean moves on."""

    @property
    def keeps_versions(self) -> bool:
        return self.policy is CleanPolicy.KEEP_LATEST_FILE_VERSIONS


@dataclass(frozen=True, slots=True)
class LastClean:
    """What the last completed clean left."""

    earliest: InstantTime | None
    """The earliest commit that it kept."""
    horizon: InstantTime | None = None
    savepoints: frozenset[InstantTime] = frozenset()
    last_commit: InstantTime | None = None
    """The newest commit when it was planned."""
    floor: InstantTime | None = None
    """The earliest commit whose files are all there."""


@dataclass(frozen=True, slots=True)
class RetainedViews:
    """The views of the table that a clean keeps."""

    earliest: Instant | None
    """The earliest commit that can be read as of; None where the policy goes by versions."""
    horizon: InstantTime | None
    """A commit that completed later takes nobody's place yet; None: no commit is too young."""

    def is_settled(self, requested_time: InstantTime, completion_time: InstantTime) -> bool:
        """Whether every view that is kept sees this commit."""
        if self.earliest is not None and requested_time >= self.earliest.requested_time:
            return False
        return self.horizon is None or completion_time <= self.horizon


@dataclass(frozen=True, slots=True)
class CleanFacts:
    """What a plan is made of."""

    retention: Retention
    retained_views: RetainedViews
    groups: Sequence[FileGroup]
    """Those of the partitions that are looked at, replaced ones too, with all visible slices."""
    completions: Mapping[InstantTime, InstantTime]
    replaced_groups: Mapping[FileGroupId, Instant] = field(default_factory=dict)
    """By which commit file groups were taken out."""
    protected_files: Collection[str] = frozenset()
    """Names of files that savepoints and pending plans need."""
    last_commit: InstantTime | None = None
    savepoints: Sequence[InstantTime] = ()
    file_counts: Mapping[PartitionPath, int] = field(default_factory=dict)
    """How many data files each partition has that is looked at, of whatever instant."""
    floor: InstantTime | None = None
    """The earliest commit whose files are all there now."""
    root: str = ""
    """The table's place, which stands in front of the paths of a plan."""


def choose_retained_views(
    retention: Retention,
    commits: Sequence[Instant],
    pending: Sequence[Instant],
    last: LastClean | None = None,
) -> RetainedViews:
    """The views to keep: `commits` are the completed ones, `pending` writes and plans of services.

    The earliest commit never moves back, and never past the last one before what is pending.
    """
    first_pending = min((instant.requested_time for instant in pending), default=None)
    if retention.keeps_versions:
        return RetainedViews(None, first_pending)
    earliest = _choose_earliest(retention, commits, last)
    if earliest and first_pending and earliest.requested_time > first_pending:
        before = [commit for commit in commits if commit.requested_time < first_pending]
        earliest = before[-1] if before else None
    if earliest and last and last.earliest and earliest.requested_time < last.earliest:
        later = (commit for commit in commits if commit.requested_time >= last.earliest)
        earliest = next(later, earliest)
    if earliest is None:
        return RetainedViews(None, None)
    ends = [
        c.completion_or_requested_time
        for c in commits
        if c.requested_time >= earliest.requested_time
    ]
    return RetainedViews(earliest, min([*ends, *filter(None, (first_pending,))]))


def _choose_earliest(
    retention: Retention, commits: Sequence[Instant], last: LastClean | None
) -> Instant | None:
    if retention.policy is CleanPolicy.KEEP_LATEST_COMMITS:
        at = len(commits) - retention.count
    else:
        since = retention.since or InstantTime("")
        at = next((n for n, c in enumerate(commits) if c.requested_time >= since), -1)
    if at <= 0:
        return None
    from_last = last.earliest if last is not None and last.earliest else InstantTime("")
    begin = next((n for n, c in enumerate(commits) if c.requested_time >= from_last), at)
    return commits[min(at, begin + retention.most_commits)]


def find_newly_settled_commits(
    retained_views: RetainedViews, last: LastClean, commits: Iterable[Instant]
) -> Iterator[Instant]:
    """Commits that every kept view sees, and that the last clean did not go by yet."""
    earliest = last.earliest or InstantTime("")
    horizon = last.horizon or earliest
    for commit in commits:
        is_new = commit.requested_time >= earliest or commit.completion_or_requested_time > horizon
        if is_new and retained_views.is_settled(
            commit.requested_time, commit.completion_or_requested_time
        ):
            yield commit


def plan_clean(facts: CleanFacts) -> CleanerPlan:
    """The plan, which may have nothing to delete."""
    files_to_delete: dict[PartitionPath, list[str]] = {}
    for group in facts.groups:
        for piece in _choose_slices(facts, group):
            names = _file_names(piece)
            if not facts.protected_files or not any(
                name in facts.protected_files for name in names
            ):
                files_to_delete.setdefault(group.id.partition, []).extend(names)
    earliest = facts.retained_views.earliest
    extra = {SAVEPOINTS_KEY: ",".join(facts.savepoints)} if facts.savepoints else {}
    if facts.retained_views.horizon is not None:
        extra[HORIZON_KEY] = facts.retained_views.horizon
    if not files_to_delete and earliest is not None:
        extra[FLOOR_KEY] = facts.floor or ""
    return CleanerPlan(
        earliest_instant_to_retain=_describe(earliest) if earliest is not None else None,
        last_completed_commit_timestamp=facts.last_commit or "",
        policy=facts.retention.policy.value,
        files_to_be_deleted_per_partition={},
        file_paths_to_be_deleted_per_partition={
            partition: tuple(
                CleanFileInfo(
                    file_path=f"{facts.root}/{join(partition, name)}", is_bootstrap_base_file=False
                )
                for name in sorted(names)
            )
            for partition, names in sorted(files_to_delete.items())
        },
        partitions_to_be_deleted=tuple(
            partition
            for partition, count in sorted(facts.file_counts.items())
            if partition and count == len(files_to_delete.get(partition, ()))
        ),
        extra_metadata=extra,
    )


def drop_protected_files(plan: CleanerPlan, protected_files: Collection[str]) -> CleanerPlan:
    """The plan without files that have come to be needed since it was made."""
    planned_files = plan.file_paths_to_be_deleted_per_partition or {}
    remaining_files = {
        partition: tuple(info for info in infos if file_name(info) not in protected_files)
        for partition, infos in planned_files.items()
    }
    if remaining_files == planned_files:
        return plan
    planned_partitions = map(PartitionPath, plan.partitions_to_be_deleted or ())
    whole = [p for p in planned_partitions if remaining_files.get(p) == planned_files.get(p)]
    return replace(
        plan,
        file_paths_to_be_deleted_per_partition={
            p: infos for p, infos in remaining_files.items() if infos
        },
        partitions_to_be_deleted=tuple(whole),
    )


def file_name(info: CleanFileInfo) -> str:
    """The name of a file to delete, without its place."""
    return (info.file_path or "").rpartition("/")[2]


def _describe(instant: Instant) -> ActionInstant:
    return ActionInstant(
        requested_time=instant.requested_time,
        action=instant.action.value,
        state=instant.state.name,
    )


def _choose_slices(facts: CleanFacts, group: FileGroup) -> Sequence[FileSlice]:
    """The slices of a group that no kept view needs."""
    retained_views, retention = facts.retained_views, facts.retention
    if retained_views.earliest is None and not retention.keeps_versions:
        return ()
    replaced_by = facts.replaced_groups.get(group.id)
    if replaced_by is not None:
        is_gone = retained_views.is_settled(
            replaced_by.requested_time, replaced_by.completion_or_requested_time
        )
        return group.slices if is_gone else ()
    first_kept = 0
    for number, piece in enumerate(group.slices):
        completion_time = facts.completions.get(piece.base_time, piece.base_time)
        if retained_views.is_settled(piece.base_time, completion_time):
            first_kept = number
    if retention.keeps_versions:
        first_kept = min(first_kept, max(len(group.slices) - retention.count, 0))
    return group.slices[:first_kept]


def _file_names(piece: FileSlice) -> list[str]:
    base = [str(piece.base.name)] if piece.base is not None else []
    return [*base, *(str(log.name) for log in piece.logs)]
