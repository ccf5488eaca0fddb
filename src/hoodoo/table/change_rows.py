"""Rows of a file group that may have changed between the ends of a window: what executors run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.format.schema import COMMIT_SEQNO, RECORD_KEY
from hoodoo.model.files import FileSlice
from hoodoo.model.predicate import All, Compare
from hoodoo.rows import merge
from hoodoo.rows.diff import IS_AFTER, VERSION_COLUMNS, find_new_versions
from hoodoo.rows.merge import Flags
from hoodoo.table.log_changes import find_logged_keys
from hoodoo.table.read import (
    apply_filter,
    read_slice,
    read_unfiltered_pieces,
    to_expression,
)
from hoodoo.table.read_rule import ReadRule, SliceRead


@dataclass(frozen=True, slots=True)
class SlicePair:
    """A file group at both ends of a window; None where it is not there."""

    before: SliceRead | None
    after: SliceRead | None

    @property
    def sides(self) -> tuple[SliceRead | None, SliceRead | None]:
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

    def added_logs(self) -> SliceRead | None:
        """The logs that were added, if nothing else changed."""
        before, after = self.before, self.after
        if before is None or after is None or after.rule.tolerates_cut_logs:
            return None
        old, new = before.slice, after.slice
        if old.base != new.base or not set(old.logs) <= set(new.logs):
            return None
        added = tuple(log for log in new.logs if log not in old.logs)
        return replace(after, slice=FileSlice(new.group, new.base_time, None, added))


@dataclass(frozen=True, slots=True)
class Candidates:
    """Versions of rows that one end of a window has in a file group, and the other has not.

    Each is a table of `VERSION_COLUMNS`, or None for an end at which the file group is not there.
    Where only logs were added, there are just the keys that they are about.
    """

    before: pa.Table | None = None
    after: pa.Table | None = None
    keys: pa.Array | None = None


@dataclass(frozen=True, slots=True)
class RowsRead:
    """Some rows of one end of a window: what a task gets."""

    read: SliceRead
    keys: pa.Array
    versions: pa.Array | None
    """Sequence numbers, where a key alone does not tell: a table may have one twice."""
    is_after: bool

    @property
    def size_bytes(self) -> int:
        """The bytes of its files."""
        return self.read.size_bytes


def find_candidates(pair: SlicePair) -> Candidates:
    """Which rows may have changed, by the columns that tell their versions apart."""
    logs = pair.added_logs()
    if logs is not None:
        return Candidates(keys=find_logged_keys(logs))
    before, after = (None if side is None else _read_versions(side) for side in pair.sides)
    if before is None or after is None:
        return Candidates(before, after)
    is_gone, is_new = find_new_versions(before, after)
    return Candidates(before.filter(pa.array(is_gone)), after.filter(pa.array(is_new)))


def _read_versions(read: SliceRead) -> pa.Table:
    rule = replace(read.rule, columns=VERSION_COLUMNS, filter=None)
    return read_slice(replace(read, rule=rule))


def drop_moved(candidates: Sequence[Candidates]) -> list[Candidates]:
    """The candidates without versions that only moved from one file group to another."""
    olds, news = [one.before for one in candidates], [one.after for one in candidates]
    before, after = _join(olds), _join(news)
    is_gone, is_new = find_new_versions(before, after)
    left = zip(_split(olds, before, is_gone), _split(news, after, is_new), candidates, strict=True)
    return [Candidates(old, new, one.keys) for old, new, one in left]


def _join(tables: Sequence[pa.Table | None]) -> pa.Table:
    empty = pa.schema([(name, pa.string()) for name in VERSION_COLUMNS]).empty_table()
    return pa.concat_tables([empty, *(table for table in tables if table is not None)])


def _split(
    tables: Sequence[pa.Table | None], joined: pa.Table, stays: Flags
) -> list[pa.Table | None]:
    parts: list[pa.Table | None] = []
    begin = 0
    for table in tables:
        if table is None:
            parts.append(None)
            continue
        end = begin + table.num_rows
        parts.append(joined.slice(begin, table.num_rows).filter(pa.array(stays[begin:end])))
        begin = end
    return parts


def rows_to_read(pairs: Sequence[SlicePair], candidates: Sequence[Candidates]) -> list[RowsRead]:
    """The reads of whole rows that candidates take."""
    reads = []
    for pair, found in zip(pairs, candidates, strict=True):
        for side, heads, is_after in zip(
            pair.sides, (found.before, found.after), (False, True), strict=True
        ):
            if side is None:
                continue
            if found.keys is not None:
                read = RowsRead(side, found.keys, None, is_after)
            else:
                assert heads is not None
                keys, versions = map(merge.one_array, (heads[RECORD_KEY], heads[COMMIT_SEQNO]))
                read = RowsRead(side, keys, versions, is_after)
            if len(read.keys):
                reads.append(read)
    return reads


def read_rows(task: RowsRead) -> pa.Table:
    """The rows, whole, and of which end they are."""
    rule = task.read.rule
    pieces = [rule.schema.empty_table()]
    read = replace(task.read, rule=_bound_keys(task))
    for piece in read_unfiltered_pieces(read, rule.schema, whole=False):
        wanted = pc.is_in(piece[RECORD_KEY], value_set=task.keys)
        if task.versions is not None:
            wanted = pc.and_(wanted, pc.is_in(piece[COMMIT_SEQNO], value_set=task.versions))
        pieces.append(piece.filter(wanted))
    rows = pa.concat_tables(pieces)
    if rule.filter is not None:
        rows = apply_filter(rows, to_expression(rule.filter, rule.schema))
    return rows.append_column(IS_AFTER, pa.repeat(task.is_after, rows.num_rows))


def _bound_keys(task: RowsRead) -> ReadRule:
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
