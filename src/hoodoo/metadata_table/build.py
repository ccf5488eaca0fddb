"""Making a metadata table, and filling its partitions.

Nothing of it is read before the table's properties name the partition, so what a crash leaves is
invisible; whoever builds next removes it. A partition is filled by a commit of its own, whose time
comes before all that a clock can show: such a commit counts whatever the table's timeline says.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa

from hoodoo.concurrency.transactions.transaction import Txn, new_time
from hoodoo.errors import ObjectExists, UnsupportedFeature
from hoodoo.format import properties as codec
from hoodoo.format import properties as partition_metadata
from hoodoo.format.log import encode_first_log
from hoodoo.format.properties import PartitionMetadata
from hoodoo.format.timeline import instant_files as timeline_codec
from hoodoo.metadata_table.delta_commits import (
    create_under_lock,
    list_partition,
    list_states,
    make_commit_metadata,
    start_delta_commit,
    state_path,
)
from hoodoo.metadata_table.entries.encode import empty_entries, encode_base, split_by_file_group
from hoodoo.metadata_table.entries.merge import EntryBatch
from hoodoo.model.commit import OperationType, WriteStat
from hoodoo.model.files import BaseFile, instant_of_file
from hoodoo.model.instant import Action, Instant, InstantTime, State
from hoodoo.model.metadata_table import PROPERTIES, SOLO_TIME, file_group_id, file_group_number
from hoodoo.model.names import BaseFileName, LogFileName, WriteToken
from hoodoo.model.paths import (
    METADATA_TABLE,
    PARTITION_METADATA,
    PLACEHOLDER,
    PartitionPath,
    TimelinePaths,
    join,
)
from hoodoo.model.table import TableProperties
from hoodoo.runtime.env import Env
from hoodoo.runtime.lost_answers import delete_surely
from hoodoo.table.timeline import Timeline

log = logging.getLogger("hoodoo.metadata_table")

_TOKEN = WriteToken("0-0-0")
_EXTENSION = ".hfile"
_MOST_SOLO = 1_000


def make_metadata_table(txn: Txn, properties: TableProperties) -> TimelinePaths:
    """Make a metadata table without partitions; where its timeline is.

    Needs: a Txn, and that the table's properties name no partition of it.
    Order: what an earlier try left is deleted; placeholder in the timeline; properties.
    Crash: a directory that nobody looks at.
    """
    for entry in list(txn.env.storage.list(METADATA_TABLE, recursive=True)):
        txn.fence.ensure_publish_window()
        delete_surely(txn.env, entry.path)
    inner = TimelinePaths.of(2, zone=properties.timeline_paths.zone)
    where = TimelinePaths(
        inner.layout,
        join(METADATA_TABLE, inner.active),
        join(METADATA_TABLE, inner.history),
        inner.zone,
    )
    create_under_lock(txn, join(where.active, PLACEHOLDER), b"")
    create_under_lock(txn, PROPERTIES, _encode_properties(properties, txn.env.clock.now_ms()))
    return where


def _encode_properties(properties: TableProperties, now_ms: int) -> bytes:
    version = str(properties.version.value)
    raw = {
        "hoodie.table.name": f"{properties.name}_metadata",
        "hoodie.table.type": "MERGE_ON_READ",
        "hoodie.table.version": version,
        "hoodie.table.initial.version": version,
        "hoodie.timeline.layout.version": "2",
        "hoodie.timeline.path": "timeline",
        "hoodie.timeline.history.path": "history",
        "hoodie.archivelog.folder": "history",
        "hoodie.table.base.file.format": "HFILE",
        "hoodie.table.recordkey.fields": "key",
        "hoodie.populate.meta.fields": "false",
        "hoodie.table.keygenerator.type": "HOODIE_TABLE_METADATA",
        "hoodie.compaction.payload.class": "org.apache.hudi.metadata.HoodieMetadataPayload",
        "hoodie.record.merge.mode": "CUSTOM",
        "hoodie.record.merge.strategy.id": "00000000-0000-0000-0000-000000000000",
        "hoodie.datasource.write.drop.partition.columns": "false",
    }
    raw[codec.CHECKSUM_KEY] = str(codec.checksum(raw))
    return codec.serialise(raw, comment=codec.saved_at(now_ms), at_ms=now_ms)


def fill_partition(
    txn: Txn, timeline_paths: TimelinePaths, partition: str, entries: pa.Table, *, file_groups: int
) -> None:
    """Make a partition with these entries, at once.

    Needs: a Txn, and that the table's properties do not name the partition.
    Order: what an earlier try left is deleted; requested and inflight file; partition metadata; an
    empty log file for each file group, so that there are as many as keys are spread over; base
    files; completed file.
    Crash: files of a partition that nobody looks at.
    """
    time = _begin_partition(txn, timeline_paths, partition, file_groups)
    base_files = (
        make_base(partition, number, own.entries, time, created_ms=txn.env.clock.now_ms())
        for number, own in split_by_file_group(partition, EntryBatch(entries), file_groups).items()
    )
    stats = []
    for base in base_files:
        create_under_lock(txn, base.path, base.data)
        stats.append(base.stat)
    _complete(txn, timeline_paths, time, stats)
    log.info("partition_filled partition=%s entries=%d", partition, entries.num_rows)


# -- in steps, beside writers -------------------------------------------------------------------


def open_partition(
    txn: Txn, timeline_paths: TimelinePaths, partition: str, *, file_groups: int
) -> InstantTime:
    """Make the file groups of a partition, without entries; the instant that made them.

    From then on actions can write to it. Its base files are made later, by the instant after it,
    so that they come below all that actions write meanwhile.

    Needs: a Txn, and that no build of the partition is planned.
    Order: what an earlier try left is deleted; requested and inflight file; partition metadata; an
    empty log file for each file group; completed file.
    Crash: files of a partition that nobody looks at.
    """
    time = _begin_partition(txn, timeline_paths, partition, file_groups)
    _complete(txn, timeline_paths, time, ())
    log.info("partition_opened partition=%s file_groups=%d", partition, file_groups)
    return time


@dataclass(frozen=True, slots=True)
class NewBaseFile:
    """A base file to be made: its path, its bytes, and what the commit says of it."""

    path: str
    data: bytes
    stat: WriteStat


def make_base(
    partition: str, number: int, entries: pa.Table | None, time: InstantTime, *, created_ms: int
) -> NewBaseFile:
    """The base file of one file group, counted from 0, with these entries."""
    name = BaseFileName(file_group_id(partition, number), _TOKEN, time, _EXTENSION)
    entries = entries if entries is not None else empty_entries(partition)
    data = encode_base(partition, entries, created_ms=created_ms, name=None)
    stat = describe_base(partition, name, entries.num_rows, len(data))
    return NewBaseFile(join(METADATA_TABLE, partition, str(name)), data, stat)


def list_bases(env: Env, partition: str, time: InstantTime) -> dict[int, int]:
    """The base files of an instant that are there: sizes by the number of the file group."""
    bases = {}
    for file in list_partition(env, partition):
        number = file_group_number(file.name.file_id)
        if isinstance(file, BaseFile) and instant_of_file(file) == time and number is not None:
            bases[number] = file.size_bytes
    return bases


def complete_bases(
    txn: Txn, timeline_paths: TimelinePaths, partition: str, time: InstantTime
) -> None:
    """Put the instant on the timeline that made the base files of a partition.

    Needs: a Txn; all base files are there. If it is completed already, nothing is done.
    Order: requested and inflight file; completed file.
    Crash: a pending instant of a partition that nobody looks at; whoever goes on completes it.
    """
    states = list_states(txn.env, timeline_paths)
    if any(state.requested_time == time and state.is_completed for state in states):
        return
    with suppress(ObjectExists):
        start_delta_commit(txn, timeline_paths, time)
    stats = []
    for number, size_bytes in sorted(list_bases(txn.env, partition, time).items()):
        name = BaseFileName(file_group_id(partition, number), _TOKEN, time, _EXTENSION)
        stats.append(describe_base(partition, name, 0, size_bytes))
    _complete(txn, timeline_paths, time, stats)


def first_free(states: Sequence[Instant]) -> InstantTime:
    """The first even time after those of all partitions that were ever made here.

    The odd one after it belongs to whoever takes the even one. So of two builds of a partition the
    later one has the later base files, even if those of the other one come late.
    """
    numbers = [
        int(state.requested_time) for state in states if state.requested_time.startswith(SOLO_TIME)
    ]
    number = (max(numbers) // 2 + 1) * 2 if numbers else 0
    if number >= _MOST_SOLO:
        raise UnsupportedFeature(
            f"indexes of this metadata table were built {number // 2} times, and there is no time "
            "for another build: drop the index `files`, and with it the metadata table, and create "
            "the indexes again"
        )
    return InstantTime(f"{number:017d}")


# -- parts --------------------------------------------------------------------------------------


def _begin_partition(
    txn: Txn, timeline_paths: TimelinePaths, partition: str, file_groups: int
) -> InstantTime:
    states = _drop_leftovers(txn, timeline_paths, partition)
    time = first_free(states)
    start_delta_commit(txn, timeline_paths, time)
    directory = join(METADATA_TABLE, partition)
    marker_content = PartitionMetadata.of(PartitionPath(partition), made_by=time)
    now_ms = txn.env.clock.now_ms()
    create_under_lock(
        txn,
        join(directory, PARTITION_METADATA),
        partition_metadata.encode(marker_content, at_ms=now_ms),
    )
    for number in range(file_groups):
        name = LogFileName(file_group_id(partition, number), time, 1, _TOKEN)
        create_under_lock(txn, join(directory, str(name)), encode_first_log(time))
    return time


def _complete(
    txn: Txn, timeline_paths: TimelinePaths, time: InstantTime, stats: Sequence[WriteStat]
) -> None:
    newest = Timeline.of(list_states(txn.env, timeline_paths)).newest_time
    completed_instant = Instant(
        time, Action.DELTA_COMMIT, State.COMPLETED, new_time(txn, after=newest)
    )
    metadata = make_commit_metadata(stats, OperationType.BULK_INSERT_PREPPED)
    create_under_lock(
        txn, state_path(timeline_paths, completed_instant), timeline_codec.encode(metadata)
    )


def _drop_leftovers(txn: Txn, timeline_paths: TimelinePaths, partition: str) -> list[Instant]:
    """Delete what an earlier try at filling a partition left; the states that stay."""
    for entry in list(txn.env.storage.list(join(METADATA_TABLE, partition))):
        txn.fence.ensure_publish_window()
        delete_surely(txn.env, entry.path)
    states = list_states(txn.env, timeline_paths)
    completed_times = {state.requested_time for state in states if state.is_completed}
    leftovers = [
        state
        for state in states
        if state.requested_time.startswith(SOLO_TIME)
        and state.requested_time not in completed_times
    ]
    for state in sorted(leftovers, key=lambda each: -each.state.rank):
        txn.fence.ensure_publish_window()
        delete_surely(txn.env, state_path(timeline_paths, state))
    return [state for state in states if state not in leftovers]


def describe_base(partition: str, name: BaseFileName, entries: int, size_bytes: int) -> WriteStat:
    """What a commit says of a base file that it wrote."""
    return WriteStat(
        file_id=name.file_id,
        path=join(partition, str(name)),
        num_writes=entries,
        num_inserts=entries,
        total_write_bytes=size_bytes,
        file_size_in_bytes=size_bytes,
        partition_path=PartitionPath(partition),
    )
