"""The change feed: what became of each row between two points of completion time.

It is the difference of the snapshots at both ends, by files: only file groups that a commit of the
window wrote, or took out, are read. Of those, first the columns that tell versions of rows apart: a
version that both ends have, in whatever file, is no change. Then whole rows, of the others.
Executors run `find_candidates` and `read_rows`; the driver opens the feed and joins their results.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.config.index import INDEX_TYPE
from hoodoo.errors import UnsupportedFeature
from hoodoo.format.schema import COMMIT_SEQNO, RECORD_KEY
from hoodoo.model.files import FileGroupId, FileSlice
from hoodoo.model.metadata_table import RECORD_INDEX
from hoodoo.model.predicate import All, Compare
from hoodoo.read.base_files import ReadRule, SliceReadTask
from hoodoo.read.change_feed.diff import (
    CHANGE_TYPE,
    INSERT,
    IS_AFTER,
    VERSION_COLUMNS,
    change_field,
    diff_rows,
    find_new_versions,
)
from hoodoo.read.change_feed.incremental import (
    choose_touched,
    keep_partitions,
    open_window,
    select_end,
)
from hoodoo.read.change_feed.window import (
    list_files,
    refuse_cleaned,
    resolve_end_schema,
    take_window_snapshot,
)
from hoodoo.read.log_files import find_logged_keys
from hoodoo.read.scan import (
    ScanSelection,
    apply_filter,
    build_scan_rule,
    read_slice,
    read_unfiltered_pieces,
    slice_reads,
    to_expression,
)
from hoodoo.read.snapshot import Snapshot
from hoodoo.rows import arrays
from hoodoo.rows.arrays import Flags
from hoodoo.rows.filter import to_predicate
from hoodoo.runtime.engine import Engine
from hoodoo.table.ref import TableRef

# -- candidates and their rows ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SlicePair:
    """A file group at both ends of a window; None where it is not there."""

    before: SliceReadTask | None
    after: SliceReadTask | None

    @property
    def sides(self) -> tuple[SliceReadTask | None, SliceReadTask | None]:
        """Both ends."""
        return self.before, self.after

    @property
    def partition(self) -> str:
        """Where the file group is."""
        return next(side.slice.group.partition for side in self.sides if side is not None)

    @property
    def size_bytes(self) -> int:
        """The bytes of its files, at both ends."""
        return sum(side.size_bytes for side in self.sides if side is not None)

    @property
    def is_unchanged(self) -> bool:
        """Whether it has the same files at both ends, and nobody appends to them."""
        if self.before is None or self.after is None:
            return self.before is self.after
        return self.before.slice == self.after.slice and not self.after.rule.tolerates_cut_logs

    def added_logs(self) -> SliceReadTask | None:
        """The logs that were added, if nothing else changed."""
        before, after = self.before, self.after
        if before is None or after is None or after.rule.tolerates_cut_logs:
            return None
        old, new = before.slice, after.slice
        if old.base != new.base or not set(old.logs) <= set(new.logs):
            return None
        new_logs = tuple(log for log in new.logs if log not in old.logs)
        return replace(after, slice=FileSlice(new.group, new.base_time, None, new_logs))


@dataclass(frozen=True, slots=True)
class ChangedVersions:
    """Versions of rows that one end of a window has in a file group, and the other has not.

    Each is a table of `VERSION_COLUMNS`, or None for an end at which the file group is not there.
    Where only logs were added, there are just the keys that they are about.
    """

    before: pa.Table | None = None
    after: pa.Table | None = None
    keys: pa.Array | None = None


@dataclass(frozen=True, slots=True)
class ReadRowsTask:
    """Some rows of one end of a window: what a task gets."""

    read: SliceReadTask
    keys: pa.Array
    versions: pa.Array | None
    """Sequence numbers, where a key alone does not tell: a table may have one twice."""
    is_after: bool

    @property
    def size_bytes(self) -> int:
        """The bytes of its files."""
        return self.read.size_bytes


def find_candidates(pair: SlicePair) -> ChangedVersions:
    """Which rows may have changed, by the columns that tell their versions apart."""
    logs = pair.added_logs()
    if logs is not None:
        return ChangedVersions(keys=find_logged_keys(logs))
    before, after = (None if side is None else _read_versions(side) for side in pair.sides)
    if before is None or after is None:
        return ChangedVersions(before, after)
    is_gone, is_new = find_new_versions(before, after)
    return ChangedVersions(before.filter(pa.array(is_gone)), after.filter(pa.array(is_new)))


def _read_versions(read: SliceReadTask) -> pa.Table:
    rule = replace(read.rule, columns=VERSION_COLUMNS, filter=None)
    return read_slice(replace(read, rule=rule))


def drop_moved(candidates: Sequence[ChangedVersions]) -> list[ChangedVersions]:
    """The candidates without versions that only moved from one file group to another."""
    olds, news = [one.before for one in candidates], [one.after for one in candidates]
    before, after = _join(olds), _join(news)
    is_gone, is_new = find_new_versions(before, after)
    remainders = zip(
        _split(olds, before, is_gone), _split(news, after, is_new), candidates, strict=True
    )
    return [ChangedVersions(old, new, one.keys) for old, new, one in remainders]


def _join(tables: Sequence[pa.Table | None]) -> pa.Table:
    empty = pa.schema([(name, pa.string()) for name in VERSION_COLUMNS]).empty_table()
    return pa.concat_tables([empty, *(table for table in tables if table is not None)])


def _split(
    tables: Sequence[pa.Table | None], joined_rows: pa.Table, stays: Flags
) -> list[pa.Table | None]:
    parts: list[pa.Table | None] = []
    begin = 0
    for table in tables:
        if table is None:
            parts.append(None)
            continue
        end = begin + table.num_rows
        parts.append(joined_rows.slice(begin, table.num_rows).filter(pa.array(stays[begin:end])))
        begin = end
    return parts


def rows_to_read(
    pairs: Sequence[SlicePair], candidates: Sequence[ChangedVersions]
) -> list[ReadRowsTask]:
    """The reads of whole rows that candidates take."""
    reads = []
    for pair, candidate in zip(pairs, candidates, strict=True):
        for side, heads, is_after in zip(
            pair.sides, (candidate.before, candidate.after), (False, True), strict=True
        ):
            if side is None:
                continue
            if candidate.keys is not None:
                read = ReadRowsTask(side, candidate.keys, None, is_after)
            else:
                assert heads is not None
                keys, versions = map(arrays.one_array, (heads[RECORD_KEY], heads[COMMIT_SEQNO]))
                read = ReadRowsTask(side, keys, versions, is_after)
            if len(read.keys):
                reads.append(read)
    return reads


def read_rows(task: ReadRowsTask) -> pa.Table:
    """The rows, whole, and of which end they are."""
    rule = task.read.rule
    pieces = [rule.schema.empty_table()]
    read = replace(task.read, rule=_bound_keys(task))
    for piece in read_unfiltered_pieces(read, rule.schema, whole=False):
        row_filter = pc.is_in(piece[RECORD_KEY], value_set=task.keys)
        if task.versions is not None:
            row_filter = pc.and_(row_filter, pc.is_in(piece[COMMIT_SEQNO], value_set=task.versions))
        pieces.append(piece.filter(row_filter))
    rows = pa.concat_tables(pieces)
    if rule.filter is not None:
        rows = apply_filter(rows, to_expression(rule.filter, rule.schema))
    return rows.append_column(IS_AFTER, pa.repeat(task.is_after, rows.num_rows))


def _bound_keys(task: ReadRowsTask) -> ReadRule:
    """A rule that leaves out row groups whose keys are all smaller or larger."""
    rule = task.read.rule
    if isinstance(rule.filter, pc.Expression):
        return rule
    bounds = pc.min_max(task.keys)
    ends = ((">=", bounds["min"].as_py()), ("<=", bounds["max"].as_py()))
    terms = [Compare(RECORD_KEY, op, value) for op, value in ends]
    present = () if rule.filter is None else (rule.filter,)
    return replace(rule, filter=All((*present, *terms)))


def read_changed_rows(pair: SlicePair) -> list[pa.Table]:
    """Whole rows of a file group that may have changed, of both ends."""
    return [read_rows(task) for task in rows_to_read([pair], [find_candidates(pair)])]


# -- opening and reading a feed -----------------------------------------------------------------


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
class ChangeFeed:
    """What there is to read: the file groups that changed, or all rows as inserts."""

    rule: DiffRule
    pairs: tuple[SlicePair, ...]
    inserts: ScanSelection | None
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


def open_change_feed(
    ref: TableRef,
    *,
    since: str,
    until: str | None = None,
    columns: Sequence[str] | None = None,
    filter: Any = None,
    before: bool = False,
) -> ChangeFeed:
    """What a user asks for, found in the table.

    Bounds are those of `select_changes`. A filter counts for both ends: a row that comes to match
    it is an insert, one that ceases to is a delete.
    """
    names = None if columns is None else [name for name in columns if name != CHANGE_TYPE]
    window = open_window(ref, since=since, until=until, columns=columns)
    schema = resolve_end_schema(window)
    if CHANGE_TYPE in schema.names:
        raise UnsupportedFeature(f"the table has a column of its own that is named {CHANGE_TYPE}")
    condition = None if filter is None else to_predicate(filter, schema)
    is_global = has_global_keys(ref)
    if window.after is None:
        inserts = select_end(window, schema, names or None, condition)
        rule = DiffRule(_named(names, schema), schema, not is_global, before)
        return ChangeFeed(rule, (), inserts, moves_rows=False)
    touched_groups = choose_touched(window, window.written | window.replaced, schema, condition)
    files = list_files(window, keep_partitions(touched_groups))
    ends = [
        take_window_snapshot(window, files, moment, schema)
        for moment in (window.after, window.last)
    ]
    for end in ends:
        refuse_cleaned(window, files, end, touched_groups)
    build_scan_rule(ends[1], columns=names)
    rows = build_scan_rule(ends[1], filter=condition)
    pairs = _pair_slices(ends, rows, touched_groups)
    rule = DiffRule(_named(names, schema), schema, not is_global, before)
    return ChangeFeed(rule, pairs, None, moves_rows=is_global or window.moves_rows)


def _named(names: Sequence[str] | None, schema: pa.Schema) -> tuple[str, ...]:
    return tuple(schema.names if names is None else names)


def has_global_keys(ref: TableRef) -> bool:
    """Whether a key is in one partition only, by the index that the settings or the table name."""
    index_types = (
        ref.config.values.get(name, "") for name in (INDEX_TYPE.name, *INDEX_TYPE.aliases)
    )
    has_record_index = RECORD_INDEX in ref.properties.metadata_partitions
    return has_record_index or any(name.upper() in _GLOBAL for name in index_types)


def _pair_slices(
    ends: Sequence[Snapshot], rule: ReadRule, touched_groups: frozenset[FileGroupId]
) -> tuple[SlicePair, ...]:
    """The touched file groups at both ends."""
    sides = []
    for end in ends:
        slices = [one for one in end.slices() if one.group in touched_groups]
        reads = slice_reads(end, rule, slices)
        sides.append({read.slice.group: read for read in reads})
    ids = sorted({*sides[0], *sides[1]}, key=lambda group: (group.partition, group.file_id))
    pairs = (SlicePair(sides[0].get(group), sides[1].get(group)) for group in ids)
    return tuple(pair for pair in pairs if not pair.is_unchanged)


def read_feed(feed: ChangeFeed, engine: Engine) -> pa.Table:
    """The changes.

    Order: the columns that tell versions apart, of all file groups; then rows of new versions.
    """
    if feed.inserts is not None:
        rows = feed.inserts.read(engine)
        return rows.append_column(change_field(), pa.repeat(INSERT, rows.num_rows))
    alone, others = feed.split()
    candidates = engine.map(find_candidates, alone)
    candidates += drop_moved(engine.map(find_candidates, others))
    row_tables = engine.map(read_rows, rows_to_read([*alone, *others], candidates))
    return feed.rule.diff(pa.concat_tables([feed.rule.input_schema.empty_table(), *row_tables]))
