"""Compaction of a metadata table: the log files of each file group go into a new base file.

The time X of a compaction splits log files by when their commits ended: those before X are in its
base files, those after it are on top. So X must be later than every commit that is compacted, and
every later commit must end after X: the caller moves the head to X first, and then loads this.
A commit whose action is pending is never compacted: it could not be taken back any more.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hoodoo.format import timeline as codec
from hoodoo.metadata.build import describe_base
from hoodoo.metadata.delta_commits import create, make_commit_metadata, state_path
from hoodoo.metadata.entries import read_group
from hoodoo.metadata.log_writer import encode_base
from hoodoo.metadata.metadata_table import MetadataTable
from hoodoo.model.commit import OperationType
from hoodoo.model.files import FileSlice
from hoodoo.model.instant import Action, Instant, InstantTime, State
from hoodoo.model.names import BaseFileName, WriteToken
from hoodoo.model.paths import METADATA_TABLE, PartitionPath, join
from hoodoo.model.plan import CompactionOperation, CompactionPlan
from hoodoo.model.stats import WriteStat
from hoodoo.timeline.timeline import Timeline
from hoodoo.timeline.txn import Txn, new_time

log = logging.getLogger("hoodoo.metadata")

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
        instant.action is Action.DELTA_COMMIT and instant.ended_at > since
        for instant in timeline.completed
    )


def find_last_compaction(timeline: Timeline) -> Instant | None:
    """The last completed compaction of a metadata table."""
    done = [i for i in timeline.completed if i.action.completed_as is Action.COMMIT]
    return max(done, key=lambda i: i.requested_time, default=None)


def find_pending_compactions(timeline: Timeline) -> list[Instant]:
    """Compactions that were begun, and not completed."""
    kinds = (Action.COMPACTION, Action.LOG_COMPACTION)
    return [instant for instant in timeline.pending if instant.action in kinds]


def find_undecided(timeline: Timeline, data_timeline: Timeline) -> InstantTime | None:
    """A completed delta commit whose action is pending: nothing is compacted before that ends."""
    pending = {instant.requested_time for instant in data_timeline.pending}
    times = (i.requested_time for i in timeline.completed if i.action is Action.DELTA_COMMIT)
    return next((time for time in times if time in pending), None)


def plan_compaction(table: MetadataTable, partitions: Iterable[str]) -> list[GroupToCompact]:
    """The file groups that have log files."""
    return [
        GroupToCompact(partition, one)
        for partition in sorted(partitions)
        for one in table.load_partition(partition).slices
        if one.logs
    ]


def run_compaction(
    txn: Txn, table: MetadataTable, time: InstantTime, groups: Sequence[GroupToCompact]
) -> None:
    """Compact these file groups.

    Needs: a Txn whose head has the time of the compaction, and a table that was loaded after that.
    Order: requested file with the plan; inflight file; base files; completed file.
    Crash: a pending compaction, whose base files nobody reads. It is removed once it is so old
    that no request of its writer can come late.
    """
    where = table.properties.timeline
    requested = Instant(time, Action.COMPACTION, State.REQUESTED)
    plan = CompactionPlan(operations=tuple(map(_describe, groups)))
    create(txn, state_path(where, requested), codec.encode(plan))
    create(txn, state_path(where, Instant(time, Action.COMPACTION, State.INFLIGHT)), b"")
    stats = [_compact_group(txn, table, time, group) for group in groups]
    ended = new_time(txn, after=max(filter(None, (time, table.timeline.newest_time))))
    completed = Instant(time, Action.COMMIT, State.COMPLETED, ended)
    metadata = make_commit_metadata(stats, OperationType.COMPACT)
    create(txn, state_path(where, completed), codec.encode(metadata))
    log.info("compacted time=%s file_groups=%d", time, len(groups))


def _compact_group(
    txn: Txn, table: MetadataTable, time: InstantTime, group: GroupToCompact
) -> WriteStat:
    one = group.slice
    entries = read_group(table, group.partition, one)
    name = BaseFileName(one.group.file_id, _TOKEN, time, ".hfile")
    created_ms = txn.env.clock.now_ms()
    data = encode_base(group.partition, entries, created_ms=created_ms, name=str(name))
    create(txn, join(METADATA_TABLE, group.partition, str(name)), data)
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
