"""The rows of a file group once changes are merged into them, piece by piece.

A row group of the base file that was there stays a row group where that can be: new rows are put
in the places of old ones, and columns in which nothing changed are copied as bytes. Others are read
and written with the new rows, so that no file ends up with many small row groups. Memory holds the
changes, the keys of some row groups, and a piece of their rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa

from hoodoo.errors import FormatError
from hoodoo.format.parquet.base_file import (
    OpenParquet,
    can_copy_to,
    read_column,
    read_known_keys,
    read_rows,
)
from hoodoo.format.parquet.key_summary import CopiedKeySummary
from hoodoo.format.schema import PARTITION_PATH, RECORD_KEY
from hoodoo.read.base_files import SliceReadTask, fit_to_schema, open_base, read_base_pieces
from hoodoo.read.log_files import read_merged_pieces
from hoodoo.rows import arrays, merge
from hoodoo.rows.arrays import Numbers, combine_pieces
from hoodoo.rows.merge import Changes, Merger
from hoodoo.write.files.base_files import CopiedGroup
from hoodoo.write.files.context import WriteContext
from hoodoo.write.files.meta_columns import (
    SAME_FOR_ALL,
    add_meta_columns,
    stored_schema,
    to_stored_columns,
)

_KEYS_AT_ONCE = 1_000_000
_BYTES_AT_ONCE = 128 << 20
_NEVER_CHANGE = (RECORD_KEY, PARTITION_PATH)
_NONE: Numbers = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class _Matched:
    """Rows of a row group that changes replace or delete, in order, and the change of each.

    `in_place`: each can be replaced where it is.
    """

    rows: Numbers
    changes: Numbers
    in_place: bool = True


@dataclass
class SliceMerger:
    """Rows of a slice with changes merged into them, or added to them; and what came of it.

    `keys` are those that the rows have, from the first of them on, if they are those of the base
    file that was there: to summarise them again would take a tenth of the time.
    """

    context: WriteContext
    previous: SliceReadTask
    changes: Changes
    by_key: bool
    insert_count: int = 0
    update_count: int = 0
    delete_count: int = 0
    keys: CopiedKeySummary | None = None

    def pieces(self, *, index: int) -> Iterator[pa.Table | CopiedGroup]:
        """The rows so far, changed where they are, and then those that are left to add.

        `index` is that of the handle.
        """
        winners = merge.collapse([self.changes]) if self.by_key else self.changes
        merger = Merger(winners)
        partition = self.previous.slice.group.partition
        new = add_meta_columns(self.context, winners.rows, partition, index=index, first=0)
        if self.previous.slice.logs:
            yield from self._merged_pieces(merger)
        else:
            base = self.previous.slice.base
            assert base is not None
            with open_base(self.previous.env, base) as file:
                yield from self._base_pieces(file, merger, new)
        counts = merger.counts()
        self.insert_count, self.update_count = counts["inserted"], counts["updated"]
        self.delete_count = counts["deleted"]
        pending = merger.pending()
        yield new if pending.all() else new.filter(pa.array(pending))

    def _merged_pieces(self, merger: Merger) -> Iterator[pa.Table]:
        """The rows of base file and logs that no change replaces or deletes."""
        rule = self.context.read_rule
        pieces = read_merged_pieces(self.previous, self._read_schema())
        if not self.by_key:
            yield from map(self._to_stored_columns, pieces)
            return
        for rows in combine_pieces(pieces, _BYTES_AT_ONCE):
            yield self._to_stored_columns(merger.keep(rows, rule.keys_of(rows), rule.merge))

    def _base_pieces(
        self, file: OpenParquet, merger: Merger, new: pa.Table
    ) -> Iterator[pa.Table | CopiedGroup]:
        """The row groups of a base file: keys decide before the rest is read."""
        count = file.metadata.num_row_groups
        group_matches = [_Matched(_NONE, _NONE)] * count
        if self.by_key:
            group_matches = [
                one for groups in _spans(file) for one in self._match(file, groups, merger)
            ]
        group_matches = _without_repetitions(group_matches)
        if self.by_key and merger.keeps_keys():
            self.keys = read_known_keys(file.metadata, self.context.parquet_options().bloom)
        copies = can_copy_to(file, stored_schema(self.context.schema))
        for group, mine in enumerate(group_matches):
            if copies and mine.in_place and self._keeps_group(file, group, mine, merger):
                merger.place(mine.changes)
                yield CopiedGroup(file, group, partial(self._change, file, group, mine, new))
            else:
                yield from self._rewritten(file, group, mine)

    def _match(self, file: OpenParquet, groups: list[int], merger: Merger) -> Iterator[_Matched]:
        """What becomes of the rows of some row groups."""
        rule = self.context.read_rule
        deciding = rule.deciding_columns()
        heads = fit_to_schema(read_rows(file, deciding.names, groups), deciding)
        ends = np.cumsum([file.metadata.row_group(group).num_rows for group in groups])
        if heads.num_rows != ends[-1]:
            raise FormatError("a Parquet file whose columns differ in length")
        rows, changes = merger.match(heads, rule.keys_of(heads), rule.merge)
        bounds = np.searchsorted(rows, [0, *ends])
        for begin, first, end in zip([0, *ends], bounds, bounds[1:], strict=False):
            mine = changes[first:end]
            yield _Matched(rows[first:end] - begin, mine, not merger.deletes(mine))

    def _keeps_group(
        self, file: OpenParquet, group: int, matches: _Matched, merger: Merger
    ) -> bool:
        """Whether a row group is to stay one: it is large, or there are no rows to add to it.

        A column that changes is in memory as a whole.
        """
        _, chunks = file.chunks.row_groups[group]
        largest = max((chunk.unpacked_bytes for chunk in chunks), default=0)
        if len(matches.rows) and largest > _BYTES_AT_ONCE:
            return False
        full = self.context.parquet_options().row_group_bytes
        return merger.keeps_keys() or 2 * _size(file, group) >= full

    def _change(
        self, file: OpenParquet, group: int, matches: _Matched, new: pa.Table, name: str
    ) -> pa.ChunkedArray | None:
        """What a column of a row group becomes; None if it stays."""
        if not len(matches.rows) or name in _NEVER_CHANGE:
            return None
        schema, at = pa.schema([self.context.read_rule.schema.field(name)]), pa.array(matches.rows)
        old, type_ = read_column(file, name, group), schema.field(0).type
        if not pa.types.is_dictionary(old.type):
            old = fit_to_schema(pa.table([old], [name]), schema).column(0)
        values = arrays.one_array(new.column(name)).take(pa.array(matches.changes)).cast(type_)
        if old.take(at).cast(type_).equals(pa.chunked_array([values])):
            return None
        return arrays.put(old, matches.rows, values)

    def _rewritten(self, file: OpenParquet, group: int, matches: _Matched) -> Iterator[pa.Table]:
        """The rows of a row group that no change replaces or deletes."""
        base = self.previous.slice.base
        assert base is not None
        fits, schema = _size(file, group) <= _BYTES_AT_ONCE, self._read_schema()
        stays = np.ones(file.metadata.row_group(group).num_rows, bool)
        stays[matches.rows] = False
        at = 0
        for _, piece in read_base_pieces(file, base, schema, groups=[group], whole=fits):
            mask = stays[at : at + piece.num_rows]
            at += piece.num_rows
            rows = self._to_stored_columns(piece)
            yield rows if mask.all() else rows.filter(pa.array(mask))

    def _read_schema(self) -> pa.Schema:
        return pa.schema([f for f in self.context.read_rule.schema if f.name not in SAME_FOR_ALL])

    def _to_stored_columns(self, rows: pa.Table) -> pa.Table:
        return to_stored_columns(self.context.schema, rows, self.previous.slice.group.partition)


def rows_to_add(changes: Changes) -> pa.Table:
    """The rows of changes that are no deletes."""
    if not changes.is_delete.any():
        return changes.rows
    return changes.rows.filter(pa.array(~changes.is_delete))


def _size(file: OpenParquet, group: int) -> int:
    """Bytes of a row group, not compressed."""
    return int(file.metadata.row_group(group).total_byte_size)


def _without_repetitions(group_matches: list[_Matched]) -> list[_Matched]:
    """The same, but of rows that have one key only the first is replaced where it is."""
    changes = np.concatenate([_NONE, *(one.changes for one in group_matches)])
    if len(np.unique(changes)) == len(changes):
        return group_matches
    is_repetition = np.ones(len(changes), bool)
    is_repetition[np.unique(changes, return_index=True)[1]] = False
    starts = np.cumsum([len(one.changes) for one in group_matches])[:-1]
    shares = np.split(is_repetition, starts)
    return [
        replace(one, in_place=one.in_place and not share.any())
        for one, share in zip(group_matches, shares, strict=True)
    ]


def _spans(file: OpenParquet) -> Iterator[list[int]]:
    """Row groups, some at a time if they are small."""
    groups: list[int] = []
    rows = 0
    for group in range(file.metadata.num_row_groups):
        groups.append(group)
        rows += file.metadata.row_group(group).num_rows
        if rows >= _KEYS_AT_ONCE:
            yield groups
            groups, rows = [], 0
    if groups:
        yield groups
