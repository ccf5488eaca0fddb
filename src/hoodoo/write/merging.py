"""The rows of a file group once changes are merged into them, piece by piece.

Memory holds the changes, the keys of some row groups, and a piece of their rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from hoodoo.format.key_summary import KnownKeys
from hoodoo.format.parquet import OpenParquet, read_known_keys, read_rows
from hoodoo.rows import merge
from hoodoo.rows.merge import Changes, Merger
from hoodoo.table.merged import read_merged_pieces
from hoodoo.table.read_rule import SliceRead, fit_to_schema, open_base, read_base_pieces
from hoodoo.write.context import WriteContext
from hoodoo.write.meta_columns import SAME_FOR_ALL, add_meta_columns, to_stored_columns

_KEYS_AT_ONCE = 1_000_000
_BYTES_AT_ONCE = 128 << 20


@dataclass
class Merging:
    """Rows of a slice with changes merged into them, or added to them; and what came of it.

    `keys` are those that the rows have, from the first of them on, if they are those of the base
    file that was there: to summarise them again would take a tenth of the time.
    """

    context: WriteContext
    previous: SliceRead
    changes: Changes
    by_key: bool
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    keys: KnownKeys | None = None

    def rows(self, *, index: int) -> Iterator[pa.Table]:
        """The rows that stay, then those that are new, on their way into a base file.

        `index` is that of the handle.
        """
        if not self.by_key:
            yield from map(self._to_stored_columns, self._pieces())
            new = rows_to_add(self.changes)
            self.inserted = new.num_rows
        else:
            merger = Merger(merge.collapse([self.changes]))
            yield from self._surviving_rows(merger)
            new = merger.rest()
            counts = merger.counts()
            self.inserted, self.updated = counts["inserted"], counts["updated"]
            self.deleted = counts["deleted"]
        partition = self.previous.slice.group.partition
        yield add_meta_columns(self.context, new, partition, index=index, first=0)

    def _surviving_rows(self, merger: Merger) -> Iterator[pa.Table]:
        """The rows so far that no change replaces or deletes."""
        rule, base = self.context.read_rule, self.previous.slice.base
        if self.previous.slice.logs:
            for rows in _combine_pieces(self._pieces()):
                yield self._to_stored_columns(merger.keep(rows, rule.keys_of(rows), rule.merge))
            return
        assert base is not None
        with open_base(self.previous.env, base) as file:
            for groups, start in _spans(file):
                yield from self._surviving_rows_in(file, groups, start, merger)

    def _surviving_rows_in(
        self, file: OpenParquet, groups: list[int], start: int, merger: Merger
    ) -> Iterator[pa.Table]:
        """The same, of some row groups of a base file: keys decide before the rest is read."""
        rule, base = self.context.read_rule, self.previous.slice.base
        assert base is not None
        deciding = rule.deciding_columns()
        heads = fit_to_schema(read_rows(file, deciding.names, groups), deciding)
        stays = merger.stays(heads, rule.keys_of(heads), rule.merge)
        if len(groups) == file.metadata.num_row_groups and merger.keeps_keys():
            self.keys = read_known_keys(file.metadata, self.context.parquet_options().bloom)
        others = pa.schema([f for f in self._read_schema() if f.name not in deciding.names])
        fits = all(_size(file, group) <= _BYTES_AT_ONCE for group in groups)
        for first, piece in read_base_pieces(file, base, others, groups=groups, whole=fits):
            at, count = first - start, piece.num_rows
            head, mask = heads.slice(at, count), stays[at : at + count]
            rows = self._to_stored_columns(piece, head)
            yield rows if mask.all() else rows.filter(pa.array(mask))

    def _pieces(self) -> Iterator[pa.Table]:
        """The rows so far, all of them."""
        schema, base = self._read_schema(), self.previous.slice.base
        if self.previous.slice.logs:
            yield from read_merged_pieces(self.previous, schema)
            return
        assert base is not None
        with open_base(self.previous.env, base) as file:
            for _, rows in read_base_pieces(file, base, schema, groups=None, whole=False):
                yield rows

    def _read_schema(self) -> pa.Schema:
        return pa.schema([f for f in self.context.read_rule.schema if f.name not in SAME_FOR_ALL])

    def _to_stored_columns(self, rows: pa.Table, *more: pa.Table) -> pa.Table:
        partition = self.previous.slice.group.partition
        return to_stored_columns(self.context.schema, partition, rows, *more)


def rows_to_add(changes: Changes) -> pa.Table:
    """The rows of changes that are no deletes."""
    if not changes.deleted.any():
        return changes.rows
    return changes.rows.filter(pa.array(~changes.deleted))


def _size(file: OpenParquet, group: int) -> int:
    """Bytes of a row group, not compressed."""
    return int(file.metadata.row_group(group).total_byte_size)


def _spans(file: OpenParquet) -> Iterator[tuple[list[int], int]]:
    """Row groups, some at a time if they are small, and the number of their first row."""
    groups: list[int] = []
    start = rows = 0
    for group in range(file.metadata.num_row_groups):
        groups.append(group)
        rows += file.metadata.row_group(group).num_rows
        if rows >= _KEYS_AT_ONCE:
            yield groups, start
            groups, start, rows = [], start + rows, 0
    if groups:
        yield groups, start


def _combine_pieces(pieces: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Pieces put together to larger ones: looking keys up has a price for each."""
    pending: list[pa.Table] = []
    pending_bytes = 0
    for piece in pieces:
        pending.append(piece)
        pending_bytes += piece.nbytes
        if pending_bytes >= _BYTES_AT_ONCE:
            yield pa.concat_tables(pending)
            pending, pending_bytes = [], 0
    if pending:
        yield pa.concat_tables(pending)
