"""What other engines missed while an index was built: it is written before the index is used.

Writers that know the head read inside the gate which partitions there are, so all of their actions
that ended after a partition was listed have written it. Apache Hudi reads the table's properties
when a write begins, so a write that began before the build was planned may have left the partition
out. It may also compact a partition that is being built, before its base files are there.

The first part finds such actions; `catch_up` writes what they left out, or builds the partition
anew.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from hoodoo.concurrency.transactions.transaction import Txn
from hoodoo.errors import FormatError, ObjectNotFound
from hoodoo.format.properties import decode
from hoodoo.metadata_table.build import fill_partition, first_free
from hoodoo.metadata_table.changes import clean_changes, index_changes
from hoodoo.metadata_table.delta_commits import (
    COVERED_KEY,
    list_partition,
    list_states,
    write_delta_commit,
)
from hoodoo.metadata_table.entries.merge import EntryBatch
from hoodoo.metadata_table.indexes.file_facts import read_file_statistics
from hoodoo.metadata_table.indexes.files import changes_of_clean, file_changes
from hoodoo.metadata_table.recorder import NO_COLUMNS, load_indexed_columns
from hoodoo.metadata_table.table import load_metadata_properties
from hoodoo.model.commit import CleanMetadata, CommitMetadata
from hoodoo.model.files import BaseFile, instant_of_file
from hoodoo.model.instant import Action, Instant, InstantTime
from hoodoo.model.metadata_table import (
    BLOOM_FILTERS,
    COLUMN_STATS,
    FILES,
    PARTITION_STATS,
    RECORD_INDEX,
    SOLO_TIME,
)
from hoodoo.model.paths import METADATA_TABLE, PARTITION_METADATA, PartitionPath, join
from hoodoo.runtime.engine import Engine, LocalEngine
from hoodoo.services.indexing.entries import list_stored, load_schema, make_entries
from hoodoo.services.indexing.plan import IndexBuild
from hoodoo.table.ref import TableRef
from hoodoo.table.timeline import Timeline, read_commit, read_metadata

log = logging.getLogger("hoodoo.services")


# -- actions that left a partition out ----------------------------------------------------------


CAUGHT_UP_KEY = "hoodoo.caught.up"
"""Where a delta commit says for which actions it makes up, in the partitions that it covers."""


def find_actions_after_build(build: IndexBuild, instants: Iterable[Instant]) -> list[Instant]:
    """Completed actions with files that ended after the build was planned, in the order of that."""
    later = [
        instant
        for instant in instants
        if instant.is_completed
        and (instant.action.writes_data or instant.action is Action.CLEAN)
        and not build.has_seen(instant)
    ]
    return sorted(later, key=lambda instant: instant.completion_or_requested_time)


def find_uncovered(
    build: IndexBuild,
    instants: Iterable[Instant],
    delta_commits: Mapping[InstantTime, CommitMetadata],
) -> list[Instant]:
    """The later actions that did not write the partition; `delta_commits` are by time."""
    caught_up = {
        time
        for commit in delta_commits.values()
        if build.partition in covered_partitions(commit)
        for time in commit.extra_metadata.get(CAUGHT_UP_KEY, "").split(",")
    }
    return [
        instant
        for instant in find_actions_after_build(build, instants)
        if instant.requested_time not in caught_up
        and not _covers(delta_commits.get(instant.requested_time), build.partition)
    ]


def covered_partitions(commit: CommitMetadata) -> frozenset[str]:
    """The partitions that a delta commit looked at; another engine's: those that it wrote to."""
    note = commit.extra_metadata.get(COVERED_KEY)
    if note is not None:
        return frozenset(note.split(","))
    return frozenset(commit.partition_to_write_stats)


def _covers(commit: CommitMetadata | None, partition: str) -> bool:
    return commit is not None and partition in covered_partitions(commit)


# -- catching up --------------------------------------------------------------------------------


DeltaCommits = dict[InstantTime, CommitMetadata]
"""Delta commits of the metadata table, by time."""


def is_being_built(ref: TableRef, build: IndexBuild) -> bool:
    """Whether a partition is in the making, by this very build."""
    if build.partition not in ref.reopen().properties.metadata_partitions_inflight:
        return False
    path = join(METADATA_TABLE, build.partition, PARTITION_METADATA)
    try:
        return decode(ref.env.storage.read(path)).commit_time == build.opened_at
    except (ObjectNotFound, FormatError):
        return False


def catch_up(
    txn: Txn,
    ref: TableRef,
    build: IndexBuild,
    engine: Engine,
    delta_commit_cache: DeltaCommits | None = None,
) -> None:
    """Write what actions of other engines left out of a partition, or build it anew.

    `delta_commit_cache` has delta commits that were read before; it is filled.
    Needs: a Txn; the base files of the build are there.
    Order: timeline of the metadata table listed; later delta commits read; one delta commit with
    what is missing. Where entries would come in the wrong order: that of `fill_partition`.
    Crash: entries of a partition that nobody reads; the next one to come here finds them.
    """
    where = load_metadata_properties(ref.env).timeline_paths
    delta_commits = load_written(ref, build, txn.timeline, delta_commit_cache)
    uncovered_instants = find_uncovered(build, txn.timeline, delta_commits)
    compaction_time = _find_compacted(ref, build)
    if compaction_time is not None or (uncovered_instants and build.partition == RECORD_INDEX):
        reason = compaction_time or ",".join(i.requested_time for i in uncovered_instants)
        log.warning("index_built_anew partition=%s reason=%s", build.partition, reason)
        stored_files = list_stored(ref, txn.timeline)
        entries = make_entries(ref, engine, txn.timeline, build.partition, stored_files)
        fill_partition(txn, where, build.partition, entries, file_groups=build.file_groups)
    elif uncovered_instants:
        batch = _make_changes(txn, ref, build.partition, uncovered_instants, engine)
        times = ",".join(instant.requested_time for instant in uncovered_instants)
        log.info("index_catches_up partition=%s instants=%s", build.partition, times)
        write_delta_commit(
            txn,
            where,
            time=first_free(list_states(ref.env, where)),
            changes={build.partition: batch},
            covers=(build.partition,),
            note={CAUGHT_UP_KEY: times},
        )


def load_written(
    ref: TableRef, build: IndexBuild, timeline: Timeline, delta_commits: DeltaCommits | None = None
) -> DeltaCommits:
    """The delta commits of actions that ended after the build was planned, and those of builds."""
    where = load_metadata_properties(ref.env).timeline_paths
    delta_commits = {} if delta_commits is None else delta_commits
    later = {instant.requested_time for instant in find_actions_after_build(build, timeline)}
    commits = [
        instant
        for instant in Timeline.of(list_states(ref.env, where)).completed
        if instant.action is Action.DELTA_COMMIT
        and instant.requested_time not in delta_commits
        and (instant.requested_time in later or instant.requested_time.startswith(SOLO_TIME))
    ]
    read = LocalEngine(threads=1).map(lambda each: read_commit(ref.env, where, each), commits)
    delta_commits |= {
        each.requested_time: commit for each, commit in zip(commits, read, strict=True)
    }
    return delta_commits


def _find_compacted(ref: TableRef, build: IndexBuild) -> str | None:
    """A base file above that of the build, without what the build puts below it."""
    for file in list_partition(ref.env, build.partition):
        if isinstance(file, BaseFile) and instant_of_file(file) > build.base_time:
            return str(file.name)
    return None


def _make_changes(
    txn: Txn, ref: TableRef, partition: str, uncovered_instants: Iterable[Instant], engine: Engine
) -> EntryBatch:
    """Entries of files that these actions wrote, as far as they are there, without what went."""
    env, timeline = ref.env, txn.timeline
    stored_files = list_stored(ref, timeline)
    columns = NO_COLUMNS
    if partition in (COLUMN_STATS, PARTITION_STATS):
        schema = load_schema(ref, timeline)
        columns = load_indexed_columns(env, ref.config, ref.properties, schema)
    new_files: dict[PartitionPath, dict[str, int]] = {}
    deletes: list[EntryBatch] = []
    for instant in uncovered_instants:
        match read_metadata(env, ref.properties.timeline_paths, instant):
            case CleanMetadata() as clean if partition == FILES:
                deletes.append(changes_of_clean(clean))
            case CleanMetadata() as clean:
                deletes += clean_changes([partition], clean, columns).values()
            case CommitMetadata() as commit:
                for place, stat in commit.stats():
                    size = stored_files.get(place, {}).get(stat.file_name or "")
                    if size is not None:
                        new_files.setdefault(place, {})[stat.file_name or ""] = size
    if partition == FILES:
        return _join([file_changes(new_files), *deletes])
    files = [(place, join(place, name)) for place, names in new_files.items() for name in names]
    wants = partition == BLOOM_FILTERS
    facts = read_file_statistics(env, engine, files, columns.schema, wants_filters=wants)
    latest = max(instant.requested_time for instant in uncovered_instants)
    changes = index_changes([partition], latest, facts, columns)
    return _join([*changes.values(), *deletes])


def _join(batches: Iterable[EntryBatch]) -> EntryBatch:
    """Batches about different files, as one."""
    import pyarrow as pa

    some = list(batches)
    entries = [batch.entries for batch in some if batch.entries is not None]
    key_arrays = [batch.deleted_keys for batch in some if batch.deleted_keys is not None]
    return EntryBatch(
        pa.concat_tables(entries) if entries else None,
        pa.concat_arrays(key_arrays) if key_arrays else None,
    )
