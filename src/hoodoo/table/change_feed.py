"""The change feed: what became of each row between two points of completion time.

It is the difference of the snapshots at both ends, by files: only file groups that a commit of the
window wrote, or took out, are read. Of those, first the columns that tell versions of rows apart:
a version that both ends have, in whatever file, is no change. Then whole rows, of the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from hoodoo.config.index import INDEX_TYPE
from hoodoo.engine.engine import Engine
from hoodoo.errors import Unsupported
from hoodoo.model.files import FileGroupId
from hoodoo.model.metadata_table import RECORD_INDEX
from hoodoo.rows.diff import CHANGE_TYPE, INSERT, IS_AFTER, change_field, diff_rows
from hoodoo.rows.filter import to_predicate
from hoodoo.table.change_rows import (
    SlicePair,
    drop_moved,
    find_candidates,
    read_rows,
    rows_to_read,
)
from hoodoo.table.change_views import (
    list_files,
    refuse_cleaned,
    resolve_end_schema,
    take_view,
)
from hoodoo.table.changes import choose_touched, keep_partitions, open_window, select_end
from hoodoo.table.read import Selection, read_rule, slice_reads
from hoodoo.table.read_rule import ReadRule
from hoodoo.table.ref import TableRef
from hoodoo.table.snapshot import Snapshot

_GLOBAL = frozenset(
    {"GLOBAL_SIMPLE", "GLOBAL_BLOOM", "RECORD_INDEX", "GLOBAL_RECORD_LEVEL_INDEX", "HBASE"}
)


@dataclass(frozen=True, slots=True)
class DiffRule:
    """How rows of both ends become changes."""

    columns: tuple[str, ...]
    schema: pa.Schema
    by_partition: bool
    """Whether a key may be in several partitions: then each is a row of its own."""
    with_before: bool

    @property
    def result_schema(self) -> pa.Schema:
        """The columns asked for, and the one that says what became of a row."""
        return pa.schema([*(self.schema.field(name) for name in self.columns), change_field()])

    @property
    def input_schema(self) -> pa.Schema:
        """Whole rows, told apart by where they are from."""
        return self.schema.append(pa.field(IS_AFTER, pa.bool_()))

    def diff(self, rows: pa.Table) -> pa.Table:
        """The changes that rows of both ends make up."""
        return diff_rows(
            rows, self.columns, by_partition=self.by_partition, with_before=self.with_before
        )


@dataclass(frozen=True, slots=True)
class Feed:
    """What there is to read: the file groups that changed, or all rows as inserts."""

    rule: DiffRule
    pairs: tuple[SlicePair, ...]
    inserts: Selection | None
    """Set if the window has no begin: everything is new."""
    moves_rows: bool
    """Whether a row may have left one of the file groups for another."""

    def split(self) -> tuple[list[SlicePair], list[SlicePair]]:
        """Pairs that no row can have left for another, nor come from one; and all others."""
        if not self.moves_rows:
            return list(self.pairs), []
        scopes = [pair.partition if self.rule.by_partition else "" for pair in self.pairs]
        counts = Counter(scopes)
        alone = [pair for pair, scope in zip(self.pairs, scopes, strict=True) if counts[scope] == 1]
        others = [pair for pair, scope in zip(self.pairs, scopes, strict=True) if counts[scope] > 1]
        return alone, others


def select_feed(
    ref: TableRef,
    *,
    since: str,
    until: str | None = None,
    columns: Sequence[str] | None = None,
    filter: Any = None,
    before: bool = False,
) -> Feed:
    """What a user asks for, found in the table.

    Bounds are those of `select_changes`. A filter counts for both ends: a row that comes to match
    it is an insert, one that ceases to is a delete.
    """
    names = None if columns is None else [name for name in columns if name != CHANGE_TYPE]
    window = open_window(ref, since=since, until=until, columns=columns)
    schema = resolve_end_schema(window)
    if CHANGE_TYPE in schema.names:
        raise Unsupported(f"the table has a column of its own that is named {CHANGE_TYPE}")
    condition = None if filter is None else to_predicate(filter, schema)
    is_global = has_global_keys(ref)
    if window.after is None:
        inserts = select_end(window, schema, names or None, condition)
        rule = DiffRule(_named(names, schema), schema, not is_global, before)
        return Feed(rule, (), inserts, moves_rows=False)
    touched = choose_touched(window, window.written | window.replaced, schema, condition)
    files = list_files(window, keep_partitions(touched))
    ends = [take_view(window, files, moment, schema) for moment in (window.after, window.last)]
    for end in ends:
        refuse_cleaned(window, files, end, touched)
    read_rule(ends[1], columns=names)
    rows = read_rule(ends[1], filter=condition)
    pairs = _pair_slices(ends, rows, touched)
    rule = DiffRule(_named(names, schema), schema, not is_global, before)
    return Feed(rule, pairs, None, moves_rows=is_global or window.moves_rows)


def _named(names: Sequence[str] | None, schema: pa.Schema) -> tuple[str, ...]:
    return tuple(schema.names if names is None else names)


def has_global_keys(ref: TableRef) -> bool:
    """Whether a key is in one partition only, by the index that the settings or the table name."""
    named = (ref.config.values.get(name, "") for name in (INDEX_TYPE.name, *INDEX_TYPE.aliases))
    has_record_index = RECORD_INDEX in ref.properties.metadata_partitions
    return has_record_index or any(name.upper() in _GLOBAL for name in named)


def _pair_slices(
    ends: Sequence[Snapshot], rule: ReadRule, touched: frozenset[FileGroupId]
) -> tuple[SlicePair, ...]:
    """The touched file groups at both ends."""
    sides = []
    for end in ends:
        slices = [one for one in end.slices() if one.group in touched]
        reads = slice_reads(end, rule, slices)
        sides.append({read.slice.group: read for read in reads})
    ids = sorted({*sides[0], *sides[1]}, key=lambda group: (group.partition, group.file_id))
    pairs = (SlicePair(sides[0].get(group), sides[1].get(group)) for group in ids)
    return tuple(pair for pair in pairs if not pair.is_unchanged)


def read_feed(feed: Feed, engine: Engine) -> pa.Table:
    """The changes.

    Order: the columns that tell versions apart, of all file groups; then rows of new versions.
    """
    if feed.inserts is not None:
        rows = feed.inserts.read(engine)
        return rows.append_column(change_field(), pa.repeat(INSERT, rows.num_rows))
    alone, others = feed.split()
    candidates = engine.map(find_candidates, alone)
    candidates += drop_moved(engine.map(find_candidates, others))
    found = engine.map(read_rows, rows_to_read([*alone, *others], candidates))
    return feed.rule.diff(pa.concat_tables([feed.rule.input_schema.empty_table(), *found]))
