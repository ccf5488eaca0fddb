"""Delta commits of a metadata table: one for each action of the table that it describes.

A delta commit has the time of its action T, and is written inside the commit gate, before the head
decides about T. Readers count it only if T is not pending on the table's own timeline. So the head
decides about both, and what a crash leaves here is invisible until T is rolled back, or is tried
again: then the old delta commit is removed first, because statistics add up.

`prepare_logs` makes log files ready without the lock, because that takes long. Every object is
created only while the lock surely covers it.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from hoodoo.concurrency.transactions.transaction import Txn, new_time
from hoodoo.errors import FormatError, ObjectExists
from hoodoo.format.metadata_table.schema import schema_json
from hoodoo.format.timeline import instant_files as codec
from hoodoo.metadata_table.entries.encode import encode_log, split_by_file_group
from hoodoo.metadata_table.entries.merge import EntryBatch
from hoodoo.model.commit import (
    SCHEMA_KEY,
    CommitMetadata,
    InstantInfo,
    OperationType,
    RollbackMetadata,
    WriteStat,
)
from hoodoo.model.files import DataFile, LogFile, instant_of_file, parse_data_file
from hoodoo.model.instant import Action, Instant, InstantTime, State, to_wall_ms
from hoodoo.model.metadata_table import SOLO_TIME
from hoodoo.model.names import FileId, LogFileName, WriteToken, instant_name
from hoodoo.model.paths import METADATA_TABLE, PartitionPath, TimelinePaths, join
from hoodoo.model.plans import RollbackPlan, RollbackRequest
from hoodoo.runtime.engine import LocalEngine
from hoodoo.runtime.env import Env
from hoodoo.runtime.lost_answers import create_once, delete_surely
from hoodoo.table.timeline import Timeline, parse_states

log = logging.getLogger("hoodoo.metadata_table")


# -- preparing log files ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PreparedLog:
    """One log file: where it goes, its bytes, and what the commit says of it."""

    path: str
    data: bytes
    stat: WriteStat


def prepare_logs(
    partition: str, batch: EntryBatch, groups: Sequence[FileId], time: InstantTime, *, epoch: int
) -> list[PreparedLog]:
    """The log files of what an instant changes in a partition, one for each file group."""
    token = WriteToken(f"0-{epoch}-0")
    parts = split_by_file_group(partition, batch, len(groups))
    return [
        _prepare_log(partition, own, LogFileName(groups[number], time, 1, token))
        for number, own in parts.items()
    ]


def _moment_of(time: InstantTime) -> int:
    """When a log file is said to be made; the time of a build is before all that clocks show."""
    return 0 if time.startswith(SOLO_TIME) else to_wall_ms(time)


def _prepare_log(partition: str, own: EntryBatch, name: LogFileName) -> PreparedLog:
    time = name.instant_time
    data = encode_log(partition, own, instant_time=time, created_ms=_moment_of(time))
    entry_count = own.entries.num_rows if own.entries is not None else 0
    stat = WriteStat(
        file_id=name.file_id,
        path=join(partition, str(name)),
        prev_commit=time,
        num_writes=entry_count,
        num_update_writes=entry_count,
        num_deletes=len(own.deleted_keys) if own.deleted_keys is not None else 0,
        total_write_bytes=len(data),
        file_size_in_bytes=len(data),
        partition_path=PartitionPath(partition),
        log_version=1,
        log_offset=0,
        base_file="",
        log_files=(str(name),),
    )
    return PreparedLog(join(METADATA_TABLE, partition, str(name)), data, stat)


# -- writing delta commits ----------------------------------------------------------------------


EXTRA = {SCHEMA_KEY: schema_json(meta_fields=False)}
"""What commits of a metadata table note beside their write stats."""

COVERED_KEY = "hoodoo.partitions"
"""Where a delta commit says which partitions it looked at, those without a change too."""


def write_delta_commit(
    txn: Txn,
    timeline_paths: TimelinePaths,
    time: InstantTime,
    changes: Mapping[str, EntryBatch],
    *,
    covers: Collection[str],
    epoch: int = 1,
    note: Mapping[str, str] | None = None,
    prepared_logs: Sequence[PreparedLog] = (),
    engine: LocalEngine | None = None,
) -> None:
    """Write what an action of the table changes, by partition; it counts once the action does.

    Needs: a Txn, on whose timeline `time` is pending. `timeline_paths` is the metadata table's
    timeline; `covers` are all partitions that were looked at: whoever builds another one goes by
    that. `prepared_logs` are log files of partitions that are not in `changes`.
    Order: timeline listed, and an earlier try of this very action removed; requested and inflight
    file; log files; completed file.
    Crash: a delta commit of a pending action, in whatever state: nobody reads it, and whoever
    rolls the action back, or tries it again, removes it.
    """
    states = list_states(txn.env, timeline_paths)
    if any(state.requested_time == time for state in states):
        remove_delta_commit(txn, timeline_paths, time, states)
        states = [state for state in states if state.requested_time != time]
    start_delta_commit(txn, timeline_paths, time, OperationType.UPSERT_PREPPED)
    logs = list(prepared_logs)
    for partition, batch in changes.items():
        groups = list_groups(txn.env, partition)
        logs += prepare_logs(partition, batch, groups.ids, time, epoch=epoch)
    _send(txn, engine or LocalEngine(threads=1), logs)
    newest = Timeline.of(states).newest_time
    completed_instant = Instant(
        time,
        Action.DELTA_COMMIT,
        State.COMPLETED,
        new_time(txn, after=max(filter(None, (time, newest)))),
    )
    extra_metadata = {COVERED_KEY: ",".join(sorted(covers)), **(note or {})}
    stats = [each.stat for each in logs]
    metadata = make_commit_metadata(stats, OperationType.UPSERT_PREPPED, extra_metadata)
    create_under_lock(txn, state_path(timeline_paths, completed_instant), codec.encode(metadata))
    log.info("delta_commit time=%s files=%d", time, len(stats))


def _send(txn: Txn, engine: LocalEngine, logs: Sequence[PreparedLog]) -> None:
    """Make log files, as many at a time as there are threads."""

    def send_one(log_file: PreparedLog) -> None:
        create_once(txn.env, log_file.path, log_file.data, within_s=txn.fence.budget_s())

    for first in range(0, len(logs), engine.threads):
        txn.fence.ensure_publish_window()
        engine.map(send_one, logs[first : first + engine.threads])


def start_delta_commit(
    txn: Txn,
    timeline_paths: TimelinePaths,
    time: InstantTime,
    operation: OperationType | None = None,
) -> None:
    """Requested and inflight file of a delta commit; those of a first one say nothing."""
    metadata = CommitMetadata(operation_type=operation) if operation else None
    for state, content in ((State.REQUESTED, None), (State.INFLIGHT, metadata)):
        path = state_path(timeline_paths, Instant(time, Action.DELTA_COMMIT, state))
        create_under_lock(txn, path, codec.encode(content) if content is not None else b"")


def make_commit_metadata(
    stats: Sequence[WriteStat], operation: OperationType, note: Mapping[str, str] | None = None
) -> CommitMetadata:
    """What a completed commit of a metadata table says."""
    stats_by_partition: dict[PartitionPath, list[WriteStat]] = {}
    for stat in stats:
        assert stat.partition_path is not None
        stats_by_partition.setdefault(stat.partition_path, []).append(stat)
    return CommitMetadata(
        partition_to_write_stats={
            one: tuple(members) for one, members in stats_by_partition.items()
        },
        compacted=operation is OperationType.COMPACT,
        extra_metadata={**EXTRA, **(note or {})},
        operation_type=operation,
    )


# -- taking back --------------------------------------------------------------------------------


def remove_delta_commit(
    txn: Txn, timeline_paths: TimelinePaths, time: InstantTime, states: Sequence[Instant]
) -> list[str]:
    """Take a delta commit away, whatever there is of it; the paths of its log files.

    Needs: a Txn, and that its action is pending on the table's timeline, or rolled back.
    Order: completed file, so that no reader counts it; log files; inflight and requested file.
    Crash: a pending delta commit; whoever comes next does the same.
    """
    own = [state for state in states if state.requested_time == time]
    own = [state for state in own if state.action.completed_as is Action.DELTA_COMMIT]
    for state in sorted(own, key=lambda each: -each.state.rank):
        if state.is_completed:
            _delete(txn, state_path(timeline_paths, state))
    logs = find_logs(txn.env, time)
    for path in logs:
        _delete(txn, path)
    for state in sorted(own, key=lambda each: -each.state.rank):
        if state.is_pending:
            _delete(txn, state_path(timeline_paths, state))
    log.info("delta_commit_removed time=%s files=%d", time, len(logs))
    return logs


def take_back_delta_commit(txn: Txn, timeline_paths: TimelinePaths, time: InstantTime) -> bool:
    """Undo what a commit wrote that a restore takes back; false if that was compacted already.

    Needs: a Txn, and that the commit is pending again.
    Order: that of `remove_delta_commit`.
    """
    states = list_states(txn.env, timeline_paths)
    timeline = Timeline.of(states)
    delta_commit = timeline.find(time, Action.DELTA_COMMIT)
    if delta_commit is None:
        return True
    compactions = [i for i in timeline.completed if i.action.completed_as is Action.COMMIT]
    if any(
        delta_commit.is_completed and delta_commit.completion_or_requested_time < i.requested_time
        for i in compactions
    ):
        return False
    remove_delta_commit(txn, timeline_paths, time, states)
    return True


def roll_back_delta_commit(
    txn: Txn, timeline_paths: TimelinePaths, time: InstantTime, *, rollback: InstantTime, root: str
) -> None:
    """Undo what an action wrote here, under the time of the rollback of the action.

    Needs: a Txn, and a rollback of `time` that is decided; `time` is pending still. `root` is what
    plans put before paths.
    Order: nothing, if the action has not come here; else rollback requested and inflight; that of
    `remove_delta_commit`; rollback completed.
    Crash: the rollback of the table is pending, and whoever carries it on does the same.
    """
    states = list_states(txn.env, timeline_paths)
    mine = Timeline.of(states).find(rollback, Action.ROLLBACK)
    has_target = any(
        state.requested_time == time and state.action is Action.DELTA_COMMIT for state in states
    )
    if not has_target and (mine is None or mine.is_completed):
        return
    info = InstantInfo(commit_time=time, action=Action.DELTA_COMMIT.value)
    logs = find_logs(txn.env, time)
    pending = Instant(rollback, Action.ROLLBACK, State.REQUESTED)
    plan = RollbackPlan(
        instant_to_rollback=info,
        rollback_requests=tuple(_make_request(root, path) for path in logs),
    )
    with suppress(ObjectExists):
        create_under_lock(txn, state_path(timeline_paths, pending), codec.encode(plan))
    with suppress(ObjectExists):
        create_under_lock(
            txn, state_path(timeline_paths, replace(pending, state=State.INFLIGHT)), b""
        )
    remove_delta_commit(txn, timeline_paths, time, states)
    if mine is not None and mine.is_completed:
        return
    newest = Timeline.of(states).newest_time
    completed_rollback = replace(
        pending,
        state=State.COMPLETED,
        completion_time=new_time(txn, after=max(filter(None, (rollback, newest)))),
    )
    metadata = _describe_rollback(rollback, info, logs, root)
    create_under_lock(txn, state_path(timeline_paths, completed_rollback), codec.encode(metadata))


def _make_request(root: str, path: str) -> RollbackRequest:
    return RollbackRequest(
        partition_path=_partition_of(path),
        file_id=FileId(""),
        latest_base_instant="",
        files_to_be_deleted=(join(root, path),),
        log_blocks_to_be_deleted={},
    )


def _describe_rollback(
    rollback: InstantTime, info: InstantInfo, logs: Sequence[str], root: str
) -> RollbackMetadata:
    by_partition: dict[PartitionPath, list[str]] = {}
    for path in logs:
        by_partition.setdefault(_partition_of(path), []).append(join(root, path))
    return RollbackMetadata.of(rollback, info, by_partition)


def _partition_of(path: str) -> PartitionPath:
    return PartitionPath(path.split("/")[-2])


# -- files --------------------------------------------------------------------------------------


def state_path(timeline_paths: TimelinePaths, instant: Instant) -> str:
    """Where the file of an instant of the metadata table is."""
    return f"{timeline_paths.active}/{instant_name(instant, layout=timeline_paths.layout)}"


def list_states(env: Env, timeline_paths: TimelinePaths) -> list[Instant]:
    """Every file of the metadata table's timeline."""
    return parse_states(env.storage.list(timeline_paths.active), timeline_paths)


def list_partition(env: Env, partition: str) -> list[DataFile]:
    """Every data file of a partition of the metadata table, of whichever instant."""
    directory = PartitionPath(join(METADATA_TABLE, partition))
    files = (
        parse_data_file(directory, entry.path.rpartition("/")[2], entry.size_bytes)
        for entry in env.storage.list(directory)
    )
    return [file for file in files if file is not None]


@dataclass(frozen=True, slots=True)
class PartitionGroups:
    """The file groups of a partition, sorted: a key's hash tells the place of its group here."""

    ids: tuple[FileId, ...]
    opened_at: InstantTime
    """The first of the instants that made them: another one if the partition was built anew."""


def list_groups(env: Env, partition: str) -> PartitionGroups:
    """The file groups that a partition has now. `FormatError` if it has none."""
    files = list_partition(env, partition)
    if not files:
        source = join(METADATA_TABLE, partition)
        raise FormatError("this part of the metadata table has no files", source=source)
    fill_times = (
        instant_of_file(file) for file in files if instant_of_file(file).startswith(SOLO_TIME)
    )
    ids = tuple(sorted({file.name.file_id for file in files}))
    return PartitionGroups(ids, min(fill_times, default=InstantTime("")))


def find_logs(env: Env, time: InstantTime) -> list[str]:
    """Paths of the log files of an instant, in every partition of the metadata table."""
    log_paths = []
    for partition in env.storage.list_directories(METADATA_TABLE):
        if not partition.startswith("."):
            files = list_partition(env, partition)
            log_paths += [
                f.path for f in files if isinstance(f, LogFile) and instant_of_file(f) == time
            ]
    return log_paths


def create_under_lock(txn: Txn, path: str, data: bytes) -> None:
    """Make a file while the lock surely covers that; nothing is sent later."""
    txn.fence.ensure_publish_window()
    create_once(txn.env, path, data, within_s=txn.fence.budget_s())


def _delete(txn: Txn, path: str) -> None:
    txn.fence.ensure_publish_window()
    delete_surely(txn.env, path)
