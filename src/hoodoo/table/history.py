"""The archived timeline: instants that have left the active one."""

from __future__ import annotations

from dataclasses import replace

from hoodoo.errors import FormatError, ObjectNotFound, add_error_source
from hoodoo.format.timeline import history
from hoodoo.format.timeline.old_history import decode_archive, parse_archive_name
from hoodoo.model.files import Visibility
from hoodoo.model.instant import InstantTime
from hoodoo.model.names import manifest_name, parse_history_file, parse_manifest
from hoodoo.model.paths import HISTORY_VERSION, TimelinePaths
from hoodoo.runtime.env import Env


def load_history(
    env: Env, timeline_paths: TimelinePaths, *, since: InstantTime | None = None
) -> list[history.ArchivedInstant]:
    """Archived instants by requested time; `since` leaves out files of older instants only."""
    instants: dict[tuple[str, str], history.ArchivedInstant] = {}
    if timeline_paths.layout == 1:
        for path in archive_files(env, timeline_paths):
            for instant in read_archive(env, path):
                # As on the active timeline of this layout, the requested time stands in.
                plain = replace(instant, completion_time=None)
                instants[instant.requested_time, instant.action.value] = plain
        return sorted(instants.values(), key=lambda instant: instant.requested_time)
    for name in _live_files(env, timeline_paths):
        parts = parse_history_file(name)
        if parts is None:
            raise FormatError(
                f"{name!r} is not the name of a history file", source=timeline_paths.history
            )
        if since is not None and parts.last < since:
            continue
        path = f"{timeline_paths.history}/{name}"
        data = env.storage.read(path)
        with add_error_source(path):
            for instant in history.decode_instants(data):
                instants[instant.requested_time, instant.action.value] = instant
    return sorted(instants.values(), key=lambda instant: instant.requested_time)


def archive_files(env: Env, timeline_paths: TimelinePaths) -> list[str]:
    """The archived timeline of layout 1, oldest file first."""
    files = []
    for entry in env.storage.list(timeline_paths.history):
        number = parse_archive_name(entry.path.rpartition("/")[2])
        if number is not None:
            files.append((number, entry.path))
    return [path for _, path in sorted(files)]


def read_archive(env: Env, path: str) -> list[history.ArchivedInstant]:
    """The instants in one file of the archived timeline of layout 1."""
    data = env.storage.read(path)
    with add_error_source(path):
        return decode_archive(data)


def newest_archived(env: Env, timeline_paths: TimelinePaths) -> InstantTime | None:
    """The newest requested time in the archived timeline, by the names of its files alone."""
    if timeline_paths.layout == 1:
        return None
    names = map(parse_history_file, _live_files(env, timeline_paths))
    return max((name.last for name in names if name is not None), default=None)


def _live_files(env: Env, timeline_paths: TimelinePaths) -> list[str]:
    """Names in the newest manifest; readers of a version that has just gone start over."""
    for _ in range(3):
        number = _current_version(env, timeline_paths)
        if number is None:
            return []
        path = f"{timeline_paths.history}/{manifest_name(number)}"
        try:
            data = env.storage.read(path)
        except ObjectNotFound:
            continue
        with add_error_source(path):
            return [entry.file_name for entry in history.decode_manifest(data)]
    raise FormatError(
        "its manifest is missing", source=f"{timeline_paths.history}/{HISTORY_VERSION}"
    )


def _current_version(env: Env, timeline_paths: TimelinePaths) -> int | None:
    try:
        return history.decode_version(
            env.storage.read(f"{timeline_paths.history}/{HISTORY_VERSION}")
        )
    except (ObjectNotFound, FormatError):
        numbers = (
            parse_manifest(e.path.rpartition("/")[2])
            for e in env.storage.list(timeline_paths.history)
        )
        return max((number for number in numbers if number is not None), default=None)


def add_history(env: Env, timeline_paths: TimelinePaths, visibility: Visibility) -> Visibility:
    """What a view sees, with the completion times of archived instants."""
    instants = load_history(env, timeline_paths)
    completions = {i.requested_time: i.completion_time for i in instants if i.completion_time}
    return replace(visibility, archived_completions=completions)
