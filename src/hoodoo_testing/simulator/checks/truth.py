"""A table as it lies in the store, for those who check what it must be like.

The store is read directly: neither the reader nor the timeline code of the table is trusted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from hoodoo.format.timeline import history
from hoodoo.format.timeline import instant_files as codec
from hoodoo.model import paths
from hoodoo.model.commit import CleanMetadata, CommitMetadata, RollbackMetadata
from hoodoo.model.files import instant_of_file, parse_data_file
from hoodoo.model.instant import REWRITE_ACTIONS, Action, Instant, InstantTime, State
from hoodoo.model.names import instant_name, parse_instant, parse_manifest
from hoodoo.model.paths import PartitionPath, TimelinePaths
from hoodoo.model.plans import CleanerPlan, CleanFileInfo, CompactionPlan, RestorePlan, RollbackPlan
from hoodoo.storage.memory import MemoryStorage

TIMELINE = TimelinePaths.of(2)
# Every look meets the same names again.
parse_timeline_name = lru_cache(maxsize=1 << 12)(parse_instant)
_PLAN_ACTIONS = frozenset({Action.ROLLBACK, Action.COMPACTION, Action.CLEAN, Action.RESTORE})


@dataclass(frozen=True, slots=True)
class StoredTable:
    """A table as it lies in the store."""

    instants: tuple[Instant, ...]
    """Every file of the timeline."""
    commits: Mapping[InstantTime, CommitMetadata]
    rolled_back: Mapping[str, InstantTime]
    """By completed rollbacks: which instant, by which."""
    to_roll_back: Mapping[str, InstantTime]
    """The same by rollbacks that are requested, whether or not they are completed."""
    plans: frozenset[InstantTime]
    """Compactions, log compactions and clusterings whose requested files are there."""
    compactions: Mapping[InstantTime, CompactionPlan]
    cleaned_files: frozenset[str]
    """Paths of files that clean plans name."""
    taken_back: frozenset[str]
    """Times of instants that restores are about, pending or completed."""
    archived_completions: Mapping[InstantTime, InstantTime]
    """What is in the history: completion times by requested time."""
    data_files: Mapping[str, InstantTime]

    @property
    def completed(self) -> list[Instant]:
        return [instant for instant in self.instants if instant.is_completed]

    def completion_of(self, time: InstantTime) -> InstantTime | None:
        """When an instant was completed."""
        here = (i.completion_time for i in self.completed if i.requested_time == time)
        return next(here, self.archived_completions.get(time))

    def named_files(self) -> set[str]:
        """Every file that a commit names."""
        return {
            stat.path
            for metadata in self.commits.values()
            for _, stat in metadata.stats()
            if stat.path
        }


def read_stored_table(store: MemoryStorage) -> StoredTable:
    """The table as it is now."""
    instants = tuple(list_timeline(store))
    commits: dict[InstantTime, CommitMetadata] = {}
    rolled_back: dict[str, InstantTime] = {}
    to_roll_back: dict[str, InstantTime] = {}
    compactions: dict[InstantTime, CompactionPlan] = {}
    cleaned_files: set[str] = set()
    taken_back: set[str] = set()
    for instant in instants:
        if not instant.is_completed and instant.state is not State.REQUESTED:
            continue
        data = store.read(f"{TIMELINE.active}/{instant_name(instant, layout=2)}")
        if instant.is_completed:
            match codec.decode(data, instant.action, State.COMPLETED):
                case CommitMetadata() as metadata:
                    commits[instant.requested_time] = metadata
                case RollbackMetadata(commits_rollback=targets):
                    rolled_back |= dict.fromkeys(targets, instant.requested_time)
        elif instant.action in _PLAN_ACTIONS:
            match codec.decode(data, instant.action, State.REQUESTED):
                case RollbackPlan(instant_to_rollback=info) if info is not None:
                    to_roll_back[info.commit_time] = instant.requested_time
                case CompactionPlan() as plan:
                    compactions[instant.requested_time] = plan
                case CleanerPlan(file_paths_to_be_deleted_per_partition=by_partition):
                    cleaned_files.update(_planned_paths(by_partition or {}))
                case RestorePlan(instants_to_rollback=infos):
                    taken_back.update(info.commit_time for info in infos)
    archived_completions = _look_into_history(store, commits, cleaned_files)
    return StoredTable(
        instants,
        commits,
        rolled_back,
        to_roll_back,
        frozenset(
            instant.requested_time
            for instant in instants
            if instant.action in REWRITE_ACTIONS and instant.state is State.REQUESTED
        ),
        compactions,
        frozenset(cleaned_files),
        frozenset(taken_back),
        archived_completions,
        dict(_data_files(store)),
    )


def _planned_paths(
    by_partition: Mapping[PartitionPath, Sequence[CleanFileInfo]],
) -> Iterator[str]:
    for partition, infos in by_partition.items():
        for info in infos:
            yield paths.join(partition, (info.file_path or "").rpartition("/")[2])


def _look_into_history(
    store: MemoryStorage, commits: dict[InstantTime, CommitMetadata], cleaned_files: set[str]
) -> dict[InstantTime, InstantTime]:
    """Read what the newest manifest names; archived commits and cleans are added to the others."""
    names = [entry.path.rpartition("/")[2] for entry in store.list(TIMELINE.history)]
    number = max((parse_manifest(name) or 0 for name in names), default=0)
    if paths.HISTORY_VERSION in names:  # else readers go by the newest manifest
        number = history.decode_version(store.read(f"{TIMELINE.history}/{paths.HISTORY_VERSION}"))
    if not number:
        return {}
    archived_completions: dict[InstantTime, InstantTime] = {}
    for entry in history.decode_manifest(store.read(f"{TIMELINE.history}/manifest_{number}")):
        for each in _decode_history(store.read(f"{TIMELINE.history}/{entry.file_name}")):
            archived_completions[each.requested_time] = each.completion_time or each.requested_time
            match codec.decode(each.metadata or b"", each.action, State.COMPLETED):
                case CommitMetadata() as metadata:
                    commits.setdefault(each.requested_time, metadata)
                case CleanMetadata(partition_metadata=by_partition):
                    for partition, partition_clean in by_partition.items():
                        file_names = partition_clean.success_delete_files
                        cleaned_files.update(paths.join(partition, name) for name in file_names)
    return archived_completions


_decode_history = lru_cache(maxsize=64)(history.decode_instants)


def list_timeline(store: MemoryStorage) -> Iterator[Instant]:
    """Every file of the active timeline."""
    for entry in store.list(TIMELINE.active):
        instant = parse_timeline_name(entry.path.rpartition("/")[2], layout=2)
        if instant is not None:
            yield instant


def _data_files(store: MemoryStorage) -> Iterator[tuple[str, InstantTime]]:
    for entry in store.list("", recursive=True):
        time = data_file_time(entry.path)
        if time is not None:
            yield entry.path, time


@lru_cache(maxsize=1 << 12)
def data_file_time(path: str) -> InstantTime | None:
    """The instant of a data file, or None for other paths."""
    if path.startswith(paths.META):
        return None
    partition, _, name = path.rpartition("/")
    file = parse_data_file(PartitionPath(partition), name, 0)
    return instant_of_file(file) if file is not None else None
