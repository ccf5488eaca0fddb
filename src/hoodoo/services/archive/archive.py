"""Archive: old instants move from the active timeline into the history.

The first part chooses the instants: pure, facts in, instants out. Commits leave in the order of
their requested times, so that whatever is older than the first one that stays counts as archived,
and thereby as committed. An instant stays while a reader or writer may need to look it up, and
while an older instant might have to be rolled back.

The second part copies the instants into the history and only then deletes their files. A crash in
between leaves instants in both places, which readers see once; the next archival deletes them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hoodoo.concurrency.heartbeats import SETTLED_EXPIRIES, default_expiry_ms, store_time_ms
from hoodoo.concurrency.transactions.transaction import transaction
from hoodoo.config.retention import (
    ARCHIVE_BELOW_CLEAN,
    ARCHIVE_BEYOND_SAVEPOINT,
    HISTORY_BATCH,
    HISTORY_FILE_BYTES,
    KEEP_MAX_COMMITS,
    KEEP_MIN_COMMITS,
    MANIFESTS_RETAINED,
)
from hoodoo.deprecated import find_by_old_name, with_old_fields
from hoodoo.errors import ConfigError, UnusablePath
from hoodoo.format.timeline.history import ArchivedInstant
from hoodoo.metadata_table.table import (
    find_last_compaction,
    has_metadata_table,
    load_metadata_properties,
)
from hoodoo.model import paths
from hoodoo.model.instant import Action, Instant, InstantTime, State
from hoodoo.model.names import named_in_json
from hoodoo.model.paths import TimelinePaths
from hoodoo.model.table import TableType
from hoodoo.read.file_listing import data_files
from hoodoo.recovery.strays import delete_files
from hoodoo.recovery.sweep import DotHoodieListing, list_hoodie_directory
from hoodoo.runtime.engine import REQUEST_BYTES, Engine
from hoodoo.runtime.env import Env
from hoodoo.services.archive.history_writer import HistoryRules, add_to_history
from hoodoo.services.clean.facts import load_last_clean, load_retained_views
from hoodoo.services.indexing.plan import find_build_bounds
from hoodoo.table.history import load_history, newest_archived
from hoodoo.table.ref import TableRef
from hoodoo.table.timeline import (
    Timeline,
    instant_path,
    load_rollback_targets,
    load_timeline,
    read_commit,
)
from hoodoo.table.writable import reopen_for_writing

log = logging.getLogger("hoodoo.services")


# -- choosing instants --------------------------------------------------------------------------


_PASSING = frozenset({Action.CLEAN, Action.ROLLBACK, Action.INDEXING})
"""What leaves together with the commits around it."""


@dataclass(frozen=True, slots=True)
class ArchiveFacts:
    """What decides about archival."""

    timeline: Timeline
    keep_min: int
    keep_max: int
    ages_ms: Mapping[InstantTime, int]
    """How long ago instants were completed, by the store's clock; absent ones are young."""
    settled_ms: int
    """From this age on, nothing can come late any more."""
    bounds: Collection[InstantTime] = ()
    """Nothing from these times on may leave: unfinished sweeps, targets of rollbacks, and such."""
    passes_savepoints: bool = False


@dataclass(frozen=True, slots=True)
class ArchiveSelection:
    """What leaves the active timeline."""

    instants_to_archive: tuple[Instant, ...] = ()
    """Completed instants, by requested time."""
    instants_to_drop: tuple[Instant, ...] = ()
    """Tombstones of plans that were cancelled, of which the history needs not to know."""


def choose_instants_to_archive(facts: ArchiveFacts) -> ArchiveSelection:
    """What is to be archived now."""
    commits = _choose_commits(facts)
    if not commits:
        return ArchiveSelection()
    last = commits[-1].requested_time
    cleans = [i for i in facts.timeline.completed if i.action is Action.CLEAN]
    passing = [
        instant
        for instant in facts.timeline.completed
        if instant.action in _PASSING
        and instant.requested_time < last
        and _is_settled(facts, instant)
        and instant not in cleans[-1:]  # it tells what can still be read
    ]
    instants_to_drop = [
        instant
        for instant in facts.timeline
        if instant.state is State.ABORTED and instant.requested_time < last
    ]
    instants_to_archive = sorted([*commits, *passing], key=lambda instant: instant.requested_time)
    return ArchiveSelection(tuple(instants_to_archive), tuple(instants_to_drop))


def _choose_commits(facts: ArchiveFacts) -> list[Instant]:
    timeline, commits = facts.timeline, facts.timeline.commits.instants
    if len(commits) <= facts.keep_max:
        return []
    bound = _find_bound(facts)
    savepoint_times = {instant.requested_time for instant in timeline.savepoints}
    commits_to_archive: list[Instant] = []
    for commit in commits:
        is_held = commit.requested_time in savepoint_times
        if is_held and facts.passes_savepoints:
            continue
        is_above = bound is not None and commit.requested_time >= bound
        if is_held or is_above or not _is_settled(facts, commit):
            break
        if len(commits) - len(commits_to_archive) <= facts.keep_min:
            break
        commits_to_archive.append(commit)
    return commits_to_archive


def _find_bound(facts: ArchiveFacts) -> InstantTime | None:
    """The first time that stays: below it nothing is pending, and there is a commit before that."""
    bounds = set(facts.bounds)
    pending = [i for i in facts.timeline.pending if i.action is not Action.SAVEPOINT]
    if pending:
        first = pending[0].requested_time
        before = [c for c in facts.timeline.commits if c.requested_time < first]
        bounds.add(before[-1].requested_time if before else first)
    return min(bounds, default=None)


def _is_settled(facts: ArchiveFacts, instant: Instant) -> bool:
    return facts.ages_ms.get(instant.requested_time, 0) > facts.settled_ms


def find_archive_bound(ref: TableRef, timeline: Timeline) -> Iterable[InstantTime]:
    """From which instant on the table's timeline is needed, for the metadata table's sake.

    Apache Hudi reads blocks of log files that the table's timeline knows: until they are compacted,
    their instants stay.
    """
    last_compaction_time = None
    if has_metadata_table(ref.properties):
        where = load_metadata_properties(ref.env).timeline_paths
        last = find_last_compaction(load_timeline(ref.env, where))
        last_compaction_time = last.requested_time if last is not None else InstantTime("")
        yield last_compaction_time
    yield from find_build_bounds(ref, timeline, ended_after=last_compaction_time)


def history_rules(ref: TableRef) -> HistoryRules:
    """Return the limits of history files that the settings of a table name."""
    config = ref.config
    return HistoryRules(
        config.get(HISTORY_BATCH), config.get(HISTORY_FILE_BYTES), config.get(MANIFESTS_RETAINED)
    )


# -- moving instants ----------------------------------------------------------------------------


_FILES_OF_A_TASK = 200
_PLANNED_ACTIONS = frozenset({Action.CLEAN, Action.COMPACTION, Action.LOG_COMPACTION})
_REPLACING = frozenset({Action.REPLACE_COMMIT, Action.CLUSTERING})

States = tuple[Instant, ...]
"""One instant in all states that have a file on the timeline."""


@with_old_fields
@dataclass(frozen=True, slots=True)
class ArchiveResult:
    """What an archival did."""

    instants: tuple[InstantTime, ...] = ()
    """Requested times of instants that went into the history."""
    finished_earlier: tuple[InstantTime, ...] = field(
        default=(), metadata=named_in_json("finished")
    )
    """Of those that were there already, and were still on the active timeline."""


@dataclass(frozen=True, slots=True)
class ReadInstantTask:
    """An instant to be read: what a task gets."""

    env: Env
    timeline_paths: TimelinePaths
    states: States

    @property
    def size_bytes(self) -> int:
        """So that an engine knows how much work it is."""
        return len(self.states) * REQUEST_BYTES


@dataclass(frozen=True, slots=True)
class DeleteFilesTask:
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


def is_inline_archive_due(ref: TableRef, timeline: Timeline) -> bool:
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


def archive(ref: TableRef, engine: Engine) -> ArchiveResult:
    """Bring the active timeline back to its bounds, as far as nobody needs what is on it.

    Order: what an earlier archival left; facts; contents read; in a transaction, by the timeline as
    it is then: history; then files deleted, pending ones first, completed ones oldest first.
    Crash: before the history nothing happened; after it files are left, which the next one deletes.
    """
    ref = reopen_for_writing(ref)
    traces = list_hoodie_directory(ref.env, ref.properties.timeline_paths)
    finished_times = _finish(ref, engine, traces)
    if finished_times:
        traces = list_hoodie_directory(ref.env, ref.properties.timeline_paths)
    facts = load_facts(ref, traces)
    leaving = choose_instants_to_archive(facts)
    if leaving.instants_to_archive:
        bounds = (*facts.bounds, *_find_uncleaned(ref, leaving.instants_to_archive))
        facts = replace(facts, bounds=bounds)
        leaving = choose_instants_to_archive(facts)
    if not leaving.instants_to_archive:
        return ArchiveResult(finished_earlier=finished_times)
    states = _group_states(traces)
    sources = [
        ReadInstantTask(ref.env, ref.properties.timeline_paths, states[_key(each)])
        for each in leaving.instants_to_archive
    ]
    read = engine.map(read_instant, sources)
    by_time = dict(zip(leaving.instants_to_archive, read, strict=True))
    with transaction(ref, "archive") as txn:
        still = choose_instants_to_archive(replace(facts, timeline=txn.timeline))
        leaving = ArchiveSelection(
            tuple(instant for instant in still.instants_to_archive if instant in by_time),
            tuple(
                instant for instant in still.instants_to_drop if instant in leaving.instants_to_drop
            ),
        )
        if not leaving.instants_to_archive:
            return ArchiveResult(finished_earlier=finished_times)
        add_to_history(
            txn, [by_time[instant] for instant in leaving.instants_to_archive], history_rules(ref)
        )
    _delete(
        ref,
        engine,
        [states[_key(each)] for each in (*leaving.instants_to_archive, *leaving.instants_to_drop)],
    )
    delete_files(
        ref.env,
        [paths.aborted_plan_path(instant.requested_time) for instant in leaving.instants_to_drop],
    )
    times = tuple(instant.requested_time for instant in leaving.instants_to_archive)
    log.info("archived instants=%d from=%s to=%s", len(times), times[0], times[-1])
    return ArchiveResult(times, finished_times)


def load_facts(ref: TableRef, traces: DotHoodieListing) -> ArchiveFacts:
    """What decides about archival now; which file groups were cleaned is not looked at yet."""
    timeline, layout = traces.timeline, ref.properties.timeline_paths
    keep_min, keep_max = ref.config.get(KEEP_MIN_COMMITS), ref.config.get(KEEP_MAX_COMMITS)
    if keep_max <= keep_min:
        reason = f"expected more than {KEEP_MIN_COMMITS.name}, which is {keep_min}"
        raise ConfigError(key=KEEP_MAX_COMMITS.name, value=str(keep_max), reason=reason)
    room = keep_max - keep_min
    earliest = load_retained_views(ref, timeline).earliest
    if earliest is not None:
        later = [c for c in timeline.commits if c.requested_time > earliest.requested_time]
        keep_min = max(keep_min, len(later) + 2)
    now_ms = store_time_ms(ref.env)
    modified_by_time = {
        instant.requested_time: modified_ms
        for instant, modified_ms in traces.timeline_files
        if instant.is_completed and instant.action is not Action.SAVEPOINT
    }
    return ArchiveFacts(
        timeline=timeline,
        keep_min=keep_min,
        keep_max=keep_min + room,
        ages_ms={time: now_ms - at_ms for time, at_ms in modified_by_time.items()},
        settled_ms=SETTLED_EXPIRIES * default_expiry_ms(ref),
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


def _find_unswept(traces: DotHoodieListing) -> Iterable[InstantTime]:
    """Instants of which files may be left, or may still come."""
    completions = len(paths.COMPLETIONS) + 1
    yield from traces.sweep_notes
    yield from traces.finalize_markers
    yield from traces.instants_with_markers
    for entry in traces.completions:
        yield InstantTime(entry.path[completions:].partition("/")[0])


def _find_last_kept(ref: TableRef, timeline: Timeline) -> Iterable[InstantTime]:
    last = load_last_clean(ref, timeline) if ref.config.get(ARCHIVE_BELOW_CLEAN) else None
    if last is not None and last.earliest is not None:
        yield last.earliest


def _find_uncleaned(ref: TableRef, leaving: Sequence[Instant]) -> Iterable[InstantTime]:
    """Replace commits whose file groups still have files: without them, old rows would be back."""
    file_ids_by_partition: dict[str, set[str]] = {}
    for instant in leaving:
        if instant.action is not Action.REPLACE_COMMIT:
            continue
        metadata = read_commit(ref.env, ref.properties.timeline_paths, instant)
        for group in metadata.replaced_file_groups():
            if group.partition not in file_ids_by_partition:
                try:
                    entries = list(ref.env.storage.list(group.partition))
                except UnusablePath:
                    entries = []
                files = data_files(group.partition, entries)
                file_ids_by_partition[group.partition] = {file.name.file_id for file in files}
            if group.file_id in file_ids_by_partition[group.partition]:
                yield instant.requested_time
                break


# -- reading and deleting -----------------------------------------------------------------------


def read_instant(source: ReadInstantTask) -> ArchivedInstant:
    """An instant as the history holds it."""
    by_state = {instant.state: instant for instant in source.states}
    completed_instant = by_state[State.COMPLETED]

    def read(state: State) -> bytes:
        instant = by_state.get(state)
        path = instant_path(source.timeline_paths, instant) if instant is not None else None
        return source.env.storage.read(path) if path else b""

    pending = {instant.action for instant in source.states if instant.is_pending}
    plan = b""
    if pending & (_PLANNED_ACTIONS | _REPLACING):
        plan = read(State.REQUESTED)
    if pending & _REPLACING:
        plan = read(State.INFLIGHT) or plan
    return ArchivedInstant(
        requested_time=completed_instant.requested_time,
        completion_time=completed_instant.completion_time,
        action=completed_instant.action.completed_as,
        metadata=read(State.COMPLETED),
        plan=plan or None,
    )


def _finish(ref: TableRef, engine: Engine, traces: DotHoodieListing) -> tuple[InstantTime, ...]:
    """Delete what is in the history already: an archival was cut off."""
    env, layout = ref.env, ref.properties.timeline_paths
    newest = newest_archived(env, layout)
    first = next((i.requested_time for i in traces.timeline.completed), None)
    if newest is None or first is None or first > newest:
        return ()
    here = _group_states(traces)
    history = load_history(env, layout, since=first)
    leftover_states = [
        here[key] for each in history if (key := (each.requested_time, each.action)) in here
    ]
    leftover_states = [
        states for states in leftover_states if any(state.is_completed for state in states)
    ]
    if leftover_states:
        log.warning("finishing_archival instants=%d", len(leftover_states))
        _delete(ref, engine, leftover_states)
    return tuple(states[0].requested_time for states in leftover_states)


def _delete(ref: TableRef, engine: Engine, leaving: Sequence[States]) -> None:
    """Pending files first: alone, they would look as if somebody were at work.

    Then completed ones, oldest first and one after the other, so that those who list the timeline
    meanwhile can tell that they missed some.
    """
    layout = ref.properties.timeline_paths
    _delete_all(ref, engine, leaving, lambda state: state.is_pending)
    for states in leaving:
        for state in states:
            if not state.is_pending:
                delete_files(ref.env, [instant_path(layout, state)])


def _delete_all(
    ref: TableRef, engine: Engine, leaving: Iterable[States], keep: Callable[[Instant], bool]
) -> None:
    layout = ref.properties.timeline_paths
    files = [instant_path(layout, state) for states in leaving for state in states if keep(state)]
    pieces = [
        tuple(files[at : at + _FILES_OF_A_TASK]) for at in range(0, len(files), _FILES_OF_A_TASK)
    ]
    engine.map(delete_batch, [DeleteFilesTask(ref.env, piece) for piece in pieces])


def delete_batch(batch: DeleteFilesTask) -> None:
    """Delete these files; one that is gone already is fine."""
    delete_files(batch.env, batch.files)


def _group_states(traces: DotHoodieListing) -> dict[tuple[InstantTime, Action], States]:
    states_by_key: dict[tuple[InstantTime, Action], list[Instant]] = {}
    for instant, _ in traces.timeline_files:
        states_by_key.setdefault(_key(instant), []).append(instant)
    return {key: tuple(states) for key, states in states_by_key.items()}


def _key(instant: Instant) -> tuple[InstantTime, Action]:
    return instant.requested_time, instant.action.completed_as


if not TYPE_CHECKING:  # a type checker knows the names of today only

    def __getattr__(name: str) -> object:
        return find_by_old_name(__name__, name)
