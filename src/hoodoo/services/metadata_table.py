"""The life of a metadata table: it is made, gets partitions, and is compacted.

All of it happens under the table's lock: a partition is built by what the table has then, and is
used from the moment that the table's properties name it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from hoodoo.concurrency.gate import change_properties
from hoodoo.concurrency.liveness import default_expiry_ms, store_time_ms
from hoodoo.concurrency.transaction import transaction
from hoodoo.config.metadata import (
    COMPACT_COMMITS,
    INDEX_BLOOM_FILTERS,
    INDEX_COLUMN_STATS,
    INDEX_RECORDS,
)
from hoodoo.config.table import METADATA_PARTITIONS, METADATA_PARTITIONS_INFLIGHT
from hoodoo.config.upkeep import HISTORY_BATCH, HISTORY_FILE_BYTES, MANIFESTS_RETAINED
from hoodoo.engine.engine import Engine
from hoodoo.errors import FormatError, HoodooError, InputError, NotFound
from hoodoo.metadata.build import fill_partition, make_metadata_table
from hoodoo.metadata.compact import (
    count_since_compaction,
    find_last_compaction,
    find_pending_compactions,
    find_undecided,
    plan_compaction,
    run_compaction,
)
from hoodoo.metadata.delta_commits import (
    list_states,
    remove_delta_commit,
    state_path,
    take_back_delta_commit,
)
from hoodoo.metadata.metadata_table import (
    MetadataTable,
    has_metadata_table,
    load_metadata_properties,
    open_metadata_table,
)
from hoodoo.metadata.recorder import (
    DEFINITIONS_PATH_KEY,
    recorded_partitions,
)
from hoodoo.metadata.retention import archive_timeline, clean_up, remove_pending_compaction
from hoodoo.model.commit import RestoreMetadata, RollbackMetadata
from hoodoo.model.instant import Action, Instant, InstantTime
from hoodoo.model.metadata_table import (
    BLOOM_FILTERS,
    COLUMN_STATS,
    FILES,
    PARTITION_STATS,
    RECORD_INDEX,
    WRITABLE_PARTITIONS,
)
from hoodoo.model.paths import METADATA_TABLE, TimelinePaths, join
from hoodoo.services.index_definitions import define_index
from hoodoo.services.index_entries import choose_file_groups, list_stored, make_entries
from hoodoo.services.index_schedule import find_build_bounds, refuse_restore
from hoodoo.table.ref import TableRef
from hoodoo.table.writable import reopen_for_writing
from hoodoo.timeline.history_writer import HistoryRules
from hoodoo.timeline.load import load_timeline, read_metadata
from hoodoo.timeline.resolve_unknown import delete_surely
from hoodoo.timeline.timeline import Timeline
from hoodoo.timeline.txn import Txn

log = logging.getLogger("hoodoo.services")

_EXPIRIES = 2
_RESTORED = frozenset({PARTITION_STATS, RECORD_INDEX})
"""The indexes that a restore drops, and builds again."""


def chosen_partitions(ref: TableRef) -> tuple[str, ...]:
    """The partitions that a new table's metadata table gets, by its options."""
    chosen = [FILES]
    if ref.config.get(INDEX_COLUMN_STATS):
        chosen.append(COLUMN_STATS)
        if ref.properties.keys.is_partitioned:
            chosen.append(PARTITION_STATS)
    if ref.config.get(INDEX_BLOOM_FILTERS):
        chosen.append(BLOOM_FILTERS)
    if ref.config.get(INDEX_RECORDS):
        chosen.append(RECORD_INDEX)
    return tuple(chosen)


def create_index(ref: TableRef, engine: Engine, *partitions: str) -> TableRef:
    """Give the metadata table these partitions, and the table a metadata table if it has none.

    Those that are there already stay as they are. The table as it is then is returned.
    Order: lock; for each partition, `files` first: that of `fill_partition`; then the table's
    properties, by a decision of the head. If anybody decides meanwhile, all is built anew.
    Crash: before the head, files that nobody reads; the next one to come here removes them.
    """
    for partition in partitions:
        if partition not in WRITABLE_PARTITIONS:
            known = ", ".join(sorted(WRITABLE_PARTITIONS))
            raise InputError(f"no index {partition!r}; there are {known}")
        if partition == PARTITION_STATS and not ref.properties.keys.is_partitioned:
            raise InputError("a table without partitions has no statistics of partitions")
    with transaction(ref, "index") as txn:
        present = reopen_for_writing(ref)
        if set(partitions) <= set(present.properties.metadata_partitions):
            return present
        change_properties(txn, lambda: _build(txn, ref, engine, partitions))
    return ref.reopen()


def _build(
    txn: Txn, ref: TableRef, engine: Engine, partitions: Sequence[str]
) -> dict[str, str | None]:
    """Fill partitions by what the table of the Txn has; what its properties then say."""
    refuse_restore(txn)
    ref = reopen_for_writing(ref)
    known = set(ref.properties.metadata_partitions)
    changes: dict[str, str | None] = {}
    if FILES in known:
        where = load_metadata_properties(ref.env).timeline
    else:
        known = set()
        where = make_metadata_table(txn, ref.properties)
    missing = [p for p in dict.fromkeys((FILES, *partitions)) if p not in known]
    stored = list_stored(ref, txn.timeline)
    for partition in missing:
        path = define_index(ref, txn.timeline, partition)
        if path is not None:
            changes[DEFINITIONS_PATH_KEY] = path
        entries = make_entries(ref, engine, txn.timeline, partition, stored)
        file_groups = choose_file_groups(ref.config, partition, entries.num_rows)
        fill_partition(txn, where, partition, entries, file_groups=file_groups)
    inflight = set(ref.properties.metadata_partitions_inflight) - set(missing)
    return changes | {
        METADATA_PARTITIONS.name: ",".join(sorted({*known, *missing})),
        METADATA_PARTITIONS_INFLIGHT.name: ",".join(sorted(inflight)),
    }


# -- restore ------------------------------------------------------------------------------------


def drop_narrow_indexes(ref: TableRef) -> tuple[str, ...]:
    """Take indexes out of use that cannot follow a restore; `rebuild_indexes` builds them again.

    What comes back may lie beyond the statistics of its partition, and its keys elsewhere.
    Order: the table's properties, by a decision of the head; then the files.
    Crash: files that nobody reads; whoever builds the index again removes them.
    """
    if not _RESTORED & recorded_partitions(ref.reopen().properties):
        return ()
    dropped: tuple[str, ...] = ()
    with transaction(ref, "restore") as txn:

        def changes() -> dict[str, str | None]:
            nonlocal dropped
            present = ref.reopen().properties
            dropped = tuple(sorted(_RESTORED & recorded_partitions(present)))
            names = (
                (METADATA_PARTITIONS.name, present.metadata_partitions),
                (METADATA_PARTITIONS_INFLIGHT.name, present.metadata_partitions_inflight),
            )
            return {key: ",".join(p for p in own if p not in _RESTORED) for key, own in names}

        change_properties(txn, changes)
        for partition in dropped:
            for entry in list(ref.env.storage.list(join(METADATA_TABLE, partition))):
                txn.fence.ensure()
                delete_surely(ref.env, entry.path)
    log.warning(
        "index_dropped index=%s reason=restore: built again once the restore is completed; if that "
        "fails, run `hoodoo index create`",
        ",".join(dropped),
    )
    return dropped


def rebuild_indexes(ref: TableRef, engine: Engine, dropped: Sequence[str]) -> None:
    """Build what a restore dropped. It is completed, so failing here fails nothing else.

    Order: that of `create_index`.
    """
    if not dropped:
        return
    try:
        create_index(ref, engine, *dropped)
    except HoodooError as error:
        log.warning(
            "index_not_rebuilt index=%s error=%s: run `hoodoo index create`",
            ",".join(dropped),
            error,
        )


def take_back_in_metadata_table(txn: Txn, ref: TableRef, time: InstantTime) -> None:
    """Undo what a commit wrote to the metadata table, unless that was compacted.

    Then the restore itself makes the listing right.
    Needs: a Txn, and that the commit is pending again.
    """
    if recorded_partitions(ref.reopen().properties):
        take_back_delta_commit(txn, load_metadata_properties(ref.env).timeline, time)


# -- compaction ---------------------------------------------------------------------------------


def is_compaction_due(ref: TableRef) -> bool:
    """Whether the metadata table has had enough delta commits since its last compaction."""
    try:
        where = load_metadata_properties(ref.env).timeline
    except FormatError:
        return False
    timeline = load_timeline(ref.env, where)
    return count_since_compaction(timeline) >= ref.config.get(COMPACT_COMMITS)


def compact_metadata_table(ref: TableRef, *, at_least: int | None = None) -> InstantTime | None:
    """Compact the metadata table, if it had enough delta commits; None if there is no need.

    Then files that no reader needs any more are deleted, and its timeline is archived.
    Order: lock; what was rolled back, and came late, removed; head moved, so that whoever is in
    the gate starts over, and ends later than the compaction; that of `run_compaction`, of
    `clean_up`, of `archive_timeline`.
    Crash: that of `run_compaction`.
    """
    ref = ref.reopen()
    partitions = ref.properties.metadata_partitions
    if not has_metadata_table(ref.properties):
        return None
    needed = ref.config.get(COMPACT_COMMITS) if at_least is None else at_least
    with transaction(ref, "metadata compaction") as txn:
        ref = reopen_for_writing(ref)
        table = open_metadata_table(ref.env, txn.timeline)
        _remove_late_commits(txn, ref, table)
        if count_since_compaction(table.timeline) < needed or _is_blocked(txn, ref, table):
            return None
        change_properties(txn, {}, after=table.timeline.newest_time)
        txn.reload()
        table = open_metadata_table(ref.env, txn.timeline)
        if _is_blocked(txn, ref, table):
            return None
        time = txn.head.latest
        assert time is not None
        run_compaction(txn, table, time, plan_compaction(table, partitions))
        table = open_metadata_table(ref.env, txn.timeline)
        clean_up(txn, table, partitions)
        bounds = list(find_build_bounds(ref, txn.timeline))
        if txn.timeline.start is not None:  # readers look whether all of the timeline is in it
            bounds.append(txn.timeline.start)
        archive_timeline(txn, table, _rules(ref), bounds=bounds)
    return time


def _is_blocked(txn: Txn, ref: TableRef, table: MetadataTable) -> bool:
    """Whether something must end first; a compaction that was cut off long ago is removed here."""
    undecided = find_undecided(table.timeline, txn.timeline)
    if undecided is not None:
        log.info("metadata_compaction_waits instant=%s", undecided)
        return True
    pending = find_pending_compactions(table.timeline)
    for instant in pending:
        if not _is_old(ref, table.properties.timeline, instant):
            log.info("metadata_compaction_waits compaction=%s", instant.requested_time)
            return True
        remove_pending_compaction(txn, table, instant)
    return bool(pending)  # the next one finds it gone


def _is_old(ref: TableRef, where: TimelinePaths, instant: Instant) -> bool:
    try:
        modified_ms = ref.env.storage.stat(state_path(where, instant)).modified_ms
    except NotFound:
        return False
    return store_time_ms(ref.env) - modified_ms > _EXPIRIES * default_expiry_ms(ref)


def _remove_late_commits(txn: Txn, ref: TableRef, table: MetadataTable) -> None:
    """Remove delta commits whose action was rolled back before their last request came."""
    start = txn.timeline.start
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
    where = table.properties.timeline
    for time in unknown:
        if time in undone:
            remove_delta_commit(txn, where, time, list_states(txn.env, where))


def _load_undone(ref: TableRef, timeline: Timeline) -> Iterable[InstantTime]:
    """What completed rollbacks and restores of the active timeline took back."""
    for instant in timeline.completed:
        if instant.action in (Action.ROLLBACK, Action.RESTORE):
            match read_metadata(ref.env, ref.properties.timeline, instant):
                case RollbackMetadata(commits_rollback=times):
                    yield from map(InstantTime, times)
                case RestoreMetadata(instants_to_rollback=times):
                    yield from map(InstantTime, times)


def find_archive_bound(ref: TableRef, timeline: Timeline) -> Iterable[InstantTime]:
    """From which instant on the table's timeline is needed, for the metadata table's sake.

    Apache Hudi reads blocks of log files that the table's timeline knows: until they are compacted,
    their instants stay.
    """
    compacted = None
    if has_metadata_table(ref.properties):
        where = load_metadata_properties(ref.env).timeline
        last = find_last_compaction(load_timeline(ref.env, where))
        compacted = last.requested_time if last is not None else InstantTime("")
        yield compacted
    yield from find_build_bounds(ref, timeline, ended_after=compacted)


def _rules(ref: TableRef) -> HistoryRules:
    config = ref.config
    return HistoryRules(
        config.get(HISTORY_BATCH), config.get(HISTORY_FILE_BYTES), config.get(MANIFESTS_RETAINED)
    )
