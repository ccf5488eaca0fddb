"""Reading the active timeline: names first, contents only where someone asks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache

from hoodoo.env import Env
from hoodoo.errors import FormatError, naming
from hoodoo.format import timeline as codec
from hoodoo.model.commit import CommitMetadata
from hoodoo.model.instant import Action, Instant, InstantTime, State
from hoodoo.model.names import instant_name, parse_instant
from hoodoo.model.paths import TimelinePaths
from hoodoo.model.plan import RollbackPlan
from hoodoo.storage.storage import ObjectInfo
from hoodoo.timeline.timeline import Timeline

# A write reads the timeline several times, and the next write reads nearly the same again.
_parsed = lru_cache(maxsize=1 << 16)(parse_instant)


def load_timeline(env: Env, paths: TimelinePaths) -> Timeline:
    """The active timeline as it is now: one listing, no file is read."""
    return parse_timeline(env.storage.list(paths.active), paths)


def parse_timeline(entries: Iterable[ObjectInfo], paths: TimelinePaths) -> Timeline:
    """The active timeline in a listing, which may have other files too."""
    instants = []
    for entry in entries:
        directory, _, name = entry.path.rpartition("/")
        instant = _parsed(name, layout=paths.layout) if directory == paths.active else None
        if instant is not None:
            instants.append(instant)
    return Timeline.of(instants)


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
    """What the rollbacks among these pending instants are about: instant -> rollback."""
    targets = {}
    for rollback in pending:
        if rollback.action is Action.ROLLBACK:
            plan = read_plan(env, paths, rollback)
            if isinstance(plan, RollbackPlan) and plan.instant_to_rollback is not None:
                target = InstantTime(plan.instant_to_rollback.commit_time)
                targets[target] = rollback.requested_time
    return targets


def read_commit(env: Env, paths: TimelinePaths, instant: Instant) -> CommitMetadata:
    """The metadata of a completed commit, delta commit or replace commit."""
    metadata = read_metadata(env, paths, instant)
    if not isinstance(metadata, CommitMetadata):
        raise FormatError("no commit metadata in it", source=instant_path(paths, instant))
    return metadata
