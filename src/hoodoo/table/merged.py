"""Reading a slice that has log files: which blocks count, and merging them with the base file."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.errors import CorruptBlock, FormatError, Unsupported, naming
from hoodoo.format.log.blocks import Block, BlockType
from hoodoo.format.log.data import decode_data
from hoodoo.format.log.deletes import decode_deletes
from hoodoo.format.log.ordering import is_special, kinds_in, values_of
from hoodoo.format.log.reader import read_blocks
from hoodoo.format.log.scan import scan_blocks
from hoodoo.format.parquet import OpenParquet, read_rows
from hoodoo.rows import merge
from hoodoo.rows.merge import Changes
from hoodoo.table.read_rule import (
    ReadRule,
    SliceRead,
    base_pieces,
    fitted,
    matching_groups,
    open_base,
    read_base,
)

log = logging.getLogger("hoodoo.table")


@dataclass(frozen=True, slots=True)
class _Batch:
    """The changes of one block; `partial` rows hold only the columns that changed."""

    changes: Changes
    partial: pa.Table | None = None


def merged_rows(task: SliceRead) -> pa.Table:
    """Rows of a slice with logs, in the columns that the rule needs."""
    wanted = task.rule.needed(merging=True)
    return pa.concat_tables([*merged_pieces(task, wanted, whole=True), wanted.empty_table()])


def merged_pieces(task: SliceRead, shown: pa.Schema, *, whole: bool = False) -> Iterator[pa.Table]:
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
    wanted = rule.needed(merging=True)
    batches = list(_batches(task, wanted))
    if any(batch.partial is not None for batch in batches):
        base = wanted.empty_table()
        if task.slice.base is not None:
            base = read_base(task.env, task.slice.base, rule, wanted)
        yield apply(base, _completed(base, batches, rule), rule).select(shown.names)
        return
    changes = [batch.changes for batch in batches] or [_no_changes(wanted, rule)]
    merger = merge.Merger(merge.collapse(changes))
    if task.slice.base is not None:
        with open_base(task.env, task.slice.base) as file:
            yield from _staying(task, file, merger, shown, whole=whole)
    yield merger.rest().select(shown.names)


def _staying(
    task: SliceRead, file: OpenParquet, merger: merge.Merger, shown: pa.Schema, *, whole: bool
) -> Iterator[pa.Table]:
    """The rows of a base file that no change replaces or deletes."""
    rule, base = task.rule, task.slice.base
    assert base is not None
    deciding = rule.deciding()
    heads = fitted(read_rows(file, deciding.names), deciding)
    stays = merger.stays(heads, rule.keys_of(heads), rule.merge)
    others = pa.schema([field for field in shown if field.name not in deciding.names])
    if not len(others):
        yield heads.filter(pa.array(stays)).select(shown.names)
        return
    groups = matching_groups(file, rule, shown)
    for first, rows in base_pieces(file, base, others, groups=groups, whole=whole):
        count = rows.num_rows
        mask = stays[first : first + count]
        if len(mask) < count:
            raise FormatError("a Parquet file whose columns differ in length")
        for place, field in enumerate(shown):
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
    kept = merger.keep(base, rule.keys_of(base), rule.merge)
    return pa.concat_tables([kept, merger.rest()])


def _completed(base: pa.Table, batches: Sequence[_Batch], rule: ReadRule) -> list[Changes]:
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
                written = pa.array(~winners.deleted)
                older = pa.concat_tables([winners.rows.filter(written), base])
                keys = pa.concat_arrays([winners.keys.filter(written), base_keys])
            full = merge.complete(batch.partial, changes.keys, older, keys)
            changes = merge.upserts(full, changes.keys, rule.merge)
        done.append(changes)
    return done


def log_blocks(task: SliceRead) -> Iterator[tuple[str, Block]]:
    """The blocks of a slice's log files that count, in order, each with its file.

    Where writers append, a crash leaves half a block, which was never committed and is passed
    over; where a commit writes whole files, damage means lost rows, and is an error.
    """
    paths: dict[int, str] = {}
    blocks: list[Block] = []
    for file in task.slice.logs:
        with naming(file.path):
            found = read_blocks(task.env.storage.read(file.path))
        if not found.blocks and not found.corrupt and not task.rule.tolerates_cut_logs:
            raise CorruptBlock("the file is empty", offset=0, source=file.path)
        for gap in found.corrupt:
            if not task.rule.tolerates_cut_logs:
                raise CorruptBlock(gap.reason, offset=gap.offset, source=file.path)
            log.warning("corrupt_log_range file=%s at=%d %s", file.path, gap.offset, gap.reason)
        paths.update((id(block), file.path) for block in found.blocks)
        blocks.extend(found.blocks)
    with naming(task.slice.logs[0].path):
        live = scan_blocks(blocks, is_visible=task.visibility.sees)
    for block in live.blocks:
        yield paths[id(block)], block


def deleted_keys(task: SliceRead) -> pa.Array:
    """Keys that a slice's logs delete; some may have come back since."""
    found = [pa.array([], pa.string())]
    rule = replace(task.rule, columns=(), filter=None)
    for path, block in log_blocks(task):
        with naming(path):
            if block.type is BlockType.DELETE:
                found.append(merge.one_array(decode_deletes(block).column("record_key")))
            else:
                changes = _upserts(block, rule.needed(merging=True), rule).changes
                found.append(changes.keys.filter(pa.array(changes.deleted)))
    return pc.unique(pa.concat_arrays(found))


def _batches(task: SliceRead, wanted: pa.Schema) -> Iterator[_Batch]:
    for path, block in log_blocks(task):
        with naming(path):
            if block.type is BlockType.DELETE:
                yield _Batch(_deletes(block, wanted, task.rule))
            else:
                yield _upserts(block, wanted, task.rule)


def _upserts(block: Block, wanted: pa.Schema, rule: ReadRule) -> _Batch:
    rows = decode_data(block, columns=wanted.names)
    if not block.is_partial:
        rows = fitted(rows, wanted)
        return _Batch(merge.upserts(rows, rule.keys_of(rows), rule.merge))
    present = pa.schema([field for field in wanted if field.name in rows.column_names])
    rows = fitted(rows, present)
    keys = rule.keys_of(rows)
    changes = merge.upserts(fitted(rows, wanted), keys, rule.merge)
    return _Batch(changes, rows)


def _deletes(block: Block, wanted: pa.Schema, rule: ReadRule) -> Changes:
    rows = decode_deletes(block)
    keys, ordering = rows.column("record_key"), rows.column("ordering")
    fields = rule.merge.ordering_fields
    kinds = kinds_in(ordering)
    if not rule.merge.by_event_time or not kinds:
        return merge.deletes(keys, wanted, rule.merge)
    if len(fields) > 1 or len(kinds) > 1:
        raise Unsupported("deletes with several ordering values, or values of several kinds")
    values = values_of(ordering, next(iter(kinds)))
    special = is_special(ordering)
    try:
        return merge.deletes(keys, wanted, rule.merge, [_masked(values, special)])
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise FormatError(
            f"deletes are ordered by {values.type}, which is not the type of {fields[0]}"
        ) from None


def _masked(values: pa.Array, special: pa.BooleanArray) -> pa.Array:
    return pc.if_else(special, pa.scalar(None, values.type), values)
