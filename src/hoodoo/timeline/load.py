"""Reading the active timeline: names first, contents only where someone asks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache

from hoodoo.env import Env
from hoodoo.errors import FormatError, NotFound, naming
from hoodoo.format import timeline as codec
from hoodoo.model.commit import CommitMetadata
from hoodoo.model.instant import Action, Instant, InstantTime, State
from hoodoo.model.names import instant_name, parse_instant
from hoodoo.model.paths import TimelinePaths
from hoodoo.model.plan import RestorePlan, RollbackPlan
from hoodoo.storage.storage import ObjectInfo
from hoodoo.timeline.timeline import Timeline

# A write reads the timeline several times, and the next write reads nearly the same again.
_parsed = lru_cache(maxsize=1 << 16)(parse_instant)


def load_timeline(env: Env, paths: TimelinePaths) -> Timeline:
    """The active timeline as it is now: one listing, no file is read."""
    while True:
        states = parse_states(env.storage.list(paths.active), paths)
        oldest = _find_shrinking_end(states)
        if oldest is None or env.storage.exists(instant_path(paths, oldest)):
            return Timeline.of(states)


def parse_timeline(entries: Iterable[ObjectInfo], paths: TimelinePaths) -> Timeline:
    """The active timeline in a listing, which may have other files too."""
    return Timeline.of(parse_states(entries, paths))


def parse_states(entries: Iterable[ObjectInfo], paths: TimelinePaths) -> list[Instant]:
    """Every file of the active timeline in a listing: each instant in each of its states."""
    states = []
    for entry in entries:
        directory, _, name = entry.path.rpartition("/")
        instant = _parsed(name, layout=paths.layout) if directory == paths.active else None
        if instant is not None:
            states.append(instant)
    return states


def _find_shrinking_end(states: Iterable[Instant]) -> Instant | None:
    """The oldest commit, if others of its files are gone: then someone archives, or has.

    Archival deletes pending files first, then completed ones, oldest first. So a listing that
    misses one of those and still has an older one was under way meanwhile, and then the oldest
    that it has is gone by now.
    """
    commits = (i for i in states if i.is_completed and i.action.writes_data)
    oldest = min(commits, key=lambda i: i.requested_time, default=None)
    if oldest is None or any(
        i.is_pending and i.requested_time == oldest.requested_time for i in states
    ):
        return None
    return oldest


def instant_path(paths: TimelinePaths, instant: Instant) -> str:
    """Where the file of an instant in its state lives."""
    return f"{paths.active}/{instant_name(instant, layout=paths.layout)}"


def read_metadata(env: Env, paths: TimelinePaths, instant: Instant) -> codec.Metadata | None:
    """What the file of an instant says, or None where it is empty by design."""
    path = instant_path(paths, instant)
    data = env.storage.read(path)
    with naming(path):
        return codec.decode(data, instant.action, instant.state)


def read_plan(env: Env, paths: TimelinePaths, instant: Instant) -> codec.Metadata | None:
    """What an instant, however far it got, was asked to do: what its requested file says."""
    return read_metadata(env, paths, replace(instant, state=State.REQUESTED))


def load_rollback_targets(
    env: Env, paths: TimelinePaths, pending: Iterable[Instant]
) -> dict[InstantTime, InstantTime]:
    """What rollbacks and restores among these pending instants are about: instant -> rollback."""
    targets = {}
    for rollback in pending:
        if rollback.action in (Action.ROLLBACK, Action.RESTORE):
            match read_plan(env, paths, rollback):
                case RollbackPlan(instant_to_rollback=info) if info is not None:
                    targets[InstantTime(info.commit_time)] = rollback.requested_time
                case RestorePlan(instants_to_rollback=infos):
                    times = (InstantTime(info.commit_time) for info in infos)
                    targets |= dict.fromkeys(times, rollback.requested_time)
    return targets


def read_commit(env: Env, paths: TimelinePaths, instant: Instant) -> CommitMetadata:
    """The metadata of a completed commit, delta commit or replace commit, archived or not."""
    try:
        metadata = read_metadata(env, paths, instant)
    except NotFound:
        metadata = _read_archived(env, paths, instant)
        if metadata is None:
            raise
    if not isinstance(metadata, CommitMetadata):
        raise FormatError("no commit metadata in it", source=instant_path(paths, instant))
    return metadata


def _read_archived(env: Env, paths: TimelinePaths, instant: Instant) -> codec.Metadata | None:
    """What an instant said that was archived since the caller saw it; None if it is gone."""
    from hoodoo.timeline.history import load_history  # imports Arrow, and is rarely needed

    time = instant.requested_time
    for archived in load_history(env, paths, since=time):
        if archived.requested_time == time and archived.action is instant.action.completed_as:
            with naming(f"{paths.history}, {instant}"):
                return codec.decode(archived.metadata or b"", archived.action, State.COMPLETED)
    return None
