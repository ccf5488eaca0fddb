"""Planning a write whose rows are in this process: which file groups take which of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from hoodoo.format.schema import RECORD_KEY
from hoodoo.model.commit import OperationType
from hoodoo.model.merge import MergeRule
from hoodoo.rows import merge
from hoodoo.rows.merge import Changes
from hoodoo.write.assignment import Assignment, Target, assign
from hoodoo.write.locate import LocatedRows
from hoodoo.write.prepare import Incoming


@dataclass(frozen=True)
class PlannedWrite:
    """A planned write, and the rows of each file group by the number of its write."""

    assignment: Assignment
    changes: Mapping[int, Changes]


def plan(
    target: Target,
    operation: OperationType,
    schema: pa.Schema,
    incoming: Incoming,
    located: LocatedRows,
) -> PlannedWrite:
    """Share located rows out to the file groups that are written."""
    rule = target.ref.properties.merge
    if operation is OperationType.DELETE:
        changes = deletes_of(incoming.rows, incoming.keys, schema, rule)
    else:
        changes = upserts_of(incoming.rows, incoming.keys, rule)
    return plan_changes(target, operation, schema, changes, located)


def plan_changes(
    target: Target,
    operation: OperationType,
    schema: pa.Schema,
    changes: Changes,
    located: LocatedRows,
) -> PlannedWrite:
    """The same for changes, which may be of both kinds."""
    rule = target.ref.properties.merge
    if operation is not OperationType.DELETE and changes.deleted.any():
        # A row that is marked as deleted, and that nobody has, is no row.
        present = target.index.destinations(target.snapshot.slices()).keys()
        located = located.without_new(changes.deleted, present)
    assignment, assigned = assign(target, operation, schema, located.counts)
    leaving = located.route_leaving(assigned.routes)
    changes_by_write: dict[int, Changes] = {}
    for write, rows in located.route(assigned.routes).items():
        changes_by_write[write] = merge.take(changes, rows)
        if len(leaving[write]):
            keys = changes.keys.take(pa.array(leaving[write]))
            leaving_keys = merge.deletes(keys, changes.rows.schema, rule)
            changes_by_write[write] = merge.collapse([leaving_keys, changes_by_write[write]])
    return PlannedWrite(assignment, changes_by_write)


def upserts_of(rows: pa.Table, keys: pa.Array, rule: MergeRule) -> Changes:
    """Rows in the table's schema as changes that write them."""
    return merge.upserts(rows.append_column(RECORD_KEY, keys), keys, rule)


def deletes_of(rows: pa.Table, keys: pa.Array, schema: pa.Schema, rule: MergeRule) -> Changes:
    """Keys as changes that delete them; ordering values count where the rows have them."""
    ordering = merge.ordering_columns(rows, rule) if merge.has_ordering(rows.schema, rule) else ()
    stored = schema.append(pa.field(RECORD_KEY, pa.string()))
    return merge.deletes(keys, stored, rule, ordering)
