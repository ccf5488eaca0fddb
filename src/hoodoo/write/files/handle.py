"""The executor side of a write: the rows of one file group -> its new files and their stats.

`run_handle` needs nothing but its task, and runs in this process or on Spark's executors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.config.concurrency import MarkerType
from hoodoo.format.markers import Digest
from hoodoo.model.commit import RuntimeStats, WriteStat
from hoodoo.model.names import BaseFileName, LogFileName, MarkerKind, MarkerName
from hoodoo.model.paths import join
from hoodoo.read.base_files import SliceReadTask
from hoodoo.read.log_files import find_deleted_keys
from hoodoo.rows.merge import Changes
from hoodoo.write.files.base_files import BaseFiles, CopiedGroup
from hoodoo.write.files.context import WriteContext
from hoodoo.write.files.exactly_once import HandleOutput, write_handle_once
from hoodoo.write.files.log_files import encode_changes, write_log
from hoodoo.write.files.merge_base_file import SliceMerger, rows_to_add
from hoodoo.write.files.meta_columns import add_meta_columns
from hoodoo.write.files.outputs import Outputs, announce_files
from hoodoo.write.index.destinations import FileGroupWrite, WriteKind

__all__ = ["Digest", "HandleTask", "WriteContext", "announce_all", "run_handle"]


@dataclass(frozen=True, slots=True)
class HandleTask:
    """One file group to write and its rows; rows flagged as deleted in `changes` are deletes.

    `attempt` tells the attempts at it apart. `announced_marker` is a file that the handle need
    not announce any more. `digest` is of the rows as they came, before any were combined.
    """

    context: WriteContext
    write: FileGroupWrite
    changes: Changes
    previous: SliceReadTask | None = None
    attempt: int = 0
    announced_marker: MarkerName | None = None
    digest: Digest | None = None

    def at_attempt(self, number: int) -> HandleTask:
        """The task for one of several attempts, which all get the same rows."""
        same = self.digest or Digest(self.changes.num_rows, self.write.index)
        return replace(self, attempt=number, announced_marker=None, digest=same)

    @property
    def handle(self) -> str:
        """Names the handle among those of its write."""
        return f"{self.write.index}-{self.write.group.file_id}"

    @property
    def size_bytes(self) -> int:
        """The bytes that are read and merged: the rows, and of the file group what is looked at."""
        rows = int(self.changes.rows.nbytes)
        if self.previous is None:
            return rows
        read = self.previous.slice
        if self.write.kind is WriteKind.APPEND:
            return rows + sum(log.size_bytes for log in read.logs)
        return rows + read.size_bytes

    def outputs(self) -> Outputs:
        """The files of this attempt."""
        return Outputs(
            self.context,
            index=self.write.index,
            attempt=self.attempt,
            announced_marker=self.announced_marker,
        )


def announce_all(tasks: Sequence[HandleTask]) -> list[HandleTask]:
    """Announce the first file of each task at once, where markers come in batches.

    Direct markers are left to the handles, which make them beside each other. The tasks that are
    returned know what was announced for them; those given would announce it again.

    Order: MARKERS.type; MARKERS0.
    Crash: markers of files that are not there.
    """
    if not tasks or tasks[0].context.marker_type is MarkerType.DIRECT:
        return list(tasks)
    files = [_first_file(task) for task in tasks]
    announce_files(tasks[0].context, files)
    return [replace(task, announced_marker=file) for task, file in zip(tasks, files, strict=True)]


def run_handle(task: HandleTask) -> tuple[WriteStat, ...]:
    """Write the files of a file group and tell what was written.

    Order: partition metadata; for each file its marker, then the file, hidden; all files
    published. That of `write_handle_once` around it.
    Crash: files with markers, of an instant that is pending: rolling it back removes them.
    """
    outputs = task.outputs()

    def make() -> HandleOutput:
        clock = task.context.ref.env.clock
        start_time = clock.monotonic()
        if task.context.early is not None:  # a conflict is found before anything is read or merged
            outputs.announce(_first_file(task))
        stats = _make(task, outputs)
        took_ms = int((clock.monotonic() - start_time) * 1000)
        runtime = _runtime(task.write.kind, took_ms)
        return tuple(replace(stat, runtime_stats=runtime) for stat in stats), task.digest

    return write_handle_once(outputs, task.handle, make, lambda: task.digest)


def _make(task: HandleTask, outputs: Outputs) -> list[WriteStat]:
    match task.write.kind:
        case WriteKind.CREATE:
            return _create(task, outputs)
        case WriteKind.APPEND if not _resurrects(task):
            return _append(task, outputs)
        case _:
            return _merge(task, outputs)


def _resurrects(task: HandleTask) -> bool:
    """Whether a row brings a key back that an earlier log deleted.

    Under event-time ordering such a row, in a log, would be weighed against the base row that was
    deleted, and may lose; the group gets a new base file instead.
    """
    previous, changes = task.previous, task.changes
    if previous is None or not previous.slice.logs or not previous.rule.merge.by_event_time:
        return False
    deleted_keys = find_deleted_keys(previous)
    if not len(deleted_keys):
        return False
    rows = changes.keys.filter(pa.array(~changes.is_delete))
    return bool(pc.any(pc.is_in(rows, value_set=deleted_keys)).as_py())


def _runtime(kind: WriteKind, took_ms: int) -> RuntimeStats:
    create_ms = took_ms if kind is WriteKind.CREATE else 0
    return RuntimeStats(
        total_scan_time=0, total_create_time=create_ms, total_upsert_time=took_ms - create_ms
    )


def _first_file(task: HandleTask) -> MarkerName:
    group, time, token = task.write.group, task.context.requested_time, task.outputs().token
    name: BaseFileName | LogFileName = BaseFileName(group.file_id, token, time)
    if task.write.kind is WriteKind.APPEND:
        name = LogFileName(group.file_id, time, 1, token)
    return MarkerName(join(group.partition, str(name)), _marker_kind(task))


def _marker_kind(task: HandleTask) -> MarkerKind:
    """Log files are new files like others: APPEND is for tables below version 8."""
    return MarkerKind.MERGE if task.write.kind is WriteKind.MERGE else MarkerKind.CREATE


def _create(task: HandleTask, outputs: Outputs) -> list[WriteStat]:
    """Write rows as the base file of a new file group, or of several where one grows too large."""
    group, rows = task.write.group, rows_to_add(task.changes)
    if not rows.num_rows:  # all of them are marked as deleted
        return []
    outputs.ensure_partition(group.partition)
    files = BaseFiles(outputs, group, MarkerKind.CREATE, rolls_over=task.write.rolls_over)
    files.write(add_meta_columns(task.context, rows, group.partition, index=outputs.index, first=0))
    return [file.as_insert(group.partition) for file in files.end()]


def _merge(task: HandleTask, outputs: Outputs) -> list[WriteStat]:
    """Write the rows of a file group, with changes merged into them, as its next base file."""
    group, previous = task.write.group, task.write.previous
    assert previous is not None
    files = BaseFiles(outputs, group, MarkerKind.MERGE, rolls_over=False, copies=True)
    assert task.previous is not None
    # Rows that go to logs are merged by key when they are read, whatever wrote them.
    by_key = task.context.by_key or task.write.kind is WriteKind.APPEND
    merging = SliceMerger(task.context, task.previous, task.changes, by_key)
    for piece in merging.pieces(index=outputs.index):
        if isinstance(piece, CopiedGroup):
            files.copy(piece, merging.keys)
        else:
            files.write(piece, merging.keys)
    (file,) = files.end()
    return [
        WriteStat(
            file_id=file.name.file_id,
            path=file.path,
            prev_commit=previous.base_time,
            num_writes=file.rows,
            num_deletes=merging.delete_count,
            num_update_writes=merging.update_count,
            num_inserts=merging.insert_count,
            total_write_bytes=file.size_bytes,
            file_size_in_bytes=file.size_bytes,
            partition_path=group.partition,
            total_log_files=len(previous.logs) or None,
            total_log_files_compacted=len(previous.logs),
            total_log_size_compacted=sum(log.size_bytes for log in previous.logs),
            prev_base_file=str(previous.base.name) if previous.base else None,
        )
    ]


def _append(task: HandleTask, outputs: Outputs) -> list[WriteStat]:
    """Write changes as one log file."""
    context, group = task.context, task.write.group
    content = encode_changes(context, group, task.changes, index=outputs.index)
    return [write_log(outputs, group, content)]
