"""What other engines missed while an index was built: it is made up for before the index is used.

hoodoo's own actions miss nothing. Apache Hudi reads the table's properties when a write begins, so
a write of its that began before a build was planned may not have written the partition. And it may
compact a partition that is being built, with the base files not there yet.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from hoodoo.engine.engine import Engine
from hoodoo.engine.local import LocalEngine
from hoodoo.errors import FormatError, NotFound
from hoodoo.format.partition_metadata import decode
from hoodoo.metadata.build import fill_partition, first_free
from hoodoo.metadata.coverage import CAUGHT_UP_KEY, find_later, find_uncovered
from hoodoo.metadata.delta_commits import list_partition, list_states, write_delta_commit
from hoodoo.metadata.file_changes import changes_of_clean, file_changes
from hoodoo.metadata.file_facts import gather_facts
from hoodoo.metadata.merge import Batch
from hoodoo.metadata.metadata_table import load_metadata_properties
from hoodoo.metadata.recorder import NO_COLUMNS, load_indexed_columns
from hoodoo.metadata.table_changes import clean_changes, index_changes
from hoodoo.model.commit import CleanMetadata, CommitMetadata
from hoodoo.model.files import BaseFile, made_by
from hoodoo.model.index_build import IndexBuild
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
from hoodoo.services.index_entries import list_stored, load_schema, make_entries
from hoodoo.table.ref import TableRef
from hoodoo.timeline.load import read_commit, read_metadata
from hoodoo.timeline.timeline import Timeline
from hoodoo.timeline.txn import Txn

log = logging.getLogger("hoodoo.services")

Written = dict[InstantTime, CommitMetadata]
"""Delta commits of the metadata table, by time."""


def is_open(ref: TableRef, build: IndexBuild) -> bool:
    """Whether a partition is in the making, by this very build."""
    if build.partition not in ref.reopen().properties.metadata_partitions_inflight:
        return False
    path = join(METADATA_TABLE, build.partition, PARTITION_METADATA)
    try:
        return decode(ref.env.storage.read(path)).commit_time == build.opened_at
    except (NotFound, FormatError):
        return False


def catch_up(
    txn: Txn, ref: TableRef, build: IndexBuild, engine: Engine, known: Written | None = None
) -> None:
    """Write what actions of other engines left out of a partition, or build it anew.

    `known` has delta commits that were read before; it is filled.
    Needs: a Txn; the base files of the build are there.
    Order: timeline of the metadata table listed; later delta commits read; one delta commit with
    what is missing. Where entries would come in the wrong order: that of `fill_partition`.
    Crash: entries of a partition that nobody reads; the next one to come here finds them.
    """
    where = load_metadata_properties(ref.env).timeline
    written = load_written(ref, build, txn.timeline, known)
    missed = find_uncovered(build, txn.timeline, written)
    compacted = _find_compacted(ref, build)
    if compacted is not None or (missed and build.partition == RECORD_INDEX):
        reason = compacted or ",".join(i.requested_time for i in missed)
        log.warning("index_built_anew partition=%s reason=%s", build.partition, reason)
        stored = list_stored(ref, txn.timeline)
        entries = make_entries(ref, engine, txn.timeline, build.partition, stored)
        fill_partition(txn, where, build.partition, entries, file_groups=build.file_groups)
    elif missed:
        batch = _make_changes(txn, ref, build.partition, missed, engine)
        times = ",".join(instant.requested_time for instant in missed)
        log.info("index_catches_up partition=%s instants=%s", build.partition, times)
        write_delta_commit(
            *(txn, where, first_free(list_states(ref.env, where)), {build.partition: batch}),
            covers=(build.partition,),
            note={CAUGHT_UP_KEY: times},
        )


def load_written(
    ref: TableRef, build: IndexBuild, timeline: Timeline, known: Written | None = None
) -> Written:
    """The delta commits of actions that ended after the build was planned, and those of builds."""
    where = load_metadata_properties(ref.env).timeline
    known = {} if known is None else known
    later = {instant.requested_time for instant in find_later(build, timeline)}
    commits = [
        instant
        for instant in Timeline.of(list_states(ref.env, where)).completed
        if instant.action is Action.DELTA_COMMIT
        and instant.requested_time not in known
        and (instant.requested_time in later or instant.requested_time.startswith(SOLO_TIME))
    ]
    read = LocalEngine(threads=1).map(lambda each: read_commit(ref.env, where, each), commits)
    known |= {each.requested_time: made for each, made in zip(commits, read, strict=True)}
    return known


def _find_compacted(ref: TableRef, build: IndexBuild) -> str | None:
    """A base file above that of the build, without what the build puts below it."""
    for file in list_partition(ref.env, build.partition):
        if isinstance(file, BaseFile) and made_by(file) > build.base_time:
            return str(file.name)
    return None


def _make_changes(
    txn: Txn, ref: TableRef, partition: str, missed: Iterable[Instant], engine: Engine
) -> Batch:
    """Entries of files that these actions wrote, as far as they are there, without what went."""
    env, timeline = ref.env, txn.timeline
    stored = list_stored(ref, timeline)
    columns = NO_COLUMNS
    if partition in (COLUMN_STATS, PARTITION_STATS):
        schema = load_schema(ref, timeline)
        columns = load_indexed_columns(env, ref.config, ref.properties, schema)
    added: dict[PartitionPath, dict[str, int]] = {}
    deletes: list[Batch] = []
    for instant in missed:
        match read_metadata(env, ref.properties.timeline, instant):
            case CleanMetadata() as clean if partition == FILES:
                deletes.append(changes_of_clean(clean))
            case CleanMetadata() as clean:
                deletes += clean_changes([partition], clean, columns).values()
            case CommitMetadata() as commit:
                for place, stat in commit.stats():
                    size = stored.get(place, {}).get(stat.file_name or "")
                    if size is not None:
                        added.setdefault(place, {})[stat.file_name or ""] = size
    if partition == FILES:
        return _join([file_changes(added), *deletes])
    files = [(place, join(place, name)) for place, names in added.items() for name in names]
    wants = partition == BLOOM_FILTERS
    facts = gather_facts(env, engine, files, columns.schema, wants_filters=wants)
    latest = max(instant.requested_time for instant in missed)
    changes = index_changes([partition], latest, facts, columns)
    return _join([*changes.values(), *deletes])


def _join(batches: Iterable[Batch]) -> Batch:
    """Batches about different files, as one."""
    import pyarrow as pa

    some = list(batches)
    entries = [batch.entries for batch in some if batch.entries is not None]
    deleted = [batch.deleted for batch in some if batch.deleted is not None]
    return Batch(
        pa.concat_tables(entries) if entries else None,
        pa.concat_arrays(deleted) if deleted else None,
    )
