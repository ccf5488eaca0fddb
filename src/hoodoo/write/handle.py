"""The executor side of a write: one bucket's rows -> one file group's new files and their stats.

`run_handle` is what Spark will distribute; it needs nothing but its task.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.concurrency.markers import announce
from hoodoo.config.concurrency import MARKER_TYPE, MarkerType
from hoodoo.config.write import (
    BLOOM_ENABLED,
    BLOOM_ENTRIES,
    BLOOM_FPP,
    BLOOM_MAX_ENTRIES,
    CODEC,
    DICTIONARY,
    LOG_BLOCK_FORMAT,
    MAX_FILE_SIZE,
    PAGE_SIZE,
    ROW_GROUP_SIZE,
    LogBlockFormat,
)
from hoodoo.errors import AlreadyExists
from hoodoo.format import partition_metadata
from hoodoo.format.log.data import avro_block, parquet_block
from hoodoo.format.log.deletes import delete_block, deletes_of
from hoodoo.format.log.ordering import always_wins, wrap
from hoodoo.format.log.writer import encode_blocks
from hoodoo.format.parquet import BaseFileWriter, BloomOptions, ParquetOptions
from hoodoo.format.schema import FILE_NAME, RECORD_KEY, with_meta_fields
from hoodoo.model.files import FileGroupId
from hoodoo.model.instant import InstantTime
from hoodoo.model.names import (
    BaseFileName,
    FileId,
    LogFileName,
    MarkerKind,
    MarkerName,
    WriteToken,
    write_token,
)
from hoodoo.model.paths import PARTITION_METADATA, join
from hoodoo.model.stats import NO_COMMIT, RuntimeStats, WriteStat
from hoodoo.rows import merge
from hoodoo.rows.merge import Changes
from hoodoo.table.base import ReadRule, SliceRead, read_base
from hoodoo.table.merged import deleted_keys, merged_rows
from hoodoo.table.ref import TableRef
from hoodoo.write.assign import Bucket, BucketKind

_MOST_ROWS_AT_ONCE = 131_072
_FEWEST_ROWS_AT_ONCE = 1_024
_BATCHES_OF_A_BUCKET = 1_000  # more are possible, and collide with those of the next bucket


@dataclass(frozen=True, slots=True)
class WriteContext:
    """What all handles of one write share. `schema` and `schema_json` have no meta fields.

    `by_key` is false for inserts: they add rows whatever keys are there.
    """

    ref: TableRef
    requested_time: InstantTime
    by_key: bool
    schema: pa.Schema
    schema_json: str
    read_rule: ReadRule
    stage: int = 0

    @property
    def marker_type(self) -> MarkerType:
        return self.ref.config.get(MARKER_TYPE)


@dataclass(frozen=True, slots=True)
class HandleTask:
    """One bucket and its rows; rows flagged as deleted in `changes` are deletes.

    `announced` is a file that the handle need not announce any more.
    """

    context: WriteContext
    bucket: Bucket
    changes: Changes
    previous: SliceRead | None = None
    attempt: int = 0
    announced: MarkerName | None = None


def announce_all(tasks: Sequence[HandleTask]) -> list[HandleTask]:
    """Announce the first file of each task at once, where markers come in batches.

    Direct markers are left to the handles, which make them beside each other. The tasks that are
    returned know what was announced for them; those given would announce it again.

    Order: MARKERS.type; MARKERS0.
    Crash: markers of files that are not there.
    """
    if not tasks or tasks[0].context.marker_type is MarkerType.DIRECT:
        return list(tasks)
    context, files = tasks[0].context, [_first_file(task) for task in tasks]
    announce(context.ref.env, context.requested_time, files, type=context.marker_type)
    return [replace(task, announced=file) for task, file in zip(tasks, files, strict=True)]


def run_handle(task: HandleTask) -> tuple[WriteStat, ...]:
    """Write a bucket's files and tell what was written.

    Order: partition metadata; for each file: its marker, then the file.
    Crash: files with markers, of an instant that is pending: rolling it back removes them.
    """
    clock = task.context.ref.env.clock
    started = clock.monotonic()
    _ensure_partition(task)
    match task.bucket.kind:
        case BucketKind.CREATE:
            stats = _create(task)
        case BucketKind.APPEND if _resurrects(task):
            stats = _merge(task)
        case BucketKind.MERGE:
            stats = _merge(task)
        case BucketKind.APPEND:
            stats = _append(task)
    took_ms = int((clock.monotonic() - started) * 1000)
    return tuple(replace(stat, runtime_stats=_runtime(task.bucket.kind, took_ms)) for stat in stats)


def _resurrects(task: HandleTask) -> bool:
    """Whether a row brings a key back that an earlier log deleted.

    Under event-time ordering such a row, in a log, would be weighed against the base row that was
    deleted, and may lose; the group gets a new base file instead.
    """
    previous, changes = task.previous, task.changes
    if previous is None or not previous.slice.logs or not previous.rule.merge.by_event_time:
        return False
    gone = deleted_keys(previous)
    if not len(gone):
        return False
    rows = changes.keys.filter(pa.array(~changes.deleted))
    return bool(pc.any(pc.is_in(rows, value_set=gone)).as_py())


def _runtime(kind: BucketKind, took_ms: int) -> RuntimeStats:
    created = took_ms if kind is BucketKind.CREATE else 0
    return RuntimeStats(
        total_scan_time=0, total_create_time=created, total_upsert_time=took_ms - created
    )


def _ensure_partition(task: HandleTask) -> None:
    """Apache Hudi finds a partition by this file when it lists directories."""
    partition, storage = task.bucket.group.partition, task.context.ref.env.storage
    path = join(partition, PARTITION_METADATA)
    if task.bucket.kind is not BucketKind.CREATE or storage.exists(path):
        return
    made_by = task.context.requested_time
    metadata = partition_metadata.PartitionMetadata.of(partition, made_by=made_by)
    with suppress(AlreadyExists):  # another task of this write, or another writer
        storage.create(path, partition_metadata.encode(metadata))


def _announced(task: HandleTask, name: BaseFileName | LogFileName, *, part: int = 0) -> str:
    """The path of a new file, once others can find it, should this writer die over it."""
    context, marker = task.context, _marker(task, name)
    if marker != task.announced:
        announce(
            context.ref.env,
            context.requested_time,
            [marker],
            type=context.marker_type,
            number=1 + task.bucket.index * _BATCHES_OF_A_BUCKET + part,
        )
    return marker.data_file


def _first_file(task: HandleTask) -> MarkerName:
    is_log = task.bucket.kind is BucketKind.APPEND
    return _marker(task, _log_name(task) if is_log else _base_name(task, part=0))


def _marker(task: HandleTask, name: BaseFileName | LogFileName) -> MarkerName:
    """Log files are new files like others: APPEND is for tables below version 8."""
    kind = MarkerKind.MERGE if task.bucket.kind is BucketKind.MERGE else MarkerKind.CREATE
    return MarkerName(join(task.bucket.group.partition, str(name)), kind)


def _create(task: HandleTask) -> list[WriteStat]:
    rows = task.changes.rows
    return _write_base(task, _with_meta(task, rows, first=0), inserted=rows.num_rows)


def _merge(task: HandleTask) -> list[WriteStat]:
    rule, previous = task.context.read_rule, task.previous
    assert previous is not None
    if previous.slice.logs:
        old = merged_rows(previous)
    else:
        assert previous.slice.base is not None
        old = read_base(previous.env, previous.slice.base, rule, rule.schema)
    if not task.context.by_key:
        fresh = _with_meta(task, task.changes.rows, first=0)
        rows = pa.concat_tables([old.select(fresh.column_names), fresh])
        return _write_base(task, rows, inserted=fresh.num_rows)
    merger = merge.Merger(merge.collapse([task.changes]))
    kept = merger.keep(old, rule.keys_of(old), rule.merge)
    fresh = _with_meta(task, merger.rest(), first=0)
    rows = pa.concat_tables([kept.select(fresh.column_names), fresh])
    return _write_base(task, rows, **merger.counts())


def _write_base(
    task: HandleTask, rows: pa.Table, *, inserted: int, updated: int = 0, deleted: int = 0
) -> list[WriteStat]:
    """Write rows as one base file, or, for a new file group, as several of limited size."""
    context, bucket = task.context, task.bucket
    env, config = context.ref.env, context.ref.config
    limit = config.get(MAX_FILE_SIZE) if bucket.kind is BucketKind.CREATE else None
    batch_rows = _rows_at_once(rows, config.get(MAX_FILE_SIZE))
    previous = bucket.previous
    stats: list[WriteStat] = []
    start = 0
    while start < rows.num_rows or not stats:
        name = _base_name(task, part=len(stats))
        path = _announced(task, name, part=len(stats))
        with env.storage.open_write(path) as stream:
            writer = BaseFileWriter(
                stream,
                with_meta_fields(context.schema),
                avro_schema=with_meta_fields(context.schema_json),
                options=_parquet_options(task),
            )
            end = start
            while end < rows.num_rows and not (
                limit and end > start and writer.size_bytes >= limit
            ):
                batch = rows.slice(end, batch_rows)
                writer.write(_named(batch, str(name)))
                end += batch.num_rows
            writer.close()
            size = stream.tell()
        written = end - start
        stats.append(
            WriteStat(
                file_id=name.file_id,
                path=path,
                prev_commit=previous.base_time if previous else NO_COMMIT,
                num_writes=written,
                num_deletes=deleted,
                num_update_writes=updated,
                num_inserts=written if bucket.kind is BucketKind.CREATE else inserted,
                total_write_bytes=size,
                file_size_in_bytes=size,
                partition_path=bucket.group.partition,
                prev_base_file=str(previous.base.name) if previous and previous.base else None,
            )
        )
        start = end
    return stats


def _rows_at_once(rows: pa.Table, max_file_bytes: int) -> int:
    """A small part of what fits into a file, so that its size can be watched while it grows."""
    row_bytes = rows.nbytes / rows.num_rows if rows.num_rows else 1
    fits = int(max_file_bytes / 8 / row_bytes)
    return min(max(fits, _FEWEST_ROWS_AT_ONCE), _MOST_ROWS_AT_ONCE)


def _base_name(task: HandleTask, *, part: int) -> BaseFileName:
    bucket = task.bucket
    file_id = bucket.group.file_id
    if part:  # rolled over: the next number behind the same prefix
        prefix, _, number = file_id.rpartition("-")
        file_id = FileId(f"{prefix}-{int(number) + part}")
    return BaseFileName(file_id, _token(task), task.context.requested_time)


def _log_name(task: HandleTask) -> LogFileName:
    group = task.bucket.group
    return LogFileName(group.file_id, task.context.requested_time, 1, _token(task))


def _token(task: HandleTask) -> WriteToken:
    return write_token(partition=task.bucket.index, stage=task.context.stage, attempt=task.attempt)


def _append(task: HandleTask) -> list[WriteStat]:
    """Write changes as one log file: a data block, then a delete block."""
    context, bucket, changes = task.context, task.bucket, task.changes
    config = context.ref.config
    group: FileGroupId = bucket.group
    name = _log_name(task)
    schema_json = with_meta_fields(context.schema_json)
    deleted = pa.array(changes.deleted)
    blocks = []
    rows = changes.rows.filter(pc.invert(deleted))
    if rows.num_rows:
        full = _named(_with_meta(task, rows, first=1), group.file_id)
        time = context.requested_time
        if config.get(LOG_BLOCK_FORMAT) is LogBlockFormat.AVRO:
            blocks.append(avro_block(full, instant_time=time, schema_json=schema_json))
        else:
            codec = config.get(CODEC).value
            blocks.append(
                parquet_block(
                    full,
                    instant_time=time,
                    schema_json=schema_json,
                    compression="none" if codec == "uncompressed" else codec,
                )
            )
    keys = changes.keys.filter(deleted)
    if len(keys):
        ordering = _delete_ordering(changes, deleted)
        removed = deletes_of(keys, pa.repeat(group.partition, len(keys)), ordering)
        blocks.append(
            delete_block(removed, instant_time=context.requested_time, schema_json=schema_json)
        )
    data = encode_blocks(blocks)
    path = _announced(task, name)
    context.ref.env.storage.create(path, data)
    return [
        WriteStat(
            file_id=group.file_id,
            path=path,
            prev_commit=context.requested_time,
            num_writes=rows.num_rows,
            num_deletes=len(keys),
            num_update_writes=rows.num_rows,
            num_inserts=0,
            total_write_bytes=len(data),
            file_size_in_bytes=len(data),
            partition_path=group.partition,
            log_version=1,
            log_offset=0,
            base_file="",
            log_files=(str(name),),
        )
    ]


def _delete_ordering(changes: Changes, deleted: pa.Array) -> pa.Array:
    """Deletes that carry an ordering value compete by it; all others win at once."""
    values = [column.filter(deleted) for column in changes.ordering]
    absolute = changes.absolute[changes.deleted]
    if len(values) != 1 or absolute.all():
        return always_wins(len(absolute))
    return wrap(values[0])


def _with_meta(task: HandleTask, rows: pa.Table, *, first: int) -> pa.Table:
    """New rows with their meta columns; the file name is set when the file is known.

    Counts run from 0 in base files and from 1 in log files, as Apache Hudi's do.
    """
    context, bucket = task.context, task.bucket
    time, count = context.requested_time, rows.num_rows
    numbers = pa.array(np.arange(first, first + count)).cast(pa.string())
    prefix = _text(f"{time}_{bucket.index}_")
    meta = [
        pa.repeat(_text(time), count),
        pc.binary_join_element_wise(prefix, numbers, _text("")),
        rows.column(RECORD_KEY),
        pa.repeat(_text(bucket.group.partition), count),
        pa.nulls(count, pa.string()),
    ]
    data = [rows.column(field.name) for field in context.schema]
    return pa.table([*meta, *data], schema=with_meta_fields(context.schema))


def _named(rows: pa.Table, file_name: str) -> pa.Table:
    index = rows.schema.get_field_index(FILE_NAME)
    names = pa.repeat(_text(file_name), rows.num_rows)
    return rows.set_column(index, rows.schema.field(index), names)


def _text(value: str) -> pa.Scalar:
    """Typed, because pyarrow is slow to find out that a text is one."""
    return pa.scalar(value, pa.string())


def _parquet_options(task: HandleTask) -> ParquetOptions:
    config = task.context.ref.config
    bloom = None
    if config.get(BLOOM_ENABLED):
        bloom = BloomOptions(
            entries=config.get(BLOOM_ENTRIES),
            fpp=config.get(BLOOM_FPP),
            max_entries=config.get(BLOOM_MAX_ENTRIES),
        )
    return ParquetOptions(
        codec=config.get(CODEC).value,
        row_group_bytes=config.get(ROW_GROUP_SIZE),
        page_bytes=config.get(PAGE_SIZE),
        dictionary=config.get(DICTIONARY),
        bloom=bloom,
    )
