"""Reading rows: one file slice at a time, anywhere; `read_slice` is what executors run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.engine.engine import Engine
from hoodoo.errors import InputError
from hoodoo.model.files import FileSlice
from hoodoo.model.predicate import Predicate
from hoodoo.model.slices import Visibility
from hoodoo.rows.filter import expression
from hoodoo.table.merged import merged_pieces
from hoodoo.table.read_rule import (
    ReadRule,
    SliceRead,
    base_pieces,
    matching_groups,
    open_base,
    rule_of,
)
from hoodoo.table.snapshot import Snapshot


@dataclass(frozen=True)
class Selection:
    """What a read is about: a view of the table, how to read it, and which of its slices."""

    snapshot: Snapshot
    rule: ReadRule
    slices: tuple[FileSlice, ...]

    @property
    def schema(self) -> pa.Schema:
        """The columns asked for."""
        return _asked(self.rule).schema

    def read(self, engine: Engine) -> pa.Table:
        """The rows."""
        return read_rows_of(self.snapshot, self.rule, engine, self.slices)


def read_rule(
    snapshot: Snapshot,
    *,
    columns: Sequence[str] | None = None,
    filter: Predicate | pc.Expression | None = None,
) -> ReadRule:
    """How to read these columns of a snapshot; unknown columns are an `InputError`."""
    schema = snapshot.schema
    if columns is not None and not columns:
        raise InputError("columns names no column")
    for name in columns or ():
        if name not in schema.names:
            raise InputError(f"unknown column {name!r}; there are {schema.names}")
    wanted = tuple(schema.names if columns is None else columns)
    return rule_of(snapshot.ref.properties, schema, wanted, filter)


def read_rows_of(
    snapshot: Snapshot, rule: ReadRule, engine: Engine, slices: Sequence[FileSlice]
) -> pa.Table:
    """The rows of these slices, filtered, in the columns asked for."""
    tables = engine.map(read_slice, slice_reads(snapshot, rule, slices))
    return pa.concat_tables([*tables, _asked(rule)]) if tables else _asked(rule)


def slice_reads(snapshot: Snapshot, rule: ReadRule, slices: Sequence[FileSlice]) -> list[SliceRead]:
    """Tasks to read these slices by a rule."""
    return [SliceRead(snapshot.ref.env, s, rule, _relevant(snapshot, s)) for s in slices]


def _relevant(snapshot: Snapshot, slice_: FileSlice) -> Visibility:
    """What a task must know of the timeline: of newer versions, only its own log files."""
    if not snapshot.ref.properties.version.slices_by_completion:
        return snapshot.visibility
    times = {log.name.instant_time for log in slice_.logs}
    return Visibility({time: time for time in times})


def read_slice(task: SliceRead) -> pa.Table:
    """Rows of one slice: base file merged with logs, filtered, in the columns asked for."""
    pieces = list(slice_pieces(task, whole=True))
    return pieces[0] if len(pieces) == 1 else pa.concat_tables([*pieces, _asked(task.rule)])


def slice_pieces(task: SliceRead, *, whole: bool = False) -> Iterator[pa.Table]:
    """As `read_slice`, piece by piece: a base file is not in memory as a whole."""
    rule, shown = task.rule, task.rule.needed(merging=False)
    chosen = None if rule.filter is None else _expression(rule.filter, rule.schema)
    for rows in _all_pieces(task, shown, whole=whole):
        kept = rows if chosen is None else _filtered(rows, chosen)
        if kept.num_rows:
            yield kept.select(rule.columns)


def _all_pieces(task: SliceRead, shown: pa.Schema, *, whole: bool) -> Iterator[pa.Table]:
    base = task.slice.base
    if task.slice.logs:
        yield from merged_pieces(task, shown, whole=whole)
        return
    assert base is not None
    with open_base(task.env, base) as file:
        groups = matching_groups(file, task.rule, shown)
        for _, rows in base_pieces(file, base, shown, groups=groups, whole=whole):
            yield rows


def _expression(given: Predicate | pc.Expression, schema: pa.Schema) -> pc.Expression:
    return given if isinstance(given, pc.Expression) else expression(given, schema)


def _asked(rule: ReadRule) -> pa.Table:
    """No rows, in the columns asked for."""
    return pa.schema([rule.schema.field(name) for name in rule.columns]).empty_table()


def _filtered(rows: pa.Table, chosen: pc.Expression) -> pa.Table:
    try:
        return rows.filter(chosen)
    except (pa.ArrowException, TypeError) as error:
        raise InputError(f"the filter cannot be applied: {error}") from None
