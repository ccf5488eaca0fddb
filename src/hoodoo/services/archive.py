"""Archive: old instants move from the active timeline into the history.

What is in the history is not missed on the active timeline, so files are deleted there only after
all readers can find them in the history; if that is cut off, the next archival goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from hoodoo.concurrency.liveness import default_expiry_ms, store_time_ms
from hoodoo.concurrency.transaction import transaction
from hoodoo.config.upkeep import (
    ARCHIVE_BELOW_CLEAN,
    ARCHIVE_BEYOND_SAVEPOINT,
    HISTORY_BATCH,
    HISTORY_FILE_BYTES,
    KEEP_MAX_COMMITS,
    KEEP_MIN_COMMITS,
    MANIFESTS_RETAINED,
)
from hoodoo.engine.engine import REQUEST_BYTES, Engine
from hoodoo.env import Env
from hoodoo.errors import ConfigError, UnusablePath
from hoodoo.format.lsm import ArchivedInstant
from hoodoo.model import paths
from hoodoo.model.instant import Action, Instant, InstantTime, State
from hoodoo.model.paths import TimelinePaths
from hoodoo.model.table import TableType
from hoodoo.recovery.traces import Traces, load_traces
from hoodoo.services.archive_plan import ArchiveFacts, Leaving, choose_leaving
from hoodoo.services.clean_facts import choose_kept_views, load_last_clean
from hoodoo.services.metadata_table import find_archive_bound
from hoodoo.table.listing import data_files
from hoodoo.table.ref import TableRef
from hoodoo.table.strays import delete_files
from hoodoo.table.writable import reopen_for_writing
from hoodoo.timeline.history import load_history, newest_archived
from hoodoo.timeline.history_writer import HistoryRules, add_to_history
from hoodoo.timeline.load import instant_path, load_rollback_targets, read_commit
from hoodoo.timeline.timeline import Timeline

log = logging.getLogger("hoodoo.services")

_EXPIRIES = 2
_FILES_OF_A_TASK = 200
_PLANNED = frozenset({Action.CLEAN, Action.COMPACTION, Action.LOG_COMPACTION})
_REPLACING = frozenset({Action.REPLACE_COMMIT, Action.CLUSTERING})

States = tuple[Instant, ...]
"""One instant in all states that have a file on the timeline."""


@dataclass(frozen=True, slots=True)
class Archived:
    """What an archival did."""

    instants: tuple[InstantTime, ...] = ()
    """Requested times of instants that went into the history."""
    finished: tuple[InstantTime, ...] = ()
    """Of those that were there already, and were still on the active timeline."""


@dataclass(frozen=True, slots=True)
class Source:
    """An instant to be read: what a task gets."""

    env: Env
    paths: TimelinePaths
    states: States

    @property
    def size_bytes(self) -> int:
        """So that an engine knows how much work it is."""
        return len(self.states) * REQUEST_BYTES


@dataclass(frozen=True, slots=True)
class Batch:
    """Files to be deleted: what a task gets."""

    env: Env
    files: tuple[str, ...]

    @property
    def size_bytes(self) -> int:
        """So that an engine knows how much work it is."""
        return len(self.files) * REQUEST_BYTES


def is_archive_due(ref: TableRef, timeline: Timeline) -> bool:
    """Whether there are more commits on the timeline than there should be."""
    return len(timeline.commits) > ref.config.get(KEEP_MAX_COMMITS)


def is_batch_due(ref: TableRef, timeline: Timeline) -> bool:
    """The same once in so many commits as one archival takes away.

    On a busy table no commit is old enough yet, and each write would look in vain. Commits of
    services count with the last two writes: they would step over the number in question, and over
    the next one too if they come as regularly.
    """
    keep_max = ref.config.get(KEEP_MAX_COMMITS)
    batch = max(keep_max - ref.config.get(KEEP_MIN_COMMITS), 1)
    is_cow = ref.properties.type is TableType.COPY_ON_WRITE
    usual = Action.COMMIT if is_cow else Action.DELTA_COMMIT
    writes = [at for at, each in enumerate(timeline.commits) if each.action is usual]
    since = writes[-2] if len(writes) > 1 else 0
    above = range(max(since, keep_max), len(timeline.commits))
    return any((at - keep_max) % batch == 0 for at in above)


def archive(ref: TableRef, engine: Engine) -> Archived:
    """Bring the active timeline back to its bounds, as far as nobody needs what is on it.

    Order: what an earlier archival left; facts; contents read; in a transaction, by the timeline as
    it is then: history; then files deleted, pending ones first, completed ones oldest first.
    Crash: before the history nothing happened; after it files are left, which the next one deletes.
    """
    ref = reopen_for_writing(ref)
    traces = load_traces(ref.env, ref.properties.timeline)
    finished = _finish(ref, engine, traces)
    if finished:
        traces = load_traces(ref.env, ref.properties.timeline)
    facts = load_facts(ref, traces)
    leaving = choose_leaving(facts)
    if leaving.archived:
        bounds = (*facts.bounds, *_find_uncleaned(ref, leaving.archived))
        facts = replace(facts, bounds=bounds)
        leaving = choose_leaving(facts)
    if not leaving.archived:
        return Archived(finished=finished)
    states = _group_states(traces)
    sources = [
        Source(ref.env, ref.properties.timeline, states[_key(each)]) for each in leaving.archived
    ]
    read = engine.map(read_instant, sources)
    by_time = dict(zip(leaving.archived, read, strict=True))
    with transaction(ref, "archive") as txn:
        still = choose_leaving(replace(facts, timeline=txn.timeline))
        leaving = Leaving(
            tuple(instant for instant in still.archived if instant in by_time),
            tuple(instant for instant in still.dropped if instant in leaving.dropped),
        )
        if not leaving.archived:
            return Archived(finished=finished)
        add_to_history(txn, [by_time[instant] for instant in leaving.archived], _rules(ref))
    _delete(ref, engine, [states[_key(each)] for each in (*leaving.archived, *leaving.dropped)])
    delete_files(ref.env, [paths.aborted(instant.requested_time) for instant in leaving.dropped])
    times = tuple(instant.requested_time for instant in leaving.archived)
    log.info("archived instants=%d from=%s to=%s", len(times), times[0], times[-1])
    return Archived(times, finished)


def load_facts(ref: TableRef, traces: Traces) -> ArchiveFacts:
    """What decides about archival now; which file groups were cleaned is not looked at yet."""
    timeline, layout = traces.timeline, ref.properties.timeline
    keep_min, keep_max = ref.config.get(KEEP_MIN_COMMITS), ref.config.get(KEEP_MAX_COMMITS)
    if keep_max <= keep_min:
        reason = f"expected more than {KEEP_MIN_COMMITS.name}, which is {keep_min}"
        raise ConfigError(key=KEEP_MAX_COMMITS.name, value=str(keep_max), reason=reason)
    room = keep_max - keep_min
    earliest = choose_kept_views(ref, timeline).earliest
    if earliest is not None:
        later = [c for c in timeline.commits if c.requested_time > earliest.requested_time]
        keep_min = max(keep_min, len(later) + 2)
    now_ms = store_time_ms(ref.env)
    completed = {
        instant.requested_time: modified_ms
        for instant, modified_ms in traces.states
        if instant.is_completed and instant.action is not Action.SAVEPOINT
    }
    return ArchiveFacts(
        timeline=timeline,
        keep_min=keep_min,
        keep_max=keep_min + room,
        ages_ms={time: now_ms - modified for time, modified in completed.items()},
        settled_ms=_EXPIRIES * default_expiry_ms(ref),
        bounds=(
            *load_rollback_targets(ref.env, layout, timeline.pending),
            # What is rolled back before the lock is taken leaves a note that is not seen here.
            *(i.requested_time for i in timeline.pending if i.action.writes_data),
            *_find_unswept(traces),
            *_find_last_kept(ref, timeline),
            *find_archive_bound(ref, timeline),
        ),
        passes_savepoints=ref.config.get(ARCHIVE_BEYOND_SAVEPOINT),
    )


def _find_unswept(traces: Traces) -> Iterable[InstantTime]:
    """Instants of which files may be left, or may still come."""
    completions = len(paths.COMPLETIONS) + 1
    yield from traces.notes
    yield from traces.finals
    yield from traces.marked
    for entry in traces.completions:
        yield InstantTime(entry.path[completions:].partition("/")[0])


def _find_last_kept(ref: TableRef, timeline: Timeline) -> Iterable[InstantTime]:
    last = load_last_clean(ref, timeline) if ref.config.get(ARCHIVE_BELOW_CLEAN) else None
    if last is not None and last.earliest is not None:
        yield last.earliest


def _find_uncleaned(ref: TableRef, leaving: Sequence[Instant]) -> Iterable[InstantTime]:
    """Replace commits whose file groups still have files: without them, old rows would be back."""
    found: dict[str, set[str]] = {}
    for instant in leaving:
        if instant.action is not Action.REPLACE_COMMIT:
            continue
        metadata = read_commit(ref.env, ref.properties.timeline, instant)
        for group in metadata.replaced_file_groups():
            if group.partition not in found:
                try:
                    entries = list(ref.env.storage.list(group.partition))
                except UnusablePath:
                    entries = []
                files = data_files(group.partition, entries)
                found[group.partition] = {file.name.file_id for file in files}
            if group.file_id in found[group.partition]:
                yield instant.requested_time
                break


# -- reading and deleting -----------------------------------------------------------------------


def read_instant(source: Source) -> ArchivedInstant:
    """An instant as the history holds it."""
    by_state = {instant.state: instant for instant in source.states}
    completed = by_state[State.COMPLETED]

    def read(state: State) -> bytes:
        instant = by_state.get(state)
        path = instant_path(source.paths, instant) if instant is not None else None
        return source.env.storage.read(path) if path else b""

    pending = {instant.action for instant in source.states if instant.is_pending}
    plan = b""
    if pending & (_PLANNED | _REPLACING):
        plan = read(State.REQUESTED)
    if pending & _REPLACING:
        plan = read(State.INFLIGHT) or plan
    return ArchivedInstant(
        requested_time=completed.requested_time,
        completion_time=completed.completion_time,
        action=completed.action.completed_as,
        metadata=read(State.COMPLETED),
        plan=plan or None,
    )


def _finish(ref: TableRef, engine: Engine, traces: Traces) -> tuple[InstantTime, ...]:
    """Delete what is in the history already: an archival was cut off."""
    env, layout = ref.env, ref.properties.timeline
    newest = newest_archived(env, layout)
    first = next((i.requested_time for i in traces.timeline.completed), None)
    if newest is None or first is None or first > newest:
        return ()
    here = _group_states(traces)
    history = load_history(env, layout, since=first)
    left = [here[key] for each in history if (key := (each.requested_time, each.action)) in here]
    left = [states for states in left if any(state.is_completed for state in states)]
    if left:
        log.warning("finishing_archival instants=%d", len(left))
        _delete(ref, engine, left)
    return tuple(states[0].requested_time for states in left)


def _delete(ref: TableRef, engine: Engine, leaving: Sequence[States]) -> None:
    """Pending files first: alone, they would look as if somebody were at work.

    Then completed ones, oldest first and one after the other, so that those who list the timeline
    meanwhile can tell that they missed some.
    """
    layout = ref.properties.timeline
    _delete_all(ref, engine, leaving, lambda state: state.is_pending)
    for states in leaving:
        for state in states:
            if not state.is_pending:
                delete_files(ref.env, [instant_path(layout, state)])


def _delete_all(
    ref: TableRef, engine: Engine, leaving: Iterable[States], keep: Callable[[Instant], bool]
) -> None:
    layout = ref.properties.timeline
    files = [instant_path(layout, state) for states in leaving for state in states if keep(state)]
    pieces = [
        tuple(files[at : at + _FILES_OF_A_TASK]) for at in range(0, len(files), _FILES_OF_A_TASK)
    ]
    engine.map(delete_batch, [Batch(ref.env, piece) for piece in pieces])


def delete_batch(batch: Batch) -> None:
    """Delete these files; one that is gone already is fine."""
    delete_files(batch.env, batch.files)


def _group_states(traces: Traces) -> dict[tuple[InstantTime, Action], States]:
    grouped: dict[tuple[InstantTime, Action], list[Instant]] = {}
    for instant, _ in traces.states:
        grouped.setdefault(_key(instant), []).append(instant)
    return {key: tuple(states) for key, states in grouped.items()}


def _key(instant: Instant) -> tuple[InstantTime, Action]:
    return instant.requested_time, instant.action.completed_as


def _rules(ref: TableRef) -> HistoryRules:
    config = ref.config
    return HistoryRules(
        config.get(HISTORY_BATCH), config.get(HISTORY_FILE_BYTES), config.get(MANIFESTS_RETAINED)
    )
