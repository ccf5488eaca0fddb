"""Reading a slice that has log files: which blocks count, and merging them with the base file.

`merge_logs` merges the logs of a slice among themselves, without the base file.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.errors import CorruptBlock, FormatError, UnsupportedFeature, add_error_source
from hoodoo.format.log.blocks import Block, BlockType, HeaderKey
from hoodoo.format.log.data import decode_data
from hoodoo.format.log.deletes import decode_deletes, deletes_of
from hoodoo.format.log.ordering import always_wins, is_special, kinds_in, values_of
from hoodoo.format.log.reader import read_blocks
from hoodoo.format.log.scan import scan_blocks
from hoodoo.format.parquet.base_file import OpenParquet, read_rows
from hoodoo.model.files import LogFile
from hoodoo.model.instant import InstantTime
from hoodoo.read.base_files import (
    ReadRule,
    SliceReadTask,
    fit_to_schema,
    matching_groups,
    open_base,
    read_base,
    read_base_pieces,
)
from hoodoo.rows import arrays, merge
from hoodoo.rows.merge import Changes

log = logging.getLogger("hoodoo.read")


# -- merging with the base file -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BlockChanges:
    """The changes of one block; `partial` rows hold only the columns that changed."""

    changes: Changes
    partial: pa.Table | None = None


def read_merged_rows(task: SliceReadTask) -> pa.Table:
    """Rows of a slice with logs, in the columns that the rule needs."""
    schema = task.rule.columns_to_read(merging=True)
    return pa.concat_tables([*read_merged_pieces(task, schema, whole=True), schema.empty_table()])


def read_merged_pieces(
    task: SliceReadTask, columns: pa.Schema, *, whole: bool = False
) -> Iterator[pa.Table]:
    """Rows of a slice with logs in these `columns`, piece by piece.

    The columns that decide are read first and as a whole: they tell which rows of the base file
    stay. Of its other columns only the row groups that may match the filter are read then.
    """
    rule = task.rule
    if not rule.merge.is_ours:
        raise UnsupportedFeature(
            f"file group {task.slice.group} has log files, and the table merges records by a Java "
            "class of its own, or partially (hoodie.record.merge.mode=CUSTOM, "
            "hoodie.table.partial.update.mode)"
        )
    schema = rule.columns_to_read(merging=True)
    batches = list(_read_batches(task, schema))
    if any(batch.partial is not None for batch in batches):
        base = schema.empty_table()
        if task.slice.base is not None:
            base = read_base(task.env, task.slice.base, schema)
        yield apply_changes(base, _complete_partial_rows(base, batches, rule), rule).select(
            columns.names
        )
        return
    changes = [batch.changes for batch in batches] or [_no_changes(schema, rule)]
    merger = merge.Merger(merge.collapse(changes))
    if task.slice.base is not None:
        with open_base(task.env, task.slice.base) as file:
            yield from _surviving_pieces(task, file, merger, columns, whole=whole)
    yield merger.rest().select(columns.names)


def _surviving_pieces(
    task: SliceReadTask, file: OpenParquet, merger: merge.Merger, columns: pa.Schema, *, whole: bool
) -> Iterator[pa.Table]:
    """The rows of a base file that no change replaces or deletes."""
    rule, base = task.rule, task.slice.base
    assert base is not None
    deciding = rule.deciding_columns()
    heads = fit_to_schema(read_rows(file, deciding.names), deciding)
    stays = merger.stays(heads, rule.keys_of(heads), rule.merge)
    others = pa.schema([field for field in columns if field.name not in deciding.names])
    if not len(others):
        yield heads.filter(pa.array(stays)).select(columns.names)
        return
    groups = matching_groups(file, rule, columns)
    for first, rows in read_base_pieces(file, base, others, groups=groups, whole=whole):
        count = rows.num_rows
        mask = stays[first : first + count]
        if len(mask) < count:
            raise FormatError("a Parquet file whose columns differ in length")
        for place, field in enumerate(columns):
            if field.name in deciding.names:
                rows = rows.add_column(place, field, heads.column(field.name).slice(first, count))
        yield rows if mask.all() else rows.filter(pa.array(mask))


def _no_changes(schema: pa.Schema, rule: ReadRule) -> Changes:
    return merge.upserts(schema.empty_table(), pa.chunked_array([], pa.string()), rule.merge)


def apply_changes(base: pa.Table, changes: Sequence[Changes], rule: ReadRule) -> pa.Table:
    """Base rows with changes merged into them."""
    if not changes:
        return base
    merger = merge.Merger(merge.collapse(changes))
    surviving = merger.keep(base, rule.keys_of(base), rule.merge)
    return pa.concat_tables([surviving, merger.rest()])


def _complete_partial_rows(
    base: pa.Table, batches: Sequence[BlockChanges], rule: ReadRule
) -> list[Changes]:
    """The changes of all blocks; partial rows with the columns of the version before them.

    That is the version of the logs, unless they have none or delete it; then that of the base
    file. So the logs are merged among themselves before they meet the base rows, as always.
    """
    base_keys = arrays.one_array(rule.keys_of(base))
    complete_changes: list[Changes] = []
    for batch in batches:
        changes = batch.changes
        if batch.partial is not None:
            older, keys = base, base_keys
            if complete_changes:
                winners = merge.collapse(complete_changes)
                is_written = pa.array(~winners.is_delete)
                older = pa.concat_tables([winners.rows.filter(is_written), base])
                keys = pa.concat_arrays([winners.keys.filter(is_written), base_keys])
            full = merge.complete(batch.partial, changes.keys, older, keys)
            changes = merge.upserts(full, changes.keys, rule.merge)
        complete_changes.append(changes)
    return complete_changes


def read_log_blocks(task: SliceReadTask) -> Iterator[tuple[str, Block]]:
    """The blocks of a slice's log files that count, in order, each with its file.

    Where writers append, a crash leaves half a block, which was never committed and is passed
    over; where a commit writes whole files, damage means lost rows, and is an error. There, too,
    files that a log compaction has merged are not read: the newest come first, so that it tells.
    """
    blocks: list[tuple[str, Block]] = []
    compacted_times: set[InstantTime] = set()
    for file in reversed(task.slice.logs):
        if file.name.instant_time in compacted_times and not task.rule.tolerates_cut_logs:
            file_blocks: Sequence[Block] = [_stand_in(file)]
        else:
            file_blocks = _read_file(task, file)
            if file_blocks and task.visibility.sees(file_blocks[0].instant_time):
                compacted_times.update(file_blocks[0].compacted_times)
        blocks += [(file.path, block) for block in reversed(file_blocks)]
    blocks.reverse()
    paths = {id(block): path for path, block in blocks}
    with add_error_source(task.slice.logs[0].path):
        live = scan_blocks([block for _, block in blocks], is_visible=task.visibility.sees)
    for block in live.blocks:
        yield paths[id(block)], block


def _read_file(task: SliceReadTask, file: LogFile) -> Sequence[Block]:
    with add_error_source(file.path):
        file_blocks = read_blocks(task.env.storage.read(file.path))
    if not file_blocks.blocks and not file_blocks.corrupt and not task.rule.tolerates_cut_logs:
        raise CorruptBlock("the file is empty", offset=0, source=file.path)
    for gap in file_blocks.corrupt:
        if not task.rule.tolerates_cut_logs:
            raise CorruptBlock(gap.reason, offset=gap.offset, source=file.path)
        log.warning("corrupt_log_range file=%s at=%d %s", file.path, gap.offset, gap.reason)
    return file_blocks.blocks


def _stand_in(file: LogFile) -> Block:
    """For a file that need not be read: what compacted it comes in its place."""
    return Block(BlockType.DELETE, {HeaderKey.INSTANT_TIME: file.name.instant_time})


def find_deleted_keys(task: SliceReadTask) -> pa.Array:
    """Keys that a slice's logs delete; some may have come back since."""
    key_arrays = [pa.array([], pa.string())]
    rule = replace(task.rule, columns=(), filter=None)
    for path, block in read_log_blocks(task):
        with add_error_source(path):
            if block.type is BlockType.DELETE:
                key_arrays.append(arrays.one_array(decode_deletes(block).column("record_key")))
            else:
                changes = read_upserts(block, rule.columns_to_read(merging=True), rule).changes
                key_arrays.append(changes.keys.filter(pa.array(changes.is_delete)))
    return pc.unique(pa.concat_arrays(key_arrays))


def _read_batches(task: SliceReadTask, schema: pa.Schema) -> Iterator[BlockChanges]:
    for path, block in read_log_blocks(task):
        with add_error_source(path):
            if block.type is BlockType.DELETE:
                yield BlockChanges(order_deletes(decode_deletes(block), schema, task.rule))
            else:
                yield read_upserts(block, schema, task.rule)


def read_upserts(block: Block, schema: pa.Schema, rule: ReadRule) -> BlockChanges:
    """The rows of a data block in the columns of `schema`."""
    rows = decode_data(block, columns=schema.names)
    if not block.is_partial:
        rows = fit_to_schema(rows, schema)
        return BlockChanges(merge.upserts(rows, rule.keys_of(rows), rule.merge))
    present = pa.schema([field for field in schema if field.name in rows.column_names])
    rows = fit_to_schema(rows, present)
    keys = rule.keys_of(rows)
    changes = merge.upserts(fit_to_schema(rows, schema), keys, rule.merge)
    return BlockChanges(changes, rows)


def order_deletes(rows: pa.Table, schema: pa.Schema, rule: ReadRule) -> Changes:
    """Deletes of a block as changes: what they win over, and what they lose against."""
    keys, ordering = rows.column("record_key"), rows.column("ordering")
    fields = rule.merge.ordering_fields
    kinds = kinds_in(ordering)
    if not rule.merge.by_event_time or not kinds:
        return merge.deletes(keys, schema, rule.merge)
    if len(fields) > 1 or len(kinds) > 1:
        raise UnsupportedFeature("deletes with several ordering values, or values of several kinds")
    values = values_of(ordering, next(iter(kinds)))
    special = is_special(ordering)
    try:
        return merge.deletes(keys, schema, rule.merge, [_mask_special(values, special)])
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise FormatError(
            f"deletes are ordered by {values.type}, which is not the type of {fields[0]}"
        ) from None


def _mask_special(values: pa.Array, special: pa.BooleanArray) -> pa.Array:
    return pc.if_else(special, pa.scalar(None, values.type), values)


# -- merging logs alone -------------------------------------------------------------------------


_NO_KEYS = pa.array([], pa.string())
_NO_DELETES = deletes_of(_NO_KEYS, _NO_KEYS, always_wins(0))


@dataclass(frozen=True, slots=True)
class LogChanges:
    """The last word of the logs on each key: a row or a delete, as it is in its block.

    Rows keep their meta columns, and those that flag themselves as deleted are rows as well.
    """

    rows: pa.Table
    deletes: pa.Table
    times: tuple[InstantTime, ...]
    """The instants whose blocks were merged, in order."""


def merge_logs(task: SliceReadTask) -> LogChanges | None:
    """The changes of a slice's logs; None if that takes the base file: rows may be partial."""
    schema = task.rule.columns_to_read(merging=True)
    rows, deletes = [schema.empty_table()], [_NO_DELETES]
    batches: list[Changes] = []
    times: dict[InstantTime, None] = {}
    row_count = delete_count = 0
    for path, block in read_log_blocks(task):
        times.setdefault(block.instant_time)
        with add_error_source(path):
            if block.type is BlockType.DELETE:
                deletes.append(decode_deletes(block))
                changes = order_deletes(deletes[-1], schema, task.rule)
                places = -1 - np.arange(delete_count, delete_count + changes.num_rows)
                delete_count += changes.num_rows
            else:
                if block.is_partial:
                    return None
                changes = read_upserts(block, schema, task.rule).changes
                rows.append(changes.rows)
                places = np.arange(row_count, row_count + changes.num_rows)
                row_count += changes.num_rows
        batches.append(replace(changes, rows=pa.table({"place": places})))
    last = _find_last(batches)
    return LogChanges(
        pa.concat_tables(rows).take(pa.array(last[last >= 0])),
        pa.concat_tables(deletes).take(pa.array(-1 - last[last < 0])),
        tuple(times),
    )


def find_logged_keys(task: SliceReadTask) -> pa.Array:
    """The keys that the logs of a slice say anything about."""
    keys = [_NO_KEYS]
    rule = replace(task.rule, columns=(), filter=None)
    for path, block in read_log_blocks(task):
        with add_error_source(path):
            if block.type is BlockType.DELETE:
                keys.append(arrays.one_array(decode_deletes(block).column("record_key")))
            else:
                schema = rule.columns_to_read(merging=True)
                keys.append(read_upserts(block, schema, rule).changes.keys)
    return pc.unique(pa.concat_arrays(keys))


def _find_last(batches: list[Changes]) -> arrays.Numbers:
    """Where the last word on each key is: rows from 0 up, deletes from -1 down."""
    if not batches:
        return np.empty(0, np.int64)
    places: arrays.Numbers = merge.collapse(batches).rows["place"].to_numpy()
    return places
