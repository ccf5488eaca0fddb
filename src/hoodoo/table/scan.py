"""Reading a whole table: what a user asks for -> slices -> rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hoodoo.engine.engine import Engine
from hoodoo.errors import InputError
from hoodoo.format.schema import without_meta_fields
from hoodoo.model.files import FileSlice
from hoodoo.model.lister import Keep, everything
from hoodoo.rows.filter import to_predicate
from hoodoo.table.file_index import FileIndex
from hoodoo.table.read import Selection, read_rule
from hoodoo.table.ref import TableRef
from hoodoo.table.snapshot import Snapshot, partition_pruner, take_snapshot

MODES = ("snapshot", "read_optimized")


def scan(
    ref: TableRef,
    engine: Engine,
    *,
    columns: Sequence[str] | None = None,
    filter: Any = None,
    as_of: str | None = None,
    mode: str = "snapshot",
) -> pa.Table:
    """The rows of a table; partitions and row groups that cannot match are not read."""
    selection = select(ref, columns=columns, filter=filter, as_of=as_of, mode=mode, engine=engine)
    return selection.read(engine)


def select(
    ref: TableRef,
    *,
    columns: Sequence[str] | None = None,
    filter: Any = None,
    as_of: str | None = None,
    mode: str = "snapshot",
    meta: bool = True,
    engine: Engine | None = None,
) -> Selection:
    """What a user asks for, found in the table; files that cannot match are left out.

    Without `columns` that is all columns, of which meta columns only with `meta`. The metadata
    table is read on the engine, if there is one.
    """
    if mode not in MODES:
        raise InputError(f"mode is one of {', '.join(MODES)}, not {mode!r}")
    if isinstance(columns, str):
        raise InputError("columns is a list of names, not a text")

    def prune(schema: pa.Schema) -> Keep:
        condition = None if filter is None else to_predicate(filter, schema)
        if condition is None or isinstance(condition, pc.Expression):
            return everything
        return partition_pruner(condition, ref.properties.keys, schema)

    timeline = ref.load_timeline()
    index = FileIndex(ref, timeline, engine)
    snapshot = take_snapshot(ref, timeline=timeline, as_of=as_of, prune=prune, lister=index)
    slices = snapshot.slices()
    if mode == "read_optimized":
        slices = [base for slice_ in slices if (base := _without_logs(slice_))]
    condition = None if filter is None else to_predicate(filter, snapshot.schema)
    if columns is None and not meta:
        columns = without_meta_fields(snapshot.schema).names or None
    rule = read_rule(snapshot, columns=columns, filter=condition)
    if condition is not None and not isinstance(condition, pc.Expression):
        slices = index.prune(slices, condition, snapshot.schema, snapshot.timeline)
    return Selection(snapshot, rule, tuple(slices))


def select_in(snapshot: Snapshot, filter: Any = None, engine: Engine | None = None) -> Selection:
    """The same in a snapshot that was taken before, for those who write what they have read."""
    ref, schema, slices = snapshot.ref, snapshot.schema, snapshot.slices()
    condition = None if filter is None else to_predicate(filter, schema)
    rule = read_rule(snapshot, filter=condition)
    if condition is not None and not isinstance(condition, pc.Expression):
        keep = partition_pruner(condition, ref.properties.keys, schema)
        slices = [slice_ for slice_ in slices if keep(slice_.group.partition, whole=True)]
        index = FileIndex(ref, snapshot.timeline, engine)
        slices = index.prune(slices, condition, schema, snapshot.timeline)
    return Selection(snapshot, rule, tuple(slices))


def _without_logs(slice_: FileSlice) -> FileSlice | None:
    return FileSlice(slice_.group, slice_.base_time, slice_.base) if slice_.base else None
