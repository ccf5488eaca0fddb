"""Merging versions of records, vectorised: logs among themselves, then against base rows.

Under commit-time ordering the later version wins. Under event-time ordering the larger ordering
value wins, the later one on a tie; a delete without an ordering value (null, or Integer 0) wins
over what came before it and loses against whatever comes after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.errors import ConfigError
from hoodoo.format.schema import OPERATION
from hoodoo.model.merge import MergeRule
from hoodoo.rows.arrays import Flags, Numbers, are_greater, dense_ranks, one_array, to_flags
from hoodoo.rows.keys import field_type, field_values, has_fields

IS_DELETED = "_hoodie_is_deleted"


@dataclass(frozen=True, slots=True)
class Changes:
    """A batch of changes, in order: rows to write, or, where `is_delete` is true, keys to delete.

    `ordering` holds one column per ordering field (none: commit-time ordering).
    `absolute` marks deletes that win whatever the ordering of the row is.
    """

    keys: pa.Array
    ordering: tuple[pa.Array, ...]
    is_delete: Flags
    absolute: Flags
    rows: pa.Table

    @property
    def num_rows(self) -> int:
        return len(self.keys)


def ordering_columns(rows: pa.Table, rule: MergeRule) -> tuple[pa.Array, ...]:
    """The columns that decide under event-time ordering; none otherwise."""
    if not rule.by_event_time:
        return ()
    return tuple(one_array(field_values(rows, field)) for field in rule.ordering_fields)


def has_ordering(schema: pa.Schema, rule: MergeRule) -> bool:
    """Whether rows of this schema tell when they happened: deletes need not."""
    return rule.by_event_time and has_fields(schema, rule.ordering_fields)


def upserts(rows: pa.Table, keys: pa.ChunkedArray, rule: MergeRule) -> Changes:
    """Rows to write; those flagged as deleted in the data itself become deletes."""
    return Changes(
        one_array(keys),
        ordering_columns(rows, rule),
        _flag_deletes(rows, rule),
        np.zeros(rows.num_rows, bool),
        rows,
    )


def deletes(
    keys: pa.Array | pa.ChunkedArray,
    schema: pa.Schema,
    rule: MergeRule,
    ordering: Sequence[pa.Array | None] = (),
) -> Changes:
    """Keys to delete; without ordering values they win over anything earlier."""
    keys = one_array(keys)
    count = len(keys)
    columns: list[pa.Array] = []
    absolute = np.ones(count, bool)
    if rule.by_event_time:
        ordering_values = list(ordering) or [None] * len(rule.ordering_fields)
        for field, values in zip(rule.ordering_fields, ordering_values, strict=True):
            kind = field_type(schema, field)
            columns.append(pa.nulls(count, kind) if values is None else values.cast(kind))
        absolute = np.logical_and.reduce([to_flags(pc.is_null(column)) for column in columns])
    # Of the schema itself, required columns too, to go together with rows; nobody sees it.
    empty = pa.table([pa.nulls(count, field.type) for field in schema], schema=schema)
    return Changes(keys, tuple(columns), np.ones(count, bool), absolute, empty)


def flag_columns(rule: MergeRule) -> tuple[str, ...]:
    """The columns that say of a row that it is a delete, where a table has them."""
    flag = rule.delete_flag
    own = (flag.field, flag.field.split(".")[0]) if flag is not None else ()
    return (IS_DELETED, OPERATION, *own)


def refuse_unfit_flag(schema: pa.Schema, rule: MergeRule) -> None:
    """Fail if we cannot tell how Apache Hudi spells the values of the column that flags deletes."""
    flag = rule.delete_flag
    kind = field_type(schema, flag.field) if flag is not None else None
    if kind is None or pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return
    if not (pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
        assert flag is not None
        raise ConfigError(
            key="hoodie.payload.delete.field",
            value=flag.field,
            reason=f"a column of type {kind} cannot say which rows are deletes: that takes a "
            "text, a whole number or a boolean",
        )


def _flag_deletes(rows: pa.Table, rule: MergeRule) -> Flags:
    flags = np.zeros(rows.num_rows, bool)
    if IS_DELETED in rows.column_names and pa.types.is_boolean(rows[IS_DELETED].type):
        flags |= to_flags(pc.fill_null(rows[IS_DELETED], False))
    if OPERATION in rows.column_names:
        flags |= to_flags(pc.fill_null(pc.equal(rows[OPERATION], "D"), False))
    own = rule.delete_flag
    if own is not None and field_type(rows.schema, own.field) is not None:
        refuse_unfit_flag(rows.schema, rule)
        texts = field_values(rows, own.field).cast(pa.string())
        flags |= to_flags(pc.fill_null(pc.equal(texts, own.text), False))
    return flags


def collapse(batches: Sequence[Changes]) -> Changes:
    """One winner per key out of batches of changes in order."""
    changes = concatenate(batches)
    dictionary_array = one_array(changes.keys).dictionary_encode()
    codes = dictionary_array.indices.to_numpy()
    distinct = len(dictionary_array.dictionary)
    if distinct == len(codes):
        return changes
    order = _order(changes, codes)
    winner = np.zeros(distinct, np.int64)
    winner[codes[order]] = order  # of repeated targets numpy keeps the last
    return take(changes, np.sort(winner))


def _order(changes: Changes, codes: Numbers) -> Numbers:
    """Positions such that, of each key, the winner comes last."""
    positions = np.arange(len(codes), dtype=np.int64)
    if not changes.ordering:
        return positions
    ranks = dense_ranks(changes.ordering)
    # An absolute delete beats all before it, and loses against all after it: what stands before
    # the last one of its key is out, and the delete itself ranks lowest.
    reset = np.full(int(codes.max()) + 1, -1, np.int64)
    absolute = np.flatnonzero(changes.absolute)
    reset[codes[absolute]] = absolute
    ranks = np.where(changes.absolute, -1, ranks)
    ranks = np.where(positions < reset[codes], -2, ranks)
    return np.lexsort((positions, ranks))


def concatenate(batches: Sequence[Changes]) -> Changes:
    """Batches of changes as one, in order."""
    if len(batches) == 1:
        return batches[0]
    return Changes(
        pa.concat_arrays([batch.keys for batch in batches]),
        tuple(
            pa.concat_arrays(list(columns))
            for columns in zip(*(batch.ordering for batch in batches), strict=True)
        ),
        np.concatenate([batch.is_delete for batch in batches]),
        np.concatenate([batch.absolute for batch in batches]),
        pa.concat_tables([batch.rows for batch in batches]),
    )


def take(changes: Changes, positions: Numbers) -> Changes:
    """The changes at these positions."""
    indices = pa.array(positions)
    return Changes(
        changes.keys.take(indices),
        tuple(column.take(indices) for column in changes.ordering),
        changes.is_delete[positions],
        changes.absolute[positions],
        changes.rows.take(indices),
    )


class Merger:
    """Applies one winner per key to base rows, which may come in several pieces.

    `keep` gives the rows of a piece that stay; after the last piece, `rest` gives the rows that
    the changes put in their place or add. `match` tells what changes which row, for those that
    put new rows in the places of old ones themselves, and say so to `place`.
    """

    def __init__(self, winners: Changes) -> None:
        self._winners = winners
        self._lost = np.zeros(winners.num_rows, bool)
        self._matched = np.zeros(winners.num_rows, bool)
        self._placed = np.zeros(winners.num_rows, bool)

    def keep(self, rows: pa.Table, keys: pa.ChunkedArray, rule: MergeRule) -> pa.Table:
        """The base rows that no change replaces or deletes."""
        stays = self.stays(rows, keys, rule)
        return rows if stays.all() else rows.filter(pa.array(stays))

    def stays(self, rows: pa.Table, keys: pa.ChunkedArray, rule: MergeRule) -> Flags:
        """Which base rows no change replaces or deletes; `rows` has the ordering columns."""
        stays = np.ones(rows.num_rows, bool)
        stays[self.match(rows, keys, rule)[0]] = False
        return stays

    def match(
        self, rows: pa.Table, keys: pa.ChunkedArray, rule: MergeRule
    ) -> tuple[Numbers, Numbers]:
        """The base rows that changes replace or delete, in order, and the change of each."""
        winners = self._winners
        winner_positions = one_array(pc.index_in(one_array(keys), value_set=winners.keys))
        hit = np.flatnonzero(to_flags(pc.is_valid(winner_positions)))
        target = winner_positions.drop_null().to_numpy().astype(np.int64)
        if len(hit) == 0:
            return hit, target
        self._matched[target] = True
        if winners.ordering:
            older = [c.take(pa.array(hit)) for c in ordering_columns(rows, rule)]
            newer = [column.take(pa.array(target)) for column in winners.ordering]
            base_wins = are_greater(older, newer) & ~winners.absolute[target]
            self._lost[target[base_wins]] = True
            hit, target = hit[~base_wins], target[~base_wins]
        return hit, target

    def deletes(self, changes: Numbers) -> bool:
        """Whether any of these changes is a delete."""
        return bool(self._winners.is_delete[changes].any())

    def place(self, changes: Numbers) -> None:
        """Take note that these changes were put in the places of their base rows."""
        self._placed[changes] = True

    def rest(self) -> pa.Table:
        """Rows of the changes that won, or met no base row, but for those that were placed."""
        return self._winners.rows.filter(pa.array(self.pending()))

    def pending(self) -> Flags:
        """Which changes are in `rest`."""
        return ~self._lost & ~self._winners.is_delete & ~self._placed

    def keeps_keys(self) -> bool:
        """Whether there are the same keys as before: none is new, and none goes."""
        counts = self.counts()
        return counts["inserted"] == counts["deleted"] == 0

    def counts(self) -> dict[str, int]:
        """How many base rows were updated and deleted, and how many rows are new."""
        won, is_delete = ~self._lost, self._winners.is_delete
        return {
            "updated": int(np.sum(self._matched & won & ~is_delete)),
            "deleted": int(np.sum(self._matched & won & is_delete)),
            "inserted": int(np.sum(~self._matched & ~is_delete)),
        }


def complete(partial: pa.Table, keys: pa.Array, older: pa.Table, older_keys: pa.Array) -> pa.Table:
    """Rows of a partial update, with the columns that they lack taken from the older version.

    Of a key that is in `older_keys` twice, the first row counts.
    """
    position = one_array(pc.index_in(keys, value_set=older_keys))
    columns: dict[str, Any] = {}
    for name in older.column_names:
        if name in partial.column_names:
            columns[name] = partial.column(name)
        else:
            columns[name] = older.column(name).take(position)
    return pa.table(columns, schema=older.schema)
