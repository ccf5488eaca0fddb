"""The sweep: takes away what crashes and cut-off writers left, once nobody can need it.

Nothing is removed that could belong to a writer at work: ages are of the store's own clock, and a
data file goes only if its instant was rolled back, or is committed without naming it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace

from hoodoo.concurrency.heartbeat import read_beat
from hoodoo.concurrency.liveness import default_expiry_ms, store_time_ms
from hoodoo.concurrency.markers import delete_markers, marker_instants
from hoodoo.errors import NotFound, naming
from hoodoo.format import json_object
from hoodoo.format.completion import decode_final, encode_final
from hoodoo.model import paths
from hoodoo.model.attempt import Leftovers
from hoodoo.model.instant import InstantTime, is_instant_time
from hoodoo.model.paths import PartitionPath
from hoodoo.recovery.files import announced, delete_files, present
from hoodoo.storage.local import LocalStorage
from hoodoo.table.ref import TableRef
from hoodoo.table.writable import refuse_unwritable
from hoodoo.timeline.history import load_history
from hoodoo.timeline.load import read_commit
from hoodoo.timeline.timeline import Timeline

log = logging.getLogger("hoodoo.recovery")

_ROUNDS = 2


@dataclass(frozen=True, slots=True)
class Swept:
    """Paths of what a sweep removed."""

    data_files: tuple[str, ...] = ()
    leftovers: tuple[str, ...] = ()
    """Heartbeats, markers of all kinds, claims, notes and temporary files."""


@dataclass(frozen=True, slots=True)
class _Facts:
    """What is on the store, by its own time; the timeline was read last."""

    timeline: Timeline
    now_ms: int
    expiry_ms: int
    heartbeats: frozenset[InstantTime]
    beating: frozenset[InstantTime]

    def is_settled(self, instant: InstantTime) -> bool:
        """Whether nobody works on an instant any more."""
        found = self.timeline.find(instant)
        return (found is None or not found.is_pending) and instant not in self.beating


def sweep(ref: TableRef) -> Swept:
    """Remove leftovers of instants that have ended.

    Order: facts (markers of both kinds, heartbeats, store's time, timeline last: an instant whose
    marker was seen is on it, unless it has ended); data files, then the markers that announced
    them.
    Crash: the next sweep goes on.
    """
    refuse_unwritable(ref)
    env = ref.env
    marked = marker_instants(env)
    told = list(env.storage.list_directories(paths.COMPLETIONS))
    facts = _load_facts(ref)
    data: list[str] = []
    other: list[str] = []
    for instant in marked:
        if facts.is_settled(instant):
            data += sweep_instant(ref, facts.timeline, instant)
            other.append(paths.marker_directory(instant))
    data += _sweep_noted(ref, facts, other)
    data += _sweep_finalized(ref, facts, other)
    old = [
        *_old_completions(ref, facts, told),
        *(paths.heartbeat(time) for time in facts.heartbeats if facts.is_settled(time)),
        *_old_claims(ref, facts),
        *_old_probes(ref, facts),
    ]
    if isinstance(env.storage, LocalStorage):
        old += env.storage.stale_temporaries()
    other += delete_files(env, old)
    if data or other:
        log.info("swept data_files=%d leftovers=%d", len(data), len(other))
    return Swept(tuple(sorted(data)), tuple(sorted(other)))


def sweep_instant(ref: TableRef, timeline: Timeline, instant: InstantTime) -> set[str]:
    """Remove the files that an instant announced and no commit names, then its markers.

    Needs: it is not pending on `timeline`, and nobody works on it any more.
    """
    env = ref.env
    deleted = delete_files(env, strays_of(ref, timeline, instant, announced(env, instant)))
    delete_markers(env, instant)
    return deleted


def _load_facts(ref: TableRef) -> _Facts:
    env, expiry_ms = ref.env, default_expiry_ms(ref)
    heartbeats = {}
    for entry in env.storage.list(paths.HEARTBEATS):
        name = entry.path.rpartition("/")[2]
        if is_instant_time(name):
            heartbeats[InstantTime(name)] = entry.modified_ms
    now_ms = store_time_ms(env)
    beating = set()
    for time, modified_ms in heartbeats.items():
        try:
            beat = read_beat(env, time)
        except NotFound:
            continue
        if now_ms - modified_ms <= (beat.expiry_ms if beat else expiry_ms):
            beating.add(time)
    return _Facts(ref.load_timeline(), now_ms, expiry_ms, frozenset(heartbeats), frozenset(beating))


def strays_of(
    ref: TableRef, timeline: Timeline, instant: InstantTime, files: Iterable[str]
) -> list[str]:
    """Of the files of an instant, those that no commit names.

    Needs: it is not pending on `timeline`.
    """
    found = timeline.find(instant)
    if found is not None:
        metadata = read_commit(ref.env, ref.properties.timeline, found)
        named = {stat.path for _, stat in metadata.stats()}
        return [path for path in files if path not in named]
    history = load_history(ref.env, ref.properties.timeline, since=instant)
    if any(archived.requested_time == instant for archived in history):
        return []  # what it named is no longer at hand
    return list(files)


def _sweep_noted(ref: TableRef, facts: _Facts, other: list[str]) -> list[str]:
    """Look again, one and two expiries after a rollback, where its writer may have gone on."""
    env = ref.env
    data: list[str] = []
    for entry in list(env.storage.list(paths.SWEEPS)):
        with naming(entry.path):
            note = json_object.decode(env.storage.read(entry.path), Leftovers)
        if facts.now_ms - entry.modified_ms <= facts.expiry_ms or note.instant in facts.beating:
            continue
        if facts.timeline.find(note.instant) is None:
            places = map(PartitionPath, note.partitions)
            data += delete_files(env, present(env, note.instant, places))
        if note.rounds + 1 < _ROUNDS:
            env.storage.put(entry.path, json_object.encode(replace(note, rounds=note.rounds + 1)))
        else:
            other += delete_files(env, [entry.path])
    return data


def _sweep_finalized(ref: TableRef, facts: _Facts, other: list[str]) -> list[str]:
    """Look, one and two expiries after a commit, for files of tasks that outlived it.

    The finalize marker names the partitions that they were about. It stays until then, so that
    tasks find it, and goes for rolled back instants too, whose files have a note of their own.
    """
    env = ref.env
    data: list[str] = []
    for entry in list(env.storage.list(paths.FINALS)):
        instant = InstantTime(entry.path.rpartition("/")[2])
        is_young = facts.now_ms - entry.modified_ms <= facts.expiry_ms
        if is_young or not facts.is_settled(instant):
            continue
        with naming(entry.path):
            final = decode_final(env.storage.read(entry.path))
        if facts.timeline.find(instant) is not None:
            told = {stat.partition_path for stat in final.stats or ()}
            places = sorted(place for place in told if place is not None)
            found = list(present(env, instant, places))
            data += delete_files(env, strays_of(ref, facts.timeline, instant, found))
        if final.rounds + 1 < _ROUNDS:
            env.storage.put(entry.path, encode_final(replace(final, rounds=final.rounds + 1)))
        else:
            other += delete_files(env, [entry.path])
    return data


def _old_completions(ref: TableRef, facts: _Facts, told: Iterable[str]) -> list[str]:
    """What handles said to each other, once their instant has ended."""
    return [
        entry.path
        for name in told
        if is_instant_time(name) and facts.is_settled(InstantTime(name))
        for entry in ref.env.storage.list(f"{paths.COMPLETIONS}/{name}", recursive=True)
    ]


def _old_claims(ref: TableRef, facts: _Facts) -> list[str]:
    """Claims outlive every gate that could meet them."""
    return [
        entry.path
        for entry in ref.env.storage.list(paths.CLAIMS)
        if facts.now_ms - entry.modified_ms > _ROUNDS * facts.expiry_ms
        and facts.is_settled(InstantTime(entry.path.rpartition("/")[2]))
    ]


def _old_probes(ref: TableRef, facts: _Facts) -> list[str]:
    return [
        entry.path
        for entry in ref.env.storage.list(paths.PROBES)
        if facts.now_ms - entry.modified_ms > facts.expiry_ms
    ]
