"""Reading a slice that has log files: which blocks count, and merging them with the base file."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.errors import CorruptBlock, FormatError, Unsupported, naming
from hoodoo.format.log.blocks import Block, BlockType, HeaderKey
from hoodoo.format.log.data import decode_data
from hoodoo.format.log.deletes import decode_deletes
from hoodoo.format.log.ordering import is_special, kinds_in, values_of
from hoodoo.format.log.reader import read_blocks
from hoodoo.format.log.scan import scan_blocks
from hoodoo.format.parquet import OpenParquet, read_rows
from hoodoo.model.files import LogFile
from hoodoo.model.instant import InstantTime
from hoodoo.rows import merge
from hoodoo.rows.merge import Changes
from hoodoo.table.read_rule import (
    ReadRule,
    SliceRead,
    fit_to_schema,
    matching_groups,
    open_base,
    read_base,
    read_base_pieces,
)

log = logging.getLogger("hoodoo.table")


@dataclass(frozen=True, slots=True)
class Batch:
    """The changes of one block; `partial` rows hold only the columns that changed."""

    changes: Changes
    partial: pa.Table | None = None


def read_merged_rows(task: SliceRead) -> pa.Table:
    """Rows of a slice with logs, in the columns that the rule needs."""
    schema = task.rule.columns_to_read(merging=True)
    return pa.concat_tables([*read_merged_pieces(task, schema, whole=True), schema.empty_table()])


def read_merged_pieces(
    task: SliceRead, columns: pa.Schema, *, whole: bool = False
) -> Iterator[pa.Table]:
    """Rows of a slice with logs in the columns `shown`, piece by piece.

    The columns that decide are read first and as a whole: they tell which rows of the base file
    stay. Of its other columns only the row groups that may match the filter are read then.
    """
    rule = task.rule
    if not rule.merge.is_ours:
        raise Unsupported(
            f"file group {task.slice.group} has log files, and the table merges records by a Java "
            "class of its own, or partially (hoodie.record.merge.mode=CUSTOM, "
            "hoodie.table.partial.update.mode)"
        )
    schema = rule.columns_to_read(merging=True)
    batches = list(_read_batches(task, schema))
    if any(batch.partial is not None for batch in batches):
        base = schema.empty_table()
        if task.slice.base is not None:
            base = read_base(task.env, task.slice.base, rule, schema)
        yield apply(base, _complete_partial_rows(base, batches, rule), rule).select(columns.names)
        return
    changes = [batch.changes for batch in batches] or [_no_changes(schema, rule)]
    merger = merge.Merger(merge.collapse(changes))
    if task.slice.base is not None:
        with open_base(task.env, task.slice.base) as file:
            yield from _surviving_pieces(task, file, merger, columns, whole=whole)
    yield merger.rest().select(columns.names)


def _surviving_pieces(
    task: SliceRead, file: OpenParquet, merger: merge.Merger, columns: pa.Schema, *, whole: bool
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


def apply(base: pa.Table, changes: Sequence[Changes], rule: ReadRule) -> pa.Table:
    """Base rows with changes merged into them."""
    if not changes:
        return base
    merger = merge.Merger(merge.collapse(changes))
    surviving = merger.keep(base, rule.keys_of(base), rule.merge)
    return pa.concat_tables([surviving, merger.rest()])


def _complete_partial_rows(
    base: pa.Table, batches: Sequence[Batch], rule: ReadRule
) -> list[Changes]:
    """The changes of all blocks; partial rows with the columns of the version before them.

    That is the version of the logs, unless they have none or delete it; then that of the base
    file. So the logs are merged among themselves before they meet the base rows, as always.
    """
    base_keys = merge.one_array(rule.keys_of(base))
    done: list[Changes] = []
    for batch in batches:
        changes = batch.changes
        if batch.partial is not None:
            older, keys = base, base_keys
            if done:
                winners = merge.collapse(done)
                is_written = pa.array(~winners.deleted)
                older = pa.concat_tables([winners.rows.filter(is_written), base])
                keys = pa.concat_arrays([winners.keys.filter(is_written), base_keys])
            full = merge.complete(batch.partial, changes.keys, older, keys)
            changes = merge.upserts(full, changes.keys, rule.merge)
        done.append(changes)
    return done


def read_log_blocks(task: SliceRead) -> Iterator[tuple[str, Block]]:
    """The blocks of a slice's log files that count, in order, each with its file.

    Where writers append, a crash leaves half a block, which was never committed and is passed
    over; where a commit writes whole files, damage means lost rows, and is an error. There, too,
    files that a log compaction has merged are not read: the newest come first, so that it tells.
    """
    blocks: list[tuple[str, Block]] = []
    compacted: set[InstantTime] = set()
    for file in reversed(task.slice.logs):
        if file.name.instant_time in compacted and not task.rule.tolerates_cut_logs:
            found: Sequence[Block] = [_stand_in(file)]
        else:
            found = _read_file(task, file)
            if found and task.visibility.sees(found[0].instant_time):
                compacted.update(found[0].compacted_times)
        blocks += [(file.path, block) for block in reversed(found)]
    blocks.reverse()
    paths = {id(block): path for path, block in blocks}
    with naming(task.slice.logs[0].path):
        live = scan_blocks([block for _, block in blocks], is_visible=task.visibility.sees)
    for block in live.blocks:
        yield paths[id(block)], block


def _read_file(task: SliceRead, file: LogFile) -> Sequence[Block]:
    with naming(file.path):
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


def find_deleted_keys(task: SliceRead) -> pa.Array:
    """Keys that a slice's logs delete; some may have come back since."""
    deleted = [pa.array([], pa.string())]
    rule = replace(task.rule, columns=(), filter=None)
    for path, block in read_log_blocks(task):
        with naming(path):
            if block.type is BlockType.DELETE:
                deleted.append(merge.one_array(decode_deletes(block).column("record_key")))
            else:
                changes = read_upserts(block, rule.columns_to_read(merging=True), rule).changes
                deleted.append(changes.keys.filter(pa.array(changes.deleted)))
    return pc.unique(pa.concat_arrays(deleted))


def _read_batches(task: SliceRead, schema: pa.Schema) -> Iterator[Batch]:
    for path, block in read_log_blocks(task):
        with naming(path):
            if block.type is BlockType.DELETE:
                yield Batch(order_deletes(decode_deletes(block), schema, task.rule))
            else:
                yield read_upserts(block, schema, task.rule)


def read_upserts(block: Block, schema: pa.Schema, rule: ReadRule) -> Batch:
    """The rows of a data block in the columns of `schema`."""
    rows = decode_data(block, columns=schema.names)
    if not block.is_partial:
        rows = fit_to_schema(rows, schema)
        return Batch(merge.upserts(rows, rule.keys_of(rows), rule.merge))
    present = pa.schema([field for field in schema if field.name in rows.column_names])
    rows = fit_to_schema(rows, present)
    keys = rule.keys_of(rows)
    changes = merge.upserts(fit_to_schema(rows, schema), keys, rule.merge)
    return Batch(changes, rows)


def order_deletes(rows: pa.Table, schema: pa.Schema, rule: ReadRule) -> Changes:
    """Deletes of a block as changes: what they win over, and what they lose against."""
    keys, ordering = rows.column("record_key"), rows.column("ordering")
    fields = rule.merge.ordering_fields
    kinds = kinds_in(ordering)
    if not rule.merge.by_event_time or not kinds:
        return merge.deletes(keys, schema, rule.merge)
    if len(fields) > 1 or len(kinds) > 1:
        raise Unsupported("deletes with several ordering values, or values of several kinds")
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
