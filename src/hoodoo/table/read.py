"""Reading rows: one file slice at a time, anywhere; `read_slice` is what executors run."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.engine.base import Engine
from hoodoo.errors import InputError
from hoodoo.model.files import FileSlice
from hoodoo.model.predicate import Predicate
from hoodoo.model.slices import Visibility
from hoodoo.rows.filter import expression
from hoodoo.table.base import ReadRule, SliceRead, read_base, rule_of
from hoodoo.table.merged import merged_rows
from hoodoo.table.snapshot import Snapshot


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
    wanted = pa.schema([rule.schema.field(name) for name in rule.columns])
    return pa.concat_tables([*tables, wanted.empty_table()]) if tables else wanted.empty_table()


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
    rule, slice_ = task.rule, task.slice
    if not slice_.logs:
        assert slice_.base is not None
        rows = read_base(task.env, slice_.base, rule, rule.needed(merging=False), prune=True)
    else:
        rows = merged_rows(task)
    if rule.filter is not None:
        rows = _filtered(rows, rule.filter, rule.schema)
    return rows.select(rule.columns)


def _filtered(rows: pa.Table, chosen: Predicate | pc.Expression, schema: pa.Schema) -> pa.Table:
    if not isinstance(chosen, pc.Expression):
        chosen = expression(chosen, schema)
    try:
        return rows.filter(chosen)
    except (pa.ArrowException, TypeError) as error:
        raise InputError(f"the filter cannot be applied: {error}") from None
