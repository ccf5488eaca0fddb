"""What a commit changes in the record index: keys that it put into file groups, and took out.

All of it is read from data files: those that the write stats name, and, where those do not tell
enough, the slices from before. So it is the same whoever made the files, and however often: stats
that were recorded by an earlier attempt will do. `read_key_changes` is for one file, and runs on an
engine; rows that were only updated are not told.

Needs: a key is one row of the table, or of those that are written. Table services that keep every
row where it is (compaction, log compaction) change nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.errors import FormatError, ObjectNotFound, add_error_source
from hoodoo.format.log.blocks import BlockType
from hoodoo.format.log.deletes import decode_deletes
from hoodoo.format.schema import COMMIT_TIME, RECORD_KEY, with_meta_fields
from hoodoo.model.commit import OperationType, WriteStat
from hoodoo.model.files import (
    BaseFile,
    DataFile,
    FileGroupId,
    FileSlice,
    LogFile,
    Visibility,
    parse_data_file,
)
from hoodoo.model.instant import InstantTime
from hoodoo.model.names import FileId
from hoodoo.model.paths import PartitionPath
from hoodoo.read.base_files import SliceReadTask, build_read_rule, read_base
from hoodoo.read.log_files import (
    find_deleted_keys,
    order_deletes,
    read_log_blocks,
    read_merged_rows,
    read_upserts,
)
from hoodoo.read.scan import slice_reads
from hoodoo.read.snapshot import Snapshot, take_snapshot
from hoodoo.rows import arrays, merge
from hoodoo.rows.merge import Changes
from hoodoo.runtime.engine import Engine
from hoodoo.write.index import index_of
from hoodoo.write.index.slice_keys import is_member

_KEEP_KEYS = frozenset({OperationType.COMPACT, OperationType.LOG_COMPACT, OperationType.INDEX})
_NO_KEYS = pa.array([], pa.string())


@dataclass(frozen=True, slots=True)
class CommitKeyChanges:
    """Keys that are in these file groups by now, and keys that left one.

    A key that is in both has moved; `record_index_changes` of the metadata table takes it as such.
    """

    keys: pa.Array
    partitions: pa.Array
    file_ids: pa.Array
    deleted_keys: pa.Array

    @classmethod
    def concatenate(cls, parts: Iterable[CommitKeyChanges]) -> CommitKeyChanges:
        """The changes of several files together."""
        columns = [(one.keys, one.partitions, one.file_ids, one.deleted_keys) for one in parts]
        columns.append((_NO_KEYS,) * 4)
        return cls(*(pa.concat_arrays(each) for each in zip(*columns, strict=True)))


@dataclass(frozen=True, slots=True)
class KeyChangesTask:
    """One file that a commit wrote; or, without one, a file group that it took out.

    `before`: the slice that the file group had, None for a new one. The counts are those of the
    write stat. `may_insert`: rows of a log file may have keys that the file group did not have.
    """

    time: InstantTime
    group: FileGroupId
    read: SliceReadTask
    """How to read the file alone."""
    new_file: DataFile | None
    before: SliceReadTask | None
    inserts: int = 0
    deletes: int = 0
    may_insert: bool = False

    @property
    def size_bytes(self) -> int:
        """The bytes of its files; columns of keys are read, and a few others at most."""
        before = self.before.size_bytes if self.before is not None else 0
        return before + (self.new_file.size_bytes if self.new_file is not None else 0)


def read_commit_keys(
    snapshot: Snapshot,
    engine: Engine,
    schema: pa.Schema,
    time: InstantTime,
    operation: OperationType,
    stats: Sequence[WriteStat],
    replaced_files: Mapping[PartitionPath, tuple[FileId, ...]],
) -> CommitKeyChanges:
    """How a commit changes the record index, read on an engine; as `plan_key_reads`.

    Slices that were compacted since the snapshot may be cleaned: then the table as it is now is
    read, which has the same keys.
    """

    def read(view: Snapshot) -> CommitKeyChanges:
        reads = plan_key_reads(view, schema, time, operation, stats, replaced_files)
        return collect_key_changes(reads, engine)

    try:
        return read(snapshot)
    except ObjectNotFound:
        return read(take_snapshot(snapshot.ref.reopen()))


def plan_key_reads(
    snapshot: Snapshot,
    schema: pa.Schema,
    time: InstantTime,
    operation: OperationType,
    stats: Sequence[WriteStat],
    replaced_files: Mapping[PartitionPath, tuple[FileId, ...]],
) -> list[KeyChangesTask]:
    """What has to be read to know how a commit changes the record index.

    `snapshot` is of before the commit: that on which it was planned will do, since what came to
    the same file groups meanwhile was a conflict, or a compaction. `schema` is the commit's.
    """
    if operation in _KEEP_KEYS:
        return []
    rule = build_read_rule(snapshot.ref.properties, with_meta_fields(schema), (RECORD_KEY,))
    before = {
        read.slice.group: read for read in slice_reads(snapshot, rule, list(snapshot.slices()))
    }
    by_number = index_of(snapshot.ref).buckets is not None  # nobody looked whether keys are new
    reads = []
    for stat in stats:
        file = _file_of(stat)
        group = FileGroupId(file.partition, file.name.file_id)
        old = before.get(group)
        if isinstance(file, BaseFile) and old is not None and not _changes_keys(stat):
            continue
        alone = SliceReadTask(
            snapshot.ref.env, _slice_of(group, time, file), rule, Visibility({time: time})
        )
        reads.append(
            KeyChangesTask(
                time,
                group,
                alone,
                file,
                old,
                stat.num_inserts,
                stat.num_deletes,
                may_insert=by_number or stat.num_inserts > 0,
            )
        )
    if operation is not OperationType.CLUSTER:  # it writes all rows of those to others
        groups = [FileGroupId(place, one) for place, ids in replaced_files.items() for one in ids]
        reads += [
            KeyChangesTask(time, group, before[group], None, before[group])
            for group in groups
            if group in before
        ]
    return reads


def collect_key_changes(reads: Sequence[KeyChangesTask], engine: Engine) -> CommitKeyChanges:
    """What all files of a commit change, in this process."""
    return CommitKeyChanges.concatenate(engine.map(read_key_changes, reads))


def read_key_changes(task: KeyChangesTask) -> CommitKeyChanges:
    """What one file changes: what engines run."""
    if task.new_file is None:
        return _changes(task.group, deleted_keys=_read_live_keys(task.read))
    if isinstance(task.new_file, LogFile):
        return _read_log_changes(task)
    if task.before is None:
        return _changes(task.group, _read_live_keys(task.read))
    return _read_merged_changes(task, task.new_file, task.before)


def _read_merged_changes(
    task: KeyChangesTask, file: BaseFile, before: SliceReadTask
) -> CommitKeyChanges:
    """A base file in place of a slice: keys that only one of the two has."""
    columns = pa.schema([(COMMIT_TIME, pa.string()), (RECORD_KEY, pa.string())])
    rows = read_base(task.read.env, file, columns)
    keys = arrays.one_array(rows.column(RECORD_KEY))
    written_keys = keys.filter(arrays.one_array(pc.equal(rows.column(COMMIT_TIME), task.time)))
    if not task.deletes and len(written_keys) == task.inserts:
        return _changes(task.group, written_keys)
    old = _read_live_keys(before)
    inserted_keys = (
        written_keys.filter(pa.array(~is_member(written_keys, old))) if task.inserts else _NO_KEYS
    )
    deleted_keys = old.filter(pa.array(~is_member(old, keys))) if task.deletes else _NO_KEYS
    return _changes(task.group, inserted_keys, deleted_keys)


def _read_log_changes(task: KeyChangesTask) -> CommitKeyChanges:
    """A log file on top of a slice.

    Where it cannot be told from log files alone which keys live before and after it, the keys of
    the base file are read too: for deletes that compete with rows by an ordering value, and for
    rows whose keys nobody looked for.
    """
    changes = _read_log(task.read)
    is_delete, before = changes.is_delete, task.before
    competes = changes.ordering and not changes.absolute[is_delete].all()
    if before is None:
        live = _read_live_keys(task.read)
        return _changes(task.group, live)
    if task.may_insert or competes:
        both = before.slice._replace(logs=(*before.slice.logs, *task.read.slice.logs))
        visibility = Visibility({**before.visibility.completions, task.time: task.time})
        lives_before = is_member(changes.keys, _read_live_keys(before))
        lives_after = is_member(
            changes.keys, _read_live_keys(replace(before, slice=both, visibility=visibility))
        )
        is_insert, is_gone = lives_after & ~lives_before, lives_before & ~lives_after
    else:
        is_insert, is_gone = np.zeros(len(is_delete), bool), is_delete
        if before.slice.logs:  # keys that come back
            is_insert = is_member(changes.keys, find_deleted_keys(before)) & ~is_delete
    return _changes(
        task.group, changes.keys.filter(pa.array(is_insert)), changes.keys.filter(pa.array(is_gone))
    )


def _read_log(read: SliceReadTask) -> Changes:
    """The changes of a log file, one for each key."""
    schema = read.rule.columns_to_read(merging=True)
    batches = [merge.upserts(schema.empty_table(), _NO_KEYS, read.rule.merge)]
    for path, block in read_log_blocks(read):
        with add_error_source(path):
            if block.type is BlockType.DELETE:
                batches.append(order_deletes(decode_deletes(block), schema, read.rule))
            else:
                batches.append(read_upserts(block, schema, read.rule).changes)
    return merge.collapse(batches)


def _read_live_keys(read: SliceReadTask) -> pa.Array:
    """The keys of a slice that no log deleted."""
    if read.slice.logs:
        return arrays.one_array(read_merged_rows(read).column(RECORD_KEY))
    assert read.slice.base is not None
    columns = pa.schema([(RECORD_KEY, pa.string())])
    rows = read_base(read.env, read.slice.base, columns)
    return arrays.one_array(rows.column(RECORD_KEY))


def _changes(
    group: FileGroupId, keys: pa.Array = _NO_KEYS, deleted_keys: pa.Array = _NO_KEYS
) -> CommitKeyChanges:
    partitions, file_ids = (
        pa.repeat(pa.scalar(text, pa.string()), len(keys))
        for text in (group.partition, group.file_id)
    )
    return CommitKeyChanges(
        keys.cast(pa.string()), partitions, file_ids, deleted_keys.cast(pa.string())
    )


def _changes_keys(stat: WriteStat) -> bool:
    return stat.num_inserts > 0 or stat.num_deletes > 0


def _slice_of(group: FileGroupId, time: InstantTime, file: DataFile) -> FileSlice:
    if isinstance(file, LogFile):
        return FileSlice(group, time, None, (file,))
    return FileSlice(group, time, file)


def _file_of(stat: WriteStat) -> DataFile:
    place, name = stat.partition_path, stat.file_name
    file = None
    if place is not None and name:
        file = parse_data_file(place, name, stat.file_size_in_bytes)
    if file is None:
        raise FormatError(f"a write stat names no data file: {stat.path!r}")
    return file
