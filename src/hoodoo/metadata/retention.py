"""What a metadata table need not keep: old file slices, strays, and instants of long ago.

Readers that loaded the table before a compaction still read the slice before it, so that one stays;
it goes with the next compaction.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from dataclasses import replace

from hoodoo.format.lsm import ArchivedInstant
from hoodoo.metadata.delta_commits import list_partition, list_states, state_path
from hoodoo.metadata.metadata_table import MetadataTable
from hoodoo.model.files import DataFile, made_by
from hoodoo.model.instant import Action, Instant, InstantTime, State
from hoodoo.model.metadata_table import SOLO_TIME
from hoodoo.model.paths import METADATA_TABLE
from hoodoo.model.slices import depends_on_history, file_groups
from hoodoo.timeline.history import add_history, load_history
from hoodoo.timeline.history_writer import HistoryRules, add_to_history
from hoodoo.timeline.resolve_unknown import delete_surely
from hoodoo.timeline.timeline import Timeline
from hoodoo.timeline.txn import Txn

log = logging.getLogger("hoodoo.metadata")

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
    deleted = 0
    for partition in sorted(partitions):
        for file in _find_unneeded(table, list_partition(txn.env, partition)):
            txn.fence.ensure()
            delete_surely(txn.env, file.path)
            deleted += 1
    if deleted:
        log.info("metadata_table_cleaned files=%d", deleted)
    return deleted


def _find_unneeded(table: MetadataTable, files: list[DataFile]) -> list[DataFile]:
    visibility = table.timeline.visibility(start=table.start)
    if depends_on_history(files, visibility):
        visibility = add_history(table.env, table.properties.timeline, visibility)
    pending = {i.requested_time for i in table.timeline if not i.is_completed}
    written = [file for file in files if made_by(file) not in pending]
    strays = [file for file in written if not visibility.sees(made_by(file))]
    old: list[DataFile] = []
    for group in file_groups(written, visibility, by_completion=True):
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
    where = table.properties.timeline
    states = list_states(txn.env, where)
    leaving = choose_leaving(Timeline.of(states), bounds)
    if len(leaving) < _ARCHIVE_AT:
        return 0
    first = leaving[0].requested_time
    known = {each.requested_time for each in load_history(txn.env, where, since=first)}
    fresh = [i for i in leaving if i.requested_time not in known]  # else one was cut off
    if fresh:
        archived = [_read(table, instant, states) for instant in fresh]
        add_to_history(replace(txn, paths=where), archived, rules)
    times = {(instant.requested_time, instant.action.completed_as) for instant in leaving}
    own = [s for s in states if (s.requested_time, s.action.completed_as) in times]
    for state in sorted(own, key=lambda each: (each.is_completed, each.requested_time)):
        delete_surely(txn.env, state_path(where, state))
    log.info("metadata_timeline_archived instants=%d", len(leaving))
    return len(leaving)


def choose_leaving(timeline: Timeline, bounds: Collection[InstantTime] = ()) -> list[Instant]:
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
        if not instant.is_completed or instant.ended_at >= bound:
            break
        leaving.append(instant)
    return leaving


def _read(table: MetadataTable, instant: Instant, states: list[Instant]) -> ArchivedInstant:
    where, storage = table.properties.timeline, table.env.storage
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
            if made_by(file) == time:
                delete_surely(txn.env, file.path)
    where = table.properties.timeline
    for state in (State.INFLIGHT, State.REQUESTED):
        delete_surely(txn.env, state_path(where, replace(instant, state=state)))
    log.warning("pending_compaction_removed time=%s", time)
