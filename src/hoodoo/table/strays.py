"""Strays: data files of an instant that no commit names."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from hoodoo.env import Env
from hoodoo.errors import UnusablePath
from hoodoo.model.instant import InstantTime
from hoodoo.table.ref import TableRef
from hoodoo.timeline.history import load_history
from hoodoo.timeline.load import read_commit
from hoodoo.timeline.resolve_unknown import delete_surely
from hoodoo.timeline.timeline import Timeline


def strays_of(
    ref: TableRef, timeline: Timeline, instant: InstantTime, files: Iterable[str]
) -> list[str]:
    """Of the files of an instant, those that no commit names.

    Needs: it is not pending on `timeline`.
    """
    in_timeline = timeline.find(instant)
    if in_timeline is not None and in_timeline.is_completed:
        metadata = read_commit(ref.env, ref.properties.timeline, in_timeline)
        named = {stat.path for _, stat in metadata.stats()}
        return [path for path in files if path not in named]
    history = load_history(ref.env, ref.properties.timeline, since=instant)
    if any(archived.requested_time == instant for archived in history):
        return []  # what it named is no longer at hand
    return list(files)


def delete_files(env: Env, files: Iterable[str]) -> set[str]:
    """Delete these, and tell which they were; one that is gone already is fine.

    So is one that cannot exist: whoever announced it failed to make it.
    """
    deleted = set()
    for path in sorted(set(files)):
        with suppress(UnusablePath):
            delete_surely(env, path)
            deleted.add(path)
    return deleted
