"""The sweep: takes away what crashes and cut-off writers left, once nobody can need it.

Nothing is removed that could belong to a writer at work: ages are of the store's own clock, and a
data file goes only if its instant was rolled back, or is committed without naming it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from hoodoo.concurrency.heartbeat import read_heartbeat
from hoodoo.concurrency.liveness import default_expiry_ms, store_time_ms
from hoodoo.concurrency.markers import delete_markers
from hoodoo.errors import NotFound, naming
from hoodoo.format import json_object
from hoodoo.format.completion import decode_final, encode_final
from hoodoo.model import paths
from hoodoo.model.attempt import Leftovers
from hoodoo.model.files import LogFile, parse_data_file
from hoodoo.model.instant import Action, InstantTime, State
from hoodoo.model.names import parse_instant
from hoodoo.model.paths import PartitionPath
from hoodoo.recovery.files import find_files, load_announced_paths
from hoodoo.recovery.traces import Traces
from hoodoo.storage.storage import ObjectInfo
from hoodoo.table.ref import TableRef
from hoodoo.table.strays import delete_files, strays_of
from hoodoo.timeline.head import read_head
from hoodoo.timeline.load import instant_path
from hoodoo.timeline.timeline import Timeline

log = logging.getLogger("hoodoo.recovery")

_ROUNDS = 2
_LOOKS_BEFORE_A_WRITE = 4
"""A write leaves one place to look at twice, so this many a write keep up with any number."""


@dataclass(frozen=True, slots=True)
class Swept:
    """Paths of what a sweep removed."""

    data_files: tuple[str, ...] = ()
    leftovers: tuple[str, ...] = ()
    """Heartbeats, markers of all kinds, staged contents, notes and temporary files."""


@dataclass(frozen=True, slots=True)
class _Facts:
    """What is below `.hoodie`, and how old that is."""

    ref: TableRef
    traces: Traces
    now_ms: int
    expiry_ms: int

    def is_settled(self, instant: InstantTime) -> bool:
        """Whether nobody works on an instant any more."""
        state_on_timeline = self.traces.timeline.find(instant)
        return (
            state_on_timeline is None or not state_on_timeline.is_pending
        ) and not self.is_beating(instant)

    def is_beating(self, instant: InstantTime) -> bool:
        """Whether the last beat of an instant's writer is younger than its expiry."""
        entry = self.traces.heartbeats.get(instant)
        if entry is None:
            return False
        try:
            body = read_heartbeat(self.ref.env, instant)
        except NotFound:
            return False
        return self.age_ms(entry) <= (body.expiry_ms if body else self.expiry_ms)

    def age_ms(self, entry: ObjectInfo) -> int:
        return self.now_ms - entry.modified_ms

    def is_old(self, entry: ObjectInfo, *, expiries: int = 1) -> bool:
        return self.age_ms(entry) > expiries * self.expiry_ms


def sweep(ref: TableRef, traces: Traces) -> Swept:
    """Remove leftovers of instants that have ended.

    Order: the store's time, if there is anything to look at; data files, then the markers that
    announced them; what says nothing to anyone any more.
    Crash: the next sweep goes on.
    """
    temporary = ref.env.storage.stale_temporaries()
    if not temporary and not _has_candidates(traces):
        return Swept()
    return _sweep(ref, traces, temporary)


def sweep_before_write(ref: TableRef, traces: Traces) -> Swept:
    """The part of the sweep that is due, as much of it as a write can bear."""
    if not _may_be_due(ref, traces):
        return Swept()
    return _sweep(ref, traces, looks=_LOOKS_BEFORE_A_WRITE)


def _sweep(
    ref: TableRef, traces: Traces, temporary: Sequence[str] = (), *, looks: int | None = None
) -> Swept:
    """`looks` is at how many places, at most, partitions are listed for files of late tasks."""
    env = ref.env
    facts = _Facts(ref, traces, store_time_ms(env), default_expiry_ms(ref))
    data: list[str] = []
    other: list[str] = []
    for instant in sorted(traces.marked):
        if facts.is_settled(instant):
            data += sweep_instant(ref, traces.timeline, instant)
            other.append(paths.marker_directory(instant))
    for look in [*_find_noted_places(facts, other), *_find_finalized_places(facts, other)][:looks]:
        data += look()
    other += delete_files(env, [*_find_old_paths(facts), *temporary])
    if data or other:
        log.info("swept data_files=%d leftovers=%d", len(data), len(other))
    return Swept(tuple(sorted(data)), tuple(sorted(other)))


def _has_candidates(traces: Traces) -> bool:
    """Whether there is anything that goes once it is old enough."""
    dated = (
        *(traces.notes, traces.finals, traces.staged, traces.probes, traces.completions),
        *(traces.cancels, traces.blooms, traces.stops, traces.group_locks),
    )
    ended = (_is_over(traces, time) for time in traces.marked | set(traces.heartbeats))
    return any(dated) or any(ended)


def _may_be_due(ref: TableRef, traces: Traces) -> bool:
    """Whether anything may be old enough, as far as that can be told without asking the store."""
    now_ms = max(ref.env.clock.now_ms(), traces.latest_ms)
    facts = _Facts(ref, traces, now_ms, default_expiry_ms(ref))
    ended = {time for time in traces.marked | set(traces.heartbeats) if _is_over(traces, time)}
    dated = [*traces.notes.values(), *traces.finals.values(), *traces.staged, *traces.probes]
    return any(map(facts.is_settled, ended)) or any(map(facts.is_old, dated))


def _is_over(traces: Traces, instant: InstantTime) -> bool:
    state_on_timeline = traces.timeline.find(instant)
    return state_on_timeline is None or not state_on_timeline.is_pending


def sweep_instant(ref: TableRef, timeline: Timeline, instant: InstantTime) -> set[str]:
    """Remove the files that an instant announced and no commit names, then its markers.

    Needs: it is not pending on `timeline`, and nobody works on it any more.
    """
    env = ref.env
    deleted = delete_files(
        env, strays_of(ref, timeline, instant, load_announced_paths(env, instant))
    )
    delete_markers(env, instant)
    return deleted


Look = Callable[[], Iterable[str]]
"""Lists partitions for files of late tasks, and deletes them; tells which."""


def _find_noted_places(facts: _Facts, other: list[str]) -> Iterator[Look]:
    """Look again, one and two expiries after a rollback, where its writer may have gone on."""
    for instant, entry in facts.traces.notes.items():
        if facts.is_old(entry) and not facts.is_beating(instant):
            yield partial(_look_where_noted, facts, entry, other)


def _look_where_noted(facts: _Facts, entry: ObjectInfo, other: list[str]) -> Iterable[str]:
    env = facts.ref.env
    try:
        with naming(entry.path):
            note = json_object.decode(env.storage.read(entry.path), Leftovers)
    except NotFound:  # another sweep was faster
        return ()
    deleted: Iterable[str] = ()
    found = facts.traces.timeline.find(note.instant)
    if found is None or found.state is State.ABORTED:
        places = map(PartitionPath, note.partitions)
        deleted = delete_files(env, find_files(env, note.instant, places))
        other += delete_files(env, find_metadata_files(facts.traces, note.instant))
    if note.rounds + 1 < _ROUNDS:
        env.storage.put(entry.path, json_object.encode(replace(note, rounds=note.rounds + 1)))
    else:
        other += delete_files(env, [entry.path])
    return deleted


def _find_finalized_places(facts: _Facts, other: list[str]) -> Iterator[Look]:
    """Look, one and two expiries after a commit, for files of tasks that outlived it.

    The finalize marker names the partitions that they were about. It stays until then, so that
    tasks find it, and goes for rolled back instants too, whose files have a note of their own.
    """
    for instant, entry in facts.traces.finals.items():
        if facts.is_old(entry) and facts.is_settled(instant):
            yield partial(_look_where_finalized, facts, instant, entry, other)


def _look_where_finalized(
    facts: _Facts, instant: InstantTime, entry: ObjectInfo, other: list[str]
) -> Iterable[str]:
    ref, timeline = facts.ref, facts.traces.timeline
    try:
        with naming(entry.path):
            final = decode_final(ref.env.storage.read(entry.path))
    except NotFound:  # another sweep was faster
        return ()
    deleted: Iterable[str] = ()
    if timeline.find(instant) is not None:
        partitions = {stat.partition_path for stat in final.stats or ()}
        places = sorted(place for place in partitions if place is not None)
        late = list(find_files(ref.env, instant, places))
        deleted = delete_files(ref.env, strays_of(ref, timeline, instant, late))
    if final.rounds + 1 < _ROUNDS:
        ref.env.storage.put(entry.path, encode_final(replace(final, rounds=final.rounds + 1)))
    else:
        other += delete_files(ref.env, [entry.path])
    return deleted


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
        if facts.is_old(entry, expiries=_ROUNDS):  # a task died over it
            yield entry.path
    for instant, entry in traces.cancels.items():
        if facts.is_settled(instant) and facts.is_old(entry):
            yield entry.path
    for instant, entry in traces.aborted.items():
        if traces.timeline.find(instant) is None and facts.is_old(entry):
            yield entry.path  # its tombstone went with the instants around it
    for state, _ in traces.states:
        if state.is_pending and _is_aborted(traces, state.requested_time):
            # A request of its executor came late; other engines would take it for pending.
            yield instant_path(facts.ref.properties.timeline, state)
    for instant, entry in traces.heartbeats.items():
        if facts.is_settled(instant):
            yield entry.path
    if any(facts.is_old(entry, expiries=_ROUNDS) for entry in traces.staged):
        decision = read_head(facts.ref.env).decision
        for entry in traces.staged:
            is_named = decision is not None and decision.staged == entry.path
            if facts.is_old(entry, expiries=_ROUNDS) and not is_named:
                yield entry.path
    for entry in traces.probes:
        if facts.is_old(entry):
            yield entry.path
    yield from _find_late_delta_commits(facts)


def find_metadata_files(traces: Traces, instant: InstantTime) -> list[str]:
    """What an instant that was rolled back has in the metadata table: it came late."""
    return [path for path in traces.metadata_table if _made_in_metadata_table(path) == instant]


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
    found: dict[InstantTime, list[tuple[InstantTime, str]]] = {}
    for path in facts.traces.metadata_table:
        state = parse_instant(path.rpartition("/")[2], layout=2)
        if state is not None and state.is_completed and state.action is Action.DELTA_COMMIT:
            found.setdefault(state.requested_time, []).append((state.ended_at, path))
    for time, files in found.items():
        if len(files) > 1 and facts.is_settled(time):
            yield from (path for _, path in sorted(files)[:-1])


def _is_aborted(traces: Traces, time: InstantTime) -> bool:
    found = traces.timeline.find(time)
    return found is not None and found.state is State.ABORTED


def _instant_of(completion: ObjectInfo) -> InstantTime:
    """The instant of a completion marker."""
    return InstantTime(completion.path[len(paths.COMPLETIONS) + 1 :].partition("/")[0])
