"""The sweep: deletes what crashes and cut-off writers left, once nobody can need it.

Nothing is deleted that could belong to a writer at work: ages are of the store's own clock, and a
data file goes only if its instant was rolled back, or is committed without naming it.

`DotHoodieListing` is what writes and rollbacks leave below `.hoodie`, in one listing. A listing
goes by path, and the timeline sorts behind everything that is looked at here. So an instant whose
marker or heartbeat was listed is on the timeline of the same listing, unless it has ended.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from hoodoo.concurrency.heartbeats import (
    SETTLED_EXPIRIES,
    default_expiry_ms,
    read_heartbeat,
    store_time_ms,
)
from hoodoo.concurrency.markers import delete_markers
from hoodoo.concurrency.transactions.head import read_head
from hoodoo.deprecated import find_by_old_name
from hoodoo.errors import ObjectNotFound, add_error_source
from hoodoo.format import json_files
from hoodoo.format.markers import decode_final, encode_final
from hoodoo.model import paths
from hoodoo.model.coordination import SweepNote
from hoodoo.model.files import LogFile, parse_data_file
from hoodoo.model.instant import Action, Instant, InstantTime, State, is_instant_time
from hoodoo.model.names import parse_instant
from hoodoo.model.paths import PartitionPath, TimelinePaths
from hoodoo.recovery.strays import (
    delete_files,
    find_files,
    find_strays_of_instant,
    load_announced_paths,
)
from hoodoo.runtime.env import Env
from hoodoo.storage.storage import ObjectInfo
from hoodoo.table.ref import TableRef
from hoodoo.table.timeline import Timeline, instant_path, parse_states

log = logging.getLogger("hoodoo.recovery")


# -- what is below `.hoodie` --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DotHoodieListing:
    """Everything of ours below `.hoodie`, and the timeline."""

    timeline: Timeline
    timeline_files: Sequence[tuple[Instant, int]]
    """Every file of the timeline, and when it was modified."""
    heartbeats: Mapping[InstantTime, ObjectInfo]
    instants_with_markers: frozenset[InstantTime]
    """Instants that have marker files."""
    completions: Sequence[ObjectInfo]
    finalize_markers: Mapping[InstantTime, ObjectInfo]
    sweep_notes: Mapping[InstantTime, ObjectInfo]
    cancels: Mapping[InstantTime, ObjectInfo]
    abort_records: Mapping[InstantTime, ObjectInfo]
    blooms: Mapping[InstantTime, ObjectInfo]
    stops: Mapping[InstantTime, ObjectInfo]
    staged_contents: Sequence[ObjectInfo]
    group_locks: Sequence[ObjectInfo]
    probes: Sequence[ObjectInfo]
    metadata_table: Sequence[str]
    """Paths of everything in the metadata table."""
    latest_ms: int
    """The newest modification time of all: the store's clock is not behind it."""


def list_hoodie_directory(env: Env, timeline_paths: TimelinePaths) -> DotHoodieListing:
    """The traces of a table, in one listing."""
    entries = list(env.storage.list(paths.META, recursive=True))
    states = [
        (state, e.modified_ms) for e in entries for state in parse_states((e,), timeline_paths)
    ]
    return DotHoodieListing(
        timeline=Timeline.of(state for state, _ in states),
        timeline_files=states,
        heartbeats=dict(_select_by_name(entries, paths.HEARTBEATS)),
        instants_with_markers=frozenset(
            time for time, _ in _select_by_directory(entries, paths.MARKERS)
        ),
        completions=[entry for _, entry in _select_by_directory(entries, paths.COMPLETIONS)],
        finalize_markers=dict(_select_by_name(entries, paths.FINALS)),
        sweep_notes=dict(_select_by_name(entries, paths.SWEEPS)),
        cancels=dict(_select_by_name(entries, paths.CANCELS)),
        abort_records=dict(_select_by_name(entries, paths.ABORT_MARKS)),
        blooms=dict(_select_by_name(entries, paths.BLOOMS)),
        stops=dict(_select_by_name(entries, paths.STOPS)),
        staged_contents=_select_directory(entries, paths.STAGING),
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


# -- sweeping -----------------------------------------------------------------------------------


_LOOKS_BEFORE_A_WRITE = 4
"""A write leaves one place to look at twice, so this many a write keep up with any number."""


@dataclass(frozen=True, slots=True)
class SweepResult:
    """Paths of what a sweep removed."""

    data_files: tuple[str, ...] = ()
    leftovers: tuple[str, ...] = ()
    """Heartbeats, markers of all kinds, staged contents, notes and temporary files."""


@dataclass(frozen=True, slots=True)
class _Facts:
    """What is below `.hoodie`, and how old that is."""

    ref: TableRef
    traces: DotHoodieListing
    now_ms: int
    expiry_ms: int

    def is_settled(self, instant_time: InstantTime) -> bool:
        """Whether nobody works on an instant any more."""
        state_on_timeline = self.traces.timeline.find(instant_time)
        return (
            state_on_timeline is None or not state_on_timeline.is_pending
        ) and not self.is_beating(instant_time)

    def is_beating(self, instant_time: InstantTime) -> bool:
        """Whether the last beat of an instant's writer is younger than its expiry."""
        entry = self.traces.heartbeats.get(instant_time)
        if entry is None:
            return False
        try:
            body = read_heartbeat(self.ref.env, instant_time)
        except ObjectNotFound:
            return False
        return self.age_ms(entry) <= (body.expiry_ms if body else self.expiry_ms)

    def age_ms(self, entry: ObjectInfo) -> int:
        return self.now_ms - entry.modified_ms

    def is_old(self, entry: ObjectInfo, *, expiries: int = 1) -> bool:
        return self.age_ms(entry) > expiries * self.expiry_ms


def sweep(ref: TableRef, traces: DotHoodieListing) -> SweepResult:
    """Remove leftovers of instants that have ended.

    Order: the store's time, if there is anything to look at; data files, then the markers that
    announced them; what says nothing to anyone any more.
    Crash: the next sweep goes on.
    """
    temporary = ref.env.storage.stale_temporaries()
    if not temporary and not _has_candidates(traces):
        return SweepResult()
    return _sweep(ref, traces, temporary)


def sweep_before_write(ref: TableRef, traces: DotHoodieListing) -> SweepResult:
    """The part of the sweep that is due, as much of it as a write can bear."""
    if not _may_be_due(ref, traces):
        return SweepResult()
    return _sweep(ref, traces, looks=_LOOKS_BEFORE_A_WRITE)


def _sweep(
    ref: TableRef,
    traces: DotHoodieListing,
    temporary: Sequence[str] = (),
    *,
    looks: int | None = None,
) -> SweepResult:
    """`looks` is at how many places, at most, partitions are listed for files of late tasks."""
    env = ref.env
    facts = _Facts(ref, traces, store_time_ms(env), default_expiry_ms(ref))
    data: list[str] = []
    other: list[str] = []
    for instant in sorted(traces.instants_with_markers):
        if facts.is_settled(instant):
            data += sweep_instant(ref, traces.timeline, instant)
            other.append(paths.marker_directory(instant))
    for look in [*_find_noted_places(facts, other), *_find_finalized_places(facts, other)][:looks]:
        data += look()
    other += delete_files(env, [*_find_old_paths(facts), *temporary])
    if data or other:
        log.info("swept data_files=%d leftovers=%d", len(data), len(other))
    return SweepResult(tuple(sorted(data)), tuple(sorted(other)))


def _has_candidates(traces: DotHoodieListing) -> bool:
    """Whether there is anything that goes once it is old enough."""
    aging_files = (
        *(
            traces.sweep_notes,
            traces.finalize_markers,
            traces.staged_contents,
            traces.probes,
            traces.completions,
        ),
        *(traces.cancels, traces.blooms, traces.stops, traces.group_locks),
    )
    ended_flags = (
        _is_over(traces, time) for time in traces.instants_with_markers | set(traces.heartbeats)
    )
    return any(aging_files) or any(ended_flags)


def _may_be_due(ref: TableRef, traces: DotHoodieListing) -> bool:
    """Whether anything may be old enough, as far as that can be told without asking the store."""
    now_ms = max(ref.env.clock.now_ms(), traces.latest_ms)
    facts = _Facts(ref, traces, now_ms, default_expiry_ms(ref))
    ended_times = {
        time
        for time in traces.instants_with_markers | set(traces.heartbeats)
        if _is_over(traces, time)
    }
    aging_files = [
        *traces.sweep_notes.values(),
        *traces.finalize_markers.values(),
        *traces.staged_contents,
        *traces.probes,
    ]
    return any(map(facts.is_settled, ended_times)) or any(map(facts.is_old, aging_files))


def _is_over(traces: DotHoodieListing, instant_time: InstantTime) -> bool:
    state_on_timeline = traces.timeline.find(instant_time)
    return state_on_timeline is None or not state_on_timeline.is_pending


def sweep_instant(ref: TableRef, timeline: Timeline, instant_time: InstantTime) -> set[str]:
    """Remove the files that an instant announced and no commit names, then its markers.

    Needs: it is not pending on `timeline`, and nobody works on it any more.
    """
    env = ref.env
    deleted_paths = delete_files(
        env,
        find_strays_of_instant(
            ref, timeline, instant_time, load_announced_paths(env, instant_time)
        ),
    )
    delete_markers(env, instant_time)
    return deleted_paths


Look = Callable[[], Iterable[str]]
"""Lists partitions for files of late tasks, and deletes them; tells which."""


def _find_noted_places(facts: _Facts, other: list[str]) -> Iterator[Look]:
    """Look again, one and two expiries after a rollback, where its writer may have gone on."""
    for instant, entry in facts.traces.sweep_notes.items():
        if facts.is_old(entry) and not facts.is_beating(instant):
            yield partial(_look_where_noted, facts, entry, other)


def _look_where_noted(facts: _Facts, entry: ObjectInfo, other: list[str]) -> Iterable[str]:
    env = facts.ref.env
    try:
        with add_error_source(entry.path):
            note = json_files.decode(env.storage.read(entry.path), SweepNote)
    except ObjectNotFound:  # another sweep was faster
        return ()
    deleted_paths: Iterable[str] = ()
    instant = facts.traces.timeline.find(note.instant)
    if instant is None or instant.state is State.ABORTED:
        places = map(PartitionPath, note.partitions)
        deleted_paths = delete_files(env, find_files(env, note.instant, places))
        other += delete_files(env, find_metadata_files(facts.traces, note.instant))
    if note.rounds + 1 < SETTLED_EXPIRIES:
        env.storage.put(entry.path, json_files.encode(replace(note, rounds=note.rounds + 1)))
    else:
        other += delete_files(env, [entry.path])
    return deleted_paths


def _find_finalized_places(facts: _Facts, other: list[str]) -> Iterator[Look]:
    """Look, one and two expiries after a commit, for files of tasks that outlived it.

    The finalize marker names the partitions that they were about. It stays until then, so that
    tasks find it, and goes for rolled back instants too, whose files have a note of their own.
    """
    for instant, entry in facts.traces.finalize_markers.items():
        if facts.is_old(entry) and facts.is_settled(instant):
            yield partial(_look_where_finalized, facts, instant, entry, other)


def _look_where_finalized(
    facts: _Facts, instant_time: InstantTime, entry: ObjectInfo, other: list[str]
) -> Iterable[str]:
    ref, timeline = facts.ref, facts.traces.timeline
    try:
        with add_error_source(entry.path):
            final = decode_final(ref.env.storage.read(entry.path))
    except ObjectNotFound:  # another sweep was faster
        return ()
    deleted_paths: Iterable[str] = ()
    if timeline.find(instant_time) is not None:
        partitions = {stat.partition_path for stat in final.stats or ()}
        places = sorted(place for place in partitions if place is not None)
        late = list(find_files(ref.env, instant_time, places))
        deleted_paths = delete_files(
            ref.env, find_strays_of_instant(ref, timeline, instant_time, late)
        )
    if final.rounds + 1 < SETTLED_EXPIRIES:
        ref.env.storage.put(entry.path, encode_final(replace(final, rounds=final.rounds + 1)))
    else:
        other += delete_files(ref.env, [entry.path])
    return deleted_paths


def _find_old_paths(facts: _Facts) -> Iterator[str]:
    """What says nothing to anyone any more."""
    traces = facts.traces
    for entry in traces.completions:
        if facts.is_settled(_instant_of(entry)):
            yield entry.path
    for instant, entry in (*traces.blooms.items(), *traces.stops.items()):
        if facts.is_settled(instant):
            yield entry.path
    for entry in traces.group_locks:
        if facts.is_old(entry, expiries=SETTLED_EXPIRIES):  # a task died over it
            yield entry.path
    for instant, entry in traces.cancels.items():
        if facts.is_settled(instant) and facts.is_old(entry):
            yield entry.path
    for instant, entry in traces.abort_records.items():
        if traces.timeline.find(instant) is None and facts.is_old(entry):
            yield entry.path  # its tombstone went with the instants around it
    for state, _ in traces.timeline_files:
        if state.is_pending and _is_aborted(traces, state.requested_time):
            # A request of its executor came late; other engines would take it for pending.
            yield instant_path(facts.ref.properties.timeline_paths, state)
    for instant, entry in traces.heartbeats.items():
        if facts.is_settled(instant):
            yield entry.path
    if any(facts.is_old(entry, expiries=SETTLED_EXPIRIES) for entry in traces.staged_contents):
        decision = read_head(facts.ref.env).decision
        for entry in traces.staged_contents:
            is_named = decision is not None and decision.staged == entry.path
            if facts.is_old(entry, expiries=SETTLED_EXPIRIES) and not is_named:
                yield entry.path
    for entry in traces.probes:
        if facts.is_old(entry):
            yield entry.path
    yield from _find_late_delta_commits(facts)


def find_metadata_files(traces: DotHoodieListing, instant_time: InstantTime) -> list[str]:
    """What an instant that was rolled back has in the metadata table: it came late."""
    return [path for path in traces.metadata_table if _made_in_metadata_table(path) == instant_time]


def _made_in_metadata_table(path: str) -> InstantTime | None:
    directory, _, name = path.rpartition("/")
    state = parse_instant(name, layout=2)
    if state is not None:
        is_commit = state.action is Action.DELTA_COMMIT
        return state.requested_time if is_commit else None
    file = parse_data_file(PartitionPath(directory), name, 0)
    return file.name.instant_time if isinstance(file, LogFile) else None


def _find_late_delta_commits(facts: _Facts) -> Iterator[str]:
    """Completed files of a first try in the gate that landed after those of a later one."""
    files_by_time: dict[InstantTime, list[tuple[InstantTime, str]]] = {}
    for path in facts.traces.metadata_table:
        state = parse_instant(path.rpartition("/")[2], layout=2)
        if state is not None and state.is_completed and state.action is Action.DELTA_COMMIT:
            files_by_time.setdefault(state.requested_time, []).append(
                (state.completion_or_requested_time, path)
            )
    for time, files in files_by_time.items():
        if len(files) > 1 and facts.is_settled(time):
            yield from (path for _, path in sorted(files)[:-1])


def _is_aborted(traces: DotHoodieListing, time: InstantTime) -> bool:
    instant = traces.timeline.find(time)
    return instant is not None and instant.state is State.ABORTED


def _instant_of(completion: ObjectInfo) -> InstantTime:
    """The instant of a completion marker."""
    return InstantTime(completion.path[len(paths.COMPLETIONS) + 1 :].partition("/")[0])


if not TYPE_CHECKING:  # a type checker knows the names of today only

    def __getattr__(name: str) -> object:
        return find_by_old_name(__name__, name)
