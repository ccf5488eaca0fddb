"""What the logs of a slice say, merged among themselves: without the base file."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.errors import naming
from hoodoo.format.log.blocks import BlockType
from hoodoo.format.log.deletes import decode_deletes, deletes_of
from hoodoo.format.log.ordering import always_wins
from hoodoo.model.instant import InstantTime
from hoodoo.rows import merge
from hoodoo.rows.merge import Changes
from hoodoo.table.merged import order_deletes, read_log_blocks, read_upserts
from hoodoo.table.read_rule import SliceRead

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


def merge_logs(task: SliceRead) -> LogChanges | None:
    """The changes of a slice's logs; None if that takes the base file: rows may be partial."""
    schema = task.rule.columns_to_read(merging=True)
    rows, deletes = [schema.empty_table()], [_NO_DELETES]
    batches: list[Changes] = []
    times: dict[InstantTime, None] = {}
    written = deleted = 0
    for path, block in read_log_blocks(task):
        times.setdefault(block.instant_time)
        with naming(path):
            if block.type is BlockType.DELETE:
                deletes.append(decode_deletes(block))
                changes = order_deletes(deletes[-1], schema, task.rule)
                places = -1 - np.arange(deleted, deleted + changes.num_rows)
                deleted += changes.num_rows
            else:
                if block.is_partial:
                    return None
                changes = read_upserts(block, schema, task.rule).changes
                rows.append(changes.rows)
                places = np.arange(written, written + changes.num_rows)
                written += changes.num_rows
        batches.append(replace(changes, rows=pa.table({"place": places})))
    last = _find_last(batches)
    return LogChanges(
        pa.concat_tables(rows).take(pa.array(last[last >= 0])),
        pa.concat_tables(deletes).take(pa.array(-1 - last[last < 0])),
        tuple(times),
    )


def find_logged_keys(task: SliceRead) -> pa.Array:
    """The keys that the logs of a slice say anything about."""
    keys = [_NO_KEYS]
    rule = replace(task.rule, columns=(), filter=None)
    for path, block in read_log_blocks(task):
        with naming(path):
            if block.type is BlockType.DELETE:
                keys.append(merge.one_array(decode_deletes(block).column("record_key")))
            else:
                schema = rule.columns_to_read(merging=True)
                keys.append(read_upserts(block, schema, rule).changes.keys)
    return pc.unique(pa.concat_arrays(keys))


def _find_last(batches: list[Changes]) -> merge.Numbers:
    """Where the last word on each key is: rows from 0 up, deletes from -1 down."""
    if not batches:
        return np.empty(0, np.int64)
    places: merge.Numbers = merge.collapse(batches).rows["place"].to_numpy()
    return places
