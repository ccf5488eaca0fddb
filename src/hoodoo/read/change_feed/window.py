"""The window of an incremental read, and the table at its two ends.

`Window` has the commits that completed in it, and what they touched. The rest takes a snapshot of
an end: its file slices, and whether they are all still there or a clean has deleted some.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from hoodoo.config.retention import (
    CLEAN_POLICY,
    COMMITS_RETAINED,
    HOURS_RETAINED,
    VERSIONS_RETAINED,
    CleanPolicy,
)
from hoodoo.errors import (
    ConfigError,
    InputError,
    ObjectNotFound,
    SnapshotCleaned,
    TimelineError,
    add_error_source,
)
from hoodoo.format.schema import arrow_from_avro
from hoodoo.format.timeline import instant_files as codec
from hoodoo.format.timeline.history import ArchivedInstant
from hoodoo.model import paths
from hoodoo.model.commit import CleanMetadata, CommitMetadata, RestoreMetadata
from hoodoo.model.files import (
    DataFile,
    FileGroup,
    FileGroupId,
    FileSlice,
    PartitionPredicate,
    Visibility,
    parse_data_file,
)
from hoodoo.model.instant import Action, Instant, InstantTime, State, from_wall_ms, to_wall_ms
from hoodoo.model.paths import PartitionPath
from hoodoo.model.plans import CleanerPlan, RestorePlan
from hoodoo.read.file_listing import FileFinder, find_replaced, group_files
from hoodoo.read.snapshot import Snapshot, take_snapshot
from hoodoo.table.history import load_history
from hoodoo.table.ref import TableRef
from hoodoo.table.schema import adapt_to_reader, resolve_schema, schema_json
from hoodoo.table.timeline import Timeline, parse_moment, read_commit, read_metadata, read_plan

# -- commits of a window ------------------------------------------------------------------------


EARLIEST = "earliest"
_LONGEST_WRITE_MS = 24 * 3_600_000
"""An archived commit that took longer than this is looked for in vain among those around it."""


@dataclass(frozen=True)
class Window:
    """The commits completed after `after` (None: all there ever were) and no later than `last`."""

    ref: TableRef
    timeline: Timeline
    """The active timeline, up to an instant below which nothing can appear any more."""
    archived_instants: tuple[ArchivedInstant, ...]
    """Archived instants, as far as they matter to the window: those from `archived_from` on."""
    archived_from: InstantTime | None
    after: InstantTime | None
    last: InstantTime | None
    """None: whatever there is."""
    commits: tuple[tuple[InstantTime, CommitMetadata], ...]

    @cached_property
    def times(self) -> frozenset[InstantTime]:
        """The requested times of the commits."""
        return frozenset(time for time, _ in self.commits)

    @cached_property
    def written(self) -> frozenset[FileGroupId]:
        """The file groups that the commits wrote to."""
        return frozenset().union(*(metadata.file_groups() for _, metadata in self.commits))

    @cached_property
    def replaced(self) -> frozenset[FileGroupId]:
        """The file groups that they took out."""
        return frozenset().union(*(m.replaced_file_groups() for _, m in self.commits))

    @property
    def moves_rows(self) -> bool:
        """Whether a row may have left a file group, and come to another of its partition."""
        writes = [m for _, m in self.commits if not m.operation.is_table_service]
        return bool(self.replaced) or len(writes) > 1


def load_window(ref: TableRef, *, since: str, until: str | None) -> Window:
    """The window between two moments: instants (then: when they completed), or times.

    `since` is excluded, `until` included; `since` may be "earliest".
    """
    timeline = load_gapless_timeline(ref)
    after = None if since.strip().lower() == EARLIEST else find_completion(ref, timeline, since)
    last = None if until is None else find_completion(ref, timeline, until)
    if last is not None and after is not None and last < after:
        raise InputError(f"the window ends ({until}) before it begins ({since})")
    begin = last if after is None else after
    begin_from = _choose_archived_from(timeline, begin)
    past_instants: list[ArchivedInstant] = []
    if begin_from is not None:
        past_instants = load_history(ref.env, ref.properties.timeline_paths, since=begin_from)
        past_instants = [one for one in past_instants if one.requested_time >= begin_from]
    if after is not None:
        _refuse_taken_back(ref, timeline, after, since)
    commits = () if after is None else tuple(_collect(ref, timeline, past_instants, after, last))
    return Window(ref, timeline, tuple(past_instants), begin_from, after, last, commits)


def ended_at(past_instant: ArchivedInstant) -> InstantTime:
    """When an archived instant completed; layout 1 does not record it."""
    return past_instant.completion_time or past_instant.requested_time


def load_gapless_timeline(ref: TableRef) -> Timeline:
    """The timeline up to a completed instant below which nothing can appear any more.

    Commits appear in the order of their completion times, but a listing takes its time: it may
    miss one that appears while it is under way, and have the next one. A second listing has all
    that were there when the first one ended.
    """
    first = ref.load_timeline()
    newest = max(
        (instant.completion_or_requested_time for instant in first.completed), default=None
    )
    again = ref.load_timeline()
    if newest is None:
        return again.filter(lambda instant: not instant.is_completed)
    return again.filter(
        lambda instant: not instant.is_completed or instant.completion_or_requested_time <= newest
    )


def find_completion(ref: TableRef, timeline: Timeline, text: str) -> InstantTime:
    """When the instant of this time completed; the time itself if there is no such instant."""
    moment = parse_moment(ref.env.clock, ref.properties.timeline_zone, text)
    instant = timeline.completed.find(moment)
    if instant is not None:
        return instant.completion_or_requested_time
    if timeline.oldest_active_write is not None and moment >= timeline.oldest_active_write:
        return moment
    history = load_history(ref.env, ref.properties.timeline_paths, since=moment)
    ends = (one.completion_time for one in history if one.requested_time == moment)
    return next((end for end in ends if end is not None), moment)


def _choose_archived_from(timeline: Timeline, begin: InstantTime | None) -> InstantTime | None:
    """From which time on archived instants matter to a window; None if none does.

    Instants are archived by requested time, windows go by completion time: one that is archived may
    have completed after others that are not.
    """
    if begin is None:
        return None
    start = timeline.oldest_active_write
    if start is not None and _move(begin, -_LONGEST_WRITE_MS) >= start:
        return None
    return _move(begin if start is None else min(begin, start), -_LONGEST_WRITE_MS)


def _move(time: InstantTime, by_ms: int) -> InstantTime:
    try:
        return from_wall_ms(to_wall_ms(time) + by_ms)
    except InputError:  # no calendar time: somebody typed zeros
        return InstantTime("0" * 17)


def _collect(
    ref: TableRef,
    timeline: Timeline,
    past_instants: list[ArchivedInstant],
    after: InstantTime,
    last: InstantTime | None,
) -> list[tuple[InstantTime, CommitMetadata]]:
    """The commits of a window, by requested time."""
    commits: dict[InstantTime, CommitMetadata] = {}
    for one in past_instants:
        if one.action.writes_data and after < ended_at(one) <= (last or ended_at(one)):
            metadata = codec.decode(one.metadata or b"", one.action, State.COMPLETED)
            if isinstance(metadata, CommitMetadata):
                commits[one.requested_time] = metadata
    for instant in timeline.commits:
        if (
            after
            < instant.completion_or_requested_time
            <= (last or instant.completion_or_requested_time)
        ):
            commit = read_commit(ref.env, ref.properties.timeline_paths, instant)
            commits[instant.requested_time] = commit
    return sorted(commits.items())


def _refuse_taken_back(ref: TableRef, timeline: Timeline, after: InstantTime, since: str) -> None:
    """A restore may have taken back what a follower has read already: it must start anew."""
    for restore in timeline:
        if restore.action is not Action.RESTORE or restore.state is State.ABORTED:
            continue
        if restore.is_completed and restore.completion_or_requested_time <= after:
            continue
        if any(time <= after for time in _find_taken_back(ref, restore)):
            raise TimelineError(
                f"cannot tell what changed since {since}: restore {restore.requested_time} took "
                'back commits from before it; start anew with since="earliest"'
            )


def _find_taken_back(ref: TableRef, restore: Instant) -> list[str]:
    """The instants that a restore took back, or is about to."""
    read = read_metadata if restore.is_completed else read_plan
    match read(ref.env, ref.properties.timeline_paths, restore):
        case RestoreMetadata(instants_to_rollback=times):
            return list(times)
        case RestorePlan(instants_to_rollback=infos):
            return [info.commit_time for info in infos]
    return []


# -- snapshots at its ends ----------------------------------------------------------------------


_KEEPING_MORE = {
    CleanPolicy.KEEP_LATEST_COMMITS: COMMITS_RETAINED.name,
    CleanPolicy.KEEP_LATEST_BY_HOURS: HOURS_RETAINED.name,
    CleanPolicy.KEEP_LATEST_FILE_VERSIONS: VERSIONS_RETAINED.name,
}


@dataclass(frozen=True)
class WindowFiles:
    """The data files of some partitions, and which clean has deleted others of theirs."""

    present: tuple[DataFile, ...]
    cleans_by_file: dict[DataFile, InstantTime]


def resolve_end_schema(window: Window) -> pa.Schema:
    """The schema of rows at the window's end, in which all its rows are read."""
    ref, (view, _) = window.ref, view_at(window, window.last)
    own = schema_json(ref, view)
    if own is None or own[1] == paths.PROPERTIES:  # no active commit tells: does an archived one?
        for one in reversed(window.archived_instants):
            commit = _decode_commit(one.action, one.metadata) if one.action.writes_data else None
            if commit is None or (window.last is not None and ended_at(one) > window.last):
                continue
            if not commit.operation.is_table_service and commit.schema_json:
                with add_error_source(ref.properties.timeline_paths.history):
                    return adapt_to_reader(ref, arrow_from_avro(commit.schema_json))
    schema = resolve_schema(ref, view)
    if schema is None:
        return take_snapshot(ref, timeline=window.timeline, ended_until=window.last).schema
    return schema


def list_files(window: Window, keep: PartitionPredicate) -> WindowFiles:
    """The files of partitions, and those of them that cleans took since the window began.

    Order: files, then cleans: a clean is on the timeline before it deletes the first file.
    """
    present = tuple(FileFinder(window.ref, window.timeline).files(keep))
    paths_there = {file.path for file in present}
    cleans_by_file = {
        file: clean
        for file, clean in _find_cleaned(window)
        if file.path not in paths_there and keep(file.partition, whole=True)
    }
    return WindowFiles(present, cleans_by_file)


def take_window_snapshot(
    window: Window, files: WindowFiles, moment: InstantTime | None, schema: pa.Schema
) -> Snapshot:
    """The table as it was when all had completed until a moment; None stands for the present.

    Files that are gone count as if they were there: `refuse_cleaned` looks for them.
    """
    view, visibility = view_at(window, moment)
    groups, visibility = group_files(
        window.ref, [*files.present, *files.cleans_by_file], visibility
    )
    replaced_groups = set(find_replaced(window.ref, view))
    for one in window.archived_instants:
        if one.action is Action.REPLACE_COMMIT and (moment is None or ended_at(one) <= moment):
            commit = _decode_commit(one.action, one.metadata)
            replaced_groups.update(commit.replaced_file_groups() if commit is not None else ())
    visible = (group for group in groups if group.id not in replaced_groups)
    ordered_groups = tuple(
        sorted(visible, key=lambda group: (group.id.partition, group.id.file_id))
    )
    return Snapshot(window.ref, view, visibility, ordered_groups, schema)


def view_at(window: Window, moment: InstantTime | None) -> tuple[Timeline, Visibility]:
    """What was completed at a moment; None stands for the present."""
    timeline = window.timeline
    view = timeline if moment is None else timeline.completed_by(moment)
    completions = {
        instant.requested_time: instant.completion_or_requested_time for instant in view.completed
    }
    oldest_write = timeline.oldest_active_write
    for one in window.archived_instants:
        if one.action.writes_data:
            oldest_write = (
                one.requested_time
                if oldest_write is None
                else min(oldest_write, one.requested_time)
            )
            if moment is None or ended_at(one) <= moment:
                completions.setdefault(one.requested_time, ended_at(one))
    return view, Visibility(completions, archived_before=oldest_write, until=moment)


def refuse_cleaned(
    window: Window, files: WindowFiles, view: Snapshot, groups: Collection[FileGroupId] | None
) -> None:
    """An error if a clean deleted files of these groups (None: all) of a view."""
    clean = _find_gap(files, view.groups, groups)
    if clean is None:
        return
    ref, moment = window.ref, view.visibility.until
    oldest = _find_oldest(window, files, view.schema)
    raise SnapshotCleaned(
        as_of=moment or "now",
        clean=clean,
        oldest_readable_instant=oldest,
        setting=_setting_that_keeps_more(ref),
    )


def _find_gap(
    files: WindowFiles, groups: Collection[FileGroup], group_ids: Collection[FileGroupId] | None
) -> InstantTime | None:
    """The clean that deleted a file of the newest slice of a group."""
    if not files.cleans_by_file:
        return None
    for group in groups:
        if group_ids is None or group.id in group_ids:
            for file in _files_of(group.latest):
                if file in files.cleans_by_file:
                    return files.cleans_by_file[file]
    return None


def _find_oldest(window: Window, files: WindowFiles, schema: pa.Schema) -> InstantTime | None:
    """The first commit that a window of these partitions may begin at."""
    for commit in sorted(
        window.timeline.commits, key=lambda instant: instant.completion_or_requested_time
    ):
        view = take_window_snapshot(window, files, commit.completion_or_requested_time, schema)
        if _find_gap(files, view.groups, None) is None:
            return commit.requested_time
    return None


def _setting_that_keeps_more(ref: TableRef) -> str:
    try:
        return _KEEPING_MORE[ref.config.get(CLEAN_POLICY)]
    except ConfigError:
        return COMMITS_RETAINED.name


def _files_of(slice_: FileSlice) -> Iterator[DataFile]:
    if slice_.base is not None:
        yield slice_.base
    yield from slice_.logs


def _find_cleaned(window: Window) -> Iterator[tuple[DataFile, InstantTime]]:
    """What cleans deleted, or are deleting, since the window began, and which one did.

    Those from before it took nothing that a view since then would need.
    """
    begin = window.after if window.after is not None else window.last
    if begin is None:
        return
    for one in window.archived_instants:
        if one.action is Action.CLEAN and ended_at(one) > begin:
            metadata = codec.decode(one.metadata or b"", one.action, State.COMPLETED)
            for file in _deleted_files(metadata):
                yield file, one.requested_time
    for instant in window.ref.load_timeline():
        is_over = instant.is_completed and instant.completion_or_requested_time <= begin
        if instant.action is Action.CLEAN and instant.state is not State.ABORTED and not is_over:
            for file in _deleted_files(_read_clean(window.ref, instant)):
                yield file, instant.requested_time


def _read_clean(ref: TableRef, instant: Instant) -> codec.Metadata | None:
    """What a clean says that it deleted, or is about to."""
    layout = ref.properties.timeline_paths
    try:
        if instant.is_completed:
            return read_metadata(ref.env, layout, instant)
        return read_plan(ref.env, layout, instant)
    except ObjectNotFound:  # it was archived, or completed, meanwhile
        for one in load_history(ref.env, layout, since=instant.requested_time):
            if one.requested_time == instant.requested_time and one.action is Action.CLEAN:
                return codec.decode(one.metadata or b"", one.action, State.COMPLETED)
        raise


def _deleted_files(metadata: codec.Metadata | None) -> Iterator[DataFile]:
    names: list[tuple[PartitionPath, str]] = []
    match metadata:
        case CleanMetadata(partition_metadata=partitions):
            for partition, one in partitions.items():
                names += [(partition, file) for file in one.success_delete_files]
        case CleanerPlan() as plan:
            for partition, infos in (plan.file_paths_to_be_deleted_per_partition or {}).items():
                names += [(partition, info.file_path or "") for info in infos]
            for partition, files in (plan.files_to_be_deleted_per_partition or {}).items():
                names += [(partition, file) for file in files]
    for partition, name in names:
        file = parse_data_file(partition, name.rpartition("/")[2], 0)
        if file is not None:
            yield file


def _decode_commit(action: Action, data: bytes | None) -> CommitMetadata | None:
    metadata = codec.decode(data or b"", action, State.COMPLETED)
    return metadata if isinstance(metadata, CommitMetadata) else None
