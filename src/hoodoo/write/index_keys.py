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

from hoodoo.engine.engine import Engine
from hoodoo.errors import FormatError, NotFound, naming
from hoodoo.format.log.blocks import BlockType
from hoodoo.format.log.deletes import decode_deletes
from hoodoo.format.schema import COMMIT_TIME, RECORD_KEY, with_meta_fields
from hoodoo.index import index_of
from hoodoo.index.slice_keys import are_in
from hoodoo.model.commit import OperationType
from hoodoo.model.files import (
    BaseFile,
    DataFile,
    FileGroupId,
    FileSlice,
    LogFile,
    parse_data_file,
)
from hoodoo.model.instant import InstantTime
from hoodoo.model.names import FileId
from hoodoo.model.paths import PartitionPath
from hoodoo.model.slices import Visibility
from hoodoo.model.stats import WriteStat
from hoodoo.rows import merge
from hoodoo.rows.merge import Changes
from hoodoo.table.merged import (
    find_deleted_keys,
    order_deletes,
    read_log_blocks,
    read_merged_rows,
    read_upserts,
)
from hoodoo.table.read import slice_reads
from hoodoo.table.read_rule import SliceRead, build_read_rule, read_base
from hoodoo.table.snapshot import Snapshot, take_snapshot

_KEEP_KEYS = frozenset({OperationType.COMPACT, OperationType.LOG_COMPACT, OperationType.INDEX})
_NO_KEYS = pa.array([], pa.string())


@dataclass(frozen=True, slots=True)
class KeyChanges:
    """Keys that are in these file groups by now, and keys that left one.

    A key that is in both has moved: `metadata.key_changes.record_index_changes` takes it as such.
    """

    keys: pa.Array
    partitions: pa.Array
    file_ids: pa.Array
    deleted: pa.Array

    @classmethod
    def concatenate(cls, parts: Iterable[KeyChanges]) -> KeyChanges:
        """The changes of several files together."""
        columns = [(one.keys, one.partitions, one.file_ids, one.deleted) for one in parts]
        columns.append((_NO_KEYS,) * 4)
        return cls(*(pa.concat_arrays(each) for each in zip(*columns, strict=True)))


@dataclass(frozen=True, slots=True)
class KeyRead:
    """One file that a commit wrote; or, without one, a file group that it took out.

    `before`: the slice that the file group had, None for a new one. The counts are those of the
    write stat. `may_insert`: rows of a log file may have keys that the file group did not have.
    """

    time: InstantTime
    group: FileGroupId
    read: SliceRead
    """How to read the file alone."""
    written: DataFile | None
    before: SliceRead | None
    inserts: int = 0
    deletes: int = 0
    may_insert: bool = False

    @property
    def size_bytes(self) -> int:
        """The bytes of its files; columns of keys are read, and a few others at most."""
        before = self.before.size_bytes if self.before is not None else 0
        return before + (self.written.size_bytes if self.written is not None else 0)


def read_commit_keys(
    snapshot: Snapshot,
    engine: Engine,
    schema: pa.Schema,
    time: InstantTime,
    operation: OperationType,
    stats: Sequence[WriteStat],
    replaced: Mapping[PartitionPath, tuple[FileId, ...]],
) -> KeyChanges:
    """How a commit changes the record index, read on an engine; as `plan_key_reads`.

    Slices that were compacted since the snapshot may be cleaned: then the table as it is now is
    read, which has the same keys.
    """

    def read(view: Snapshot) -> KeyChanges:
        reads = plan_key_reads(view, schema, time, operation, stats, replaced)
        return collect_key_changes(reads, engine)

    try:
        return read(snapshot)
    except NotFound:
        return read(take_snapshot(snapshot.ref.reopen()))


def plan_key_reads(
    snapshot: Snapshot,
    schema: pa.Schema,
    time: InstantTime,
    operation: OperationType,
    stats: Sequence[WriteStat],
    replaced: Mapping[PartitionPath, tuple[FileId, ...]],
) -> list[KeyRead]:
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
        alone = SliceRead(
            snapshot.ref.env, _slice_of(group, time, file), rule, Visibility({time: time})
        )
        reads.append(
            KeyRead(
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
        groups = [FileGroupId(place, one) for place, ids in replaced.items() for one in ids]
        reads += [
            KeyRead(time, group, before[group], None, before[group])
            for group in groups
            if group in before
        ]
    return reads


def collect_key_changes(reads: Sequence[KeyRead], engine: Engine) -> KeyChanges:
    """What all files of a commit change, in this process."""
    return KeyChanges.concatenate(engine.map(read_key_changes, reads))


def read_key_changes(task: KeyRead) -> KeyChanges:
    """What one file changes: what engines run."""
    if task.written is None:
        return _changes(task.group, deleted=_read_live_keys(task.read))
    if isinstance(task.written, LogFile):
        return _read_log_changes(task)
    if task.before is None:
        return _changes(task.group, _read_live_keys(task.read))
    return _read_merged_changes(task, task.written, task.before)


def _read_merged_changes(task: KeyRead, file: BaseFile, before: SliceRead) -> KeyChanges:
    """A base file in place of a slice: keys that only one of the two has."""
    columns = pa.schema([(COMMIT_TIME, pa.string()), (RECORD_KEY, pa.string())])
    rows = read_base(task.read.env, file, task.read.rule, columns)
    keys = merge.one_array(rows.column(RECORD_KEY))
    written = keys.filter(merge.one_array(pc.equal(rows.column(COMMIT_TIME), task.time)))
    if not task.deletes and len(written) == task.inserts:
        return _changes(task.group, written)
    old = _read_live_keys(before)
    inserted = written.filter(pa.array(~are_in(written, old))) if task.inserts else _NO_KEYS
    gone = old.filter(pa.array(~are_in(old, keys))) if task.deletes else _NO_KEYS
    return _changes(task.group, inserted, gone)


def _read_log_changes(task: KeyRead) -> KeyChanges:
    """A log file on top of a slice.

    Where it cannot be told from log files alone which keys live before and after it, the keys of
    the base file are read too: for deletes that compete with rows by an ordering value, and for
    rows whose keys nobody looked for.
    """
    changes = _read_log(task.read)
    deleted, before = changes.deleted, task.before
    competes = changes.ordering and not changes.absolute[deleted].all()
    if before is None:
        live = _read_live_keys(task.read)
        return _changes(task.group, live)
    if task.may_insert or competes:
        both = replace(before.slice, logs=(*before.slice.logs, *task.read.slice.logs))
        seen = Visibility({**before.visibility.completions, task.time: task.time})
        lived = are_in(changes.keys, _read_live_keys(before))
        lives = are_in(changes.keys, _read_live_keys(replace(before, slice=both, visibility=seen)))
        inserted, gone = lives & ~lived, lived & ~lives
    else:
        inserted, gone = np.zeros(len(deleted), bool), deleted
        if before.slice.logs:  # keys that come back
            inserted = are_in(changes.keys, find_deleted_keys(before)) & ~deleted
    return _changes(
        task.group, changes.keys.filter(pa.array(inserted)), changes.keys.filter(pa.array(gone))
    )


def _read_log(read: SliceRead) -> Changes:
    """The changes of a log file, one for each key."""
    schema = read.rule.columns_to_read(merging=True)
    batches = [merge.upserts(schema.empty_table(), _NO_KEYS, read.rule.merge)]
    for path, block in read_log_blocks(read):
        with naming(path):
            if block.type is BlockType.DELETE:
                batches.append(order_deletes(decode_deletes(block), schema, read.rule))
            else:
                batches.append(read_upserts(block, schema, read.rule).changes)
    return merge.collapse(batches)


def _read_live_keys(read: SliceRead) -> pa.Array:
    """The keys of a slice that no log deleted."""
    if read.slice.logs:
        return merge.one_array(read_merged_rows(read).column(RECORD_KEY))
    assert read.slice.base is not None
    columns = pa.schema([(RECORD_KEY, pa.string())])
    rows = read_base(read.env, read.slice.base, read.rule, columns)
    return merge.one_array(rows.column(RECORD_KEY))


def _changes(
    group: FileGroupId, keys: pa.Array = _NO_KEYS, deleted: pa.Array = _NO_KEYS
) -> KeyChanges:
    partitions, file_ids = (
        pa.repeat(pa.scalar(text, pa.string()), len(keys))
        for text in (group.partition, group.file_id)
    )
    return KeyChanges(keys.cast(pa.string()), partitions, file_ids, deleted.cast(pa.string()))


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
