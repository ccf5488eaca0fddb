"""Changes of one file group as the bytes of a log file: a data block, then delete blocks."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.config.write import CODEC, LOG_BLOCK_FORMAT, LogBlockFormat
from hoodoo.format.log.blocks import Block, Header, encode_blocks
from hoodoo.format.log.data import avro_block, parquet_block
from hoodoo.format.log.deletes import delete_block, deletes_of, split_by_kind
from hoodoo.format.log.ordering import always_wins, wrap
from hoodoo.format.schema import with_meta_fields
from hoodoo.model.commit import WriteStat
from hoodoo.model.files import FileGroupId
from hoodoo.model.names import LogFileName, MarkerKind
from hoodoo.model.paths import join
from hoodoo.rows.merge import Changes
from hoodoo.write.files.context import WriteContext
from hoodoo.write.files.meta_columns import add_meta_columns, set_file_name
from hoodoo.write.files.outputs import Outputs


@dataclass(frozen=True, slots=True)
class LogContent:
    """The bytes of a log file, and how many rows and deletes are in it."""

    data: bytes
    rows: int
    deletes: int


def encode_changes(
    context: WriteContext, group: FileGroupId, changes: Changes, *, index: int
) -> LogContent:
    """The log file of these changes; `index` is that of the handle."""
    is_delete = pa.array(changes.is_delete)
    rows = changes.rows.filter(pc.invert(is_delete))
    if rows.num_rows:
        full = add_meta_columns(context, rows, group.partition, index=index, first=1)
        rows = set_file_name(full, group.file_id)
    keys = changes.keys.filter(is_delete)
    ordering = _delete_ordering(changes, is_delete)
    deletes = deletes_of(keys, pa.repeat(group.partition, len(keys)), ordering)
    return encode_log(context, rows, deletes)


def encode_log(
    context: WriteContext, rows: pa.Table, deletes: pa.Table, extra: Header | None = None
) -> LogContent:
    """The log file of rows with meta columns, and of deletes; `extra` goes into the headers."""
    schema_json = with_meta_fields(context.schema_json)
    blocks: list[Block] = []
    if rows.num_rows:
        plain = rows.cast(with_meta_fields(context.schema))
        blocks.append(_data_block(context, plain, schema_json, extra))
    time = context.requested_time
    blocks += [
        delete_block(part, instant_time=time, schema_json=schema_json, extra=extra)
        for part in split_by_kind(deletes)
    ]
    return LogContent(encode_blocks(blocks), rows.num_rows, deletes.num_rows)


def write_log(outputs: Outputs, group: FileGroupId, content: LogContent) -> WriteStat:
    """Write the log file of a handle; what the commit says of it.

    Log files are new files like others: markers of the kind APPEND are for tables below version 8.
    """
    time = outputs.context.requested_time
    name = LogFileName(group.file_id, time, 1, outputs.token)
    outputs.open(group.partition, name, MarkerKind.CREATE).write(content.data)
    size = len(content.data)
    return WriteStat(
        file_id=group.file_id,
        path=join(group.partition, str(name)),
        prev_commit=time,
        num_writes=content.rows,
        num_deletes=content.deletes,
        num_update_writes=content.rows,
        num_inserts=0,
        total_write_bytes=size,
        file_size_in_bytes=size,
        partition_path=group.partition,
        log_version=1,
        log_offset=0,
        base_file="",
        log_files=(str(name),),
    )


def _data_block(
    context: WriteContext, rows: pa.Table, schema_json: str, extra: Header | None
) -> Block:
    config, time = context.ref.config, context.requested_time
    if config.get(LOG_BLOCK_FORMAT) is LogBlockFormat.AVRO:
        return avro_block(rows, instant_time=time, schema_json=schema_json, extra=extra)
    codec = config.get(CODEC).value
    return parquet_block(
        rows,
        instant_time=time,
        schema_json=schema_json,
        extra=extra,
        compression="none" if codec == "uncompressed" else codec,
    )


def _delete_ordering(changes: Changes, is_delete: pa.Array) -> pa.Array:
    """Deletes that carry an ordering value compete by it; all others win at once."""
    values = [column.filter(is_delete) for column in changes.ordering]
    absolute = changes.absolute[changes.is_delete]
    if len(values) != 1 or absolute.all():
        return always_wins(len(absolute))
    return wrap(values[0])
