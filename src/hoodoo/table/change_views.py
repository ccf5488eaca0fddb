"""The table at the two ends of a window: its file slices, and whether they are all still there."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import pyarrow as pa

from hoodoo.config.upkeep import (
    CLEAN_POLICY,
    COMMITS_RETAINED,
    HOURS_RETAINED,
    VERSIONS_RETAINED,
    CleanPolicy,
)
from hoodoo.errors import ConfigError, NotFound, SnapshotCleaned, naming
from hoodoo.format import timeline as codec
from hoodoo.format.schema import arrow_from_avro
from hoodoo.model import paths
from hoodoo.model.commit import CleanMetadata, CommitMetadata
from hoodoo.model.files import DataFile, FileGroup, FileGroupId, FileSlice, parse_data_file
from hoodoo.model.instant import Action, Instant, InstantTime, State
from hoodoo.model.lister import Keep
from hoodoo.model.paths import PartitionPath
from hoodoo.model.plan import CleanerPlan
from hoodoo.model.slices import Visibility
from hoodoo.table.change_window import Window, ended_at
from hoodoo.table.file_index import FileIndex
from hoodoo.table.groups import find_replaced, group_files
from hoodoo.table.ref import TableRef
from hoodoo.table.schema import adapt_to_reader, resolve_schema, schema_json
from hoodoo.table.snapshot import Snapshot, take_snapshot
from hoodoo.timeline.history import load_history
from hoodoo.timeline.load import read_metadata, read_plan
from hoodoo.timeline.timeline import Timeline

_KEEPING_MORE = {
    CleanPolicy.KEEP_LATEST_COMMITS: COMMITS_RETAINED.name,
    CleanPolicy.KEEP_LATEST_BY_HOURS: HOURS_RETAINED.name,
    CleanPolicy.KEEP_LATEST_FILE_VERSIONS: VERSIONS_RETAINED.name,
}


@dataclass(frozen=True)
class Files:
    """The data files of some partitions, and which clean has deleted others of theirs."""

    present: tuple[DataFile, ...]
    cleaned: dict[DataFile, InstantTime]


def resolve_end_schema(window: Window) -> pa.Schema:
    """The schema of rows at the window's end, in which all its rows are read."""
    ref, (view, _) = window.ref, view_at(window, window.last)
    own = schema_json(ref, view)
    if own is None or own[1] == paths.PROPERTIES:  # no active commit tells: does an archived one?
        for one in reversed(window.archived):
            commit = _decode_commit(one.action, one.metadata) if one.action.writes_data else None
            if commit is None or (window.last is not None and ended_at(one) > window.last):
                continue
            if not commit.operation.is_table_service and commit.schema_json:
                with naming(ref.properties.timeline.history):
                    return adapt_to_reader(ref, arrow_from_avro(commit.schema_json))
    schema = resolve_schema(ref, view)
    if schema is None:
        return take_snapshot(ref, timeline=window.timeline, ended_until=window.last).schema
    return schema


def list_files(window: Window, keep: Keep) -> Files:
    """The files of partitions, and those of them that cleans took since the window began.

    Order: files, then cleans: a clean is on the timeline before it deletes the first file.
    """
    present = tuple(FileIndex(window.ref, window.timeline).files(keep))
    paths_there = {file.path for file in present}
    cleaned = {
        file: clean
        for file, clean in _find_cleaned(window)
        if file.path not in paths_there and keep(file.partition, whole=True)
    }
    return Files(present, cleaned)


def take_view(
    window: Window, files: Files, moment: InstantTime | None, schema: pa.Schema
) -> Snapshot:
    """The table as it was when all had completed until a moment; None stands for the present.

    Files that are gone count as if they were there: `refuse_cleaned` looks for them.
    """
    view, visibility = view_at(window, moment)
    groups, visibility = group_files(window.ref, [*files.present, *files.cleaned], visibility)
    replaced = set(find_replaced(window.ref, view))
    for one in window.archived:
        if one.action is Action.REPLACE_COMMIT and (moment is None or ended_at(one) <= moment):
            commit = _decode_commit(one.action, one.metadata)
            replaced.update(commit.replaced_file_groups() if commit is not None else ())
    visible = (group for group in groups if group.id not in replaced)
    ordered = tuple(sorted(visible, key=lambda group: (group.id.partition, group.id.file_id)))
    return Snapshot(window.ref, view, visibility, ordered, schema)


def view_at(window: Window, moment: InstantTime | None) -> tuple[Timeline, Visibility]:
    """What was completed at a moment; None stands for the present."""
    timeline = window.timeline
    view = timeline if moment is None else timeline.ended_until(moment)
    completions = {instant.requested_time: instant.ended_at for instant in view.completed}
    known = timeline.start
    for one in window.archived:
        if one.action.writes_data:
            known = one.requested_time if known is None else min(known, one.requested_time)
            if moment is None or ended_at(one) <= moment:
                completions.setdefault(one.requested_time, ended_at(one))
    return view, Visibility(completions, archived_before=known, until=moment)


def refuse_cleaned(
    window: Window, files: Files, view: Snapshot, groups: Collection[FileGroupId] | None
) -> None:
    """An error if a clean deleted files of these groups (None: all) of a view."""
    clean = _find_gap(files, view.groups, groups)
    if clean is None:
        return
    ref, moment = window.ref, view.visibility.until
    oldest = _find_oldest(window, files, view.schema)
    raise SnapshotCleaned(
        moment=moment or "now", clean=clean, oldest=oldest, setting=_setting_that_keeps_more(ref)
    )


def _find_gap(
    files: Files, groups: Collection[FileGroup], wanted: Collection[FileGroupId] | None
) -> InstantTime | None:
    """The clean that deleted a file of the newest slice of a group."""
    if not files.cleaned:
        return None
    for group in groups:
        if wanted is None or group.id in wanted:
            for file in _files_of(group.latest):
                if file in files.cleaned:
                    return files.cleaned[file]
    return None


def _find_oldest(window: Window, files: Files, schema: pa.Schema) -> InstantTime | None:
    """The first commit that a window of these partitions may begin at."""
    for commit in sorted(window.timeline.commits, key=lambda instant: instant.ended_at):
        view = take_view(window, files, commit.ended_at, schema)
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
    for one in window.archived:
        if one.action is Action.CLEAN and ended_at(one) > begin:
            metadata = codec.decode(one.metadata or b"", one.action, State.COMPLETED)
            for file in _deleted_files(metadata):
                yield file, one.requested_time
    for instant in window.ref.load_timeline():
        is_over = instant.is_completed and instant.ended_at <= begin
        if instant.action is Action.CLEAN and instant.state is not State.ABORTED and not is_over:
            for file in _deleted_files(_read_clean(window.ref, instant)):
                yield file, instant.requested_time


def _read_clean(ref: TableRef, instant: Instant) -> codec.Metadata | None:
    """What a clean says that it deleted, or is about to."""
    layout = ref.properties.timeline
    try:
        if instant.is_completed:
            return read_metadata(ref.env, layout, instant)
        return read_plan(ref.env, layout, instant)
    except NotFound:  # it was archived, or completed, meanwhile
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
