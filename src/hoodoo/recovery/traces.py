"""What writes and rollbacks leave below `.hoodie`, as one listing shows it.

A listing goes by path, and the timeline sorts behind everything that is looked at here. So an
instant whose marker or heartbeat was seen is on the timeline of the same listing, unless it has
ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hoodoo.env import Env
from hoodoo.model import paths
from hoodoo.model.instant import Instant, InstantTime, is_instant_time
from hoodoo.model.paths import TimelinePaths
from hoodoo.storage.storage import ObjectInfo
from hoodoo.timeline.load import parse_states
from hoodoo.timeline.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Traces:
    """Everything of ours below `.hoodie`, and the timeline."""

    timeline: Timeline
    states: Sequence[tuple[Instant, int]]
    """Every file of the timeline, and when it was modified."""
    heartbeats: Mapping[InstantTime, ObjectInfo]
    marked: frozenset[InstantTime]
    """Instants that have marker files."""
    completions: Sequence[ObjectInfo]
    finals: Mapping[InstantTime, ObjectInfo]
    notes: Mapping[InstantTime, ObjectInfo]
    cancels: Mapping[InstantTime, ObjectInfo]
    aborted: Mapping[InstantTime, ObjectInfo]
    blooms: Mapping[InstantTime, ObjectInfo]
    stops: Mapping[InstantTime, ObjectInfo]
    staged: Sequence[ObjectInfo]
    group_locks: Sequence[ObjectInfo]
    probes: Sequence[ObjectInfo]
    metadata_table: Sequence[str]
    """Paths of everything in the metadata table."""
    latest_ms: int
    """The newest modification time of all: the store's clock is not behind it."""


def load_traces(env: Env, where: TimelinePaths) -> Traces:
    """The traces of a table, in one listing."""
    entries = list(env.storage.list(paths.META, recursive=True))
    states = [(state, e.modified_ms) for e in entries for state in parse_states((e,), where)]
    return Traces(
        timeline=Timeline.of(state for state, _ in states),
        states=states,
        heartbeats=dict(_select_by_name(entries, paths.HEARTBEATS)),
        marked=frozenset(time for time, _ in _select_by_directory(entries, paths.MARKERS)),
        completions=[entry for _, entry in _select_by_directory(entries, paths.COMPLETIONS)],
        finals=dict(_select_by_name(entries, paths.FINALS)),
        notes=dict(_select_by_name(entries, paths.SWEEPS)),
        cancels=dict(_select_by_name(entries, paths.CANCELS)),
        aborted=dict(_select_by_name(entries, paths.ABORTED)),
        blooms=dict(_select_by_name(entries, paths.BLOOMS)),
        stops=dict(_select_by_name(entries, paths.STOPS)),
        staged=_select_directory(entries, paths.STAGED),
        group_locks=_select_directory(entries, paths.GROUP_LOCKS),
        probes=_select_directory(entries, paths.PROBES),
        metadata_table=[e.path for e in _select_directory(entries, paths.METADATA_TABLE)],
        latest_ms=max((entry.modified_ms for entry in entries), default=0),
    )


def _select_directory(entries: Sequence[ObjectInfo], directory: str) -> list[ObjectInfo]:
    below = f"{directory}/"
    return [entry for entry in entries if entry.path.startswith(below)]


def _select_by_directory(
    entries: Sequence[ObjectInfo], directory: str
) -> Iterator[tuple[InstantTime, ObjectInfo]]:
    """Objects in the sub-directories of instants."""
    for entry in _select_directory(entries, directory):
        name = entry.path[len(directory) + 1 :].partition("/")[0]
        if is_instant_time(name):
            yield InstantTime(name), entry


def _select_by_name(
    entries: Sequence[ObjectInfo], directory: str
) -> Iterator[tuple[InstantTime, ObjectInfo]]:
    """Objects that have the name of an instant."""
    for time, entry in _select_by_directory(entries, directory):
        if entry.path == f"{directory}/{time}":
            yield time, entry
