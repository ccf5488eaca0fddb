"""The archived timeline: instants that have left the active one."""

from __future__ import annotations

from dataclasses import replace

from hoodoo.env import Env
from hoodoo.errors import FormatError, NotFound, naming
from hoodoo.format import lsm
from hoodoo.format.archived_log import decode_archive, parse_archive_name
from hoodoo.model.instant import InstantTime
from hoodoo.model.names import manifest_name, parse_history_file, parse_manifest
from hoodoo.model.paths import HISTORY_VERSION, TimelinePaths
from hoodoo.model.slices import Visibility


def load_history(
    env: Env, paths: TimelinePaths, *, since: InstantTime | None = None
) -> list[lsm.ArchivedInstant]:
    """Archived instants by requested time; `since` leaves out files of older instants only."""
    archived: dict[tuple[str, str], lsm.ArchivedInstant] = {}
    if paths.layout == 1:
        for path in archive_files(env, paths):
            for instant in read_archive(env, path):
                # As on the active timeline of this layout, the requested time stands in.
                plain = replace(instant, completion_time=None)
                archived[instant.requested_time, instant.action.value] = plain
        return sorted(archived.values(), key=lambda instant: instant.requested_time)
    for name in _live_files(env, paths):
        parts = parse_history_file(name)
        if parts is None:
            raise FormatError(f"{name!r} is not the name of a history file", source=paths.history)
        if since is not None and parts.last < since:
            continue
        path = f"{paths.history}/{name}"
        data = env.storage.read(path)
        with naming(path):
            for instant in lsm.decode_instants(data):
                archived[instant.requested_time, instant.action.value] = instant
    return sorted(archived.values(), key=lambda instant: instant.requested_time)


def archive_files(env: Env, paths: TimelinePaths) -> list[str]:
    """The archived timeline of layout 1, oldest file first."""
    numbered = []
    for entry in env.storage.list(paths.history):
        number = parse_archive_name(entry.path.rpartition("/")[2])
        if number is not None:
            numbered.append((number, entry.path))
    return [path for _, path in sorted(numbered)]


def read_archive(env: Env, path: str) -> list[lsm.ArchivedInstant]:
    """The instants in one file of the archived timeline of layout 1."""
    data = env.storage.read(path)
    with naming(path):
        return decode_archive(data)


def newest_archived(env: Env, paths: TimelinePaths) -> InstantTime | None:
    """The newest requested time in the archived timeline, by the names of its files alone."""
    if paths.layout == 1:
        return None
    parsed = map(parse_history_file, _live_files(env, paths))
    return max((name.last for name in parsed if name is not None), default=None)


def _live_files(env: Env, paths: TimelinePaths) -> list[str]:
    """Names in the newest manifest; readers of a version that has just gone start over."""
    for _ in range(3):
        number = _current_version(env, paths)
        if number is None:
            return []
        path = f"{paths.history}/{manifest_name(number)}"
        try:
            data = env.storage.read(path)
        except NotFound:
            continue
        with naming(path):
            return [entry.file_name for entry in lsm.decode_manifest(data)]
    raise FormatError("its manifest is missing", source=f"{paths.history}/{HISTORY_VERSION}")


def _current_version(env: Env, paths: TimelinePaths) -> int | None:
    try:
        return lsm.decode_version(env.storage.read(f"{paths.history}/{HISTORY_VERSION}"))
    except (NotFound, FormatError):
        numbers = (
            parse_manifest(e.path.rpartition("/")[2]) for e in env.storage.list(paths.history)
        )
        return max((number for number in numbers if number is not None), default=None)


def add_history(env: Env, paths: TimelinePaths, visibility: Visibility) -> Visibility:
    """What a view sees, with the completion times of archived instants."""
    archived = load_history(env, paths)
    completions = {i.requested_time: i.completion_time for i in archived if i.completion_time}
    return replace(visibility, archived_completions=completions)
