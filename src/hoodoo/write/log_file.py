"""Changes of one file group as the bytes of a log file: a data block, then a delete block."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.config.write import CODEC, LOG_BLOCK_FORMAT, LogBlockFormat
from hoodoo.format.log.blocks import Block
from hoodoo.format.log.data import avro_block, parquet_block
from hoodoo.format.log.deletes import delete_block, deletes_of
from hoodoo.format.log.ordering import always_wins, wrap
from hoodoo.format.log.writer import encode_blocks
from hoodoo.format.schema import with_meta_fields
from hoodoo.model.files import FileGroupId
from hoodoo.rows.merge import Changes
from hoodoo.write.context import WriteContext
from hoodoo.write.meta_columns import add_meta_columns, set_file_name


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
    time, schema_json = context.requested_time, with_meta_fields(context.schema_json)
    deleted = pa.array(changes.deleted)
    blocks: list[Block] = []
    rows = changes.rows.filter(pc.invert(deleted))
    if rows.num_rows:
        full = add_meta_columns(context, rows, group.partition, index=index, first=1)
        plain = set_file_name(full, group.file_id).cast(with_meta_fields(context.schema))
        blocks.append(_data_block(context, plain, schema_json))
    keys = changes.keys.filter(deleted)
    if len(keys):
        ordering = _delete_ordering(changes, deleted)
        removed = deletes_of(keys, pa.repeat(group.partition, len(keys)), ordering)
        blocks.append(delete_block(removed, instant_time=time, schema_json=schema_json))
    return LogContent(encode_blocks(blocks), rows.num_rows, len(keys))


def _data_block(context: WriteContext, rows: pa.Table, schema_json: str) -> Block:
    config, time = context.ref.config, context.requested_time
    if config.get(LOG_BLOCK_FORMAT) is LogBlockFormat.AVRO:
        return avro_block(rows, instant_time=time, schema_json=schema_json)
    codec = config.get(CODEC).value
    return parquet_block(
        rows,
        instant_time=time,
        schema_json=schema_json,
        compression="none" if codec == "uncompressed" else codec,
    )


def _delete_ordering(changes: Changes, deleted: pa.Array) -> pa.Array:
    """Deletes that carry an ordering value compete by it; all others win at once."""
    values = [column.filter(deleted) for column in changes.ordering]
    absolute = changes.absolute[changes.deleted]
    if len(values) != 1 or absolute.all():
        return always_wins(len(absolute))
    return wrap(values[0])
