"""Compaction of a metadata table, and what it need not keep afterwards.

All of it happens under the table's lock. `compact_metadata_groups` merges the log files of each
file group into a new base file. The time X of a compaction splits log files by when their commits
ended: those before X are in its base files, those after it are on top. So X must be later than
every commit that is compacted, and every later commit must end after X: the caller moves the head
to X first, and then loads the table. A commit whose action is pending is never compacted: it could
not be taken back any more.

`clean_up` deletes strays and old file slices. Readers that loaded the table before a compaction
still read the slice before it, so that slice stays until the next compaction. `archive_timeline`
moves old instants into the history. A crash leaves a pending compaction whose base files nobody
reads; it is removed once it is so old that no request of its writer can come late.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from hoodoo.concurrency.heartbeats import SETTLED_EXPIRIES, default_expiry_ms, store_time_ms
from hoodoo.concurrency.transactions.gate import change_properties
from hoodoo.concurrency.transactions.transaction import Txn, new_time, transaction
from hoodoo.config.metadata_table import COMPACT_COMMITS
from hoodoo.errors import FormatError, ObjectNotFound
from hoodoo.format.timeline import instant_files as codec
from hoodoo.format.timeline.history import ArchivedInstant
from hoodoo.metadata_table.build import describe_base
from hoodoo.metadata_table.delta_commits import (
    create_under_lock,
    list_partition,
    list_states,
    make_commit_metadata,
    remove_delta_commit,
    state_path,
)
from hoodoo.metadata_table.entries.encode import encode_base
from hoodoo.metadata_table.entries.read import read_group
from hoodoo.metadata_table.table import (
    MetadataTable,
    find_last_compaction,
    has_metadata_table,
    load_metadata_properties,
    open_metadata_table,
)
from hoodoo.model.commit import OperationType, RestoreMetadata, RollbackMetadata, WriteStat
from hoodoo.model.files import (
    DataFile,
    FileSlice,
    build_file_groups,
    depends_on_history,
    instant_of_file,
)
from hoodoo.model.instant import Action, Instant, InstantTime, State
from hoodoo.model.metadata_table import SOLO_TIME
from hoodoo.model.names import BaseFileName, WriteToken
from hoodoo.model.paths import METADATA_TABLE, PartitionPath, TimelinePaths, join
from hoodoo.model.plans import CompactionOperation, CompactionPlan
from hoodoo.runtime.lost_answers import delete_surely
from hoodoo.services.archive.archive import history_rules
from hoodoo.services.archive.history_writer import HistoryRules, add_to_history
from hoodoo.services.indexing.plan import find_build_bounds
from hoodoo.table.history import add_history, load_history
from hoodoo.table.ref import TableRef
from hoodoo.table.timeline import Timeline, load_timeline, read_metadata
from hoodoo.table.writable import reopen_for_writing

log = logging.getLogger("hoodoo.services")


# -- merging log files --------------------------------------------------------------------------


_TOKEN = WriteToken("0-0-0")


@dataclass(frozen=True, slots=True)
class GroupToCompact:
    """A file group of a partition, as it is now."""

    partition: str
    slice: FileSlice


def count_since_compaction(timeline: Timeline) -> int:
    """How many delta commits were completed since the last compaction, the first ones included."""
    last = find_last_compaction(timeline)
    since = last.requested_time if last else ""
    return sum(
        instant.action is Action.DELTA_COMMIT and instant.completion_or_requested_time > since
        for instant in timeline.completed
    )


def find_pending_compactions(timeline: Timeline) -> list[Instant]:
    """Compactions that were begun, and not completed."""
    kinds = (Action.COMPACTION, Action.LOG_COMPACTION)
    return [instant for instant in timeline.pending if instant.action in kinds]


def find_undecided(timeline: Timeline, data_timeline: Timeline) -> InstantTime | None:
    """A completed delta commit whose action is pending: nothing is compacted before that ends."""
    pending = {instant.requested_time for instant in data_timeline.pending}
    times = (i.requested_time for i in timeline.completed if i.action is Action.DELTA_COMMIT)
    return next((time for time in times if time in pending), None)


def find_groups_to_compact(table: MetadataTable, partitions: Iterable[str]) -> list[GroupToCompact]:
    """The file groups that have log files."""
    return [
        GroupToCompact(partition, one)
        for partition in sorted(partitions)
        for one in table.load_partition(partition).slices
        if one.logs
    ]


def compact_metadata_groups(
    txn: Txn, table: MetadataTable, time: InstantTime, groups: Sequence[GroupToCompact]
) -> None:
    """Compact these file groups.

    Needs: a Txn whose head has the time of the compaction, and a table that was loaded after that.
    Order: requested file with the plan; inflight file; base files; completed file.
    Crash: a pending compaction, whose base files nobody reads. It is removed once it is so old
    that no request of its writer can come late.
    """
    where = table.properties.timeline_paths
    requested_instant = Instant(time, Action.COMPACTION, State.REQUESTED)
    plan = CompactionPlan(operations=tuple(map(_describe, groups)))
    create_under_lock(txn, state_path(where, requested_instant), codec.encode(plan))
    create_under_lock(txn, state_path(where, Instant(time, Action.COMPACTION, State.INFLIGHT)), b"")
    stats = [_compact_group(txn, table, time, group) for group in groups]
    completion_time = new_time(txn, after=max(filter(None, (time, table.timeline.newest_time))))
    completed_instant = Instant(time, Action.COMMIT, State.COMPLETED, completion_time)
    metadata = make_commit_metadata(stats, OperationType.COMPACT)
    create_under_lock(txn, state_path(where, completed_instant), codec.encode(metadata))
    log.info("compacted time=%s file_groups=%d", time, len(groups))


def _compact_group(
    txn: Txn, table: MetadataTable, time: InstantTime, group: GroupToCompact
) -> WriteStat:
    one = group.slice
    entries = read_group(table, group.partition, one)
    name = BaseFileName(one.group.file_id, _TOKEN, time, ".hfile")
    created_ms = txn.env.clock.now_ms()
    data = encode_base(group.partition, entries, created_ms=created_ms, name=str(name))
    create_under_lock(txn, join(METADATA_TABLE, group.partition, str(name)), data)
    return describe_base(group.partition, name, entries.num_rows, len(data))


def _describe(group: GroupToCompact) -> CompactionOperation:
    one = group.slice
    log_bytes = sum(each.size_bytes for each in one.logs)
    return CompactionOperation(
        base_instant_time=one.base_time,
        delta_file_paths=tuple(str(each.name) for each in one.logs),
        data_file_path=str(one.base.name) if one.base else None,
        file_id=one.group.file_id,
        partition_path=PartitionPath(group.partition),
        metrics={
            "TOTAL_LOG_FILES": float(len(one.logs)),
            "TOTAL_LOG_FILES_SIZE": float(log_bytes),
            "TOTAL_IO_READ_MB": float(one.size_bytes >> 20),
            "TOTAL_IO_WRITE_MB": float((one.base.size_bytes if one.base else 0) >> 20),
            "TOTAL_IO_MB": float(one.size_bytes >> 20),
        },
    )


# -- old files and instants ---------------------------------------------------------------------


_KEPT_SLICES = 2
_ARCHIVE_AT = 20
"""So many instants leave the timeline at once, at least."""


def clean_up(txn: Txn, table: MetadataTable, partitions: Iterable[str]) -> int:
    """Delete files that no reader needs any more; how many.

    Needs: a Txn; `table` was loaded in it, and has no pending compaction.
    Order: of each partition, files of slices before the last two, and files whose instant is
    neither on the timeline nor archived.
    Crash: the next one goes on.
    """
    delete_count = 0
    for partition in sorted(partitions):
        for file in _find_unneeded(table, list_partition(txn.env, partition)):
            txn.fence.ensure_publish_window()
            delete_surely(txn.env, file.path)
            delete_count += 1
    if delete_count:
        log.info("metadata_table_cleaned files=%d", delete_count)
    return delete_count


def _find_unneeded(table: MetadataTable, files: list[DataFile]) -> list[DataFile]:
    visibility = table.timeline.visibility(start=table.start)
    if depends_on_history(files, visibility):
        visibility = add_history(table.env, table.properties.timeline_paths, visibility)
    pending = {i.requested_time for i in table.timeline if not i.is_completed}
    settled_files = [file for file in files if instant_of_file(file) not in pending]
    strays = [file for file in settled_files if not visibility.sees(instant_of_file(file))]
    old: list[DataFile] = []
    for group in build_file_groups(settled_files, visibility, by_completion=True):
        for one in group.slices[:-_KEPT_SLICES]:
            old += [*([one.base] if one.base else []), *one.logs]
    return [*strays, *old]


def archive_timeline(
    txn: Txn, table: MetadataTable, rules: HistoryRules, *, bounds: Collection[InstantTime] = ()
) -> int:
    """Move instants that ended before the last compaction but one into the history; how many.

    Needs: a Txn; `table` was loaded in it. Files of those instants are deleted by then, but for
    those of partitions that are being built: nothing from these `bounds` on leaves.
    Order: history; then files of the timeline deleted, pending ones first, oldest first.
    Crash: before the history nothing happened; after it the next one deletes what is left.
    """
    where = table.properties.timeline_paths
    states = list_states(txn.env, where)
    leaving = choose_metadata_instants_to_archive(Timeline.of(states), bounds)
    if len(leaving) < _ARCHIVE_AT:
        return 0
    first = leaving[0].requested_time
    history_times = {each.requested_time for each in load_history(txn.env, where, since=first)}
    fresh = [i for i in leaving if i.requested_time not in history_times]  # else one was cut off
    if fresh:
        history_entries = [_read(table, instant, states) for instant in fresh]
        add_to_history(replace(txn, timeline_paths=where), history_entries, rules)
    times = {(instant.requested_time, instant.action.completed_as) for instant in leaving}
    own = [s for s in states if (s.requested_time, s.action.completed_as) in times]
    for state in sorted(own, key=lambda each: (each.is_completed, each.requested_time)):
        delete_surely(txn.env, state_path(where, state))
    log.info("metadata_timeline_archived instants=%d", len(leaving))
    return len(leaving)


def choose_metadata_instants_to_archive(
    timeline: Timeline, bounds: Collection[InstantTime] = ()
) -> list[Instant]:
    """The instants that ended before the last compaction but one, up to the first that stays."""
    compactions = sorted(
        i.requested_time for i in timeline.completed if i.action.completed_as is Action.COMMIT
    )
    if len(compactions) < _KEPT_SLICES:
        return []
    bound = min((compactions[-_KEPT_SLICES], *bounds))
    leaving = []
    for instant in timeline:
        if instant.requested_time.startswith(SOLO_TIME):
            continue
        if not instant.is_completed or instant.completion_or_requested_time >= bound:
            break
        leaving.append(instant)
    return leaving


def _read(table: MetadataTable, instant: Instant, states: list[Instant]) -> ArchivedInstant:
    where, storage = table.properties.timeline_paths, table.env.storage
    plans = [
        state
        for state in states
        if state.requested_time == instant.requested_time
        and state.state is State.REQUESTED
        and state.action in (Action.COMPACTION, Action.ROLLBACK)
    ]
    return ArchivedInstant(
        requested_time=instant.requested_time,
        completion_time=instant.completion_time,
        action=instant.action.completed_as,
        metadata=storage.read(state_path(where, instant)),
        plan=storage.read(state_path(where, plans[0])) if plans else None,
    )


def remove_pending_compaction(txn: Txn, table: MetadataTable, instant: Instant) -> None:
    """Take a compaction away that was cut off.

    Needs: a Txn, and that it is so old that no request of its writer can come late.
    Order: its base files; inflight and requested file.
    Crash: it is pending still; the next one does the same.
    """
    time: InstantTime = instant.requested_time
    for partition in txn.env.storage.list_directories(METADATA_TABLE):
        if partition.startswith("."):
            continue
        for file in list_partition(txn.env, partition):
            if instant_of_file(file) == time:
                delete_surely(txn.env, file.path)
    where = table.properties.timeline_paths
    for state in (State.INFLIGHT, State.REQUESTED):
        delete_surely(txn.env, state_path(where, replace(instant, state=state)))
    log.warning("pending_compaction_removed time=%s", time)


# -- when a compaction is due -------------------------------------------------------------------


def is_compaction_due(ref: TableRef) -> bool:
    """Whether the metadata table has had enough delta commits since its last compaction."""
    try:
        where = load_metadata_properties(ref.env).timeline_paths
    except FormatError:
        return False
    timeline = load_timeline(ref.env, where)
    return count_since_compaction(timeline) >= ref.config.get(COMPACT_COMMITS)


def compact_metadata_table(ref: TableRef, *, at_least: int | None = None) -> InstantTime | None:
    """Compact the metadata table, if it had enough delta commits; None if there is no need.

    Then files that no reader needs any more are deleted, and its timeline is archived.
    Order: lock; what was rolled back, and came late, removed; head moved, so that whoever is in
    the gate starts over, and ends later than the compaction; that of `compact_metadata_groups`, of
    `clean_up`, of `archive_timeline`.
    Crash: that of `compact_metadata_groups`.
    """
    ref = ref.reopen()
    partitions = ref.properties.metadata_partitions
    if not has_metadata_table(ref.properties):
        return None
    commits_needed = ref.config.get(COMPACT_COMMITS) if at_least is None else at_least
    with transaction(ref, "metadata compaction") as txn:
        ref = reopen_for_writing(ref)
        table = open_metadata_table(ref.env, txn.timeline)
        _remove_late_commits(txn, ref, table)
        if count_since_compaction(table.timeline) < commits_needed or _is_blocked(txn, ref, table):
            return None
        change_properties(txn, {}, after=table.timeline.newest_time)
        txn.reload()
        table = open_metadata_table(ref.env, txn.timeline)
        if _is_blocked(txn, ref, table):
            return None
        time = txn.head.latest
        assert time is not None
        compact_metadata_groups(txn, table, time, find_groups_to_compact(table, partitions))
        table = open_metadata_table(ref.env, txn.timeline)
        clean_up(txn, table, partitions)
        bounds = list(find_build_bounds(ref, txn.timeline))
        if (
            txn.timeline.oldest_active_write is not None
        ):  # readers look whether all of the timeline is in it
            bounds.append(txn.timeline.oldest_active_write)
        archive_timeline(txn, table, history_rules(ref), bounds=bounds)
    return time


def _is_blocked(txn: Txn, ref: TableRef, table: MetadataTable) -> bool:
    """Whether something must end first; a compaction that was cut off long ago is removed here."""
    undecided_time = find_undecided(table.timeline, txn.timeline)
    if undecided_time is not None:
        log.info("metadata_compaction_waits instant=%s", undecided_time)
        return True
    pending = find_pending_compactions(table.timeline)
    for instant in pending:
        if not _is_old(ref, table.properties.timeline_paths, instant):
            log.info("metadata_compaction_waits compaction=%s", instant.requested_time)
            return True
        remove_pending_compaction(txn, table, instant)
    return bool(pending)  # the next one finds it gone


def _is_old(ref: TableRef, timeline_paths: TimelinePaths, instant: Instant) -> bool:
    try:
        modified_ms = ref.env.storage.stat(state_path(timeline_paths, instant)).modified_ms
    except ObjectNotFound:
        return False
    return store_time_ms(ref.env) - modified_ms > SETTLED_EXPIRIES * default_expiry_ms(ref)


def _remove_late_commits(txn: Txn, ref: TableRef, table: MetadataTable) -> None:
    """Remove delta commits whose action was rolled back before their last request came."""
    start = txn.timeline.oldest_active_write
    unknown = [
        instant.requested_time
        for instant in table.timeline.completed
        if instant.action is Action.DELTA_COMMIT
        and start is not None
        and instant.requested_time >= start
        and txn.timeline.find(instant.requested_time) is None
    ]
    if not unknown:
        return
    undone = set(_load_undone(ref, txn.timeline))
    where = table.properties.timeline_paths
    for time in unknown:
        if time in undone:
            remove_delta_commit(txn, where, time, list_states(txn.env, where))


def _load_undone(ref: TableRef, timeline: Timeline) -> Iterable[InstantTime]:
    """What completed rollbacks and restores of the active timeline took back."""
    for instant in timeline.completed:
        if instant.action in (Action.ROLLBACK, Action.RESTORE):
            match read_metadata(ref.env, ref.properties.timeline_paths, instant):
                case RollbackMetadata(commits_rollback=times):
                    yield from map(InstantTime, times)
                case RestoreMetadata(instants_to_rollback=times):
                    yield from map(InstantTime, times)
